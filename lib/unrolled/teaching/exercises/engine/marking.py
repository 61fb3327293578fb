"""Running an answer on an exercise's tests, and saying what came of it.

Two halves that may stand in two processes. `run` needs the student's answer and the arguments, and
returns outcomes that are JSON; `mark` needs the exercise with its reference and the outcomes.
"""

from __future__ import annotations

import inspect
import linecache
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from unrolled.teaching.exercises.engine import Call, Exercise
from unrolled.teaching.exercises.engine.compare import describe, difference
from unrolled.teaching.exercises.engine.wire import decode, encode

Outcome = dict[str, Any]

# What Python, numpy and torch say of a `...` that is used as a value; all three also speak of an
# ellipsis where an index or an einsum is wrong, and that is an error like any other.
_USES_ELLIPSIS = re.compile(r"'ellipsis'|(of|type|not|to) ellipsis")


@dataclass(frozen=True)
class Report:
    """What came of an answer. state: "passed", "failed", "unwritten"."""

    name: str
    state: str
    lines: tuple[str, ...]
    n_passed: int = 0
    n_tests: int = 0

    @property
    def text(self) -> str:
        """The lines as printed."""
        sign = {"passed": "✓", "failed": "✗", "unwritten": "○"}[self.state]
        return "\n".join(
            [f"{sign} {self.name}: {self.lines[0]}", *("  " + x for x in self.lines[1:])]
        )


def run(answer: Any, arguments: list[Any], use: Callable[..., Any] | None = None) -> list[Outcome]:
    """What answer does with each of the encoded argument tuples; an error is an outcome too.

    An outcome is {"value": …} or {"error": {"type", "message", "line", "text"}}, and "mutated":
    positions of the arguments that the answer changed.
    """
    return [_attempt(answer, args, use) for args in arguments]


def _attempt(answer: Any, arguments: Any, use: Callable[..., Any] | None) -> Outcome:
    args = decode(arguments)
    try:
        with _quiet():
            value = use(answer, *args) if use else answer(*args)
            outcome: Outcome = {"value": encode(value)}
    except (Exception, SystemExit) as error:  # exit() must not end the reader's session
        outcome = {"error": _describe_error(error, answer)}
    pairs = enumerate(zip(decode(arguments), args, strict=True))
    outcome["mutated"] = [i for i, (before, now) in pairs if encode(before) != encode(now)]
    return outcome


