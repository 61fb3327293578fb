"""The sandbox: what an answer in it sees and may use, what comes out, what a hostile one gets.

The hostile answers stand in `hostile/*.txt`, one file for each kind of attack, as cells

    #%% name -> passed, unwritten 0, failed n: words of the report, or words of the problem
    # exercise c01_chain_rule/posterior        (bits_per_byte where nothing is said)

`failed n` means that n tests passed. SOLUTION stands for the exercise's own solution: an attack
that raises when it succeeds stands beside the right answer, which passes only if it has failed.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import unrolled
import unrolled_book
from unrolled_book import exercises
from unrolled_book.coursework import sandbox_files, watch
from unrolled_book.coursework.handed_in import Asked, Result, read_result
from unrolled_book.coursework.sandbox import Limits, Sandbox, SandboxMissing
from unrolled_book.coursework.syscalls import refusing_filter
from unrolled_book.exercises.engine.marking import mark, planned_outcomes
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
    assert "value" in (result.outcomes or [{}])[0], result
    return decode(result.outcomes[0]["value"])


def test_an_answer_gets_its_arguments_and_its_value_comes_out(sandbox):
    calls = [encode((1, [2.5])), encode((4, [0.5]))]
    result = sandbox.run("def f(a, b):\n    b.append(1)\n    return a + b[0]", "f", calls)
    assert result.outcomes == [{"value": 3.5, "mutated": [1]}, {"value": 4.5, "mutated": [1]}]
    assert (result.problem, 0 < result.seconds < 5) == ("", True)


def test_what_keeps_an_answer_from_answering_is_said(sandbox):
    for program, problem in [
        ("g = 1", "the program defines no `f`"),
        ("f = 1", "`f` is a thing of type “int”, not a function or a class"),
        ("f = (", "the program stops with SyntaxError: “'(' was never closed” (line 1: `f = (`)"),
    ]:
        result = sandbox.run(program, "f", [encode((1,))])
        assert (result.outcomes, result.problem) == (None, problem)


IMPORTS = """
import importlib
found = {}
for name in ("numpy", "scipy.stats", "unrolled.models.ngram", "torch", "unrolled_book"):
    try:
        found[name] = importlib.import_module(name)
    except ModuleNotFoundError:
        pass
return list(found), found["torch"].arange(3.0).sum() if "torch" in found else 3.0
"""


def test_packages_are_there_only_where_they_are_asked_for_and_the_teaching_never(sandbox):
    little = Limits(memory_bytes=2**28)  # torch maps more than that
    for options, found in [
        ({}, []),
        ({"library": True}, ["unrolled.models.ngram"]),
        ({"torch": True, "limits": little}, ["torch"]),
    ]:
        names, number = value_of(sandbox, IMPORTS, **options)
        assert (names, float(number)) == (["numpy", "scipy.stats", *found], 3.0)


def test_grading_again_gives_the_same_outcomes(sandbox):
    body = "import random\nimport numpy as np\nnames = set('abcdefghij')"
    body += "\nreturn [random.random(), np.random.rand(), hash('a'), ''.join(names)]"
    assert value_of(sandbox, body) == value_of(sandbox, body)


FORKS = """
import ctypes, os, time
for _ in range(5):
    if not os.fork():
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # not to die with its parent
        os.setsid()
        break
time.sleep(1000)
"""


def below(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        for path in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, path.read_text("utf8").split())
    return found[1:]


def namespaces() -> dict[int, str]:
    """The namespace of each process of this machine that has not ended."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if "State:\tZ" not in (path / "status").read_text("utf8"):
                found[int(path.name)] = os.readlink(path / "ns" / "pid")
    return found


def test_no_process_of_an_answer_is_left(sandbox):
    def grade():
        result = sandbox.run(FORKS, "f", [encode((1,))], limits=Limits(wall_seconds=2.0))
        return result.problem, namespaces()

    mine, seen = os.readlink("/proc/self/ns/pid"), set()
    with ThreadPoolExecutor(1) as pool:
        graded = pool.submit(grade)
        while not graded.done():
            known = namespaces()
            seen |= {known.get(pid, mine) for pid in below(os.getpid())} - {mine}
            time.sleep(0.1)
    problem, left = graded.result()
    assert problem == "the answer did not finish within 2 s"
    assert seen
    assert not [pid for pid, space in left.items() if space in seen]


