"""From submissions to marks, student by student, in five stages with a module each.

`submissions` collects what was handed in, `extract` finds the answers in it, `sandbox` runs each in
a process of its own, which sees the answer's source and the arguments and never an expected value,
`judging` makes a mark of what came out, `folder` writes. Whatever goes wrong with one student
stands in that student's row and stops nobody else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from unrolled_book.coursework.folder import Folder
from unrolled_book.coursework.grader import Begun, Grader, Runs
from unrolled_book.coursework.identity import flagged
from unrolled_book.coursework.item_tests import ItemTests
from unrolled_book.coursework.marks import Grade
from unrolled_book.coursework.roster import key, names_of
from unrolled_book.coursework.submissions import Submission
from unrolled_book.coursework.syllabus import Syllabus, Week, plain
from unrolled_book.exercises.engine.running import quiet

_AHEAD = 2  # students, besides one for each worker, whose answers run before they are judged


def grade(
    syllabus: Syllabus,
    submissions: list[Submission],
    out: str | Path,
    *,
    week: str,
    workers: int = 2,
    unsafe: bool = False,
    times: Mapping[str, datetime] | None = None,
    only: tuple[str, str] | None = None,
    reveal: bool = False,
    sandbox: Runs | None = None,
    progress: bool = True,
) -> list[Grade]:
    """The grades of a week, written into the folder `out` as each student is done.

    grades.csv, report.html, and for each student feedback/….md and .html and results/….json in
    Gradescope's form; written/ for what a person reads, whose points a later run adds. A run that
    was broken off is continued: who was graded with the same files, exercises and seeds is not
    graded again. times: when each handed in, against the deadline. unsafe: without a sandbox, see
    there. only: a student and an exercise; this one is graded again, and all other marks stay what
    they were. reveal: the pages hold the inputs and expected values of tests that failed.

    Raises ValueError for an unknown week, student or exercise, for `only` before all were graded,
    and for `reveal` before the deadline; and the sandbox's `SandboxMissing`.
    """
    chosen = find_week(syllabus, week)
    if reveal and chosen.due and datetime.now(UTC) < chosen.due:
        due = chosen.due.isoformat()
        raise ValueError(f"{chosen.name} is due {due}; expected values are revealed after that")
    if sandbox is None:
        from unrolled_book.coursework.sandbox import Sandbox

        sandbox = Sandbox.find(unsafe=unsafe)
    tests = [ItemTests(syllabus, item) for item in chosen.items]
    handed_in = {plain(student): time for student, time in (times or {}).items()}
    students = [each.student for each in submissions if not each.outside]
    grader = Grader(syllabus, chosen, tests, sandbox, handed_in, students)
    folder = Folder(Path(out), syllabus, chosen, reveal)
    again = ""
    if only:
        again = _student(only[0], submissions)
        grader = replace(grader, tests=[_exercise(only[1], tests)])
    grades = flagged(_graded(grader, submissions, folder, workers, progress, again))
    folder.finish(grades, submissions)
    return grades


def _student(name: str, submissions: list[Submission]) -> str:
    fits = [each.student for each in submissions if key(name) in names_of(each.student)]
    if len(fits) != 1:
        which = f"it is one of {', '.join(fits)}" if fits else "nobody has that name"
        raise ValueError(f"the student {name!r}: {which}; expected a student's whole id")
    return fits[0]


def _exercise(name: str, tests: list[ItemTests]) -> ItemTests:
    for each in tests:
        if each.exercise.name == name.rpartition("/")[2]:
            return each
    names = ", ".join(each.exercise.name for each in tests)
    raise ValueError(f"the week has no exercise {name!r}; it has {names}")


def find_week(syllabus: Syllabus, name: str) -> Week:
    """The week of this name; ValueError lists the names."""
    for week in syllabus.weeks:
        if week.name.casefold() == name.casefold():
            return week
    names = ", ".join(week.name for week in syllabus.weeks)
    raise ValueError(f"the syllabus has no week {name!r}; it has {names}")


def _graded(
    grader: Grader,
    submissions: list[Submission],
    folder: Folder,
    workers: int,
    progress: bool,
    again: str,
) -> list[Grade]:
    """The grades in the order of the submissions. Answers run in threads, all else in this one.

    again: the only student whose answers run, the others' marks are those of an earlier run.
    """
    from tqdm import tqdm

    grades: list[Grade] = []
    ahead: deque[Begun] = deque()
    bar = tqdm(total=len(submissions), unit=" students", disable=None if progress else True)

    def end() -> None:
        begun = ahead.popleft()
        grades.append(folder.write(begun.earlier or grader.end(begun), begun.key))
        bar.update()

    with ThreadPoolExecutor(workers) as pool, quiet(), bar:
        try:
            for submission in submissions:
                student = submission.student
                digest, before = folder.before(student) if again else (grader.key(submission), None)
                earlier = before if student != again else None
                if earlier := earlier or (None if again else folder.earlier(student, digest)):
                    ahead.append(Begun(submission, digest, earlier=earlier))
                else:
                    ahead.append(grader.begin(submission, digest, pool, before))
                while len(ahead) > workers + _AHEAD:
                    end()
            while ahead:
                end()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return grades
