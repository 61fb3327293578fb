"""Drawings: an SVG that stands in a page → a file of its own, which every reader can show.

As a picture a drawing keeps its own colours on its own ground, whatever a reader does to the text
around it at night, and most readers enlarge it at a tap. Where a reader says that it is dark, the
drawing is dark.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from bs4 import Tag
from unrolled_book.figures.palette import COLOURS

SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_COLOUR = re.compile(r"var\(--u-(\w+), (#[0-9a-f]{6})\)")
_FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
_GROUND = "fill: var(--u-page, #ffffff)"
_MARGIN = 6  # around the drawing, in its own units: the page lets it stand over its edge a little
_POINTS = 12  # an em of the text: a drawing grows with the reader's type


@dataclass(frozen=True)
class Drawing:
    """A drawing as a file: its name is made from what it shows, so each is kept once."""

    content: str
    alt: str
    width: float  # in em of the text around it

    @property
    def name(self) -> str:
        return f"{hashlib.sha256(self.content.encode()).hexdigest()[:12]}.svg"


def drawing(svg: Tag, *, dark: bool = True) -> Drawing:
    """The drawing of an `<svg>` in a page; dark: whether it turns dark where its reader does.

    Raises:
        ValueError: if it has no alternative text.
    """
    text = str(svg).replace("viewbox=", "viewBox=")
    root = ET.fromstring(re.sub(r"(</?)clippath\b", r"\1clipPath", text))
    alt = root.attrib.pop("aria-label", "")
    if not alt:
        raise ValueError(f"a drawing has no alternative text: {text[:80]}")
    root.attrib.pop("role", None)
    _shorten_ids(root)
    rules = _classes(root)
    width, height = (float(side) for side in root.get("viewBox", "").split()[2:])
    full = (width + 2 * _MARGIN, height + 2 * _MARGIN)
    root.set("viewBox", f"{-_MARGIN} {-_MARGIN} {full[0]:g} {full[1]:g}")
    root.set("width", f"{full[0]:g}pt")
    root.set("height", f"{full[1]:g}pt")
    ground = {"class": rules.setdefault(_GROUND, "ground"), "x": str(-_MARGIN), "y": str(-_MARGIN),
              "width": f"{full[0]:g}", "height": f"{full[1]:g}"}  # fmt: skip
    root.insert(0, ET.Element(f"{{{SVG}}}rect", ground))
    style = ET.Element(f"{{{SVG}}}style")
    style.text = _sheet(rules, dark)
    root.insert(0, style)
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", _LINK[1:-5])
    content = '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, "unicode") + "\n"
    return Drawing(content, alt, round(full[0] / _POINTS, 2))


def _shorten_ids(root: ET.Element) -> None:
    names: dict[str, str] = {}
    for element in root.iter():
        if name := element.get("id"):
            element.set("id", names.setdefault(name, f"i{len(names)}"))
    for element in root.iter():
        for key, value in element.attrib.items():
            element.set(key, re.sub(r"(?<=url\(#)[^)]+", lambda m: names[m[0]], value))
        if link := element.attrib.pop("href", None) or element.attrib.pop("xlink:href", None):
            element.set(_LINK, f"#{names[link.removeprefix('#')]}")


def _classes(root: ET.Element) -> dict[str, str]:
    """Take the styles out of the elements; return each with the name of its class."""
    rules: dict[str, str] = {}
    for element in root.iter():
        element.attrib.pop("class", None)
        if style := element.attrib.pop("style", ""):
            style = re.sub(r"max-width: [^;]+;? ?", "", style)
            element.set("class", rules.setdefault(style, f"s{len(rules)}"))
    return rules


def _sheet(rules: dict[str, str], turns_dark: bool) -> str:
    """The style sheet: first for a light page, then what differs on a dark one."""
    light = [f"svg{{font-family:{_FONT}}}"]
    dark = []
    for style, name in rules.items():
        light.append(f".{name}{{{_COLOUR.sub(lambda m: m[2], style)}}}")
        coloured = [part for part in style.split("; ") if "var(" in part]
        if coloured:
            night = "; ".join(_COLOUR.sub(lambda m: COLOURS[m[1]][1], part) for part in coloured)
            dark.append(f".{name}{{{night}}}")
    at_night = ["@media (prefers-color-scheme:dark){", *dark, "}"] if turns_dark else []
    sheet = "\n".join([*light, *at_night])
    if "var(" in sheet:
        raise ValueError(f"a colour of the drawing is not the book's: {sheet}")
    return sheet
