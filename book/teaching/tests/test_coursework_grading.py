"""Grading a class: marks, late answers, crashes, pages, and what is never said."""

import csv
import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from unrolled_book import exercises
from unrolled_book.coursework import feedback, gradescope, report, sandbox
from unrolled_book.coursework.__main__ import main
from unrolled_book.coursework.editions import secret_mark
from unrolled_book.coursework.grading import grade
from unrolled_book.coursework.marks import Grade, Mark, file_name
from unrolled_book.coursework.personal import own
from unrolled_book.coursework.roster import read_times
from unrolled_book.coursework.submissions import Submission
from unrolled_book.coursework.syllabus import Syllabus
from unrolled_book.exercises.engine.compare import quoted
from unrolled_book.exercises.engine.running import run
from unrolled_book.exercises.engine.wire import encode

SYLLABUS = """
title = "Language <models>"
seed = "a secret of the course"
late = 0.5
[[weeks]]
name = "week1"
title = "Probability & words"
due = 2026-10-09T23:59:00+02:00
exercises = [
  "c01_chain_rule/shift",
  {exercise = "c01_chain_rule/two_roads", points = 4, credit = "tests"},
  {exercise = "c01_chain_rule/bits_per_byte", credit = "tests"},
]
[[weeks]]
name = "week2"
title = "In words"
due = 2026-10-23T23:59:00Z
exercises = [{exercise = "c01_chain_rule/posterior", personal = true}, "effective_share"]
questions = [{name = "why", title = "Why?", statement = "Explain.", points = 3}]
"""
NAMES = ("shift", "two_roads", "bits_per_byte")
RIGHT = {name: exercises.load(f"c01_chain_rule/{name}").solution_source for name in NAMES}
THIEF = "import os\ndef shift(*a):\n    return open('/etc/shadow').read()"
MARKUP = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> & \"' `</code><b>` \u202e\x1b[31m\x07"
)


class Bench:
    """In place of the sandbox: runs the answers of these tests, which are ours, right here."""

    def __init__(self, broken: str = "BURN"):
        self.programs, self.broken = [], broken

    def run(self, program, name, arguments, *, is_value=False, **how):
        self.programs.append(program)
        if self.broken in program:
            raise RuntimeError("the machine is on <b>fire</b>")
        names = {}
        try:
            exec(program, names)
        except Exception as error:
            said = f"the program stops with {type(error).__name__}: {quoted(str(error))}"
            return SimpleNamespace(outcomes=None, problem=said, seconds=0.25)
        value = names[name]
        given = [{"value": encode(value), "mutated": []}] if is_value else run(value, arguments)
        return SimpleNamespace(outcomes=given, problem="", seconds=0.25)


@pytest.fixture(scope="module")
def syllabus(tmp_path_factory) -> Syllabus:
    path = tmp_path_factory.mktemp("course") / "course.toml"
    path.write_text(SYLLABUS, "utf8")
    return Syllabus.read(path)


def notebook(cells) -> bytes:
    code = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": c} for c in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": code}).encode()


def handed_in(student, *cells, **more) -> Submission:
    return Submission(student, (("week1.ipynb", notebook(cells)),), **more)


def solved(student, **changes) -> Submission:
    """The solutions of week 1, some of them changed."""
    return handed_in(student, *(RIGHT | changes).values())


def graded(syllabus, out, *submissions, bench=None, **how) -> list[Grade]:
    how = {"week": "week1", "progress": False, "sandbox": bench or Bench()} | how
    return grade(syllabus, list(submissions), out, **how)


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


