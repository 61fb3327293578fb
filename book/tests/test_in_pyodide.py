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
from unrolled.teaching import exercises
from unrolled.teaching.exercises.engine.wire import decode

from book.tools.live import bundle, library
from book.tools.live.bundle import OUT, SITE

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
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


# ---- the library -------------------------------------------------------------------------------


def whole_library() -> str:
    """A program that puts the library's numpy parts, with their texts, beside the bundle's own."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted((library.LIB / "unrolled").rglob("*")):
            if (
                path.is_file()
                and path.parent.name != "__pycache__"
                and "teaching" not in path.parts
            ):
                archive.write(path, path.relative_to(library.LIB))
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


def test_every_solution_as_it_is_shown_passes_in_the_page(manifest):
    answers = [
        {"exercise": name, "source": exercises.load(name).solution_source, "seed": 0}
        for name in manifest["exercises"]
    ]
    reports = in_node(answers=answers)["reports"]
    failed = [report["text"] for report in reports if report["state"] != "passed"]
    assert not failed, "\n".join(failed)
    assert len(reports) == len(answers)
    slow = [(r["exercise"], r["seconds"]) for r in reports if r["seconds"] > 5]
    assert not slow


@pytest.mark.parametrize("part", [0, 1])
def test_every_wrong_answer_is_told_its_own_mistake_in_the_page(manifest, part):
    names = [name for name in manifest["exercises"] if name not in manifest["texts"]][part::2]
    program = (HERE / "every_wrong_answer.py").read_text(encoding="utf-8")
    untold = json.loads(in_node(f"NAMES, SEED = {names!r}, 0\n{program}")["said"])
    assert list(untold) == names
    assert not any(untold.values()), {name: found for name, found in untold.items() if found}


def test_every_starter_is_not_written_yet_in_the_page(manifest):
    answers = [
        {"exercise": name, "source": exercises.load(name).starter, "seed": 0}
        for name in manifest["exercises"]
    ]
    reports = in_node(answers=answers)["reports"]
    assert {report["state"] for report in reports} == {"unwritten"}
