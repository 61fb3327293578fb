"""The exercises: one Python file each, one package per chapter (`c07_backprop` for chapter 7).

A chapter's package lists its exercises in `order`, the order in which the book shows them. `engine`
reads the files and marks answers.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache

from unrolled.teaching.exercises.engine import Exercise


@cache
def chapters() -> dict[str, tuple[str, ...]]:
    """The exercises' names by chapter package, in the book's order."""
    found = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.ispkg and m.name != "engine")
    return {slug: _order(slug) for slug in found}


def _order(slug: str) -> tuple[str, ...]:
    return tuple(getattr(importlib.import_module(f"{__name__}.{slug}"), "order", ()))


@cache
def load(name: str) -> Exercise:
    """The exercise "softmax" or "c07_backprop/softmax".

    Raises ValueError, with the names that are closest, for an unknown one.
    """
    places = [(slug, n) for slug, names in chapters().items() for n in names]
    found = [(slug, n) for slug, n in places if name in (n, f"{slug}/{n}")]
    if len(found) != 1:
        raise ValueError(_not_one(name, found, [n for _, n in places]))
    slug, n = found[0]
    return Exercise.from_module(importlib.import_module(f"{__name__}.{slug}.{n}"))


def _not_one(name: str, found: list[tuple[str, str]], known: list[str]) -> str:
    if found:
        return f"{name!r} is in several chapters: {', '.join('/'.join(f) for f in found)}"
    close = difflib.get_close_matches(name.rpartition("/")[2], known, n=3, cutoff=0.5)
    return f"no exercise {name!r}; " + (
        f"did you mean {' or '.join(map(repr, close))}?" if close else f"known: {', '.join(known)}"
    )
