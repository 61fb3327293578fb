"""The house itself: imports run downward, little is loaded, everything public is explained."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import unrolled

ROOT = Path(unrolled.__file__).parent
FLOORS = ("data", "models", "training", "teaching")
FILES = sorted(ROOT.rglob("*.py"))
each_file = pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(ROOT)) for p in FILES])


def imported(source: str, package: str) -> set[str]:
    """Full names of all that source imports, anywhere in it; package is what its dots start from.

    `from a import b` counts as `a` and as `a.b`, since b may be a module.
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package)
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def upward(source: str, floor: str, package: str) -> set[str]:
    """The names that source, standing on floor, imports from floors above it."""
    above = FLOORS[FLOORS.index(floor) + 1 :]
    tops = {tuple(name.split(".")[:2]) for name in imported(source, package)}
    return {top for top in above if ("unrolled", top) in tops}


def package_of(path: Path) -> str:
    return ".".join(("unrolled", *path.relative_to(ROOT).parts[:-1]))


def test_the_floors_are_those_of_the_plan():
    assert {p.name for p in ROOT.iterdir() if (p / "__init__.py").exists()} == set(FLOORS)
    assert {p.name for p in ROOT.glob("*.py")} == {"__init__.py", "validate.py"}


@each_file
def test_imports_run_downward_only(path):
    floor = path.relative_to(ROOT).parts[0]
    if floor in FLOORS:
        assert not upward(path.read_text(), floor, package_of(path))
    else:  # the entrance and the validator load no floor
        found = imported(path.read_text(), "unrolled")
        assert not {name for name in found if name.startswith("unrolled")}


@pytest.mark.parametrize(
    "line",
    [
        "import unrolled.teaching.figures",
        "from unrolled import teaching",
        "from unrolled.teaching import figures as f",
        "from ..teaching import check",
        "from .. import teaching",
        "def f():\n    from unrolled.teaching.check import check",
    ],
)
def test_an_upward_import_would_be_found(line):
    assert upward(line, "models", "unrolled.models") == {"teaching"}
    assert not upward(line, "teaching", "unrolled.models")


@pytest.mark.parametrize(
    "modules",
    [
        "unrolled",
        "unrolled.data, unrolled.models, unrolled.training",
        "unrolled.models.autograd, unrolled.models.gradcheck, unrolled.teaching.behaviour",
        ", ".join(
            f"{package_of(p)}.{p.stem}"
            for p in FILES
            if p.stem != "__init__" and p.relative_to(ROOT).parts[0] in FLOORS[:3]
        ),
    ],
)
def test_importing_the_lower_floors_loads_no_drawing_and_no_notebook(modules):
    heavy = ("matplotlib", "ipywidgets", "IPython")
    program = f"import sys, {modules}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")  # silent as well


@each_file
def test_every_public_function_and_class_says_what_it_does(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the module has no docstring"
    if "exercises" in path.parts:  # there, functions are answers, some wrong on purpose
        return
    silent = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not (node.name.startswith("_") or ast.get_docstring(node))
    ]
    assert not silent, f"no docstring: {silent}"


def test_the_licence_travels_with_the_library():
    assert (ROOT.parent / "LICENSE").read_bytes() == (ROOT.parents[1] / "LICENSE").read_bytes()


def prints(tree: ast.AST) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]


@each_file
def test_nothing_prints_but_checks_and_programs(path):
    tree = ast.parse(path.read_text())
    is_program = any(
        isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        for node in tree.body
    )
    may_print = is_program or path.name == "check.py" or "exercises" in path.parts
    assert may_print or not prints(tree)
