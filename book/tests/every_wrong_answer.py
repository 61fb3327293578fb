"""A program for the page's Python: marks every wrong answer of the exercises in NAMES.

Its last line is the JSON of {exercise: mistakes that pass, or are not told}.
"""

import json

from unrolled_book import exercises
from unrolled_book.exercises.engine.marking import mark, planned_outcomes


def untold(name):
    """The mistakes of an exercise that do not get their own message."""
    exercise = exercises.load(name)
    calls = exercise.calls(SEED)  # noqa: F821, written above by the test
    planned = planned_outcomes(exercise, calls)
    reports = {mistake: mark(exercise, calls, found, planned) for mistake, found in planned.items()}
    return [
        f"{mistake}: {report.text}"
        for mistake, report in reports.items()
        if report.state != "failed" or f"Likely cause: {mistake}." not in report.lines
    ]


json.dumps({name: untold(name) for name in NAMES})  # noqa: F821
