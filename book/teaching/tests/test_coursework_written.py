"""Answers in words: found in what was handed in, shown beside the rubric, their points read."""

import base64
import csv
import json
from dataclasses import dataclass

import pytest
from unrolled_book.coursework import editions, written
from unrolled_book.coursework.personal import my_seed
from unrolled_book.coursework.syllabus import Syllabus
from unrolled_book.coursework.written import Given

COURSE = """
title = "A course"
seed = "a secret of the test"
[[weeks]]
name = "week1"
title = "One"
exercises = ["c01_chain_rule/shift", "c14_attention/effective_share"]
[[weeks.questions]]
name = "padding"
title = "Why <pad>?"
statement = "Explain."
points = 4
rubric = ["2: names the <shape>"]
"""
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()


@dataclass
class Handed:
    student: str
    files: tuple = ()


@pytest.fixture
def course(tmp_path):
    (tmp_path / "course.toml").write_text(COURSE, encoding="utf-8")
    return Syllabus.read(tmp_path / "course.toml")


@pytest.fixture
def notebook(course, tmp_path):
    """The notebook of the student edition with answers in words; changed by cell id."""
    data = json.loads(editions.build_student(course, tmp_path)[0].read_text(encoding="utf-8"))

    def answered(changes: dict[str, str], outputs: dict[str, list] | None = None) -> bytes:
        for cell in data["cells"]:
            if cell["id"] in changes:
                cell["source"] = changes[cell["id"]]
            if cell["id"] in (outputs or {}):
                cell["outputs"] = outputs[cell["id"]]
        return json.dumps(data).encode()

    return answered


MARK = "<!-- answer: padding -->\n"
SHOWN = [
    {"output_type": "stream", "name": "stdout", "text": ["share 0.3\n"]},
    {"output_type": "display_data", "data": {"image/png": PIXEL, "text/plain": "<Figure>"}},
    {"output_type": "display_data", "data": {"text/html": "<script>alert(1)</script>"}},
]


def test_an_answer_is_found_at_its_mark(notebook):
    body = notebook({"words-padding": MARK + "The lengths differ."})
    assert written.words([("a.ipynb", body)], "padding").text == "The lengths differ."


def test_an_answer_is_found_where_its_mark_was_deleted_with_the_placeholder(notebook):
    body = notebook({"words-padding": "So that texts line up."})
    assert written.words([("week1.ipynb", body)], "padding").text == "So that texts line up."
    assert written.words([("week1.ipynb", body)], "effective_share").text == ""


def test_a_cell_that_a_student_added_belongs_to_the_answer(notebook):
    data = json.loads(notebook({"words-padding": MARK + "First."}))
    data["cells"].append({"cell_type": "markdown", "source": ["Second."], "metadata": {}})
    found = written.words([("a.ipynb", json.dumps(data).encode())], "padding")
    assert found.text == "First.\n\nSecond."


def test_an_unanswered_question_is_empty_and_not_its_placeholder(notebook):
    for name in ("padding", "effective_share"):
        assert written.words([("a.ipynb", notebook({}))], name) == written.Words()


def test_the_last_file_with_an_answer_counts(notebook):
    bodies = [notebook({"words-padding": MARK + text}) for text in ("Old.", "New.")]
    files = [("a.ipynb", bodies[0]), ("b.ipynb", bodies[1]), ("c.py", b"shift = 3\n")]
    assert written.words(files, "padding").text == "New."


def test_an_answer_may_stand_in_the_comments_of_a_program():
    body = b"# %% [markdown]\n# <!-- answer: padding -->\n# The lengths\n# differ.\n\n# %%\nx = 1\n"
    assert written.words([("a.py", body)], "padding").text == "The lengths\ndiffer."


def test_an_experiments_runs_and_pictures_are_found_beside_its_words(notebook):
    said = "<!-- answer: effective_share -->\nIt falls."
    body = notebook(
        {"runs-effective-share": "run()", "words-effective-share": said},
        {"runs-effective-share": SHOWN, "answer-shift": SHOWN, "check-effective-share": SHOWN},
    )
    found = written.words([("a.ipynb", body)], "effective_share")
    assert (found.text, found.pictures) == ("It falls.", (PIXEL,))
    assert found.runs == (("run()", "share 0.3\n\n<Figure>"),)


