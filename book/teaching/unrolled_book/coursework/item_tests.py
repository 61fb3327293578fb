"""The hidden tests of a syllabus' item, and what our own answers do on them.

What the solution and the planned wrong answers do is computed in the grader's process, once for
each exercise, for they are the course's own.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from unrolled_book.coursework.marks import Mark
from unrolled_book.coursework.personal import own
from unrolled_book.coursework.syllabus import Item, Syllabus
from unrolled_book.exercises.engine import Call, Exercise, marking
from unrolled_book.exercises.engine.marking import outcomes_of, planned_outcomes
from unrolled_book.exercises.engine.running import Outcome
from unrolled_book.exercises.engine.wire import encode


@dataclass(frozen=True)
class Task:
    """An exercise with hidden tests, and what our own answers do on them."""

    exercise: Exercise
    calls: list[Call]
    arguments: list[Any]
    expected: list[Outcome]
    planned: dict[str, list[Outcome]]


def _task(exercise: Exercise, seed: int) -> Task:
    calls = exercise.calls(seed)
    return Task(
        exercise,
        calls,
        [] if exercise.is_value else [encode(call.args) for call in calls],
        outcomes_of(exercise, exercise.solution, calls),
        planned_outcomes(exercise, calls),
    )


@dataclass
class ItemTests:
    """The tests of an item: one task for all, made when it is first needed, or one for each."""

    syllabus: Syllabus
    item: Item
    exercise: Exercise = field(init=False)
    shared: Task | None = None
    own_tasks: dict[str, Task] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.exercise = self.syllabus.exercise(self.item)
        self.given = self.exercise.imports

    def task(self, student: str) -> Task:
        seed = self.syllabus.seed_of(self.item)
        if self.item.personal:
            if student not in self.own_tasks:
                mine = self.syllabus.personal_seed(self.item, student)
                self.own_tasks[student] = _task(own(self.exercise, mine), seed)
            return self.own_tasks[student]
        if self.shared is None:
            self.shared = _task(self.exercise, seed)
        return self.shared

    def needs(self, package: str) -> bool:
        """Whether the exercise's own imports name the package."""
        return re.search(rf"(?m)^(from|import) {package}\b", self.given) is not None

    def fingerprint(self, student: str) -> str:
        """All that a mark depends on, but for what was handed in."""
        seeds = [self.syllabus.seed_of(self.item)]
        if self.item.personal:
            seeds.append(self.syllabus.personal_seed(self.item, student))
        return f"{self.item} {seeds} {self.exercise.source}"

    def mark(self, state: str, **parts: Any) -> Mark:
        """A mark for this item; without points where none are given."""
        item, exercise = self.item, self.exercise
        points = parts.pop("points", 0.0)
        return Mark(exercise.name, exercise.title, state, points, item.points, **parts)


@cache
def program_digest() -> bytes:
    """The hash of what reads, runs and judges answers."""
    folders = (Path(__file__).parent, Path(marking.__file__).parent)
    found = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        found.update(path.name.encode() + path.read_bytes())
    return found.digest()
