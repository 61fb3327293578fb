"""From submissions to marks, student by student, in five stages with a module each.

`submissions` collects what was handed in, `extract` finds the answers in it, `sandbox` runs each in
a process of its own, which sees the answer's source and the arguments and never an expected value,
`judging` makes a mark of what came out, `folder` writes. Whatever goes wrong with one student
stands in that student's row and stops nobody else.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from unrolled_book.coursework import written
from unrolled_book.coursework.answers import Answers, decoded
from unrolled_book.coursework.extract import Missing, extract, program_for
from unrolled_book.coursework.folder import Folder
from unrolled_book.coursework.identity import claimed, flagged, sign, whose_numbers
from unrolled_book.coursework.item_tests import ItemTests, Task, program_digest
from unrolled_book.coursework.judging import failed, fits, judged
from unrolled_book.coursework.marks import Grade, Mark
from unrolled_book.coursework.roster import names_of
from unrolled_book.coursework.submissions import Submission
from unrolled_book.coursework.syllabus import Syllabus, Week, plain
from unrolled_book.coursework.written import words
from unrolled_book.exercises.engine.running import quiet

_SECRET = re.compile(r"<!-- secret: ([0-9a-f]{4}) -->")
_AHEAD = 2  # students, besides one for each worker, whose answers run before they are judged


class Runs(Protocol):
    """What runs an answer and gives a result with outcomes, problem and seconds: a `Sandbox`."""

    def run(self, program: str, name: str, arguments: list[Any], **how: Any) -> Any:
        """See `Sandbox.run`."""


def grade(
    syllabus: Syllabus,
    submissions: list[Submission],
    out: str | Path,
    *,
    week: str,
    workers: int = 2,
    unsafe: bool = False,
    times: Mapping[str, datetime] | None = None,
    sandbox: Runs | None = None,
    progress: bool = True,
) -> list[Grade]:
    """The grades of a week, written into the folder `out` as each student is done.

    grades.csv, report.html, and for each student feedback/….md and .html and results/….json in
    Gradescope's form; written/ for what a person reads, whose points a later run adds. A run that
    was broken off is continued: who was graded with the same files, exercises and seeds is not
    graded again. times: when each handed in, against the deadline. unsafe: without a sandbox, see
    there. Raises ValueError for an unknown week, and the sandbox's `SandboxMissing`.
    """
    chosen = find_week(syllabus, week)
    if sandbox is None:
        from unrolled_book.coursework.sandbox import Sandbox

        sandbox = Sandbox.find(unsafe=unsafe)
    tests = [ItemTests(syllabus, item) for item in chosen.items]
    handed_in = {plain(student): time for student, time in (times or {}).items()}
    students = [each.student for each in submissions if not each.outside]
    grader = _Grader(syllabus, chosen, tests, sandbox, handed_in, students)
    folder = Folder(Path(out), syllabus, chosen)
    grades = flagged(_graded(grader, submissions, folder, workers, progress))
    folder.finish(grades, submissions)
    return grades


def find_week(syllabus: Syllabus, name: str) -> Week:
    """The week of this name; ValueError lists the names."""
    for week in syllabus.weeks:
        if week.name.casefold() == name.casefold():
            return week
    names = ", ".join(week.name for week in syllabus.weeks)
    raise ValueError(f"the syllabus has no week {name!r}; it has {names}")


def _graded(
    grader: _Grader, submissions: list[Submission], folder: Folder, workers: int, progress: bool
) -> list[Grade]:
    """The grades in the order of the submissions. Answers run in threads, all else in this one."""
    from tqdm import tqdm

    grades: list[Grade] = []
    ahead: deque[_Begun] = deque()
    bar = tqdm(total=len(submissions), unit=" students", disable=None if progress else True)

    def end() -> None:
        begun = ahead.popleft()
        grades.append(folder.write(begun.earlier or grader.end(begun), begun.key))
        bar.update()

    with ThreadPoolExecutor(workers) as pool, quiet(), bar:
        try:
            for submission in submissions:
                key = grader.key(submission)
                if earlier := folder.earlier(submission.student, key):
                    ahead.append(_Begun(submission, key, earlier=earlier))
                else:
                    ahead.append(grader.begin(submission, key, pool))
                while len(ahead) > workers + _AHEAD:
                    end()
            while ahead:
                end()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return grades


@dataclass
class _Job:
    """One answer: under way, or with the mark that it has already."""

    tests: ItemTests
    task: Task | None = None
    future: Future | None = None
    mark: Mark | None = None
    notes: tuple[str, ...] = ()
    program: str = ""


@dataclass
class _Begun:
    """A student whose answers run, or who was graded in an earlier run."""

    submission: Submission
    key: str
    jobs: list[_Job] = field(default_factory=list)
    problems: tuple[str, ...] = ()
    error: str = ""
    earlier: Grade | None = None
    claims: str = ""
    signs: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _Grader:
    syllabus: Syllabus
    week: Week
    tests: list[ItemTests]
    sandbox: Runs
    times: dict[str, datetime]
    students: list[str]  # who may have personal numbers

    def key(self, submission: Submission) -> str:
        """The hash of all that the grade depends on."""
        found = hashlib.sha256(program_digest())
        late = (self.late(submission), self.syllabus.late)
        about = (submission.student, submission.problems, submission.error, submission.outside)
        for part in (about, late):
            found.update(f"{part!r}\0".encode())
        for tests in self.tests:
            found.update(tests.fingerprint(submission.student).encode() + b"\0")
        for name, body in submission.files:
            found.update(name.encode() + b"\0" + hashlib.sha256(body).digest())
        return found.hexdigest()

    def late(self, submission: Submission) -> bool | None:
        """By the times that were given, or else as the learning platform says."""
        names = sorted(names_of(submission.student), key=len, reverse=True)  # the whole one first
        times = [self.times[name] for name in names if name in self.times]
        return times[0] > self.week.due if times and self.week.due else submission.late

    def begin(self, submission: Submission, key: str, pool: ThreadPoolExecutor) -> _Begun:
        """Set the student's answers going."""
        files, problems = extract(submission, self.week)
        begun = _Begun(submission, key, [], (*submission.problems, *problems), submission.error)
        if begun.problems and not files and not begun.error:
            begun.error = f"no file can be read: {begun.problems[-1]}"
        begun.claims = claimed(files)
        for tests in self.tests:
            begun.jobs.append(self._job(tests, submission, files, pool))
        for task in self.words:
            said = words(submission.files, task).text
            begun.signs += [(task, found)] if (found := sign(said)) else []
        return begun

    def _job(
        self,
        tests: ItemTests,
        submission: Submission,
        files: list[Answers],
        pool: ThreadPoolExecutor,
    ) -> _Job:
        if tests.item.personal and submission.outside:
            says = "not marked: the roster has no such student, so nobody knows these numbers"
            return _Job(tests, mark=tests.mark("error", verdict=says, slip=says))
        if tests.item.personal and (other := self._other_secret(submission)):
            says = (
                f"not marked: the notebook was made with another secret (fingerprint {other}; the "
                f"one in use has {self.syllabus.fingerprint}), so its numbers are not these"
            )
            return _Job(tests, mark=tests.mark("error", verdict=says, slip=says))
        try:
            task = tests.task(submission.student)
            exercise = task.exercise
            program, notes = program_for(exercise, files, tests.given)
        except Missing as reason:
            return _Job(tests, mark=tests.mark("missing", verdict=str(reason), slip="missing"))
        except Exception as error:  # an exercise of the course's own that does not run
            return _Job(tests, mark=failed(tests, error))
        future = pool.submit(
            self.sandbox.run,
            program,
            exercise.name,
            task.arguments,
            use_source=exercise.use_source,
            is_value=exercise.is_value,
            library=tests.needs("unrolled"),
            torch=tests.needs("torch"),
        )
        return _Job(tests, task, future, notes=tuple(notes), program=program)

    def _other_secret(self, submission: Submission) -> str:
        """The fingerprint in the notebooks, where it is not that of the secret in use."""
        found = [m for _, body in submission.files for m in _SECRET.findall(decoded(body))]
        return found[-1] if found and self.syllabus.fingerprint not in found else ""

    @property
    def words(self) -> list[str]:
        """The tasks that are answered in words."""
        return list(written.tasks(replace(self.syllabus, weeks=(self.week,))))

    def _look_at(self, job: _Job, mark: Mark, student: str) -> tuple[str, ...]:
        """A flag where a personal result is another's."""
        if not job.tests.item.personal or mark.state not in ("wrong", "partly"):
            return ()
        outcomes = job.future.result().outcomes
        others = (s for s in self.students if plain(s) != plain(student))
        try:
            return whose_numbers([s for s in others if fits(job.tests.task(s), outcomes)])
        except Exception:  # a task that cannot be made is said where that student is graded
            return ()

    def end(self, begun: _Begun) -> Grade:
        """Wait for the student's answers, and judge them."""
        marks, flags, signs = [], [], list(begun.signs)
        for job in begun.jobs:
            try:
                said = job.mark or judged(job.tests, job.task, job.future.result(), job.notes)
                if job.future and said.state != "unwritten" and not job.task.exercise.is_value:
                    found = sign(job.program, job.task.exercise.starter)
                    signs += [(said.name, found)] if found else []
                flags += self._look_at(job, said, begun.submission.student) if job.future else ()
                marks.append(said)
            except Exception as error:  # the grader's own fault: it must not stop the others
                marks.append(failed(job.tests, error))
        errors = [begun.error] if begun.error else []
        errors += [f"{m.name}: {m.slip or m.verdict}" for m in marks if m.state == "error"]
        return Grade(
            student=begun.submission.student,
            marks=tuple(marks),
            late=self.late(begun.submission),
            kept=self.syllabus.late,
            problems=begun.problems,
            error="; ".join(errors),
            submitted=bool(begun.submission.files),
            claims=begun.claims,
            signs=tuple(signs),
            flags=tuple(flags),
        )
