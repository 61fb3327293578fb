"""From submissions to marks: answers run in the sandbox, outcomes are judged out here.

Each answer gets a sandboxed process of its own (`Sandbox.run`), which sees the answer's source and
the arguments, never an expected value. What the solution and the planned wrong answers do on the
hidden tests is computed in this process, once for each exercise, for they are the course's own.
Whatever goes wrong with one student stands in that student's row and stops nobody else.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from unrolled_book.coursework import feedback, report, written
from unrolled_book.coursework.answers import Answers, take
from unrolled_book.coursework.marks import Grade, Mark, file_name, from_data, table
from unrolled_book.coursework.personal import own
from unrolled_book.coursework.results import results
from unrolled_book.coursework.submissions import Submission, names_of
from unrolled_book.coursework.syllabus import Item, Syllabus, Week, plain
from unrolled_book.exercises.engine import Call, Exercise, marking
from unrolled_book.exercises.engine.marking import Report, outcomes_of, planned_outcomes
from unrolled_book.exercises.engine.running import Outcome, quiet
from unrolled_book.exercises.engine.wire import encode

_AHEAD = 2  # students, besides one for each worker, whose answers run before they are judged
_MOST_LINES, _LONGEST_LINE = 24, 300  # of a report: an answer may hand out megabytes
_LARGE = 200_000  # characters of an outcome as JSON, beyond twenty times the right one's
_LINE_NUMBER = re.compile(r"\(line \d+: `")
_KINDS = {"passed": "right", "failed": "wrong", "unwritten": "unwritten"}


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
    tests = [_Tests(syllabus, item) for item in chosen.items]
    handed_in = {plain(student): time for student, time in (times or {}).items()}
    grader = _Grader(syllabus, chosen, tests, sandbox, handed_in)
    folder = _Folder(Path(out), syllabus, chosen)
    grades = _graded(grader, submissions, folder, workers, progress)
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
    grader: _Grader, submissions: list[Submission], folder: _Folder, workers: int, progress: bool
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
                earlier = folder.earlier(submission.student, key)
                ahead.append(earlier or grader.begin(submission, key, pool))
                while len(ahead) > workers + _AHEAD:
                    end()
            while ahead:
                end()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return grades


# ---- the tests of an exercise --------------------------------------------------------------------


@dataclass(frozen=True)
class _Task:
    """An exercise with hidden tests, and what our own answers do on them."""

    exercise: Exercise
    calls: list[Call]
    arguments: list[Any]
    expected: list[Outcome]
    planned: dict[str, list[Outcome]]


def _task(exercise: Exercise, seed: int) -> _Task:
    calls = exercise.calls(seed)
    return _Task(
        exercise,
        calls,
        [] if exercise.is_value else [encode(call.args) for call in calls],
        outcomes_of(exercise, exercise.solution, calls),
        planned_outcomes(exercise, calls),
    )


@dataclass
class _Tests:
    """The tests of an item: one task for all, made when it is first needed, or one for each."""

    syllabus: Syllabus
    item: Item
    exercise: Exercise = field(init=False)
    shared: _Task | None = None

    def __post_init__(self) -> None:
        self.exercise = self.syllabus.exercise(self.item)
        self.given = _imports(self.exercise)

    def task(self, student: str) -> _Task:
        seed = self.syllabus.seed_of(self.item)
        if self.item.personal:
            mine = self.syllabus.personal_seed(self.item, student)
            return _task(own(self.exercise, mine), seed)
        if self.shared is None:
            self.shared = _task(self.exercise, seed)
        return self.shared

    def needs(self, package: str) -> bool:
        """Whether the exercise's own imports name the package."""
        return re.search(rf"(?m)^(from|import) {package}\b", self.given) is not None

    def fingerprint(self, student: str) -> str:
        """All that a mark depends on, but for what was handed in."""
        seeds = [self.syllabus.seed_of(self.item)]
        if self.item.personal:
            seeds.append(self.syllabus.personal_seed(self.item, student))
        return f"{self.item} {seeds} {self.exercise.source}"

    def mark(self, state: str, **parts: Any) -> Mark:
        """A mark for this item; without points where none are given."""
        item, exercise = self.item, self.exercise
        points = parts.pop("points", 0.0)
        return Mark(exercise.name, exercise.title, state, points, item.points, **parts)


