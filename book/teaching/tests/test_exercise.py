"""Exercises: the wire, the comparison, the one-file form, marking, and `check`."""

from __future__ import annotations

import ast
import json
import math
import sys
from decimal import Decimal
from fractions import Fraction
from textwrap import dedent

import numpy as np
import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from unrolled_book import exercises
from unrolled_book.check import check, examine
from unrolled_book.exercises.engine import Exercise
from unrolled_book.exercises.engine.compare import difference
from unrolled_book.exercises.engine.marking import mark, planned_outcomes, run
from unrolled_book.exercises.engine.wire import Unknown, decode, encode

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
SCALARS |= st.fractions()
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
ARRAYS = hnp.arrays(st.sampled_from([np.float64, np.float32, np.int64, np.bool_]), SHAPES)
WHOLE = st.characters(codec="utf-8", exclude_characters="\0")  # numpy drops a "\0" at the end
ARRAYS |= hnp.arrays("U3", SHAPES, elements=st.text(WHOLE, max_size=3))
KEYS = st.integers() | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(KEYS, max_size=3)
    ),
    max_leaves=6,
)


# ---- the wire ----------------------------------------------------------------------------------


def same(a, b) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        same_form = (a.dtype, a.shape) == (b.dtype, b.shape)
        return same_form and a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return a == b or (a != a and b != b)


@settings(deadline=None, max_examples=200)
@given(VALUES)
def test_what_crosses_the_wire_as_strict_json_arrives_equal_and_of_the_same_type(value):
    text = json.dumps(encode(value), allow_nan=False)
    assert same(decode(json.loads(text)), value)


def test_tensors_cross_with_their_dtype_and_without_their_graph():
    tensor = torch.arange(6.0, dtype=torch.float64, requires_grad=True).reshape(2, 3) * 2
    arrived = decode(encode(tensor))
    assert arrived.dtype == torch.float64
    assert not arrived.requires_grad
    torch.testing.assert_close(arrived, tensor.detach())
    assert decode(encode(torch.ones(2, dtype=torch.float16))).dtype == torch.float16
    assert decode(encode(torch.ones(2, dtype=torch.bfloat16))).dtype == torch.float32


def test_numpy_scalars_and_big_endian_arrays_cross_as_plain_ones():
    assert same(decode(encode(np.float64(0.5))), 0.5)
    assert same(decode(encode(np.bool_(True))), True)
    arrived = decode(encode(np.array([1, 2], dtype=">i4")))
    assert arrived.tolist() == [1, 2]


def test_a_thing_that_cannot_cross_arrives_as_its_name():
    assert decode(encode(i for i in range(3))).type_name == "generator"
    assert decode(encode(np.array([object()]))).type_name == "array of dtype object"
    assert decode(encode(Unknown("A"))) == Unknown("A")
    for thing in (Stubborn(), Stubborn, sympy.Symbol("x"), 1j):
        assert isinstance(decode(encode(thing)), Unknown)


class Stubborn:
    """An object that raises whatever it is asked."""

    def __repr__(self):
        raise RuntimeError

    __float__ = __array__ = __repr__


def test_numbers_and_arrays_of_other_libraries_cross_as_the_usual_ones():
    assert decode(encode([sympy.Rational(2, 3), Decimal("0.25"), range(3)])) == [
        2 / 3,
        0.25,
        [0, 1, 2],
    ]
    assert decode(encode(np.longdouble(0.5))) == 0.5


def test_frozen_sets_cross_wherever_they_may_stand():
    inner = frozenset({1, 2})
    for value in ({inner, frozenset()}, {(inner, 3)}, {inner: 4}):
        assert same(decode(encode(value)), value)
    assert decode(encode(inner)) == {1, 2}


def test_an_array_of_fractions_crosses_as_a_list():
    half = Fraction(1, 2)
    assert same(decode(encode(np.array([[half, 1], [0.5, half]]))), [[half, 1], [0.5, half]])


def test_what_has_no_end_and_what_json_cannot_write_is_named():
    endless = [1]
    endless.append({"again": endless})
    assert decode(encode(endless)).type_name == "list without an end"
    for number in (10**5000, Fraction(1, 10**5000)):
        text = json.dumps(encode([number]))
        assert decode(json.loads(text))[0].type_name == "number with thousands of digits"


@pytest.mark.parametrize("data", [{"pickle": "x"}, {}, {"float": "nan", "tuple": []}])
def test_an_unknown_kind_is_refused(data):
    with pytest.raises(ValueError, match="exercise wire"):
        decode(data)


def test_an_array_of_objects_is_refused():
    with pytest.raises(ValueError, match="may not cross"):
        decode({"array": ["|O", [1], "AAAAAAAAAAA="]})


# ---- the comparison ----------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(VALUES)
def test_nothing_differs_from_itself(value):
    assert difference(value, decode(encode(value))) is None


