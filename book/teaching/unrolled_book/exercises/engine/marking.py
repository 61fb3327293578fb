"""Running an answer on an exercise's tests, and saying what came of it.

Two halves that may stand in two processes. `running.run` needs the student's answer and the
arguments, and returns outcomes that are JSON; `mark` needs the exercise with its reference and the
outcomes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .compare import describe, describe_type, difference, name_key, quoted
from .running import Outcome, quiet, run
from .wire import decode, encode

if TYPE_CHECKING:
    from .form import Call, Exercise

NOT_YET = "not written yet"

# What Python, numpy and torch say of a `...` that is used as a value; all three also speak of an
# ellipsis where an index or an einsum is wrong, and that is an error like any other.
_USES_ELLIPSIS = re.compile(r"'ellipsis'|(of|type|not|to) ellipsis")


_WRAPPER = textwrap.TextWrapper(
    79, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
)


@dataclass(frozen=True)
class Report:
    """What came of an answer. state: "passed", "failed", "unwritten".

    verdict, details: what is said of it, a sentence and the lines after it. causes: the planned
    mistakes that do what the answer does. hint: the failing test's. raised: the name of the error
    that ended this test, if one did. n_passed of n_tests: the tests of a function or class; the
    parts of a value. right: which of the tests passed, in their order; empty for a value. first:
    the index of the failing test that is spoken of.
    """

    name: str
    state: str
    verdict: str
    details: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    hint: str = ""
    raised: str = ""
    n_passed: int = 0
    n_tests: int = 0
    right: tuple[bool, ...] = ()
    first: int = 0

    @property
    def lines(self) -> tuple[str, ...]:
        """All that is said, a sentence to a line."""
        hint = [f"Hint: {self.hint}"] if self.hint else []
        causes = [f"Likely cause: {cause}." for cause in self.causes]
        return (self.verdict, *self.details, *causes, *hint)

    @property
    def text(self) -> str:
        """The lines as printed, those that are too long for a page on several."""
        sign = {"passed": "✓", "failed": "✗", "unwritten": "○"}[self.state]
        lines = [f"{sign} {self.name}: {self.verdict}"]
        lines += ["  " + line for line in self.lines[1:]]
        return "\n".join(_WRAPPER.fill(line) for line in lines)


@dataclass(frozen=True)
class _Finding:
    """What is wrong with the outcome of a test; unwritten: nothing is, but it is not there yet."""

    text: str
    unwritten: bool = False
    raised: str = ""


_UNWRITTEN = _Finding(NOT_YET, unwritten=True)


def outcomes_of(exercise: Exercise, answer: Any, calls: list[Call]) -> list[Outcome]:
    """`run` for an answer in this process; the outcome of a value is the value itself."""
    if exercise.is_value:
        return [{"value": encode(answer), "mutated": []}]
    return run(answer, [encode(call.args) for call in calls], exercise.use)


def mark(
    exercise: Exercise,
    calls: list[Call],
    outcomes: list[Outcome],
    planned: dict[str, list[Outcome]] | None = None,
    *,
    expected: list[Outcome] | None = None,
    reveal: bool = True,
) -> Report:
    """Compare the outcomes with the reference's; the report speaks of the first failing test.

    planned: what the wrong answers do on these calls, from `planned_outcomes`, for whoever marks
    many answers; computed where it is not given and something failed. expected: the same of the
    solution.

    reveal=False: no line holds a value of the solution, but types, shapes and numbers of parts,
    and a hint that names the right word is left out;
    a `judge` and a wrong answer's key are printed as they were written. Outcomes may come from
    anybody: those that are not what `run` returns are failing tests, never an error.
    """
    if expected is None:
        expected = outcomes_of(exercise, exercise.solution, calls)
    outcomes = [_sound(o) for o in [*outcomes, *[None] * len(calls)][: len(calls)]]
    errors = [outcome["error"] for outcome in expected if "error" in outcome]
    if len(errors) == len(calls):
        name = f"{exercise.chapter}/{exercise.name}"
        raise ValueError(
            f"the solution of {name} raised {errors[0]['type']}: {errors[0]['message']}"
        )
    if exercise.is_value:
        return _mark_value(exercise, calls, outcomes, expected, planned, reveal)
    tests = list(zip(calls, outcomes, expected, strict=True))
    findings = [_findings(exercise, *test, reveal) for test in tests]
    n, n_passed = len(calls), findings.count([])
    counts = {"n_passed": n_passed, "n_tests": n, "right": tuple(not found for found in findings)}
    if n_passed == n:
        return Report(exercise.name, "passed", _all_passed(n), **counts)
    failing = [i for i, found in enumerate(findings) if found]
    judged = [i for i in failing if not all(each.unwritten for each in findings[i])]
    if findings[failing[0]] == [_UNWRITTEN] or not judged:
        verdict, *details = (each.text for each in findings[failing[0]])
        return Report(exercise.name, "unwritten", verdict, tuple(details), **counts)
    first = judged[0]
    return Report(
        exercise.name,
        "failed",
        f"{n_passed} of {n} tests passed; the first that fails:",
        (*_show_call(exercise, calls[first]), *(each.text for each in findings[first])),
        tuple(_causes(exercise, calls, outcomes, expected, planned)),
        "" if not reveal and _tells(calls[first].hint, expected[first]) else calls[first].hint,
        findings[first][0].raised,
        first=first,
        **counts,
    )


def _tells(hint: str, expected: Outcome) -> bool:
    """Whether a hint holds the word that is the right answer."""
    right = expected.get("value")
    return isinstance(right, str) and re.search(rf"\b{re.escape(right)}\b", hint) is not None


def _sound(outcome: Any) -> Outcome:
    """The outcome if `run` can have returned it; else an error that says so."""
    try:
        mutated = [int(i) for i in outcome["mutated"]]
        if "error" in outcome:
            error = outcome["error"]
            line = None if error["line"] is None else int(error["line"])
            said = {key: str(error[key])[:300] for key in ("type", "message", "text")}
            kept = {"stopped": True} if outcome.get("stopped") is True else {}
            return {"error": said | {"line": line}, "mutated": mutated} | kept
        decode(outcome["value"])
        return {"value": outcome["value"], "mutated": mutated}
    except Exception:
        message = "what came back from the answer could not be read"
        error = {"type": "ValueError", "message": message, "line": None, "text": ""}
        return {"error": error, "mutated": [], "unsound": True}


def _all_passed(n: int) -> str:
    return f"all {n} tests passed" if n > 1 else "right"


def _findings(
    exercise: Exercise, call: Call, outcome: Outcome, expected: Outcome, reveal: bool
) -> list[_Finding]:
    """What is wrong with the outcome of a call; nothing if it is right."""
    if "unsound" in outcome:
        return [_Finding(outcome["error"]["message"])]
    if _unwritten(outcome) and not _half_written(exercise, outcome, expected):
        return [_UNWRITTEN]
    if "error" in outcome or "error" in expected:
        return _error_findings(outcome, expected, reveal)
    got, right = decode(outcome["value"]), decode(expected["value"])
    if got is None and right is not None:
        return [_Finding("returned None: is a `return` missing?")]
    if exercise.judge:
        found = _said(_judged(exercise, got, right, call, reveal))
    else:
        try:
            found = _differences(exercise, got, right, call.tolerance, reveal)
        except Exception:  # an output that was made to break what reads it
            found = [_Finding(f"the output cannot be compared with {describe_type(right)}")]
    if not found and outcome["mutated"] and not expected["mutated"]:
        which = ", ".join(str(i + 1) for i in outcome["mutated"])
        found = [_Finding(f"changes its own input (argument {which}); work on a copy")]
    return found


def _said(complaint: str | None) -> list[_Finding]:
    """A finding for each line of a complaint."""
    return [_Finding(line) for line in complaint.split("\n")] if complaint else []


def _differences(
    exercise: Exercise, got: Any, right: Any, tolerance: float, reveal: bool
) -> list[_Finding]:
    """The difference, or those of the parts that have names."""
    parts, wanted = _parts(exercise, got), _parts(exercise, right)
    if wanted is None or not (reveal or _knows(exercise, wanted)):
        return _said(difference(got, right, tolerance, reveal=reveal))
    if parts is None or parts.keys() != wanted.keys():
        names = ", ".join(wanted)
        form = f"the tuple ({names})" if exercise.outputs else f"a dict with the keys {names}"
        found = None
        if isinstance(got, dict):
            found = difference(got, right, tolerance, reveal=reveal)
        return _said(found or f"got {describe(got)}, expected {form}")
    found = []
    for name, part in wanted.items():
        if _holds_ellipsis(encode(parts[name])):
            found.append(_Finding(f"{name}: {NOT_YET}", unwritten=True))
        else:
            found += _said(difference(parts[name], part, tolerance, reveal=reveal, at=name))
    return found


def _knows(exercise: Exercise, names: Iterable[str]) -> bool:
    """Whether the reader knows the names of an output's parts: they stand in the statement."""
    text = f"{exercise.statement}\n{exercise.starter}"
    return all(name in exercise.outputs or name in text for name in names)