SHIFT = RIGHT["shift"]
NOTHING = "def bits_per_byte(*a): return 2.0"  # right for the visible case alone
# What is handed in: the state of the first exercise, words of its verdict, the file.
HANDED_IN = {
    "a .py file": ("right", "all 6 tests passed", "w.py", SHIFT.encode()),
    "an endless cell": ("right", "", "w.ipynb", notebook(["x = = 1", SHIFT, "while 1: 1 / 0"])),
    "the last is wrong": ("wrong", "", "w.ipynb", notebook([SHIFT, "def shift(*a): return 1"])),
    "a class": ("wrong", "0 of 6 tests passed", "w.py", b"class shift:\n    pass"),
    "an error above": ("wrong", "stops with", "w.py", b"x = 1 / 0\ndef shift(*a): return x"),
    "the arguments": ("wrong", "0 of 6 tests passed", "w.py", b"def shift(*a): return a\0"),
    "a starter": ("unwritten", "not written yet", "w.py", b"def shift(*a): return ..."),
    "nested too deep": ("missing", "left out", "w.py", b"shift = " + b"-" * 100_000 + b"1"),
    "broken JSON": ("missing", "no file that can be read", "w.ipynb", notebook([SHIFT])[:-5]),
}
FIRST = "\ntwo_roads[next(iter(two_roads))] = 99"
PADDED = RIGHT["shift"].replace("T), pad)", "T), 0)")  # right where pad is 0
NATS = RIGHT["bits_per_byte"].replace(" / np.log(2)", "")
FILES = [("week1.ipynb", notebook(RIGHT.values()))]
FILES += [("scratch.ipynb", notebook(["def shift(*a): return 1"])), ("old.py", SHIFT.encode())]
LOST = ("week1.ipynb", notebook(["def shift(:\n  pass"]))
LARGE = ["two_roads = {str(i) * 99: i for i in range(20_000)}"]
LARGE += ["def bits_per_byte(*a):\n    return [1] * 100_000"]
ODD = [f"def shift(*a):\n    raise ValueError({MARKUP!r})", f"def f(: {MARKUP}"]
ODD += [f"two_roads = {{{MARKUP!r}: 1}}", f"def bits_per_byte(*a):\n    return {MARKUP!r}"]
CLASS = [
    solved("ana"),
    solved("partly", shift=PADDED, two_roads=RIGHT["two_roads"] + FIRST, bits_per_byte=NOTHING),
    solved("nats", bits_per_byte=NATS),
    solved("crash", shift="BURN = 1\ndef shift(*a):\n    return BURN"),
    handed_in("cem", "x = 1"),  # whose page cannot be written
    handed_in("large", *LARGE), Submission("order", tuple(FILES[:2])),
    Submission("other order", tuple(FILES[1::-1])), Submission("lost", (FILES[2], LOST)),
    Submission("nobody"), Submission("too large", problems=("w.py has 40 MB; it was left out",)),
    Submission(
        f"Eve {MARKUP}", ((f"{MARKUP}.ipynb", notebook(ODD)),), problems=(f"{MARKUP} is odd",)
    ),
    *(Submission(kind, ((name, body),)) for kind, (_, _, name, body) in HANDED_IN.items()),
]  # fmt: skip


@pytest.fixture(scope="module")
def week1(syllabus, tmp_path_factory):
    """The grades of the class by student, the folder, and the programs that ran."""
    out, bench, html = tmp_path_factory.mktemp("week1"), Bench(), feedback.html
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feedback, "html", lambda g, t: 1 / 0 if g.student == "cem" else html(g, t))
        grades = graded(syllabus, out, *CLASS, bench=bench)
    return {each.student: each for each in grades}, out, bench.programs


MARKS = {  # of the three exercises: credit is for all tests, or for the share of hidden ones
    "ana": ["right 2", "right 4", "right 2"],
    "partly": ["partly 0", "partly 3", "wrong 0"],  # the last one passes the visible example alone
    "nats": ["right 2", "right 4", "wrong 0"],
    "crash": ["error 0", "right 4", "right 2"],
    "nobody": ["missing 0"] * 3,
    "order": ["right 2", "right 4", "right 2"],
    **{kind: [f"{state} {2 * (state == 'right')}"] for kind, (state, *_) in HANDED_IN.items()},
}


