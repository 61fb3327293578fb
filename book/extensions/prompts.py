"""What the web book adds to the plain text of a chapter: prompts get a frame, folded code a name.

A paragraph that starts with **Predict.** asks the reader to stop and guess. In a notebook it is an
ordinary paragraph; here it gets a class, and with it a frame.

A cell with the tag `hide-input` is folded to one line. That line is the comment in the cell's first
line; without one it says what the cell makes. The set-up cell of a chapter is folded too.
"""

from __future__ import annotations

from html import escape

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx

PROMPT = "Predict"
SETUP = "try:\n    import unrolled_book\n"  # of every chapter's first cell
MAKES = (
    ("explore(", "Code of the figure"),
    ("figures.show(", "Code of the figure"),
    ("figures.table(", "Code of the table"),
    ("assert ", "The check"),
)


def frame(app: Sphinx, doctree: nodes.document) -> None:
    for strong in doctree.findall(nodes.strong):
        first = next(child for child in strong.parent.children if child.astext().strip())
        if strong is first and strong.astext().startswith(PROMPT):
            strong.parent["classes"].append("u-predict")


def name_folds(app: Sphinx, doctree: nodes.document) -> None:
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") != "cell_code":
            continue
        source = cell.children[0].astext()
        if source.startswith(SETUP):
            cell["hide_mode"] = cell["prompt_hide"] = "input"
        if cell.get("hide_mode") == "input":
            cell["prompt_show"] = summary(source)


def summary(source: str) -> str:
    """The line that stands for a folded cell."""
    first = source.strip().partition("\n")[0]
    if source.startswith(SETUP):
        return "Set-up: what this chapter imports"
    if first.startswith("# "):
        return first[2:].strip()
    return next((name for mark, name in MAKES if mark in source), "The measurement")


def open_fold(self: nodes.NodeVisitor, node: HideCodeCellNode) -> None:
    """A plain `<details>`: its one line is what a screen reader says, too."""
    self.body.append(f'<details class="u-fold"><summary>{escape(node["prompt_show"])}</summary>\n')


def close_fold(self: nodes.NodeVisitor, node: HideCodeCellNode) -> None:
    self.body.append("</details>\n")


def setup(app: Sphinx) -> dict[str, int]:
    app.connect("doctree-read", frame)
    app.connect("doctree-read", name_folds)
    app.add_node(HideCodeCellNode, override=True, html=(open_fold, close_fold))
    return {"env_version": 3, "parallel_read_safe": True, "parallel_write_safe": True}