RIGHT, LAST = b'{"value": 1, "after": []}\n', b'{"seconds": 0.5}\n'
asked = lambda n: Asked("f", "", [[]] * n)  # noqa: E731
UNREADABLE = "what the answer handed in cannot be read"


def test_what_is_handed_in_is_outcomes_or_a_problem():
    for data, problem, values in [
        (RIGHT * 2 + LAST, "", [1, 1]), (RIGHT * 2, "", [1, 1]),
        (RIGHT * 4 + LAST, UNREADABLE, None), (b"", "the answer ended the process (exit)", None),
        (LAST, UNREADABLE, None), (b"[]\n" + RIGHT + LAST, UNREADABLE, None),
        (b'{"value": 1}\n' + LAST, UNREADABLE, None),
        (b'{"error": {}, "after": []}\n' + LAST, UNREADABLE, None),
        (
            b'{"stopped": "so\\u001b"}\n' + LAST,
            "`f` is a thing of type “so ”, not a function or a class", None,
        ),
    ]:  # fmt: skip
        result = read_result(data, asked(2), "", 0.0, 10.0)
        found = result.outcomes and [outcome["value"] for outcome in result.outcomes]
        assert (result.problem, found) == (problem, values), data


def test_what_was_delivered_before_the_end_is_kept_and_seconds_are_believed_up_to_the_limit():
    result = read_result(RIGHT, asked(3), "the answer ended the process (SIGSEGV)", 0.0, 10.0)
    assert [("value" in outcome) for outcome in result.outcomes] == [True, False, False]
    assert result.outcomes[2]["error"]["message"] == "the answer ended the process (SIGSEGV)"
    result = read_result(RIGHT + b'{"seconds": 1e300}\n', asked(1), "", 0.25, 10.0)
    assert result == Result([{"value": 1, "mutated": []}], "", seconds=10.0)


def test_other_packages_of_the_same_folder_are_hidden(tmp_path):
    """As in a system where pip has installed the book into the library's own folder."""
    library = tmp_path / "lib" / "python3.11"
    (library / "site-packages" / "unrolled").mkdir(parents=True)
    (tmp_path / "lib" / "python3" / "dist-packages").mkdir(parents=True)
    binds = [(str(library), "/python/lib/python3.11"), (str(tmp_path / "lib"), "/usr/lib")]
    options = sandbox_files.options(binds)
    assert {options[i + 1] for i, option in enumerate(options) if option == "--tmpfs"} == {
        "/python/lib/python3.11/site-packages",
        "/usr/lib/python3.11/site-packages",
        "/usr/lib/python3/dist-packages",
    }


def test_packages_are_shown_one_by_one_and_this_one_without_its_teaching(tmp_path, monkeypatch):
    """Also one of libraries alone, as torch's build with CUDA has them: without `__init__`."""
    (tmp_path / "libraries_alone").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    binds = sandbox_files.package_binds(["numpy", "no_such_package", "libraries_alone"], True)
    places = [place for _, place in binds]
    assert {"/packages/numpy", "/packages/unrolled", "/packages/libraries_alone"} <= set(places)
    assert (str(tmp_path / "libraries_alone"), "/packages/libraries_alone") in binds
    assert not [place for place in places if "book" in place or place == "/packages"]