@cache
def _program_digest() -> bytes:
    """The hash of what reads, runs and judges answers."""
    folders = (Path(__file__).parent, Path(marking.__file__).parent)
    found = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        found.update(path.name.encode() + path.read_bytes())
    return found.digest()


def _imports(exercise: Exercise) -> str:
    """The imports at the head of the exercise's file, but for those of the book's teaching."""
    head = re.split(r"(?m)^# %%", exercise.source)[0]
    found = (n for n in ast.parse(head).body if isinstance(n, (ast.Import, ast.ImportFrom)))
    return "\n".join(line for line in map(ast.unparse, found) if "unrolled_book" not in line)


# ---- one student ---------------------------------------------------------------------------------


class _Missing(Exception):
    """Why there is no answer, in a sentence for the student."""


@dataclass
class _Job:
    """One answer: under way, or with the mark that it has already."""

    tests: _Tests
    task: _Task | None = None
    future: Future | None = None
    mark: Mark | None = None
    notes: tuple[str, ...] = ()


@dataclass
class _Begun:
    """A student whose answers run, or who was graded in an earlier run."""

    submission: Submission
    key: str
    jobs: list[_Job] = field(default_factory=list)
    problems: tuple[str, ...] = ()
    error: str = ""
    earlier: Grade | None = None


@dataclass(frozen=True)
class _Grader:
    syllabus: Syllabus
    week: Week
    tests: list[_Tests]
    sandbox: Runs
    times: dict[str, datetime]

    def key(self, submission: Submission) -> str:
        """The hash of all that the grade depends on."""
        found = hashlib.sha256(_program_digest())
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
        files, problems = _read(submission, self.week)
        begun = _Begun(submission, key, [], (*submission.problems, *problems), submission.error)
        if begun.problems and not files and not begun.error:
            begun.error = f"no file can be read: {begun.problems[-1]}"
        for tests in self.tests:
            begun.jobs.append(self._job(tests, submission, files, pool))
        return begun

    def _job(
        self,
        tests: _Tests,
        submission: Submission,
        files: list[Answers],
        pool: ThreadPoolExecutor,
    ) -> _Job:
        if tests.item.personal and submission.outside:
            says = "not marked: the roster has no such student, so nobody knows these numbers"
            return _Job(tests, mark=tests.mark("error", verdict=says, slip="not in the roster"))
        try:
            task = tests.task(submission.student)
            exercise = task.exercise
            program, notes = _program(exercise, files, tests.given)
        except _Missing as reason:
            return _Job(tests, mark=tests.mark("missing", verdict=str(reason), slip="missing"))
        except Exception as error:  # an exercise of the course's own that does not run
            return _Job(tests, mark=_failed(tests, error))
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
        return _Job(tests, task, future, notes=tuple(notes))

    def end(self, begun: _Begun) -> Grade:
        """Wait for the student's answers, and judge them."""
        marks = []
        for job in begun.jobs:
            try:
                marks.append(job.mark or _judged(job))
            except Exception as error:  # the grader's own fault: it must not stop the others
                marks.append(_failed(job.tests, error))
        errors = [begun.error] if begun.error else []
        errors += [f"{m.name}: {m.verdict}" for m in marks if m.state == "error"]
        return Grade(
            student=begun.submission.student,
            marks=tuple(marks),
            late=self.late(begun.submission),
            kept=self.syllabus.late,
            problems=begun.problems,
            error="; ".join(errors),
            submitted=bool(begun.submission.files),
        )


