"""The notebooks of a course: `build` writes a student's and a teacher's edition of each week.

    student/week1.ipynb             statements, starters, visible examples, a self-check
    student/week2/<student>.ipynb   the same where a week has tasks with numbers of one's own
    teacher/week1.ipynb             solutions, explanations, mistakes with their messages, tests

A student's notebook holds no solution, hidden test, oracle or wrong answer, and runs with what
Colab has; the library is installed only in weeks whose exercises import it. The mark
`<!-- task: shift -->` begins each task, and `<!-- answer: padding -->` an answer in words; graders
find them there, as well as in the cells' ids and metadata.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unrolled_book.coursework import handing_out, personal, selfcheck
from unrolled_book.coursework.address import PAGES, SOURCE
from unrolled_book.coursework.syllabus import Item, Question, Syllabus, Week
from unrolled_book.exercises.engine import Call, Exercise
from unrolled_book.exercises.engine.compare import describe
from unrolled_book.exercises.engine.marking import mark, outcomes_of, planned_outcomes
from unrolled_book.exercises.examples import examples

Cell = dict[str, Any]

_INSTALL = f"""\
try:
    import unrolled_book
except ModuleNotFoundError:  # on Colab
    %pip install --quiet {SOURCE}#subdirectory=lib {SOURCE}#subdirectory=book/teaching
"""
_HOW = """\
Write your id into the next cell, and your answers where `...` stands. Keep the names of the
answers, and the marks in the cells: they say which answer is which. `check` tries the visible cases
only. The points come from other inputs, so passing it is not full marks.

