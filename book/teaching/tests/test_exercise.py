"""Exercises: the comparison, the one-file form, marking, examples, folders, and `check`."""

import ast
import json
import math
import sys
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import torch
from unrolled_book import exercises
from unrolled_book.check import check, examine
from unrolled_book.coursework import personal
from unrolled_book.exercises import examples
from unrolled_book.exercises.engine import Exercise
from unrolled_book.exercises.engine.compare import difference
from unrolled_book.exercises.engine.marking import mark, planned_outcomes, run
from unrolled_book.exercises.engine.wire import encode
from unrolled_book.exercises.rounding import rounding

SAME = [
    (0.5, Fraction(1, 2)), (3.0, 3), (np.array(3.0), 3), (torch.tensor(3.0), 3),
    (np.array(3, np.longdouble), 3.0), ([], np.zeros(0, int)), (np.zeros(0), np.zeros(0, int)),
    ((1, 2), [1, 2]), (np.array([1, 2]), [1, 2]), (torch.ones(2), [1.0, 1.0]),
    (np.ones((2, 3)), (np.ones(3), [1, 1, 1])),
    ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
    ([np.float64(0.5), torch.tensor(0.5)], np.array([0.5, 0.5])),
    (torch.ones(2, dtype=torch.float64), np.ones(2)),
    (np.array([-0.0, -np.inf, np.nan]), np.array([0.0, -np.inf, np.nan])),
]  # fmt: skip


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        (np.ones((3, 2)), np.ones((2, 3)), "the shape is (3, 2), expected (2, 3)"),
        (np.array([0.05, 1]), np.array([0.44, 1]), "differs most at 0: got 0.05, expected 0.44"),
        (np.array([[1.5, 2], [4, 4]]), np.array([[1.0, 2], [4, 2]]), "most at (1, 1): got 4"),
        (np.array([1, np.nan]), np.ones(2), "is not finite at 1: got nan, expected 1"),
        (np.array([1, 2.0]), np.array([1, 2]), "float64, expected whole ones (integers)"),
        (np.ones(2), np.array([True, False]), "the numbers are float64, expected True or False"),
        (np.array(["1"]), np.array([1]), "the entries are <U1, expected int64"),
        (np.array(["a"]), np.array(["b"]), "differs most at 0: got “a”, expected “b”"),
        (np.array([0.1], "f4"), np.array([0.1]), "digits of float32 only; compute in float64"),
        (np.array([1 / 3, 2e3 / 3], "f2"), np.array([1 / 3, 2e3 / 3]), "digits of float16 only"),
        ([[1.0], [1.0, 2.0]], np.ones(2), "got a list of 2, expected an array of shape (2,)"),
        (np.ones((2, 3)), [np.ones(3), np.zeros(3)], "at [1]: differs most at 0: got 1"),
        ([1], [1, 2], "has 1 part, expected 2"), (5, {"a": 1}, "expected a dict"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "at ['a'][1]: got 2, expected 3"),
        ({"hya": 1}, {"hay": 1}, "the key 'hay' is missing; the key 'hya' does not belong"),
        (math.inf, 1.0, "is not finite: got inf"), (True, 1, "got True, expected the number 1"),
        (1, True, "got the number 1, expected True"),
        ("4/11", Fraction(4, 11), "got the string '4/11', expected the number 4/11"),
        ("cat", "hat", "got the string 'cat', expected the string 'hat'"),
        ("9" * 5000, 3, f"got the string '{'9' * 40}'…, expected the number 3"),
        ([10**400], [3], "got 10000000000000000000… (401 characters), expected 3"),
        # 0 for what the comparison does not tell from 0
        (-8.5e-16, 2.0, "got 0, expected 2"),
        (np.array([1.0, -1e-17]), np.array([1.0, 3.0]), "got       [1. 0.]\n"),
        (np.array([np.nan]), np.array([-5.8e-12]), "got nan, expected 0"),
        (9e-10, -9e-10, "got 9e-10, expected -9e-10"),
        *((got, expected, "nothing") for got, expected in SAME),
    ],
)  # fmt: skip
def test_the_sentence_names_what_is_wrong_and_forms_of_the_same_value_agree(got, expected, says):
    assert says in (difference(got, expected) or "nothing")


