"""What a student is told of a hidden test: never an expected value; and outcomes that lie."""

import re
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from unrolled_book import exercises
from unrolled_book.exercises.engine import Exercise, call
from unrolled_book.exercises.engine.compare import difference
from unrolled_book.exercises.engine.marking import mark, outcomes_of, planned_outcomes
from unrolled_book.exercises.engine.wire import Unknown, decode, encode

SEED = 7
NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
# What may be said: how many tests, where an entry stands, shapes, and how many parts there are.
ALLOWED = (
    r"^\d+ of \d+ (tests|parts) .*", r"^[\w ]*at [\[(][^:]*:", r"(differs|is not finite) at [^:]*:",
    r"expected (an array of shape |weights of shape )?\(.*\)", r"expected (an? \w+ of )?\d+$",
    r"^raised .*",  # the student's own message
)  # fmt: skip


def numbers(value) -> set[float]:
    """All numbers in a value; in a text those that are written in it."""
    if isinstance(value, str):
        return {float(text.replace("−", "-")) for text in NUMBER.findall(value)}
    if isinstance(value, Fraction):
        return {float(value), float(value.numerator), float(value.denominator)}
    if hasattr(value, "detach") or isinstance(value, np.ndarray):
        return numbers(np.asarray(value).ravel().tolist())
    if isinstance(value, dict):
        return numbers([*value.keys(), *value.values()])
    if isinstance(value, (list, tuple, set, frozenset)):
        return {number for each in value for number in numbers(each)}
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {float(value)} if is_number else set()


def values(outcomes) -> set[float]:
    """The numbers in what some calls returned."""
    return numbers([decode(outcome["value"]) for outcome in outcomes if "value" in outcome])


def is_among(text: str, found: set[float]) -> bool:
    """Whether the written number is one of those, rounded to as many digits."""
    value = float(text.replace("−", "-"))
    digits = len(re.sub(r"e.*|\D", "", text, flags=re.I).lstrip("0"))
    slack = 0.51 * 10.0 ** (1 - min(digits, 17))
    return any(abs(value - each) <= slack * abs(each) for each in found)


def reports(exercise: Exercise):
    """For each planned mistake its name, a function that reports on it, and one that finds the
    secret numbers in a report: those of right outputs that neither the tests' arguments, nor the
    statement, nor the student's own outputs hold."""
    calls = exercise.calls(SEED)
    expected = outcomes_of(exercise, exercise.solution, calls)
    planned = planned_outcomes(exercise, calls)
    show = exercise.show if callable(exercise.show) else lambda *args: ""
    shown = {line for each in calls for line in show(*each.args).split("\n")}
    told = [exercise.statement, exercise.starter, *(each.hint for each in calls)]
    known = numbers([each.args for each in calls]) | numbers(told)
    secret = values(expected) - known

    def leaked(report, outcomes) -> list[str]:
        lines = [s for s in report.lines if not s.startswith(f"{exercise.name}(")]
        text = "\n".join(s for line in lines for s in line.split("\n") if s not in shown)
        text = re.sub(r"(?m)(?<=^Likely cause).*", lambda m: re.sub(r"\b\d\b", "", m[0]), text)
        for pattern in ALLOWED:
            text = re.sub(pattern, "", text, flags=re.M)
        found = {t for t in NUMBER.findall(text) if is_among(t, secret)}
        return [t for t in found if not is_among(t, values(outcomes) | known)]

    for mistake, outcomes in planned.items():
        report = partial(mark, exercise, calls, outcomes, planned, expected=expected)
        yield mistake, report, partial(leaked, outcomes=outcomes)


@pytest.mark.parametrize("chapter", exercises.chapters())
def test_no_report_holds_an_expected_value(chapter):
    found, revealed, tried = {}, 0, chapter == "c03_perplexity"
    for exercise in [exercises.load(f"{chapter}/{n}") for n in exercises.chapters()[chapter]]:
        for n, (mistake, report, leaked) in enumerate(reports(exercise)):
            hidden = report(reveal=False)
            assert hidden.state == "failed"
            if secrets := leaked(hidden):
                found[exercise.name, mistake] = secrets, hidden.text
            if tried or not n:  # what is revealed changes no mark
                told = report(reveal=True)
                assert (told.state, told.n_passed) == (hidden.state, hidden.n_passed)
                revealed += tried and bool(leaked(told))
    assert not found
    assert revealed >= 10 or not tried  # what a report does reveal, the search finds


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        (0.25, 0.75, "0.25 is not right"), (True, False, "True is not right"),
        ("ab", "cd", "the string 'ab' is not right"),
        ("ab", 0.5, "got the string 'ab', expected a number"),
        (np.zeros(3), np.zeros((3, 1)), "the shape is (3,), expected (3, 1)"),
        (np.array([1.0, 2.0]), np.array([1.0, 3.0]), "differs at 1: 2 is not right"),
        (np.array([1.0, np.nan]), np.array([1.0, 3.0]), "is not finite at 1: nan is not right"),
        ([1, 2], [1, 2, 7], "has 2 parts, expected 3"), ([1, 2], [1, 7], "at [1]: 2 is not right"),
        ({"a": 1}, {"a": 1, "tea": 7}, "a key is missing"),
        (np.array(["a"]), np.array(["secret"]), "at 0: “a” is not right"),
        (np.array([1.0]), np.array(["secret"]), "the entries are float64, expected strings"),
        (None, 7, "got None, expected a number"),
        (np.eye(2) / 2, np.full((2, 2), 7.0), "not right\ngot  [0.5 0. ]\n     [0.  0.5]"),
    ],
)  # fmt: skip
def test_a_difference_that_is_not_revealed(got, expected, says):
    said = difference(got, expected, reveal=False)
    assert says in said
    assert not [secret for secret in ("7", "tea", "secret") if secret in said]


