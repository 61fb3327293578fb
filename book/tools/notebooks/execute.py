"""Run the chapters from top to bottom in fresh kernels and write them with clean metadata.

    python -m book.tools.notebooks.execute                 all chapters
    python -m book.tools.notebooks.execute 07              one
    python -m book.tools.notebooks.execute --from draft.py chapters/07_backprop.ipynb
                                        from text in the py:percent form of jupytext
    python -m book.tools.notebooks.execute --exercises 07
                                        only the exercises, after the chapter's first code cell

Before a chapter runs, its bootstrap gets the address of `_config.yml` and its exercises are
written afresh. The run stops at the first error and then leaves the file as it was. Moving
figures are written in the page's form (UNROLLED_STATIC=1); one thread, so that sums are added in
one order.
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
import time
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from book.tools.notebooks import chapter_paths, content_id, read, tags, write
from book.tools.notebooks.address import library_source, set_bootstrap
from book.tools.notebooks.exercise_cells import TAG, of_chapter, render
from book.tools.notebooks.weight import state_minutes

ENVIRONMENT = {"UNROLLED_STATIC": "1", "OMP_NUM_THREADS": "1"}
SLOW_SECONDS = 2.0


def from_text(source: Path) -> NotebookNode:
    """The notebook that a py:percent file describes, with ids made from the cells' texts."""
    notebook = jupytext.read(source, fmt="py:percent")
    seen: set[str] = set()
    for cell in notebook.cells:
        cell.id = content_id(cell.source, seen)
        seen.add(cell.id)
    return notebook


def prepare(notebook: NotebookNode, path: Path) -> None:
    """Set the bootstrap and the exercises."""
    set_bootstrap(notebook, library_source())
    render(notebook, of_chapter(path))


def execute(notebook: NotebookNode, folder: Path, timeout: int) -> dict[int, float]:
    """Run all cells in place; the seconds of each code cell by its index."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=timeout, kernel_name="python3", resources=resources)
    seconds, started = {}, {}

    def start(cell: NotebookNode, cell_index: int) -> None:
        started[cell_index] = time.perf_counter()

    def stop(cell: NotebookNode, cell_index: int, execute_reply: dict) -> None:
        seconds[cell_index] = time.perf_counter() - started[cell_index]

    client.on_cell_execute, client.on_cell_executed = start, stop
    client.execute()
    return seconds


def report(path: Path, notebook: NotebookNode, seconds: dict[int, float]) -> None:
    """Print the chapter's time and size, and its slow cells."""
    kilobytes = path.stat().st_size / 1000
    print(f"{path.name}: {sum(seconds.values()):.1f} s in cells, {kilobytes:.0f} kB")
    for index, duration in seconds.items():
        if duration >= SLOW_SECONDS:
            first = notebook.cells[index].source.strip().splitlines()[0][:70]
            print(f"  {duration:6.1f} s  cell {index}: {first}")


def run_chapter(path: Path, source: Path | None, timeout: int) -> bool:
    """Convert if there is a source, prepare, execute, write; whether it went well."""
    notebook = from_text(source) if source else read(path)
    prepare(notebook, path)
    try:
        seconds = execute(notebook, path.resolve().parent, timeout)
        state_minutes(notebook)
    except CellExecutionError as error:
        print(f"{path.name}: stopped, the file is unchanged\n{error}", file=sys.stderr)
        return False
    write(notebook, path)
    report(path, notebook, seconds)
    return True


def run_exercises(path: Path, timeout: int) -> bool:
    """Write the exercises from their files and run their cells; the chapter's other cells stay."""
    notebook = read(path)
    render(notebook, of_chapter(path))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    places = [i for i, cell in enumerate(code) if TAG in tags(cell)]
    run = new_notebook(cells=copy.deepcopy([code[0], *(code[i] for i in places)]))
    try:
        execute(run, path.resolve().parent, timeout)
    except CellExecutionError as error:
        print(f"{path.name}: stopped, the file is unchanged\n{error}", file=sys.stderr)
        return False
    for i, ran in zip(places, run.cells[1:], strict=True):
        code[i].outputs, code[i].execution_count = ran.outputs, i + 1
        for output in ran.outputs:
            if output.output_type == "execute_result":
                output.execution_count = i + 1
    changed = write(notebook, path)
    print(f"{path.name}: exercises {'written' if changed else 'are what their files give'}")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*")
    parser.add_argument("--from", dest="source", type=Path, help="a py:percent file")
    parser.add_argument("--exercises", action="store_true", help="run only their cells")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one cell")
    options = parser.parse_args()
    if options.source and len(options.chapters) != 1:
        parser.error("--from needs the one notebook to write, e.g. chapters/07_backprop.ipynb")
    os.environ.update(ENVIRONMENT)
    if options.exercises:
        paths = chapter_paths(options.chapters)
        return 0 if all([run_exercises(path, options.timeout) for path in paths]) else 1
    done = (
        run_chapter(p, options.source, options.timeout) for p in chapter_paths(options.chapters)
    )
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