@pytest.mark.parametrize(
    ("got", "expected", "tolerance", "says"),
    [
        *[(typed, Fraction(4, 11), 1e-6, None) for typed in ("4/11", " 4 / 11 ", "8/22.")],
        *[(4 / 11, typed, 1e-6, None) for typed in (".363636364", "3.63636364e-1")],
        *[(got, 2 / 3, 1e-6, f"{got} is rounded; give 6 digits or a fraction")
          for got in (0.67, 0.66, 0.667, "0.6667", Fraction(67, 100))],
        *[(got, 2 / 3, 1e-6, f"{got} is not right") for got in (0.7, 0.68, 0.6, -0.67, 0)],
        *[(typed, 1.0, 5e-3, f"got the string {typed!r}, expected a number")
          for typed in ("1/0", "4:11", "1e999999999", "4/11/2", "")],
        ("1/1000", 0.001, 5e-3, None),
        ("1/10000", 0.001, 5e-3, "1/10000 is not right"),  # a small number is not near to another
        (0.24, 0.25, 5e-3, "0.24 is not right"), (0.004, 0.0, 5e-3, None),
        (1, 0.0, 5e-3, "1 is not right"), (1e-11, 1e-8, 5e-3, "1e-11 is not right"),
        ("256.0", 256, 5e-3, None),
        ("257", 256, 5e-3, "257 is not right"),  # a count is exact
        (math.inf, 2 / 3, 1e-6, "is not finite: inf is not right"),
        (4_090_000, 4_090_400, 5e-3, "4090000 is rounded; give all digits"),
        ("−1/3", 0.5, 5e-3, "−1/3 is not right"),
        ({"a": 0.1}, {"a": 0.7421}, 5e-3, "at ['a']: 0.1 is not right"),
        ({"a": 1}, {"a": 1, "b": 2}, 5e-3, "the key 'b' is missing"),
        (np.zeros(2), np.ones(2), 5e-3, "differs most at 0: 0 is not right"),
    ],
)  # fmt: skip
def test_by_hand_a_number_may_be_typed_and_is_not_revealed(got, expected, tolerance, says):
    assert difference(got, expected, tolerance, by_hand=True) == says
    rounded = says is None or " is rounded" in says
    assert (difference(got, expected, tolerance, by_hand=True, rounded=True) is None) == rounded


def test_small_arrays_are_printed_whole_and_side_by_side():
    said = difference(np.array([[1.0, 2.0], [0.0, 0.05]]), np.array([[1.0, 2.0], [0.0, 0.44]]))
    assert said.splitlines()[1:] == [
        "got          expected", "[1.   2.  ]  [1.   2.  ]", "[0.   0.05]  [0.   0.44]",
    ]  # fmt: skip
    rows = ["got       [3 6]", "expected  [2 4]"]
    said = difference(np.array([3, 6]), np.array([2, 4]), at="totals")
    assert said.splitlines() == ["totals: differs most at 1: got 6, expected 4", *rows]
    assert difference([3, 6], [2, 4]).splitlines()[1:] == rows
    for large in (np.zeros(13), np.zeros((2, 2, 2)), np.full(12, 1e200), np.zeros(1)):
        assert "\n" not in difference(large + 1 + 0.1 * large, large)
    assert difference(6e-11, 9.0, 0.0) == "got 6e-11, expected 9"  # without a tolerance: its digits


def test_a_long_text_among_numbers_makes_no_wide_array():
    got = [np.array("x" * 16_000), *[0] * 3_000]
    tracemalloc.start()
    try:
        assert difference(got, np.zeros(3_001))
        assert difference(got, [0.0] * 3_001)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000  # as one array 190 MB
    finally:
        tracemalloc.stop()


