"""From the outcomes of an answer to its mark, in words that hold no expected value."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from unrolled_book.coursework.item_tests import ItemTests, Task
from unrolled_book.coursework.marks import Mark
from unrolled_book.exercises.engine import Call, marking
from unrolled_book.exercises.engine.compare import describe, difference
from unrolled_book.exercises.engine.marking import Report
from unrolled_book.exercises.engine.running import Outcome
from unrolled_book.exercises.engine.wire import decode
from unrolled_book.exercises.examples import written, written_call

_MOST_LINES, _LONGEST_LINE = 24, 300  # of a report: an answer may hand out megabytes
# Of an outcome as JSON, beyond twenty times what the right one has: characters, and numbers, which
# cost a hundred times theirs wherever they are looked at.
_LARGE, _MANY = 200_000, 4_000
_LONGEST_CALL = 400  # characters of a call that one would copy
_LONGEST_REVEALED = 2_000  # the same, and of an expected value, after the deadline
_NO_MODULE = re.compile(r"ModuleNotFoundError: “No module named '(\w[\w.]{0,60})'")
_LINE_NUMBER = re.compile(r"\(line \d+: `")
_KINDS = {"passed": "right", "failed": "wrong", "unwritten": "unwritten"}


def judged(tests: ItemTests, task: Task, result: Any, notes: tuple[str, ...]) -> Mark:
    """The mark for what the sandbox gave: outcomes, or the problem in their place."""
    parts = {"notes": notes, "seconds": round(result.seconds, 3)}
    if result.outcomes is None:
        said = _LINE_NUMBER.sub("(in `", result.problem)[:_LONGEST_LINE]
        n_tests = len(task.calls)
        causes = _missing_module(tests, said)
        slip = [*causes, re.split(r" \(in |: ", said)[0]][0]
        return tests.mark("wrong", verdict=said, n_tests=n_tests, causes=causes, slip=slip, **parts)
    said = marking.mark(
        task.exercise,
        task.calls,
        [_of_a_size(*both) for both in zip(result.outcomes, task.expected, strict=True)],
        task.planned,
        expected=task.expected,
        reveal=False,
    )
    if said.state == "failed":
        details = _reproducible(task, said.first, said.details)
        found = _missing_module(tests, " ".join(details)) if said.raised else ()
        said = replace(said, details=details, causes=(*said.causes, *found))
        told = _revealed(task, said.first)
        parts["revealed"] = tuple(line for line in told if line not in details)
    return _in_words(tests, said, _share(said, task.calls), result.problem, parts)


def _reproducible(task: Task, n: int, details: tuple[str, ...]) -> tuple[str, ...]:
    """The details, with the whole call in the first of them where a reader can copy it.

    Longer arguments stay described, "an array of shape (30, 50)".
    """
    exercise, call = task.exercise, task.calls[n]
    if not details or callable(exercise.show) or not details[0].startswith(f"{exercise.name}("):
        return details
    whole = _cut(written_call(exercise.name, call.args), _LONGEST_CALL)
    return details if whole is None else (*whole, *details[1:])


def _revealed(task: Task, n: int) -> tuple[str, ...]:
    """The call and what it should return, or a value's parts; described where they are long."""
    exercise, lines = task.exercise, []
    if exercise.is_value:
        right = exercise.solution
        parts = right.items() if isinstance(right, dict) else [(exercise.name, right)]
        lines = [f"{name}: expected {_shown(part)}" for name, part in parts]
    else:
        outcome = task.expected[n]
        if not exercise.use:
            whole = written_call(exercise.name, task.calls[n].args)
            lines += _cut(whole, _LONGEST_REVEALED) or ["the input is too long to be shown"]
        if "error" in outcome:
            lines += [f"expected: it raises {outcome['error']['type']}"]
        else:
            like = "something like " if exercise.judge else ""
            lines += [f"expected {like}{_shown(decode(outcome['value']))}"]
    return tuple(lines[:_MOST_LINES])


def _shown(value: Any) -> str:
    said = written(value)
    return said if len(said) <= _LONGEST_REVEALED else describe(value)


def _cut(text: str, longest: int) -> list[str] | None:
    return text.split("\n") if len(text) <= longest else None


def _missing_module(tests: ItemTests, said: str) -> tuple[str, ...]:
    """What an error about a missing module means: as a likely cause."""
    if not (found := _NO_MODULE.search(said)):
        return ()
    more = [name for name in ("unrolled", "torch") if tests.needs(name)]
    there = ", ".join(["numpy", "scipy", *more])
    return (
        f"`{found[1]}` is not there where answers are graded, only Python's own modules and "
        f"{there} are; what stands in a file of your own has to stand in the notebook",
    )


def _of_a_size(outcome: Outcome, expected: Outcome) -> Outcome:
    """The outcome; what is far larger than the right one is named only, for judging takes time."""
    try:
        text, right = json.dumps(outcome), json.dumps(expected)
    except (TypeError, ValueError, RecursionError):
        return {"value": {"unknown": "value that cannot be read"}, "mutated": []}
    large = len(text) > _LARGE + 20 * len(right)
    if "value" not in outcome or not (large or text.count(",") > _MANY + 20 * right.count(",")):
        return outcome
    value = outcome["value"]
    kind = next(iter(value)) if isinstance(value, dict) else type(value).__name__
    how_large = f"{len(text) / 1e6:.1f} MB" if large else f"{text.count(','):,} parts"
    return {"value": {"unknown": f"{kind} of {how_large}"}, "mutated": []}


def _share(said: Report, calls: list[Call]) -> float:
    """The share of the hidden tests that passed; of a value's parts, of which none is visible."""
    hidden = [ok for ok, call in zip(said.right, calls, strict=False) if not call.visible]
    if hidden:
        return sum(hidden) / len(hidden)
    return said.n_passed / said.n_tests if said.n_tests else 0.0


def _in_words(
    tests: ItemTests, said: Report, share: float, problem: str, parts: dict[str, Any]
) -> Mark:
    n = said.n_tests
    state = "partly" if said.state == "failed" and share else _KINDS[said.state]
    full = said.state == "passed"
    points = tests.item.points * (share if tests.item.credit == "tests" else full)
    lines = [line[:_LONGEST_LINE] for line in said.details]
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"… {len(lines) - _MOST_LINES} more lines"]
    raised = f"raised {said.raised}" if said.raised else "another mistake"
    return tests.mark(
        state,
        points=round(points, 2),
        n_passed=said.n_passed,
        n_tests=n,
        verdict=said.verdict[:_LONGEST_LINE],
        lines=tuple(lines),
        causes=said.causes,
        hint=said.hint,
        slip="" if full else [*said.causes, problem or raised][0],
        **parts,
    )


def fits(task: Task, outcomes: list[Outcome]) -> bool:
    """Whether a value is right for a task of somebody else's."""
    right = task.exercise.solution
    try:
        got = decode(_of_a_size(outcomes[0], task.expected[0])["value"])
        return difference(got, right, task.exercise.tolerance, by_hand=True) is None
    except Exception:  # a value that was made to break what reads it
        return False


def failed(tests: ItemTests, error: BaseException) -> Mark:
    """The mark where the grader itself has failed, for a person to look at.

    What the error says stands in `slip`, which no student reads: it may be about the tests.
    """
    says = "the grader failed here, by no fault of the answer; the teacher is told of it"
    slip = f"the grader failed here ({type(error).__name__}: {error})"
    return tests.mark("error", verdict=says, slip=slip[:_LONGEST_LINE])
