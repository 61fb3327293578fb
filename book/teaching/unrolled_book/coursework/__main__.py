"""`python -m unrolled_book.coursework`: editions, questions, grades, likenesses, a tally.

    build SYLLABUS --out DIR [--roster roster.csv]
    grade SUBMISSIONS --syllabus FILE --week NAME --out DIR [--roster roster.csv]
          [--times times.csv] [--gradebook export.csv [--column TITLE]]
          [--student ID --exercise NAME] [--reveal] [--workers 2] [--unsafe]
    read MARKS --syllabus FILE --week NAME [--port 8000]
    similar SUBMISSIONS --syllabus FILE --week NAME --out similar.html
    gradescope SYLLABUS --week NAME --out autograder.zip [--roster roster.csv]
    questions SYLLABUS --for canvas|moodle|qti --out FILE
    tally EXPORTS… --out tally.csv

The exit status is 0 when all went well, 1 when some student could not be graded whole (it stands in
grades.csv) or a name in the lists and submissions is nobody's, and 2 when there was nothing to be
done: a wrong file, a wrong name, no sandbox.
"""

from __future__ import annotations

import argparse
import sys
import webbrowser
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from unrolled_book.coursework import exports, tables, written
from unrolled_book.coursework.gradescope import ROOT, autograde, pack
from unrolled_book.coursework.grading import find_week, grade
from unrolled_book.coursework.roster import named, nobodys, read_roster, read_times
from unrolled_book.coursework.sandbox import SandboxMissing
from unrolled_book.coursework.submissions import Submission, collect
from unrolled_book.coursework.syllabus import Syllabus, plain
from unrolled_book.coursework.tally import tally
from unrolled_book.coursework.way_back import WayBack


def main(arguments: list[str] | None = None) -> int:
    """Do what the arguments say; the exit status."""
    given = _parser().parse_args(arguments)
    try:
        return given.action(given)
    except (ValueError, OSError, SandboxMissing) as error:
        print(f"coursework: {error}", file=sys.stderr)
        if isinstance(error, SandboxMissing) and not getattr(given, "unsafe", False):
            print(
                "coursework: --unsafe grades without it; answers then run unguarded",
                file=sys.stderr,
            )
        return 2
    except KeyboardInterrupt:
        print("coursework: stopped; the same command goes on from here", file=sys.stderr)
        return 130


def _build(given: argparse.Namespace) -> int:
    from unrolled_book.coursework.editions import build

    files = build(Syllabus.read(given.syllabus), given.out, given.roster)
    print(f"{len(files)} notebooks in {given.out}")
    return 0


def _grade(given: argparse.Namespace) -> int:
    syllabus = Syllabus.read(given.syllabus)
    week = find_week(syllabus, given.week)
    if bool(given.student) != bool(given.exercise):
        raise ValueError("--student and --exercise go together; expected both, or none")
    listed = given.roster or given.gradebook
    roster = read_roster(listed) if listed else []
    numbers = {value.strip() for row in roster for value in row.values() if value.strip().isdigit()}
    submissions = collect(given.submissions, numbers or None)
    times = read_times(given.times) if given.times else {}
    back = None
    if given.gradebook:
        back = WayBack(tables.sheet(given.gradebook), given.column or week.title)
        submissions = _late(submissions, back)
    if listed:
        submissions = named(submissions, roster)
    elif any(item.personal for item in week.items):
        raise ValueError(f"{week.name} has personal tasks; expected --roster, the students' ids")
    if not submissions:
        raise ValueError(f"there are no submissions in {given.submissions!r}")
    grades = grade(
        syllabus,
        submissions,
        given.out,
        week=week.name,
        workers=given.workers,
        unsafe=given.unsafe,
        times=times,
        only=(given.student, given.exercise) if given.student else None,
        reveal=given.reveal,
    )
    failed = [found for found in grades if found.error]
    print(f"{len(grades)} students, {len(failed)} not graded whole; see {Path(given.out)}")
    for found in failed:
        print(f"  {found.student}: {found.error}", file=sys.stderr)
    strays = _strays(given, submissions, times, replace(syllabus, weeks=(week,)))
    timeless = [found.student for found in grades if found.submitted and found.late is None]
    if week.due and timeless:
        strays.append(
            f"{week.name} is due {week.due.isoformat()}, and nothing says when these handed in, so "
            "none of them counts as late (--times takes a table of student and time): "
            + ", ".join(timeless)
        )
    if back:
        out, title = Path(given.out) / "upload", f"{syllabus.title}: {week.title}"
        strays += back.write(grades, submissions, roster, title, out, given.student or "")
        print(f"gradebook.csv and feedback.zip for {back.form.system}, in {out}")
    for line in strays:
        print(f"coursework: {line}", file=sys.stderr)
    absent = [s.student for s in submissions if not (s.files or s.problems)]
    if absent:
        print(f"coursework: nothing was handed in by {', '.join(absent)}", file=sys.stderr)
    return 1 if failed or strays else 0