def test_what_is_said_of_an_array_does_not_depend_on_how_far_off_it_is():
    """Else two numbers of a hidden test are found in some eighty submissions, bit by bit."""
    got = np.array([1.0, 0.0])
    expected = [np.array(pair) for pair in ([0.3, 0.1], [0.9, -7.0], [0.0, 50.0])]
    assert len({difference(got, right, reveal=False) for right in expected}) == 1
    near, far = np.array([1.001, 0.001]), np.array([3.0, 4.0])
    assert len({difference(np.float16(got), e, reveal=False) for e in (near, far)}) == 1


def report_on(outcomes, right, **more):
    """The report on outcomes of an exercise made here, whose right value is always the same."""
    parts = dict(
        chapter="c01_own", title="", statement="", kind="code", level=1, points=1, starter="",
        solution_source="", explanation="", wrong={}, is_value=False, path=None, source="",
        names={}, name="f", tests=lambda rng: map(call, range(1, len(outcomes) + 1)),
        solution=lambda x: right,
    ) | more  # fmt: skip
    exercise = Exercise(**parts)
    return mark(exercise, exercise.calls(SEED), outcomes, {}, reveal=False)


def returned(value) -> dict:
    return {"value": encode(value), "mutated": []}


LIES = {  # what cannot be decoded is tested with the wire
    "nothing": [],
    "no list": [None],
    "a text": ["passed"],
    "no value": [{"mutated": []}],
    "a kind that does not exist": [{"value": {"code": "1"}, "mutated": []}],
    "an array of objects": [{"value": {"array": ["|O", [1], "AAAAAAAAAAA="]}, "mutated": []}],
    "an error without its type": [{"error": {"message": "x"}, "mutated": []}],
    "mutated is a text": [{"value": 1.0, "mutated": "all"}],
    "an array of words": [{"value": {"array": ["<U1", [1], "YQAAAA=="]}, "mutated": []}],
    "a complex number": [{"value": {"array": ["<c16", [], "A" * 20 + "AA=="]}, "mutated": []}],
}


@pytest.mark.parametrize("lie", LIES)
def test_outcomes_that_run_never_returned_are_failing_tests(lie):
    for right in (1.0, (1.0, 2.0), np.ones(3), "word", {"a": 1.0}, {3}, True):
        one_call = {"tests": lambda rng: iter([call(1)])}
        for kind in (one_call, {"tests": None, "solution": right, "is_value": True}):
            report = report_on(LIES[lie], right, **kind)
            assert (report.state, report.n_passed) == ("failed", 0), right


def test_a_stopped_answer_says_why_and_a_judge_that_cannot_read_one_not_what_it_expected():
    error = {"type": "Stopped", "message": "the answer ended", "line": None, "text": ""}
    stopped = {"error": error, "mutated": [], "stopped": True}
    report = report_on([returned(1), stopped], 1)
    assert report.lines[-2:] == ("f(2)", "the answer ended")
    assert (report.n_passed, report.n_tests) == (1, 2)
    report = report_on([returned(1), {"error": error, "mutated": []}], 1)  # a student's own class
    assert report.lines[-1] == "raised Stopped: “the answer ended”"
    report = report_on([returned("words")], 0.8125, judge=lambda got, x: got + x and None)
    assert "expected something like a number" in report.text
    assert "0.8125" not in report.text


def test_what_an_answer_says_is_quoted_and_cut():
    """Nobody takes it for a verdict, and nothing in it is markup."""
    says = "`x`” is right. ✓ All tests passed, said the grader, " + "and so on " * 99
    error = {"type": "ValueError", "message": says, "line": None, "text": ""}
    said = report_on([{"error": error, "mutated": []}], 1).lines[-1]
    assert said.startswith("raised ValueError: “'x'\" is right. ✓ All tests passed")
    assert said.endswith("…”")
    assert len(said) < 160
    for got, right, begins in [
        (Unknown("float, and right. " * 9), 1.0, "got a thing of type “float, and right. "),
        (["right " * 90], np.array([["x"]]), "got a list of 1"),
        (np.array(["right " * 90]), np.array(["x"]), "differs at 0: “right right "),
        ({"right " * 90: 1}, {"a": 1}, "a key is missing; the key “'right "),
    ]:
        said = report_on([returned(got)], right).lines[-1]
        assert said.startswith(begins)
        assert len(said.split("\n")[0]) < 140


def test_a_hint_that_holds_the_right_word_is_left_out():
    exercise = exercises.load("c17_position/scheme_inside")
    calls = exercise.calls(seed=1)
    for reveal in (True, False):
        report = mark(exercise, calls, [returned("x")] * len(calls), {}, reveal=reveal)
        assert bool(report.hint) == reveal


def test_keys_that_the_statement_does_not_name_are_not_named():
    for got in ({"zebra": 3.0}, [1, 2], {"zebra": 1.0, "cat": 2.0}):
        report = report_on([returned(got)], {"zebra": 1.0, "lynx": 2.0})
        assert report.state == "failed"
        assert "lynx" not in report.text
