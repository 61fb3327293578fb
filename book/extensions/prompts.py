"""What the web book adds to the plain text of a chapter: prompts get a frame, folded code a name.

A paragraph that starts with **Predict.** asks the reader to stop and guess. In a notebook it is an
ordinary paragraph; here it gets a class, and with it a frame. Where its answer follows, folded (see
`unrolled_book.predictions`), question, options and answer get one frame, which says what the answer
is: `_static/predict.js` takes the reader's own, and then leads to the cell that shows it. Without a
script all stays as written.

A cell with the tag `hide-input` is folded to one line. That line is the comment in the cell's first
line; without one it says what the cell makes. The set-up cell of a chapter is folded too.
"""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from unrolled_book.predictions import Prediction, of_notebook, parse

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
    shown, cells = shows(path), {}
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code":
            cells[cell["cell_index"]] = cell
    for fold in [raw for raw in doctree.findall(nodes.raw) if raw.astext().startswith(ANSWER)]:
        one = known[fold.astext().removeprefix(ANSWER).partition("<")[0]]
        around, end = fold.parent, fold.parent.index(fold)
        begin = max(i for i in range(end) if "u-predict" in around[i].get("classes", ()))
        around[begin]["classes"].remove("u-predict")
        around[begin]["ids"].append(f"predict-{one.name}")
        around.replace(fold, _raw("<details><summary>Answer</summary>"))
        end = next(i for i in range(end, len(around)) if around[i].astext().strip() == "</details>")
        around.insert(end + 1, _raw("</div>"))
        number, name = shown[one.name]
        if name not in cells[number]["ids"]:
            cells[number]["ids"].append(name)
        around.insert(begin, _raw(f'<div class="u-predict u-asked" {_told(one, name)}>'))


def shows(path: Path) -> dict[str, tuple[int, str]]:
    """For each prediction the number, and an identifier, of the cell that shows its answer.

    It is the cell that the key runs after; where that is folded and prints nothing, the next that
    has an output.
    """
    cells = json.loads(path.read_text("utf8"))["cells"]
    code = [i for i, cell in enumerate(cells) if cell["cell_type"] == "code"]
    found = {}
    for i, cell in enumerate(cells):
        if told := cell["metadata"].get("predict"):
            after = told.get("after")
            own = [j for j in code if (cells[j]["id"] == after if after else j > i)]
            seen = [j for j in code if j >= own[0] and _can_be_seen(cells[j])]
            number = seen[0] if seen else own[0]
            found[parse("".join(cell["source"])).name] = number, f"cell-{cells[number]['id']}"
    return found


def _can_be_seen(cell: dict[str, Any]) -> bool:
    return bool(cell["outputs"]) or "hide-input" not in cell["metadata"].get("tags", [])


def _told(one: Prediction, see: str) -> str:
    told = {"name": one.name, "kind": one.kind, "right": one.right, "counts": one.counts,
            "unit": one.unit, "see": see}  # fmt: skip
    return " ".join(f'data-{key}="{escape(value)}"' for key, value in told.items() if value)


def _raw(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def add_script(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give a page with prompts the script that takes answers."""
    if 'data-kind="places"' in context.get("body", ""):
        app.add_js_file("places.js", loading_method="defer")
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
    line = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(node["prompt_show"]))
    self.body.append(f'<details class="u-fold"><summary><span>{line}</span></summary>\n')


def close_fold(self: nodes.NodeVisitor, node: HideCodeCellNode) -> None:
    self.body.append("</details>\n")


def setup(app: Sphinx) -> dict[str, int]:
    app.connect("doctree-read", frame)
    app.connect("doctree-read", take_answers)
    app.connect("html-page-context", add_script)
    app.connect("doctree-read", name_folds)
    app.add_node(HideCodeCellNode, override=True, html=(open_fold, close_fold))
    return {"env_version": 5, "parallel_read_safe": True, "parallel_write_safe": True}