@settings(deadline=None, max_examples=50)
@given(hnp.arrays(np.float64, (3, 5), elements=st.floats(-9, 9)), st.integers(0, 14), st.data())
def test_the_entry_that_differs_most_is_named(array, place, data):
    got = array + np.linspace(0, 0.1, 15).reshape(3, 5)
    index = np.unravel_index(place, (3, 5))
    got[index] += 1
    said = difference(got, array)
    assert f"differs most at ({index[0]}, {index[1]}): got " in said


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        (np.ones((3, 2)), np.ones((2, 3)), "the shape is (3, 2), expected (2, 3)"),
        (np.array([0.05, 1]), np.array([0.44, 1]), "differs most at 0: got 0.05, expected 0.44"),
        (np.array([1, np.nan]), np.ones(2), "is not finite at 1: got nan, expected 1"),
        (np.array([1, 2.0]), np.array([1, 2]), "float64, expected whole ones"),
        ([[1.0], [1.0, 2.0]], np.ones(2), "got a list of 2, expected an array of shape (2,)"),
        (["1", "1"], np.ones(2), "got a list of 2, expected an array of shape (2,)"),
        ([1.0, 2.0, 3.0], np.ones(2), "the shape is (3,), expected (2,)"),
        (torch.ones(2), torch.zeros(2), "differs most at 0"),
        (1.00001, 1.0, "got 1.00001, expected 1"),
        (math.inf, 1.0, "is not finite: got inf"),
        (True, 1, "got True, expected the number 1"),
        (1, True, "got the number 1, expected True"),
        ("4/11", Fraction(4, 11), "got the string '4/11', expected the number 4/11"),
        ([1, 2], [1, 2, 3], "has 2 parts, expected 3"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "at ['a'][1]: got 2, expected 3"),
        ({"a": 1}, {"b": 1}, "the key 'b' is missing"),
        ({"a": 1, "b": 1}, {"a": 1}, "'b' does not belong"),
        ({"hya": 1}, {"hay": 1}, "the key 'hay' is missing; the key 'hya' does not belong"),
        ([10**400], [3], "got 10000000000000000000… (401 characters), expected 3"),
        ([-(10**400)], [3.5], "got -1000000000000000000… (402 characters), expected 3.5"),
        ("9" * 5000, 3, f"got the string '{'9' * 40}'…, expected the number 3"),
        (np.array(["1"]), np.array([1]), "the entries are <U1, expected int64"),
        (
            np.array([0.1], dtype=np.float32),
            np.array([0.1]),
            "right to the digits of float32 only; compute in float64",
        ),
        (
            np.array([1 / 3, 2000 / 3], dtype=np.float16),
            np.array([1 / 3, 2000 / 3]),
            "right to the digits of float16 only; compute in float64",
        ),
        (torch.tensor([1 / 3]).half(), np.array([1 / 3]), "right to the digits of float16 only"),
        ([1], [1, 2], "has 1 part, expected 2"),
        (np.ones(2), np.array([True, False]), "the numbers are float64, expected True or False"),
        (np.ones(2), np.array([1, 0]), "the numbers are float64, expected whole ones (integers)"),
        (np.ones((2, 3)), [np.ones(3), np.zeros(3)], "at [1]: differs most at 0: got 1"),
        (5, {"a": 1}, "expected a dict"),
        ("cat", "hat", "got the string 'cat', expected the string 'hat'"),
        (np.array(["a"]), np.array(["b"]), "differs most at 0: got a, expected b"),
    ],
)
def test_the_sentence_names_what_is_wrong(got, expected, says):
    assert says in difference(got, expected)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (0.5, Fraction(1, 2)),
        (np.array(3.0), 3),
        (torch.tensor(3.0), 3),
        ((1, 2), [1, 2]),
        (np.array([1, 2]), [1, 2]),
        (np.ones((2, 3)), [np.ones(3), np.ones(3)]),
        (np.ones((2, 3)), (np.ones(3), [1, 1, 1])),
        ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
        ([np.float64(0.5), torch.tensor(0.5)], np.array([0.5, 0.5])),
        (torch.ones(2, dtype=torch.float64), np.ones(2)),
        (np.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), [1.0, 1.0]),
        (np.array([-0.0]), np.array([0.0])),
        (3.0, 3),
        (np.array([-np.inf, np.nan]), np.array([-np.inf, np.nan])),
    ],
)
def test_forms_of_the_same_value_agree(got, expected):
    assert difference(got, expected) is None


@pytest.mark.parametrize("typed", ["4/11", " 4 / 11 ", "8/22.", ".363636364", "3.63636364e-1"])
def test_what_was_worked_out_by_hand_may_be_typed(typed):
    assert difference(typed, Fraction(4, 11), 1e-6, by_hand=True) is None
    assert difference(4 / 11, typed, 1e-6, by_hand=True) is None


@pytest.mark.parametrize("typed", ["0.866", "−1/3", " 433/500 "])
def test_a_typed_number_comes_back_as_it_was_typed(typed):
    assert difference(typed, 0.5, by_hand=True) == f"{typed.strip()} is not right"
    assert difference("0.67", 2 / 3, 1e-4, by_hand=True).startswith("0.67 is rounded; give ")


@pytest.mark.parametrize("typed", ["1/0", "4:11", "1e999999999", "4/11/2", ""])
def test_what_is_no_number_is_called_a_string(typed):
    assert f"got the string {typed!r}, expected a number" in difference(typed, 1.0, by_hand=True)


def test_a_value_worked_by_hand_is_not_revealed():
    said = difference({"a": 0.1}, {"a": 0.7421}, by_hand=True)
    assert "0.1 is not right" in said
    assert "0.742" not in said
    assert difference({"a": 1}, {"a": 1, "b": 2}, by_hand=True) == "the key 'b' is missing"
    assert difference(np.zeros(2), np.ones(2), by_hand=True) == "differs most at 0: 0 is not right"


