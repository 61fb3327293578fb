"""The first leaves of the printed book: cover, title, imprint, contents."""

from __future__ import annotations

import html
from dataclasses import dataclass
from datetime import datetime

import segno
import yaml

from book.extensions.imprint import Imprint
from book.tools.epub.leaves import Leaf
from book.tools.notebooks import ROOT

EVERYWHERE = ("Summary", "Exercises", "Where next", "Sources")  # so no line of the contents


@dataclass
class Edition:
    """What the imprint says of this print. base: the site's address; when: its date."""

    imprint: Imprint
    base: str
    when: datetime

    def title(self) -> str:
        title, subtitle, author = map(
            html.escape, (self.imprint.title, self.imprint.subtitle, self.imprint.author)
        )
        return f"""<div class="p-titles"><h1 class="p-title">{title}</h1>
<p class="p-subtitle">{subtitle}</p><p class="p-author">{author}</p></div>"""

    def about(self) -> str:
        cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf8"))
        whole, author, licence = map(
            html.escape, (self.imprint.whole, self.imprint.author, self.imprint.licence)
        )
        year, version = html.escape(self.imprint.year), html.escape(str(cited["version"]))
        link, code = _link(self.base), _link(cited["repository-code"])
        return f"""<div class="p-imprint">
<p>{whole}<br>Version {version}, {self.when.day} {self.when:%B %Y}</p>
<p>© {year} {author}. {licence}</p>
<p>To cite this book: {author}. <em>{whole}</em>. Version {version}, {year}. {link}</p>
<div class="p-web">{qr(self.base)}<p>On the web the figures move, the code runs, and the exercises
check your answers:<br>{link}<br>The source: {code}</p></div>
<p>Figures that move stand here as they start. Code that the web page folds away is left out. The
solutions of the exercises are at the end, before the index.</p>
<p>Set in Libertinus Serif, Source Sans and Source Code Pro; the formulas in the faces of KaTeX.</p>
</div>"""


def contents(leaves: list[Leaf], last: list[tuple[str, str]]) -> str:
    """Parts, pages, sections of the chapters. last: (id, title) of what stands at the end."""
    entries, part = [], ""
    for leaf in leaves:
        if leaf.part != part:
            part = leaf.part
            entries.append(f'<li class="p-part">{html.escape(part)}</li>')
        entries.append(_entry(leaf.key, leaf.title, "p-leaf"))
        if leaf.path.startswith("chapters/"):
            entries += [_entry(key, title, "p-section") for key, title in sections(leaf)
                        if title not in EVERYWHERE]  # fmt: skip
    entries.append('<li class="p-part">At the end</li>')
    entries += [_entry(key, title, "p-leaf") for key, title in last]
    return f'<h1 class="p-title">Contents</h1><ol class="p-contents">{"".join(entries)}</ol>'


def sections(leaf: Leaf) -> list[tuple[str, str]]:
    """(id, title) of the sections of a page, its `h2`."""
    return [(heading.parent["id"], " ".join(heading.get_text().split()))
            for heading in leaf.body.select("section[id] > h2")]  # fmt: skip


def qr(address: str) -> str:
    """The address as a QR code: an SVG."""
    code = segno.make(address, error="m", micro=False)
    return code.svg_inline(border=0, omitsize=True, svgclass="p-qr", lineclass=None, title=address)


def _entry(key: str, title: str, kind: str) -> str:
    return (f'<li class="{kind}"><a href="#{key}">{html.escape(title)}</a><i></i>'
            f'<span class="p-number" data-of="{key}"></span></li>')  # fmt: skip


def _link(address: str) -> str:
    return f'<a href="{html.escape(address)}">{html.escape(address)}</a>'
