"""What stays on one line: a formula and the mark after it, and short expressions such as 5 %,
16 × 16, 0.74–0.83, top-p and 1e-5.

Browsers may break a line between a formula, which is a box to them, and the text that touches it,
and at each space and hyphen of a text.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

AFTER = re.compile(r"[.,;:!?)\]’”]+")
BEFORE = re.compile(r"[(\[“]+$")
NUMBER = r"[-−]?\d[\d,.]*(?<![,.])"
TERM = rf"(?:{NUMBER}|\b[A-Za-z]\b)"
WHOLE = re.compile(
    rf"{TERM}(?:\s[×·=−+]\s{TERM})+|{NUMBER}[–-]{NUMBER}(?:\s%)?|{NUMBER}\s%"
    r"|\b(?:top|min)-[kp]\b|\b[\w.]+-\d\w*"
)
LONGEST = 24  # characters that even a phone has room for


class KeepMarks(SphinxPostTransform):
    default_priority = 800
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        for math in list(self.document.findall(nodes.math)):
            parent = math.parent
            at = parent.index(math)
            before, after = parent[at - 1] if at else None, parent[at + 1 : at + 2]
            left = BEFORE.search(before) if isinstance(before, nodes.Text) else None
            right = AFTER.match(after[0]) if after and isinstance(after[0], nodes.Text) else None
            if not (left or right):
                continue
            kept = nodes.inline("", "", classes=["u-joined"])
            parent[at] = kept
            if left:
                parent[at - 1] = nodes.Text(before[: left.start()])
                kept += nodes.Text(left[0])
            kept += math
            if right:
                parent[at + 1] = nodes.Text(after[0][right.end() :])
                kept += nodes.Text(right[0])
        for text in list(self.document.findall(nodes.Text)):
            if _is_prose(text):
                keep_whole(text)
        for code in self.document.findall(nodes.literal):
            if len(code.astext()) <= LONGEST and _is_prose(code):
                code["classes"].append("u-joined")


def _is_prose(node: nodes.Node) -> bool:
    """Whether it is part of a paragraph's words, not of a table, code or mathematics."""
    node = node.parent
    while isinstance(node, nodes.emphasis | nodes.strong | nodes.reference | nodes.inline):
        node = node.parent
    return isinstance(node, nodes.paragraph) and not isinstance(node.parent, nodes.entry)


def keep_whole(text: nodes.Text) -> None:
    """Put each short expression of a text into an element of its own, which does not break."""
    parts, end = [], 0
    for found in WHOLE.finditer(text):
        if len(found[0]) <= LONGEST:
            parts += [nodes.Text(text[end : found.start()]), _joined(found[0])]
            end = found.end()
    if parts:
        text.parent.replace(text, [*filter(None, parts), nodes.Text(text[end:])])


def _joined(text: str) -> nodes.inline:
    return nodes.inline("", "", nodes.Text(text), classes=["u-joined"])


def setup(app) -> dict[str, bool]:
    app.add_post_transform(KeepMarks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
