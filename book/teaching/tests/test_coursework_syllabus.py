"""A course: its syllabus, mistakes in that file, the book's three, and numbers of one's own."""

import re
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from unrolled_book import exercises
from unrolled_book.coursework import editions, personal, roster, syllabus
from unrolled_book.coursework.syllabus import Item, Syllabus
from unrolled_book.exercises.engine.marking import mark, outcomes_of

SYLLABI = Path(syllabus.__file__).parent / "syllabi"
WEEKS = {"four_weeks": 4, "eight_weeks": 8, "fourteen_weeks": 14}
SEED = 'seed = "a secret of the test"'
TITLES = ("Inputs and targets for a batch", "Mine")
SHIFT = exercises.load("c01_chain_rule/shift")
BITS = exercises.load("c01_chain_rule/bits_per_byte")
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


@pytest.fixture
def read(tmp_path):
    def read(text: str | None) -> Syllabus:
        if text is not None:
            (tmp_path / "course.toml").write_text(text, encoding="utf-8")
        return Syllabus.read(tmp_path / "course.toml")

    return read


def test_a_syllabus_gives_weeks_items_and_questions(read):
    course = read(COURSE)
    (week,) = course.weeks
    assert (course.title, course.late, course.folders) == ("A course", 1.0, ())
    assert week.due.utcoffset() == timedelta(hours=2)
    assert week.items == (
        Item("c01_chain_rule/shift", 2, "all"),
        Item("c01_chain_rule/two_roads", 3.5, "all"),
        Item("c01_chain_rule/bits_per_byte", 2, "tests", personal=True),
    )
    assert week.questions[0].rubric[1] == "2: says what the loss does"
    assert course.exercise(week.items[0]).title == TITLES[0]
    assert "a secret of the test" not in repr(course)
    course = read(COURSE.replace(', points = 3.5, credit = "all"', ""))
    assert course.weeks[0].items[1].credit == "tests"  # a paper exercise, unless told otherwise


def test_seeds_differ_by_exercise_student_and_secret(read):
    course = read(COURSE)
    other = read(COURSE.replace("a secret", "b secret"))
    items = course.weeks[0].items
    seeds = [c.seed_of(item) for c in (course, other) for item in items]
    seeds += [course.personal_seed(items[2], student) for student in ("s1", "s2")]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**48 for seed in seeds)
    for way in (" S1 \n", "Ｓ1"):  # an id counts without case, blanks and width
        assert course.personal_seed(items[2], way) == course.personal_seed(items[2], "s1")


def test_the_secret_may_stand_in_a_file_or_in_the_environment(read, tmp_path, monkeypatch):
    (tmp_path / "secret.txt").write_text("a secret of the test\n", encoding="utf-8")
    monkeypatch.setenv("A_COURSE", "a secret of the test")
    for given in ('seed_file = "secret.txt"', 'seed_env = "A_COURSE"'):
        assert read(COURSE.replace(SEED, given)).seed == "a secret of the test"


def test_an_own_exercise_comes_before_the_books_of_the_same_name(read, tmp_path):
    folder = tmp_path / "mine" / "c01_chain_rule"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text('order = ("shift",)\n', encoding="utf-8")
    own = SHIFT.source.replace(*TITLES).replace("1, 2\n", "1, 9\n")
    (folder / "shift.py").write_text(own, encoding="utf-8")
    course = read('folders = ["mine"]\n' + COURSE)
    item = course.weeks[0].items[0]
    assert (course.exercise(item).title, item.points) == ("Mine", 9)
    assert course.exercise(course.weeks[0].items[1]).name == "two_roads"