def test_answers_of_every_kind_get_their_mark_and_points(week1):
    found, out, programs = week1
    for student, marks in MARKS.items():
        said = [f"{mark.state} {mark.points:g}" for mark in found[student].marks]
        assert said[: len(marks)] == marks, student
    for kind, (_, says, *_) in HANDED_IN.items():
        assert says in found[kind].marks[0].verdict, kind
    assert (found["ana"].total, found["ana"].out_of) == (8, 8)
    assert found["nats"].marks[2].causes == ("this is in nats; one bit is ln 2 nats",)
    unread = {student for student, grade in found.items() if "no file can be read" in grade.error}
    assert unread == {"broken JSON", "too large"}
    assert found["nobody"].error == found["ana"].error == ""
    data = json.loads((out / "results" / "ana.json").read_text("utf8"))  # in Gradescope's form
    assert (data["score"], [test["max_score"] for test in data["tests"]]) == (8, [2, 4, 2])
    for test in data["tests"]:
        assert {"name", "score", "status", "output", "visibility", "number"} <= test.keys()
        assert (test["status"], test["output_format"]) == ("passed", "text")
    ran = [program for program in programs if program.strip().endswith(RIGHT["shift"].strip())]
    assert ran
    assert not re.search("wrong = |two_roads", "".join(ran))  # the sandbox gets nothing else


def test_an_answer_is_taken_from_the_week_s_notebook_or_where_that_has_lost_it_from_another(week1):
    note = "taken from “week1.ipynb”; “scratch.ipynb” defines it, too"
    found, lost = week1[0], week1[0]["lost"]
    assert found["order"].marks[0].notes == found["other order"].marks[0].notes == (note,)
    assert found["order"].marks == found["other order"].marks
    assert (lost.marks[0].points, lost.marks[0].notes) == (2, ("taken from “old.py”",))
    assert "cell 1 was left out" in lost.problems[0]


def test_a_crash_a_broken_page_or_megabytes_of_one_student_never_stop_the_others(week1):
    found, out, _ = week1
    assert "shift: the grader failed here (RuntimeError: the machine is on" in found["crash"].error
    rows = {row["student"]: row["error"] for row in read(out / "grades.csv")}
    assert (bool(rows["crash"]), bool(rows["cem"]), rows["ana"]) == (True, True, "")
    _, roads, bits = found["large"].marks
    assert len(roads.lines) <= 25
    assert "got a thing of type “list of 0.3 MB”" in bits.lines[1]
    assert (out / "feedback" / "large.html").stat().st_size < 40_000


def test_nothing_of_a_student_s_is_markup_and_no_page_holds_an_expected_value(week1):
    _, out, _ = week1
    (eve,), (path,) = (out / "feedback").glob("Eve*.html"), (out / "feedback").glob("Eve*.md")
    for page in (eve, out / "report.html", out / "feedback" / "crash.html"):
        text = page.read_text("utf8")
        assert "alert(1)" in text or "by no fault of the answer" in text
        assert ("fire" in text) == (page.name == "report.html")  # the teacher's
        assert "default-src 'none'" in text
        assert not re.search("[\u202e\x1b\x07]", text + path.read_text("utf8"))
        assert not re.search(r"<(script|img|b)\b|<[^<>]*\son\w+=", text)
    for line in path.read_text("utf8").split("\n"):
        assert line.startswith("    ") or not re.search(r"(?<!\\)<", line)
    json.loads(next((out / "results").glob("Eve*")).read_text("utf8"))
    for name in ("feedback/nats.md", "feedback/nats.html", "results/nats.json", "report.html"):
        assert not re.search(r"expected\s+[\d\[-]", (out / name).read_text("utf8"))
    assert "is not right" in (out / "feedback" / "nats.md").read_text("utf8")


