"""Whose work it is: what makes a teacher look at a submission again. It takes no points away.

Names come from the learning platform. A notebook may say another one, in the cell STUDENT = "…" or
by the personal numbers that its answers fit; and two may have the same text.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from unrolled_book.coursework.answers import Answers
from unrolled_book.coursework.marks import Grade
from unrolled_book.coursework.roster import names_of
from unrolled_book.coursework.syllabus import plain

_TELLING = 200  # characters beyond what was given, below which two may well agree
_MOST_NAMED = 3


def claimed(files: Iterable[Answers]) -> str:
    """The id in the first file's cell STUDENT = "…"; "" where there is none."""
    for answers in files:
        try:
            said = ast.literal_eval(answers.text_of("STUDENT").partition("=")[2].strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(said, str) and said.strip():
            return said.strip()[:100]
    return ""


def sign(text: str, given: str = "") -> str:
    """A digest of a text that is long enough to be somebody's own; "" of a shorter one."""
    own = " ".join(text.split())
    return hashlib.sha256(own.encode()).hexdigest() if len(own) - len(given) > _TELLING else ""


def flagged(grades: list[Grade]) -> list[Grade]:
    """The grades, with what the teacher should look at."""
    owners = {name: each.student for each in grades for name in names_of(each.student)}
    same: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in grades:
        for found in each.signs:
            same[found].append(each.student)
    return [replace(g, flags=(*g.flags, *_name(g, owners), *_texts(g, same))) for g in grades]


def _name(grade: Grade, owners: dict[str, str]) -> Iterable[str]:
    owner = owners.get(plain(grade.claims)) if grade.claims else None
    if owner not in (None, grade.student):
        yield f"the notebook says STUDENT = {grade.claims!r}, who is another"


def _texts(grade: Grade, same: dict[tuple[str, str], list[str]]) -> Iterable[str]:
    tasks = defaultdict(list)
    for found in grade.signs:
        others = tuple(student for student in same[found] if student != grade.student)
        if others:
            tasks[others].append(found[0])
    for others, names in tasks.items():
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        yield f"{', '.join(names)}: the same text as {', '.join(others[:_MOST_NAMED])}{more}"


def whose_numbers(fits: list[str]) -> tuple[str, ...]:
    """A flag for a wrong personal result that is right for these students; a number that is right
    for many is no sign.
    """
    if not 0 < len(fits) <= _MOST_NAMED:
        return ()
    return (f"a personal result is wrong here and right for {', '.join(fits)}",)
