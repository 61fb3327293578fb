"""The tables that Canvas, Moodle and Gradescope export, recognized by their columns.

Canvas      the gradebook: instructure/canvas-lms, lib/gradebook_exporter.rb
Moodle      an assignment's grading worksheet: moodle/moodle, mod/assign/gradingtable.php
Gradescope  an assignment's *Download Grades*, which no source describes; its columns are those
            that public programs read, "Email", "SID", "Submission ID", "Lateness (H:M:S)"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from unrolled_book.coursework.tables import Sheet

TEST_STUDENT = "Student, Test"  # of Canvas's own, the last row
POINTS_POSSIBLE = "Points Possible"


@dataclass(frozen=True)
class Form:
    """The form of an export. told_by: columns that it alone has. ids: the columns that hold what
    stands for one student alone, the best id for a course first; number: the one that the names of
    submissions hold.
    """

    system: str
    told_by: tuple[str, ...]
    ids: tuple[str, ...]
    number: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A student's row. at: its index; student: the id for the course; ids: all that are unique."""

    at: int
    student: str
    number: str
    name: str
    ids: frozenset[str]
    late: bool | None = None
    time: str = ""


_SIS = ("SIS Login ID", "SIS User ID")
FORMS = (
    Form("Canvas", ("ID", "Section"), (*_SIS, "ID"), "ID", ("Student", "FirstName", "LastName")),
    Form(
        "Moodle",
        ("Identifier", "Grade", "Last modified (grade)"),
        ("Username", "Email address", "ID number"),
        "Identifier",
        ("Full name",),
    ),
    Form(
        "Gradescope",
        ("Email", "Submission ID", "Lateness (H:M:S)"),
        ("Email", "SID"),
        "Submission ID",
        ("First Name", "Last Name"),
    ),
)


def form_of(sheet: Sheet) -> Form | None:
    """The form that the table has, or None."""
    return next((form for form in FORMS if set(form.told_by) <= set(sheet.head)), None)


def expect(sheet: Sheet) -> Form:
    """The same; ValueError says what each system's table has, where it is none of them."""
    if form := form_of(sheet):
        return form
    known = "; ".join(f"{form.system}: {', '.join(form.told_by)}" for form in FORMS)
    raise ValueError(
        f"{sheet.path} is no table of a gradebook; expected an export in English, with the columns "
        f"({known})"
    )


def students(sheet: Sheet, form: Form) -> Iterator[Row]:
    """The rows of students; Canvas has rows of its own above them, and a student of its own."""
    for at, row in enumerate(sheet.dicts()):
        said = {key: value.strip() for key, value in row.items()}
        name = " ".join(said[key] for key in form.names if said.get(key))
        number = said[form.number]
        if form.system == "Moodle":  # "Participant 11"
            number = (re.findall(r"\d+$", number) or [""])[0]
        ids = [said[key] for key in form.ids if said.get(key)]
        about_all = POINTS_POSSIBLE in name or name == TEST_STUDENT
        if about_all or not (number or ids):
            continue
        status = said.get("Status", "")
        yield Row(
            at,
            ids[0] if ids else f"{name}_{number}",
            number,
            name,
            frozenset([*ids, number, f"{name}_{number}"] if number else ids),
            bool(re.search(r"\blate\b", status)) if status.startswith("Submitted") else None,
            said.get("Submission Time", ""),
        )


def moodle_folder(name: str, number: str) -> str:
    """The folder of a student's files, as Moodle's download names it and its upload finds it.

    A name holds neither the separator of folders nor that of the parts.
    """
    plain = re.sub(r"[_/\\]", " ", name)
    return f"{plain}_{number}_assignsubmission_file_"
