"""Run the chapters as Colab does: with its versions, and with the library as an installed wheel.

    python -m book.tools.notebooks.colab          what `make test-colab` does
    python -m book.tools.notebooks.colab --all    all cells of all chapters, and write the record
    python -m book.tools.notebooks.colab 07 15    only these chapters
    python -m book.tools.notebooks.colab --shard 1/3   a third of them, for a job beside others

The chapters run in an empty folder, so that nothing of the checkout can help them. All cells run
where something has changed since they last did: the chapter's code, a module of the library that it
imports, or the versions. Of the other chapters the set-up cells run, all in one kernel: what else
they hold has run with these very files. What has run is known from `colab.json` beside this file,
which `--all` writes and whoever changes many chapters commits, and from `_build/colab.json`, which
every run adds to. So a fresh checkout runs in full what has changed since the committed record.
Last of all, in the first shard, a course's notebooks for students and teachers are built and run.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from book.tools.notebooks import CHAPTERS, PACKAGES, ROOT, chapter_paths, course_on_colab, read
from book.tools.verify import kernels
from book.verbs.system import program

COLAB = program("python", ROOT / ".venv-colab")
RECORD = Path(__file__).with_name("colab.json")
LOCAL = ROOT / "_build" / "colab.json"
ANSWERS = "predictions.json"
START_UP = 3.0  # seconds of a chapter for its kernel, and for cells too short to be noted
UNKNOWN = 20.0  # seconds that a chapter without a record is taken to need


# ---- what has changed --------------------------------------------------------------------------


def digest(path: Path, notebook: NotebookNode) -> str:
    """A hash of what decides how a chapter runs: its code, its part of the library, the pins."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    parts = ["\0".join(code).encode(), *(file.read_bytes() for file in library_files(path, code))]
    parts += [(ROOT / "requirements-colab.lock").read_bytes(), _torch().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def library_files(path: Path, code: list[str]) -> list[Path]:
    """The modules that the code imports, those that they import, and the files beside them.

    With the exercises' engine, which finds them by name, come the exercises of this chapter. The
    answers to the predictions are left out: no cell asks for them, and they change with the prose.
    """
    source = "\n".join(line for text in code for line in text.splitlines() if line[:1] not in "%!")
    source = source.replace("    %pip", "    pass  # ")
    todo, seen = set(_imports(source, "")), set()
    exercises = PACKAGES["unrolled_book"] / "unrolled_book" / "exercises" / f"c{path.stem}"
    while todo:
        module = todo.pop()
        seen.add(module)
        todo |= set(_imports(module.read_text("utf8"), _package(module))) - seen
    beside = {
        file
        for module in seen
        for file in module.parent.glob("*")
        if file.is_file() and file.suffix not in {".py", ".pyc"} and file.name != ANSWERS
    }
    return sorted(seen | beside | set(exercises.glob("*.py")))


def _package(module: Path) -> str:
    home = next(folder for folder in PACKAGES.values() if module.is_relative_to(folder))
    return ".".join(module.relative_to(home).parts[:-1])


def _imports(source: str, package: str) -> list[Path]:
    """The files of our library that a program imports by name, with their packages' own."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package)
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    found = []
    for name in names:
        first, *parts = name.split(".")
        for n in range(len(parts) + 1) if first in PACKAGES else ():
            folder = PACKAGES[first].joinpath(first, *parts[:n])
            found += [f for f in (folder / "__init__.py", folder.with_suffix(".py")) if f.exists()]
    return found


@cache
def _torch() -> str:
    lines = (ROOT / "requirements.txt").read_text("utf8").splitlines()
    return next(line for line in lines if line.startswith("torch=="))


# ---- what to run -------------------------------------------------------------------------------


def set_up_cells(notebooks: Iterable[NotebookNode]) -> NotebookNode:
    """One notebook with the first code cell of each."""
    firsts = [next(c for c in notebook.cells if c.cell_type == "code") for notebook in notebooks]
    return new_notebook(cells=[new_code_cell(cell.source) for cell in firsts])


def known(path: Path) -> dict[str, dict]:
    """A record: by chapter, its digest when all its cells last ran, and its slow cells' seconds."""
    return json.loads(path.read_text("utf8")) if path.exists() else {}


def longest_first(chapters: Iterable[Path]) -> list[Path]:
    """The chapters by the seconds of their slow cells, as recorded; a new one stands first."""
    return sorted(chapters, key=_recorded_seconds(), reverse=True)


def shard(chapters: Iterable[Path], which: str) -> list[Path]:
    """Part i of n of the chapters, for which = 'i/n': the n parts take about the same time."""
    match = re.fullmatch(r"(\d+)/(\d+)", which)
    i, n = map(int, match.groups()) if match else (0, 0)
    if not 1 <= i <= n:
        raise SystemExit(f"SHARD is written 1/3, 2/3 or 3/3, say; it is {which!r}")
    seconds = _recorded_seconds()
    parts: list[list[Path]] = [[] for _ in range(n)]
    times = [0.0] * n
    for path in longest_first(chapters):
        shortest = times.index(min(times))
        parts[shortest].append(path)
        times[shortest] += START_UP + (seconds(path) if seconds(path) < math.inf else UNKNOWN)
    return parts[i - 1]


def _recorded_seconds() -> Callable[[Path], float]:
    record = known(RECORD)

    def seconds(path: Path) -> float:
        return sum(record[path.stem]["seconds"].values()) if path.stem in record else math.inf

    return seconds


# ---- running -----------------------------------------------------------------------------------


def install_packages() -> None:
    """Build both wheels from copies of their files, and install them in Colab's environment."""
    with tempfile.TemporaryDirectory() as folder:
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "tests")
        for name, home in PACKAGES.items():
            shutil.copytree(home, Path(folder, name), ignore=unwanted)
        copies = [str(Path(folder, name)) for name in PACKAGES]
        options = ["--quiet", "--no-deps", "--disable-pip-version-check"]
        wheel = ["wheel", *options, "--no-build-isolation", "--wheel-dir", folder, *copies]
        subprocess.run([sys.executable, "-m", "pip", *wheel], check=True)
        built = map(str, Path(folder).glob("*.whl"))
        install = ["install", *options, "--force-reinstall", *built]
        subprocess.run([COLAB, "-m", "pip", *install], check=True)