@pytest.mark.parametrize("got", [0.67, 0.66, 0.667, "0.6667", Fraction(67, 100)])
def test_a_rounded_number_gets_a_word_on_rounding(got):
    said = difference(got, 2 / 3, 1e-6, by_hand=True)
    assert said.endswith("is rounded; give 6 digits or a fraction")
    assert difference(got, 2 / 3, 1e-6, by_hand=True, rounded=True) is None


@pytest.mark.parametrize("got", [0.7, 0.68, 0.6, -0.67, math.inf, math.nan, 0])
def test_what_is_not_the_number_rounded_is_not_right(got):
    assert "is not right" in difference(got, 2 / 3, 1e-6, by_hand=True)
    assert "is not right" in difference(got, 2 / 3, 1e-6, by_hand=True, rounded=True)


def test_a_whole_number_keeps_its_digits():
    assert "rounded; give all digits" in difference(4_090_000, 4_090_400, by_hand=True)
    assert "not right" in difference(110, 113, by_hand=True)


def test_small_arrays_are_printed_whole_and_side_by_side():
    said = difference(np.array([[1.0, 2.0], [0.0, 0.05]]), np.array([[1.0, 2.0], [0.0, 0.44]]))
    assert said.splitlines() == [
        "differs most at (1, 1): got 0.05, expected 0.44",
        "got          expected",
        "[1.   2.  ]  [1.   2.  ]",
        "[0.   0.05]  [0.   0.44]",
    ]
    said = difference(np.array([3, 6]), np.array([2, 4]), at="totals")
    assert said.splitlines()[0] == "totals: differs most at 1: got 6, expected 4"
    assert said.splitlines()[1:] == ["got       [3 6]", "expected  [2 4]"]
    assert difference([3, 6], [2, 4]).splitlines()[1:] == ["got       [3 6]", "expected  [2 4]"]
    for large in (np.zeros(13), np.zeros((2, 2, 2)), np.full(12, 1e200), np.zeros(1)):
        assert "\n" not in difference(large + 1 + 0.1 * large, large)


# ---- the one-file form -------------------------------------------------------------------------

HEAD = '''
r"""A title

A statement.
"""
import numpy as np
from unrolled_book.exercises.engine import call

kind, level, points = "code", 1, 2
explanation = "Why."
'''
DOUBLE = """
# %% solution
def double(x):
    '''Twice x.'''
    # a comment
    return 2 * x

# %% tests
def tests(rng):
    yield call(np.array([1.0, 2.0]), visible=True)
    yield call(rng.normal(size=3), hint="any size")

# %% wrong
wrong = {"x is added once too often": lambda x: 3 * x}
"""


@pytest.fixture
def read(tmp_path):
    """Read an exercise from text; the file bears the exercise's name."""

    def from_text(body: str, name: str, head: str = HEAD) -> Exercise:
        path = tmp_path / "c99_test" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(head.lstrip() + dedent(body), encoding="utf-8")
        return Exercise.read(path)

    return from_text


def test_the_starter_is_the_solution_without_its_body(read):
    exercise = read(DOUBLE, "double")
    lines = ["def double(x):", "    '''Twice x.'''", "    return ...  # your code here"]
    assert exercise.starter.splitlines() == lines
    bare = DOUBLE.replace("    '''Twice x.'''\n", "")
    assert read(bare, "double").starter.splitlines() == [lines[0], lines[2]]
    assert (exercise.title, exercise.statement, exercise.points) == ("A title", "A statement.", 2)
    assert exercise.solution_source.endswith("return 2 * x")


def test_the_starter_keeps_a_comment_after_the_colon_and_a_signature_of_several_lines(read):
    header = "def double(\n    x,\n):  # why: so\n"
    body = DOUBLE.replace("def double(x):\n    '''Twice x.'''\n", header + "\n    # more\n")
    assert read(body, "double").starter == header + "    return ...  # your code here"


def test_the_starter_of_a_value_keeps_its_keys(read):
    body = "# %% solution\nanswer = {'a': 1, 2: 0.5}\n# %% wrong\nwrong = {}\n"
    assert read(body, "answer").starter == 'answer = {"a": ..., 2: ...}'
    long = body.replace("'a'", repr("a" * 90))
    lines = ["answer = {", '    "' + "a" * 90 + '": ...,', "    2: ...,", "}"]
    assert read(long, "answer").starter.splitlines() == lines


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"code", 1, 2', '"essay", 1, 2', "kind is one of"),
        ('"code", 1, 2', '"code", 4, 2', "level is 1, 2 or 3, got 4"),
        ('"code", 1, 2', '"code", 1, 0', "points is a whole number"),
        ("# %% solution", "", "no cell '# %% solution'"),
        ("def tests", "def test", "`tests(rng)` is missing"),
        ("def double", "def twice", "nothing is named 'double'"),
        ("wrong = {", "right = {", "`wrong` is a dict"),
        ('explanation = "Why."', "", "`explanation` is missing"),
        ("\nA statement.\n", "", "the docstring holds a title"),
        ("# %% wrong", "# %% tests", "a cell stands once, got ['solution', 'tests', 'tests']"),
    ],
)
def test_a_file_that_lacks_a_part_is_refused_by_name(read, old, new, says):
    with pytest.raises(ValueError, match="c99_test/double") as error:
        read(DOUBLE.replace(old, new), "double", HEAD.replace(old, new))
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("return 2 * x", "return 2 *", r"SyntaxError: invalid syntax (.*double\.py, line 15)"),
        ("# a comment", "(", r"SyntaxError: .*double\.py, line \d+"),
        ("lambda x: 3 * x", "triple", r"NameError: name 'triple' is not defined .*line 23\)"),
        ("import numpy", "import numpie", r"ModuleNotFoundError: .*'numpie' .*line 5\)"),
    ],
)
def test_a_file_that_does_not_run_is_refused_with_its_path_and_line(read, old, new, says):
    with pytest.raises(ValueError, match=f"c99_test/double cannot be read: {says}"):
        read(DOUBLE.replace(old, new), "double", HEAD.replace(old, new))


