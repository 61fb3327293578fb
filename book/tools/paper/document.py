"""Pages of the site → one HTML document that prints as a book."""

from __future__ import annotations

import html
import re
from pathlib import Path

import segno
from bs4 import BeautifulSoup, Tag

from book.extensions.imprint import Imprint
from book.tools.epub import chapters
from book.tools.epub.__main__ import MOVING
from book.tools.epub.leaves import SITE, Leaf

STYLE = (Path(__file__).parent / "paper.css").read_text("utf8")
Pages = dict[str, int]  # the number of the page on which an id stands


class Document:
    """The book: its text in order, its solutions, and where the web has more.

    leaves: the pages of the site, which are changed; base: the site's address; imprint: its names.
    """

    def __init__(self, leaves: list[Leaf], base: str, imprint: Imprint) -> None:
        self.leaves, self.base, self.imprint = leaves, base, imprint
        self.styles = dict.fromkeys(  # each figure has them; the book needs them once
            style.get_text() for leaf in leaves for style in leaf.body.select("style")
        )
        for leaf in leaves:
            _prepare(leaf, base)
        self.solutions = [(leaf, _solutions(leaf)) for leaf in leaves]
        self.ids = {tag["id"] for leaf in leaves for tag in leaf.body.select("[id]")}
        self.ids |= {leaf.key for leaf in leaves} | {"solutions"}
        for _, found in self.solutions:
            self.ids |= {tag["id"] for each in found for tag in [each, *each.select("[id]")]
                         if tag.get("id")}  # fmt: skip

    def dead_links(self) -> list[str]:
        """The links within the book that lead nowhere."""
        bodies = [leaf.body for leaf in self.leaves]
        bodies += [each for _, found in self.solutions for each in found]
        links = [link["href"] for body in bodies for link in body.select("a[href^='#']")]
        return sorted({link for link in links if link[1:] not in self.ids})

    def html(self, pages: Pages) -> str:
        """The whole document. pages: as far as they are known from an earlier print."""
        chapter = next(leaf.path for leaf in self.leaves if leaf.path.startswith("chapters/"))
        head = BeautifulSoup((SITE / chapter).read_text("utf8"), "html.parser").head
        linked = head.select("link[rel=stylesheet]")
        for tag in linked:
            path = (SITE / chapter).parent / tag["href"].split("?")[0]
            tag["href"] = path.resolve().as_uri()
        text = f"""<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8">
<title>{html.escape(self.imprint.whole)}</title>{"".join(map(str, linked))}
<style>{"".join(self.styles)}</style><style>{STYLE}{self._heads()}</style></head>
<body><main class="bd-content">{self._front()}
<section class="p-plain"><h1 class="p-title">Contents</h1>{self._contents()}</section>
{"".join(self._section(leaf) for leaf in self.leaves)}{self._back()}</main></body></html>"""
        return re.sub(
            r'(<span class="p-number" data-of="([^"]+)">)',
            lambda found: f"{found[1]}{pages.get(found[2], '000')}",
            text,
        )

    def _heads(self) -> str:
        book = _quoted(self.imprint.title)
        titled = [(leaf.key, leaf.title) for leaf in self.leaves] + [("solutions", "Solutions")]
        return "".join(
            f"#{key} {{ page: {key}; }} @page {key} {{ @top-right {{ content: {_quoted(title)}; }} "
            f"@top-left {{ content: {book}; }} @bottom-center {{ content: counter(page); }} }}\n"
            for key, title in titled
        )

    def _front(self) -> str:
        title, subtitle, licence = map(
            html.escape, (self.imprint.title, self.imprint.subtitle, self.imprint.licence)
        )
        return f"""<section class="p-plain p-cover"><h1 class="p-title">{title}</h1>
<p>{subtitle}</p><div class="p-web">{qr(self.base)}<p>The book on the web: its figures move, its
code runs, its exercises check your answers.<br><a href="{self.base}">{self.base}</a></p></div>
<p class="p-small">Figures that move stand here as they start. Code that the web page folds away is
left out. The solutions are at the end. {licence}</p></section>"""

    def _contents(self) -> str:
        entries, part = [], ""
        for leaf in self.leaves:
            if leaf.part != part:
                part = leaf.part
                entries.append(f'<li class="p-part">{html.escape(part)}</li>')
            entries.append(_entry(leaf.key, leaf.title))
        entries.append('<li class="p-part">At the end</li>' + _entry("solutions", "Solutions"))
        return f'<ol class="p-contents">{"".join(entries)}</ol>'

    def _section(self, leaf: Leaf) -> str:
        return (f'<section class="p-page bd-article" id="{leaf.key}">'
                f"{leaf.body.decode_contents()}</section>")  # fmt: skip

    def _back(self) -> str:
        parts = [
            f"<section><h2>{html.escape(leaf.title)}</h2>{''.join(map(str, found))}</section>"
            for leaf, found in self.solutions
            if found
        ]
        return ('<section class="p-page bd-article" id="solutions"><h1>Solutions</h1>'
                f"{''.join(parts)}</section>")  # fmt: skip


def qr(address: str) -> str:
    """The address as a QR code: an SVG."""
    code = segno.make(address, error="m", micro=False)
    return code.svg_inline(border=0, omitsize=True, svgclass="p-qr", lineclass=None, title=address)


def _prepare(leaf: Leaf, base: str) -> None:
    live = base + leaf.path
    chapters.without_controls(leaf.body, MOVING, live)
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
        own, title = f"{leaf.key}--solution-{i}", exercise.find(["h2", "h3"]).decode_contents()
        fold.insert_before(_parsed(f'<p class="p-small">{_reference(own, "Solution")}</p>'))
        fold.summary.decompose()
        section = BeautifulSoup("", "html.parser").new_tag("section", attrs={"id": own})
        back = _reference(exercise["id"], "Exercise")
        section.append(_parsed(f'<h3>{title}</h3><p class="p-small">{back}</p>'))
        section.extend(fold.contents[:])
        fold.decompose()
        found.append(section)
    return found


def _reference(key: str, name: str) -> str:
    return f'<a href="#{key}">{name}: page <span class="p-number" data-of="{key}"></span></a>'


def _entry(key: str, title: str) -> str:
    return (f'<li><a href="#{key}">{html.escape(title)}</a><i></i>'
            f'<span class="p-number" data-of="{key}"></span></li>')  # fmt: skip


def _quoted(title: str) -> str:
    return '"' + title.replace("\\", r"\\").replace('"', r"\"") + '"'


def _parsed(text: str) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser", multi_valued_attributes=None)