HEAD = '''r"""A title

A statement.
"""
from fractions import Fraction
import numpy as np
from unrolled_book.exercises.engine import call, swap
kind, level, points = "code", 1, 2
explanation = "Why."
'''
DOUBLE = f"""{HEAD}# %% solution
def double(x):
    '''Twice x.'''
    # a comment
    return 2 * x
# %% tests
def tests(rng):
    yield call(np.array([1.0, 2.0]), visible=True)
    yield call(rng.normal(size=3), hint="any size")
# %% oracle
oracle_tolerance = 1e-4
def oracle(x):
    return x + x
# %% wrong
wrong = {{"x is added too often": lambda x: 3 * x}}
"""
TALLY = f"""{HEAD}# %% starter
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
wrong = {{}}
"""
PAIR = f"""{HEAD}outputs = ("low", "high")
# %% solution
def ends(x):
    low, high = min(x), max(x)
    return low, high
# %% tests
def tests(rng):
    yield call([2.0, 3.0, 1.0, 2.5])
    yield call(rng.normal(size=5).tolist())
# %% wrong
wrong = {{
    "low is the first": swap("min(x)", "x[0]"),
    "high is the last": swap("max(x)", "x[0]").swap("x[0]", "x[-1]"),
    "the list is sorted": swap("low, high =", "x.sort(); low, high ="),
}}
"""
ROLL = f"""{HEAD}# %% solution
def roll(n):
    return [1] * n
# %% tests
def judge(output, n):
    return None if len(output) == n else f"{{len(output)}} rolls, expected {{n}}"
def tests(rng):
    yield call(int(rng.integers(3, 9)))
# %% wrong
wrong = {{"one roll is missing": lambda n: [1] * (n - 1)}}
"""
VALUE = f"""{HEAD}# %% solution
p = {{"corn": Fraction(4, 11), "hay": Fraction(2, 11), "rest": [Fraction(5, 11), 1]}}
# %% wrong
wrong = {{
    "corn counts twice": {{"corn": "8/11"}},
    "hay counts twice": {{"hay": Fraction(4, 11)}},
    "words stand alone": {{"corn": 0.4, "hay": 0.2}},
    "hay is a fifth": {{"hay": 0.2}},
}}
"""
ANSWER = f"{HEAD}# %% solution\nanswer = 4\n# %% wrong\nwrong = {{'this is half of it': 2}}\n"
SHOW = "def show(numbers):\n    return f'tally.add(n) for {sum(numbers)}'\n\n"
TWO, THRICE = "2 * x", "lambda x: 3 * x"
FILES = {  # the first word is the exercise's name
    "double": DOUBLE,
    "double that refuses": DOUBLE.replace("# a comment", "if len(x) == 3: raise ValueError(x)"),
    "answer": ANSWER,
    "Tally": TALLY,
    "Tally with its call": TALLY.replace("def tests", f"{SHOW}def tests"),
    "ends": PAIR,
    "roll": ROLL,
    "p": VALUE,
    "p to 6 digits": VALUE.replace("kind, level", "tolerance = 1e-6\nkind, level"),
}


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Read one of FILES, or another text under its name; or an exercise of the book."""
    folder = tmp_path_factory.mktemp("own") / "c99_test"
    folder.mkdir()

    def from_text(title: str, text: str = "") -> Exercise:
        if not text and title not in FILES:
            return exercises.load(title)
        path = folder / f"{title.split()[0]}.py"
        path.write_text(text or FILES[title], encoding="utf-8")
        return Exercise.read(path)

    return from_text


OWN = "    return ...  # your code here"
DEF, LINES = "def double(x):\n", "def double(\n    x,\n):  # why: so\n"
KEYS = ANSWER.replace("= 4", "= {'a': 1, 2: 0.5}").replace("half of it': 2", "half': {2: 1}")
MANY = KEYS.replace("'a'", repr("a" * 90))


def test_the_starter_is_the_solution_without_its_answer(read):
    for name, text, starter in [
        ("double", DOUBLE, f"{DEF}    '''Twice x.'''\n{OWN}"),
        ("double", DOUBLE.replace("    '''Twice x.'''\n", ""), DEF + OWN),
        ("double", DOUBLE.replace(f"{DEF}    '''Twice x.'''\n", f"{LINES}\n"), LINES + OWN),
        ("Tally", TALLY, "class Tally:\n    def add(self, n): ..."),
        ("answer", ANSWER, "answer = ..."),
        ("answer", KEYS, 'answer = {"a": ..., 2: ...}'),
        ("answer", MANY, 'answer = {\n    "' + "a" * 90 + '": ...,\n    2: ...,\n}'),
    ]:
        exercise = read(name, text)
        assert exercise.starter == starter
        assert (exercise.title, exercise.statement) == ("A title", "A statement.")


SOLUTION = DOUBLE[DOUBLE.index("def double") : DOUBLE.index("# %% tests")]
CALL = "yield call(int(rng.integers(3, 9)))"
BESIDE = "double: the body of `def` begins on a line of its own"
CHANGED = "wrong['x is added too often']: swap: "


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("double", '"code", 1, 2', '"essay", 1, 2', "kind is one of"),
        ("double", '"code", 1, 2', '"code", 4, 2', "level is 1, 2 or 3, got 4"),
        ("double", "# %% solution", "", "no cell '# %% solution'"),
        ("double", "def double", "def twice", "nothing is named 'double'"),
        ("double", "wrong = {", "right = {", "`wrong` is a dict"),
        ("double", 'explanation = "Why."', "", "`explanation` is missing"),
        ("double", "\nA statement.\n", "", "the docstring holds a title"),
        ("double", "# %% wrong", "# %% tests", "a cell stands once, got ['solution'"),
        ("double", TWO, "2 *", "cannot be read: SyntaxError: invalid … double.py, line 14)"),
        ("double", THRICE, "triple", "NameError: name 'triple' is … double.py, line 24)"),
        ("double", "import numpy", "import numpie", "ModuleNotFoundError: … 'numpie' … line 6)"),
        ("double", SOLUTION, "def double(x): return 2 * x\n", BESIDE),
        ("double", SOLUTION, "def double(\n    x,\n): return 2 * x\n", BESIDE),
        ("double", SOLUTION, "double = lambda x: 2 * x\n", "write `starter`; it is made from a"),
        ("double", "oracle(x)", "second_way(x)", "`def oracle(*args)` in a cell '# %% oracle'"),
        ("double", "1e-4", "0.0", "oracle_tolerance lies between 0 and 1, got 0.0"),
        ("double", THRICE, 'swap("3", "4")', f"{CHANGED}'3' occurs 0 times in the text, not 1"),
        ("double", THRICE, 'swap("2", "3").swap("2", "4")', f"{CHANGED}'2' occurs 0 times"),
        ("double", THRICE, 'swap("return", "(")', "wrong['x is added … '(' was never closed"),
        ("p", '{"corn": "8/11"}', '{"corm": "8/11"}', "wrong['corn … has other keys"),
        ("Tally", "# %% use", "", "in a cell '# %% use'"),
        ("roll", CALL, "yield np.ones(2)", "`tests(rng)` yields call(…), got ndarray"),
        ("roll", CALL, "yield from ()", "`tests(rng)` yields call(…), got nothing"),
    ],
)
def test_a_file_in_another_form_is_refused_by_name_and_with_its_fault(read, name, old, new, says):
    assert FILES[name].count(old) == 1
    with pytest.raises(ValueError, match=rf"exercise (c99_test/)?{name}") as error:
        read(name, FILES[name].replace(old, new)).calls(0)
    assert all(part in str(error.value) for part in says.split(" … ")), error.value


def test_an_oracle_has_a_tolerance_and_is_neither_shown_nor_asked_when_an_answer_is_checked(read):
    assert (read("double").oracle(3), read("double").oracle_tolerance) == (6, 1e-4)
    assert read("double", DOUBLE.replace("oracle_tolerance", "other")).oracle_tolerance == 1e-6
    exercise = read("double", DOUBLE.replace("return x + x", "raise AssertionError"))
    assert examine(exercise, exercise.solution, 0).state == "passed"
    assert exercise.solution_source == SOLUTION.strip()
    assert "oracle" not in exercise.starter + exercise.explanation + exercise.statement


def test_use_is_read_without_the_solution(read):
    """So that a sandbox may run its text beside a student's answer."""
    exercise, names = read("Tally"), {}
    exec(exercise.use_source, names)
    assert "Tally" not in names
    assert "unrolled" not in exercise.use_source, "a sandbox has no need of the book"
    assert names["use"](exercise.solution, [2, 3]) == 5


