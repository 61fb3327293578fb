"""A paragraph that starts with **Predict.** is a prompt: stop, guess, read on.

In a notebook it is an ordinary paragraph; here it gets a class, and with it a frame.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx

PROMPT = "Predict"


def frame(app: Sphinx, doctree: nodes.document) -> None:
    for strong in doctree.findall(nodes.strong):
        first = next(child for child in strong.parent.children if child.astext().strip())
        if strong is first and strong.astext().startswith(PROMPT):
            strong.parent["classes"].append("u-predict")


def setup(app: Sphinx) -> dict[str, int]:
    app.connect("doctree-read", frame)
    return {"env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
