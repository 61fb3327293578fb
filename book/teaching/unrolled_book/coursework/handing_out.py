"""Personal notebooks: packed to be handed out, and the teacher's key to their numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from unrolled_book.coursework import exports, tables
from unrolled_book.coursework.marks import cell
from unrolled_book.coursework.packing import zipped
from unrolled_book.coursework.personal import own
from unrolled_book.coursework.syllabus import Syllabus, Week
from unrolled_book.exercises.examples import written

COLUMNS = ("student", "task", "part", "expected", "asked")


def pack(notebooks: Iterable[Path], week: Week, roster: str | Path) -> bytes:
    """A zip file of a week's notebooks, each named by its student.

    Where the roster is a grading worksheet of Moodle's, they lie in folders as *Upload multiple
    feedback files in a zip* takes them, and each student finds their own.
    """
    sheet, folders = tables.sheet(roster), {}
    if "student" not in sheet.head and (form := exports.form_of(sheet)) and form.system == "Moodle":
        for row in exports.students(sheet, form):
            folders[row.student] = exports.moodle_folder(row.name, row.number)
    files = {}
    for path in notebooks:
        folder = folders.get(path.stem)
        files[f"{folder}/{week.name}.ipynb" if folder else path.name] = path.read_bytes()
    return zipped(files)


def key(syllabus: Syllabus, week: Week, students: Iterable[str]) -> str:
    """The key to a week's personal tasks (CSV): what each student was asked, and what is right."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for student in students:
        for item in week.items:
            if not item.personal:
                continue
            mine = own(syllabus.exercise(item), syllabus.personal_seed(item, student))
            right = mine.solution
            asked = mine.statement.rpartition("```python\n")[2].removesuffix("\n```")
            for part, value in right.items() if isinstance(right, dict) else [("", right)]:
                row = (student, mine.name, part, written(value), asked)
                writer.writerow([cell(text) for text in row])
    return out.getvalue()
