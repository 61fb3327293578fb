"""One student's answers: set going, waited for, and judged."""

from __future__ import annotations

import hashlib
import re
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from unrolled_book.coursework import written
from unrolled_book.coursework.answers import Answers, decoded
from unrolled_book.coursework.extract import Missing, extract, program_for
from unrolled_book.coursework.identity import claimed, sign, whose_numbers
from unrolled_book.coursework.item_tests import ItemTests, Task, program_digest
from unrolled_book.coursework.judging import failed, fits, judged
from unrolled_book.coursework.marks import Grade, Mark
from unrolled_book.coursework.roster import names_of
from unrolled_book.coursework.submissions import Submission
from unrolled_book.coursework.syllabus import Syllabus, Week, plain
from unrolled_book.coursework.written import words

_SECRET = re.compile(r"<!-- secret: ([0-9a-f]{4}) -->")


class Runs(Protocol):
    """What runs an answer and gives a result with outcomes, problem and seconds: a `Sandbox`."""

    def run(self, program: str, name: str, arguments: list[Any], **how: Any) -> Any:
        """See `Sandbox.run`."""


@dataclass
class Job:
    """One answer: under way, or with the mark that it has already."""

    tests: ItemTests
    task: Task | None = None
    future: Future | None = None
    mark: Mark | None = None
    notes: tuple[str, ...] = ()
    program: str = ""


@dataclass
class Begun:
    """A student whose answers run, or who was graded in an earlier run."""

    submission: Submission
    key: str
    jobs: list[Job] = field(default_factory=list)
    problems: tuple[str, ...] = ()
    error: str = ""
    earlier: Grade | None = None
    before: Grade | None = None  # whose other marks stay
    claims: str = ""
    signs: list[tuple[str, str]] = field(default_factory=list)
    blank: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Grader:
    """Grades the submissions of one week, each only when something about it has changed."""

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

    def begin(
        self,
        submission: Submission,
        key: str,
        pool: ThreadPoolExecutor,
        before: Grade | None = None,
    ) -> Begun:
        """Set the student's answers going. before: a grade whose other marks stay."""
        files, problems = extract(submission, self.week)
        problems = (*submission.problems, *problems)
        begun = Begun(submission, key, [], problems, submission.error, before=before)
        if begun.problems and not files and not begun.error:
            begun.error = f"no file can be read: {begun.problems[-1]}"
        begun.claims = claimed(files)
        for tests in self.tests:
            begun.jobs.append(self._job(tests, submission, files, pool))
        for task in self.words:
            said = words(submission.files, task)
            begun.signs += [(task, found)] if (found := sign(said.text)) else []
            begun.blank += [] if said.text or said.runs else [task]
        return begun

    def _job(
        self,
        tests: ItemTests,
        submission: Submission,
        files: list[Answers],
        pool: ThreadPoolExecutor,
    ) -> Job:
        if tests.item.personal and submission.outside:
            says = "not marked: the roster has no such student, so nobody knows these numbers"
            return Job(tests, mark=tests.mark("error", verdict=says, slip=says))
        if tests.item.personal and (other := self._other_secret(submission)):
            says = (
                f"not marked: the notebook was made with another secret (fingerprint {other}; the "
                f"one in use has {self.syllabus.fingerprint}), so its numbers are not these"
            )
            return Job(tests, mark=tests.mark("error", verdict=says, slip=says))
        try:
            task = tests.task(submission.student)
            exercise = task.exercise
            program, notes = program_for(exercise, files, tests.given)
        except Missing as reason:
            return Job(tests, mark=tests.mark("missing", verdict=str(reason), slip="missing"))
        except Exception as error:  # an exercise of the course's own that does not run
            return Job(tests, mark=failed(tests, error))
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
        return Job(tests, task, future, notes=tuple(notes), program=program)

    def _other_secret(self, submission: Submission) -> str:
        """The fingerprint in the notebooks, where it is not that of the secret in use."""
        found = [m for _, body in submission.files for m in _SECRET.findall(decoded(body))]
        return found[-1] if found and self.syllabus.fingerprint not in found else ""

    @property
    def words(self) -> list[str]:
        """The tasks that are answered in words."""
        return list(written.tasks(replace(self.syllabus, weeks=(self.week,))))

    def _look_at(self, job: Job, mark: Mark, student: str) -> tuple[str, ...]:
        """A flag where a personal result is another's."""
        if not job.tests.item.personal or mark.state not in ("wrong", "partly"):
            return ()
        outcomes = job.future.result().outcomes
        others = (s for s in self.students if plain(s) != plain(student))
        try:
            return whose_numbers([s for s in others if fits(job.tests.task(s), outcomes)])
        except Exception:  # a task that cannot be made is said where that student is graded
            return ()

    def end(self, begun: Begun) -> Grade:
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
        late, before = self.late(begun.submission), begun.before
        if before:
            new = {mark.name: mark for mark in marks}
            signs += [each for each in before.signs if each not in signs and each[0] not in new]
            marks = [new.get(mark.name, mark) for mark in before.marks]
            flags, late = [*dict.fromkeys([*before.flags, *flags])], before.late
            begun.blank = list(before.blank)
        errors = [begun.error] if begun.error else []
        errors += [f"{m.name}: {m.slip or m.verdict}" for m in marks if m.state == "error"]
        return Grade(
            student=begun.submission.student,
            marks=tuple(marks),
            late=late,
            kept=self.syllabus.late,
            problems=begun.problems,
            error="; ".join(errors),
            submitted=bool(begun.submission.files),
            claims=begun.claims,
            signs=tuple(signs),
            flags=tuple(flags),
            blank=tuple(begun.blank),
        )
