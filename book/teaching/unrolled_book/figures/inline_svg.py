"""matplotlib's SVG file as a lean fragment for any HTML page.

The fragment does not name the run (date, version), does not leak into the page (no global style
sheet, no common identifiers), and leaves fonts and colours to the page.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from xml.etree import ElementTree as ET

HANDLE = "handle"  # an artist with this gid can be dragged in a figure that moves
PLACE = "place-"  # an artist whose gid starts so is a place that a prediction asks for
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_COORDINATES = ("d", "x", "y", "width", "height")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PREFIX = "unrolled-id"  # stands for a drawing's own prefix until its content is known


def inline(text: str, colours: Mapping[str, str], prefix: str | None = None) -> str:
    """One `<svg>` element, one drawn element per line, deterministic down to the byte.

    Args:
        text: an SVG file as matplotlib writes it with `svg.fonttype: none`.
        colours: what replaces a colour such as `#4f46e5`; black is the default fill.
        prefix: the start of identifiers, by default a hash of the drawing, so that two drawings on
            a page share no identifier.

    Raises:
        ValueError: if a text in the drawing holds a control character, which no SVG file can.
    """
    if found := _NOT_IN_XML.search(text):
        raise ValueError(f"a text of the figure holds {found[0]!r}, which SVG has no place for")
    root = ET.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (_SVG + "metadata", _SVG + "style"):
                parent.remove(child)
    names = _rename_identifiers(root)
    for element in root.iter():
        for key, value in element.attrib.items():
            if not value.startswith("data:"):
                element.set(key, _attribute(key, value, colours))
    _unwrap(root)
    width, height = (float(side) for side in root.get("viewBox", "").split()[2:])
    root.attrib.clear()
    root.set("xmlns", _SVG[1:-1])
    root.set("viewBox", f"0 0 {width:g} {height:g}")
    # An inch of the figure is a real one where there is room, and shrinks where there is none.
    root.set("style", f"max-width: {width:g}pt; fill: {colours['#000000']}")
    root.set("stroke-linejoin", "round")
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
    ET.indent(root, "")
    written = ET.tostring(root, encoding="unicode")
    if prefix is None:
        prefix = "u" + hashlib.sha256(written.encode()).hexdigest()[:8]
    return written.replace(_PREFIX, prefix) if names else written


def _rename_identifiers(root: ET.Element) -> dict[str, str]:
    """Number the identifiers that are used, drop the others; return old → new."""
    names: dict[str, str] = {}

    def new(match: re.Match[str]) -> str:
        return match[1] + names.setdefault(match[2], f"{_PREFIX}-{len(names)}")

    for element in root.iter():
        if link := element.attrib.pop(_LINK, None):
            element.set("href", re.sub(r"^(#)(.+)", new, link))
        for key, value in element.attrib.items():
            element.set(key, re.sub(r"(url\(#)([^)]+)", new, value))
    for element in root.iter():
        if (name := element.attrib.pop("id", None)) in names:
            element.set("id", names[name])
        elif name == HANDLE:
            element.set("class", f"u-{HANDLE}")
        elif name and name.startswith(PLACE):
            element.set("data-place", name.removeprefix(PLACE))
    return names


def _attribute(key: str, value: str, colours: Mapping[str, str]) -> str:
    """One attribute: two decimals, the page's colours, the page's fonts."""
    if key in _COORDINATES or value.startswith(("translate", "rotate")):
        value = re.sub(r"-?\d+\.\d+", _rounded, value)
        value = re.sub(r"\s+", " ", value).strip()
    if key == "style":
        value = re.sub(r"font-family: ([^;]*)(; )?", _font, value)
    return re.sub(r"#[0-9a-f]{6}\b", lambda m: colours.get(m[0], m[0]), value)


def _rounded(number: re.Match[str]) -> str:
    return f"{round(float(number[0]), 2) + 0.0:g}"


def _font(declaration: re.Match[str]) -> str:
    """Keep monospace; leave a list of families ending in sans-serif to the page.

    A single family means mathematics. matplotlib places its symbols one by one, so they need a font
    with the same widths.
    """
    families, end = declaration[1], declaration[2] or ""
    if "Mono" in families or families.endswith("monospace"):
        return f"font-family: ui-monospace, monospace{end}"
    if families.endswith("sans-serif"):
        return ""
    return f"font-family: {families}, Verdana, sans-serif{end}"


def _unwrap(parent: ET.Element) -> None:
    """Replace groups without attributes by their children, and drop what is not drawn."""
    children: list[ET.Element] = []
    for child in parent:
        _unwrap(child)
        if child.get("transform", "").startswith("rotate(-0 "):
            del child.attrib["transform"]
        if child.tag == _SVG + "g" and not child.attrib:
            children.extend(child)
        elif child.tag == _SVG + "defs" and len(child) == 0:
            continue
        elif child.get("style") != "fill: none" or parent.get("data-place"):  # else not drawn
            children.append(child)
    parent[:] = children