LATE = {  # what the platform says, the time; whether that is late, and the points that count
    "a_4711": (None, None, None, 8),
    "b_4712": (True, None, True, 4),
    "c_4713": (False, None, False, 8),
    "d_4714": (True, "2026-10-09T23:58:59+02:00", False, 8),
    "e_4715": (False, "2026-10-09T22:00:00+00:00", True, 4),
}


def test_lateness_by_the_platform_or_by_the_times(syllabus, tmp_path):
    lines = [f"{student[2:]},{time}" for student, (_, time, *_) in LATE.items() if time]
    (tmp_path / "times.csv").write_text("\n".join(["student,time", *lines]), "utf8")
    students = [replace(solved(name), late=platform) for name, (platform, *_) in LATE.items()]
    for found in graded(syllabus, tmp_path, *students, times=read_times(tmp_path / "times.csv")):
        assert (found.late, found.total, found.points) == (*LATE[found.student][2:], 8)
        page = (tmp_path / "feedback" / f"{found.student}.md").read_text("utf8")
        assert ("50% of the 8 points count" in page) == bool(found.late)


def test_personal_tasks_are_each_student_s_own_and_nobody_s_outside_the_roster(syllabus, tmp_path):
    item = syllabus.weeks[1].items[0]
    mine = own(syllabus.exercise(item), syllabus.personal_seed(item, "ana"))
    answer = f"import numpy as np\n{mine.name} = {mine.solution!r}"
    students = [handed_in(s, answer, outside=s == "eve") for s in ("ana", "bob", "eve")]
    ana, bob, eve = graded(syllabus, tmp_path, *students, week="week2")
    assert (ana.marks[0].state, eve.marks[0].state) == ("right", "error")
    assert bob.marks[0].points < ana.marks[0].points
    assert "the roster has no such student" in eve.error
    assert (ana.flags, eve.flags) == ((), ())
    assert bob.flags == ("a personal result is wrong here and right for ana",)
    assert "right for ana" in read(tmp_path / "grades.csv")[1]["look at"]
    assert "right for ana" in (tmp_path / "report.html").read_text("utf8")
    for path in (tmp_path / "feedback" / "bob.md", tmp_path / "results" / "bob.json"):
        assert "right for ana" not in path.read_text("utf8")  # it is for the teacher


THOUGHTS = "".join(f"    # thought number {i}\n" for i in range(20))
LONG = RIGHT["bits_per_byte"].replace("    return", f"{THOUGHTS}    return", 1)


def test_a_notebook_of_another_s_name_and_texts_of_two_are_for_the_teacher_to_see(
    syllabus, tmp_path
):
    texts = [LONG, LONG, RIGHT["bits_per_byte"], RIGHT["bits_per_byte"]]
    says = ['STUDENT = "ana_11"', "STUDENT = 'Ana'", "STUDENT = nobody", "STUDENT = ''"]
    students = [
        handed_in(name, said, text)
        for name, said, text in zip(("ana_11", "bob_22", "cem", "dot"), says, texts, strict=True)
    ]
    for _ in range(2):  # graded, and continued
        ana, bob, *others = graded(syllabus, tmp_path, *students)
        assert ana.flags == ("bits_per_byte: the same text as bob_22",)
        assert bob.flags == (
            "the notebook says STUDENT = 'Ana', who is another",
            "bits_per_byte: the same text as ana_11",
        )
        assert [each.flags for each in others] == [(), ()]  # a short answer may well be another's
        assert ana.points == bob.points


def test_the_same_words_of_two_students_are_flagged(syllabus, tmp_path):
    cell = {"cell_type": "markdown", "source": "<!-- answer: why -->\n\n" + "So it must be. " * 20}
    body = json.dumps({"cells": [cell]}).encode()
    students = [Submission(name, (("w.ipynb", body),)) for name in ("ana", "bob")]
    ana, _ = graded(syllabus, tmp_path, *students, week="week2")
    assert ana.flags == ("why: the same text as bob",)


