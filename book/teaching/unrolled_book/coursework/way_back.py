"""The way back into Canvas or Moodle: the table to upload, and a zip file of feedback.

Canvas takes its own gradebook again (instructure/canvas-lms, lib/gradebook_importer.rb): the first
columns up to `Section` say who it is, the row "Points Possible" what there is, and a column is an
assignment's by its title or by the number in brackets behind it. Columns that are not there stay as
they are in Canvas, so the table holds no other assignment. Feedback goes back as *Upload
Submissions* does (app/models/abstract_assignment.rb, infer_comment_context_from_filename): by the
first two numbers in a file's name, the student's and the attachment's. Canvas shows the file under
the name of what was handed in, so it has that form: a notebook for a notebook.

Moodle takes its grading worksheet again (moodle/moodle, mod/assign/feedback/offline/
importgradeslib.php), with `Grade` filled in, and feedback files in folders that are named as in its
download (mod/assign/feedback/file/importziplib.php), Name_number_assignsubmission_file_.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unrolled_book.coursework import exports, feedback
from unrolled_book.coursework.editions import notebook
from unrolled_book.coursework.exports import Form, Row
from unrolled_book.coursework.folder import save
from unrolled_book.coursework.marks import Grade, cell
from unrolled_book.coursework.packing import zipped
from unrolled_book.coursework.roster import key, names_of
from unrolled_book.coursework.submissions import Submission
from unrolled_book.coursework.tables import Sheet

_TITLE = re.compile(r"(.*)\s\(\d+\)")  # as Canvas reads "Week 1 (4711)"
_EXCUSED = "EX"


@dataclass
class WayBack:
    """The two files, in the form of the system whose table this is.

    column: the assignment's title in Canvas. Raises ValueError where the table is none of Canvas's
    or Moodle's, or two of its columns have that title.
    """

    sheet: Sheet
    column: str
    form: Form = field(init=False)
    at: int = field(init=False)  # the index of the column that is filled in
    said: list[str] = field(default_factory=list)  # what the teacher should know

    def __post_init__(self) -> None:
        self.form = exports.expect(self.sheet)
        if self.form.system == "Gradescope":
            raise ValueError(
                f"{self.sheet.path} is Gradescope's, which takes no table back; there the packed "
                "autograder writes the marks"
            )
        self.at = self._column()

    def _column(self) -> int:
        head = self.sheet.head
        if self.form.system == "Moodle":
            return head.index("Grade")
        fits = [i for i, name in enumerate(head) if self.column in (name, _title(name))]
        if len(fits) > 1:
            names = ", ".join(head[i] for i in fits)
            raise ValueError(f"{self.sheet.path}: several columns fit {self.column!r}: {names}")
        if not fits:
            self.said.append(
                f"{self.sheet.path} has no column {self.column!r}; Canvas will ask whether to make "
                "a new assignment of it (--column takes the title of another)"
            )
        return fits[0] if fits else len(head)

    def write(
        self,
        grades: Iterable[Grade],
        submissions: Iterable[Submission],
        roster: Iterable[Mapping[str, str]],
        title: str,
        out: Path,
        only: str = "",
    ) -> list[str]:
        """Write gradebook.csv and feedback.zip into `out`; returns what the teacher should know.

        Both hold who has a final mark: something was handed in, it was graded whole, and a person
        has read what is to be read. All other cells stay as they are. only: the one student whose
        feedback is packed, for the systems tell students of what they have already.
        """
        handed = {each.student: each for each in submissions}
        known = {key(row["student"]): set(row.values()) for row in roster}
        rows = list(exports.students(self.sheet, self.form))
        marks, files, out_of = {}, {}, 0.0
        waiting: dict[str, list[str]] = defaultdict(list)
        for grade in grades:
            submission, out_of = handed[grade.student], grade.out_of
            ids = known.get(key(grade.student), set()) | {grade.student, submission.known_as}
            if not grade.submitted or not (row := self._row(grade, ids, rows)):
                continue
            if why := _not_final(grade):
                waiting[why].append(grade.student)
                continue
            marks[row.at] = f"{grade.total:g}"
            if not only or key(only) in names_of(grade.student):
                files |= self._feedback(grade, submission, title)
        for why, students in waiting.items():
            self.said.append(f"no mark and no feedback yet, as {why}: {', '.join(students)}")
        out.mkdir(parents=True, exist_ok=True)
        save(out / "gradebook.csv", self._table(marks, out_of))
        (out / "feedback.zip").write_bytes(zipped(files))
        return self.said

    def _row(self, grade: Grade, ids: set[str], rows: list[Row]) -> Row | None:
        """The only row that shares an id with the student; names do not count."""
        mine = {key(text) for text in ids if text.strip()}
        fits = [row for row in rows if mine & {key(text) for text in row.ids}]
        if len(fits) == 1:
            return fits[0]
        how = "several rows" if fits else "no row"
        self.said.append(f"{grade.student}: {how} of {self.sheet.path} with an id of theirs")
        return None

    # ---- the table -------------------------------------------------------------------------------

    def _table(self, marks: dict[int, str], out_of: float) -> str:
        head, n = [*self.sheet.head], self.at + 1
        if self.form.system == "Canvas":
            head += [self.column] * (self.at == len(head))
            kept = [*range(head.index("Section") + 1), self.at]
            guarded = range(self.at)
        else:  # what comes after is the time and the comments, which Moodle reads
            kept = [*range(len(head))]
            guarded = range(head.index("Last modified (grade)"))
        text = io.StringIO()
        writer = csv.writer(text, delimiter=self.sheet.separator, lineterminator="\n")
        writer.writerow([head[i] for i in kept])
        for at, given in enumerate(self.sheet.rows):
            row = [*given, *[""] * (max(n, len(head)) - len(given))]
            if exports.POINTS_POSSIBLE in row[0]:
                row[self.at] = row[self.at] or f"{out_of:g}"
                self._compare(row[self.at], out_of)
            elif at in marks and row[self.at].strip().upper() == _EXCUSED:
                self.said.append(f"{row[0]}: excused in Canvas, and stays so")
            elif at in marks:
                row[self.at] = marks[at]
                if self.form.system == "Moodle":
                    self._compare(_most(head, row), out_of)
            writer.writerow([cell(row[i]) if i in guarded else row[i] for i in kept])
        return text.getvalue()

    def _compare(self, most: str, out_of: float) -> None:
        said = f"the week has {out_of:g} points, {self.form.system} says {most}"
        try:
            same = float(most.replace(",", ".")) == out_of
        except ValueError:  # a scale of words
            same = False
        if not same and said not in self.said:
            self.said.append(said)

    # ---- the feedback ----------------------------------------------------------------------------

    def _feedback(self, grade: Grade, submission: Submission, title: str) -> dict[str, bytes]:
        """The student's file by its name in the zip file; none where the download had no name."""
        name, _, number = submission.known_as.rpartition("_")
        file = submission.path.rpartition("/")[2]
        if self.form.system == "Moodle" and name and number.isdigit():
            folder = exports.moodle_folder(name, number)
            return {f"{folder}/feedback.html": feedback.html(grade, title).encode()}
        numbers = [part for part in file.split("_") if part.isdigit()]
        if self.form.system == "Canvas" and len(numbers) > 1 and numbers[0] == number:
            return {file: _in_form(file, feedback.markdown(grade, title))}
        self.said.append(
            f"{grade.student}: no feedback in the zip file; {submission.path!r} is no name as "
            f"{self.form.system} gives them"
        )
        return {}


def _title(name: str) -> str:
    found = _TITLE.fullmatch(name)
    return found[1] if found else name


def _most(head: list[str], row: list[str]) -> str:
    """Moodle's column of the points that can be had; its name has had two spellings."""
    return next((row[i] for i, name in enumerate(head) if name.lower() == "maximum grade"), "")


def _not_final(grade: Grade) -> str:
    unread = [mark.name for mark in grade.marks if mark.state == "unread"]
    return grade.error or (f"nobody has read {', '.join(unread)}" if unread else "")


def _in_form(file: str, said: str) -> bytes:
    """The feedback as a notebook, a program of comments, or JSON, as the file's ending says."""
    if file.endswith(".py"):
        return "".join(f"# {line}".rstrip() + "\n" for line in said.splitlines()).encode()
    if file.endswith(".json"):
        return json.dumps({"feedback": said.splitlines()}, ensure_ascii=False, indent=1).encode()
    return notebook([said]).encode()
