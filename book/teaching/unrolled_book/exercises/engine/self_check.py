"""What `check` does in a student's notebook, where neither the book nor its tests are.

The text of this module stands in a cell of each notebook (see `selfcheck`), beside the engine's
`wire`, `compare`, `running` and `marking`. It knows what is written there of each answer: the
visible cases with their results, or the form of a value.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from .compare import describe, difference
from .marking import NOT_YET, Report, mark
from .running import run
from .wire import decode, encode

_MISSING = object()
_PASSES = {"value": True, "mutated": []}


class Check:
    """`check("shift", shift)` prints what can be said of an answer without its hidden tests.

    known: what `selfcheck.known` gives of each answer, by its name. complete: the cases are all
    there are, as in a teacher's notebook.
    """

    def __init__(self, known: dict[str, dict[str, Any]], complete: bool = False):
        self.known = known
        self.complete = complete

    def __call__(self, name: str, answer: Any = _MISSING) -> None:
        if not isinstance(name, str):
            raise TypeError(f'the name comes first: check("shift", shift), got {describe(name)}')
        if name not in self.known:
            raise ValueError(f"no exercise {name!r} here; there are {', '.join(self.known)}")
        if answer is _MISSING:
            raise TypeError(f'pass your answer as well: check("{name}", {name})')
        print(self.report(name, answer).text)

    def report(self, name: str, answer: Any) -> Report:
        """What is said of an answer."""
        about = self.known[name]
        if answer is Ellipsis:
            return Report(name, "unwritten", NOT_YET)
        if about["is_value"]:
            report = _report_on_value(name, about["parts"], decode(encode(answer)))
            return _compared(report, about, answer) if "solution" in about else report
        if not callable(answer):
            line = f'got {describe(answer)}, expected the function itself: check("{name}", {name})'
            return Report(name, "failed", line)
        if not about["cases"]:
            return Report(name, "unwritten", "nothing is tried here; no case of it is visible")
        return self._report_on_cases(name, about, answer)

    def _report_on_cases(self, name: str, about: dict[str, Any], answer: Any) -> Report:
        cases = about["cases"]
        outcomes = run(answer, [case["args"] for case in cases], _use(about["use"]))
        reports = [_report(name, about, *pair) for pair in zip(cases, outcomes, strict=True)]
        bad = [report for report in reports if report.state != "passed"]
        n, n_passed = len(cases), len(cases) - len(bad)
        if not bad:
            return Report(name, "passed", self._all_right(n), n_passed=n, n_tests=n)
        first = next((report for report in bad if report.state == "failed"), None)
        if first is None:
            return bad[0]
        kind = "tests" if self.complete else f"visible case{'s' * (n > 1)}"
        head = f"{n_passed} of {n} {kind} passed; the first that fails:"
        return replace(first, verdict=head, n_passed=n_passed, n_tests=n, right=())

    def _all_right(self, n: int) -> str:
        if self.complete:
            return f"all {n} tests passed"
        cases = "visible case" if n == 1 else f"{n} visible cases"
        return f"right on the {cases}; the marks come from hidden tests with other inputs"


def _use(source: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(source, "<use>", "exec"), names)
    return names.get("use")


def _report(name: str, about: dict[str, Any], case: dict[str, Any], outcome: Any) -> Report:
    """What `mark` says of one case."""
    call = SimpleNamespace(
        args=decode(case["args"]), hint=case["hint"], tolerance=case["tolerance"], visible=True
    )
    exercise = SimpleNamespace(
        name=name,
        chapter="",
        is_value=False,
        outputs=tuple(about["outputs"]),
        judge=None,
        wrong={},
        use=None,
        show=(lambda *args: case["shown"]) if case["shown"] else False,
    )
    # `mark` wants a reference that does not only raise: a second test, which always passes.
    calls, outcomes = [call, call], [outcome, _PASSES]
    return mark(exercise, calls, outcomes, {}, expected=[case["expected"], _PASSES])


def _report_on_value(name: str, parts: dict[str, str] | str, answer: Any) -> Report:
    """Whether a value has the form that is asked for; whether it is right is not known here."""
    wanted = {"": parts} if isinstance(parts, str) else parts
    given = {"": answer} if isinstance(parts, str) else answer
    if not isinstance(given, dict):
        line = f"got {describe(answer)}, expected a dict with the keys {', '.join(wanted)}"
        return Report(name, "failed", line)
    lines = [f"the key {key!r} is missing" for key in wanted if key not in given]
    lines += [f"the key {key!r} does not belong" for key in given if key not in wanted]
    there = {key: given[key] for key in wanted if key in given}
    todo = [key for key, value in there.items() if _is_open(value)]
    for key, value in there.items():
        if key not in todo and not _has_form(value, wanted[key]):
            where = f"{key}: " if key else ""
            lines.append(f"{where}got {describe(value)}, expected {wanted[key]}")
    if lines:
        return Report(name, "failed", "this cannot be read yet", tuple(lines))
    if todo:
        return Report(name, "unwritten", f"{NOT_YET}{': ' * any(todo)}{', '.join(todo)}")
    return Report(name, "passed", "written, and readable; whether it is right is marked later")


def _compared(report: Report, about: dict[str, Any], answer: Any) -> Report:
    """The report on a value whose solution is known."""
    if report.state != "passed":
        return report
    right, tolerance = decode(about["solution"]), about["tolerance"]
    said = difference(decode(encode(answer)), right, tolerance, by_hand=True)
    return Report(report.name, "failed" if said else "passed", said or "right")


def _is_open(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_is_open, value))
    return value is Ellipsis


def _has_form(value: Any, form: str) -> bool:
    if form == "a number":
        said = difference(value, 0.5, by_hand=True)
        return not said or not said.endswith(form)
    if form == "True or False":
        return isinstance(value, bool)
    if form == "a text":
        return isinstance(value, str)
    if form == "a list":
        return isinstance(value, (list, tuple)) or hasattr(value, "shape")
    return True
