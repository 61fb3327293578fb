"""A formula in a line keeps the mark after it: no comma begins a line.

Browsers may break a line between a formula, which is a box to them, and the text that touches it.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

AFTER = re.compile(r"[.,;:!?)\]’”]+")
BEFORE = re.compile(r"[(\[“]+$")


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


def setup(app) -> dict[str, bool]:
    app.add_post_transform(KeepMarks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