def test_whoever_is_not_root_needs_one_bubblewrap_only(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert value_of(Sandbox.find(), "import os\nreturn [os.getuid(), x]") == [65534, 3]


def test_the_filter_is_whole_and_its_jumps_stay_inside():
    for machine in ("x86_64", "aarch64"):
        program = np.frombuffer(refusing_filter(machine), dtype="u2,u1,u1,u4")
        assert len(program) < 256
        for i, (code, yes, no, _) in enumerate(program):
            assert code != 0x15 or i + 1 + max(yes, no) < len(program)
        assert program[-1][3] == 0x7FFF0000
    with pytest.raises(ValueError, match="riscv64"):
        refusing_filter("riscv64")


REFUSING = """#!/bin/sh
case "$*" in *help*) echo --disable-userns --size;;
*) echo "setting up uid map: Permission denied" >&2; exit 1;; esac"""


def test_memory_that_was_swapped_out_counts(monkeypatch):
    status = "RssAnon:\t 1 kB\nRssFile:\t 2 kB\nRssShmem:\t 4 kB\nVmSwap:\t 8 kB\n"
    monkeypatch.setattr(Path, "read_text", lambda *_: status)
    assert watch._memory_bytes(1) == 13 * 1024


def test_another_system_than_linux_is_told_where_to_grade(monkeypatch):
    monkeypatch.setattr("unrolled_book.coursework.sandbox.sys.platform", "darwin")
    with pytest.raises(SandboxMissing, match=r"needs Linux.*darwin.*Dockerfile"):
        Sandbox.find()
    monkeypatch.delattr(os, "killpg")
    with pytest.raises(SandboxMissing, match=r"Windows cannot limit.*Dockerfile"):
        Sandbox.find(unsafe=True)


def test_a_bubblewrap_that_cannot_is_told_from_one_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxMissing, match="apt-get install bubblewrap"):
        Sandbox.find()
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for script, words in [
        ("#!/bin/sh\nexit 0", "version 0.8 or newer"),
        (REFUSING, "uid map: Permission denied.*AppArmor"),
    ]:
        (tmp_path / "bwrap").write_text(script, "utf8")
        (tmp_path / "bwrap").chmod(0o755)
        with pytest.raises(SandboxMissing, match=words):
            Sandbox.find()


