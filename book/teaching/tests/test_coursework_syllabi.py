"""The syllabi that come with the library are real ones: they read, build, and go up in steps."""

from itertools import pairwise
from pathlib import Path

import pytest
from unrolled_book import exercises
from unrolled_book.coursework import editions, syllabus

SYLLABI = Path(syllabus.__file__).parent / "syllabi"
WEEKS = {"four_weeks": 4, "eight_weeks": 8, "fourteen_weeks": 14}


@pytest.fixture
def read(monkeypatch):
    monkeypatch.setenv("COURSE_SEED", "a secret of the test")
    return lambda name: syllabus.Syllabus.read(SYLLABI / f"{name}.toml")


def test_these_are_all():
    assert {path.stem for path in SYLLABI.glob("*.toml")} == WEEKS.keys()


@pytest.mark.parametrize("name", WEEKS)
def test_a_syllabus_of_the_book_builds_its_student_edition(name, read, tmp_path):
    course = read(name)
    assert len(course.weeks) == WEEKS[name]
    (tmp_path / "roster.csv").write_text("student\nada\n", encoding="utf-8")
    assert len(editions.build_student(course, tmp_path, tmp_path / "roster.csv")) == WEEKS[name]


def test_both_editions_of_the_four_weeks_are_built(read, tmp_path):
    files = editions.build(read("four_weeks"), tmp_path)
    assert sorted({path.parent.name for path in files}) == ["student", "teacher"]
    assert len(files) == 8


@pytest.mark.parametrize("name", WEEKS)
def test_the_weeks_follow_the_book_and_mix_kinds(name, read):
    course, order = read(name), list(exercises.chapters())
    for week in course.weeks:
        kinds = {course.exercise(item).kind for item in week.items}
        assert {"code", "paper"} <= kinds or "experiment" in kinds, week.title
        assert 4 <= len(week.items) <= 7, week.title
    firsts = [order.index(week.items[0].exercise.split("/")[0]) for week in course.weeks]
    back = [a - b for a, b in pairwise(firsts) if a > b]
    assert len(back) <= 1, "chapters are set in the book's order, but for a second reading"
