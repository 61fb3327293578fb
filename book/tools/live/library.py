"""What of the library goes into the page, and which exercises cannot be solved there."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from unrolled_book import exercises
from unrolled_book.exercises.engine import Exercise

from book.tools.live.trim import NOT_OF_PYTHON
from book.tools.notebooks import PACKAGES, chapter_paths, read

LIB = PACKAGES["unrolled"]
TEXTS = "unrolled/data/texts"
# Packages that an exercise may ask for and the page does not have.
ABSENT = ("torch", "scipy", "matplotlib", "regex", "sympy", "pandas", "IPython")
_IMPORT = re.compile(r"(?m)^(?:import|from) (?:[^(\n]*$|[^)]*\)$)")
ALWAYS = ("unrolled_book.check", "unrolled_book.workbench.page")  # what live.mjs asks for
WORKBENCH = ("shakespeare", "chesterton", "names")  # its texts
DATA = {"unrolled_book/tasks/number_words.py": "unrolled_book/texts/number_words.bz2"}


def book() -> dict[str, Exercise]:
    """Every exercise of the book by its name, 'c07_backprop/softmax_vjp'."""
    order = exercises.chapters().items()
    return {f"{slug}/{n}": exercises.load(f"{slug}/{n}") for slug, names in order for n in names}


def elsewhere(exercise: Exercise) -> str | None:
    """Why the exercise cannot be solved in the page; None where it can."""
    absent = absent_of(imported(_without_oracle(exercise), inside=True))
    return f"needs {absent}, which the page does not have" if absent else None


def absent_of(names: Iterable[str]) -> str:
    """Which packages that the page does not have these modules need: 'matplotlib and torch'."""
    return " and ".join(sorted(_closed(names) & {*ABSENT}))


def texts(exercise: Exercise) -> list[str]:
    """The files of the texts that the exercise's tests or answers load."""
    return texts_in(_without_oracle(exercise))


def texts_in(tree: ast.AST) -> list[str]:
    """The files of the texts that a program loads by name."""
    found = {
        node.args[0].value.removesuffix("-small")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "load"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    return sorted(path.name for name in found for path in (LIB / TEXTS).glob(f"{name}.txt.*"))


def imports(chapter: str, bundled: Collection[str]) -> dict[str, Any]:
    """What the chapter's first cell imports: what the page has of it, as source, and by name, as
    {"nn": "torch"}, what it lacks. bundled: the paths of the library's files in the page.
    """
    (path,) = chapter_paths([chapter.removeprefix("c")])
    first = next(cell.source for cell in read(path).cells if cell.cell_type == "code")
    lines, missing = [], {}
    for node in ast.parse("\n".join(_IMPORT.findall(first))).body:
        absent = [name for name in imported(ast.Module([node], [])) if not _there(name, bundled)]
        if absent:
            bound = [alias.asname or alias.name.partition(".")[0] for alias in node.names]
            missing |= dict.fromkeys(bound, absent[0].partition(".")[0])
        else:
            lines.append(ast.unparse(node))
    return {"source": "\n".join(lines), "missing": missing}


def _there(name: str, bundled: Collection[str]) -> bool:
    if name.startswith("unrolled"):
        return _place(_path(name)) in bundled
    top = name.partition(".")[0]
    return top == "numpy" or (
        top in sys.stdlib_module_names and top != "lzma" and not NOT_OF_PYTHON.match(f"{top}.py")
    )


def modules(here: list[Exercise], programs: Iterable[str] = ()) -> dict[str, bytes]:
    """The library's files, by their paths in it, that these exercises and programs need."""
    names = _closed(ALWAYS)
    for program in programs:
        names |= {n for n in _closed(imported(ast.parse(program))) if n.startswith("unrolled")}
    for exercise in here:
        names |= {name for name in _needed(exercise) if name.startswith("unrolled")}
        names.add(f"unrolled_book.exercises.{exercise.chapter}")
    paths = {_path(part) for name in names for part in _parents(name)} - {None}
    paths |= {exercise.path for exercise in here}
    found = {_place(path): path.read_bytes() for path in paths}
    data = [PACKAGES["unrolled_book"] / DATA[name] for name in found if name in DATA]
    return found | {_place(path): path.read_bytes() for path in data}


def _needed(exercise: Exercise) -> set[str]:
    """Modules of the library and packages, by name, that run when the exercise is checked."""
    return _closed(imported(_without_oracle(exercise), inside=True))


def _closed(names: Iterable[str]) -> set[str]:
    """The names, and those of all that these modules import in their turn."""
    todo, seen = set(names), set()
    while todo:
        seen |= (now := todo)
        found = {m for name in now for part in _parents(name) for m in _imports_of(part)}
        todo = (found | {part for name in now for part in _parents(name)}) - seen
    return seen | {name.partition(".")[0] for name in seen}


def _without_oracle(exercise: Exercise) -> ast.Module:
    tree = ast.parse(exercise.source)
    tree.body = [node for node in tree.body if getattr(node, "name", "") != "oracle"]
    return tree


@cache
def _imports_of(name: str) -> frozenset[str]:
    path = _path(name)
    if path is None:
        return frozenset()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return frozenset(imported(ast.parse(path.read_text(encoding="utf-8")), package))


def imported(tree: ast.AST, package: str = "", *, inside: bool = False) -> Iterator[str]:
    """Names of modules that a module of the package imports when it runs.

    inside: with those that are imported inside functions.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            yield base
            names = (f"{base}.{alias.name}" for alias in node.names)
            yield from (name for name in names if _path(name))
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif inside or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from imported(node, package, inside=inside)


def _place(path: Path) -> str:
    """A file's path in its package, as it is imported: unrolled_book/check.py."""
    home = next(folder for folder in PACKAGES.values() if path.is_relative_to(folder))
    return path.relative_to(home).as_posix()


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: n + 1]) for n in range(len(parts))]


def _path(name: str) -> Path | None:
    """The library's file of a module; None for a name that is none of its."""
    top = name.partition(".")[0]
    if top not in PACKAGES:
        return None
    base = PACKAGES[top].joinpath(*name.split("."))
    return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.exists()), None)