def refuse(x):
    raise NotImplementedError


def overrun(x):
    y = 2 * x
    return y[17]


def sort(x):
    first, last = x[0], max(x)
    x.sort()
    return first, last


class Broken:
    def add(self, n):
        return self.missing


class Zero(Broken):
    total, missing = 0, None


def p(**parts) -> dict:
    return {"corn": "4/11", "hay": 0.182, "rest": (0.455, 1)} | parts


ENDLESS: list = []
ENDLESS.append(ENDLESS)
FIRST = "0 of 2 tests passed; the first that fails: | ends([2.0, 3.0, 1.0, 2.5])"
SAID = [
    ("double", lambda x: x + x, "✓ double: all 2 tests passed"),
    ("double", lambda x: x + x + x, "✗ double: 0 of 2 tests passed; the first that fails: | "
     "double(array([1., 2.])) | differs most at 1: got 6, expected 4 | got       [3. 6.] | "
     "expected  [2. 4.] | Likely cause: x is added too often."),
    ("double", lambda x: 2 * x if len(x) == 2 else x, "1 of 2 tests passed … Hint: any size"),
    ("double", lambda x: np.multiply(2, x, out=x), "changes its own input (argument 1)"),
    ("ends", lambda x: (min(x), max(x), x.append(x))[:2], "changes its own input (argument 1)"),
    ("double", lambda x: None, "returned None: is a `return` missing?"),
    ("double", lambda x: (2 * v for v in x), "got a thing of type “generator”"),
    ("double", np.array([2.0]), 'expected the function itself: check("double", double)'),
    ("double", overrun, "raised IndexError: index 17 is … "
     f"(line {overrun.__code__.co_firstlineno + 2}: `return y[17]`)"),
    # Errors that speak of an ellipsis or sound like a starter's are errors; a starter is none.
    ("double", lambda x: np.einsum("i->i", x[None]), "raised ValueError: operand has more"),
    ("double", lambda x: torch.ones(2, device="meta").cpu(), "raised NotImplementedError: "),
    ("double", lambda x: sys.exit(3), "raised SystemExit: 3"),
    *[("double", starter, "○ double: not written yet") for starter in (
        ..., lambda x: ..., refuse, lambda x: 2 * ..., lambda x: [1, ...], lambda x: (...).sum(),
        lambda x: np.exp(...), lambda x: torch.exp(...), lambda x: torch.tensor(...),
        lambda x: f"{...:.3f}")],
    # A refusal that the reference makes is expected.
    ("double that refuses", lambda x: 2 * x if len(x) == 2 else int("x"),
     "✓ double: all 2 tests passed"),
    ("double that refuses", lambda x: 2 * x, "1 of 2 tests passed … it must raise ValueError"),
    # The call of a class is shown only where the reader wrote it.
    ("Tally", Broken, "raised AttributeError … `return self.missing`"),
    ("Tally", Zero, "✗ Tally: 0 of 1 tests passed; the first that fails: | got 0, expected 24"),
    ("Tally with its call", Zero, "the first that fails: | tally.add(n) for 24"),
    # Parts go by their names.
    ("ends", lambda x: np.array([min(x), max(x)]), "✓ ends: all 2 tests passed"),
    ("ends", lambda x: np.array([min(x), 0.5]), f"✗ ends: {FIRST} | high: got 0.5, expected 3"),
    ("ends", min, "got the number 1, expected the tuple (low, high)"),
    ("ends", lambda x: (x[0], ...), "expected 1 | high: not written yet | Likely cause: low is"),
    ("ends", lambda x: (..., max(x)), "○ ends: low: not written yet"),
    ("ends", lambda x: (min(x) if 1.0 in x else 9.0, ...), "low: got 9, expected"),  # the second
    ("ends", sort, "expected 1 | Likely cause: low is the first. | Likely cause: the list is sor"),
    ("ends", lambda x: (x[0], x[-1]), "low: … high: … low is the first. … high is the last."),
    # A judge decides where the answer is not unique.
    ("roll", lambda n: [2] * n, "✓ roll: right"),
    ("roll", lambda n: [2] * (n + 1), "rolls, expected"),
    ("roll", lambda n: [1] * (n - 1), "Likely cause: one roll is missing"),
    # A value is judged part by part and not revealed.
    ("p", p(), "✓ p: right"),
    ("p", {"corn": 0.3, "grass": 1, "rest": ["5/11", 1]}, "✗ p: 1 of 3 parts right | "
     "corn: 0.3 is not right | the key 'hay' is missing | the key 'grass' does not belong"),
    ("p", p(corn=np.float64(8 / 11), hay="4/11"), "corn: 0.72727273 is not right | hay: 4/11 is "
     "not right | Likely cause: corn counts twice. | Likely cause: hay counts twice."),
    ("p", p(corn=Fraction(2, 5), hay="0.2", rest=[0.3, 1]), 
     "0 of 3 … 0.3 is not right | Likely cause: words stand alone."),  # and that explains the hay
    ("p", dict.fromkeys(p(), ...), "○ p: not written yet"),
    ("p", p(corn=..., rest=[..., ...]), "○ p: 1 of 3 parts right; not written yet: corn, rest"),
    ("p", p(corn="8/11", hay=...), "not written yet: hay | corn: 8/11 is not right | Likely cause"),
    ("p to 6 digits", p(rest=["5/11", 1], hay=0.18), "hay: 0.18 is rounded; give 6 digits or a"),
    ("p to 6 digits", p(rest=["5/11", 1], hay=2 / 11, corn=0.73), "cause: corn counts twice."),
    ("p", [1, 2], "expected a dict with the keys corn, hay, rest"),
    ("p", None, "the answer is None"),
    ("p", p(corn=10**5000), "2 of 3 parts right … number with thousands of digits"),
    ("p", p(corn=ENDLESS), "dict without an end"),
    ("answer", 2.0, "✗ answer: 2 is not right | Likely cause: this is half of it."),
    # The book's exercise whose answer is weights, set by hand.
    ("balance_weights", lambda: {"W_xh": [], "W_hh": [], "b_h": []}, "has no w_y and no b_y"),
]  # fmt: skip


