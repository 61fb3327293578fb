"""The bundle of `book.tools.live` in node: the library computes there what it computes here, every
exercise can be solved there, and the reader's code reaches nothing outside.

    make live && pytest book/tests/test_in_pyodide.py
"""

from __future__ import annotations

import ast
import base64
import io
import json
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unrolled_book import exercises
from unrolled_book.exercises.engine.wire import decode

from book.tools.live import bundle, listings
from book.tools.live.bundle import OUT, SITE
from book.tools.notebooks import PACKAGES, published

HERE = Path(__file__).parent
LIVE = Path(bundle.__file__).parent
NAMES = [f"{slug}/{name}" for slug, names in exercises.chapters().items() for name in names]


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    path = OUT / "manifest.json"
    assert path.exists(), "there is no bundle: python -m book.tools.live says why"
    return json.loads(path.read_text(encoding="utf-8"))


def in_node(program: str = "", answers: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """What a program says in the page's Python, and the reports on some answers."""
    node = shutil.which("node")
    assert node, "node is missing (Debian: apt-get install nodejs)"
    command = [node, str(LIVE / "in_node.mjs"), str(OUT)]
    given = json.dumps({"program": program, "answers": answers})
    done = subprocess.run(command, input=given, capture_output=True, encoding="utf8", timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


# ---- the library -------------------------------------------------------------------------------


def whole_library() -> str:
    """A program that puts the library's numpy parts, with their texts, beside the bundle's own."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        ours, theirs = (folder / name for name, folder in PACKAGES.items())
        files = [*ours.rglob("*"), *theirs.glob("tasks/*.py"), *theirs.glob("texts/*")]
        files += [theirs / "scaling.py", theirs / "word_vectors.py"]
        for path in files:
            if path.is_file() and path.parent.name != "__pycache__":
                archive.write(
                    path, path.relative_to((ours if path.is_relative_to(ours) else theirs).parent)
                )
    text = base64.b64encode(packed.getvalue()).decode("ascii")
    unpack = f"zipfile.ZipFile(io.BytesIO(base64.b64decode({text!r}))).extractall('/{SITE}')"
    return f"import base64, io, zipfile\n{unpack}\n"


def test_the_numpy_parts_of_the_library_compute_there_what_they_compute_here(manifest):
    source = (HERE / "numpy_parts.py").read_text(encoding="utf-8")
    *statements, last = ast.parse(source).body
    names: dict[str, Any] = {}
    exec(compile(ast.Module(statements, []), "numpy_parts.py", "exec"), names)
    here = json.loads(eval(compile(ast.Expression(last.value), "numpy_parts.py", "eval"), names))
    there = json.loads(in_node(whole_library() + source)["said"])
    here, there = decode(here), decode(there)
    assert here.keys() == there.keys()
    broken = {name: value for name, value in here.items() if str(value).startswith("raised")}
    assert not broken
    wrong = []
    for name in here:
        try:
            assert_same(there[name], here[name], name)
        except AssertionError as error:
            wrong.append(f"{str(error)[:300]} | {str(there[name])[:200]}")
    assert not wrong, "\n".join(wrong)


def assert_same(there: Any, here: Any, at: str) -> None:
    """Whole numbers and texts are equal, floats but for the rounding of exp, log and sums."""
    if isinstance(here, (list, tuple)):
        assert len(there) == len(here), at
        for i, pair in enumerate(zip(there, here, strict=True)):
            assert_same(*pair, f"{at}[{i}]")
    elif isinstance(here, (np.ndarray, float)):
        there, here = np.asarray(there), np.asarray(here)
        assert there.shape == here.shape, at
        # An index is of 32 bits there; its values are the same.
        assert there.dtype == here.dtype or there.dtype.kind == here.dtype.kind == "i", at
        if here.dtype.kind == "f":
            np.testing.assert_allclose(there, here, rtol=1e-11, atol=1e-13, err_msg=at)
        else:
            np.testing.assert_array_equal(there, here, err_msg=at)
    else:
        assert there == here, at


# ---- the exercises -----------------------------------------------------------------------------


def test_the_bundle_says_which_exercises_run_in_the_page_and_why_others_do_not(manifest):
    assert [*manifest["exercises"], *manifest["elsewhere"]] == sorted(NAMES, key=NAMES.index)
    assert all("needs" in reason for reason in manifest["elsewhere"].values())


def test_every_solution_passes_in_the_page_and_no_starter_does(manifest):
    """Both as they are shown, with what the chapter imports and the page has."""
    names = manifest["exercises"]
    shown = [(name, exercises.load(name)) for name in names]
    answers = [(name, one.solution_source) for name, one in shown]
    answers += [(name, one.starter) for name, one in shown]
    found = [{"exercise": name, "source": source, "seed": 0} for name, source in answers]
    reports = in_node(answers=found)["reports"]
    solutions, starters = reports[: len(names)], reports[len(names) :]
    failed = [report["text"] for report in solutions if report["state"] != "passed"]
    assert not failed, "\n".join(failed)
    assert {report["state"] for report in starters} == {"unwritten"}
    assert len(solutions) == len(starters) == len(names)


@pytest.mark.parametrize("part", [0, 1])
def test_every_wrong_answer_is_told_its_own_mistake_in_the_page(manifest, part):
    names = [name for name in manifest["exercises"] if name not in manifest["texts"]][part::2]
    program = (HERE / "every_wrong_answer.py").read_text(encoding="utf-8")
    untold = json.loads(in_node(f"NAMES, SEED = {names!r}, 0\n{program}")["said"])
    assert list(untold) == names
    assert not any(untold.values()), {name: found for name, found in untold.items() if found}


# ---- the listings ------------------------------------------------------------------------------


def tried(*sources: str, listing: str = "c14_attention/0") -> list[dict[str, Any]]:
    return in_node(answers=[{"listing": listing, "source": source} for source in sources])[
        "reports"
    ]


def test_every_listing_gives_in_the_page_what_the_notebook_has_stored(manifest):
    """Exactly: what it prints, and a last expression's value. Each chapter has one at least."""
    found = {
        f"c{path.stem}/{n}": one
        for path in published()
        for n, one in enumerate(listings.of_chapter(path))
    }
    answers = [{"listing": name, "source": one.source} for name, one in found.items()]
    reports = in_node(answers=answers)["reports"]
    there = {report["listing"]: (report["output"], report["text"]) for report in reports}
    assert there == {name: (one.printed, one.value) for name, one in found.items()}
    assert {report["state"] for report in reports} == {"passed"}
    slow = {report["listing"]: report["seconds"] for report in reports if report["seconds"] > 20}
    assert not slow


def test_a_listing_shows_a_value_and_an_error_with_its_line(manifest):
    value, nothing, wrong, deep, torch, printed, closed = tried(
        "import numpy as np\nprint(1)\nnp.arange(3) / 4",
        "None",
        "def f(x):\n    return 1 / x\n\n\nf(1)\nf(0)",
        "def f(x):\n    return f(x)\nf(1)",
        "import torch",
        "print('before')\n1 +",
        "import js",
    )
    assert (value["output"], value["text"]) == ("1\n", "array([0.  , 0.25, 0.5 ])")
    assert (nothing["state"], nothing["text"]) == ("passed", "")
    assert wrong["text"].split("\n") == [
        "line 6: f(0)",
        "line 2: return 1 / x",
        "ZeroDivisionError: division by zero",
    ]
    assert deep["text"].count("line 2") == 5
    assert "RecursionError" in deep["text"]
    assert "The page does not have torch; the chapter in Colab does." in torch["text"]
    assert printed["text"].split("\n") == ["line 2: 1 +", "SyntaxError: invalid syntax"]
    assert printed["output"] == ""
    assert "No module named 'js'" in closed["text"]


def test_an_error_below_names_the_chapters_function(manifest):
    (report,) = tried("count('(x')", listing="c09_rnn/2")
    assert report["text"].split("\n")[:2] == [
        "line 1: count('(x')",
        "in count, from earlier in the chapter: "
        """x = np.eye(2)[['()'.index(symbol) for symbol in text]]""",
    ]


def test_a_listing_begins_anew_each_time_and_leaves_the_exercises_as_they_were(manifest):
    change = "np.exp = None\nHAND[0] = 'dog'\nnp.set_printoptions(precision=1)"
    ask = [{"listing": "c08_neural_lm/1", "source": source} for source in (change, "HAND[0]")]
    first, again = in_node(answers=ask)["reports"]
    assert first["renew"], "numpy is not what it was: the page begins a fresh Python"
    assert (again["text"], again["renew"]) == ("'goat'", False)


# ---- answers that go wrong ---------------------------------------------------------------------

ROUGH = {  # what the report says, and what is expected of it
    "def shift(": "SyntaxError: '(' was never closed (line 1: `def shift(`)",
    "x = 1\n1 / 0": "ZeroDivisionError: division by zero (line 2: `1 / 0`)",
    "x = 1": "nothing is named shift",
    "exit()": "SystemExit",
    "import sys\ndef shift(*a): sys.exit(3)": "SystemExit: 3",
    "def shift(*a): raise KeyboardInterrupt": "KeyboardInterrupt",
    "def shift(*a): return shift(*a)": "RecursionError",
    "def f(n): return f(n + 1)\nf(0)": "RecursionError",
    "a = [0] * 10**9": "more memory than the page gives it",
    "import threading\nthreading.Thread(target=print).start()": "can't start new thread",
    "input()": "(line 1: `input()`)",
    "import js": "No module named 'js'",
    "import torch": "The page does not have torch; the chapter in Colab does.",
    "plt.plot([1])": "The page does not have plt (of matplotlib); the chapter in Colab does.",
    "shift = 1\0": "null bytes",
}
ENDING = {
    "import os\nos._exit(3)": "the code has ended the program",
    "import json\njson.loads('[' * 100_000)": "something is nested too deeply",
}


def plain(text: str) -> str:
    return " ".join(text.split())


def asked(source: str) -> dict[str, Any]:
    return {"exercise": "c01_chain_rule/shift", "source": source, "seed": 0}


def test_what_goes_wrong_in_an_answer_is_a_report_and_the_next_check_works(manifest):
    last = "for i in range(10**5): print('x' * 100)\nshift = ..."
    reports = in_node(answers=[asked(source) for source in [*ROUGH, last]])["reports"]
    for report, said in zip(reports, ROUGH.values(), strict=False):
        assert report["state"] == "failed", report
        assert said in plain(report["text"])
    assert reports[-1]["state"] == "unwritten"
    assert 20_000 < len(reports[-1]["output"]) < 20_100, "a flood is cut off"


@pytest.mark.parametrize("source", ENDING)
def test_an_interpreter_that_has_ended_says_so(manifest, source):
    reports = in_node(answers=[asked(source), asked("shift = ...")])["reports"]
    assert [report["state"] for report in reports] == ["dead", "dead"]
    assert ENDING[source] in reports[0]["text"]


def test_the_same_seed_gives_the_same_inputs_again(manifest):
    one, same, other = (asked("def shift(*a): return a") | {"seed": seed} for seed in (5, 5, None))
    reports = in_node(answers=[one, same, other])["reports"]
    assert reports[0]["text"] == reports[1]["text"]
    assert [report["seed"] for report in reports[:2]] == [5, 5]
    assert 0 <= reports[2]["seed"] < 10_000


def test_positions_of_64_bits_are_accepted_in_an_answer(manifest):
    program = """
import numpy as np
ids = np.array([2, 0, 2], dtype=np.int64)
found = [np.bincount(ids), np.bincount(ids, minlength=5), np.bincount(ids, weights=[1, 2, 3])]
found += [np.repeat([5, 6, 7], ids), np.repeat(5, repeats=ids[0]), np.take([5, 6, 7], ids)]
found += [np.take(np.eye(3), indices=ids, axis=1), np.choose(ids, [[1] * 3, [2] * 3, [3] * 3])]
str([each.tolist() for each in found])
"""
    names: dict[str, Any] = {}
    exec(program.rpartition("\nstr")[0], names)
    assert in_node(program)["said"] == str([each.tolist() for each in names["found"]])
