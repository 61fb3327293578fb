"""Pages of the site → one HTML document that prints as a book."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bs4 import BeautifulSoup, Tag
from pybtex.database import parse_file

from book.tools.epub import chapters
from book.tools.epub.__main__ import MOVING
from book.tools.epub.leaves import SITE, Leaf
from book.tools.notebooks import ROOT
from book.tools.paper import front, index, on_paper
from book.tools.paper.front import Edition, qr

STYLE = (Path(__file__).parent / "paper.css").read_text("utf8")
Pages = dict[str, int]  # the number of the page on which an id stands
LAST = [("solutions", "Solutions"), ("index", "Index")]


@dataclass
class Block:
    """What begins on a page of its own. head: what the running head calls it, if it has one."""

    key: str
    kind: str  # classes
    text: str
    head: str = ""
    recto: bool = True


class Document:
    """The book: its text in order, its solutions, its index, and where the web has more.

    leaves: the pages of the site, which are changed; edition: what its imprint says.
    """

    def __init__(self, leaves: list[Leaf], edition: Edition) -> None:
        self.leaves, self.edition = leaves, edition
        self.styles = dict.fromkeys(  # each figure has them; the book needs them once
            style.get_text() for leaf in leaves for style in leaf.body.select("style")
        )
        for leaf in leaves:
            _prepare(leaf, edition.base)
        self.solutions = [(leaf, _solutions(leaf)) for leaf in leaves]
        works = parse_file(str(ROOT / "book" / "references.bib"))
        self.index = index.headings(leaves, works)
        self.ids = {tag["id"] for leaf in leaves for tag in leaf.body.select("[id]")}
        self.ids |= {leaf.key for leaf in leaves} | {key for key, _ in LAST}
        for _, found in self.solutions:
            self.ids |= {tag["id"] for each in found for tag in [each, *each.select("[id]")]
                         if tag.get("id")}  # fmt: skip

    def dead_links(self) -> list[str]:
        """The links within the book that lead nowhere."""
        bodies = [leaf.body for leaf in self.leaves]
        bodies += [each for _, found in self.solutions for each in found]
        links = [link["href"] for body in bodies for link in body.select("a[href^='#']")]
        return sorted({link for link in links if link[1:] not in self.ids})

    @cached_property
    def blocks(self) -> list[Block]:
        """The book from cover to index."""
        contents = front.contents(self.leaves, LAST)
        found = [
            Block("p-cover", "p-cover", "&nbsp;"),  # heads.py lays it on
            Block("p-half", "p-plain", self.edition.title()),
            Block("p-about", "p-plain", self.edition.about(), recto=False),
            Block("p-contents", "p-plain", contents, "Contents"),
        ]
        part = ""
        for leaf in self.leaves:
            chapter, before = leaf.path.startswith("chapters/"), ""
            if leaf.part != part:
                part = leaf.part
                before = f'<p class="p-opens">{html.escape(part)}</p>' if chapter else ""
            text = before + leaf.body.decode_contents()
            found.append(Block(leaf.key, "p-page bd-article", text, leaf.title, chapter))
        found[4].recto = True
        found.append(Block("solutions", "p-page bd-article", self._solved(), "Solutions"))
        text = self.indexed({})
        return [*found, Block("index", "p-page bd-article p-index", text, "Index")]

    def indexed(self, pages: Pages) -> str:
        """The index. pages: as far as they are known from an earlier print."""
        lines = index.as_html(self.index, pages)
        return f'<h1>Index</h1><p class="p-small">Bold: where a term is introduced.</p>{lines}'

    def html(self, faces: str = "") -> str:
        """The whole document, without the numbers of its pages."""
        chapter = next(leaf.path for leaf in self.leaves if leaf.path.startswith("chapters/"))
        head = BeautifulSoup((SITE / chapter).read_text("utf8"), "html.parser").head
        linked = head.select("link[rel=stylesheet]")
        for tag in linked:
            path = (SITE / chapter).parent / tag["href"].split("?")[0]
            tag["href"] = path.resolve().as_uri()
        sections = "".join(
            f'<section class="{block.kind}" id="{block.key}">{block.text}</section>'
            for block in self.blocks
        )
        keys = [block.key for block in self.blocks] + [key for key, *_ in self.sections()]
        reached = "".join(f'<a href="#{key}"></a>' for key in keys)
        return f"""<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8">