def _parts(exercise: Exercise, output: Any) -> dict[str, Any] | None:
    """The parts of an output by name: of a dict, or of a tuple where the exercise names them.

    A vector of numbers may stand for a tuple of numbers.
    """
    if isinstance(output, dict):
        return output if all(isinstance(key, str) for key in output) else None
    if isinstance(output, np.ndarray) and output.ndim == 1 and output.dtype.kind in "iuf":
        output = output.tolist()
    if isinstance(output, (tuple, list)) and 0 < len(output) == len(exercise.outputs):
        return dict(zip(exercise.outputs, output, strict=True))
    return None


def _error_findings(outcome: Outcome, expected: Outcome, reveal: bool) -> list[_Finding]:
    if "error" not in outcome:
        got = describe(decode(outcome["value"]))
        return [_Finding(f"returned {got}, but it must raise {expected['error']['type']}")]
    error = outcome["error"]
    if "stopped" in outcome:  # by the sandbox; the message says why
        return [_Finding(error["message"])]
    if "error" in expected and error["type"] == expected["error"]["type"]:
        return []
    name, message = error["type"], error["message"]
    where = f" (line {error['line']}: `{error['text']}`)" if error["line"] else ""
    if not reveal:  # somebody else's answer: its words are its own
        message = quoted(message)
        # The lines were counted in what was taken out of a notebook.
        where = f" (in `{error['text']}`)" if error["text"] else ""
    wanted = f"; it must raise {expected['error']['type']}" if "error" in expected else ""
    return [_Finding(f"raised {name}: {message}{where}{wanted}", raised=name)]


