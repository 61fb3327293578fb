"""The way back: Canvas's and Moodle's own tables filled in, and feedback that they find again."""

import csv
import json
import zipfile

import numpy as np
import pytest
from unrolled_book.coursework import exports, personal, sandbox, tables
from unrolled_book.coursework.__main__ import main
from unrolled_book.coursework.roster import read_roster, read_times

from book.teaching.tests.test_coursework_grading import RIGHT as SOLUTIONS
from book.teaching.tests.test_coursework_grading import SYLLABUS, Bench, notebook

RIGHT = {name: source for name, source in SOLUTIONS.items() if name != "shift"}
# The first week has 4 points, the second nothing personal.
COURSE = SYLLABUS.replace('  "c01_chain_rule/shift",\n', "").replace("points = 4, ", "")
COURSE = COURSE.replace(" & words", "").replace(
    '{exercise = "c01_chain_rule/posterior", personal = true}, "eff', '"eff'
)
# In the order of columns and rows that gradebook_exporter.rb writes: a row about posting, the
# points, the students, and Canvas's own test student.
CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Essay (7),Probability (8),Final Score,Notes (9)
,,,,,,Manual Posting,,
    Points Possible,,,,,10,4,(read only),
"López, Ana",11,s11,ana@school.edu,One,9.5,,95,
"Roe, Bob",12,s12,bob@school.edu,One,8,3,80,
"=HYPERLINK(""x"")",13,s13,eve@school.edu,One,7,1,70,
"Doe, Dan",14,s14,dan@school.edu,One,6,EX,60,
"Student, Test",99,,4f1e,One,,,,
"""
MOODLE = """\
Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,\
Last modified (submission),Last modified (grade),Feedback comments
Participant 11,Ana López,ana@school.edu,Submitted for grading,,4.00,Yes,"Friday, 9 October",-,
Participant 12,Bob Roe,bob@school.edu,Submitted for grading - 2 hours 5 mins late,3.00,4.00,Yes,\
"Saturday, 10 October","Sunday, 11 October 2026, 9:00 AM","- one; =two"
Participant 13,"=HYPERLINK(""x"")",eve@school.edu,No submission,,4.00,Yes,-,-,
"""
ALL, HALF = RIGHT.values(), [RIGHT["two_roads"]]
FROM_CANVAS = {
    "lopezana_11_901_week1.ipynb": notebook(ALL),
    "roebob_LATE_12_902_my_week_1.py": "\n".join(ALL).encode(),
    "hyperlinkx_13_903_week1.ipynb": notebook(HALF),
    "doedan_14_904_week1.ipynb": notebook(ALL),
}
FROM_MOODLE = {
    "Ana López_11_assignsubmission_file/week1.ipynb": notebook(HALF),
    "Bob Roe_12_assignsubmission_file_/week1.ipynb": notebook(ALL),
}


def graded(tmp_path, monkeypatch, table, files, *more, week="week1"):
    """The status, the rows of the table to upload, and the files of feedback by name."""
    monkeypatch.setattr(sandbox.Sandbox, "find", lambda **how: Bench())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "course.toml").write_text(COURSE, "utf8")
    (tmp_path / "export.csv").write_text(table, encoding="utf-8-sig")
    with zipfile.ZipFile("in.zip", "w") as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    said = ["grade", "in.zip", "--syllabus", "course.toml", "--week", week, "--out", "out"]
    status = main([*said, "--gradebook", "export.csv", *more])
    with zipfile.ZipFile("out/upload/feedback.zip") as archive:
        found = {name: archive.read(name).decode() for name in archive.namelist()}
    text = (tmp_path / "out/upload/gradebook.csv").read_text(encoding="utf-8")
    return status, list(csv.reader(text.splitlines(keepends=True))), found


def seen_by_canvas(name):
    """The student's and the attachment's number, as `infer_comment_context_from_filename` does."""
    parts = [part for part in name.split("/")[-1].split("_") if part != "LATE"]
    return tuple([int(part) for part in parts if part.isdigit()][:2])


def seen_by_moodle(path):
    """The number and the file, as `is_valid_filename_for_import` does."""
    parts = path.split("/")
    while parts:
        info = parts.pop(0).split("_", 4)
        if len(info) >= 4 and info[1].isdigit() and info[2:4] == ["assignsubmission", "file"]:
            return int(info[1]), "/".join([*info[4:], *parts]).lstrip("/")
    return None


def test_canvas_gets_its_own_gradebook_and_feedback_in_the_form_of_each_file(
    tmp_path, monkeypatch, capsys
):
    status, rows, found = graded(tmp_path, monkeypatch, CANVAS, FROM_CANVAS)
    assert rows[0] == [*CANVAS.partition("\n")[0].split(",")[:5], "Probability (8)"]
    assert rows[2][0] == "    Points Possible"
    ana, _, eve = rows[3:6]
    assert [row[-1] for row in rows] == ["Probability (8)", "Manual Posting", "4", *"422", "EX", ""]
    assert ana[:5] == ["López, Ana", "11", "s11", "ana@school.edu", "One"]
    assert eve[:2] == ['\'=HYPERLINK("x")', "13"]
    assert status == 1  # for Dan
    assert "Doe, Dan: excused in Canvas, and stays so" in capsys.readouterr().err
    seen = {seen_by_canvas(name): name for name in found}
    assert list(seen) == [(14, 904), (13, 903), (11, 901), (12, 902)]
    cells = json.loads(found[seen[11, 901]])["cells"]
    assert "4 of 4 points" in "".join(cells[0]["source"])
    assert all(line.startswith("#") for line in found[seen[12, 902]].splitlines())
    assert "50% of the 4 points count" in found[seen[12, 902]].replace("\\", "")


def test_canvas_s_column_is_found_by_its_title_or_is_new(tmp_path, monkeypatch, capsys):
    _, rows, _ = graded(tmp_path, monkeypatch, CANVAS, FROM_CANVAS, "--column", "Essay")
    assert [row[5] for row in rows] == ["Essay (7)", "", "10", "4", "2", "2", "4", ""]
    assert "the week has 4 points, Canvas says 10" in capsys.readouterr().err
    _, rows, _ = graded(tmp_path, monkeypatch, CANVAS, FROM_CANVAS, "--column", "Homework")
    assert [row[5] for row in rows] == ["Homework", "", "4", "4", "2", "2", "4", ""]
    assert "has no column 'Homework'; Canvas will ask" in capsys.readouterr().err


def test_moodle_gets_its_own_worksheet_and_feedback_in_its_own_folders(
    tmp_path, monkeypatch, capsys
):
    status, rows, found = graded(tmp_path, monkeypatch, MOODLE, FROM_MOODLE)
    before = list(csv.reader(MOODLE.splitlines(keepends=True)))
    assert [row[4] for row in rows] == ["Grade", "2", "2", ""]  # Bob is late, Eve has nothing
    before[1][4] = before[2][4] = "2"
    before[3][1] = "'" + before[3][1]
    assert rows == before
    assert sorted(map(seen_by_moodle, found)) == [(11, "feedback.html"), (12, "feedback.html")]
    page = next(page for name, page in found.items() if seen_by_moodle(name)[0] == 12)
    assert "bob@school.edu" in page
    assert "ana@school.edu" not in page
    again = ("--student", "bob@school.edu", "--exercise", "two_roads")
    assert graded(tmp_path, monkeypatch, MOODLE, FROM_MOODLE, *again)[:2] == (0, rows)
    with zipfile.ZipFile("out/upload/feedback.zip") as archive:
        assert list(map(seen_by_moodle, archive.namelist())) == [(12, "feedback.html")]
    assert status == 0
    assert "counts as late" not in capsys.readouterr().err


def test_a_mark_that_is_not_final_is_not_filled_in(tmp_path, monkeypatch, capsys):
    cell = {"cell_type": "markdown", "source": "<!-- answer: why -->\n\nBecause."}
    body = json.dumps({"cells": [cell]}).encode()
    files = {"lopezana_11_901_w.ipynb": body, "roebob_12_902_w.ipynb": b"{"}
    files["eve_13_903_w.ipynb"] = body
    how = (tmp_path, monkeypatch, CANVAS, files)
    status, rows, found = graded(*how, "--column", "Essay", week="week2")
    assert ([row[5] for row in rows[3:6]], found) == (["9.5", "8", "7"], {})
    said = capsys.readouterr().err
    assert "yet, as nobody has read why: ana@school.edu, eve@school.edu" in said
    assert "no mark and no feedback yet, as no file can be read" in said
    lines = ["student,task,points,of,comment", "ana@school.edu,why,3,3,"]
    (tmp_path / "out/written/written.csv").write_text("\n".join(lines), "utf8")
    status, rows, found = graded(*how, "--column", "Essay", week="week2")
    assert [row[5] for row in rows[3:6]] == ["3", "8", "7"]
    assert list(found) == ["lopezana_11_901_w.ipynb"]
    assert status == 1


def test_a_roster_of_one_s_own_leads_to_the_row_by_an_id_and_never_by_a_name(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "roster.csv").write_text('student,number,name\nana,11,\nrob,,"Roe, Bob"\n', "utf8")
    files = dict(list(FROM_CANVAS.items())[:1]) | {"Roe, Bob.ipynb": notebook(ALL)}
    how = (tmp_path, monkeypatch, CANVAS, files, "--roster", "roster.csv")
    status, rows, found = graded(*how)
    assert [row[-1] for row in rows[3:5]] == ["4", "3"]
    assert (status, list(found)) == (1, ["lopezana_11_901_week1.ipynb"])
    assert "rob: no row of export.csv with an id of theirs" in capsys.readouterr().err


GRADESCOPE = """\
First Name,Last Name,SID,Email,Sections,Total Score,Max Points,Status,Submission ID,\
Submission Time,Lateness (H:M:S)
Ana,López,s11,ana@school.edu,,,4.0,Ungraded,456,2026-10-09 22:11:05 -0700,00:00:00
Bob,Roe,s12,bob@school.edu,,,4.0,Missing,,,
"""


def test_the_exports_are_rosters_and_gradescope_s_has_the_times(tmp_path):
    path = tmp_path / "export.csv"
    ids = ("ana@school.edu", "bob@school.edu", "eve@school.edu", "dan@school.edu")
    semicolons = CANVAS.replace(",", ";").replace("Student; Test", "Student, Test")
    for text, n in ((CANVAS, 4), (semicolons, 4), (MOODLE, 3), (GRADESCOPE, 2)):
        path.write_text(text, encoding="utf-8")
        assert tuple(row["student"] for row in read_roster(path)) == ids[:n]
        assert personal.read_ids(path) == ids[:n]
    assert read_roster(path)[0]["number"] == "456"
    assert read_times(path)["ana@school.edu"].isoformat() == "2026-10-09T22:11:05-07:00"
    path.write_text(MOODLE.replace("Email address", "City"), encoding="utf-8")
    assert read_roster(path)[0]["student"] == "Ana López_11"
    with pytest.raises(ValueError, match="the id 'Ana López_11'; expected letters"):
        personal.read_ids(path)


@pytest.mark.parametrize(
    ("table", "column", "says"),
    [
        (GRADESCOPE, "", "is Gradescope's, which takes no table back"),
        ("student,points\nana,1\n", "", r"is no table of a gradebook; .*Moodle: Identifier, Grade"),
        (CANVAS.replace("Notes (9)", "Probability (9)"), "", r"several columns fit 'Probability'"),
    ],
)
def test_a_table_that_cannot_be_filled_in_is_said(tmp_path, table, column, says):
    from unrolled_book.coursework.way_back import WayBack

    (tmp_path / "export.csv").write_text(table, "utf8")
    with pytest.raises(ValueError, match=says):
        WayBack(tables.sheet(tmp_path / "export.csv"), column or "Probability")
    assert exports.TEST_STUDENT in CANVAS


def test_personal_notebooks_are_packed_for_moodle_and_the_teacher_has_a_key(tmp_path, monkeypatch):
    own = COURSE.replace('bits_per_byte", credit = "tests"', 'bits_per_byte", personal = true')
    (tmp_path / "course.toml").write_text(own, "utf8")
    (tmp_path / "moodle.csv").write_text(MOODLE, "utf8")
    (tmp_path / "plain.csv").write_text("student\nana@school.edu\n-2+A1\n", "utf8")
    monkeypatch.chdir(tmp_path)
    assert main("build course.toml --out out --roster moodle.csv".split()) == 0
    own = {}
    with zipfile.ZipFile("out/student/week1.zip") as archive:
        for info in archive.infolist():
            assert info.external_attr >> 16 == 0o644
            own[seen_by_moodle(info.filename)] = json.loads(archive.read(info))["cells"]
    assert sorted(own) == [(n, "week1.ipynb") for n in (11, 12, 13)]
    text = (tmp_path / "out/teacher/week1_key.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines(keepends=True)))
    assert [row["student"] for row in rows] == [f"{s}@school.edu" for s in ("ana", "bob", "eve")]
    for (number, _), row in zip(sorted(own.items()), rows, strict=True):
        text = "".join("".join(cell["source"]) for cell in own[number])
        asked = row["asked"].removeprefix("'")  # which keeps a spreadsheet from computing it
        assert asked in text
        assert f'STUDENT = "{row["student"]}"' in text
        value = eval(asked, {"bits_per_byte": bits_per_byte(), "np": np})
        assert float(row["expected"]) == pytest.approx(value, rel=1e-5)
    assert len({row["expected"] for row in rows}) == 3
    with pytest.raises(ValueError, match="the id '-2"):
        personal.read_ids("plain.csv")
    (tmp_path / "plain.csv").write_text("student\nana\n", "utf8")
    assert main("build course.toml --out plain --roster plain.csv".split()) == 0
    with zipfile.ZipFile("plain/student/week1.zip") as archive:
        assert archive.namelist() == ["ana.ipynb"]


def bits_per_byte():
    names = {"np": np}
    exec(RIGHT["bits_per_byte"], names)
    return names["bits_per_byte"]
