"""From the outcomes of an answer to its mark, in words that hold no expected value."""

from __future__ import annotations

import json
import re
from typing import Any

from unrolled_book.coursework.item_tests import ItemTests, Task
from unrolled_book.coursework.marks import Mark
from unrolled_book.exercises.engine import Call, marking
from unrolled_book.exercises.engine.compare import difference
from unrolled_book.exercises.engine.marking import Report
from unrolled_book.exercises.engine.running import Outcome
from unrolled_book.exercises.engine.wire import decode

_MOST_LINES, _LONGEST_LINE = 24, 300  # of a report: an answer may hand out megabytes
# Of an outcome as JSON, beyond twenty times what the right one has: characters, and numbers, which
# cost a hundred times theirs wherever they are looked at.
_LARGE, _MANY = 200_000, 4_000
_LINE_NUMBER = re.compile(r"\(line \d+: `")
_KINDS = {"passed": "right", "failed": "wrong", "unwritten": "unwritten"}


def judged(tests: ItemTests, task: Task, result: Any, notes: tuple[str, ...]) -> Mark:
    """The mark for what the sandbox gave: outcomes, or the problem in their place."""
    parts = {"notes": notes, "seconds": round(result.seconds, 3)}
    if result.outcomes is None:
        said = _LINE_NUMBER.sub("(in `", result.problem)[:_LONGEST_LINE]
        n_tests = len(task.calls)
        slip = re.split(r" \(in |: ", said)[0]
        return tests.mark("wrong", verdict=said, n_tests=n_tests, slip=slip, **parts)
    said = marking.mark(
        task.exercise,
        task.calls,
        [_of_a_size(*both) for both in zip(result.outcomes, task.expected, strict=True)],
        task.planned,
        expected=task.expected,
        reveal=False,
    )
    return _in_words(tests, said, _share(said, task.calls), result.problem, parts)


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
