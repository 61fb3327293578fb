"""A syllabus: what it gives, and what is said of each mistake in the file."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from unrolled_book.coursework.syllabus import Item, Syllabus, plain

COURSE = """
title = "A course"
seed = "a secret of the test"

[[weeks]]
name = "week1"
title = "Language as probability"
due = 2026-10-09T23:59:00+02:00
exercises = [
    "c01_chain_rule/shift",
    {exercise = "two_roads", points = 3.5, credit = "all"},
    {exercise = "c01_chain_rule/bits_per_byte", personal = true},
]

[[weeks.questions]]
name = "padding"
title = "Why pad?"
statement = "Explain."
points = 4
rubric = ["2: names the shape", "2: says what the loss does"]
"""
OWN = '''r"""Mine

Return x + 1.
"""
from unrolled_book.exercises.engine import call, swap
kind, level, points = "code", 1, 9
# %% solution
def shift(x):
    return x + 1
# %% explanation
explanation = "One more."
# %% tests
def tests(rng):
    yield call(1)
# %% wrong
wrong = {"it takes one away": swap("+", "-")}
'''


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "course.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_syllabus_gives_weeks_items_and_questions(write):
    course = Syllabus.read(write(COURSE))
    (week,) = course.weeks
    assert (course.title, course.late, course.folders) == ("A course", 1.0, ())
    assert week.due.utcoffset() == timedelta(hours=2)
    assert week.items == (
        Item("c01_chain_rule/shift", 2, "all"),
        Item("c01_chain_rule/two_roads", 3.5, "all"),
        Item("c01_chain_rule/bits_per_byte", 2, "tests", personal=True),
    )
    assert week.questions[0].rubric[1] == "2: says what the loss does"
    assert course.exercise(week.items[0]).title == "Inputs and targets for a batch"


def test_a_paper_exercise_is_marked_by_its_parts_unless_told_otherwise(write):
    text = COURSE.replace(', points = 3.5, credit = "all"', "")
    assert Syllabus.read(write(text)).weeks[0].items[1].credit == "tests"


def test_seeds_differ_by_exercise_student_and_secret(write):
    course = Syllabus.read(write(COURSE))
    other = Syllabus.read(write(COURSE.replace("a secret", "b secret")))
    items = course.weeks[0].items
    seeds = [c.seed_of(item) for c in (course, other) for item in items]
    seeds += [course.personal_seed(items[2], student) for student in ("ada", "bob")]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**48 for seed in seeds)
    assert course.personal_seed(items[2], " Ada ") == course.personal_seed(items[2], "ada")


def test_the_secret_is_not_shown_when_a_syllabus_is_printed(write):
    assert "a secret of the test" not in repr(Syllabus.read(write(COURSE)))


def test_a_students_id_is_compared_without_case_and_blanks():
    assert plain(" S0123 \n") == plain("s0123") == plain("Ｓ0123")
    assert plain("s0123") != plain("s0124")


def test_the_secret_may_stand_in_a_file_or_in_the_environment(write, tmp_path, monkeypatch):
    (tmp_path / "secret.txt").write_text("a secret of the test\n", encoding="utf-8")
    monkeypatch.setenv("A_COURSE", "a secret of the test")
    line = 'seed = "a secret of the test"'
    seeds = [
        Syllabus.read(write(COURSE.replace(line, given))).seed
        for given in (line, 'seed_file = "secret.txt"', 'seed_env = "A_COURSE"')
    ]
    assert len(set(seeds)) == 1


def test_an_own_exercise_comes_before_the_books_of_the_same_name(write, tmp_path):
    folder = tmp_path / "mine" / "c01_chain_rule"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text('order = ("shift",)\n', encoding="utf-8")
    (folder / "shift.py").write_text(OWN, encoding="utf-8")
    course = Syllabus.read(write('folders = ["mine"]\n' + COURSE))
    item = course.weeks[0].items[0]
    assert (course.exercise(item).title, item.points) == ("Mine", 9)
    assert course.exercise(course.weeks[0].items[1]).name == "two_roads"


SEED = 'seed = "a secret of the test"'
MISTAKES = {
    "no file": (None, "no syllabus"),
    "not TOML": ("title = ", "not TOML"),
    "no title": (COURSE.replace("title = ", "tilte = ", 1), "title is missing (there is 'tilte')"),
    "title is a number": (COURSE.replace('"A course"', "7"), "title is 7; expected a text"),
    "no secret": (COURSE.replace(SEED, ""), "got none of them; expected one of seed_env"),
    "two secrets": (COURSE.replace(SEED, SEED + '\nseed_file = "x"'), "got seed and seed_file"),
    "a short secret": (COURSE.replace("a secret of the test", "123"), "gives 3 characters"),
    "a variable not set": (COURSE.replace(SEED, 'seed_env = "NO_SUCH_1"'), "'NO_SUCH_1'"),
    "a file not there": (COURSE.replace(SEED, 'seed_file = "no.txt"'), "'no.txt'"),
    "late above 1": ("late = 2\n" + COURSE, "late is 2; expected the share"),
    "a key too many": ("dedline = 2\n" + COURSE, "dedline is not a key here"),
    "a misspelt key": (COURSE.replace("due =", "dues ="), "weeks[0].dues is not a key here; did"),
    "no week": (COURSE.partition("[[weeks]]")[0], "weeks is missing; expected [[weeks]]"),
    "week's name": (COURSE.replace('"week1"', '"../up"'), "weeks[0].name is '../up'"),
    "no time zone": (COURSE.replace("+02:00", ""), "without a time zone"),
    "a day only": (COURSE.replace("T23:59:00+02:00", ""), "weeks[0].due is datetime.date"),
    "an unknown exercise": (COURSE.replace("/shift", "/shfit"), "did you mean 'shift'"),
    "points": (COURSE.replace("3.5", "-1"), "exercises[1].points is -1"),
    "truth is no number": (COURSE.replace("3.5", "true"), "exercises[1].points is True"),
    "credit": (COURSE.replace('"all"', '"half"'), "credit is 'half'; expected one of"),
    "a value cannot be personal": (
        COURSE.replace('credit = "all"', "personal = true"),
        "personal is true for 'two_roads'",
    ),
    "twice": (COURSE.replace('"two_roads"', '"shift"'), "'c01_chain_rule/shift' stands 2 times"),
    "one name, two answers": (COURSE.replace('"padding"', '"shift"'), "'shift' stands 2 times"),
    "a question's name": (COURSE.replace('"padding"', '"Why pad"'), "questions[0].name"),
    "no statement": (COURSE.replace('"Explain."', '" "'), "questions[0].statement is empty"),
    "no points": (COURSE.replace("points = 4\n", ""), "questions[0].points is missing"),
    "rubric": (COURSE.replace('"2: names the shape"', "2"), "questions[0].rubric is [2"),
    "an empty week": (COURSE.partition("exercises")[0], "at least one exercise or question"),
    "no folder": ('folders = ["nowhere"]\n' + COURSE, "'nowhere', which is no folder"),
    "a folder without chapters": ('folders = ["."]\n' + COURSE, "folders: no exercises in"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_file_key_and_what_is_expected(mistake, write, tmp_path):
    text, says = MISTAKES[mistake]
    path = tmp_path / "none.toml" if text is None else write(text)
    with pytest.raises(ValueError, match=re.escape(says)) as told:
        Syllabus.read(path)
    assert path.name in str(told.value)