BROKEN = {
    "not JSON": b"{",
    "not text": b"\xff\xfe\x00",
    "another thing": b"[1, 2]",
    "no list": b'{"cells": 7}',
    "strange cells": b'{"cells": [7, {"cell_type": "markdown", "source": 9}, {"outputs": 3}]}',
    "nested": b"[" * 100_000,
    "a picture that is none": json.dumps(
        {
            "cells": [
                {"cell_type": "markdown", "source": "<!-- task: padding -->"},
                {"cell_type": "code", "source": "x", "outputs": [7, {"data": {"image/png": "<"}}]},
            ]
        }
    ).encode(),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_cannot_be_read_gives_no_answer_and_no_error(kind):
    assert written.words([("a.ipynb", BROKEN[kind])], "padding") == written.Words()


def test_the_page_shows_answers_beside_the_rubric_and_runs_nothing_of_theirs(
    course, notebook, tmp_path
):
    attack = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    body = notebook({"words-padding": MARK + attack})
    handed = [Handed("ada", (("a.ipynb", body),)), Handed("<b>bob</b>")]
    files = written.write(course, handed, tmp_path / "read")
    assert [path.name for path in files] == ["written.csv", "effective_share.html", "padding.html"]
    text = files[2].read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "2: names the &lt;shape&gt;" in text
    assert not [tag for tag in ("<script", "<img src=x", "<b>bob", "<shape>") if tag in text]
    assert f"my_seed: {my_seed('ada', 'A course')}" in text
    assert "Nothing was found." in text


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_points_written_into_the_table_are_read_and_kept_by_the_next_run(course, tmp_path):
    handed = [Handed("ada"), Handed("=bob")]
    table = written.write(course, handed, tmp_path)[0]
    assert [(r["student"], r["task"], r["of"]) for r in rows(table)] == [
        ("ada", "effective_share", "3"),
        ("'=bob", "effective_share", "3"),
        ("ada", "padding", "4"),
        ("'=bob", "padding", "4"),
    ]
    text = table.read_text(encoding="utf-8")
    text = text.replace("ada,padding,,4,", "ada,padding,2.5,4,Good start")
    table.write_text(text.replace("'=bob,padding,,4,", "'=bob,padding,,4,=1+1"), encoding="utf-8")
    found = written.read_points(table, course)
    assert found == {
        ("ada", "padding"): Given(2.5, "Good start"),
        ("=bob", "padding"): Given(None, "=1+1"),
    }
    written.write(course, handed[:1], tmp_path)  # bob is not in this folder, and is kept
    assert written.read_points(table, course) == found


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("ada,padding,5,4,", "line 2: points is '5'; expected a number from 0 to 4"),
        ("ada,padding,nan,4,", "points is 'nan'"),
        ("ada,padding,two,4,", "points is 'two'"),
        ("ada,pading,1,4,", "no task 'pading'; expected one of effective_share, padding"),
    ],
)
def test_a_mistake_in_the_table_is_told_with_its_line(course, tmp_path, line, says):
    table = tmp_path / "written.csv"
    table.write_text(f"student,task,points,of,comment\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        written.read_points(table, course)


def test_a_table_without_its_columns_is_refused(course, tmp_path):
    (tmp_path / "t.csv").write_text("student,points\nada,3\n", encoding="utf-8")
    with pytest.raises(ValueError, match="expected the columns student, task, points, of, comment"):
        written.read_points(tmp_path / "t.csv", course)


def test_a_statement_stands_in_paragraphs_and_keeps_its_lists():
    text = "One\nparagraph of\n*two* lines.\n\n- a\n- b\n  goes on\n\n| t |\n|---|\n"
    joined = "One paragraph of *two* lines.\n\n- a\n- b\n  goes on\n\n| t |\n|---|\n"
    assert written._rejoined(text) == joined
