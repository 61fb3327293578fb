"""What the book is called and whose it is: `_config.yml` says it, all that is made repeats it.

In a page, and in the cover's drawing, ((title)), ((subtitle)), ((author)), ((year)) and ((licence))
stand for what is said there. Templates have `licence`; other extensions ask `app.imprint`.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import yaml
from sphinx.application import Sphinx
from sphinx.config import Config

COVER = Path(__file__).parents[1] / "tools" / "epub" / "cover.svg"
_NAME = re.compile(r"\(\((title|subtitle|author|year|licence)\)\)")


@dataclass(frozen=True)
class Imprint:
    """The lines of `_config.yml`. author: names with ", " between; licence: one sentence or two."""

    title: str
    subtitle: str
    author: str
    year: str
    licence: str

    @classmethod
    def read(cls, root: Path) -> Imprint:
        """The imprint of the book in the folder `root`. ValueError for a line that is missing."""
        said = yaml.safe_load((root / "_config.yml").read_text("utf8"))
        lines = {"title": "title", "subtitle": "subtitle", "author": "author",
                 "year": "copyright", "licence": "licence"}  # fmt: skip
        if missing := [line for line in lines.values() if not said.get(line)]:
            raise ValueError(
                f"_config.yml has no line {missing[0]}: …; expected {[*lines.values()]}"
            )
        return cls(**{name: str(said[line]) for name, line in lines.items()})

    @property
    def whole(self) -> str:
        """Title and subtitle, as a catalogue has them."""
        return f"{self.title}: {self.subtitle}"

    def fill(self, text: str) -> str:
        """The text with what its names in double parentheses stand for."""
        return _NAME.sub(lambda found: asdict(self)[found[1]], text)

    def cover(self, drawing: Path = COVER) -> str:
        """The cover as SVG; a long title is set smaller, on lines of at most sixteen letters."""
        lines = textwrap.wrap(self.title, 16)
        size = min(178, 1424 // max(map(len, lines)))
        title, end = _lines(lines, 100, 300, size, size)
        subtitle, _ = _lines(textwrap.wrap(self.subtitle, 29), 106, end + 110, 52, 72)
        text = drawing.read_text("utf8").replace("((title))", title)
        author = escape(self.author)
        return text.replace("((subtitle))", subtitle).replace("((author))", author)


def _lines(lines: list[str], x: int, y: int, size: int, step: int) -> tuple[str, int]:
    """The lines as text of a drawing below each other, and the height at which the last stands."""
    texts = [f'<text x="{x}" y="{y + i * step}" font-size="{size}">{escape(line)}</text>'
             for i, line in enumerate(lines)]  # fmt: skip
    return "\n".join(texts), y + (len(lines) - 1) * step


def set_up(app: Sphinx, config: Config) -> None:
    app.imprint = Imprint.read(Path(app.srcdir))


def fill_source(app: Sphinx, page: str, source: list[str]) -> None:
    """Fill in what a page of prose says of the book; the chapters are not touched."""
    if not page.startswith("chapters/"):
        source[0] = app.imprint.fill(source[0])


def tell_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    context["licence"] = app.imprint.licence


def lay_cover(app: Sphinx, error: Exception | None) -> None:
    if not error and app.builder.format == "html":
        Path(app.outdir, "_static", COVER.name).write_text(app.imprint.cover(), "utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("config-inited", set_up)
    app.connect("source-read", fill_source)
    app.connect("html-page-context", tell_page)
    app.connect("build-finished", lay_cover)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