def test_another_secret_is_refused_and_never_makes_right_answers_wrong(syllabus, tmp_path):
    other = replace(syllabus, seed="another secret of the course")
    assert re.fullmatch("[0-9a-f]{4}", syllabus.fingerprint)
    assert syllabus.fingerprint != other.fingerprint
    item = syllabus.weeks[1].items[0]
    mine = own(syllabus.exercise(item), syllabus.personal_seed(item, "ana"))
    cell = {"cell_type": "markdown", "source": secret_mark(syllabus)}
    code = {"cell_type": "code", "source": f"import numpy as np\n{mine.name} = {mine.solution!r}"}
    body = json.dumps({"cells": [cell, code]}).encode()
    ana = Submission("ana", (("week2.ipynb", body),))
    (found,) = graded(syllabus, tmp_path / "then", ana, week="week2")
    assert found.marks[0].state == "right"
    (found,) = graded(other, tmp_path / "now", ana, week="week2")
    assert (found.marks[0].state, found.marks[0].points) == ("error", 0)
    assert f"another secret (fingerprint {syllabus.fingerprint};" in found.error
    with pytest.raises(ValueError, match="was graded with another secret"):
        graded(other, tmp_path / "then", ana, week="week2")


WORDS = [  # an answer in words, and an experiment that was run
    {"cell_type": "markdown", "source": "<!-- answer: why -->\n\nBecause."},
    {"cell_type": "markdown", "source": "<!-- task: effective_share -->"},
    {"cell_type": "code", "source": "run()", "outputs": [{"text": "0.5"}]},
]


def in_words(student, *cells) -> Submission:
    return Submission(student, (("week2.ipynb", json.dumps({"cells": cells}).encode()),))


def test_a_blank_answer_has_no_points_and_waits_for_nobody(syllabus, tmp_path):
    blank = {"cell_type": "markdown", "source": "<!-- answer: why -->\n\n*Write your answer here.*"}
    students = [in_words("ana", *WORDS), in_words("bob", blank), Submission("cem")]
    for _ in range(2):  # graded, and continued
        found = graded(syllabus, tmp_path, *students, week="week2")
        assert [each.marks[2].state for each in found] == ["unread", "missing", "missing"]
    assert [row["unread"] for row in read(tmp_path / "grades.csv")] == [
        "effective_share why", "", "",
    ]  # fmt: skip
    assert "No answer was found" in (tmp_path / "feedback" / "bob.md").read_text("utf8")
    path = tmp_path / "written" / "written.csv"
    path.write_text("student,task,points,of,comment\nbob,why,1,3,It stood elsewhere.\n", "utf8")
    found = graded(syllabus, tmp_path, *students, week="week2")
    assert (found[1].total, found[1].marks[2].verdict) == (1, "a person has read it")
    page = (tmp_path / "feedback" / "bob.html").read_text("utf8")
    assert "partly right" in page
    assert "Note: It stood elsewhere.<" in page


def test_points_of_a_person_are_added_by_the_next_run_and_the_rest_is_said(syllabus, tmp_path):
    submissions = [in_words("Ana", *WORDS), in_words("cem", *WORDS), Submission("bob")]
    found = graded(syllabus, tmp_path, *submissions, week="week2")
    assert [mark.state for mark in found[0].marks] == ["missing", "missing", "unread"]
    rows = read(tmp_path / "grades.csv")
    assert list(rows[0])[-3:] == ["out_of", "unread", "look at"]
    assert {row["out_of"] for row in rows} == {"9"}
    assert [row["unread"] for row in rows] == [*["effective_share why"] * 2, ""]
    path = tmp_path / "written" / "written.csv"
    assert {row["task"] for row in read(path)} == {"effective_share", "why"}
    lines = ["student,task,points,of,comment", "ana,why,2,3,Nearly <i>.", "cem,why,0,3,"]
    path.write_text("\n".join([*lines, "Ana,effective_share,,3,Later.\n"]), "utf8")
    found = graded(syllabus, tmp_path, *submissions, week="week2")
    assert found[0].marks[2].points == found[0].total == 2
    assert "Nearly &lt;i&gt;" in (tmp_path / "feedback" / "Ana.html").read_text("utf8")
    rows = read(tmp_path / "grades.csv")
    assert [row["unread"] for row in rows] == [*["effective_share"] * 2, ""]