**Hand in** this notebook as one file: save it (on Colab *File → Download → Download .ipynb*), and
do not rename the answers in it. Before that, restart it and run all cells once."""
_LINK = re.compile(r"\[([^\[\]]*)\]\(((?:cite:|term:|#|[\w./-]+\.(?:ipynb|md)\b)[^()\s]*)\)")


def build(syllabus: Syllabus, out: str | Path, roster: str | Path | None = None) -> list[Path]:
    """Write both editions into the folder `out` and return the files.

    roster: a CSV file with a column `student`, needed where a week has personal tasks; these weeks
    have a zip file of their notebooks, too, and a key for the teacher. Raises ValueError where it
    is missing, and where a solution does not pass its own tests.
    """
    files = [*build_student(syllabus, out, roster), *build_teacher(syllabus, out)]
    for week in syllabus.weeks:
        if any(item.personal for item in week.items):
            mine = [path for path in files if path.parent == Path(out) / "student" / week.name]
            packed = Path(out) / "student" / f"{week.name}.zip"
            packed.write_bytes(handing_out.pack(mine, week, roster))
            key = Path(out) / "teacher" / f"{week.name}_key.csv"
            key.write_text(handing_out.key(syllabus, week, personal.read_ids(roster)), "utf-8")
    return files


def build_student(
    syllabus: Syllabus, out: str | Path, roster: str | Path | None = None
) -> list[Path]:
    """Write the student edition; see `build`."""
    folder, files = Path(out) / "student", []
    students = personal.read_ids(roster) if roster else ()
    for week in syllabus.weeks:
        if not any(item.personal for item in week.items):
            files.append(_write(folder / f"{week.name}.ipynb", _student(syllabus, week)))
            continue
        if not students:
            raise ValueError(
                f"{syllabus.path}: {week.name} has personal tasks, which differ from student to "
                "student; expected a roster, a CSV file with a column `student`"
            )
        for student in students:
            cells = _student(syllabus, week, student)
            files.append(_write(folder / week.name / f"{student}.ipynb", cells))
    return files


def build_teacher(syllabus: Syllabus, out: str | Path) -> list[Path]:
    """Write the teacher edition; see `build`."""
    folder = Path(out) / "teacher"
    return [
        _write(folder / f"{week.name}.ipynb", _teacher(syllabus, week)) for week in syllabus.weeks
    ]


# ---- the student edition -------------------------------------------------------------------------


def _student(syllabus: Syllabus, week: Week, student: str = "") -> list[Cell]:
    given = [(item, _given(syllabus, item, student)) for item in week.items]
    visible = {
        exercise.name: selfcheck.known(exercise, _visible(exercise)) for _, exercise in given
    }
    cells = [_markdown("head", _head(syllabus, week))]
    cells.append(_code("setup", _setup(syllabus, week, [e for _, e in given], student)))
    if given:
        cells.append(_folded("self-check", selfcheck.cell(visible)))
    for n, (item, exercise) in enumerate(given, 1):
        cells += _task(n, item, exercise)
    for n, question in enumerate(week.questions, len(given) + 1):
        cells += [_markdown(f"task-{question.name}", _asked(n, question)), _answer(question.name)]
    return cells


def _given(syllabus: Syllabus, item: Item, student: str) -> Exercise:
    exercise = syllabus.exercise(item)
    return (
        personal.own(exercise, syllabus.personal_seed(item, student)) if item.personal else exercise
    )


def _visible(exercise: Exercise) -> list[Call]:
    return [] if exercise.is_value else [call for call in exercise.calls(seed=0) if call.visible]


def _task(number: int, item: Item, exercise: Exercise) -> list[Cell]:
    name = exercise.name
    about = {"task": name, "exercise": item.exercise}
    cells = [
        _markdown(f"task-{name}", statement(number, item, exercise)),
        _code(f"answer-{name}", exercise.starter, about | {"role": "answer"}),
        _code(f"check-{name}", f'check("{name}", {name})', about | {"role": "check"}),
    ]
    if exercise.kind == "experiment":
        cells.append(_code(f"runs-{name}", "# Your runs", about | {"role": "runs"}))
        asks = "*What did you predict, what did you see, and what do you conclude?*"
        cells.append(_answer(name, asks))
    return cells


def statement(number: int, item: Item, exercise: Exercise) -> str:
    """The heading, the statement and the visible examples of a task."""
    about = f"{exercise.kind}, {'★' * exercise.level}, {_points(item.points)}"
    heading = f"<!-- task: {exercise.name} -->\n\n## {number}. {exercise.title} ({about})"
    return "\n\n".join(
        [heading, portable(exercise.statement, exercise.chapter), *examples(exercise)]
    )


def _asked(number: int, question: Question) -> str:
    mark = f"<!-- task: {question.name} -->"
    heading = f"{mark}\n\n## {number}. {question.title} (in words, {_points(question.points)})"
    return f"{heading}\n\n{portable(question.statement)}"


def _answer(name: str, asks: str = "*Write your answer here.*") -> Cell:
    about = {"task": name, "role": "words"}
    return _markdown(f"words-{name}", f"{answer_mark(name)}\n\n{asks}", about)


def answer_mark(name: str) -> str:
    """What stands above an answer in words, so that it can be found."""
    return f"<!-- answer: {name} -->"


def _head(syllabus: Syllabus, week: Week) -> str:
    total = sum(each.points for each in (*week.items, *week.questions))
    parts = [f"# {week.title}", f"*{syllabus.title} · {week.name} · {_points(total)}*"]
    if week.due:
        due = f"**Due** {week.due:%A, %d %B %Y, %H:%M} ({week.due:%Z})."
        parts.append(due if syllabus.late == 1 else f"{due} {_late(syllabus.late)}")
    return "\n\n".join([*parts, _HOW, secret_mark(syllabus)])


def secret_mark(syllabus: Syllabus) -> str:
    """What stands in a notebook so that the grader knows whether it has the same secret."""
    return f"<!-- secret: {syllabus.fingerprint} -->"


def _late(share: float) -> str:
    if share == 0:
        return "An answer that comes later has no points."
    return f"An answer that comes later keeps {share:.0%} of its points."


def _setup(syllabus: Syllabus, week: Week, given: list[Exercise], student: str) -> str:
    lines = imports(given)
    library = any(re.match(r"(from|import) unrolled\b", line) for line in lines)
    parts = [_INSTALL] if library else []
    parts += ["\n".join(lines) + "\n"] if lines else []
    parts += [f"STUDENT = {student!r}  # your id, as the course knows it".replace("'", '"')]
    if any(exercise.kind == "experiment" for exercise in given) or week.questions:
        parts.append("\n\n" + personal.my_seed_source(syllabus.title))
    return "\n".join(parts)


def imports(exercises: Iterable[Exercise]) -> list[str]:
    """What the exercises import, but for the engine's own: each line once, plain imports first."""
    found = []
    for exercise in exercises:
        head = exercise.source.partition("\n# %%")[0]
        nodes = (n for n in ast.parse(head).body if isinstance(n, (ast.Import, ast.ImportFrom)))
        lines = (ast.unparse(node) for node in nodes)
        found += [
            line for line in lines if "unrolled_book" not in line and "__future__" not in line
        ]
    return sorted(set(found), key=lambda line: ("unrolled" in line, line.startswith("from"), line))


# ---- the teacher edition -------------------------------------------------------------------------


def _teacher(syllabus: Syllabus, week: Week) -> list[Cell]:
    given = [(item, _given(syllabus, item, "a student")) for item in week.items]
    calls = {e.name: e.calls(syllabus.seed_of(item)) for item, e in given}
    known = {e.name: selfcheck.known(e, calls[e.name]) for _, e in given}
    head = f"# {week.title}: for teachers\n\n*{syllabus.title} · {week.name}. Not for students: "
    head += "solutions, the hidden tests, and what is said of each mistake.*"
    cells = [_markdown("head", head)]
    cells.append(_code("setup", _setup(syllabus, week, [e for _, e in given], "teacher")))
    if given:
        cells.append(_folded("self-check", selfcheck.cell(known, complete=True)))
    for n, (item, exercise) in enumerate(given, 1):
        cells += _solved(n, item, exercise, calls[exercise.name])
    for n, question in enumerate(week.questions, len(given) + 1):
        rubric = "\n".join(f"- {line}" for line in question.rubric) or "There is none."
        cells.append(
            _markdown(f"task-{question.name}", f"{_asked(n, question)}\n\n**Rubric**\n\n{rubric}")
        )
    return cells


