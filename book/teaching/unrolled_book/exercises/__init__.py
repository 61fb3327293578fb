"""The exercises: one Python file each, one folder per chapter (`c07_backprop` for chapter 7).

A chapter's folder lists its exercises in `order` in its `__init__.py`, the order in which the book
shows them; `left_out` names files that are there and not shown. `engine` reads the files and marks
answers. A folder of one's own has the same form and may stand anywhere.
"""

from __future__ import annotations

import difflib
import runpy
from functools import cache
from pathlib import Path
from typing import Any

from unrolled_book.exercises.engine import Exercise

HOME = Path(__file__).parent


def chapters(folder: str | Path = HOME, listed: str = "order") -> dict[str, tuple[str, ...]]:
    """The exercises' names by chapter, in the book's order; or those in `left_out`.

    Raises ValueError for a folder without chapters.
    """
    found = sorted(Path(folder).glob("c[0-9]*/__init__.py"))
    if not found:
        raise ValueError(f"no exercises in {str(folder)!r}; expected c07_backprop/__init__.py, …")
    return {path.parent.name: _names(path, listed) for path in found}


def load(name: str, folder: str | Path = HOME) -> Exercise:
    """The exercise "softmax" or "c07_backprop/softmax" of the folder; or of a path to its file.

    Raises ValueError, with the names that are closest, for an unknown one.
    """
    if name.endswith(".py"):
        return Exercise.read(Path(folder) / name)
    lists = [chapters(folder, listed).items() for listed in ("order", "left_out")]
    places = [(slug, n) for both in lists for slug, names in both for n in names]
    found = [(slug, n) for slug, n in places if name in (n, f"{slug}/{n}")]
    if len(found) != 1:
        raise ValueError(_not_one(name, found, [n for _, n in places]))
    slug, n = found[0]
    return _read(path := Path(folder) / slug / f"{n}.py", path.stat().st_mtime_ns)


@cache
def _read(path: Path, changed: int) -> Exercise:
    """An exercise is read again when its file has changed."""
    return Exercise.read(path)


@cache
def _lists(path: Path, source: bytes) -> dict[str, Any]:
    """What a chapter's `__init__.py` defines; it is run again when it has changed."""
    try:
        return runpy.run_path(str(path))
    except Exception as error:
        says = f"{path} does not run ({type(error).__name__}: {error})"
        raise ValueError(f'{says}; expected order = ("softmax", …)') from error


def _names(path: Path, listed: str) -> tuple[str, ...]:
    names = _lists(path, path.read_bytes()).get(listed, ())
    if isinstance(names, str):
        raise ValueError(f"{listed} in {path} must be a tuple of names, got the text {names!r}")
    return tuple(names)


def _not_one(name: str, found: list[tuple[str, str]], known: list[str]) -> str:
    if found:
        return f"{name!r} is in several chapters: {', '.join('/'.join(f) for f in found)}"
    close = difflib.get_close_matches(name.rpartition("/")[2], known, n=3, cutoff=0.5)
    return f"no exercise {name!r}; " + (
        f"did you mean {' or '.join(map(repr, close))}?" if close else f"known: {', '.join(known)}"
    )
