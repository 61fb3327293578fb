"""From the files of a submission to the program of one answer."""

from __future__ import annotations

from unrolled_book.coursework.answers import Answers, take
from unrolled_book.coursework.submissions import Submission
from unrolled_book.coursework.syllabus import Week
from unrolled_book.exercises.engine import Exercise
from unrolled_book.exercises.engine.compare import quoted


class Missing(Exception):
    """Why there is no answer, in a sentence for the student."""


def extract(submission: Submission, week: Week) -> tuple[list[Answers], list[str]]:
    """The files, those that count most first, and what was wrong with them."""
    files, problems = [], []
    for name, body in submission.files:
        try:
            files.append(take(name, body))
        except Exception as error:  # a file that was made to break what reads it, too
            plain = isinstance(error, ValueError)
            problems.append(str(error) if plain else f"{quoted(name, 60)} cannot be read")
    for answers in files:
        problems += answers.problems
    newest_first = files[::-1]
    return sorted(newest_first, key=lambda a: not _is_of(a.file, week)), problems


def _is_of(file: str, week: Week) -> bool:
    return week.name.casefold() in file.casefold()


def program_for(exercise: Exercise, files: list[Answers], given: str) -> tuple[str, list[str]]:
    """The program of the answer, after the imports that are given, and notes on the choice.

    Raises Missing where no file has the answer.
    """
    name = f"{exercise.chapter}/{exercise.name}"
    if not files:
        raise Missing("there is no file that can be read")
    chosen = next((answers for answers in files if answers.defines(name)), files[0])
    notes = chosen.notes(name)
    others = [quoted(a.file, 60) for a in files if a is not chosen and a.defines(name)]
    if others or chosen is not files[0]:
        too = f"; {', '.join(others)} defines it, too" if others else ""
        notes.append(f"taken from {quoted(chosen.file, 60)}{too}")
    try:
        return chosen.program(name, given), notes
    except ValueError as error:
        raise Missing(str(error)) from error
