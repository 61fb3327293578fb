"""The sandbox: what an answer in it sees, what it may use, and what of it comes out."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import unrolled
from unrolled_book import exercises
from unrolled_book.coursework import sandbox_files
from unrolled_book.coursework.handed_in import Result, read_result
from unrolled_book.coursework.sandbox import Limits, Sandbox, SandboxMissing
from unrolled_book.coursework.syscalls import refusing_filter
from unrolled_book.exercises.engine.marking import mark
from unrolled_book.exercises.engine.wire import decode, encode

pytestmark = pytest.mark.skipif(
    os.environ.get("UNROLLED_NO_SANDBOX") == "1", reason="UNROLLED_NO_SANDBOX=1"
)


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox.find()


def value_of(sandbox: Sandbox, body: str, **options):
    """What the body of a function `f(x)` returns in the sandbox for x = 3."""
    program = "def f(x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    result = sandbox.run(program, "f", [encode((3,))], **options)
    assert result.outcomes, result.problem
    outcome = result.outcomes[0]
    return decode(outcome["value"]) if "value" in outcome else outcome["error"]["type"]


def test_an_answer_gets_its_arguments_and_its_value_comes_out(sandbox):
    calls = [encode((1, [2.5])), encode((4, [0.5]))]
    result = sandbox.run("def f(a, b):\n    b.append(1)\n    return a + b[0]", "f", calls)
    assert result.outcomes == [{"value": 3.5, "mutated": [1]}, {"value": 4.5, "mutated": [1]}]
    assert (result.problem, 0 < result.seconds < 5) == ("", True)


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("g = 1", "the program defines no `f`"),
        ("f = 1", "`f` is a thing of type int, not a function or a class"),
        ("1 / 0", "the program stops with ZeroDivisionError: division by zero (line 1: `1 / 0`)"),
        ("f = (", "the program stops with SyntaxError: '(' was never closed (line 1: `f = (`)"),
        ("def f(x):\n    while True: pass", "the answer did not finish within 1 s of CPU time"),
        ("def f(x):\n    import os; os._exit(0)", "the answer ended the process (exit)"),
    ],
)
def test_what_keeps_an_answer_from_answering_is_said(sandbox, program, problem):
    result = sandbox.run(program, "f", [encode((1,))], limits=Limits(cpu_seconds=1))
    assert (result.outcomes, result.problem) == (None, problem)


def test_the_library_is_there_only_where_it_is_asked_for_and_never_with_its_teaching(sandbox):
    teaching = "import unrolled_book"
    lower = "import unrolled.models.ngram, unrolled.data.bpe\nreturn 1"
    assert value_of(sandbox, lower) == "ModuleNotFoundError"
    assert value_of(sandbox, teaching) == "ModuleNotFoundError"
    assert value_of(sandbox, lower, library=True) == 1
    assert value_of(sandbox, teaching, library=True) == "ModuleNotFoundError"


def test_every_kind_of_use_finds_what_it_needs(sandbox):
    """The names of those whose right answer is not marked as right."""
    wrong = []
    for name in USES:
        exercise = exercises.load(name)
        calls = exercise.calls(3)
        result = sandbox.run(
            f"import numpy as np\n{exercise.solution_source}",
            exercise.name,
            [encode(call.args) for call in calls],
            use_source=exercise.use_source,
        )
        if not result.outcomes or mark(exercise, calls, result.outcomes).state != "passed":
            wrong.append((name, result.problem))
    assert not wrong


USES = [
    "c06_depth/start_variance",
    "c06_depth/insert_layer",
    "c07_backprop/tape_gradients",
    "c07_backprop/softmax_vjp",
    "c07b_gradients/worst_entry",
    "c16_multihead/grouped_heads",
    "c22_scale/layers_to_hear",
]


def test_a_memory_limit_is_an_error_of_the_answer_and_scipy_fits_below_it(sandbox):
    assert value_of(sandbox, "return [0] * 10**9") == "MemoryError"
    body = "import scipy.stats, scipy.special\nreturn float(scipy.special.expit(0.0))"
    assert value_of(sandbox, body) == 0.5


def test_grading_again_gives_the_same_outcomes(sandbox):
    body = "import random\nimport numpy as np\nnames = set('abcdefghij')"
    body += "\nreturn [random.random(), np.random.rand(), hash('a'), ''.join(names)]"
    assert value_of(sandbox, body) == value_of(sandbox, body)


def test_many_answers_may_run_at_once(sandbox):
    with ThreadPoolExecutor(4) as pool:
        bodies = [f"return {i} * x" for i in range(8)]
        assert list(pool.map(lambda body: value_of(sandbox, body), bodies)) == [
            3 * i for i in range(8)
        ]


def test_torch_is_there_only_where_it_is_asked_for(sandbox):
    body = "import torch\nreturn torch.arange(3.0).sum()"
    assert value_of(sandbox, body) == "ModuleNotFoundError"
    assert value_of(sandbox, body, torch=True).item() == 3.0


def test_the_memory_limit_does_not_count_the_address_space_of_torch(sandbox):
    body = "import torch\nreturn torch.arange(3.0).sum()"
    little = Limits(memory_bytes=2**28)
    assert value_of(sandbox, body, torch=True, limits=little).item() == 3.0


# ---- nothing is left -----------------------------------------------------------------------------


def below(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        for path in Path(f"/proc/{each}/task").glob("*/children"):
            found += map(int, path.read_text().split())
    return found[1:]


def namespaces() -> dict[int, str]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/ns/pid"):
        try:
            found[int(path.parts[2])] = os.readlink(path)
        except OSError:
            continue
    return found


def test_no_process_of_an_answer_is_left(sandbox):
    program = """