UNSAFE = r"""
import json, os
from unrolled_book.coursework.sandbox import Limits, Sandbox

os.environ["SECRET"] = "secret"
sandbox, limits = Sandbox.find(unsafe=True), Limits(cpu_seconds=1)
inside = "import os, numpy\ndef f(x): return [os.getuid(), 'SECRET' in os.environ]"
for program in (inside, "import unrolled_book", "while True: pass"):
    result = sandbox.run(program, "f", [{"tuple": [3]}], limits=limits)
    print(json.dumps(result.problem or result.outcomes[0]["value"]))
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
        env=os.environ | {"PYTHONPATH": lib, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True,
        encoding="utf8", timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    inside, of_the_book, endless = map(json.loads, done.stdout.splitlines())
    assert inside == [65534 if os.geteuid() == 0 else os.getuid(), False]
    assert of_the_book.startswith("the program stops with ModuleNotFoundError")
    assert endless == "the answer did not finish within 1 s of CPU time"


LIMITS = Limits(memory_bytes=256 * 2**20, wall_seconds=600.0)  # a busy machine is no attack


@cache
def prepared(name: str):
    exercise = exercises.load(name)
    calls = exercise.calls(seed=15)
    return exercise, calls, planned_outcomes(exercise, calls)


def graded(sandbox: Sandbox, name: str, program: str, limits: Limits = LIMITS) -> str:
    """The problem, or "passed", or "failed n" and the report."""
    exercise, calls, planned = prepared(name)
    solution = f"import numpy as np\n{exercise.solution_source}"
    result = sandbox.run(
        re.sub(r"(?m)^SOLUTION$", lambda _: solution, program), exercise.name,
        [encode(call.args) for call in calls], use_source=exercise.use_source,
        is_value=exercise.is_value,
        library=re.search(r"(?m)^(from|import) unrolled\b", exercise.imports) is not None,
        limits=limits,
    )  # fmt: skip
    if result.outcomes is None:
        return result.problem
    report = mark(exercise, calls, result.outcomes, planned)
    passed = report.state == "passed"
    return "passed" if passed else f"{report.state} {report.n_passed}: {report.text}"


@pytest.mark.parametrize(
    "name",
    ["c06_depth/start_variance", "c06b_residual/insert_layer", "c07_backprop/tape_gradients",
     "c07_backprop/softmax_vjp", "c07b_gradients/worst_entry", "c16_multihead/grouped_heads",
     "c22_scale/layers_to_hear"],
)  # fmt: skip
def test_every_kind_of_use_finds_what_it_needs(sandbox, name):
    assert graded(sandbox, name, "SOLUTION", Limits()) == "passed"


def read_cases() -> dict[str, tuple[str, str, str]]:
    """kind-name: (exercise, what is expected, the program)."""
    cases = {}
    for path in sorted(Path(__file__).parent.glob("hostile/*.txt")):
        for cell in re.split(r"(?m)^#%% ", path.read_text("utf-8"))[1:]:
            head, source = cell.split("\n", 1)
            name, expected = head.split(" -> ", 1)
            chosen = re.search(r"(?m)^# exercise (\S+)$", source)
            exercise = chosen[1] if chosen else "c01_chain_rule/bits_per_byte"
            cases[f"{path.stem}-{name}"] = exercise, expected.strip(), source
    return cases


CASES = read_cases()


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """What an attack looks for outside: servers, a secret, a word in our own environment."""
    n_open = len(os.listdir("/proc/self/fd"))
    folder = tmp_path_factory.mktemp("outside")
    folder.chmod(0o755)
    secret, left = folder / "secret.txt", Path("/tmp", f"left-behind-{os.getpid()}")
    secret.write_text("the marks of everybody", "utf8")
    canary, local, abstract = "canary-of-the-grader", str(folder / "s"), f"unrolled-{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("CANARY", canary)
        tcp, udp, *servers = (
            stack.enter_context(socket.socket(family, kind))
            for family, kind in [
                (socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM),
                (socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_STREAM),
            ]
        )  # fmt: skip
        addresses = [("127.0.0.1", 0), ("127.0.0.1", 0), local, f"\0{abstract}"]
        for server, address in zip((tcp, udp, *servers), addresses, strict=True):
            server.bind(address)
            server.setblocking(False)
            if server is not udp:
                server.listen()
        yield {
            "port": tcp.getsockname()[1], "udp_port": udp.getsockname()[1], "socket": local,
            "abstract": abstract, "secret": secret, "canary": canary, "left": left.name,
            "package": Path(unrolled_book.__file__).parent,
        }  # fmt: skip
        for server in (tcp, udp, *servers):
            with pytest.raises(BlockingIOError):  # nobody has called
                server.recvfrom(99) if server is udp else server.accept()
    assert len(os.listdir("/proc/self/fd")) == n_open, "the grader has left a pipe open"
    assert not left.exists()
    assert secret.read_text("utf8") == "the marks of everybody"


def agrees(got: str, expected: str) -> bool:
    wanted, _, words = expected.partition(": ")
    if not wanted.startswith(("failed", "unwritten")):
        return got.startswith(expected)
    return got.startswith(f"{wanted}: ") and words in " ".join(got.split())


@pytest.mark.parametrize("case", CASES)
def test_an_attack_gets_the_mark_that_it_deserves(sandbox, outside, case):
    exercise, expected, source = CASES[case]
    for name, value in outside.items():
        source = source.replace("{" + name + "}", str(value))
    cpu_seconds = 1 if "1 s of CPU" in expected else LIMITS.cpu_seconds
    wall_seconds = 2.0 if "within 2 s" in expected else LIMITS.wall_seconds
    limits = replace(LIMITS, cpu_seconds=cpu_seconds, wall_seconds=wall_seconds)
    got = graded(sandbox, exercise, source, limits)
    assert any(agrees(got, each) for each in expected.split(" or ")), got


def test_there_are_attacks_of_every_kind():
    texts = (path.read_text("utf-8") for path in Path(__file__).parent.glob("hostile/*.txt"))
    assert len(CASES) == sum(text.count("\n#%% ") for text in texts) >= 150
    names = [case.partition("-")[2] for case in CASES]
    assert len(set(names)) == len(names)