@contextmanager
def _quiet() -> Iterator[None]:
    """A warning is no verdict: an overflow shows in the result."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _describe_error(error: BaseException, answer: Any) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename == _file_of(answer)]
    said = {"type": type(error).__name__, "message": str(error)[:300], "line": None, "text": ""}
    if own:
        said["line"] = own[-1].lineno
        said["text"] = linecache.getline(own[-1].filename, own[-1].lineno or 0).strip()
    return said


def _file_of(answer: Any) -> str | None:
    if inspect.isclass(answer):
        functions = [f for f in vars(answer).values() if inspect.isfunction(f)]
        answer = functions[0] if functions else None
    code = getattr(inspect.unwrap(answer), "__code__", None) if answer else None
    return code.co_filename if code else None


def outcomes_of(exercise: Exercise, answer: Any, calls: list[Call]) -> list[Outcome]:
    """`run` for an answer in this process; the outcome of a value is the value itself."""
    if exercise.is_value:
        return [{"value": encode(answer), "mutated": []}]
    return run(answer, [encode(call.args) for call in calls], exercise.use)


def mark(exercise: Exercise, calls: list[Call], outcomes: list[Outcome]) -> Report:
    """Hold the outcomes against the reference; the report speaks of the first failing test."""
    expected = outcomes_of(exercise, exercise.solution, calls)
    tests = list(zip(calls, outcomes, expected, strict=True))
    complaints = [_complaint(exercise, *test) for test in tests]
    n, n_passed = len(calls), sum(c is None for c in complaints)
    if n_passed == n:
        lines = (f"all {n} tests passed" if n > 1 else "right",)
        return Report(exercise.name, "passed", lines, n, n)
    first = next(i for i, c in enumerate(complaints) if c is not None)
    if _unwritten(outcomes[first]):
        return Report(exercise.name, "unwritten", ("not written yet",), n_passed, n)
    lines = [complaints[first]]
    if not exercise.is_value:
        lines = [f"{n_passed} of {n} tests passed; the first that fails is", *lines]
        lines[1] = f"{_show_call(exercise, calls[first])}: {lines[1]}"
    cause = _diagnosis(exercise, calls, outcomes)
    if cause:
        lines.append(f"Likely cause: {cause}.")
    if calls[first].hint:
        lines.append(f"Hint: {calls[first].hint}")
    return Report(exercise.name, "failed", tuple(lines), n_passed, n)


def _complaint(exercise: Exercise, call: Call, outcome: Outcome, expected: Outcome) -> str | None:
    if _unwritten(outcome):
        return "not written yet"
    if "error" in outcome or "error" in expected:
        return _error_complaint(outcome, expected)
    got, right = decode(outcome["value"]), decode(expected["value"])
    if got is None and right is not None:
        return (
            "the answer is None" if exercise.is_value else "returned None: is a `return` missing?"
        )
    if exercise.judge:
        complaint = _judged(exercise, got, right, call)
    else:
        complaint = difference(got, right, call.tolerance, reveal=not exercise.is_value)
    if complaint is None and outcome["mutated"] and not expected["mutated"]:
        which = ", ".join(str(i + 1) for i in outcome["mutated"])
        complaint = f"changes its own input (argument {which}); work on a copy"
    return complaint


def _error_complaint(outcome: Outcome, expected: Outcome) -> str | None:
    if "error" not in outcome:
        got = describe(decode(outcome["value"]))
        return f"returned {got}, but it must raise {expected['error']['type']}"
    error = outcome["error"]
    if "error" in expected and error["type"] == expected["error"]["type"]:
        return None
    where = f" (line {error['line']}: `{error['text']}`)" if error["line"] else ""
    wanted = f"; it must raise {expected['error']['type']}" if "error" in expected else ""
    return f"raised {error['type']}: {error['message']}{where}{wanted}"


def _judged(exercise: Exercise, got: Any, right: Any, call: Call) -> str | None:
    args = decode(encode(call.args))
    try:
        with _quiet():
            return exercise.judge(got, *args)
    except Exception:  # the judge reads an output of the right form; this one is not
        return f"got {describe(got)}, expected something like {describe(right)}"


def _unwritten(outcome: Outcome) -> bool:
    if "error" in outcome:
        error = outcome["error"]
        bare = (error["type"], error["message"]) == ("NotImplementedError", "")
        return bare or _USES_ELLIPSIS.search(error["message"]) is not None
    return _holds_ellipsis(outcome["value"])


def _holds_ellipsis(data: Any) -> bool:
    if isinstance(data, dict):
        return "unwritten" in data or any(_holds_ellipsis(v) for v in data.values())
    return isinstance(data, list) and any(_holds_ellipsis(v) for v in data)


def _diagnosis(exercise: Exercise, calls: list[Call], outcomes: list[Outcome]) -> str | None:
    """The key of the first wrong answer that does exactly what this answer does."""
    for explanation, answer in exercise.wrong.items():
        theirs = outcomes_of(exercise, answer, calls)
        trio = zip(calls, outcomes, theirs, strict=True)
        if all(_same(o, w, call.tolerance) for call, o, w in trio):
            return explanation
    return None


def _same(one: Outcome, other: Outcome, tolerance: float) -> bool:
    if "error" in one or "error" in other:
        a, b = one.get("error"), other.get("error")
        return bool(a and b) and (a["type"], a["message"]) == (b["type"], b["message"])
    if one["mutated"] != other["mutated"]:
        return False
    return difference(decode(one["value"]), decode(other["value"]), tolerance) is None


def _show_call(exercise: Exercise, call: Call) -> str:
    with np.printoptions(precision=4, threshold=8, suppress=True):
        shown = [repr(a) if isinstance(a, str) else " ".join(repr(a).split()) for a in call.args]
    if sum(map(len, shown)) > 90:
        shown = [s if len(s) <= 24 else describe(a) for s, a in zip(shown, call.args, strict=True)]
    return f"{exercise.name}({', '.join(shown)})"