import ctypes, os, time
for _ in range(5):
    if not os.fork():
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
        os.setsid()
        time.sleep(1000)
def f(x):
    time.sleep(1000)
"""
    results, before = [], set(below(os.getpid()))

    def grade():
        limits = Limits(wall_seconds=2.0)
        results.append(sandbox.run(program, "f", [encode((1,))], limits=limits))

    thread = threading.Thread(target=grade)
    thread.start()
    mine, seen = os.readlink("/proc/self/ns/pid"), set()
    while thread.is_alive():
        known = namespaces()
        seen |= {known.get(pid, mine) for pid in set(below(os.getpid())) - before}
        time.sleep(0.05)
    assert results[0].problem == "the answer did not finish within 2 s"
    assert len(seen - {mine}) >= 1
    left = [pid for pid, space in namespaces().items() if space in seen - {mine}]
    assert not [p for p in left if "State:\tZ" not in Path(f"/proc/{p}/status").read_text()], left


def test_the_grader_does_not_grow(sandbox):
    descriptors = len(os.listdir("/proc/self/fd"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(5):
        result = sandbox.run("def f(x): return 'x' * 10**7", "f", [encode((1,))])
        assert result.problem == "the answer handed in more than 8 MB"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000  # kilobytes
    assert len(os.listdir("/proc/self/fd")) == descriptors


# ---- what is handed in ---------------------------------------------------------------------------

RIGHT = b'{"value": 1, "mutated": []}\n'
LAST = b'{"seconds": 0.5}\n'


@pytest.mark.parametrize(
    ("data", "problem", "values"),
    [
        (RIGHT * 2 + LAST, "", [1, 1]),
        (RIGHT * 2, "", [1, 1]),
        (RIGHT * 4 + LAST, "what the answer handed in cannot be read", None),
        (b"", "the answer ended the process (exit)", None),
        (LAST, "what the answer handed in cannot be read", None),
        (b"[]\n" + RIGHT + LAST, "what the answer handed in cannot be read", None),
        (b'{"value": 1}\n' + LAST, "what the answer handed in cannot be read", None),
        (
            b'{"error": {}, "mutated": []}\n' + LAST,
            "what the answer handed in cannot be read",
            None,
        ),
        (b'{"stopped": "so\\u001b"}\n' + LAST, "so ", None),
    ],
)
def test_what_is_handed_in_is_outcomes_or_a_problem(data, problem, values):
    result = read_result(data, 2, "", 0.0, 10.0)
    if values is None:
        assert (result.outcomes, result.problem) == (None, problem)
    else:
        assert [outcome["value"] for outcome in result.outcomes] == values


def test_what_was_delivered_before_the_end_is_kept():
    result = read_result(RIGHT, 3, "the answer ended the process (SIGSEGV)", 0.0, 10.0)
    assert [("value" in outcome) for outcome in result.outcomes] == [True, False, False]
    assert result.outcomes[2]["error"]["message"] == "the answer ended the process (SIGSEGV)"


def test_seconds_are_believed_only_up_to_the_limit():
    data = RIGHT + b'{"seconds": 1e300}\n'
    assert read_result(data, 1, "", 0.25, 10.0) == Result(
        [{"value": 1, "mutated": []}], "", seconds=10.0
    )


# ---- the machine ---------------------------------------------------------------------------------


def test_other_packages_of_the_same_folder_are_hidden(tmp_path):
    """As in a system where pip has installed the book into the library's own folder."""
    library = tmp_path / "lib" / "python3.11"
    (library / "site-packages" / "unrolled").mkdir(parents=True)
    (tmp_path / "lib" / "python3" / "dist-packages").mkdir(parents=True)
    options = sandbox_files.options(
        [(str(library), "/python/lib/python3.11"), (str(tmp_path), "/usr")]
    )
    hidden = {options[i + 1] for i, option in enumerate(options) if option == "--tmpfs"}
    assert "/python/lib/python3.11/site-packages" in hidden
    options = sandbox_files.options([(str(tmp_path / "lib"), "/usr/lib")])
    hidden = {options[i + 1] for i, option in enumerate(options) if option == "--tmpfs"}
    assert hidden == {"/usr/lib/python3.11/site-packages", "/usr/lib/python3/dist-packages"}


