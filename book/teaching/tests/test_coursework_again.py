"""Grading one answer again, what is revealed after the deadline, and what a page tells to do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from unrolled_book.coursework import exports
from unrolled_book.coursework.item_tests import ItemTests
from unrolled_book.coursework.marks import Grade

from book.teaching.tests.test_coursework_grading import (
    NATS,
    NOTHING,
    PADDED,
    RIGHT,
    Bench,
    graded,
    read,
    solved,
    syllabus,
)

__all__ = ["exports", "syllabus"]


def pages(out) -> dict[str, bytes]:
    return {
        p.name: p.read_bytes() for part in ("feedback", "results") for p in (out / part).iterdir()
    }


def marks(grade: Grade) -> list[float]:
    return [mark.points for mark in grade.marks]


def test_one_exercise_of_one_student_is_graded_again_and_nothing_else(syllabus, tmp_path):
    broken = solved("ana", shift="def shift(*a): return 1", bits_per_byte=NATS)
    others = [solved("bob", bits_per_byte=NATS), solved("crash", shift="BURN = 1\nshift = BURN")]
    graded(syllabus, tmp_path, broken, *others)
    before, table = pages(tmp_path), read(tmp_path / "grades.csv")
    mended = [solved("ana"), solved("bob"), others[1]]  # of these files only Ana's shift counts
    bench = Bench("SMOKE")
    found = graded(syllabus, tmp_path, *mended, bench=bench, only=("Ana", "c01/shift"))
    assert len(bench.programs) == 1
    assert [marks(each) for each in found] == [[2, 4, 0], [2, 4, 0], [0, 4, 2]]
    assert found[2].error
    after = pages(tmp_path)
    assert {name for name in after if after[name] != before[name]} == {
        f"ana.{ending}" for ending in ("html", "md", "json")
    }
    rows = read(tmp_path / "grades.csv")
    for row in (*rows, *table):
        row.pop("look at")  # Bob's text is now Ana's, too
    assert rows[1:] == table[1:]
    assert rows[0] == table[0] | {"shift": "2", "total": "6"}
    found = graded(syllabus, tmp_path, *mended)  # a whole run sees that the files have changed
    assert [marks(each) for each in found] == [[2, 4, 2], [2, 4, 2], [0, 4, 2]]


def test_who_and_what_is_to_be_graded_again_must_be_known(syllabus, tmp_path):
    students = [solved("ana_11"), solved("ana_12")]
    for only, says in [
        (("ana_11", "shift"), "has no earlier marks of ana_11"),
        (("ana", "shift"), "one of ana_11, ana_12"),
        (("eve", "shift"), "'eve': nobody has that name"),
        (("11", "roll"), "no exercise 'roll'; it has shift, two_roads, bits_per_byte"),
    ]:
        with pytest.raises(ValueError, match=says):
            graded(syllabus, tmp_path, *students, only=only)


def test_expected_values_are_revealed_after_the_deadline_and_only_then(syllabus, tmp_path):
    week, *others = syllabus.weeks
    later = datetime.now(UTC) + timedelta(hours=1)
    before = replace(syllabus, weeks=(replace(week, due=later), *others))
    after = replace(syllabus, weeks=(replace(week, due=later - timedelta(hours=2)), *others))
    wrong = [
        solved("ana", shift=PADDED, two_roads=RIGHT["two_roads"] + "\ntwo_roads = {}"),
        solved("bob", bits_per_byte=NATS),
    ]
    with pytest.raises(ValueError, match=r"is due .*; expected values are revealed after"):
        graded(before, tmp_path, *wrong, reveal=True)
    first = graded(before, tmp_path, *wrong)
    hidden = pages(tmp_path)
    bench = Bench()
    found = graded(after, tmp_path, *wrong, bench=bench, reveal=True)
    assert bench.programs == []  # nothing runs for it
    assert [marks(each) for each in found] == [marks(each) for each in first]
    shown = pages(tmp_path)
    for name, value in (
        ("bob.md", "expected 2.0"),
        ("ana.md", "expected (np.array([[3, 43, 87, 7, 7, 7]"),
        ("ana.md", "before: expected 0.571429"),
    ):
        assert value in shown[name].decode()
        assert value not in hidden[name].decode()
    assert shown["bob.md"].decode().count("bits_per_byte(np.array(") == 1
    graded(after, tmp_path, *wrong)
    assert pages(tmp_path) == hidden


def test_a_page_holds_a_call_that_can_be_copied_and_a_long_one_is_described(syllabus, tmp_path):
    (found,) = graded(syllabus, tmp_path, solved("ana", shift=PADDED, bits_per_byte=NOTHING))
    shift, _, bits = found.marks
    copied = "\n".join(shift.lines).partition(")\n")[0] + ")"
    said: list = []
    eval(copied, {"shift": lambda *args: said.append(args), "np": np})
    assert said[0] in [
        call.args for call in ItemTests(syllabus, syllabus.weeks[0].items[0]).task("ana").calls
    ]
    copied = "\n".join(bits.lines).partition("\n)\n")[0] + "\n)"
    assert len(copied) > 60  # longer than a line of the report in a notebook
    eval(copied, {"bits_per_byte": lambda *args: said.append(args), "np": np})
    assert len(said[1][0]) == 5


@pytest.mark.parametrize(
    "answer",
    [
        "import my_helpers\ndef shift(*a): return my_helpers",
        "def shift(*a):\n    import my_helpers",
    ],
)
def test_an_error_about_a_missing_module_says_what_it_means(syllabus, tmp_path, answer):
    (found,) = graded(syllabus, tmp_path, solved("ana", shift=answer))
    (cause,) = found.marks[0].causes
    assert cause.startswith("`my_helpers` is not there where answers are graded")
    assert "only Python's own modules and numpy, scipy are" in cause
    assert "has to stand in the notebook" in (tmp_path / "feedback" / "ana.md").read_text("utf8")