MISTAKES = {
    "no file": (None, "expected a TOML file"),
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
    "two weeks of a name": (COURSE + COURSE[COURSE.index("[[weeks]]") :], "'week1' stands 2 times"),
    "week's name": (COURSE.replace('"week1"', '"../up"'), "weeks[0].name is '../up'"),
    "no time zone": (COURSE.replace("+02:00", ""), "without a time zone"),
    "a day only": (COURSE.replace("T23:59:00+02:00", ""), "weeks[0].due is datetime.date"),
    "an unknown exercise": (COURSE.replace("/shift", "/shfit"), "did you mean 'shift'"),
    "points": (COURSE.replace("3.5", "-1"), "exercises[1].points is -1"),
    "truth is no number": (COURSE.replace("3.5", "true"), "exercises[1].points is True"),
    "credit": (COURSE.replace('"all"', '"half"'), "credit is 'half'; expected one of"),
    "a value of one's own": (COURSE.replace('credit = "all"', "personal = true"), "'two_roads'"),
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
def test_a_mistake_is_told_with_file_key_and_what_is_expected(mistake, read):
    text, says = MISTAKES[mistake]
    with pytest.raises(ValueError, match=f"course.toml.*{re.escape(says)}"):
        read(text)


@pytest.mark.parametrize("name", WEEKS)
def test_a_syllabus_of_the_book_follows_it_mixes_kinds_and_builds(name, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_SEED", "a secret of the test")
    assert {path.stem for path in SYLLABI.glob("*.toml")} == WEEKS.keys()
    course, order = Syllabus.read(SYLLABI / f"{name}.toml"), list(exercises.chapters())
    for week in course.weeks:
        kinds = {course.exercise(item).kind for item in week.items}
        assert {"code", "paper"} <= kinds or "experiment" in kinds, week.title
        assert 4 <= len(week.items) <= 7, week.title
    firsts = [order.index(week.items[0].exercise.split("/")[0]) for week in course.weeks]
    back = [a - b for a, b in pairwise(firsts) if a > b]
    assert len(back) <= 1, "chapters are set in the book's order, but for a second reading"
    (tmp_path / "roster.csv").write_text("student\nada\n", encoding="utf-8")
    files = editions.build_student(course, tmp_path, tmp_path / "roster.csv")
    assert len(files) == len(course.weeks) == WEEKS[name]


def marked(task, answer):
    calls = task.calls(0)
    return mark(task, calls, outcomes_of(task, answer, calls))


def test_a_task_of_ones_own_asks_for_a_value_and_knows_it_and_its_planned_mistakes():
    task = personal.own(SHIFT, 7)
    assert (task.name, task.is_value, task.kind) == ("shift_result", True, "paper")
    assert task.starter == 'shift_result = {"inputs": ..., "targets": ...}'
    assert marked(task, {"inputs": ..., "targets": ...}).state == "unwritten"
    inputs, targets = task.solution["inputs"], task.solution["targets"]
    report = marked(task, {"inputs": targets, "targets": inputs})
    assert report.lines[-1] == "Likely cause: inputs and targets are exchanged."


def test_the_value_is_that_of_the_arguments_as_they_are_printed_and_counts_as_on_paper():
    task = personal.own(BITS, 7)
    code = task.statement.partition("```python\n")[2].rstrip("`\n")
    names = {"np": np, "bits_per_byte": BITS.solution}
    assert eval(code, names) == pytest.approx(task.solution, rel=1e-12)
    assert marked(task, f"{task.solution:.4f}").state == "passed"
    assert marked(task, task.solution * 1.1).state == "failed"


def test_the_same_seed_gives_the_same_task_whose_answer_is_nobody_elses():
    assert personal.own(SHIFT, 0).statement == personal.own(SHIFT, 0).statement
    tasks = [personal.own(SHIFT, seed) for seed in range(5)]
    states = [[marked(a, b.solution).state for b in tasks] for a in tasks]
    assert states == [["passed" if i == j else "failed" for j in range(5)] for i in range(5)]


def test_many_exercises_can_be_personal_and_the_others_are_refused_by_name():
    with pytest.raises(ValueError, match="c05_word_vectors/analogy_report cannot be personal"):
        personal.own(exercises.load("c05_word_vectors/analogy_report"), 7)
    tasks = []
    for slug in ("c07_backprop", "c14_attention", "c15_masking"):
        for exercise in [exercises.load(f"{slug}/{name}") for name in exercises.chapters()[slug]]:
            if not (exercise.is_value or exercise.judge or exercise.use):
                with suppress(ValueError):
                    tasks.append(personal.own(exercise, 11))
    assert len(tasks) >= 5
    assert [marked(task, task.solution).state for task in tasks] == ["passed"] * len(tasks)


def test_the_seed_in_the_notebook_is_the_graders():
    names: dict = {}
    exec(personal.my_seed_source("A “course”"), names)
    assert names["my_seed"](" Ada ") == personal.my_seed("ada", "A “course”")
    assert len({personal.my_seed(s, c) for s in ("ada", "bob") for c in ("one", "two")}) == 4


LISTS = {
    "a way out": (personal.read_ids, "student\n../up\n", r"'\.\./up'; expected letters"),
    "twice": (personal.read_ids, "student\nada\nAda\n", "'ada' stands more than once"),
    "a blank id": (personal.read_ids, "student\n\n ,\n", "filled in every line"),
    "an id of signs": (personal.read_ids, "student\nmüller\n_x\n", "'_x'; expected letters"),
    "grading, twice": (roster.read_roster, "student\nana\nAna\n", "'ana' stands more than"),
    "grading, a blank id": (roster.read_roster, "student,x\n,1\n", "filled in every line"),
    "no column of times": (roster.read_times, "student\nana\n", "has no column time"),
} | {
    f"time {time!r}": (roster.read_times, f"student,time\nana,{time}\n", "line 2: got .* zone")
    for time in ("2026-10-09T23:59:01", "yesterday", "")
}  # fmt: skip


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_that_cannot_be_used_is_told_with_what_is_expected(tmp_path, kind):
    read, text, says = LISTS[kind]
    (tmp_path / "list.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        read(tmp_path / "list.csv")
