"""The two packages: imports run downward, little is loaded, everything public is explained."""

import ast
import importlib.util
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import unrolled
import unrolled_book

ROOT, BOOK = (Path(package.__file__).parent for package in (unrolled, unrolled_book))
FLOORS = ("data", "models", "training", "generation", "accounting")
FILES = sorted(ROOT.rglob("*.py"))
TREES = {path: ast.parse(path.read_text("utf8")) for path in [*FILES, *sorted(BOOK.rglob("*.py"))]}


def name_of(path: Path) -> str:
    home = ROOT.parent if path.is_relative_to(ROOT) else BOOK.parent
    parts = path.relative_to(home).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parent(path: Path) -> str:
    """The package in which a module lies; a package's own name."""
    return name_of(path) if path.stem == "__init__" else name_of(path).rpartition(".")[0]


def imported(tree: ast.Module, package: str) -> set[str]:
    """Full names of all that a module imports, anywhere in it; package is where its dots start.

    `from a import b` counts as `a` and as `a.b`, since b may be a module.
    """
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package)
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def upward(tree: ast.Module, package: str) -> set[str]:
    """The floors above the package's own from which a module imports."""
    above = FLOORS[FLOORS.index(package.split(".")[1]) + 1 :]
    tops = {tuple(name.split(".")[:2]) for name in imported(tree, package)}
    return {top for top in above if ("unrolled", top) in tops}


def of_the_book(tree: ast.Module, package: str) -> set[str]:
    """What a module imports from the package that teaches."""
    return {name for name in imported(tree, package) if name.split(".")[0] == "unrolled_book"}


def compares_arrays(tree: ast.Module, package: str) -> list[str]:
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


def silent(tree: ast.Module, package: str) -> list[str]:
    """The public functions and classes of a module that have no docstring."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    public = [n for n in tree.body if isinstance(n, kinds) and not n.name.startswith("_")]
    return [node.name for node in public if not ast.get_docstring(node)]


def prints(tree: ast.Module, package: str) -> list[int]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if getattr(call.func, "id", "") == "print"]


def broken(rule, paths) -> dict[str, list]:
    return {name_of(p): found for p in paths if (found := rule(TREES[p], parent(p)))}


def circles(imports: dict[str, set[str]]) -> list[str]:
    """A circle of modules that import each other, or none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def running(tree: ast.Module) -> ast.Module:
    """A module without what only a type checker reads."""
    for_types = [
        n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)
    ]
    return ast.Module([node for node in tree.body if node not in for_types], [])


def is_an_exercise(path: Path) -> bool:
    return bool(re.search(r"unrolled_book/exercises/c\d", path.as_posix()))


def test_the_floors_are_those_of_the_plan():
    assert {p.name for p in ROOT.iterdir() if (p / "__init__.py").exists()} == set(FLOORS)
    assert {p.name for p in ROOT.glob("*.py")} == {"__init__.py", "validate.py"}


def test_a_dataclass_that_holds_arrays_is_equal_to_itself_alone():
    assert not broken(compares_arrays, TREES), "write @dataclass(eq=False)"


def test_imports_run_downward_only():
    assert not broken(upward, [path for path in FILES if path.parent != ROOT])


def test_the_library_needs_nothing_that_teaches():
    assert not broken(of_the_book, FILES)


def test_no_modules_import_each_other_in_a_circle():
    """Anywhere in the modules of both packages but for types."""
    imports = {name_of(p): imported(running(tree), parent(p)) for p, tree in TREES.items()}
    for path in TREES:
        imports[name_of(path)] &= imports.keys() - {name_of(path), parent(path)}
    assert sum(map(len, imports.values())) > 500
    assert circles(imports) == []


def test_importing_the_lower_floors_loads_no_drawing_and_no_notebook():
    """Every module of the library, and the behaviour that the book lends it, silently."""
    modules = ", ".join([*map(name_of, FILES), "unrolled_book.behaviour"])
    heavy = ("matplotlib", "ipywidgets", "IPython")
    program = f"import sys, {modules}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, encoding="utf8",
        timeout=600,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_every_module_and_everything_public_in_it_says_what_it_does():
    assert all(map(ast.get_docstring, TREES.values()))
    assert not broken(silent, [path for path in TREES if not is_an_exercise(path)])


def test_the_licence_travels_with_the_library():
    licence = (ROOT.parents[1] / "LICENSE").read_bytes()
    for home in (ROOT.parent, BOOK.parent):
        assert (home / "LICENSE").read_bytes() == licence


def test_nothing_prints_but_checks_and_programs():
    programs = {path for path in TREES if '\nif __name__ == "__main__":' in path.read_text("utf8")}
    spoken = ("check", "predictions", "self_check")  # what a reader calls in a notebook
    checks = {p for p in TREES if is_an_exercise(p) or p.stem in spoken}
    assert not broken(prints, TREES.keys() - programs - checks)


def test_what_breaks_a_rule_would_be_found():
    for rule, source, found in [
        *[(upward, source, {"training"}) for source in (
            "import unrolled.training.fit", "from unrolled import training",
            "from unrolled.training.fit import fit as f", "from ..training import fit",
            "from .. import training", "def f():\n    from unrolled.training.fit import fit")],
        (upward, "import unrolled.data.bpe, unrolled.models.block", set()),
        (of_the_book, "def f():\n    import unrolled_book.check", {"unrolled_book.check"}),
        (compares_arrays, "@dataclass(frozen=True)\nclass C:\n    x: Tensor", ["C"]),
        (compares_arrays, "@dataclass(eq=False)\nclass C:\n    x: Tensor", []),
        (silent, "def f(): ...\ndef _g(): ...\nclass C:\n    'c'", ["f"]),
        (prints, "def f():\n    print(1)", [2]),
    ]:  # fmt: skip
        assert rule(ast.parse(source), "unrolled.models") == found, source
    assert set(circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}
