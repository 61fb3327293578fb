"""A plugin of pytest: nbval also holds each prediction's answer against what the chapter computes.

    python -m pytest --nbval … -p book.tools.verify.predictions

The key of a prediction (`unrolled_book.predictions`) is run as one more cell, after the first code
cell below the question, or after the cell whose id the metadata name as `after`. What the chapter's
cards say must hold after its last cell.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from unrolled_book.cards import of_chapter


def checks(notebook: NotebookNode) -> dict[int, list[NotebookNode]]:
    """The cells that hold the answers, by the number of the code cell each comes after."""
    ids = [cell.id for cell in notebook.cells if cell.cell_type == "code"]
    found: dict[int, list[NotebookNode]] = {}
    seen = 0  # code cells
    for cell in notebook.cells:
        seen += cell.cell_type == "code"
        if told := cell.metadata.get("predict"):
            after = ids.index(told["after"]) if "after" in told else seen
            found.setdefault(after, []).append(new_code_cell(comparison(cell.source, told["key"])))
    return found


def card_checks(path: Path) -> list[NotebookNode]:
    """The cells that hold what the chapter's cards say."""
    said = [card for card in of_chapter(path) if card.holds]
    return [new_code_cell(f"assert ({card.holds}), {card.front!r}") for card in said]


def comparison(source: str, key: str | dict[str, str]) -> str:
    """The code that compares a cell's answer with its key; it prints nothing."""
    if isinstance(key, dict):
        key = "{" + ", ".join(f"{letter!r}: ({holds})" for letter, holds in key.items()) + "}"
    return f"__import__('unrolled_book.predictions').predictions.hold({source!r}, ({key}))"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Put each check behind the cell that it needs."""
    of_file: dict[Any, dict[int, list[NotebookNode]]] = {}
    for item in items[:]:
        if not hasattr(item, "cell_num"):
            continue
        if item.parent not in of_file:
            of_file[item.parent] = found = checks(item.parent.nb)
            last = max(each.cell_num for each in items if each.parent is item.parent)
            found[last] = found.get(last, []) + card_checks(item.parent.path)
            assert max(found) == last, f"{item.parent.path}: no code below a prediction"
        for n, cell in enumerate(of_file[item.parent].pop(item.cell_num, ())):
            more = type(item).from_parent(
                item.parent, name=f"{item.name}, answer {n + 1}", cell_num=item.cell_num,
                cell=cell, options=item.options,
            )  # fmt: skip
            items.insert(items.index(item) + n + 1, more)
