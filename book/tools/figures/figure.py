"""A numbered figure of a built page: its drawing as a file, and what is said of it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

from bs4 import Tag

from book.extensions.imprint import Imprint
from book.tools.epub.__main__ import MOVING
from book.tools.epub.drawings import SVG, drawing
from book.tools.epub.leaves import Leaf

# Of a figure that moves: what print shows in its place, where that is not its start.
_DRAWINGS = (".u-still > svg", ".u-frame > svg", ":scope > svg")
_DC = "http://purl.org/dc/elements/1.1/"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


@dataclass(frozen=True)
class Figure:
    """A figure of a chapter."""

    name: str  # "Figure 14.3"
    chapter: str  # the chapter's title
    caption: str  # plain text, formulas as TeX between dollars
    shown: str  # the caption as HTML, formulas as MathML
    address: str  # where it stands in the book
    alt: str  # of the drawing
    moves: bool  # on its page
    svg: str  # the file, or "" where the figure is no drawing

    @property
    def file(self) -> str:
        """The name of its files, without their endings."""
        return "unrolled-" + re.sub(r"\W+", "-", self.name.lower())

    def citation(self, imprint: Imprint) -> str:
        """How to say where it comes from."""
        return f"{self.name} in {imprint.whole}, by {imprint.author}. {self.address}"


def figures(leaves: list[Leaf], base: str, imprint: Imprint) -> Iterator[Figure]:
    """The figures of these pages in their order. base: the address of the site."""
    for leaf in leaves:
        for each in leaf.body.select("figure[id]"):
            if "u-table" not in each["class"].split():
                yield _figure(each, leaf, base, imprint)


def _figure(each: Tag, leaf: Leaf, base: str, imprint: Imprint) -> Figure:
    place = each["id"].removeprefix(f"{leaf.key}--")
    found = next((svg for one in _DRAWINGS if (svg := each.select_one(one))), None)
    made = drawing(found, dark=False) if found else None
    caption = each.find("figcaption")
    name = caption.select_one(".u-no").extract().get_text()
    plain, shown = _words(caption)
    figure = Figure(
        name, leaf.title, plain, shown, f"{base}{leaf.path}#{place}", made.alt if made else "",
        each.css.match(MOVING), "",
    )  # fmt: skip
    return _with_svg(figure, made.content, imprint) if made else figure


def _words(caption: Tag) -> tuple[str, str]:
    """A caption without its number: as plain text, and as HTML."""
    plain, shown = [], []
    for part in caption.children:
        if isinstance(part, Tag) and (math := part.find("math")):
            plain.append(f"${math.find('annotation').get_text().strip()}$")
            shown.append(math.decode(formatter="minimal"))
        else:
            plain.append(part.get_text())
            shown.append(html.escape(part.get_text(), quote=False))
    return tuple(" ".join("".join(texts).removeprefix(". ").split()) for texts in (plain, shown))


def _with_svg(figure: Figure, content: str, imprint: Imprint) -> Figure:
    """The figure with its drawing as a file that says what it is, also when it lies alone."""
    root = ET.fromstring(content)
    root.attrib |= {"role": "img", "aria-labelledby": "title", "aria-describedby": "desc"}
    title = ET.Element(f"{{{SVG}}}title", id="title")
    title.text = f"{figure.name}. {figure.caption}" if figure.caption else figure.name
    said = ET.Element(f"{{{SVG}}}desc", id="desc")
    said.text = figure.alt
    about = ET.Element(f"{{{SVG}}}metadata")
    work = ET.SubElement(
        ET.SubElement(about, f"{{{_RDF}}}RDF"), f"{{{_RDF}}}Description", {f"{{{_RDF}}}about": ""}
    )
    for key, value in {
        "title": figure.name, "creator": imprint.author, "source": figure.address,
        "rights": imprint.licence, "description": figure.caption,
    }.items():  # fmt: skip
        ET.SubElement(work, f"{{{_DC}}}{key}").text = value
    root[:0] = [title, said, about]
    for prefix, space in {"": SVG, "rdf": _RDF, "dc": _DC}.items():
        ET.register_namespace(prefix, space)
    text = '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, "unicode") + "\n"
    return replace(figure, svg=text)