<title>{html.escape(self.edition.imprint.whole)}</title>{"".join(map(str, linked))}
<style>{"".join(self.styles)}</style><style>{faces}{STYLE}</style></head>
<body style="display: none"><main class="bd-content">
{on_paper.level(sections)}{reached}</main></body></html>"""

    def sections(self) -> list[tuple[str, str, str]]:
        """(id, key of its block, title) of what the heads of right pages name, in order."""
        chapters = [leaf for leaf in self.leaves if leaf.path.startswith("chapters/")]
        found = [(key, leaf.key, title) for leaf in chapters
                 for key, title in front.sections(leaf)]  # fmt: skip
        return found + [(f"solutions-{leaf.key}", "solutions", leaf.title)
                        for leaf, solved in self.solutions if solved]  # fmt: skip

    def _solved(self) -> str:
        parts = [
            f'<section id="solutions-{leaf.key}"><h2>{html.escape(leaf.title)}</h2>'
            f"{''.join(map(str, found))}</section>"
            for leaf, found in self.solutions
            if found
        ]
        return f"<h1>Solutions</h1>{''.join(parts)}"


def _prepare(leaf: Leaf, base: str) -> None:
    live = base + leaf.path
    on_paper.prepare(leaf.body)
    chapters.without_controls(leaf.body, MOVING, live)
    if answers := leaf.body.find_all("div", id=re.compile("^answer-")):
        answers[0].insert_before(columns := _parsed('<div class="p-answers"></div>').div)
        columns.extend(answers)
    for link in leaf.body.select("a[href^='#answer-'], a[href^='#asked-']"):
        name = "Answer" if link["href"].startswith("#answer-") else "Question"
        link.replace_with(_parsed(_reference(link["href"][1:], name)))
    for image in leaf.body.select("img[src]"):
        if not image["src"].startswith("data:"):
            image["src"] = ((SITE / leaf.path).parent / image["src"]).resolve().as_uri()
    for tag in leaf.body.select("[tabindex]"):
        del tag["tabindex"]
    if leaf.path.startswith("chapters/"):
        leaf.body.h1.insert_after(_parsed(
            f'<div class="p-web">{qr(live)}<p>With its moving figures, its folded code and '
            f'checked exercises:<br><a href="{live}">{live}</a></p></div>'
        ))  # fmt: skip


def _solutions(leaf: Leaf) -> list[Tag]:
    """Take the folded solutions out of a page, and leave at each exercise where its own stands."""
    found = []
    for i, fold in enumerate(leaf.body.select("details"), 1):
        exercise = fold.find_parent("section", id=True)
        own, heading = f"{leaf.key}--solution-{i}", exercise.find(["h2", "h3"])
        section = BeautifulSoup("", "html.parser").new_tag("section", attrs={"id": own})
        back = _reference(exercise["id"], "Exercise")
        section.append(_headed(f"<h3>{heading.decode_contents()}</h3>", back))
        heading.replace_with(_headed(str(heading), _reference(own, "Solution")))
        fold.summary.decompose()
        section.extend(fold.contents[:])
        fold.decompose()
        found.append(section)
    return found


def _headed(heading: str, reference: str) -> BeautifulSoup:
    """A heading, and on its line a reference."""
    return _parsed(f'<div class="p-headed">{heading}<p class="p-small">{reference}</p></div>')


def _reference(key: str, name: str) -> str:
    return f'<a href="#{key}">{name}: page <span class="p-number" data-of="{key}"></span></a>'


def _parsed(text: str) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser", multi_valued_attributes=None)