def run(notebooks: dict[str, NotebookNode]) -> tuple[int, dict[str, dict[str, float]]]:
    """The exit code of running them all, and chapter -> cell id -> seconds."""
    with tempfile.TemporaryDirectory() as folder:
        for stem, notebook in notebooks.items():
            nbformat.write(notebook, Path(folder, f"{stem}.ipynb"))
        where = "import pathlib, unrolled; print(pathlib.Path(unrolled.__file__).parents[1].name)"
        found = subprocess.run(
            [COLAB, "-c", where], cwd=folder, capture_output=True, encoding="utf8"
        )
        if found.stdout.strip() != "site-packages":
            raise SystemExit(
                f"the library is not the installed wheel: {found.stdout}{found.stderr}"
            )
        command = [
            *(COLAB, "-m", "pytest", "-q", "--nbval-lax", "--nbval-current-env"),
            *("--nbval-cell-timeout=600", "-p", "no:cacheprovider", "-n", "2"),
            *("--dist", "loadscope", "--no-loadscope-reorder", "--junitxml=times.xml"),
            *("-p", Path(shutil.copy(kernels.__file__, folder)).stem),
            *longest_first(Path(f"{stem}.ipynb") for stem in notebooks),
        ]
        code = subprocess.run(command, cwd=folder).returncode
        return code, _seconds(Path(folder, "times.xml"), notebooks)


def _seconds(report: Path, notebooks: dict[str, NotebookNode]) -> dict[str, dict[str, float]]:
    """The cells that took half a second or longer, by chapter and cell id."""
    slow: dict[str, dict[str, float]] = {stem: {} for stem in notebooks}
    for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
        stem = case.get("classname").removesuffix(".ipynb")
        code = [c for c in notebooks[stem].cells if c.cell_type == "code"]
        cell = code[int(case.get("name").removeprefix("Cell "))]
        if float(case.get("time")) >= 0.5:
            slow[stem][cell.id] = round(float(case.get("time")), 1)
    return slow


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="all cells, and write the record")
    parser.add_argument("--shard", default="1/1", help="one part of the chapters: 1/3, say")
    parser.add_argument("chapters", nargs="*")
    options = parser.parse_args()
    record, local = known(RECORD), known(LOCAL)
    whole, unchanged, digests = {}, [], {}
    for path in shard(chapter_paths(options.chapters), options.shard):
        notebook = read(path)
        digests[path.stem] = digest(path, notebook)
        seen = [r[path.stem] for r in (record, local) if path.stem in r]
        if options.all or digests[path.stem] not in [entry["digest"] for entry in seen]:
            whole[path.stem] = notebook
        else:
            unchanged.append(notebook)
    said = f"all cells of {', '.join(whole) or 'no chapter'}"
    print(f"colab: {said}; the set-up cells of {len(unchanged)} others")
    install_packages()
    others = {"set_up_cells": set_up_cells(unchanged)} if unchanged else {}
    code, seconds = run(whole | others)
    if code == 0:
        done = {s: {"digest": digests[s], "seconds": seconds[s]} for s in sorted(whole)}
        LOCAL.parent.mkdir(exist_ok=True)
        LOCAL.write_text(json.dumps(local | done, indent=1) + "\n", "utf8")
        if options.all:
            kept = {stem: record[stem] for stem in record if (CHAPTERS / f"{stem}.ipynb").exists()}
            RECORD.write_text(json.dumps(kept | done, indent=1, sort_keys=True) + "\n", "utf8")
    if not options.shard.startswith("1/"):
        return code
    failed = course_on_colab.failures(COLAB)
    print("\n".join(failed) or "colab: a course's notebooks run, the students' without the library")
    return code or int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
