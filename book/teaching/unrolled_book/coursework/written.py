"""What a person has to read: answers in words, and the runs of experiments, beside their rubric.

`write` makes one page for each question and experiment, with all students' answers, and a table
`written.csv` for points and comments. Filled in, the table is read by `read_points`, and the next
run of `grade` adds what it says: for a question these are its points, for an experiment they stand
in place of those of its tests. A table that is there keeps what was written into it.
"""

from __future__ import annotations

import base64
import binascii
import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from unrolled_book.coursework import tables
from unrolled_book.coursework.answers import cells_of, decoded, loaded
from unrolled_book.coursework.marks import cell as as_shown
from unrolled_book.coursework.syllabus import Syllabus, plain
from unrolled_book.coursework.written_page import page

TABLE = "written.csv"
COLUMNS = ("student", "task", "points", "of", "comment")
_MARK = re.compile(r"<!--\s*(task|answer):\s*(\w+)\s*-->")
_PLACEHOLDER = re.compile(
    r"^\*(Write your answer here\.|What did you predict,[^*]*)\*$", re.MULTILINE
)
_LONGEST = 20_000  # characters of a text that is shown
_LARGEST_PICTURE = 1_000_000  # bytes
_MOST_PICTURES = 12


class Handed(Protocol):
    """A submission: the student's id and the files, by name and content."""

    student: str
    files: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Task:
    """What is read by a person: a question, or an experiment with its explanation for a rubric."""

    name: str
    title: str
    statement: str
    points: float
    rubric: tuple[str, ...]


@dataclass(frozen=True)
class Words:
    """What one student wrote for a task; runs: the code of their own cells and what it showed."""

    text: str = ""
    runs: tuple[tuple[str, str], ...] = ()
    pictures: tuple[str, ...] = ()  # PNG, in base 64


@dataclass(frozen=True)
class Given:
    """What a person gave: points, or None where there are none yet, and a comment."""

    points: float | None
    comment: str


def tasks(syllabus: Syllabus) -> dict[str, Task]:
    """The tasks of a course that a person reads, by name."""
    found = {}
    for week in syllabus.weeks:
        for item in week.items:
            exercise = syllabus.exercise(item)
            if exercise.kind == "experiment" and not item.personal:
                rubric = (f"For comparison: {exercise.explanation}",)
                found[exercise.name] = Task(
                    exercise.name, exercise.title, exercise.statement, item.points, rubric
                )
        for q in week.questions:
            found[q.name] = Task(q.name, q.title, q.statement, q.points, q.rubric)
    return found


# ---- taking the answers out ----------------------------------------------------------------------


def words(files: Iterable[tuple[str, bytes]], name: str) -> Words:
    """What the files say about a task; of several answers, the last one that is not empty."""
    found = Words()
    for _, body in files:
        given = _section(_cells(body), name)
        if given.text or given.runs:
            found = given
    return found


def _cells(body: bytes) -> list[dict[str, Any]]:
    """The cells of a notebook, or of a .py file whose text stands in comments; none of the rest."""
    text = decoded(body).lstrip("\ufeff")
    try:
        data = loaded(text)
    except (ValueError, RecursionError):
        return list(_cells_of_program(text.replace("\r\n", "\n")))
    cells = cells_of(data) if isinstance(data, dict) else None
    return [cell for cell in cells or () if isinstance(cell, dict)]


def _cells_of_program(text: str) -> Iterator[dict[str, Any]]:
    for part in re.split(r"(?m)^# %%.*$", text):
        lines = [line.removeprefix("#").removeprefix(" ") for line in part.strip().splitlines()]
        if part.lstrip().startswith("#") and _MARK.search(part):
            yield {"cell_type": "markdown", "source": "\n".join(lines)}


def _section(cells: list[dict[str, Any]], name: str) -> Words:
    """The answer and the runs between the task's mark and the next one's."""
    texts, runs, pictures, inside, answering = [], [], [], False, False
    for cell in cells:
        source = _text(cell.get("source", cell.get("input")))
        if cell.get("cell_type") == "markdown":
            if _MARK.search(source) is None and _about(cell) == {"task": name, "role": "words"}:
                texts.append(source)  # the mark was deleted with the words around it
            for kind, marked, rest in _parts(source):
                if kind:
                    inside = marked == name
                    answering = inside and kind == "answer"
                if answering:
                    texts.append(rest)
        elif inside and not _is_book_cell(cell, source):
            shown, drawn = _outputs(cell)
            runs += [(source[:_LONGEST], shown)] if shown or drawn else []
            pictures += drawn
    text = _PLACEHOLDER.sub("", "\n\n".join(texts)).strip()
    return Words(text[:_LONGEST], tuple(runs), tuple(pictures[:_MOST_PICTURES]))


def _parts(source: str) -> Iterator[tuple[str, str, str]]:
    """A Markdown cell in parts: the kind and the name of the mark, and the text that follows."""
    pieces = _MARK.split(source)
    yield "", "", pieces[0]
    yield from zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True)


