"""Numbers to cite: Figure 14.3, Table 14.1 and, of the boxed formulas, (14.2).

They are counted on each chapter's page, from its first output to its last, so a notebook holds
none and never has to be renumbered. A number is a link to its own place, which can be copied. A
figure that moves is a figure; a table has a number if it has a caption. Of the displayed formulas
those in a box have one: the box is how a chapter marks what it has arrived at, and a label, which
Sphinx would number, shows raw in Jupyter.

Written here and not left to Sphinx: its `numfig` numbers figures of reStructuredText, none that
are outputs of a notebook, and it counts sections, where ours are called 2 and 2b.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

BOXED = r"\boxed"
_CHAPTER = re.compile(r"chapters/0*(\d+[a-z]?)_")
_FIGURE = r'<figure class="(?P<kind>[^"]*)">(?P<inside>.*?)</figure>'
_FORMULA = r'<div class="math [^"]*">\\\[(?P<tex>.*?)\\\]</div>'
_ON_PAGE = re.compile(f"{_FIGURE}|{_FORMULA}", re.DOTALL)
_IN_MARKDOWN = re.compile(r"\$\$(?P<tex>.*?)\$\$", re.DOTALL)


class Numbers:
    """The numbers of one chapter: "14.1", "14.2", …, counted for each kind of thing."""

    def __init__(self, chapter: str) -> None:
        self.chapter, self.counts = chapter, Counter()

    @classmethod
    def of(cls, page: str) -> Numbers | None:
        """Those of `chapters/02b_smoothing` begin with "2b."; other pages have none."""
        found = _CHAPTER.match(page)
        return cls(found[1]) if found else None

    def next(self, kind: str) -> str:
        self.counts[kind] += 1
        return f"{self.chapter}.{self.counts[kind]}"

    # ---- on the page -----------------------------------------------------------------------------

    def on_page(self, body: str) -> str:
        """A page's HTML, its formulas not yet set, with a number and an anchor where due."""
        return _ON_PAGE.sub(self._numbered, body)

    def _numbered(self, found: re.Match[str]) -> str:
        return self._formula(found) if found["kind"] is None else self._figure(found)

    def _figure(self, found: re.Match[str]) -> str:
        kind, inside = found["kind"], found["inside"]
        name, tag = ("Table", "caption") if _is_table(kind) else ("Figure", "figcaption")
        opening = re.search(rf"<{tag}\b[^>]*>", inside)
        if name == "Table" and not opening:
            return found[0]
        place, link = self._next_place(name)
        if opening:
            inside = f"{inside[: opening.end()]}{link}. {inside[opening.end() :]}"
        else:
            inside += f"<{tag}>{link}</{tag}>"
        return f'<figure class="{kind}" id="{place}">{inside}</figure>'

    def _formula(self, found: re.Match[str]) -> str:
        if BOXED not in found["tex"]:
            return found[0]
        place, link = self._next_place("Equation")
        return f'<div class="u-equation" id="{place}">{found[0]}{link}</div>'

    def _next_place(self, name: str) -> tuple[str, str]:
        """The next anchor, and the number as a link to it."""
        number = self.next(name)
        place = f"{name.lower()}-{number.replace('.', '-')}"
        said = f"({number})" if name == "Equation" else f"{name} {number}"
        return place, f'<a class="u-no" href="#{place}">{said}</a>'

    # ---- in the chapter's Markdown ---------------------------------------------------------------

    def in_markdown(self, text: str) -> str:
        """The text of a cell, its boxed formulas with their numbers as TeX has them, `\\tag`."""

        def numbered(found: re.Match[str]) -> str:
            if BOXED not in found["tex"]:
                return found[0]
            tex = found["tex"]
            end = tex[len(tex.rstrip()) :]
            return f"$${tex.rstrip()} \\tag{{{self.next('Equation')}}}{end}$$"

        return _IN_MARKDOWN.sub(numbered, text)

    def in_text(self, page: str, text: str) -> str:
        """The text form of an output, with the number of the figure that its HTML `page` has."""
        found = re.search(_FIGURE, page, re.DOTALL)
        if not found:
            return text
        if not _is_table(found["kind"]):
            shown = re.sub(r"^\[(?!Figure\b)", "[Figure: ", text)
            return shown.replace("[Figure", f"[Figure {self.next('Figure')}", 1)
        return f"Table {self.next('Table')}. {text}" if "<caption" in found["inside"] else text


def _is_table(classes: str) -> bool:
    return "u-table" in classes.split()


def tell_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    numbers = Numbers.of(page)
    if app.builder.format == "html" and doctree is not None and numbers:
        context["body"] = numbers.on_page(context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", tell_page, priority=900)  # before the formulas are set
    return {"parallel_read_safe": True, "parallel_write_safe": True}