def _late(submissions: list[Submission], back: WayBack) -> list[Submission]:
    """The submissions, late where Moodle's worksheet says so of their number."""
    said = {row.number: row.late for row in exports.students(back.sheet, back.form)}
    return [
        replace(s, late=said.get(s.known_as.rpartition("_")[2])) if s.late is None else s
        for s in submissions
    ]


def _strays(
    given: argparse.Namespace,
    submissions: list[Submission],
    times: dict[str, datetime],
    syllabus: Syllabus,
) -> list[str]:
    """What was handed in or written down for somebody whom nobody knows."""
    lines = []
    outside = [s.student for s in submissions if s.outside]
    if outside:
        lines.append(f"the roster does not know who handed in {', '.join(outside)}")
    if names := nobodys(times, submissions):
        lines.append(f"{given.times}: names of nobody, or of several: {', '.join(names)}")
    path = Path(given.out) / "written" / written.TABLE
    read = written.read_points(path, syllabus) if path.exists() else {}
    known = {plain(s.student) for s in submissions}
    if names := sorted({name for name, _ in read} - known):
        lines.append(f"{path}: names of nobody: {', '.join(names)}")
    return lines


def _read(given: argparse.Namespace) -> int:
    from unrolled_book.coursework.reading import Reading

    syllabus = Syllabus.read(given.syllabus)
    week = find_week(syllabus, given.week)
    with Reading(Path(given.marks), syllabus, week, given.port) as server:
        print(f"read at {server.address}; points go into {server.table}; Ctrl-C ends it")
        door = server.door()
        webbrowser.open(door.as_uri())
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            door.unlink(missing_ok=True)
            print("\nthe table has all points; run `grade` again to add them")
    return 0


def _similar(given: argparse.Namespace) -> int:
    from unrolled_book.coursework.similar import page, similar

    syllabus = Syllabus.read(given.syllabus)
    week = find_week(syllabus, given.week)
    submissions = collect(given.submissions)
    if not submissions:
        raise ValueError(f"there are no submissions in {given.submissions!r}")
    pairs = similar(syllabus, week, submissions)
    Path(given.out).write_text(page(f"{syllabus.title}: {week.title}", pairs), "utf8")
    print(f"{len(pairs)} pairs of answers that are alike, in {given.out}")
    return 0


def _gradescope(given: argparse.Namespace) -> int:
    syllabus = Syllabus.read(given.syllabus)
    path = pack(syllabus, find_week(syllabus, given.week), given.out, given.roster)
    size = path.stat().st_size / 1e6
    print(f"{path}, {size:.1f} MB; it holds the secret of the tests, so keep it to yourself")
    return 0


def _tally(given: argparse.Namespace) -> int:
    table, problems = tally(given.exports)
    Path(given.out).write_text(table, "utf8")
    for line in problems:
        print(f"coursework: {line}", file=sys.stderr)
    print(f"{table.count(chr(10)) - 1} different answers, in {given.out}")
    return 1 if problems else 0


def _questions(given: argparse.Namespace) -> int:
    from unrolled_book.coursework import (
        questions,
        questions_canvas,
        questions_moodle,
        questions_qti,
    )

    writers = {"canvas": questions_canvas, "moodle": questions_moodle, "qti": questions_qti}
    syllabus = Syllabus.read(given.syllabus)
    quizzes, left_out = questions.of_course(syllabus)
    Path(given.out).write_bytes(writers[given.system].write(syllabus.title, quizzes))
    print(f"{sum(len(quiz.questions) for quiz in quizzes)} questions in {given.out}")
    if left_out:
        print(f"left out, as an order or places in a drawing: {', '.join(left_out)}")
    return 0