def _read(submission: Submission, week: Week) -> tuple[list[Answers], list[str]]:
    """The files, those that count most first, and what was wrong with them."""
    files, problems = [], []
    for name, body in submission.files:
        try:
            files.append(take(name, body))
        except Exception as error:  # a file that was made to break what reads it, too
            plain = isinstance(error, ValueError)
            problems.append(str(error) if plain else f"{name} cannot be read")
    for answers in files:
        problems += answers.problems
    newest_first = files[::-1]
    return sorted(newest_first, key=lambda a: not _is_of(a.file, week)), problems


def _is_of(file: str, week: Week) -> bool:
    return week.name.casefold() in file.casefold()


def _program(exercise: Exercise, files: list[Answers], given: str) -> tuple[str, list[str]]:
    name = f"{exercise.chapter}/{exercise.name}"
    if not files:
        raise _Missing("there is no file that can be read")
    chosen = next((answers for answers in files if answers.defines(name)), files[0])
    notes = chosen.notes(name)
    others = [a.file for a in files if a is not chosen and a.defines(name)]
    if others or chosen is not files[0]:
        too = f"; {', '.join(others)} defines it, too" if others else ""
        notes.append(f"taken from {chosen.file}{too}")
    try:
        return chosen.program(name, given), notes
    except ValueError as error:
        raise _Missing(str(error)) from error


def _judged(job: _Job) -> Mark:
    """The mark for the outcomes, in words that hold no expected value."""
    result, task, tests = job.future.result(), job.task, job.tests
    parts = {"notes": job.notes, "seconds": round(result.seconds, 3)}
    if result.outcomes is None:
        said = _LINE_NUMBER.sub("(in `", result.problem)[:_LONGEST_LINE]
        n_tests = len(task.calls)
        slip = re.split(r" \(in |: ", said)[0]
        return tests.mark("wrong", verdict=said, n_tests=n_tests, slip=slip, **parts)
    said = marking.mark(
        task.exercise,
        task.calls,
        [_of_a_size(*both) for both in zip(result.outcomes, task.expected, strict=True)],
        task.planned,
        expected=task.expected,
        reveal=False,
    )
    return _in_words(tests, said, _share(said, task.calls), result.problem, parts)


def _of_a_size(outcome: Outcome, expected: Outcome) -> Outcome:
    """The outcome; what is far larger than the right one is named only, for judging takes time."""
    try:
        size, right = (len(json.dumps(each)) for each in (outcome, expected))
    except (TypeError, ValueError, RecursionError):
        return {"value": {"unknown": "value that cannot be read"}, "mutated": []}
    if size <= _LARGE + 20 * right or "value" not in outcome:
        return outcome
    value = outcome["value"]
    kind = next(iter(value)) if isinstance(value, dict) else type(value).__name__
    return {"value": {"unknown": f"{kind} of {size / 1e6:.1f} MB"}, "mutated": []}


def _share(said: Report, calls: list[Call]) -> float:
    """The share of the hidden tests that passed; of a value's parts, of which none is visible."""
    hidden = [ok for ok, call in zip(said.right, calls, strict=False) if not call.visible]
    if hidden:
        return sum(hidden) / len(hidden)
    return said.n_passed / said.n_tests if said.n_tests else 0.0


def _in_words(
    tests: _Tests, said: Report, share: float, problem: str, parts: dict[str, Any]
) -> Mark:
    n = said.n_tests
    state = "partly" if said.state == "failed" and share else _KINDS[said.state]
    full = said.state == "passed"
    points = tests.item.points * (share if tests.item.credit == "tests" else full)
    lines = [line[:_LONGEST_LINE] for line in said.details]
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"… {len(lines) - _MOST_LINES} more lines"]
    raised = f"raised {said.raised}" if said.raised else "another mistake"
    return tests.mark(
        state,
        points=round(points, 2),
        n_passed=said.n_passed,
        n_tests=n,
        verdict=said.verdict[:_LONGEST_LINE],
        lines=tuple(lines),
        causes=said.causes,
        hint=said.hint,
        slip="" if full else [*said.causes, problem or raised][0],
        **parts,
    )


def _failed(tests: _Tests, error: BaseException) -> Mark:
    said = f"the grader failed here ({type(error).__name__}: {error})"
    return tests.mark("error", verdict=said[:_LONGEST_LINE], slip="the grader failed")


