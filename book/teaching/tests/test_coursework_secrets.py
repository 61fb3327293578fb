"""What a student is told of a hidden test: never an expected value; and outcomes that lie."""

import re
from fractions import Fraction

import numpy as np
import pytest
from unrolled_book import exercises
from unrolled_book.exercises.engine import Exercise, call
from unrolled_book.exercises.engine.compare import difference
from unrolled_book.exercises.engine.marking import mark, outcomes_of, planned_outcomes
from unrolled_book.exercises.engine.wire import decode, encode

SEED = 7
NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
# What may be said: how many tests, where an entry stands, shapes, and how many parts there are.
ALLOWED = (
    r"^\d+ of \d+ (tests|parts) .*",
    r"^[\w ]*at [\[(][^:]*:",
    r"(differs|is not finite) at [^:]*:",
    r"expected (an array of shape |weights of shape )?\(.*\)",
    r"expected (an? \w+ of )?\d+$",
    r"^raised .*",  # the student's own message
)


def numbers(value) -> set[float]:
    """All numbers in a value; in a text those that are written in it."""
    if isinstance(value, str):
        return {float(text.replace("−", "-")) for text in NUMBER.findall(value)}
    if isinstance(value, Fraction):
        return {float(value), float(value.numerator), float(value.denominator)}
    if isinstance(value, np.ndarray):
        return numbers(value.ravel().tolist())
    if isinstance(value, dict):
        return numbers([*value.keys(), *value.values()])
    if isinstance(value, (list, tuple, set, frozenset)):
        return {number for each in value for number in numbers(each)}
    if hasattr(value, "detach"):
        return numbers(value.detach().numpy())
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {float(value)} if is_number else set()


def is_among(text: str, found: set[float]) -> bool:
    """Whether the written number is one of those, rounded to as many digits."""
    value = float(text.replace("−", "-"))
    digits = len(re.sub(r"e.*|\D", "", text, flags=re.I).lstrip("0"))
    slack = 0.51 * 10.0 ** (1 - min(digits, 17))
    return any(abs(value - each) <= slack * abs(each) for each in found)


def values(outcomes) -> set[float]:
    """The numbers in what some calls returned."""
    return numbers([decode(outcome["value"]) for outcome in outcomes if "value" in outcome])


def leaked(exercise: Exercise, report, secret, known, outcomes, calls) -> list[str]:
    """The secret numbers that the report holds: neither known nor the student's own outputs."""
    lines = [line for line in report.lines if not line.startswith(f"{exercise.name}(")]
    if callable(exercise.show):
        shown = {line for each in calls for line in exercise.show(*each.args).split("\n")}
        lines = [each for line in lines for each in line.split("\n") if each not in shown]
    text = "\n".join(lines)
    text = re.sub(r"(?m)(?<=^Likely cause).*", lambda m: re.sub(r"\b\d\b", "", m[0]), text)
    for pattern in ALLOWED:
        text = re.sub(pattern, "", text, flags=re.M)
    found = {t for t in NUMBER.findall(text) if is_among(t, secret)}
    return [t for t in found if not is_among(t, values(outcomes) | known)]


def known_and_secret(exercise: Exercise, calls, expected) -> tuple[set[float], set[float]]:
    """The numbers that the tests and the statement hold, and of the right outputs all others."""
    told = [exercise.statement, exercise.starter, *(each.hint for each in calls)]
    known = numbers([each.args for each in calls]) | numbers(told)
    return known, values(expected) - known


@pytest.mark.parametrize("chapter", exercises.chapters())
def test_no_report_holds_an_expected_value(chapter):
    found = {}
    for name in exercises.chapters()[chapter]:
        exercise = exercises.load(f"{chapter}/{name}")
        calls = exercise.calls(SEED)
        expected = outcomes_of(exercise, exercise.solution, calls)
        planned = planned_outcomes(exercise, calls)
        known, secret = known_and_secret(exercise, calls, expected)
        for mistake, outcomes in planned.items():
            report = mark(exercise, calls, outcomes, planned, expected=expected, reveal=False)
            assert report.state == "failed"
            told = mark(exercise, calls, outcomes, planned, expected=expected)
            assert (report.n_passed, report.state) == (told.n_passed, told.state)
            secrets = leaked(exercise, report, secret, known, outcomes, calls)
            if secrets:
                found[name, mistake] = secrets, report.text
    assert not found


def test_the_search_for_leaks_finds_them():
    """With reveal=True the same search finds expected values in many reports."""
    found = 0
    for name in exercises.chapters()["c03_perplexity"]:
        exercise = exercises.load(f"c03_perplexity/{name}")
        calls = exercise.calls(SEED)
        expected = outcomes_of(exercise, exercise.solution, calls)
        known, secret = known_and_secret(exercise, calls, expected)
        for outcomes in (planned := planned_outcomes(exercise, calls)).values():
            report = mark(exercise, calls, outcomes, planned, expected=expected)
            found += bool(leaked(exercise, report, secret, known, outcomes, calls))
    assert found >= 10


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        (0.25, 0.75, "0.25 is not right"),
        (True, False, "True is not right"),
        ("ab", "cd", "the string 'ab' is not right"),
        (3, "cd", "got the number 3, expected a string"),
        ("ab", 0.5, "got the string 'ab', expected a number"),
        (np.zeros(3), np.zeros((3, 1)), "the shape is (3,), expected (3, 1)"),
        (np.array([1.0, 2.0]), np.array([1.0, 3.0]), "differs at 1: 2 is not right"),
        (np.array([1.0, np.nan]), np.array([1.0, 3.0]), "is not finite at 1: nan is not right"),
        ([1, 2], [1, 2, 7], "has 2 parts, expected 3"),
        ([1, 2], [1, 7], "at [1]: 2 is not right"),
        ({"a": 1}, {"a": 1, "tea": 7}, "a key is missing"),
        ({"a": 1}, {"a": 7}, "['a']: 1 is not right"),
        (np.array(["a"]), np.array(["secret"]), "at 0: a is not right"),
        (np.array([1.0]), np.array(["secret"]), "the entries are float64, expected strings"),
        (None, 7, "got None, expected a number"),
    ],
)
def test_a_difference_that_is_not_revealed(got, expected, says):
    line = difference(got, expected, reveal=False).split("\n")[0]
    assert says in line
    assert "7" not in line
    assert "tea" not in line
    assert "secret" not in line