@pytest.mark.parametrize(
    "solution",
    [
        "def double(x): return 2 * x",
        "def double(\n    x,\n): return 2 * x",
        "def double(x): 'Twice.'",
    ],
)
def test_a_body_beside_its_def_is_refused(read, solution):
    body = f"# %% solution\n{solution}\n" + DOUBLE.partition("return 2 * x\n")[2]
    with pytest.raises(ValueError, match="double: the body of `def` begins on a line of its own"):
        read(body, "double")


def test_a_lambda_needs_a_starter(read):
    body = "# %% solution\ndouble = lambda x: 2 * x\n" + DOUBLE.partition("return 2 * x\n")[2]
    with pytest.raises(ValueError, match="double: write `starter`; it is made from a `def` or"):
        read(body, "double")
    assert read(body + "\nstarter = 'double = ...'\n", "double").starter == "double = ..."


@pytest.mark.parametrize(
    ("line", "says"),
    [("yield np.ones(2)", "ndarray"), ("yield from ()", "nothing"), ("return", "nothing")],
)
def test_tests_that_yield_no_calls_are_refused_by_name(read, line, says):
    tests = f"# %% tests\ndef tests(rng):\n    {line}\n# %% wrong\nwrong = {{}}\n"
    exercise = read(DOUBLE.partition("# %% tests")[0] + tests, "double")
    with pytest.raises(ValueError, match=rf"c99_test/double: .* yields call\(…\), got {says}"):
        exercise.calls(0)


ORACLE = """
# %% oracle
oracle_tolerance = 1e-4

def oracle(x):
    return x + x

"""
WITH_ORACLE = DOUBLE.replace("\n# %% wrong", ORACLE + "# %% wrong")


def test_an_oracle_is_read_with_its_tolerance_and_may_be_missing(read):
    exercise = read(WITH_ORACLE, "double")
    assert (exercise.oracle(3), exercise.oracle_tolerance) == (6, 1e-4)
    default = read(WITH_ORACLE.replace("oracle_tolerance", "other"), "double")
    assert default.oracle_tolerance == 1e-6
    assert read(DOUBLE, "double").oracle is None


def test_a_value_may_have_an_oracle(read):
    body = "# %% solution\nanswer = 4\n# %% oracle\ndef oracle():\n    return 2 + 2\n"
    exercise = read(body + "# %% wrong\nwrong = {}\n", "answer")
    assert exercise.oracle() == exercise.solution


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("def oracle(x)", "def second_way(x)", "`def oracle(*args)` in a cell '# %% oracle'"),
        ("# %% oracle", "", "`def oracle(*args)` in a cell '# %% oracle'"),
        ("1e-4", "0.0", "oracle_tolerance lies between 0 and 1, got 0.0"),
        ("1e-4", "'small'", "oracle_tolerance lies between 0 and 1, got 'small'"),
    ],
)
def test_an_oracle_in_another_form_is_refused_by_name(read, old, new, says):
    with pytest.raises(ValueError, match="c99_test/double") as error:
        read(WITH_ORACLE.replace(old, new), "double")
    assert says in str(error.value)


def test_the_oracle_is_neither_shown_nor_asked_when_an_answer_is_checked(read):
    exercise = read(WITH_ORACLE.replace("return x + x", "raise AssertionError"), "double")
    assert examine(exercise, exercise.solution, 0).state == "passed"
    assert examine(exercise, lambda x: 3 * x, 0).state == "failed"
    shown = exercise.starter + exercise.solution_source + exercise.explanation
    assert "oracle" not in shown + exercise.statement


# ---- marking -----------------------------------------------------------------------------------


def text_of(exercise, answer, seed=0):
    """What is printed, with its long lines in one piece."""
    return examine(exercise, answer, seed).text.replace("\n    ", " ")


def test_no_printed_line_is_wider_than_a_page(read):
    exercise = read(DOUBLE, "double")
    report = examine(exercise, lambda x: np.full(99, "a" * 99)[int("too many words " * 9)], 0)
    assert max(map(len, report.lines)) > 90
    assert max(map(len, report.text.splitlines())) < 80


def test_the_solution_passes_and_a_wrong_answer_is_told_its_mistake(read):
    exercise = read(DOUBLE, "double")
    assert text_of(exercise, exercise.solution) == "✓ double: all 2 tests passed"
    said = text_of(exercise, lambda x: x + x + x)
    assert "0 of 2 tests passed" in said
    assert said.splitlines()[1:5] == [
        "  double(array([1., 2.]))",
        "  differs most at 1: got 6, expected 4",
        "  got       [3. 6.]",
        "  expected  [2. 4.]",
    ]
    assert "Likely cause: x is added once too often." in said


def test_a_hint_belongs_to_its_test(read):
    exercise = read(DOUBLE, "double")
    assert "Hint" not in text_of(exercise, lambda x: x)
    said = text_of(exercise, lambda x: 2 * x if len(x) == 2 else x)
    assert "1 of 2 tests passed" in said
    assert "Hint: any size" in said


