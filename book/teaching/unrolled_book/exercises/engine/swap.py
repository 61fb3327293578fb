"""`swap("+=", "=")`: a wrong answer, written as a change of the solution's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Swap:
    """Changes of the solution's text, one after the other: (old, new, how often old occurs)."""

    changes: tuple[tuple[str, str, int], ...]

    def swap(self, old: str, new: str, times: int = 1) -> Swap:
        """The same changes, and then this one."""
        return Swap((*self.changes, (old, new, times)))

    def apply(self, source: str) -> str:
        """The changed text. ValueError where `old` does not occur `times` times."""
        for old, new, times in self.changes:
            if source.count(old) != times:
                found = source.count(old)
                raise ValueError(f"swap: {old!r} occurs {found} times in the text, not {times}")
            source = source.replace(old, new)
        return source

    def answer(self, name: str, source: str, names: Mapping[str, Any]) -> Any:
        """What `name` is after the changed text has run where the exercise's names are known."""
        namespace = dict(names)
        exec(compile(self.apply(source), f"<{name}, changed>", "exec"), namespace)
        return namespace[name]


def swap(old: str, new: str, times: int = 1) -> Swap:
    """The solution with `new` wherever `old` stands, which is exactly `times` times.

    Several changes follow each other: `swap("axis=1", "axis=0").swap("/ n", "")`.
    """
    return Swap(((old, new, times),))