# ---- what is written -----------------------------------------------------------------------------


class _Folder:
    """The folder of results. `.graded` holds what an interrupted run is continued from."""

    def __init__(self, out: Path, syllabus: Syllabus, week: Week):
        self.out, self.week = out, week
        self.syllabus = replace(syllabus, weeks=(week,))
        self.title = f"{syllabus.title}: {week.title}"
        self.names: dict[str, str] = {}
        self.taken: set[str] = set()
        for part in ("feedback", "results", ".graded"):
            (out / part).mkdir(parents=True, exist_ok=True)
        points = out / "written" / written.TABLE
        self.read = written.read_points(points, self.syllabus) if points.exists() else {}

    def name(self, student: str) -> str:
        if student not in self.names:
            self.names[student] = file_name(student, self.taken)
        return self.names[student]

    def earlier(self, student: str, key: str) -> _Begun | None:
        """The grade of an earlier run, if nothing has changed since and no error was in it."""
        path = self.out / ".graded" / f"{self.name(student)}.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["key"] != key:
                return None
            grade = from_data(data["grade"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return None if grade.error else _Begun(Submission(student), key, earlier=grade)

    def write(self, grade: Grade, key: str) -> Grade:
        """Write the student's pages, and last of all what makes a later run skip the student.

        Returns the grade with the points that a person has given.
        """
        name = self.name(grade.student)
        record = json.dumps({"key": key, "grade": asdict(grade)})
        try:
            grade = self._with_points(grade)
            pages = self.out / "feedback"
            _save(pages / f"{name}.md", feedback.markdown(grade, self.title))
            _save(pages / f"{name}.html", feedback.html(grade, self.title))
            _save(self.out / "results" / f"{name}.json", results(grade))
            _save(self.out / ".graded" / f"{name}.json", record)
        except Exception as error:  # one student's page must not stop the others
            return replace(grade, error=f"the pages could not be written ({error})")
        return grade

    def _with_points(self, grade: Grade) -> Grade:
        """What a person has read: in place of an experiment's tests, and for questions."""
        marks = [self._read_mark(grade.student, mark) for mark in grade.marks]
        for question in self.week.questions:
            says = "a person reads this answer; there are no points yet"
            mark = Mark(question.name, question.title, "unread", 0.0, question.points, verdict=says)
            marks.append(self._read_mark(grade.student, mark))
        return replace(grade, marks=tuple(marks))

    def _read_mark(self, student: str, mark: Mark) -> Mark:
        given = self.read.get((plain(student), mark.name))
        if given is None:
            return mark
        notes = (*mark.notes, given.comment) if given.comment else mark.notes
        if given.points is None:
            return replace(mark, notes=notes)
        share = given.points / mark.out_of
        state = "right" if share >= 1 else "partly" if share > 0 else "wrong"
        says = mark.verdict if mark.state != "unread" else ""
        verdict = f"{says}; these points are a person's" if says else "a person has read it"
        return replace(mark, state=state, points=given.points, notes=notes, verdict=verdict)

    def _unread(self, grade: Grade) -> list[str]:
        """The questions and experiments of the student that no person has given points for."""
        if not grade.submitted:
            return []
        given = {
            name
            for (student, name), said in self.read.items()
            if student == plain(grade.student) and said.points is not None
        }
        return [name for name in written.tasks(self.syllabus) if name not in given]

    def finish(self, grades: list[Grade], submissions: list[Submission]) -> None:
        """The files about the whole class."""
        names = [item.exercise.rpartition("/")[2] for item in self.week.items]
        names += [question.name for question in self.week.questions]
        unread = {grade.student: self._unread(grade) for grade in grades}
        _save(self.out / "grades.csv", table(grades, names, unread))
        _save(self.out / "report.html", report.html(grades, self.title))
        written.write(self.syllabus, submissions, self.out / "written")


def _save(path: Path, text: str) -> None:
    """All of it or nothing: a run may be broken off in the middle."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    part.replace(path)