def test_an_error_is_reported_with_type_message_and_line(read):
    def answer(x):
        y = 2 * x
        return y[17]

    said = text_of(read(DOUBLE, "double"), answer)
    assert "raised IndexError: index 17 is out of bounds" in said
    line = answer.__code__.co_firstlineno + 2
    assert f"(line {line}: `return y[17]`)" in said


def refuse(x):
    raise NotImplementedError


@pytest.mark.parametrize(
    "answer",
    [
        ...,
        lambda x: ...,
        refuse,
        lambda x: 2 * ...,
        lambda x: [1, ...],
        lambda x: (...).sum(),
        lambda x: np.exp(...),
        lambda x: torch.exp(...),
        lambda x: torch.tensor(...),
        lambda x: f"{...:.3f}",
    ],
)
def test_a_starter_is_not_written_yet(read, answer):
    assert text_of(read(DOUBLE, "double"), answer) == "○ double: not written yet"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda x: np.einsum("i->i", x[None]), "raised ValueError: operand has more dimensions"),
        (lambda x: x["a"], "raised IndexError: only integers, slices"),
        (lambda x: torch.ones(2, device="meta").cpu(), "raised NotImplementedError: "),
        (lambda x: sys.exit(3), "raised SystemExit: 3"),
    ],
)
def test_an_error_that_only_sounds_like_a_starter_is_an_error(read, answer, says):
    assert says in text_of(read(DOUBLE, "double"), answer)


def test_an_argument_that_was_made_to_hold_itself_is_changed(read):
    body = DOUBLE.replace("np.array([1.0, 2.0])", "[1, 2]").replace("2 * x", "2 * np.array(x)")

    def answer(x):
        doubled = 2 * np.array(x)
        if isinstance(x, list):
            x.append(x)
        return doubled

    assert "changes its own input (argument 1)" in text_of(read(body, "double"), answer)


def mutate(x):
    x *= 2
    return x


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (mutate, "changes its own input (argument 1)"),
        (lambda x: None, "returned None: is a `return` missing?"),
        (lambda x: (2 * v for v in x), "got a thing of type generator"),
        (lambda: 1, "raised TypeError"),
        (np.array([2.0]), 'expected the function itself: check("double", double)'),
    ],
)
def test_common_slips_have_their_own_message(read, answer, says):
    assert says in text_of(read(DOUBLE, "double"), answer)


def test_the_marker_needs_outcomes_only_and_they_are_json(read):
    exercise = read(DOUBLE, "double")
    calls = exercise.calls(3)
    arguments = json.loads(json.dumps([encode(call.args) for call in calls]))
    outcomes = json.loads(json.dumps(run(lambda x: 3 * x, arguments), allow_nan=False))
    assert mark(exercise, calls, outcomes) == examine(exercise, lambda x: 3 * x, 3)


def test_an_overflow_warns_nobody_and_shows_in_the_result(read):
    said = text_of(read(DOUBLE, "double"), lambda x: np.exp(1e4 * np.abs(x)))
    assert "is not finite at 0: got inf, expected 2" in said


def test_a_refusal_that_the_reference_makes_is_expected(read):
    body = DOUBLE.replace("    # a comment", "    if len(x) == 3: raise ValueError('three')")
    exercise = read(body, "double")
    assert examine(exercise, exercise.solution, 0).state == "passed"
    assert "it must raise ValueError" in text_of(exercise, lambda x: 2 * x)


TALLY = """
# %% starter
starter = "class Tally:\\n    def add(self, n): ..."

# %% solution
class Tally:
    total = 0

    def add(self, n):
        self.total += n

# %% use
def use(answer, numbers):
    tally = answer()
    for n in np.array(numbers):
        tally.add(int(n))
    return tally.total

# %% tests
def tests(rng):
    yield call(rng.integers(1, 9, 5).tolist())

# %% wrong
wrong = {}
"""


def test_use_lets_a_class_be_an_answer(read):
    exercise = read(TALLY, "Tally")
    assert examine(exercise, exercise.solution, 0).state == "passed"

    class Broken:
        def add(self, n):
            return self.missing

    assert "raised AttributeError" in text_of(exercise, Broken)
    assert "`return self.missing`" in text_of(exercise, Broken)


def test_a_call_that_the_reader_did_not_write_is_not_shown(read):
    class Zero:
        total = 0

        def add(self, n):
            pass

    lines = text_of(read(TALLY, "Tally"), Zero).splitlines()
    assert lines[0] == "✗ Tally: 0 of 1 tests passed; the first that fails:"
    assert lines[1].startswith("  got 0, expected ")
    shown = "def show(numbers):\n    return f'tally.add(n) for {sum(numbers)}'\n\n"
    body = TALLY.replace("def tests", shown + "def tests")
    assert text_of(read(body, "Tally"), Zero).splitlines()[1].startswith("  tally.add(n) for ")


def test_use_is_read_without_the_solution(read):
    """So that a sandbox may run its text beside a student's answer."""
    exercise = read(TALLY, "Tally")
    names = {}
    exec(exercise.use_source, names)
    assert "Tally" not in names
    assert "np" in names
    assert "unrolled" not in exercise.use_source, "a sandbox has no need of the book"
    assert names["use"](exercise.solution, [2, 3]) == 5
    leaking = read(TALLY.replace("tally = answer()", "tally = Tally()"), "Tally")
    with pytest.raises(NameError, match="Tally"):
        leaking.use(leaking.solution, [1])
    for body in (TALLY.replace("# %% use", ""), TALLY.replace("def use", "def used")):
        with pytest.raises(ValueError, match="in a cell '# %% use'"):
            read(body, "Tally")


