"""A grade as the file that Gradescope reads, results.json."""

from __future__ import annotations

import json
from typing import Any

from unrolled_book.coursework.feedback import sentence, visible
from unrolled_book.coursework.marks import Grade, Mark


def results(grade: Grade) -> str:
    """The grade in the form of results.json."""
    data = {
        "score": grade.total,
        "output": "\n".join(visible(problem) for problem in grade.problems),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_test(i, mark) for i, mark in enumerate(grade.marks, 1)],
    }
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def _test(number: int, mark: Mark) -> dict[str, Any]:
    lines = [mark.verdict, *("  " + line for line in mark.lines)]
    lines += [f"Likely cause: {cause}." for cause in mark.causes]
    lines += [f"Hint: {mark.hint}"] if mark.hint else []
    lines += [f"Note: {sentence(note)}" for note in mark.notes]
    status = {"status": "passed" if mark.state == "right" else "failed"}
    return ({} if mark.state == "unread" else status) | {
        "number": str(number),
        "name": f"{mark.name}: {mark.title}",
        "name_format": "text",
        "score": mark.points,
        "max_score": mark.out_of,
        "output": "\n".join(visible(line) for each in lines for line in each.split("\n")),
        "output_format": "text",
        "visibility": "visible",
    }