def test_grading_again_gives_the_same_marks_and_pages_byte_for_byte(syllabus, tmp_path):
    all_ = [solved("ana", bits_per_byte=NOTHING), handed_in("bob", "x = 1"), Submission("cem")]
    contents = []
    for workers in (1, 3):
        graded(syllabus, out := tmp_path / f"{workers}", *all_, workers=workers)
        contents.append({p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()})
    assert contents[0] == contents[1]


def test_a_run_is_continued_where_it_was_broken_off_or_failed(syllabus, tmp_path):
    def programs(broken, *submissions):
        bench = Bench(broken)
        return graded(syllabus, tmp_path, *submissions, bench=bench), len(bench.programs)

    odd = ("def oops(:", SHIFT, NATS)  # whose grade has all parts: problems, lines, causes, notes
    ana = handed_in("ana", *odd, SHIFT, late=True)
    changed = handed_in("ana", *odd, SHIFT, "x = 1", late=True)
    bob = handed_in("bob", "BURN = 1", "shift = BURN")
    first, n = programs("BURN", ana, bob)
    assert ([bool(each.error) for each in first], n) == ([False, True], 3)
    again, n = programs("SMOKE", ana, bob)
    assert ([bool(each.error) for each in again], n) == ([False, False], 1)  # bob again
    assert again[0] == first[0]
    assert first[0].marks[0].notes == ("`shift` is defined 2 times; the last one counts",)
    assert all((first[0].problems, first[0].marks[2].lines, first[0].marks[2].causes))
    assert programs("BURN", changed)[1] == 2


def test_students_names_become_file_names_that_differ():
    taken = set()
    names = ["../../etc/passwd", "Ana López_1", "ana lópez_1", "", "...", "a/b", "a:b", "x" * 300]
    found = [file_name(name, taken) for name in names]
    assert found[:3] == ["etc_passwd", "Ana_López_1", "ana_lópez_1-2"]
    assert len({name.casefold() for name in found}) == len(names)
    assert all(re.fullmatch(r"[\w.@+-]{1,90}", name) and name[0] != "." for name in found)


def test_the_class_report_counts_states_and_mistakes():
    def of(state, *causes, slip="", seconds=0.5):
        mark = Mark("f", "The <f>", state, 0.0, 2.0, causes=causes, slip=slip, seconds=seconds)
        return Grade("a", (mark,))

    grades = [of("right"), of("wrong", "left"), of("wrong", "left"), of("partly", "right")]
    grades += [of("wrong", slip="raised TypeError", seconds=3.0), of("missing", slip="missing")]
    text = report.html(grades, "T")
    assert 'aria-label="1 right, 1 partly right, 3 not right, 1 missing"' in text
    assert '<td class="n">2</td><td>left</td>' in text
    assert '<td class="n">1</td><td>raised TypeError</td>' in text
    assert not [part for part in ("(50%)", "0.50 s, at most 3", "The &lt;f") if part not in text]
    assert report.html([], "T")


