"""A chapter as the rules see it: cells, prose without markup, code without magics, outputs."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from book.tools.notebooks import tags
from nbformat import NotebookNode

_HEADING = re.compile(r"^(#{1,6}) +(.*?)\s*$", re.MULTILINE)
_FENCE = re.compile(r"^(```+|~~~+).*?^\1\s*$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Chapter:
    """A notebook and the path it has, or would have (tests build notebooks in memory)."""

    path: Path
    notebook: NotebookNode

    @property
    def cells(self) -> list[NotebookNode]:
        return self.notebook.cells

    @property
    def code(self) -> list[tuple[int, NotebookNode]]:
        """(index, cell) of the code cells."""
        return [(i, c) for i, c in enumerate(self.cells) if c.cell_type == "code"]

    @property
    def prose(self) -> list[tuple[int, NotebookNode]]:
        """(index, cell) of the Markdown cells that the author wrote, not the exercises' ones."""
        markdown = ((i, c) for i, c in enumerate(self.cells) if c.cell_type == "markdown")
        return [(i, c) for i, c in markdown if "exercise" not in tags(c)]

    @property
    def opening(self) -> str:
        """The Markdown before the first code cell."""
        first = self.code[0][0] if self.code else len(self.cells)
        return "\n\n".join(c.source for c in self.cells[:first])

    def headings(self, level: int) -> list[str]:
        """The author's headings of one level, in order."""
        texts = (without_fences(cell.source) for _, cell in self.prose)
        found = (m for text in texts for m in _HEADING.finditer(text))
        return [m[2] for m in found if len(m[1]) == level]

    def section(self, title: str) -> str:
        """The author's Markdown under the heading '## title…', up to the next one of level 2."""
        text = "\n\n".join(without_fences(cell.source) for _, cell in self.prose)
        parts = re.split(r"^## +", text, flags=re.MULTILINE)
        return next((p for p in parts[1:] if p.startswith(title)), "")


def without_fences(markdown: str) -> str:
    """The Markdown with its fenced code taken out."""
    return _FENCE.sub("", markdown)


def is_heading(line: str) -> bool:
    """Whether this line of Markdown is a heading."""
    return bool(_HEADING.fullmatch(line.strip()))


def items(markdown: str) -> list[str]:
    """The first lines of the outermost list items."""
    return re.findall(r"^(?:[-*+]|\d+[.)]) +(.+)$", markdown, re.MULTILINE)


def tree(cell: NotebookNode) -> ast.Module:
    """The syntax tree of a code cell, its %magics and !commands left out."""
    return _parsed(cell.source)


@lru_cache(200)  # a chapter's cells, which many rules read
def _parsed(source: str) -> ast.Module:
    return ast.parse(re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", source))


def plain_outputs(cell: NotebookNode) -> list[str]:
    """What a code cell printed or showed, as texts; drawings and styles are no text."""
    found = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        found += [output.get("text", ""), data.get("text/plain", ""), data.get("text/markdown", "")]
        markup = re.sub(r"(?s)<(svg|style|script)\b.*?</\1>", " ", data.get("text/html", ""))
        found.append(re.sub(r"<[^>]*>", " ", markup))
    return [text for text in found if text.strip()]
