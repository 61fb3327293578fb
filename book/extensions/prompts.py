"""What the web book adds to the plain text of a chapter: prompts get a frame, folded code a name.

A paragraph that starts with **Predict.** asks the reader to stop and guess. In a notebook it is an
ordinary paragraph; here it gets a class, and with it a frame. Where its answer follows, folded (see
`unrolled_book.predictions`), question, options and answer get one frame, which says what the answer
is: `_static/predict.js` takes the reader's own. Without a script all stays as written.

A cell with the tag `hide-input` is folded to one line. That line is the comment in the cell's first
line; without one it says what the cell makes. The set-up cell of a chapter is folded too.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from unrolled_book.predictions import Prediction, of_notebook

PROMPT = "Predict"
ANSWER = "<details><summary>Answer: "
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


def take_answers(app: Sphinx, doctree: nodes.document) -> None:
    """Put each prediction that has an answer into one frame."""
    path = Path(app.env.doc2path(app.env.docname))
    if path.suffix != ".ipynb":
        return
    known = {one.name: one for one in of_notebook(path)}
    for fold in [raw for raw in doctree.findall(nodes.raw) if raw.astext().startswith(ANSWER)]:
        one = known[fold.astext().removeprefix(ANSWER).partition("<")[0]]
        around, end = fold.parent, fold.parent.index(fold)
        begin = max(i for i in range(end) if "u-predict" in around[i].get("classes", ()))
        around[begin]["classes"].remove("u-predict")
        around[begin]["ids"].append(f"predict-{one.name}")
        around.replace(fold, _raw("<details><summary>Answer</summary>"))
        end = next(i for i in range(end, len(around)) if around[i].astext().strip() == "</details>")
        around.insert(end + 1, _raw("</div>"))
        around.insert(begin, _raw(f'<div class="u-predict u-asked" {_told(one)}>'))


def _told(one: Prediction) -> str:
    told = {"name": one.name, "kind": one.kind, "right": one.right, "counts": one.counts,
            "unit": one.unit}  # fmt: skip
    return " ".join(f'data-{key}="{escape(value)}"' for key, value in told.items() if value)


def _raw(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def add_script(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give a page with prompts the script that takes answers."""
    if "u-predict" in context.get("body", ""):
        app.add_js_file("predict.js", loading_method="defer")


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
    app.connect("doctree-read", take_answers)
    app.connect("html-page-context", add_script)
    app.connect("doctree-read", name_folds)
    app.add_node(HideCodeCellNode, override=True, html=(open_fold, close_fold))
    return {"env_version": 4, "parallel_read_safe": True, "parallel_write_safe": True}
