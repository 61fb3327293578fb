"""What is written for courses from the exercises, as texts by name, to be held against another run.

    python -m book.tools.verify.texts FILE      as JSON

One course has all exercises of the book, a week for each chapter. The texts are the cells of its
notebooks, the students' and the teachers', but for the data of the self-check, which nobody reads:
it holds all digits of the answers. With them come the tasks that have numbers of a student's own.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from unrolled_book import exercises
from unrolled_book.coursework import editions, personal
from unrolled_book.coursework.syllabus import Syllabus

from book.tools.generate.guide import can_be_personal

UNREAD = {"self-check", "setup"}


def texts() -> dict[str, str]:
    """'teacher/c07_backprop notes-softmax-vjp' -> what stands there."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in editions.build(_course(Path(folder, "all.toml")), folder):
            name = path.relative_to(folder).with_suffix("")
            for cell in json.loads(path.read_text("utf8"))["cells"]:
                if cell["id"] not in UNREAD:
                    found[f"{name} {cell['id']}"] = "".join(cell["source"])
    return found | _personal()


def _personal() -> dict[str, str]:
    every = [f"{slug}/{name}" for slug, names in exercises.chapters().items() for name in names]
    able = [item for item in map(exercises.load, every) if can_be_personal(item)]
    tasks = [personal.own(item, seed=1) for item in able]
    return {
        f"own/{task.chapter} {task.name}": f"{task.statement}\n\n{task.solution_source}"
        for task in tasks
    }


def _course(path: Path) -> Syllabus:
    lines = ['title = "All"', 'seed = "a secret of the test"', "late = 1"]
    for slug, names in exercises.chapters().items():
        tasks = [f"{slug}/{name}" for name in names]
        lines += ["[[weeks]]", f'name = "{slug}"', f'title = "{slug}"', f"exercises = {tasks}"]
    path.write_text("\n".join(lines), encoding="utf-8")
    return Syllabus.read(path)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(texts()), encoding="utf-8")
