"""Grading a class: marks, late answers, crashes, pages, and what is never said."""

import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from unrolled_book.coursework import feedback, gradescope, report, sandbox
from unrolled_book.coursework.__main__ import main
from unrolled_book.coursework.grading import grade
from unrolled_book.coursework.marks import Grade, Mark, cell, file_name, from_data, table
from unrolled_book.coursework.personal import own
from unrolled_book.coursework.results import results
from unrolled_book.coursework.submissions import Submission, read_times
from unrolled_book.coursework.syllabus import Syllabus
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
exercises = [{exercise = "c01_chain_rule/posterior", personal = true}]
questions = [{name = "why", title = "Why?", statement = "Explain.", points = 3}]
"""


@dataclass
class Result:
    outcomes: list | None
    problem: str
    seconds: float = 0.25


class Bench:
    """In place of the sandbox: runs the answers of these tests, which are ours, right here."""

    def __init__(self, broken: str = ""):
        self.programs, self.broken = [], broken

    def run(self, program, name, arguments, *, use_source="", is_value=False, **how):
        self.programs.append(program)
        if self.broken and self.broken in program:
            raise RuntimeError("the machine is on <b>fire</b>")
        names = {}
        try:
            exec(program, names)
        except Exception as error:
            return Result(None, f"the program stops with {type(error).__name__}: {error}")
        if is_value:
            return Result([{"value": encode(names[name]), "mutated": []}], "")
        return Result(run(names[name], arguments), "")


@pytest.fixture(scope="module")
def syllabus(tmp_path_factory) -> Syllabus:
    path = tmp_path_factory.mktemp("course") / "course.toml"
    path.write_text(SYLLABUS)
    return Syllabus.read(path)


def sources(syllabus, **changes) -> dict[str, str]:
    """The solutions of week 1, some of them changed."""
    found = {e.name: e.solution_source for e in map(syllabus.exercise, syllabus.weeks[0].items)}
    return found | changes


def notebook(cells) -> bytes:
    code = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": c} for c in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": code}).encode()


def handed_in(student, cells, **more) -> Submission:
    return Submission(student, (("week1.ipynb", notebook(cells)),), **more)


def graded(syllabus, out, *submissions, bench=None, **how) -> list[Grade]:
    how = {"week": "week1", "progress": False, "sandbox": bench or Bench()} | how
    return grade(syllabus, list(submissions), out, **how)


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def points(found: Grade) -> list[float]:
    return [mark.points for mark in found.marks]


# ---- marks ---------------------------------------------------------------------------------------

NOTHING = "def bits_per_byte(log_probs, text):\n    return 2.0"  # right for the visible case alone


def test_right_answers_have_all_points(syllabus, tmp_path):
    (found,) = graded(syllabus, tmp_path, handed_in("ana", sources(syllabus).values()))
    assert points(found) == [2, 4, 2]
    assert (found.total, found.out_of, found.error) == (8, 8, "")
    assert {mark.state for mark in found.marks} == {"right"}


def test_credit_is_for_all_tests_or_for_the_share_that_passes(syllabus, tmp_path):
    cells = sources(syllabus, bits_per_byte=NOTHING)
    roads = syllabus.exercise(syllabus.weeks[0].items[1])
    first = next(iter(roads.solution))
    cells["two_roads"] += f"\ntwo_roads[{first!r}] = 99"
    (found,) = graded(syllabus, tmp_path, handed_in("ana", cells.values()))
    marks = {mark.name: mark for mark in found.marks}
    n = len(roads.solution)
    assert marks["two_roads"].points == round(4 * (n - 1) / n, 2)
    seen = marks["bits_per_byte"]  # which is right on the visible example alone
    assert (seen.n_passed, seen.points, seen.state) == (1, 0, "wrong")


def test_a_wrong_answer_with_credit_all_has_no_points_and_its_cause(syllabus, tmp_path):
    text = sources(syllabus)["bits_per_byte"].replace(" / np.log(2)", "")
    cells = sources(syllabus, bits_per_byte=text)
    (found,) = graded(syllabus, tmp_path, handed_in("ana", cells.values()))
    mark = found.marks[2]
    assert mark.causes == ("this is in nats; one bit is ln 2 nats",)
    assert (mark.state, mark.points) == ("wrong", 0)
    cells = sources(syllabus, shift="def shift(*args):\n    return None")
    (found,) = graded(syllabus, tmp_path, handed_in("bob", cells.values()))
    assert (found.marks[0].state, found.marks[0].points) == ("wrong", 0)


@pytest.mark.parametrize(
    ("submission", "state", "says"),
    [
        (Submission("ana"), "missing", "there is no file that can be read"),
        (Submission("ana", (("w.ipynb", b"{"),)), "missing", "there is no file that can be read"),
        (handed_in("ana", ["x = 1"]), "missing", "the notebook defines no `shift`"),
        (handed_in("ana", ["def shift(*a): return ..."]), "unwritten", "not written yet"),
        (handed_in("ana", ["def shift(*a): raise OSError('a')"]), "wrong", "0 of 5 tests passed"),
        (
            handed_in("ana", ["1 / 0", "x = 1 / 0", "def shift(*a): return x"]),
            "wrong",
            "stops with",
        ),
        (Submission("ana", (("a.py", b"def shift(*a): return 1\0"),)), "wrong", "0 of 5 tests"),
    ],
)
def test_what_came_of_the_first_exercise(syllabus, tmp_path, submission, state, says):
    (found,) = graded(syllabus, tmp_path, submission)
    assert (found.marks[0].state, found.marks[0].points) == (state, 0)
    assert says in found.marks[0].verdict
    assert bool(found.error) == (state == "missing" and found.submitted and "file" in says)


def test_a_result_of_megabytes_is_not_judged(syllabus, tmp_path):
    many = "def bits_per_byte(*a):\n    return [1] * 100_000"
    cells = sources(syllabus, bits_per_byte=many)
    (found,) = graded(syllabus, tmp_path, handed_in("ana", cells.values()))
    assert "got a thing of type list of 0.3 MB" in found.marks[2].lines[1]


def test_an_answer_that_one_file_has_lost_is_taken_from_another(syllabus, tmp_path):
    files = (("old.py", SHIFT.encode()), ("week1.ipynb", notebook(["def shift(:\n  pass"])))
    (found,) = graded(syllabus, tmp_path, Submission("ana", files))
    assert found.marks[0].points == 2
    assert found.marks[0].notes == ("taken from old.py",)
    assert "cell 1 was left out" in found.problems[0]


def test_no_page_holds_an_expected_value(syllabus, tmp_path):
    text = sources(syllabus)["bits_per_byte"].replace(" / np.log(2)", "")
    cells = sources(syllabus, bits_per_byte=text).values()
    graded(syllabus, tmp_path, handed_in("ana", cells))
    found = [tmp_path / "feedback" / "ana.md", tmp_path / "feedback" / "ana.html"]
    for path in [*found, tmp_path / "results" / "ana.json", tmp_path / "report.html"]:
        assert not re.search(r"expected\s+[\d\[-]", path.read_text())
    assert "is not right" in found[0].read_text()


SHIFT = """import numpy as np
def shift(texts, start, end, pad):
    width = 1 + max(map(len, texts))
    rows = [([start, *t], [*t, end], width - len(t) - 1) for t in texts]
    return tuple(np.array([r[i] + [pad] * r[2] for r in rows]) for i in (0, 1))
