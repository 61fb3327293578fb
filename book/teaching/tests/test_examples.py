"""Examples: what is written of a number comes out again on another processor, or is refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from unrolled_book import exercises
from unrolled_book.coursework import personal
from unrolled_book.exercises import examples
from unrolled_book.exercises.engine import Exercise
from unrolled_book.exercises.engine.compare import difference
from unrolled_book.exercises.rounding import rounding

ALL = [f"{slug}/{name}" for slug, names in exercises.chapters().items() for name in names]
LAST_DIGITS = 3e-15  # of a number, a few times the distance to the next float


@pytest.mark.parametrize(
    ("value", "args"),
    [
        ((np.array([2.0]), -8.5e-16), (np.array([[1.0, 2.0, 4.0, 8.0]]), 1)),
        (np.array([[1.0, 1e-17], [0.5, 0.0]]), ()),
        (torch.tensor([3.0, -2e-10]), ()),
        ([0.25, 5e-12], ()),
        ({"a": [1.0], "b": 0.1 + 0.2 - 0.3}, (0.1, 0.2)),
        (1e-5, ([1e7, 3e6], 1e5)),
    ],
)
def test_what_is_left_where_larger_numbers_cancel_is_rounding(value, args):
    assert rounding(value, args)


@pytest.mark.parametrize(
    ("value", "args"),
    [
        (np.array([1.0, 0.0, 2e-9]), ()),
        (0.5, (1e6, 1e11, 0.3)),  # days, of many parameters at a share of the peak
        (1e-30, (1e-30,)),
        ((1e12, 3.0), (7,)),  # each part in its own unit
        ([True, "a", None, 3], ([0.1],)),
        (np.array([np.inf, 1.0]), (np.array(["a"]), {})),
        (np.zeros((0, 3)), ()),
    ],
)
def test_what_is_small_in_its_own_unit_or_0_is_no_rounding(value, args):
    assert rounding(value, args) is None


@pytest.fixture
def fit_lags(tmp_path):
    """Reads `fit_lags` with another series in its visible test."""

    def reader(series: str) -> Exercise:
        source = exercises.load("c09b_neighbours/fit_lags").source
        assert source.count("[1.0, 3.0, 7.0, 15.0]") == 1
        path = tmp_path / "c09b_neighbours" / "fit_lags.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source.replace("[1.0, 3.0, 7.0, 15.0]", series), encoding="utf-8")
        return Exercise.read(path)

    return reader


def test_an_example_that_shows_rounding_is_refused_by_name_and_number(fit_lags):
    """It doubles from step to step, so the constant is 0, and is computed as some 1e-15."""
    says = (
        r"c09b_neighbours/fit_lags: the example fit_lags\(np.array\(\[\[1., 2., 4., 8.\]\]\), 1\)"
    )
    with pytest.raises(ValueError, match=says + r" shows -?\d[\d.]*e-1\d, which is rounding"):
        examples.examples(fit_lags("[1.0, 2.0, 4.0, 8.0]"))


def test_an_argument_that_is_rounding_is_refused_too(fit_lags):
    with pytest.raises(ValueError, match="shows 1e-13, which is rounding"):
        examples.examples(fit_lags("[1.0, 3.0, 1e-13, 15.0]"))


def moved(value, by: float):
    """The value with each float moved by a share of itself, as another processor may move it."""
    if isinstance(value, (list, tuple)):
        return type(value)(moved(part, by) for part in value)
    if isinstance(value, dict):
        return {key: moved(part, by) for key, part in value.items()}
    kind = value.dtype.kind if isinstance(value, np.ndarray) else type(value)
    return value * (1 + by) if kind in ("f", float) else value


@pytest.mark.stored
@pytest.mark.parametrize("name", ALL)
def test_an_example_does_not_show_the_last_digits(name, monkeypatch):
    exercise, written = exercises.load(name), examples.written
    stored = examples.examples(exercise)
    for by in (-LAST_DIGITS, LAST_DIGITS):
        monkeypatch.setattr(examples, "written", lambda value, by=by: written(moved(value, by)))
        assert examples.examples(exercise) == stored


@pytest.mark.parametrize(
    ("number", "text"),
    [(2.0, "2.0"), (2 + 4e-16, "2.0"), (2 - 2e-16, "2.0"), (0.1 + 0.2, "0.3"), (1 / 3, "0.333333"),
     (1234.5678, "1234.5678"), (1234.5678 + 2e-13, "1234.5678"), (1e11 - 1e-4, "100000000000.0"),
     (1e-5 / 3, "3.33333e-06")],
)  # fmt: skip
def test_a_number_is_written_the_same_with_a_tail_and_without(number, text):
    assert examples.written(number) == text
    assert examples.written([number]) == f"[{text}]"


LEFT = '''"""What is left

Add.
"""
from unrolled_book.exercises.engine import call, swap
kind, level, points = "code", 1, 1
# %% solution
def left(x, n):
    return sum(x) * n
# %% explanation
explanation = "Adding."
# %% tests
def tests(rng):
    yield call([0.1, 0.2, -0.3], int(rng.integers(1, 10**6)))
# %% wrong
wrong = {"a product, and no sum": lambda x, n: n * x[0] * x[1] * x[2]}
'''


def test_a_task_of_ones_own_asks_for_no_rounding(tmp_path):
    path = tmp_path / "c01_chain_rule" / "left.py"
    path.parent.mkdir()
    path.write_text(LEFT, encoding="utf-8")
    with pytest.raises(ValueError, match="cannot be personal"):
        personal.own(Exercise.read(path), 7)
    path.write_text(LEFT.replace("-0.3", "-0.4"), encoding="utf-8")
    assert personal.own(Exercise.read(path), 7).solution < 0


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        (-8.5e-16, 2.0, "got 0, expected 2"),
        (np.float64(3.0), -1e-17, "got 3, expected 0"),
        (np.array([1.0, -1e-17]), np.array([1.0, 3.0]), "got       [1. 0.]\n"),
        (np.array([np.nan]), np.array([-5.8e-12]), "got nan, expected 0"),
        (9e-10, -9e-10, "got 9e-10, expected -9e-10"),
    ],
)
def test_a_message_says_0_for_what_it_does_not_tell_from_0(got, expected, says):
    assert says in difference(got, expected)


def test_a_message_keeps_small_numbers_that_it_compares_or_that_were_typed():
    assert difference(6e-41, 9e-41, 0.0) == "got 6e-41, expected 9e-41"
    assert difference(1e-11, 1e-8, 5e-3, by_hand=True) == "1e-11 is not right"


def test_the_verdict_on_a_wrong_answer_does_not_hang_on_a_tie():
    """Two words equally near would be told apart by rounding: each case has one nearest word."""
    exercise = exercises.load("c05_word_vectors/analogy_report")
    for call in exercise.calls(0):
        vectors, questions = call.args
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        a, b, c = (unit[questions[:, i]] for i in range(3))
        best = np.sort((b - a + c) @ unit.T, axis=1)[:, -2:]
        assert (best[:, 1] - best[:, 0]).min() > 1e-6


def test_a_long_text_among_numbers_makes_no_wide_array():
    got = [np.array("x" * 16_000), *[0] * 3_000]
    tracemalloc.start()
    try:
        assert difference(got, np.zeros(3_001))
        assert difference(got, [0.0] * 3_001)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000  # as one array 190 MB
    finally:
        tracemalloc.stop()