@pytest.mark.parametrize(("title", "answer", "says"), SAID)
def test_an_answer_is_told_what_is_wrong_and_its_likely_causes(read, title, answer, says):
    """A text that begins with its sign is all that is said, others are parts of it."""
    said = examine(read(title), answer, 0).text.replace("\n    ", " ").replace("\n  ", " | ")
    assert said == says if says[0] in "✓✗○" else all(part in said for part in says.split(" … "))


def test_no_printed_line_is_wider_than_a_page(read):
    report = examine(read("double"), lambda x: int("many words " * 9), 0)
    assert max(map(len, report.lines)) > 90
    assert max(map(len, report.text.splitlines())) < 80


def test_the_marker_needs_outcomes_only_and_they_are_json(read):
    exercise = read("ends")
    calls = exercise.calls(3)
    arguments = json.loads(json.dumps([encode(call.args) for call in calls]))
    outcomes = json.loads(json.dumps(run(sort, arguments), allow_nan=False))
    assert mark(exercise, calls, outcomes) == examine(exercise, sort, 3)
    planned = planned_outcomes(exercise, calls)
    for mistake, outcomes in planned.items():  # which may be handed in, too
        assert f"Likely cause: {mistake}." in mark(exercise, calls, outcomes, planned).lines
        assert mark(exercise, calls, outcomes, planned) == mark(exercise, calls, outcomes)


