"""Write each chapter's exercises into its notebook, after the heading '## Exercises'.

    python -m book.tools.notebooks.exercise_cells            all chapters
    python -m book.tools.notebooks.exercise_cells 07 02      some
    python -m book.tools.notebooks.exercise_cells --check    exit 1 where a notebook is behind
    python -m book.tools.notebooks.exercise_cells --folder F the exercises of your own folder F

The cells carry the tag `exercise` and are replaced; a cell whose text is unchanged keeps its
outputs. The exercises are the files of unrolled_book/exercises/c<chapter>, or of F, which
has the same form; then chapters without a folder in F stay as they are.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from unrolled_book import exercises
from unrolled_book.exercises.engine import Exercise
from unrolled_book.exercises.examples import examples

from book.tools.notebooks import chapter_paths, read, tags, write
from book.tools.notebooks import number as chapter_number

TAG = "exercise"
HEADING = re.compile(r"^## Exercises\s*$", re.MULTILINE)


def of_chapter(path: Path, folder: Path = exercises.HOME) -> list[Exercise]:
    """The exercises of a notebook, in order; none if the folder has none for it."""
    slug = f"c{path.stem}"
    names = exercises.chapters(folder).get(slug, ())
    return [exercises.load(f"{slug}/{name}", folder) for name in names]


def render(notebook: NotebookNode, items: list[Exercise]) -> None:
    """Put the exercises' cells into the notebook. ValueError if it lacks the heading."""
    old = {cell.id: cell for cell in notebook.cells if TAG in tags(cell)}
    kept = [part for cell in notebook.cells if cell.id not in old for part in _parted(cell)]
    headings = [i for i, cell in enumerate(kept) if _is_heading(cell)]
    if items and len(headings) != 1:
        raise ValueError(f"{len(headings)} headings '## Exercises', expected one")
    new = [cell for n, item in enumerate(items, 1) for cell in cells(item, n)]
    new = [_keep_output(cell, old.get(cell.id)) for cell in new]
    place = headings[0] + 1 if headings else len(kept)
    notebook.cells = [*kept[:place], *new, *kept[place:]]


def _parted(cell: NotebookNode) -> list[NotebookNode]:
    """The cell, cut in two if another section begins in it after '## Exercises'."""
    heading = HEADING.search(cell.source) if cell.cell_type == "markdown" else None
    rest = heading and re.search(r"^## ", cell.source[heading.end() :], re.MULTILINE)
    if not rest:
        return [cell]
    cut = heading.end() + rest.start()
    below = new_markdown_cell(cell.source[cut:], id=f"{cell.id[:58]}-below")
    return [new_markdown_cell(cell.source[:cut].strip(), id=cell.id), below]


def _is_heading(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and bool(HEADING.search(cell.source))


def _keep_output(new: NotebookNode, old: NotebookNode | None) -> NotebookNode:
    if old and new.cell_type == "code" and old.source == new.source:
        new.outputs, new.execution_count = old.outputs, old.execution_count
    return new


def cells(exercise: Exercise, number: int) -> list[NotebookNode]:
    """The four cells: statement, starter, check, folded solution."""
    name, folder = exercise.name, exercise.path.parent.parent
    path = json.dumps(str(folder), ensure_ascii=False)
    elsewhere = "" if folder == exercises.HOME else f", folder={path}"
    made = [
        new_markdown_cell(statement(exercise, number)),
        new_code_cell(exercise.starter),
        new_code_cell(f'check("{name}", {name}{elsewhere})'),
        new_markdown_cell(folded_solution(exercise)),
    ]
    for cell, part in zip(made, ("statement", "starter", "check", "solution"), strict=True):
        cell.id = f"ex-{name.replace('_', '-')}-{part}"[-64:]
        cell.metadata["tags"] = [TAG]
    return made


def statement(exercise: Exercise, number: int) -> str:
    """The heading, the statement, and the visible tests as examples."""
    chapter = chapter_number(exercise.chapter)
    plural = "" if exercise.points == 1 else "s"
    about = f"{exercise.kind}, {'★' * exercise.level}, {exercise.points} point{plural}"
    heading = f"### Exercise {chapter}.{number} · {exercise.title} ({about})"
    return "\n\n".join([heading, exercise.statement, *examples(exercise)])


def folded_solution(exercise: Exercise) -> str:
    """The solution as Markdown inside <details>; the empty lines let it render everywhere."""
    code = f"```python\n{exercise.solution_source}\n```"
    head = "<details><summary>Solution</summary>"
    return "\n\n".join([head, code, exercise.explanation, "</details>"])


def behind(path: Path, folder: Path = exercises.HOME) -> bool:
    """Whether the notebook's exercise cells differ from what the files give."""
    notebook = read(path)
    before = [(cell.id, cell.source) for cell in notebook.cells]
    render(notebook, of_chapter(path, folder))
    return before != [(cell.id, cell.source) for cell in notebook.cells]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--folder", type=Path, default=exercises.HOME, metavar="YOUR-EXERCISES")
    options = parser.parse_args()
    folder = options.folder
    given = [
        p for p in chapter_paths(options.chapters) if f"c{p.stem}" in exercises.chapters(folder)
    ]
    late = [path for path in given if behind(path, folder)]
    for path in late:
        print(f"{path.name}: exercises {'are behind their files' if options.check else 'written'}")
        if not options.check:
            notebook = read(path)
            render(notebook, of_chapter(path, folder))
            write(notebook, path)
    return int(options.check and bool(late))


if __name__ == "__main__":
    sys.exit(main())