def test_packages_are_shown_one_by_one_and_this_one_without_its_teaching():
    places = [place for _, place in sandbox_files.package_binds(["numpy", "no_such_package"], True)]
    assert "/packages/numpy" in places
    assert "/packages/unrolled" in places
    assert not [place for place in places if "book" in place or place == "/packages"]


def test_a_package_of_libraries_alone_is_shown(tmp_path, monkeypatch):
    """As those of torch's build with CUDA, which have no `__init__`."""
    (tmp_path / "libraries_alone").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    binds = sandbox_files.package_binds(["libraries_alone"], False)
    assert binds == [(str(tmp_path / "libraries_alone"), "/packages/libraries_alone")]


def test_whoever_is_not_root_needs_one_bubblewrap_only(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    sandbox = Sandbox.find()
    assert value_of(sandbox, "import os\nreturn [os.getuid(), x]") == [65534, 3]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_whole_and_its_jumps_stay_inside(machine):
    program = np.frombuffer(refusing_filter(machine), dtype="u2,u1,u1,u4")
    assert len(program) < 256
    for i, (code, yes, no, _) in enumerate(program):
        if code == 0x15:
            assert i + 1 + max(yes, no) < len(program)
    assert program[-1][3] == 0x7FFF0000


def test_a_machine_without_a_list_of_calls_is_refused():
    with pytest.raises(ValueError, match="riscv64"):
        refusing_filter("riscv64")


def test_without_bubblewrap_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxMissing, match="apt-get install bubblewrap"):
        Sandbox.find()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 0", "version 0.8 or newer"),
        (
            'case "$*" in *help*) echo --disable-userns --size;; '
            '*) echo "setting up uid map: Permission denied" >&2; exit 1;; esac',
            "uid map: Permission denied.*AppArmor",
        ),
    ],
)
def test_a_bubblewrap_that_cannot_is_told_from_one_that_is_missing(
    monkeypatch, tmp_path, script, words
):
    (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxMissing, match=words):
        Sandbox.find()


# ---- without a sandbox ---------------------------------------------------------------------------

UNSAFE = r"""
import json, os
from unrolled_book.coursework.sandbox import Limits, Sandbox
from unrolled_book.exercises.engine.wire import encode

os.environ["SECRET"] = "secret"
sandbox, limits = Sandbox.find(unsafe=True), Limits(cpu_seconds=1)
programs = {
    "user": "import os\ndef f(x): return os.getuid()",
    "environment": "import os\ndef f(x): return 'SECRET' in os.environ",
    "package": "import unrolled_book",
    "numpy": "import numpy as np\ndef f(x): return np.array([x])",
    "loop": "while True: pass",
    "exit": "import os; os._exit(3)",
}
found = {}
for name, program in programs.items():
    result = sandbox.run(program, "f", [encode((3,))], limits=limits)
    found[name] = result.problem or result.outcomes[0]["value"]
print(json.dumps(found))
"""


def test_the_unsafe_way_is_another_user_with_limits_and_without_our_environment():
    """In a view of this machine where everybody may read the interpreter."""
    view_of = ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev"]
    prefix = Path(sys.base_prefix)
    closed = [p for p in reversed(prefix.parents) if not p.stat().st_mode & 0o001]
    if os.geteuid() == 0 and closed:
        view_of += ["--tmpfs", str(closed[0])]
        for folder in reversed(prefix.parents):
            view_of += ["--dir", str(folder)] if folder.is_relative_to(closed[0]) else []
        view_of += ["--ro-bind", str(prefix), str(prefix)]
    lib = str(Path(unrolled.__file__).parents[1])
    done = subprocess.run(
        [*view_of, sys.executable, "-c", UNSAFE],
        env=os.environ | {"PYTHONPATH": lib, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = json.loads(done.stdout or "{}")
    assert found, done.stderr
    assert found.pop("user") == (65534 if os.geteuid() == 0 else os.getuid())
    assert found.pop("numpy")["array"][:2] == ["<i8", [1]]
    assert found.pop("package").startswith("the program stops with ModuleNotFoundError")
    assert found == {
        "environment": False,
        "loop": "the answer did not finish within 1 s of CPU time",
        "exit": "the answer ended the process (exit)",
    }
