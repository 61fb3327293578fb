"""`check("softmax", softmax)`: the reader's self-check, in the notebook."""

from __future__ import annotations

import inspect
import json
import secrets
from pathlib import Path
from typing import Any

from unrolled_book import exercises
from unrolled_book.exercises.engine import Exercise
from unrolled_book.exercises.engine.compare import describe
from unrolled_book.exercises.engine.marking import NOT_YET, Report, mark, outcomes_of

_MISSING = object()


def check(
    name: str, answer: Any = _MISSING, *, seed: int | None = None, folder: str | Path | None = None
) -> None:
    """Print what the exercise's tests say of answer: ✓ passed, ✗ with the reason, ○ not written.

    name is the exercise's, "softmax" or "c07_backprop/softmax". The inputs are drawn anew at each
    call; `seed` repeats those of an earlier one. `folder` holds exercises of your own, in the form
    of the book's. Raises ValueError for an unknown name and TypeError where name is not a string
    or the answer was left out.
    """
    if not isinstance(name, str):
        raise TypeError(f'the name comes first: check("softmax", softmax), got {describe(name)}')
    if answer is _MISSING:
        raise TypeError(f'pass your answer as well: check("{name}", …)')
    exercise = exercises.load(name, exercises.HOME if folder is None else folder)
    chosen = secrets.randbelow(10_000) if seed is None else seed
    report = examine(exercise, answer, chosen)
    print(report.text)
    if report.state == "failed" and not exercise.is_value and report.n_tests:
        own = getattr(answer, "__name__", "")
        shown = [f'"{name}"', own if own.isidentifier() else "…", f"seed={chosen}"]
        shown += [] if folder is None else [f"folder={json.dumps(str(folder), ensure_ascii=False)}"]
        print(f"  The same inputs again: check({', '.join(shown)})")


def examine(exercise: Exercise, answer: Any, seed: int) -> Report:
    """The report on an answer for the inputs of this seed."""
    complaint = _wrong_kind(exercise, answer)
    if complaint:
        return Report(exercise.name, "failed", complaint)
    if answer is Ellipsis:
        return Report(exercise.name, "unwritten", NOT_YET)
    calls = exercise.calls(seed)
    return mark(exercise, calls, outcomes_of(exercise, answer, calls))


def _wrong_kind(exercise: Exercise, answer: Any) -> str | None:
    if answer is Ellipsis:
        return None
    name = exercise.name
    if exercise.is_value and callable(answer):
        return f"the answer is a value, got the {_callable_kind(answer)} itself; call it first"
    if not exercise.is_value and not callable(answer):
        what = _callable_kind(exercise.solution)
        return f'got {describe(answer)}, expected the {what} itself: check("{name}", {name})'
    return None


def _callable_kind(answer: Any) -> str:
    return "class" if inspect.isclass(answer) else "function"
