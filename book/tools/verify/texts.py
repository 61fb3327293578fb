"""What is written for courses from the exercises, as texts by name, to be held against another run.

    python -m book.tools.verify.texts FILE      as JSON

One course has all exercises of the book, a week for each chapter; where students may have numbers
of their own, one has. The texts are the cells of its notebooks, the students' and the teachers',
but for the data of the self-check, which nobody reads: it holds all digits of the answers.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from unrolled.teaching import exercises
from unrolled.teaching.coursework import editions
from unrolled.teaching.coursework.syllabus import Syllabus

from book.tools.generate.guide import can_be_personal

UNREAD = {"self-check", "setup"}


def texts() -> dict[str, str]:
    """'teacher/c07_backprop notes-softmax-vjp' -> what stands there."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        roster = Path(folder, "roster.csv")
        roster.write_text("student\nada\n", encoding="utf-8")
        for path in editions.build(_course(Path(folder, "all.toml")), folder, roster):
            name = path.relative_to(folder).with_suffix("")
            for cell in json.loads(path.read_text("utf8"))["cells"]:
                if cell["id"] not in UNREAD:
                    found[f"{name} {cell['id']}"] = "".join(cell["source"])
    return found


def _course(path: Path) -> Syllabus:
    lines = ['title = "All"', 'seed = "a secret of the test"', "late = 1"]
    for slug, names in exercises.chapters().items():
        tasks = ", ".join(_task(f"{slug}/{name}") for name in names)
        lines += ["[[weeks]]", f'name = "{slug}"', f'title = "{slug}"', f"exercises = [{tasks}]"]
    path.write_text("\n".join(lines), encoding="utf-8")
    return Syllabus.read(path)


def _task(name: str) -> str:
    own = ", personal = true" if can_be_personal(exercises.load(name)) else ""
    return f'{{exercise = "{name}"{own}}}'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(texts()), encoding="utf-8")