def test_what_is_left_where_larger_numbers_cancel_is_rounding():
    for value, args, left in [
        ((np.array([2.0]), -8.5e-16), (np.array([[1.0, 2.0, 4.0, 8.0]]), 1), -8.5e-16),
        (torch.tensor([3.0, -2e-10], dtype=torch.float64), (), -2e-10),
        ({"a": [1.0], "b": 0.1 + 0.2 - 0.3}, (0.1, 0.2), 0.1 + 0.2 - 0.3),
        (1e-5, ([1e7, 3e6], 1e5), 1e-5),
        # What is small in its own unit, or 0, is none.
        (np.array([1.0, 0.0, 2e-9]), (), None),
        (0.5, (1e6, 1e11, 0.3), None),  # days, of many parameters at a share of the peak
        ((1e12, 3.0), (7,), None),  # each part in its own unit
        (np.array([np.inf, 1.0]), (np.array(["a"]), {}), None),
        (np.zeros((0, 3)), (), None),
    ]:
        assert rounding(value, args) == left, value


def test_an_example_that_shows_rounding_is_refused_by_name_and_number(read):
    """A series that doubles has the constant 0, computed as some 1e-15; or an argument is tiny."""
    source = exercises.load("c09b_neighbours/fit_lags").source
    call = r"c99_test/fit_lags: the example fit_lags\(np.array\(\[\[1., 2., 4., 8.\]\]\), 1\)"
    for series, says in [
        ("[1.0, 2.0, 4.0, 8.0]", rf"{call} shows -?\d[\d.]*e-1\d, which is rounding"),
        ("[1.0, 3.0, 1e-13, 15.0]", "shows 1e-13, which is rounding"),
    ]:
        with pytest.raises(ValueError, match=says):
            examples.examples(read("fit_lags", source.replace("[1.0, 3.0, 7.0, 15.0]", series)))
    left = ROLL.replace("return [1] * n", "return (0.1 + 0.2 - 0.3) * n")  # nor does a task
    with pytest.raises(ValueError, match="cannot be personal"):
        personal.own(read("roll", left), 7)
    assert personal.own(read("roll", left.replace("0.2 - 0.3", "0.2 - 0.4")), 7).solution < 0