def _judged(exercise: Exercise, got: Any, right: Any, call: Call, reveal: bool) -> str | None:
    args = decode(encode(call.args))
    try:
        with quiet():
            return exercise.judge(got, *args)
    except Exception:  # the judge reads an output of the right form; this one is not
        exercise.judge(right, *args)  # a judge that fails here, too, is broken
        like = describe(right) if reveal else describe_type(right)
        return f"got {describe(got)}, expected something like {like}"


def planned_outcomes(exercise: Exercise, calls: list[Call]) -> dict[str, list[Outcome]]:
    """What each of the exercise's wrong answers does on these calls, by the mistake in it."""
    answers = exercise.wrong.items()
    return {mistake: outcomes_of(exercise, answer, calls) for mistake, answer in answers}


def _mark_value(exercise, calls, outcomes, expected, planned, reveal) -> Report:
    """The report on a value, part by part where it is a dict."""
    if "error" in outcomes[0]:
        return Report(exercise.name, "failed", outcomes[0]["error"]["message"])
    got, right = decode(outcomes[0]["value"]), decode(expected[0]["value"])
    if got is None:
        return Report(exercise.name, "failed", "the answer is None")
    if not isinstance(right, dict):
        got, right = {"": got}, {"": right}
    if got is ...:
        got = dict.fromkeys(right, ...)
    if not isinstance(got, dict):
        line = f"got {describe(got)}, expected a dict with the keys {', '.join(right)}"
        return Report(exercise.name, "failed", line, n_tests=len(right))
    open_parts = [key for key in right if key in got and _holds_ellipsis(encode(got[key]))]
    lines, n, n_right = [], len(right), 0
    for key in right:
        if key not in got:
            lines.append(f"the key {key!r} is missing")
        elif key not in open_parts:
            wrong = difference(
                got[key], right[key], calls[0].tolerance, by_hand=True, reveal=reveal, at=str(key)
            )
            lines += [wrong] if wrong else []
            n_right += wrong is None
    lines += [f"{name_key(key)} does not belong" for key in got if key not in right]
    counts = {"n_passed": n_right, "n_tests": n}
    if len(open_parts) == n:
        return Report(exercise.name, "unwritten", NOT_YET, **counts)
    if not lines and not open_parts:
        return Report(exercise.name, "passed", "right", **counts)
    causes = tuple(_causes(exercise, calls, outcomes, expected, planned))
    state = "failed" if lines or causes else "unwritten"
    if n > 1:
        later = f"; {NOT_YET}: {', '.join(open_parts)}" if open_parts else ""
        lines.insert(0, f"{n_right} of {n} parts right{later}")
    return Report(exercise.name, state, lines[0], tuple(lines[1:]), causes, **counts)


def _unwritten(outcome: Outcome) -> bool:
    if "error" in outcome:
        error = outcome["error"]
        bare = (error["type"], error["message"]) == ("NotImplementedError", "")
        return bare or _USES_ELLIPSIS.search(error["message"]) is not None
    return _holds_ellipsis(outcome["value"])