def _about(cell: dict[str, Any]) -> dict[str, Any]:
    """What the edition wrote into the cell's metadata."""
    metadata = cell.get("metadata")
    about = metadata.get("unrolled") if isinstance(metadata, dict) else None
    return about if isinstance(about, dict) else {}


def _is_book_cell(cell: dict[str, Any], source: str) -> bool:
    role = _about(cell).get("role")
    return role in ("answer", "check") or source.lstrip().startswith("check(")


def _outputs(cell: dict[str, Any]) -> tuple[str, list[str]]:
    """What a cell shows: its texts, and its pictures in base 64."""
    texts, pictures = [], []
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        data = output.get("data")
        data = data if isinstance(data, dict) else {}
        texts.append(_text(output.get("text")) or _text(data.get("text/plain")))
        pictures += _picture(_text(data.get("image/png")))
    return "\n".join(t for t in texts if t.strip())[:_LONGEST], pictures


def _picture(data: str) -> list[str]:
    try:
        image = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        return []
    fits = image.startswith(b"\x89PNG") and len(image) <= _LARGEST_PICTURE
    return [base64.b64encode(image).decode()] if fits else []


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


# ---- pages and the table -------------------------------------------------------------------------


def write(syllabus: Syllabus, submissions: Iterable[Handed], out: str | Path) -> list[Path]:
    """Write a page for each task and the table of points into `out`; returns the files.

    Raises ValueError where a table is there that cannot be read.
    """
    out, handed = Path(out), list(submissions)
    found = tasks(syllabus)
    if not found:
        return []
    out.mkdir(parents=True, exist_ok=True)
    table = out / TABLE
    given = read_points(table, syllabus) if table.exists() else {}
    rows, files = [], [table]
    for task in found.values():
        answers = [(each.student, words(each.files, task.name)) for each in handed]
        for student, _ in answers:
            kept = given.pop((plain(student), task.name), Given(None, ""))
            points = "" if kept.points is None else f"{kept.points:g}"
            rows.append([student, task.name, points, f"{task.points:g}", kept.comment])
        files.append(out / f"{task.name}.html")
        files[-1].write_text(page(syllabus, task, answers, table.name), encoding="utf-8")
    for (student, name), kept in given.items():  # of students who are not among these
        points = "" if kept.points is None else f"{kept.points:g}"
        rows.append([student, name, points, f"{found[name].points:g}", kept.comment])
    _save(table, rows)
    return files


def _save(table: Path, rows: Iterable[list[str]]) -> None:
    """All of the table or nothing of it."""
    part = table.with_name(f"{table.name}.part")
    with part.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *([as_shown(cell) for cell in row] for row in rows)])
    part.replace(table)


def give(table: Path, syllabus: Syllabus, student: str, task: str, given: dict[str, str]) -> None:
    """Write a person's points and comment for one answer into the table.

    given: `points` and `comment`, as they were typed. ValueError says what is wrong with the
    points, or that the table has no such answer.
    """
    rows = entries(table)
    found = [row for row in rows if (row["student"], row["task"]) == (student, task)]
    if not found or task not in (known := tasks(syllabus)):
        raise ValueError(f"{table} has no answer of {student!r} to {task!r}")
    points = _points(given["points"].strip(), known[task].points, f"{student}, {task}")
    found[0]["points"] = "" if points is None else f"{points:g}"
    found[0]["comment"] = " ".join(given["comment"].split())
    _save(table, [[row[key] for key in COLUMNS] for row in rows])


def entries(table: Path) -> list[dict[str, str]]:
    """The rows of the table, as they were typed, by the names of the columns."""
    read = tables.read(table, COLUMNS)
    return [{key: _plain_cell(row[key]) for key in COLUMNS} for _, row in read]


def read_points(path: str | Path, syllabus: Syllabus) -> dict[tuple[str, str], Given]:
    """What the table says, by student (as `plain` writes the id) and task; lines without a word of
    the reader's are left out.

    ValueError names the line, what stands there and what is expected.
    """
    path, known, found = Path(path), tasks(syllabus), {}
    for line, row in tables.read(path, COLUMNS):
        cells = {key: _plain_cell(row[key]) for key in COLUMNS}
        where = f"{path}, line {line}"
        if cells["task"] not in known:
            names = ", ".join(known)
            raise ValueError(f"{where}: no task {cells['task']!r}; expected one of {names}")
        points = _points(cells["points"], known[cells["task"]].points, where)
        if points is not None or cells["comment"]:
            found[plain(cells["student"]), cells["task"]] = Given(points, cells["comment"])
    return found


def _points(text: str, most: float, where: str) -> float | None:
    if not text:
        return None
    try:
        points = float(text.replace(",", "."))
    except ValueError:
        points = -1.0
    if not 0 <= points <= most:
        raise ValueError(f"{where}: points is {text!r}; expected a number from 0 to {most:g}")
    return points


def _plain_cell(cell: str) -> str:
    cell = cell.strip()
    return cell[1:] if cell[:1] == "'" and as_shown(cell[1:]) == cell else cell