LAST_DIGITS = 3e-15  # of a number, a few times the distance to the next float


def moved(value, by: float):
    """The value with each float moved by a share of itself, as another processor may move it."""
    if isinstance(value, (list, tuple)):
        return type(value)(moved(part, by) for part in value)
    if isinstance(value, dict):
        return {key: moved(part, by) for key, part in value.items()}
    kind = value.dtype.kind if isinstance(value, np.ndarray) else type(value)
    return value * (1 + by) if kind in ("f", float) else value


@pytest.mark.stored
@pytest.mark.parametrize(
    "name", [f"{slug}/{name}" for slug, names in exercises.chapters().items() for name in names]
)
def test_an_example_does_not_show_the_last_digits(name, monkeypatch):
    exercise, written = exercises.load(name), examples.written
    stored = examples.examples(exercise)
    for by in (-LAST_DIGITS, LAST_DIGITS):
        monkeypatch.setattr(examples, "written", lambda value, by=by: written(moved(value, by)))
        assert examples.examples(exercise) == stored


def test_a_number_is_written_the_same_with_a_tail_and_without():
    for number, text in (
        (2.0, "2.0"), (2 + 4e-16, "2.0"), (2 - 2e-16, "2.0"), (0.1 + 0.2, "0.3"),
        (1 / 3, "0.333333"), (1234.5678 + 2e-13, "1234.5678"), (1e11 - 1e-4, "100000000000.0"),
        (1e-5 / 3, "3.33333e-06"),
    ):  # fmt: skip
        assert examples.written([number]) == f"[{examples.written(number)}]" == f"[{text}]"


