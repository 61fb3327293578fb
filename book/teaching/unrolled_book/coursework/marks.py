"""A student's marks for a week, and the table of all of them."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

STATES = ("right", "partly", "wrong", "unwritten", "missing", "error", "unread")
_NUMBER = re.compile(r"[-+]?[\d.,\s]+")
_PARTS = re.compile(r"[;,|\t\r\n\v\f\x85\u2028\u2029]")  # what some table takes for a cell's end
_NAME = re.compile(r"[-+@][^\W\d][\w.]*")  # "@alice"; but "+A1" is a cell
_CELL = re.compile(r"[-+@][a-z]{1,3}\d+", re.I)


@dataclass(frozen=True)
class Mark:
    """What came of one exercise. state: one of STATES; "partly": some tests passed; "unread":
    a person is still to read it.

    verdict, lines, causes, hint: what the student reads, in this order. slip: under which name the
    class report counts the mistake. seconds: CPU time of the answer. revealed: lines with what was
    expected, for after the deadline; no page holds them before.
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
    revealed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grade:
    """The marks of one student. error: what kept the grader from doing its work, empty if nothing.

    late: None where nobody knows. kept: the share of the points that remains of a late answer.
    claims: the STUDENT that the notebook names. signs: the task and a digest of each text that is
    long enough to be somebody's own. flags: what the teacher should look at, and no student reads.
    blank: the tasks for a person to read, in which nothing was written.
    """

    student: str
    marks: tuple[Mark, ...]
    late: bool | None = None
    kept: float = 1.0
    problems: tuple[str, ...] = ()
    error: str = ""
    submitted: bool = True
    claims: str = ""
    signs: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()
    blank: tuple[str, ...] = ()

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
    lists = {key: tuple(data[key]) for key in ("problems", "flags", "blank")}
    lists["signs"] = tuple((task, digest) for task, digest in data["signs"])
    return Grade(**{**data, **lists, "marks": marks})


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
    writer.writerow(["student", *names, "total", "late", "error", "out_of", "unread", "look at"])
    for grade in grades:
        late = {True: "yes", False: "no", None: ""}[grade.late]
        points = [f"{mark.points:g}" for mark in grade.marks]
        error = grade.error or ("" if grade.submitted else "nothing was handed in")
        row = [cell(grade.student), *points, f"{grade.total:g}", late, cell(error)]
        waiting = " ".join((unread or {}).get(grade.student, ()))
        writer.writerow([*row, f"{grade.out_of:g}", waiting, cell("; ".join(grade.flags))])
    return out.getvalue()


def cell(text: str) -> str:
    """The text as a spreadsheet shows it: what it would take for a formula gets an apostrophe.

    Numbers and ids such as "-12" or "@alice" stay as they are.
    """
    plain = unicodedata.normalize("NFKC", text)  # as spreadsheets read ＝
    seen = "".join(c for c in plain if unicodedata.category(c) != "Cf")
    begins = text[:1] in ("\t", "\r", "\n")
    parts = [seen, *_PARTS.split(seen)]
    return f"'{text}" if begins or any(map(_is_formula, parts)) else text


def _is_formula(part: str) -> bool:
    """=…, or what comes after a sign and is neither a number nor a name."""
    part = part.strip()
    if part[:1] not in ("=", "+", "-", "@") or len(part) == 1:
        return False
    is_name = _NAME.fullmatch(part) and not _CELL.fullmatch(part)
    return part[0] == "=" or not (is_name or _NUMBER.fullmatch(part))


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