def _solved(number: int, item: Item, exercise: Exercise, calls: list[Call]) -> list[Cell]:
    name = exercise.name
    expected = outcomes_of(exercise, exercise.solution, calls)
    report = mark(exercise, calls, expected, {}, expected=expected)
    if report.state != "passed":
        raise ValueError(f"the solution of {item.exercise} does not pass: {report.text}")
    own = "\n\n**Each student has other arguments**; these are an example." if item.personal else ""
    how = {"all": "all or nothing", "tests": "the share that is right"}[item.credit]
    explanation = portable(exercise.explanation, exercise.chapter)
    after = [f"**Why.** {explanation}", f"**Points.** {_points(item.points)}, {how}.{own}"]
    after += _tests(calls) if not exercise.is_value else []
    after.append(_mistakes(exercise, calls, expected))
    return [
        _markdown(f"task-{name}", statement(number, item, exercise)),
        _code(f"answer-{name}", exercise.solution_source),
        _code(f"check-{name}", f'check("{name}", {name})'),
        _markdown(f"notes-{name}", "\n\n".join(after)),
    ]


def _tests(calls: list[Call]) -> list[str]:
    rows = [
        f"| {n} | {', '.join(map(describe, call.args)) or 'none'} | "
        f"{'visible' if call.visible else ''} | {call.hint} |"
        for n, call in enumerate(calls, 1)
    ]
    rows = [row.replace("\n", " ") for row in rows]
    return [
        "**What the tests look at**",
        "\n".join(["| | arguments | | hint |", "|--:|---|---|---|", *rows]),
    ]


def _mistakes(exercise: Exercise, calls: list[Call], expected: list[dict[str, Any]]) -> str:
    """Each wrong answer with what a student is told who gives it."""
    planned = planned_outcomes(exercise, calls)
    parts = ["**Mistakes, and what students are told**"]
    for mistake, outcomes in planned.items():
        report = mark(exercise, calls, outcomes, planned, expected=expected, reveal=False)
        text = report.text.replace("```", "ʼʼʼ")
        parts.append(f"- {mistake}\n\n  ```text\n" + _indented(text) + "\n  ```")
    return "\n\n".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


# ---- notebooks -----------------------------------------------------------------------------------


def portable(text: str, chapter: str = "") -> str:
    """Markdown whose links into the book lead to its published pages."""
    stem = chapter.removeprefix("c")

    def link(match: re.Match[str]) -> str:
        said, target = match.groups()
        scheme, _, key = target.partition(":")
        if scheme == "cite" and key:
            return f"[{said}]({PAGES}/book/bibliography.html#cite-{key})"
        if scheme == "term" and key:
            return f"[{said}]({PAGES}/book/glossary.html#term-{key})"
        path, _, anchor = target.partition("#")
        if not path:
            path = f"{stem}.ipynb"
        page = re.sub(r"\.(ipynb|md)$", ".html", Path(path).name)
        room = "book" if path.endswith(".md") else "chapters"
        known = re.match(r"\d+[a-z]?_", page) or room == "book"
        return f"[{said}]({PAGES}/{room}/{page}{'#' * bool(anchor)}{anchor})" if known else said

    return _LINK.sub(link, text)


def _points(points: float) -> str:
    return f"{points:g} point{'' if points == 1 else 's'}"


def _markdown(name: str, source: str, about: dict[str, str] | None = None) -> Cell:
    return {"cell_type": "markdown", "id": _id(name), "metadata": _meta(about), "source": source}


def _code(name: str, source: str, about: dict[str, str] | None = None) -> Cell:
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": _id(name),
        "metadata": _meta(about),
        "outputs": [],
        "source": source,
    }


def _folded(name: str, source: str) -> Cell:
    cell = _code(name, source)
    cell["metadata"] = {"cellView": "form", "jupyter": {"source_hidden": True}}
    return cell


def _meta(about: dict[str, str] | None) -> dict[str, Any]:
    return {"unrolled": about} if about else {}


def _id(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", name)[:64]


def _write(path: Path, cells: list[Cell]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_notebook(cells), encoding="utf-8")
    return path


def notebook(texts: Iterable[str]) -> str:
    """A notebook of these Markdown texts."""
    return _notebook([_markdown(f"text-{i}", text) for i, text in enumerate(texts)])


def _notebook(cells: list[Cell]) -> str:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    data = {
        "cells": [cell | {"source": cell["source"].splitlines(keepends=True)} for cell in cells],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"