PAIR = """
outputs = ("low", "high")

# %% solution
def ends(x):
    '''The smallest and the largest of x.'''
    low, high = min(x), max(x)
    return low, high

# %% tests
def tests(rng):
    yield call([2.0, 3.0, 1.0, 2.5])
    yield call(rng.normal(size=5).tolist())

# %% wrong
wrong = {
    "this low is the first entry": swap("min(x)", "x[0]"),
    "this high is the last entry": swap("max(x)", "x[-1]"),
    "the list that was handed in is sorted": swap("low, high =", "x.sort(); low, high ="),
}
"""
WITH_SWAP = HEAD.replace("import call", "import call, swap")


def test_parts_go_by_their_names(read):
    exercise = read(PAIR, "ends", WITH_SWAP)
    lines = text_of(exercise, lambda x: (min(x), 0.5)).splitlines()
    assert lines[1:] == ["  ends([2.0, 3.0, 1.0, 2.5])", "  high: got 0.5, expected 3"]
    assert "got the number 1, expected the tuple (low, high)" in text_of(exercise, min)
    assert examine(exercise, lambda x: [min(x), max(x)], 0).state == "passed"
    assert examine(exercise, lambda x: np.array([min(x), max(x)]), 0).state == "passed"
    said = text_of(exercise, lambda x: np.array([min(x), 0.5]))
    assert "high: got 0.5, expected 3" in said
    said = text_of(exercise, lambda x: np.array([[min(x), max(x)]]))
    assert "got an array of shape (1, 2), expected the tuple (low, high)" in said


def test_a_half_written_tuple_is_judged_in_the_parts_that_are_written(read):
    exercise = read(PAIR, "ends", WITH_SWAP)
    lines = text_of(exercise, lambda x: (x[0], ...)).splitlines()
    assert lines == [
        "✗ ends: 0 of 2 tests passed; the first that fails:",
        "  ends([2.0, 3.0, 1.0, 2.5])",
        "  low: got 2, expected 1",
        "  high: not written yet",
        "  Likely cause: this low is the first entry.",
    ]
    assert text_of(exercise, lambda x: (..., max(x))) == "○ ends: low: not written yet"
    assert text_of(exercise, lambda x: (..., ...)) == "○ ends: not written yet"
    second = text_of(exercise, lambda x: (min(x) if 1.0 in x else 9.0, ...))
    assert "low: got 9, expected" in second, "the first test has no fault but what is not written"


def test_two_slips_are_both_named(read):
    def answer(x):
        first, last = x[0], max(x)
        x.sort()
        return first, last

    said = text_of(read(PAIR, "ends", WITH_SWAP), answer)
    assert "Likely cause: this low is the first entry." in said
    assert "Likely cause: the list that was handed in is sorted." in said
    said = text_of(read(PAIR, "ends", WITH_SWAP), lambda x: (x[0], x[-1]))
    assert said.count("Likely cause:") == 2
    assert said.count("\n  high: ") == said.count("\n  low: ") == 1
    said = text_of(read(PAIR, "ends", WITH_SWAP), lambda x: (x[0], 7.0))
    assert said.count("Likely cause:") == 1


def test_outcomes_of_the_wrong_answers_may_be_handed_in(read):
    exercise = read(PAIR, "ends", WITH_SWAP)
    calls = exercise.calls(0)
    planned = planned_outcomes(exercise, calls)
    for mistake, outcomes in planned.items():
        assert f"Likely cause: {mistake}." in mark(exercise, calls, outcomes, planned).lines
        assert mark(exercise, calls, outcomes, planned) == mark(exercise, calls, outcomes)


def test_a_judge_decides_where_the_answer_is_not_unique(read):
    body = """
    # %% solution
    def roll(n):
        return [1] * n
    # %% tests
    def judge(output, n):
        return None if len(output) == n else f"{len(output)} rolls, expected {n}"

    def tests(rng):
        yield call(int(rng.integers(3, 9)))
    # %% wrong
    wrong = {"one roll is missing": lambda n: [1] * (n - 1)}
    """
    exercise = read(body, "roll")
    assert examine(exercise, lambda n: [2] * n, 0).state == "passed"
    assert "rolls, expected" in text_of(exercise, lambda n: [2] * (n + 1))
    assert "expected something like a list" in text_of(exercise, lambda n: 5)
    assert "one roll is missing" in text_of(exercise, lambda n: [1] * (n - 1))


VALUE = """
# %% solution
p = {"corn": Fraction(4, 11), "hay": Fraction(2, 11), "rest": [Fraction(5, 11), 1]}

# %% wrong
wrong = {
    "the corn is counted twice": {"corn": "8/11"},
    "the hay is counted twice": {"hay": Fraction(4, 11)},
    "the words are taken by themselves": {"corn": 0.4, "hay": 0.2},
    "the rest has two parts": {"rest": ["5/22", 1]},
}
"""
PAPER = HEAD.replace('"code"', '"paper"') + "from fractions import Fraction\n"
RIGHT = {"corn": "4/11", "hay": 0.182, "rest": (0.455, 1)}