def test_what_is_said_of_an_array_does_not_depend_on_how_far_off_it_is():
    """Else two numbers of a hidden test are found in some eighty submissions, bit by bit."""
    got = np.array([1.0, 0.0])
    expected = [np.array(pair) for pair in ([0.3, 0.1], [0.9, -7.0], [0.0, 50.0])]
    said = {difference(got, right, reveal=False) for right in expected}
    assert len(said) == 1
    coarse = got.astype(np.float16)
    near, far = np.array([1.001, 0.001]), np.array([3.0, 4.0])
    assert difference(coarse, near, reveal=False) == difference(coarse, far, reveal=False)


def test_a_matrix_is_shown_without_the_expected_one():
    got, right = np.array([[1.5, 2.0], [3.0, 4.0]]), np.array([[6.0, 7.0], [8.0, 9.0]])
    text = difference(got, right, reveal=False)
    assert text.split("\n")[1:] == ["got  [1.5 2. ]", "     [3.  4. ]"]


def small(tests, solution, **more) -> Exercise:
    """An exercise made here."""
    blank = dict(
        chapter="c01_own", title="", statement="", kind="code", level=1, points=1, starter="",
        solution_source="", explanation="", wrong={}, is_value=False, path=None, source="",
        names={},
    )  # fmt: skip
    return Exercise(name="f", solution=solution, tests=tests, **(blank | more))


LIES = {
    "nothing": [],
    "no list": [None],
    "a text": ["passed"],
    "no value": [{"mutated": []}],
    "a kind that does not exist": [{"value": {"code": "1"}, "mutated": []}],
    "an array without its data": [{"value": {"array": ["<f8", [10**9], ""]}, "mutated": []}],
    "an array of objects": [{"value": {"array": ["|O", [1], "AAAAAAAAAAA="]}, "mutated": []}],
    "a shape below zero": [{"value": {"array": ["<f8", [-1], "AAAAAAAAAAA="]}, "mutated": []}],
    "a fraction over zero": [{"value": {"fraction": "1/0"}, "mutated": []}],
    "a float that is none": [{"value": {"float": "seven"}, "mutated": []}],
    "a dict of lists as keys": [{"value": {"dict": [[[1], 2]]}, "mutated": []}],
    "a set of lists": [{"value": {"set": [[1]]}, "mutated": []}],
    "an error without its type": [{"error": {"message": "x"}, "mutated": []}],
    "mutated is a text": [{"value": 1.0, "mutated": "all"}],
    "an array of words": [{"value": {"array": ["<U1", [1], "YQAAAA=="]}, "mutated": []}],
    "a complex number": [{"value": {"array": ["<c16", [], "A" * 20 + "AA=="]}, "mutated": []}],
    "a list of huge numbers": [{"value": [10**4000] * 3, "mutated": []}],
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("right", [1.0, (1.0, 2.0), np.ones(3), "word", {"a": 1.0}, {3}, True])
def test_outcomes_that_run_never_returned_are_failing_tests(lie, right):
    def tests(rng):
        yield call(1)

    for exercise in (small(tests, lambda x: right), small(None, right, is_value=True)):
        report = mark(exercise, exercise.calls(SEED), LIES[lie], {}, reveal=False)
        assert (report.state, report.n_passed) == ("failed", 0)


def test_why_an_answer_was_stopped_is_said_as_it_is():
    def tests(rng):
        yield from (call(1), call(2))

    error = {"type": "Stopped", "message": "the answer ended", "line": None, "text": ""}
    outcomes = [{"value": 1, "mutated": []}, {"error": error, "mutated": []}]
    exercise = small(tests, lambda x: 1)
    report = mark(exercise, exercise.calls(SEED), outcomes, {}, reveal=False)
    assert report.lines[-2:] == ("f(2)", "the answer ended")
    assert (report.n_passed, report.n_tests) == (1, 2)


def test_a_judge_that_cannot_read_an_output_does_not_say_what_it_expected():
    def tests(rng):
        yield call(2)

    exercise = small(tests, lambda x: 0.8125, judge=lambda got, x: None if got + x else "zero")
    outcomes = [{"value": "words", "mutated": []}]
    report = mark(exercise, exercise.calls(SEED), outcomes, {}, reveal=False)
    assert report.state == "failed"
    assert "0.8125" not in report.text
    assert "expected something like a number" in report.text


def test_keys_that_the_statement_does_not_name_are_not_named():
    def tests(rng):
        yield call(2)

    right = {"zebra": 1.0, "lynx": 2.0}
    for got in ({"zebra": 3.0}, [1, 2], {"zebra": 1.0, "cat": 2.0}):
        exercise = small(tests, lambda x: right)
        outcomes = [{"value": encode(got), "mutated": []}]
        report = mark(exercise, exercise.calls(SEED), outcomes, {}, reveal=False)
        assert report.state == "failed"
        assert "lynx" not in report.text