GRADE = "grade in --week week2 --roster roster.csv --times times.csv"
SAID = [  # the command, what is added to the files, the status, and what is said
    (GRADE, {}, 0, ""),  # nobody is missing
    (GRADE, {"in/eve.py": "x = 1"}, 1, "does not know who handed in eve"),
    (GRADE, {"times.csv": "anna,2026-10-09T12:00:00Z"}, 1, "of several: anna"),
    (GRADE, {"out/written/written.csv": "anna,why,2,3,"}, 1, "names of nobody: anna"),
    (GRADE, {"roster.csv": "bob", "in/bob.py": "x = 1"}, 1, "counts as late"),
    (GRADE, {"roster.csv": "ida", "in/ida.ipynb": "{"}, 1, "ida: no file can be read"),
    (GRADE, {"roster.csv": "dan"}, 0, "nothing was handed in by dan"),
    ("grade nowhere --week week1", {}, 2, "there is no 'nowhere'"),
    ("grade in --week week9", {}, 2, "has no week 'week9'; it has week1, week2"),
    ("grade in --week week2", {}, 2, "expected --roster"),
    ("grade none --week week1", {}, 2, "there are no submissions"),
    ("grade in --week week1", {}, 2, "is missing\ncoursework: --unsafe grades without it"),
    ("gradescope --week week2", {}, 2, "expected a roster"),
]


@pytest.mark.parametrize(("command", "more", "status", "says"), SAID)
def test_what_cannot_be_done_and_names_that_fit_nobody_are_said(
    syllabus, tmp_path, monkeypatch, capsys, command, more, status, says
):
    files = {
        "in/ana.py": "x = 1",
        "roster.csv": "student\nana\n",
        "times.csv": "student,time\nana,2026-10-09T12:00:00Z\n",
        "out/written/written.csv": "student,task,points,of,comment\nana,why,1,3,\n",
    }
    for name in files | more:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(files.get(name, "") + more.get(name, ""), "utf8")
    (tmp_path / "none").mkdir()
    missing = Mock(side_effect=sandbox.SandboxMissing("bubblewrap is missing"))
    monkeypatch.setattr(sandbox.Sandbox, "find", missing if status == 2 else lambda **how: Bench())
    monkeypatch.chdir(tmp_path)
    action, *rest = command.split()
    course = ["--syllabus"] * (action == "grade") + [str(syllabus.path)]
    assert main([action, *rest, *course, "--out", "out"]) == status
    said = capsys.readouterr().err
    assert says in said if says else "coursework" not in said
    assert (tmp_path / "out" / "grades.csv").exists() == (status < 2)


@pytest.mark.skipif(os.environ.get("UNROLLED_NO_SANDBOX") == "1", reason="UNROLLED_NO_SANDBOX=1")
def test_the_packed_autograder_runs_as_on_gradescope(syllabus, tmp_path):
    packed, again = (
        gradescope.pack(syllabus, syllabus.weeks[0], tmp_path / f"{i}.zip") for i in (1, 2)
    )
    assert packed.read_bytes() == again.read_bytes()
    root = tmp_path / "autograder"
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(root / "source")
    (root / "submission").mkdir()
    ((_, body),) = solved("ana", shift=THIEF).files
    (root / "submission" / "any name.ipynb").write_bytes(body)
    users = json.dumps({"users": [{"email": "ana@school.edu", "id": 4, "name": "Ana"}]})
    (root / "submission_metadata.json").write_text(users, "utf8")
    done = subprocess.run(
        ["bash", str(root / "source" / "run_autograder")],
        env=os.environ | {"AUTOGRADER_ROOT": str(root), "AUTOGRADER_PYTHON": sys.executable},
        cwd=root, capture_output=True, encoding="utf8", timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads((root / "results" / "results.json").read_text("utf8"))
    assert ([test["score"] for test in data["tests"]], data["score"]) == ([0, 4, 2], 6)
    assert re.search("raised (FileNotFound|Permission)Error", data["tests"][0]["output"])
    for closed in ("course", "lib/unrolled_book"):
        assert (root / "source" / closed).stat().st_mode & 0o777 == 0o700
    assert f"numpy=={version('numpy')}" in (root / "source" / "setup.sh").read_text("utf8")