"""
OLD = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "input": SHIFT}]}]}
PRINTED = {"cell_type": "code", "source": "", "outputs": [{"text": SHIFT}]}
PAGE = {"format": "unrolled-answers", "answers": {"c01_chain_rule/shift": {"source": SHIFT}}}
RIGHT, WRONG, MISSING, UNWRITTEN = "right", "wrong", "missing", "unwritten"
HANDED_IN = {
    "a notebook": (RIGHT, "w.ipynb", notebook([SHIFT])),
    "lines as a list": (RIGHT, "w.ipynb", notebook([SHIFT.splitlines(keepends=True)])),
    "version 3": (RIGHT, "w.ipynb", json.dumps(OLD).encode()),
    "a .py file": (RIGHT, "w.py", SHIFT.encode()),
    "py:percent": (RIGHT, "w.py", f"# %% [markdown]\n# Hi\n# %%\n{SHIFT}".encode()),
    "the page": (RIGHT, "unrolled-answers.json", json.dumps(PAGE).encode()),
    "renamed": (RIGHT, "w.py", notebook([SHIFT])),
    "UTF-16": (RIGHT, "w.py", SHIFT.encode("utf-16")),
    "UTF-16 without a mark": (RIGHT, "w.ipynb", notebook([SHIFT]).decode().encode("utf-16-le")),
    "a byte-order mark": (RIGHT, "w.ipynb", b"\xef\xbb\xbf" + notebook([SHIFT])),
    "latin-1": (RIGHT, "w.py", f"# für\n{SHIFT}".encode("latin-1")),
    "null bytes": (RIGHT, "w.py", b"\0" + SHIFT.encode() + b"\0\0"),
    "Windows": (RIGHT, "w.py", SHIFT.replace("\n", "\r\n").encode()),
    "a syntax error elsewhere": (RIGHT, "w.ipynb", notebook(["x = = 1", SHIFT])),
    "magics and shell": (RIGHT, "w.ipynb", notebook(["%pylab\n!rm -rf /", "%%time\n" + SHIFT])),
    "a training elsewhere": (RIGHT, "w.ipynb", notebook([SHIFT, "while True: pass"])),
    "an exit elsewhere": (RIGHT, "w.ipynb", notebook(["exit()", SHIFT, "1 / 0"])),
    "the last is right": (RIGHT, "w.ipynb", notebook(["def shift(*a): return 1", SHIFT])),
    "the last is wrong": (WRONG, "w.ipynb", notebook([SHIFT, "def shift(*a): return 1"])),
    "a class": (WRONG, "w.py", b"class shift:\n    pass"),
    "an error": (WRONG, "w.py", b"def shift(*a):\n    raise OSError"),
    "None": (WRONG, "w.py", b"def shift(*a): pass"),
    "a text": (WRONG, "w.py", b"def shift(*a): return 'all 5 tests passed'"),
    "the arguments": (WRONG, "w.py", b"def shift(*a): return a"),
    "a starter": (UNWRITTEN, "w.py", b"def shift(texts, start, end, pad):\n    return ..."),
    "a syntax error": (MISSING, "w.py", b"def shift(*a)\n    return 1"),
    "a misspelt name": (MISSING, "w.py", SHIFT.replace("def shift", "def shfit").encode()),
    "another case": (MISSING, "w.py", SHIFT.replace("def shift", "def Shift").encode()),
    "inside of a class": (MISSING, "w.py", b"class A:\n    def shift(self, *a): return 1"),
    "in a comment": (MISSING, "w.py", b"# " + SHIFT.replace("\n", "\n# ").encode()),
    "in a text": (MISSING, "w.py", b"x = " + repr(SHIFT).encode()),
    "an output": (MISSING, "w.ipynb", json.dumps({"cells": [PRINTED]}).encode()),
    "a text cell": (MISSING, "w.ipynb", notebook([SHIFT]).replace(b'"code"', b'"markdown"')),
    "broken JSON": (MISSING, "w.ipynb", notebook([SHIFT])[:-5]),
    "JSON without an end": (MISSING, "w.ipynb", b"[" * 100_000),
    "an empty file": (MISSING, "w.ipynb", b""),
    "a picture": (MISSING, "w.py", b"\x89PNG\r\n\x1a\n" + bytes(999)),
    "nested too deep": (MISSING, "w.py", b"shift = " + b"-" * 100_000 + b"1"),
    "cells of no kind": (MISSING, "w.ipynb", b'{"cells": [1, null, {"cell_type": 3}, []]}'),
}


def test_submissions_of_every_kind_get_their_mark(syllabus, tmp_path):
    all_ = [Submission(kind, (file,)) for kind, (_, *file) in HANDED_IN.items()]
    found = graded(syllabus, tmp_path, *all_)
    marks = {each.student: each.marks[0] for each in found}
    assert {kind: mark.state for kind, mark in marks.items()} == {
        kind: state for kind, (state, *_) in HANDED_IN.items()
    }
    assert all(mark.points == 2 * (mark.state == RIGHT) for mark in marks.values())
    unread = {each.student for each in found if "no file can be read" in each.error}
    assert {"broken JSON", "JSON without an end", "an empty file"} <= unread
    assert all(marks[kind].state == MISSING for kind in unread)
    assert not any(each.error for each in found if each.student not in unread)


def test_the_notebook_of_the_week_goes_before_other_files(syllabus, tmp_path):
    right, wrong = sources(syllabus).values(), ["def shift(*a): return 1"]
    files = (("week1.ipynb", notebook(right)), ("scratch.ipynb", notebook(wrong)))
    for order in (files, files[::-1]):
        (found,) = graded(syllabus, tmp_path, Submission("ana", order))
        assert found.total == 8
        assert found.marks[0].notes == ("taken from week1.ipynb; scratch.ipynb defines it, too",)


def test_the_sandbox_gets_the_program_and_the_arguments_and_nothing_else(syllabus, tmp_path):
    bench = Bench()
    graded(syllabus, tmp_path, handed_in("ana", sources(syllabus).values()), bench=bench)
    exercise = syllabus.exercise(syllabus.weeks[0].items[0])
    (program,) = [each for each in bench.programs if "def shift" in each]
    assert program.strip().endswith(exercise.solution_source.strip())
    assert "wrong = " not in program
    assert "two_roads" not in program


# ---- late answers, personal tasks ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "time", "late", "total"),
    [
        (None, None, None, 8),
        (True, None, True, 4),
        (False, None, False, 8),
        (True, "2026-10-09T23:58:59+02:00", False, 8),
        (False, "2026-10-09T22:00:00+00:00", True, 4),
    ],
)
def test_lateness_by_the_platform_or_by_the_times(syllabus, tmp_path, platform, time, late, total):
    times = None
    if time:
        (tmp_path / "times.csv").write_text(f"student,time\n4711,{time}\n")
        times = read_times(tmp_path / "times.csv")
    submission = handed_in("ana_4711", sources(syllabus).values(), late=platform)
    (found,) = graded(syllabus, tmp_path / "out", submission, times=times)
    assert (found.late, found.total, found.points) == (late, total, 8)
    page = (tmp_path / "out" / "feedback" / "ana_4711.md").read_text()
    assert ("50% of the 8 points count" in page) == bool(late)


def test_personal_tasks_are_each_student_s_own(syllabus, tmp_path):
    item = syllabus.weeks[1].items[0]
    mine = own(syllabus.exercise(item), syllabus.personal_seed(item, "ana"))
    answer = f"import numpy as np\n{mine.name} = {mine.solution!r}"
    found = graded(
        syllabus, tmp_path, handed_in("ana", [answer]), handed_in("bob", [answer]), week="week2"
    )
    assert found[0].marks[0].state == "right"
    assert found[1].marks[0].points < found[0].marks[0].points


def test_points_of_a_person_are_added_by_the_next_run(syllabus, tmp_path):
    submission = handed_in("ana", ["x = 1"])
    (found,) = graded(syllabus, tmp_path, submission, week="week2")
    assert [mark.state for mark in found.marks] == ["missing", "unread"]
    path = tmp_path / "written" / "written.csv"
    assert [row["task"] for row in read(path)] == ["why"]
    path.write_text("student,task,points,of,comment\nana,why,2,3,Nearly <i>.\n")
    (found,) = graded(syllabus, tmp_path, submission, week="week2")
    assert found.marks[1].points == found.total == 2
    assert "Nearly &lt;i&gt;" in (tmp_path / "feedback" / "ana.html").read_text()


def test_the_table_says_what_nobody_has_read_and_how_many_points_there_are(tmp_path):
    (tmp_path / "course.toml").write_text(
        'title = "T"\nseed = "a secret of the course"\n[[weeks]]\nname = "one"\ntitle = "One"\n'
        'exercises = ["c01_chain_rule/shift", "c14_attention/effective_share"]\n'
        'questions = [{name = "why", title = "Why?", statement = "Explain.", points = 3}]\n'
    )
    course = Syllabus.read(tmp_path / "course.toml")
    submissions = [handed_in("Ana", ["x = 1"]), Submission("bob")]
    graded(course, tmp_path, *submissions, week="one")
    ana, bob = read(tmp_path / "grades.csv")
    assert list(ana)[-2:] == ["out_of", "unread"]
    assert (ana["out_of"], ana["unread"]) == ("8", "effective_share why")
    assert (bob["out_of"], bob["unread"]) == ("8", "")  # there is nothing to read
    (tmp_path / "written" / "written.csv").write_text(
        "student,task,points,of,comment\nana,why,0,3,\nAna,effective_share,,2,Later.\n"
    )
    graded(course, tmp_path, *submissions, week="one")
    assert read(tmp_path / "grades.csv")[0]["unread"] == "effective_share"


def test_a_personal_task_of_somebody_outside_the_roster_is_an_error(syllabus, tmp_path):
    stranger = handed_in("eve", ["x = 1"], outside=True)
    (found,) = graded(syllabus, tmp_path, stranger, week="week2")
    assert found.marks[0].state == "error"
    assert "the roster has no such student" in found.error


def test_a_submission_of_which_nothing_can_be_read_is_an_error(syllabus, tmp_path):
    broken = Submission("ida", (("week1.ipynb", b'{"cells": ['),))
    large = Submission("eve", problems=("eve.py has 40 MB; it was left out",))
    found = graded(syllabus, tmp_path, broken, large, Submission("bob"))
    assert ["no file can be read" in each.error for each in found] == [True, True, False]


STRAYS = {
    "nobody is missing": ({}, 0, ""),
    "a submission of nobody": ({"eve.py": ""}, 1, "does not know who handed in eve"),
    "a time of nobody": ({"times.csv": "anna,2026-10-09T12:00:00Z"}, 1, "of several: anna"),
    "points of nobody": ({"written.csv": "anna,why,2,3,"}, 1, "names of nobody: anna"),
    "nobody knows when": ({"roster.csv": "bob", "bob.py": ""}, 1, "counts as late"),
    "somebody without a submission": ({"roster.csv": "dan"}, 0, "nothing was handed in by dan"),
}


@pytest.mark.parametrize("kind", STRAYS)
def test_a_name_that_fits_nobody_is_said(tmp_path, monkeypatch, capsys, kind):
    more, status, says = STRAYS[kind]
    for folder in ("handed_in", "out/written"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "course.toml").write_text(
        'title = "T"\nseed = "a secret of the course"\n[[weeks]]\nname = "one"\ntitle = "One"\n'
        'exercises = ["c01_chain_rule/shift"]\ndue = 2026-10-09T23:59:00Z\n'
        'questions = [{name = "why", title = "Why?", statement = "Explain.", points = 3}]\n'
    )
    lists = {
        "roster.csv": "student\nana\n",
        "times.csv": "student,time\nana,2026-10-09T12:00:00Z\n",
        "written.csv": "student,task,points,of,comment\nana,why,1,3,\n",
    }
    for name, text in lists.items():
        folder = tmp_path / ("out/written" if name == "written.csv" else ".")
        (folder / name).write_text(text + more.get(name, "") + "\n")
    for name in ("ana.py", *(name for name in more if name.endswith(".py"))):
        (tmp_path / "handed_in" / name).write_text("x = 1")
    monkeypatch.setattr(sandbox.Sandbox, "find", lambda **how: Bench())
    monkeypatch.chdir(tmp_path)
    arguments = "grade handed_in --syllabus course.toml --week one --out out".split()
    assert main([*arguments, "--roster", "roster.csv", "--times", "times.csv"]) == status
    said = capsys.readouterr().err
    assert says in said if says else "coursework" not in said


# ---- crashes, and runs that are continued --------------------------------------------------------


def test_a_crash_on_one_student_never_stops_the_others(syllabus, tmp_path):
    cells = list(sources(syllabus).values())
    crash = handed_in("bob", [*cells, "BURN = 1", "def shift(*a):\n    return BURN"])
    found = graded(
        syllabus,
        tmp_path,
        *(handed_in("ana", cells), crash, handed_in("cem", cells)),
        bench=Bench(broken="BURN"),
    )
    assert [each.total for each in found] == [8, 6, 8]
    assert "shift: the grader failed here (RuntimeError: the machine is on" in found[1].error
    rows = read(tmp_path / "grades.csv")
    assert [bool(row["error"]) for row in rows] == [False, True, False]
    for page in ("feedback/bob.html", "report.html"):
        assert "<b>fire" not in (tmp_path / page).read_text()
    found = graded(syllabus, tmp_path, crash)  # graded again, for there was an error
    assert found[0].error == ""


def test_a_page_that_cannot_be_written_is_an_error_of_its_student(syllabus, tmp_path, monkeypatch):
    real = feedback.html
    monkeypatch.setattr(
        feedback, "html", lambda g, title: 1 / 0 if g.student == "bob" else real(g, title)
    )
    cells = list(sources(syllabus).values())
    found = graded(syllabus, tmp_path, *(handed_in(s, cells) for s in ("ana", "bob", "cem")))
    assert [bool(each.error) for each in found] == [False, True, False]


def contents(folder: Path) -> dict[str, bytes]:
    paths = [p for part in ("feedback", "results") for p in (folder / part).iterdir()]
    return {p.name: p.read_bytes() for p in [*paths, folder / "grades.csv"]}


def test_grading_again_gives_the_same_marks_and_pages_byte_for_byte(syllabus, tmp_path):
    cells = sources(syllabus, bits_per_byte=NOTHING).values()
    all_ = [handed_in("ana", cells), handed_in("bob", ["x = 1"]), Submission("cem")]
    graded(syllabus, tmp_path / "one", *all_, workers=1)
    graded(syllabus, tmp_path / "two", *all_, workers=3)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_run_is_continued_where_it_was_broken_off(syllabus, tmp_path):
    cells = list(sources(syllabus).values())
    first, again = Bench(), Bench()
    (one,) = graded(syllabus, tmp_path, handed_in("ana", cells), bench=first)
    both = [handed_in("ana", cells), handed_in("bob", cells)]
    found = graded(syllabus, tmp_path, *both, bench=again)
    assert (len(first.programs), len(again.programs)) == (3, 3)
    assert found[0] == one
    changed = handed_in("ana", [*cells, "x = 1"])
    graded(syllabus, tmp_path, changed, bench=(third := Bench()))
    assert len(third.programs) == 3


# ---- what is written -----------------------------------------------------------------------------

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)> & \"' `</code><b>`"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.found += [name for name, _ in attrs if name.startswith("on")]


def test_nothing_of_a_student_s_is_markup(syllabus, tmp_path):
    cells = [
        f"def shift(*a):\n    raise ValueError({MARKUP!r})",
        f"two_roads = {{{MARKUP!r}: 1, 'x': {MARKUP!r}}}",
        f"def bits_per_byte(*a):\n    return {MARKUP!r}",
        f"def f(: {MARKUP}",
    ]
    odd = Submission(
        f"Eve {MARKUP}",
        ((f"{MARKUP}.ipynb", notebook(cells)), (f"{MARKUP}.py", b"# \0")),
        None,
        (f"{MARKUP} was left out",),
    )
    graded(syllabus, tmp_path, odd)
    pages = [*(tmp_path / "feedback").glob("*.html"), tmp_path / "report.html"]
    for page in pages:
        text = page.read_text()
        assert "alert(1)" in text
        assert not {"script", "img", "b", "onerror"} & set(Tags(text).found)
        assert "default-src 'none'" in text
    (path,) = (tmp_path / "feedback").glob("*.md")
    for line in path.read_text().split("\n"):
        assert line.startswith("    ") or not re.search(r"(?<!\\)<", line)
    json.loads(next((tmp_path / "results").iterdir()).read_text())


def test_characters_that_do_not_print_are_left_out():
    mark = Mark("f", "F", "wrong", 0.0, 1.0, verdict="a\u202eb\nc\x1b[31m", lines=("x\ny\x07",))
    found = Grade("ana\nbob", (mark,))
    for text in (feedback.html(found, "T"), feedback.markdown(found, "T")):
        assert not re.search("[\u202e\x1b\x07]", text)
        assert "ana bob" in text
    assert "A b c" in feedback.html(found, "T")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('=HYPERLINK("x")', '\'=HYPERLINK("x")'),
        ("=1+1", "'=1+1"),
        ("@SUM(1)", "'@SUM(1)"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3=", "'-2+3="),
        ("\t=1", "'\t=1"),
        ("+A1", "'+A1"),
        ("- $B$12", "'- $B$12"),
        ("＝1+1", "'＝1+1"),
        (" =1", "' =1"),
        ("ana;=1+1", "'ana;=1+1"),
        ("ana;+A1", "'ana;+A1"),
        ("-12", "-12"),
        ("+49 123", "+49 123"),
        ("@alice", "@alice"),
        ("ana@school.edu", "ana@school.edu"),
        ("ana; bob", "ana; bob"),
        ("+ana", "+ana"),
        ("Ana López_12", "Ana López_12"),
    ],
)
def test_a_table_holds_no_formula_and_ids_stay_what_they_are(text, written):
    assert cell(text) == written
    rows = list(csv.reader(table([Grade(text, ())], []).splitlines(keepends=True)))
    assert rows[1][0] == written


def test_students_names_become_file_names_that_differ():
    taken = set()
    names = ["../../etc/passwd", "Ana López_1", "ana lópez_1", "", "...", "a/b", "a:b", "x" * 300]
    found = [file_name(name, taken) for name in names]
    assert found[:3] == ["etc_passwd", "Ana_López_1", "ana_lópez_1-2"]
    assert len({name.casefold() for name in found}) == len(names)
    assert all(re.fullmatch(r"[\w.@+-]{1,90}", name) and name[0] != "." for name in found)


def test_a_report_of_megabytes_is_cut(syllabus, tmp_path):
    text = "two_roads = {str(i) * 99: i for i in range(20_000)}"
    (found,) = graded(
        syllabus, tmp_path, handed_in("ana", sources(syllabus, two_roads=text).values())
    )
    assert len(found.marks[1].lines) <= 25
    assert (tmp_path / "feedback" / "ana.html").stat().st_size < 40_000


def test_a_grade_comes_back_from_its_record():
    mark = Mark("f", "F", "wrong", 0.0, 1.0, lines=("a", "b"), causes=("c",), notes=("d",))
    found = Grade("ana", (mark,), True, 0.5, ("p",))
    assert from_data(json.loads(json.dumps(asdict(found)))) == found


def test_the_class_report_counts_states_and_mistakes():
    def of(state, *causes, slip="", seconds=0.5):
        mark = Mark("f", "The <f>", state, 0.0, 2.0, causes=causes, slip=slip, seconds=seconds)
        return Grade("a", (mark,))

    grades = [of("right"), of("wrong", "left"), of("wrong", "left"), of("partly", "right")]
    grades += [of("wrong", slip="raised TypeError", seconds=3.0), of("missing", slip="missing")]
    text = report.html(grades, "T")
    assert 'aria-label="1 right, 1 partly right, 3 not right, 1 missing"' in text
    assert "3 not right (50%)" in text
    assert '<td class="n">2</td><td>left</td>' in text
    assert '<td class="n">1</td><td>raised TypeError</td>' in text
    assert "median 0.50 s, at most 3.00 s" in text
    assert "The &lt;f&gt;" in text
    assert report.html([], "T")


# ---- the command ---------------------------------------------------------------------------------

needs_sandbox = pytest.mark.skipif(
    os.environ.get("UNROLLED_NO_SANDBOX") == "1", reason="UNROLLED_NO_SANDBOX=1"
)
HOSTILE = {
    "reads": "import os\ndef shift(*a):\n    return open('/etc/shadow').read()",
    "leaves": "import os\ndef shift(*a):\n    os._exit(0)",
    "lies": "class Same:\n    def __eq__(self, o): return True\ndef shift(*a): return Same()",
    "looks": "def shift(*a):\n    import unrolled_book.exercises",
}
KINDS = {
    "ana_11_901_week1.ipynb": [2, 4, 2],
    "bob_LATE_12_902_week1-1.ipynb": [2, 4, 2],
    "cem_13_903_week1.ipynb": [0, 4, 2],  # a syntax error in one cell
    "dee_14_904_week1.py": [2, 4, 2],
    "eve_15_905_week1.ipynb": [0, 4, 2],  # reads
    "fay_16_906_week1.ipynb": [0, 4, 2],  # leaves
    "gus_17_907_week1.ipynb": [0, 4, 2],  # lies
    "hal_18_908_week1.ipynb": [0, 4, 2],  # looks
    "ida_19_909_week1.ipynb": [0, 0, 0],  # broken JSON
    "joe_20_910_unrolled-answers.json": [0, 4, 2],  # a wrong answer, exported by the page
}


@needs_sandbox
def test_ten_students_from_a_folder_to_marks_and_pages(syllabus, tmp_path, capsys):
    cells = sources(syllabus)
    hostile = dict(zip(("eve", "fay", "gus", "hal"), HOSTILE.values(), strict=True))
    folder = tmp_path / "handed_in"
    folder.mkdir()
    for name in KINDS:
        student = name[:3]
        mine = cells | ({"shift": hostile[student]} if student in hostile else {})
        if student == "cem":
            mine["shift"] = mine["shift"].replace("def shift(", "def shift((", 1)
        body = notebook(["import numpy as np\n%matplotlib inline", *mine.values(), "check(shift)"])
        if name.endswith(".py"):
            body = "\n# %%\n".join(["import numpy as np", *mine.values()]).encode("utf-16")
        if student == "ida":
            body = body[:-20]
        if name.endswith(".json"):
            mine["shift"] = mine["shift"].replace("T), pad)", "T), 0)")
            answers = {f"c01_chain_rule/{k}": {"source": v} for k, v in mine.items()}
            data = {"format": "unrolled-answers", "version": 1, "answers": answers}
            body = json.dumps(data).encode()
        (folder / name).write_bytes(body)
    out = tmp_path / "out"
    arguments = ["grade", str(folder), "--syllabus", str(syllabus.path), "--week", "week1"]
    assert main([*arguments, "--out", str(out)]) == 1  # what ida handed in cannot be read
    assert "10 students, 1 not graded whole" in capsys.readouterr().out
    rows = {row["student"][:3]: row for row in read(out / "grades.csv")}
    names = ("shift", "two_roads", "bits_per_byte")
    found = {name: [float(rows[name[:3]][n]) for n in names] for name in KINDS}
    assert found == KINDS
    assert (rows["bob"]["total"], rows["bob"]["late"]) == ("4", "yes")
    pages = {p.name[:3]: p.read_text() for p in (out / "feedback").glob("*.md")}
    assert "All 5 tests passed" in pages["ana"]
    assert "cell 2 was left out" in pages["cem"].replace("\\", "")
    assert "raised FileNotFoundError" in pages["eve"]
    assert "ended the process" in pages["fay"]
    assert "a thing of type Same" in pages["gus"]
    assert "raised ModuleNotFoundError" in pages["hal"]
    assert "its JSON cannot be read" in pages["ida"]
    assert "Likely cause" in pages["joe"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["grade", "nowhere", "--week", "week1"], "there is no 'nowhere'"),
        (["grade", ".", "--week", "week9"], "has no week 'week9'; it has week1, week2"),
        (["grade", ".", "--week", "week2"], "expected --roster"),
        (["grade", ".", "--week", "week1", "--times", "no.csv"], "no.csv"),
        (["grade", ".", "--week", "week1"], "there are no submissions"),
        (["gradescope", "--week", "week9"], "has no week 'week9'"),
    ],
)
def test_wrong_arguments_are_answered_in_a_sentence(
    syllabus, tmp_path, monkeypatch, capsys, arguments, says
):
    monkeypatch.chdir(tmp_path)
    action, *rest = arguments
    course = ["--syllabus", str(syllabus.path)] if action == "grade" else [str(syllabus.path)]
    assert main([action, *rest, *course, "--out", "out"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("coursework: ")
    assert says in said


def test_without_a_sandbox_nothing_is_graded(syllabus, tmp_path, monkeypatch, capsys):
    def missing(unsafe=False):
        raise sandbox.SandboxMissing("bubblewrap is missing")

    monkeypatch.setattr(sandbox.Sandbox, "find", staticmethod(missing))
    (tmp_path / "ana.py").write_text("shift = 1")
    arguments = ["grade", str(tmp_path), "--syllabus", str(syllabus.path), "--week", "week1"]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
    assert "bubblewrap is missing" in (said := capsys.readouterr().err)
    assert "--unsafe" in said
    assert not (tmp_path / "out").exists()


# ---- Gradescope ----------------------------------------------------------------------------------


def test_results_have_gradescope_s_form(syllabus, tmp_path):
    (found,) = graded(syllabus, tmp_path, handed_in("ana", sources(syllabus).values()))
    data = json.loads(results(found))
    assert data["score"] == 8
    assert [test["max_score"] for test in data["tests"]] == [2, 4, 2]
    for test in data["tests"]:
        assert {"name", "score", "status", "output", "visibility", "number"} <= test.keys()
        assert (test["status"], test["output_format"]) == ("passed", "text")


def test_packing_needs_exercises_and_a_roster_for_personal_ones(syllabus, tmp_path):
    with pytest.raises(ValueError, match="expected a roster"):
        gradescope.pack(syllabus, syllabus.weeks[1], tmp_path / "a.zip")


@needs_sandbox
def test_the_packed_autograder_runs_as_on_gradescope(syllabus, tmp_path):
    import zipfile

    packed = gradescope.pack(syllabus, syllabus.weeks[0], tmp_path / "autograder.zip")
    again = gradescope.pack(syllabus, syllabus.weeks[0], tmp_path / "again.zip")
    assert packed.read_bytes() == again.read_bytes()
    root = tmp_path / "autograder"
    with zipfile.ZipFile(packed) as archive:
        assert {"setup.sh", "run_autograder"} <= set(archive.namelist())
        archive.extractall(root / "source")
    (root / "submission").mkdir()
    cells = sources(syllabus, shift="def shift(*a): return 1")
    (root / "submission" / "any name.ipynb").write_bytes(notebook(cells.values()))
    users = {"users": [{"email": "ana@school.edu", "id": 4, "name": "Ana"}]}
    (root / "submission_metadata.json").write_text(json.dumps(users))
    script = root / "source" / "run_autograder"
    environment = {"AUTOGRADER_ROOT": str(root), "AUTOGRADER_PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", str(script)],
        env=os.environ | environment,
        cwd=root,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    data = json.loads((root / "results" / "results.json").read_text())
    assert [test["score"] for test in data["tests"]] == [0, 4, 2]
    assert data["score"] == 6
    for closed in ("course", "lib/unrolled_book"):
        assert (root / "source" / closed).stat().st_mode & 0o777 == 0o700
    text = (root / "source" / "setup.sh").read_text()
    assert f"numpy=={__import__('numpy').__version__}" in text