def test_a_value_is_compared_to_about_three_digits_and_not_revealed(read):
    exercise = read(VALUE, "p", PAPER)
    assert text_of(exercise, RIGHT) == "✓ p: right"
    said = text_of(exercise, RIGHT | {"rest": [0.3, 1]}).splitlines()
    assert said == ["✗ p: 2 of 3 parts right", "  rest[0]: 0.3 is not right"]
    said = text_of(exercise, {"corn": 0.3, "grass": 1, "rest": ["5/11", 1]}).splitlines()
    assert said[1:] == [
        "  corn: 0.3 is not right",
        "  the key 'hay' is missing",
        "  the key 'grass' does not belong",
    ]
    assert "expected a dict with the keys corn, hay, rest" in text_of(exercise, [1, 2])
    endless: list = []
    endless.append(endless)
    for strange, says in [
        (10**5000, "number with thousands of digits"),
        (10**400, "1000"),
        ("7" * 5000, "the string '777"),
    ]:
        said = text_of(exercise, RIGHT | {"corn": strange}).splitlines()
        assert said[0] == "✗ p: 2 of 3 parts right"
        assert says in said[1]
    assert "dict without an end" in text_of(exercise, RIGHT | {"corn": endless})
    assert "the answer is a value" in text_of(exercise, lambda: 1)
    assert "the answer is None" in text_of(exercise, None)


@pytest.mark.parametrize("form", [float, Fraction, str, np.float64, lambda x: round(float(x), 2)])
def test_a_wrong_value_is_told_its_mistake_in_any_form(read, form):
    exercise = read(VALUE, "p", PAPER)
    said = text_of(exercise, RIGHT | {"corn": form(Fraction(8, 11))})
    assert said.splitlines()[-1] == "  Likely cause: the corn is counted twice."
    said = text_of(exercise, RIGHT | {"corn": form(Fraction(2, 5)), "hay": form(Fraction(1, 5))})
    assert said.splitlines()[-1] == "  Likely cause: the words are taken by themselves."


def test_two_slips_in_a_value_are_both_named(read):
    said = text_of(read(VALUE, "p", PAPER), RIGHT | {"corn": "8/11", "hay": "4/11"})
    assert said.splitlines() == [
        "✗ p: 1 of 3 parts right",
        "  corn: 8/11 is not right",
        "  hay: 4/11 is not right",
        "  Likely cause: the corn is counted twice.",
        "  Likely cause: the hay is counted twice.",
    ]


def test_a_half_filled_value_is_judged_part_by_part(read):
    exercise = read(VALUE, "p", PAPER)
    assert text_of(exercise, dict.fromkeys(RIGHT, ...)) == "○ p: not written yet"
    said = text_of(exercise, {"corn": ..., "hay": 0.182, "rest": [..., ...]})
    assert said == "○ p: 1 of 3 parts right; not written yet: corn, rest"
    said = text_of(exercise, {"corn": "8/11", "hay": ..., "rest": [0.455, 1]})
    assert said.splitlines() == [
        "✗ p: 1 of 3 parts right; not written yet: hay",
        "  corn: 8/11 is not right",
        "  Likely cause: the corn is counted twice.",
    ]


def test_a_rounded_value_is_asked_for_its_digits(read):
    exercise = read(VALUE, "p", PAPER.replace("kind, level", "tolerance = 1e-6\nkind, level"))
    said = text_of(exercise, {"corn": "4/11", "hay": 0.18, "rest": ["5/11", 1]}).splitlines()
    assert said[1:] == ["  hay: 0.18 is rounded; give 6 digits or a fraction"]
    said = text_of(exercise, {"corn": 0.73, "hay": 0.18, "rest": ["5/11", 1]})
    assert "Likely cause: the corn is counted twice." in said


def test_a_value_that_is_no_dict_has_one_sentence(read):
    body = "# %% solution\nanswer = 4\n# %% wrong\nwrong = {'this is half of it': 2}\n"
    exercise = read(body, "answer")
    assert text_of(exercise, "4") == "✓ answer: right"
    assert text_of(exercise, 3) == "✗ answer: 3 is not right"
    said = ["✗ answer: 2 is not right", "  Likely cause: this is half of it."]
    assert text_of(exercise, 2.0).splitlines() == said


# ---- a wrong answer as a change of the solution's text -------------------------------------------


def test_a_swap_changes_the_solutions_text(read):
    body = DOUBLE.partition("# %% wrong")[0]
    half = 'swap("2 * x", "x").swap("return x", "return x / 2")'
    body += (
        f"# %% wrong\nwrong = {{'this is once too often': swap('2 *', '3 *'), 'a half': {half}}}\n"
    )
    exercise = read(body, "double", WITH_SWAP)
    triple, half = exercise.wrong.values()
    assert (triple(5), half(5)) == (15, 2.5)
    assert "Likely cause: this is once too often." in text_of(exercise, lambda x: 3 * x)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ('swap("3", "4")', "swap: '3' occurs 0 times in the text, not 1"),
        ('swap("x", "y")', "swap: 'x' occurs 3 times in the text, not 1"),
        ('swap("2", "3").swap("2", "4")', "swap: '2' occurs 0 times"),
        ('swap("return", "(")', "'(' was never closed"),
    ],
)
def test_a_swap_that_does_not_fit_is_refused_by_name(read, change, says):
    body = DOUBLE.partition("# %% wrong")[0]
    body += f"# %% wrong\nwrong = {{'the change is a mistake': {change}}}\n"
    with pytest.raises(ValueError, match=r"c99_test/double: wrong\['the change is") as error:
        read(body, "double", WITH_SWAP)
    assert says in str(error.value)