def _autograde(given: argparse.Namespace) -> int:
    print(autograde(given.root))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m unrolled_book.coursework",
        description="Build the notebooks of a course, grade what comes back, pack for Gradescope.",
    )
    actions = parser.add_subparsers(
        required=True, metavar="build | grade | read | similar | gradescope | questions | tally"
    )
    build = actions.add_parser("build", help="make the notebooks for students and teachers")
    build.add_argument("syllabus", help="a TOML file")
    build.add_argument("--out", required=True, help="the folder for the notebooks")
    build.set_defaults(action=_build)
    marks = actions.add_parser("grade", help="grade the submissions of a week")
    marks.add_argument("submissions", help="a folder or zip file, as Canvas or Moodle names them")
    marks.add_argument("--syllabus", required=True, help="a TOML file")
    marks.add_argument("--week", required=True, help="the week's name")
    marks.add_argument("--out", required=True, help="the folder for grades.csv and the pages")
    marks.add_argument("--times", help="a CSV file, student,time: when each handed in")
    marks.add_argument(
        "--gradebook", help="Canvas's gradebook or Moodle's worksheet, to be filled in"
    )
    marks.add_argument("--column", help="the assignment's title in Canvas (the week's title)")
    marks.add_argument("--student", help="grade this student's --exercise again, and nothing else")
    marks.add_argument("--exercise", help="the exercise's name")
    marks.add_argument("--reveal", action="store_true", help="show expected values; after the due")
    marks.add_argument("--workers", type=int, default=2, help="answers that run at once (2)")
    marks.add_argument("--unsafe", action="store_true", help="run answers without a sandbox")
    marks.set_defaults(action=_grade)
    words = actions.add_parser("read", help="give points for answers in words, by keyboard")
    words.add_argument("marks", help="the folder that `grade` wrote")
    words.add_argument("--syllabus", required=True, help="a TOML file")
    words.add_argument("--week", required=True, help="the week's name")
    words.add_argument("--port", type=int, default=0, help="of the page (any that is free)")
    words.set_defaults(action=_read)
    alike = actions.add_parser("similar", help="list answers that are alike, to be looked at")
    alike.add_argument("submissions", help="a folder or zip file, as `grade` takes it")
    alike.add_argument("--syllabus", required=True, help="a TOML file")
    alike.add_argument("--week", required=True, help="the week's name")
    alike.add_argument("--out", default="similar.html", help="the page")
    alike.set_defaults(action=_similar)
    scope = actions.add_parser("gradescope", help="pack a week for Gradescope")
    scope.add_argument("syllabus", help="a TOML file")
    scope.add_argument("--week", required=True, help="the week's name")
    scope.add_argument("--out", default="autograder.zip", help="the zip file")
    scope.set_defaults(action=_gradescope)
    asked = actions.add_parser("questions", help="the chapters' predictions, for your own system")
    asked.add_argument("syllabus", help="a TOML file")
    asked.add_argument("--for", dest="system", choices=("canvas", "moodle", "qti"), required=True)
    asked.add_argument("--out", required=True, help="the file: .zip, of Moodle .xml")
    asked.set_defaults(action=_questions)
    beliefs = actions.add_parser("tally", help="count a class's predictions, by what it believes")
    beliefs.add_argument(
        "exports", nargs="+", help="files of the page of progress, or their folder"
    )
    beliefs.add_argument("--out", default="tally.csv", help="the table")
    beliefs.set_defaults(action=_tally)
    for action in (build, marks, scope):
        action.add_argument(
            "--roster", help="a CSV file with a column student, their ids; or a gradebook's export"
        )
    there = actions.add_parser("autograde")  # what run_autograder calls
    there.add_argument("root", nargs="?", default=ROOT)
    there.set_defaults(action=_autograde)
    return parser


if __name__ == "__main__":
    sys.exit(main())
