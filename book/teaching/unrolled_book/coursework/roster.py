"""Who is who: a list of students, the times at which they handed in, and the platform's names."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from unrolled_book.coursework import exports, tables
from unrolled_book.coursework.submissions import Submission


def read_times(path: str | Path) -> dict[str, datetime]:
    """When each student handed in, from a CSV file with the columns student and time, or from the
    grades that Gradescope exports.

    Raises ValueError for a missing column and for a time that is no ISO time with its zone.
    """
    times = {}
    for i, row in _rows_of_times(path):
        try:
            time = datetime.fromisoformat(re.sub(r" (?=[+-]\d{4}$)", "", row["time"].strip()))
        except ValueError:
            time = None
        if time is None or time.tzinfo is None:
            expected = "expected a time with its zone, 2026-10-09T23:59:00+02:00"
            raise ValueError(f"{path}, line {i}: got {row['time']!r}; {expected}")
        times[row["student"].strip()] = time
    return times


def _rows_of_times(path: str | Path) -> list[tuple[int, dict[str, str]]]:
    sheet = tables.sheet(path)
    form = exports.form_of(sheet)
    if form is None or form.system != "Gradescope":
        return tables.read(path, ("student", "time"))
    rows = [row for row in exports.students(sheet, form) if row.time]
    return [(sheet.lines[row.at], {"student": row.student, "time": row.time}) for row in rows]


def named(submissions: list[Submission], roster: list[Mapping[str, str]]) -> list[Submission]:
    """The submissions under the ids of a roster, in its order, and those it does not know.

    A submission belongs to the row of which an entry is its name on the platform, or a part of it:
    the number or the name in "lastfirst_12345". The number decides, for names can be chosen and
    shared. Where names leave a doubt (two submissions for a row, two rows for a submission), none
    of them is marked, and the error says why. Who handed in nothing has a submission without files.
    """
    keys = [{key(value) for value in row.values() if value.strip()} for row in roster]
    students = [row["student"].strip() for row in roster]
    fits = [_fits(numbers_of(s.student), keys) for s in submissions]
    settled = {i for rows in fits for i in rows}
    for n, submission in enumerate(submissions):
        if not fits[n]:
            by_name = _fits(names_of(submission.student), keys)
            fits[n] = [i for i in by_name if i not in settled]
    mine = [[n for n, rows in enumerate(fits) if i in rows] for i in range(len(roster))]
    doubtful = {n for n, rows in enumerate(fits) if len(rows) > 1 or any(mine[i][1:] for i in rows)}
    why = {n: _doubt(n, submissions, fits, mine, students) for n in doubtful}
    found = []
    for i, student in enumerate(students):
        if doubts := [why[n] for n in mine[i] if n in doubtful]:
            found.append(Submission(student, problems=(doubts[0],), error=doubts[0]))
        elif mine[i]:
            found.append(replace(submissions[mine[i][0]], student=student))
        else:
            found.append(Submission(student))
    known = {key(student) for student in students}
    for n, submission in enumerate(submissions):
        if n in doubtful and key(submission.student) not in known:
            said = (why[n], *submission.problems)
            found.append(Submission(submission.student, problems=said, error=why[n], outside=True))
        elif not fits[n]:
            said = ("the roster has no such student", *submission.problems)
            found.append(replace(submission, problems=said, outside=True))
    return found


def _fits(names: set[str], keys: list[set[str]]) -> list[int]:
    return [i for i, each in enumerate(keys) if names & each]


def _doubt(
    n: int,
    submissions: list[Submission],
    fits: list[list[int]],
    mine: list[list[int]],
    students: list[str],
) -> str:
    handed = sorted({m for i in fits[n] for m in mine[i]})
    names = " and ".join(submissions[m].student for m in handed)
    rows = " and ".join(students[i] for i in sorted({i for m in handed for i in fits[m]}))
    return f"{names} fit {rows} in the roster: nothing was marked; add the platform's numbers to it"


def numbers_of(student: str) -> set[str]:
    """What the platform alone gives: of "lastfirst_12345" the number, and the whole with it."""
    whole = key(student)
    name, _, number = whole.rpartition("_")
    return {whole, number} if name and number.isdigit() else set()


def names_of(student: str) -> set[str]:
    """The names by which a list may know the student: of "lastfirst_12345" each half, too."""
    whole = key(student)
    name, _, number = whole.rpartition("_")
    return {whole, *((name, number) if name and number.isdigit() else ())}


def nobodys(names: Iterable[str], submissions: list[Submission]) -> list[str]:
    """Those of a list's names that no submission has, or that more than one has."""
    had = Counter(name for each in submissions for name in names_of(each.student))
    return [name for name in names if had[key(name)] != 1]


def read_roster(path: str | Path) -> list[dict[str, str]]:
    """The rows of a CSV file with a column student, and whatever else it has of them; or the
    students of a table that Canvas, Moodle or Gradescope exports.

    Raises ValueError for a file of another form, and for a student who stands in it twice.
    """
    sheet = tables.sheet(path, "expected a CSV file with the columns student")
    form = None if "student" in sheet.head else exports.form_of(sheet)
    if form:
        found = exports.students(sheet, form)
        rows = [{"student": r.student, "name": r.name, "number": r.number} for r in found]
    else:
        rows = [row for _, row in tables.read(path, ("student",))]
    if not rows or not all(row.get("student", "").strip() for row in rows):
        raise ValueError(f"{path}: expected a CSV file with a column student, filled in every line")
    had = Counter(key(row["student"]) for row in rows)
    for student, n in had.items():
        if n > 1:
            raise ValueError(f"{path}: the student {student!r} stands more than once")
    return rows


def key(text: str) -> str:
    """A name as it is compared: in lower case, with one blank where there are several."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
