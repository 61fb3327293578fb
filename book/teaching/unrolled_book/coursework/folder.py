"""The folder that a run of the grader writes, and continues when it was broken off."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from unrolled_book.coursework import feedback, report, written
from unrolled_book.coursework.marks import Grade, Mark, file_name, from_data, table
from unrolled_book.coursework.results import results
from unrolled_book.coursework.submissions import Submission
from unrolled_book.coursework.syllabus import Syllabus, Week, plain


class Folder:
    """The folder of results. `.graded` holds what an interrupted run is continued from."""

    def __init__(self, out: Path, syllabus: Syllabus, week: Week, reveal: bool = False):
        self.out, self.week, self.reveal = out, week, reveal
        self.syllabus = replace(syllabus, weeks=(week,))
        self.title = f"{syllabus.title}: {week.title}"
        self.names: dict[str, str] = {}
        self.taken: set[str] = set()
        for part in ("feedback", "results", ".graded"):
            (out / part).mkdir(parents=True, exist_ok=True)
        self._same_secret(out / ".graded" / "secret.txt")
        points = out / "written" / written.TABLE
        self.read = written.read_points(points, self.syllabus) if points.exists() else {}

    def _same_secret(self, path: Path) -> None:
        """Raise ValueError where the folder was made with another secret."""
        now = self.syllabus.fingerprint
        then = path.read_text(encoding="utf-8").strip() if path.exists() else now
        if then != now:
            raise ValueError(
                f"{self.out} was graded with another secret (fingerprint {then}; the one in use "
                f"has {now}); expected the same one, or another folder"
            )
        save(path, now + "\n")

    def name(self, student: str) -> str:
        if student not in self.names:
            self.names[student] = file_name(student, self.taken)
        return self.names[student]

    def earlier(self, student: str, key: str) -> Grade | None:
        """The grade of an earlier run, if nothing has changed since and no error was in it."""
        found = self._record(student)
        return found[1] if found and found[0] == key and not found[1].error else None

    def before(self, student: str) -> tuple[str, Grade]:
        """The key and the grade of an earlier run, whatever has changed since.

        Raises ValueError where there is none.
        """
        if found := self._record(student):
            return found
        raise ValueError(
            f"{self.out} has no earlier marks of {student}; expected a folder in which all were "
            "graded by this version of the program"
        )

    def _record(self, student: str) -> tuple[str, Grade] | None:
        path = self.out / ".graded" / f"{self.name(student)}.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return data["key"], from_data(data["grade"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, grade: Grade, key: str) -> Grade:
        """Write the student's pages, and last of all what makes a later run skip the student.

        Returns the grade with the points that a person has given.
        """
        name = self.name(grade.student)
        record = json.dumps({"key": key, "grade": asdict(grade)})
        try:
            grade = self._with_points(grade)
            pages = self.out / "feedback"
            save(pages / f"{name}.md", feedback.markdown(grade, self.title))
            save(pages / f"{name}.html", feedback.html(grade, self.title))
            save(self.out / "results" / f"{name}.json", results(grade))
            save(self.out / ".graded" / f"{name}.json", record)
        except Exception as error:  # one student's page must not stop the others
            return replace(grade, error=f"the pages could not be written ({error})")
        return grade

    def _with_points(self, grade: Grade) -> Grade:
        """What a person has read: in place of an experiment's tests, and for questions."""
        marks = [self._read_mark(grade.student, mark) for mark in grade.marks]
        for question in self.week.questions:
            state, says = "unread", "a person reads this answer; there are no points yet"
            if question.name in grade.blank:
                state, says = "missing", "no answer was found in what was handed in"
            mark = Mark(question.name, question.title, state, 0.0, question.points, verdict=says)
            marks.append(self._read_mark(grade.student, mark))
        if self.reveal:
            marks = [replace(mark, lines=(*mark.lines, *mark.revealed)) for mark in marks]
        return replace(grade, marks=tuple(marks))

    def _read_mark(self, student: str, mark: Mark) -> Mark:
        given = self.read.get((plain(student), mark.name))
        if given is None:
            return mark
        notes = (*mark.notes, given.comment) if given.comment else mark.notes
        if given.points is None:
            return replace(mark, notes=notes)
        questions = [question.name for question in self.week.questions]
        share = given.points / mark.out_of
        state = "right" if share >= 1 else "partly" if share > 0 else "wrong"
        says = "" if mark.state == "unread" or mark.name in questions else mark.verdict
        verdict = f"{says}; these points are a person's" if says else "a person has read it"
        return replace(mark, state=state, points=given.points, notes=notes, verdict=verdict)

    def _unread(self, grade: Grade) -> list[str]:
        """The student's answers that no person has given points for; what is blank has none."""
        if not grade.submitted:
            return []
        given = {
            name
            for (student, name), said in self.read.items()
            if student == plain(grade.student) and said.points is not None
        }
        known = {*given, *grade.blank}
        return [name for name in written.tasks(self.syllabus) if name not in known]

    def finish(self, grades: list[Grade], submissions: list[Submission]) -> None:
        """The files about the whole class."""
        names = [item.exercise.rpartition("/")[2] for item in self.week.items]
        names += [question.name for question in self.week.questions]
        unread = {grade.student: self._unread(grade) for grade in grades}
        save(self.out / "grades.csv", table(grades, names, unread))
        save(self.out / "report.html", report.html(grades, self.title))
        written.write(self.syllabus, submissions, self.out / "written")


def save(path: Path, text: str) -> None:
    """All of it or nothing: a run may be broken off in the middle."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    part.replace(path)