def _half_written(exercise: Exercise, outcome: Outcome, expected: Outcome) -> bool:
    """Whether the output has the parts that it should have, and some of them are written."""
    if exercise.judge or "value" not in outcome or "value" not in expected:
        return False
    parts = _parts(exercise, decode(outcome["value"]))
    wanted = _parts(exercise, decode(expected["value"]))
    if parts is None or wanted is None or parts.keys() != wanted.keys():
        return False
    return not all(_holds_ellipsis(encode(part)) for part in parts.values())


def _holds_ellipsis(data: Any) -> bool:
    if isinstance(data, dict):
        return "unwritten" in data or any(_holds_ellipsis(v) for v in data.values())
    return isinstance(data, list) and any(_holds_ellipsis(v) for v in data)


# ---- likely causes -------------------------------------------------------------------------------


def _causes(exercise, calls, outcomes, expected, planned) -> list[str]:
    """The planned mistake that does exactly what the answer does, or several, each in its parts."""
    try:
        return _find_causes(exercise, calls, outcomes, expected, planned)
    except Exception:  # outcomes that were made to break what reads them
        return []


def _find_causes(exercise, calls, outcomes, expected, planned) -> list[str]:
    planned = planned or planned_outcomes(exercise, calls)
    first = next((decode(o["value"]) for o in expected if "value" in o), None)
    names = _parts(exercise, first) or ("",)
    right, mine = (_columns(exercise, found, names) for found in (expected, outcomes))
    tolerances = [call.tolerance for call in calls]

    def agree(some: dict[str, list[Outcome]], others: dict[str, list[Outcome]]) -> set[str]:
        def same(name: str) -> bool:
            trio = zip(some[name], others[name], tolerances, strict=True)
            return all(_same(a, b, tol, exercise.is_value) for a, b, tol in trio)

        return {name for name in some if same(name)}

    for name in [name for name in names if any(map(_is_open, mine[name]))]:
        del right[name]
    failing, partly = right.keys() - agree(right, mine), []
    wrong = {name: mine[name] for name in failing}
    for mistake, found in planned.items():
        theirs = _columns(exercise, found, names)
        shared = agree(wrong, theirs)  # few mistakes share a part, and the rest is soon known
        slips = shared and right.keys() - agree(right, theirs)
        if slips and slips <= shared:
            if slips == failing:
                return [mistake]
            partly.append((mistake, slips))
    causes = []
    for mistake, slips in sorted(partly, key=lambda each: -len(each[1])):
        if slips <= failing:
            causes.append(mistake)
            failing -= slips
    return causes


def _columns(exercise, outcomes, names) -> dict[str, list[Outcome]]:
    """What each part was in all calls, decoded; an output without such a part stands for it."""
    columns: dict[str, list[Outcome]] = {name: [] for name in names}
    for outcome in outcomes:
        whole = {"value": decode(outcome["value"])} if "value" in outcome else outcome
        parts = _parts(exercise, whole.get("value"))
        for name in names:
            fits = parts is not None and name in parts
            columns[name].append({"value": parts[name]} if fits else whole)
    return columns | {"mutated": [{"value": outcome["mutated"]} for outcome in outcomes]}


def _is_open(outcome: Outcome) -> bool:
    """`_unwritten`, of a decoded outcome."""
    return _unwritten({"value": encode(outcome["value"])} if "value" in outcome else outcome)


def _same(one: Outcome, other: Outcome, tolerance: float, by_hand: bool) -> bool:
    if "error" in one or "error" in other:
        a, b = one.get("error"), other.get("error")
        return bool(a and b) and (a["type"], a["message"]) == (b["type"], b["message"])
    got, expected = one["value"], other["value"]
    return difference(got, expected, tolerance, by_hand=by_hand, rounded=by_hand) is None


# ---- the call as it is shown ---------------------------------------------------------------------


def _show_call(exercise: Exercise, call: Call) -> list[str]:
    """The call that failed, as the reader would write it; none where only `use` knows it."""
    if callable(exercise.show):
        return [exercise.show(*call.args)]
    if exercise.use and not exercise.show:
        return []
    shown = [_shown(arg) for arg in call.args]
    if sum(map(len, shown)) > 60:
        shown = [s if len(s) <= 32 else describe(a) for s, a in zip(shown, call.args, strict=True)]
    return [f"{exercise.name}({', '.join(shown)})"]


def _shown(argument: Any) -> str:
    """The argument as Python writes it, with all its digits where that is short."""
    for digits in (17, 4):
        with np.printoptions(precision=digits, threshold=8, suppress=True):
            text = repr(argument)
        text = text if isinstance(argument, str) else " ".join(text.split())
        if len(text) <= 32:
            break
    return text