def test_a_wrong_dict_names_only_what_differs(read):
    exercise = read(VALUE, "p", PAPER)
    right = exercise.solution
    assert exercise.wrong["the corn is counted twice"] == right | {"corn": "8/11"}
    with pytest.raises(ValueError, match=r"c99_test/p: wrong.* has other keys"):
        read(VALUE.replace('{"corn": "8/11"}', '{"corm": "8/11"}'), "p", PAPER)


# ---- folders -------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    chapter = tmp_path / "own" / "c07_backprop"
    chapter.mkdir(parents=True)
    for name in ("double", "twice"):
        text = (HEAD.lstrip() + DOUBLE).replace("def double", f"def {name}")
        (chapter / f"{name}.py").write_text(text, encoding="utf-8")
    (chapter / "__init__.py").write_text('order = ("double",)\nleft_out = ("twice",)\n')
    return chapter.parent


def test_a_folder_of_ones_own_has_the_same_form(folder, capsys):
    assert exercises.chapters(folder) == {"c07_backprop": ("double",)}
    for name in ("double", "c07_backprop/double", "c07_backprop/double.py"):
        assert exercises.load(name, folder).solution(4) == 8
    assert exercises.load(str(folder / "c07_backprop" / "double.py")).name == "double"
    check("double", lambda x: 2 * x, folder=folder)
    assert capsys.readouterr().out == "✓ double: all 2 tests passed\n"
    check("double", lambda x: 3 * x, folder=str(folder), seed=4)
    assert f'check("double", …, seed=4, folder="{folder}")' in capsys.readouterr().out
    with pytest.raises(ValueError, match="known: double, twice"):
        check("softmax_vjp", ..., folder=folder)


def test_the_printed_folder_can_be_typed_back(folder, capsys):
    odd = folder.rename(folder.parent / r"C:\new\table")
    check("double", lambda x: 3 * x, folder=odd)
    shown = capsys.readouterr().out.rpartition("folder=")[2].strip().removesuffix(")")
    assert ast.literal_eval("".join(shown.split("\n    "))) == str(odd)


def test_a_folder_whose_list_does_not_run_is_refused_by_name(folder):
    (folder / "c07_backprop" / "__init__.py").write_text("order = (double,)\n")
    with pytest.raises(
        ValueError, match=r"__init__\.py does not run \(NameError: .*expected order"
    ):
        exercises.load("double", folder)


def test_an_exercise_that_is_left_out_is_not_listed_but_can_be_loaded(folder):
    assert exercises.chapters(folder, "left_out") == {"c07_backprop": ("twice",)}
    assert exercises.load("twice", folder).name == "twice"


def test_a_folder_without_chapters_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no exercises in .*; expected c07_backprop/__init__\.py"):
        exercises.load("double", tmp_path)


# ---- check -------------------------------------------------------------------------------------

KNOWN = "c07_backprop/softmax_vjp"


def test_check_prints_once_and_returns_nothing(capsys):
    assert check(KNOWN, exercises.load(KNOWN).solution) is None
    assert capsys.readouterr().out == "✓ softmax_vjp: all 6 tests passed\n"
    check("softmax_vjp", ...)
    assert capsys.readouterr().out == "○ softmax_vjp: not written yet\n"


def test_check_names_the_seed_and_the_seed_repeats(capsys):
    def answer(y, y_bar):
        return y_bar if len(y) > 1 else exercises.load(KNOWN).solution(y, y_bar)

    check(KNOWN, answer)
    first = capsys.readouterr().out
    seed = int(first.rpartition("seed=")[2].strip(")\n"))
    check(KNOWN, answer, seed=seed)
    assert capsys.readouterr().out == first
    check(KNOWN, answer, seed=seed + 1)
    assert capsys.readouterr().out != first


def test_check_leaves_the_global_random_states_alone():
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    check(KNOWN, exercises.load(KNOWN).solution)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_an_unknown_name_lists_the_closest():
    with pytest.raises(ValueError, match="did you mean 'softmax_vjp'"):
        check("softmax_vpj", ...)
    with pytest.raises(ValueError, match=r"known: .*softmax_vjp"):
        check("zzzzz", ...)


def test_arguments_in_the_wrong_order_or_missing_are_explained():
    with pytest.raises(TypeError, match="the name comes first"):
        check(np.ones(2), "softmax_vjp")
    with pytest.raises(TypeError, match="pass your answer"):
        check("softmax_vjp")


@pytest.mark.parametrize(
    ("expected", "near", "far"),
    [
        (0.001, "1/1000", "1/10000"),
        (256, "256.0", "257"),
        (0.25, "0.2501", "0.24"),
        (0.0, 0.004, 1),
    ],
)
def test_by_hand_a_count_is_exact_and_a_small_number_not_near_to_another(expected, near, far):
    assert difference(near, expected, 5e-3, by_hand=True) is None
    assert difference(far, expected, 5e-3, by_hand=True) is not None


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda: None, "returned None: is a `return` missing?"),
        (lambda: ([[1], [-1]], [[1]]), "balance_weights returns a dictionary, not a tuple"),
        (lambda: {"W_xh": [], "W_hh": [], "b_h": []}, "the dictionary has no w_y and no b_y"),
    ],
)
def test_the_weights_set_by_hand_come_as_a_whole_dictionary(answer, says):
    assert says in text_of(exercises.load("balance_weights"), answer)
