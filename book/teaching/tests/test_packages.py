"""The two packages: imports run downward, little is loaded, everything public is explained."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import unrolled
import unrolled_book

ROOT, BOOK = (Path(package.__file__).parent for package in (unrolled, unrolled_book))
FLOORS = ("data", "models", "training", "generation", "accounting")
FILES = sorted(ROOT.rglob("*.py"))
TREES = {path: ast.parse(path.read_text("utf8")) for path in [*FILES, *sorted(BOOK.rglob("*.py"))]}


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


def compares_arrays(tree: ast.Module) -> list[str]:
    """The dataclasses whose generated `==` compares arrays: whether it raises depends on Python."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            made = [d for d in map(ast.unparse, node.decorator_list) if d.startswith("dataclass")]
            fields = [ast.unparse(f) for f in node.body if isinstance(f, ast.AnnAssign)]
            compared = " ".join(field for field in fields if "compare=False" not in field)
            arrays = re.search(r"Tensor|NDArray|ndarray|\bState\b", compared)
            if made and arrays and "eq=False" not in made[0]:
                found.append(node.name)
    return found


def test_a_dataclass_that_holds_arrays_is_equal_to_itself_alone():
    found = {path.name: names for path, tree in TREES.items() if (names := compares_arrays(tree))}
    assert not found, f"@dataclass(eq=False): {found}"


def test_imports_run_downward_only():
    on_a_floor = {path: path.relative_to(ROOT).parts[0] for path in FILES if path.parent != ROOT}
    found = {
        path: up
        for path, floor in on_a_floor.items()
        if (up := upward(path.read_text("utf8"), floor, package_of(path)))
    }
    assert not found


def of_the_book(source: str, package: str) -> set[str]:
    """What a module of the library imports from the package that teaches."""
    return {name for name in imported(source, package) if name.split(".")[0] == "unrolled_book"}


def test_the_library_needs_nothing_that_teaches():
    assert not {p: up for p in FILES if (up := of_the_book(p.read_text("utf8"), package_of(p)))}


def test_an_import_of_what_teaches_would_be_found():
    assert of_the_book("def f():\n    from unrolled_book.check import check", "unrolled.models")


def circles(imports: dict[str, set[str]]) -> list[str]:
    """A circle of modules that import each other, or none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def modules() -> dict[str, set[str]]:
    """module -> the modules of both packages that it imports, anywhere in it but for types."""
    names = {path: name_of(path) for path in TREES}
    known = set(names.values())
    return {
        name: {found for found in imported(running(TREES[path]), parent(path)) if found in known}
        - {name, parent(path)}
        for path, name in names.items()
    }


def name_of(path: Path) -> str:
    home = ROOT.parent if path.is_relative_to(ROOT) else BOOK.parent
    parts = path.relative_to(home).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parent(path: Path) -> str:
    """The package in which a module lies; a package's own name."""
    return name_of(path) if path.stem == "__init__" else name_of(path).rpartition(".")[0]


def running(tree: ast.Module) -> str:
    """The source of a module without what only a type checker reads."""
    body = [n for n in tree.body if "TYPE_CHECKING" not in ast.unparse(getattr(n, "test", n))[:13]]
    return ast.unparse(ast.Module(body, []))


def test_no_modules_import_each_other_in_a_circle():
    assert circles(modules()) == []


def test_a_circle_would_be_found():
    assert set(circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}


def test_the_entrance_and_the_validator_load_no_floor():
    for path in ROOT.glob("*.py"):
        found = imported(path.read_text("utf8"), "unrolled")
        assert not {name for name in found if name.startswith("unrolled")}, path.name


@pytest.mark.parametrize(
    "line",
    [
        "import unrolled.training.fit",
        "from unrolled import training",
        "from unrolled.training import fit as f",
        "from ..training import fit",
        "from .. import training",
        "def f():\n    from unrolled.training.fit import fit",
    ],
)
def test_an_upward_import_would_be_found(line):
    assert upward(line, "models", "unrolled.models") == {"training"}
    assert not upward(line, "training", "unrolled.models")


@pytest.mark.parametrize(
    "modules",
    [
        "unrolled",
        ", ".join(f"unrolled.{floor}" for floor in FLOORS),
        "unrolled.models.autograd, unrolled.models.gradcheck, unrolled_book.behaviour",
        ", ".join(
            f"{package_of(p)}.{p.stem}"
            for p in FILES
            if p.stem != "__init__" and p.relative_to(ROOT).parts[0] in FLOORS
        ),
    ],
)
def test_importing_the_lower_floors_loads_no_drawing_and_no_notebook(modules):
    heavy = ("matplotlib", "ipywidgets", "IPython")
    program = f"import sys, {modules}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")  # silent as well


def silent(tree: ast.Module) -> list[str]:
    """The public functions and classes of a module that have no docstring."""
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not (node.name.startswith("_") or ast.get_docstring(node))
    ]


def is_an_exercise(path: Path) -> bool:
    """Whether the functions of this file are answers, some of them wrong on purpose."""
    return bool(re.search(r"unrolled_book/exercises/c\d", path.as_posix()))


def test_every_module_and_everything_public_in_it_says_what_it_does():
    assert not [path for path, tree in TREES.items() if not ast.get_docstring(tree)]
    found = {p: silent(tree) for p, tree in TREES.items() if not is_an_exercise(p)}
    assert not {path: names for path, names in found.items() if names}


def test_a_missing_docstring_would_be_found():
    assert silent(ast.parse("def f(): ...\ndef _g(): ...\nclass C:\n    'c'")) == ["f"]


def test_the_licence_travels_with_the_library():
    licence = (ROOT.parents[1] / "LICENSE").read_bytes()
    assert (
        (ROOT.parent / "LICENSE").read_bytes() == (BOOK.parent / "LICENSE").read_bytes() == licence
    )


def prints(tree: ast.AST) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]


def is_a_program(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        for node in tree.body
    )


def test_nothing_prints_but_checks_and_programs():
    found = {path: prints(tree) for path, tree in TREES.items() if not is_a_program(tree)}
    printing = {path for path, lines in found.items() if lines}
    checks = {p for p in printing if p.stem in ("check", "self_check") or is_an_exercise(p)}
    assert printing <= checks


def test_a_print_would_be_found():
    assert prints(ast.parse("def f():\n    print(1)")) == [2]
