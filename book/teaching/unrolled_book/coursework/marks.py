"""A student's marks for a week, and the table of all of them."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

STATES = ("right", "partly", "wrong", "unwritten", "missing", "error", "unread")
_NUMBER = re.compile(r"[-+]?[\d.,\s]+")
# What begins as a formula: =…, a function or a cell after a sign (+A1), and either of them in what
# a table that is read with semicolons takes for a cell of its own.
_BEGINS = r"(?:=|[-+@](?:\s*\$?[a-z]{1,3}\$?\d+\b|.*[=(|!\"' ]))"
_FORMULA = re.compile(rf"[\t\r\n]|\s*{_BEGINS}|.*[;\t\r\n]\s*{_BEGINS}", re.S | re.I)


@dataclass(frozen=True)
class Mark:
    """What came of one exercise. state: one of STATES; "partly": some tests passed; "unread":
    a person is still to read it.

    verdict, lines, causes, hint: what the student reads, in this order. slip: under which name the
    class report counts the mistake. seconds: CPU time of the answer.
    """

    name: str
    title: str
    state: str
    points: float
    out_of: float
    n_passed: int = 0
    n_tests: int = 0
    verdict: str = ""
    lines: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    hint: str = ""
    notes: tuple[str, ...] = ()
    slip: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Grade:
    """The marks of one student. error: what kept the grader from doing its work, empty if nothing.

    late: None where nobody knows. kept: the share of the points that remains of a late answer.
    """

    student: str
    marks: tuple[Mark, ...]
    late: bool | None = None
    kept: float = 1.0
    problems: tuple[str, ...] = ()
    error: str = ""
    submitted: bool = True

    @property
    def points(self) -> float:
        """The sum over the exercises, before anything is taken off for lateness."""
        return round(sum(mark.points for mark in self.marks), 2)

    @property
    def total(self) -> float:
        """The points that count."""
        return round(self.points * (self.kept if self.late else 1.0), 2)

    @property
    def out_of(self) -> float:
        """The points that there are."""
        return round(sum(mark.out_of for mark in self.marks), 2)


def from_data(data: dict) -> Grade:
    """The grade that `dataclasses.asdict` and JSON have made of one."""
    marks = tuple(
        Mark(**{k: tuple(v) if isinstance(v, list) else v for k, v in mark.items()})
        for mark in data["marks"]
    )
    return replace(Grade(**{**data, "marks": marks}), problems=tuple(data["problems"]))


def table(
    grades: Iterable[Grade],
    names: Iterable[str],
    unread: Mapping[str, Iterable[str]] | None = None,
) -> str:
    """grades.csv: a line for each student, a column for each exercise.

    unread: by student, the names of what no person has read yet; the total is not final there.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["student", *names, "total", "late", "error", "out_of", "unread"])
    for grade in grades:
        late = {True: "yes", False: "no", None: ""}[grade.late]
        points = [f"{mark.points:g}" for mark in grade.marks]
        error = grade.error or ("" if grade.submitted else "nothing was handed in")
        row = [cell(grade.student), *points, f"{grade.total:g}", late, cell(error)]
        waiting = " ".join((unread or {}).get(grade.student, ()))
        writer.writerow([*row, f"{grade.out_of:g}", waiting])
    return out.getvalue()


def cell(text: str) -> str:
    """The text as a spreadsheet shows it: what it would take for a formula gets an apostrophe.

    Numbers and ids such as "-12" or "@alice" stay as they are.
    """
    plain = unicodedata.normalize("NFKC", text)  # as spreadsheets read ＝
    is_formula = _FORMULA.match(plain) and not _NUMBER.fullmatch(plain)
    return f"'{text}" if is_formula else text


def file_name(student: str, taken: set[str]) -> str:
    """A name for the student's files, unlike all in `taken`, to which it is added."""
    text = unicodedata.normalize("NFC", student)
    stem = re.sub(r"[^\w.@+-]+", "_", text)[:80].strip("._-") or "student"
    name, n = stem, 1
    while name.casefold() in taken:
        n += 1
        name = f"{stem}-{n}"
    taken.add(name.casefold())
    return name