def test_the_verdict_on_a_wrong_answer_does_not_hang_on_a_tie():
    """Two words equally near would be told apart by rounding: each case has one nearest word."""
    for call in exercises.load("c05_word_vectors/analogy_report").calls(0):
        vectors, questions = call.args
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        a, b, c = (unit[questions[:, i]] for i in range(3))
        best = np.sort((b - a + c) @ unit.T, axis=1)[:, -2:]
        assert (best[:, 1] - best[:, 0]).min() > 1e-6


@pytest.fixture
def folder(tmp_path):
    chapter = tmp_path / "own" / "c07_backprop"
    chapter.mkdir(parents=True)
    for name in ("double", "twice"):
        text = DOUBLE.replace("def double", f"def {name}")
        (chapter / f"{name}.py").write_text(text, encoding="utf-8")
    (chapter / "__init__.py").write_text('order = ("double",)\nleft_out = ("twice",)\n', "utf8")
    return chapter.parent


def test_a_folder_of_ones_own_has_the_same_form(folder, capsys):
    """What is left out is not listed, but can be loaded; the folder is printed as Python."""
    assert exercises.chapters(folder) == {"c07_backprop": ("double",)}
    assert exercises.chapters(folder, "left_out") == {"c07_backprop": ("twice",)}
    for name in ("double", "c07_backprop/double", "c07_backprop/double.py", "twice"):
        assert exercises.load(name, folder).solution(4) == 8
    assert exercises.load(str(folder / "c07_backprop" / "double.py")).name == "double"
    check("double", lambda x: 2 * x, folder=folder)
    assert capsys.readouterr().out == "✓ double: all 2 tests passed\n"
    odd = folder.rename(folder.parent / r"C:\new\table")
    check("double", lambda x: 3 * x, folder=odd, seed=4)
    call, _, shown = capsys.readouterr().out.rpartition(", folder=")
    assert call.endswith('check("double", …, seed=4')
    assert ast.literal_eval(shown.strip().removesuffix(")").replace("\n    ", "")) == str(odd)


def test_check_prints_once_names_the_seed_that_repeats_and_leaves_the_global_one_alone(capsys):
    def printed(answer, **options):
        assert check("c07_backprop/softmax_vjp", answer, **options) is None
        return capsys.readouterr().out

    def answer(y, y_bar):
        return y_bar if len(y) > 1 else right(y, y_bar)

    right = exercises.load("softmax_vjp").solution
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert printed(right) == "✓ softmax_vjp: all 6 tests passed\n"
    assert printed(...) == "○ softmax_vjp: not written yet\n"
    first = printed(answer)
    seed = int(first.rpartition("seed=")[2].strip(")\n"))
    assert printed(answer, seed=seed) == first != printed(answer, seed=seed + 1)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_what_names_no_exercise_or_no_answer_is_refused(folder, tmp_path):
    (folder / "c07_backprop" / "__init__.py").write_text("order = (double,)\n", "utf8")
    for call, given, error, says in [
        (check, ("softmax_vpj", ...), ValueError, "did you mean 'softmax_vjp'"),
        (check, ("zzzzz", ...), ValueError, "known: .*softmax_vjp"),
        (check, (np.ones(2), "softmax_vjp"), TypeError, "the name comes first"),
        (check, ("softmax_vjp",), TypeError, "pass your answer"),
        (exercises.load, ("double", tmp_path), ValueError, "no exercises in .*expected c07"),
        (exercises.load, ("double", folder), ValueError,
         r"__init__\.py does not run \(NameError: .*expected order"),
    ]:  # fmt: skip
        with pytest.raises(error, match=says):
            call(*given)
