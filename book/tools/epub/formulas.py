"""Formulas: the MathML of a built page as readers of EPUBs want it, with its TeX as a text."""

from __future__ import annotations

import itertools
from pathlib import Path
from xml.etree import ElementTree as ET

from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Browser

MATHML = "http://www.w3.org/1998/Math/MathML"
_NS = f"{{{MATHML}}}"
# Letters that Unicode has and that most fonts have; few readers obey `mathvariant`.
_LETTERS = {
    "double-struck": dict(zip("CEHNPQRZ1", "ℂ𝔼ℍℕℙℚℝℤ𝟙", strict=True)),
    "script": dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True)),
}
_STYLES = {"bold": "font-weight: bold", "italic": "font-style: italic",
           "monospace": "font-family: monospace"}  # fmt: skip
# Wider than so many em: what a phone shows at full size, a little smaller, or much smaller.
_WIDTHS = {31: " widest", 25: " wider", 20: " wide"}
Formula = str  # its <math>, as KaTeX wrote it


def mark(body: Tag) -> None:
    """Leave of each formula its MathML, as a text that nothing changes until it is `put`."""
    for holder in body.select(".math"):
        holder.string = holder.math.decode(formatter="minimal")


def found(body: Tag) -> list[tuple[Tag, Formula]]:
    """The formulas of a marked page, each with the element that holds it."""
    return [(each, each.get_text()) for each in body.select(".math")]


def mathml(formulas: set[Formula], browser: Browser) -> dict[Formula, tuple[str, float]]:
    """The MathML of each as it stands in the EPUB, and how wide it is, in em."""
    ordered = sorted(formulas)
    tidied = [_tidy(text) for text in ordered]
    page = browser.new_page()
    page.add_style_tag(path=Path(__file__).parent / "style.css")
    widths = page.evaluate(
        """all => {
          const holders = all.map(math => {
            const holder = document.createElement("div");
            holder.style = "width: max-content; font-size: 100px";
            holder.innerHTML = math;
            return document.body.appendChild(holder);
          });
          return holders.map(holder => holder.getBoundingClientRect().width / 100);
        }""",
        tidied,
    )
    page.close()
    return dict(zip(ordered, zip(tidied, widths, strict=True), strict=True))


def put(holders: list[tuple[Tag, Formula]], written: dict[Formula, tuple[str, float]]) -> None:
    """Put the MathML alone in its place; what is too wide for a phone says so."""
    for holder, formula in holders:
        text, width = written[formula]
        math = BeautifulSoup(text, "html.parser")
        size = next((name for limit, name in _WIDTHS.items() if width > limit), "")
        display = holder.name == "div"
        if display or size:
            holder.attrs = {"class": ("formula" if display else "long") + size}
            holder.clear()
            holder.append(math)
        else:
            holder.replace_with(math)


def _tidy(text: str) -> str:
    root = ET.fromstring(text)
    formula, tex = root.find(f"{_NS}semantics")
    root[:] = [formula]
    for operator in root.iter(f"{_NS}mo"):  # KaTeX spells \bmod letter by letter
        operator.text, operator[:] = "".join(operator.itertext()), []
    for element in root.iter():
        _space_after_names(element)
        element.text = (element.text or "").strip() if len(element) == 0 else None
        element.tail = None
        _variant(element)
        if element.tag == f"{_NS}mtable":
            _columns(element)
    root.set("alttext", " ".join(tex.text.split()))
    ET.register_namespace("", MATHML)
    return ET.tostring(root, "unicode", short_empty_elements=False)


def _space_after_names(row: ET.Element) -> None:
    """A thin space between the name of a function and what it is applied to, as TeX sets it."""
    for each, after in itertools.pairwise(row):
        if each.text == "\u2061" and after.tag != f"{_NS}mo":
            each.set("rspace", "0.167em")


def _variant(element: ET.Element) -> None:
    variant = element.get("mathvariant", "normal")
    if variant in _LETTERS:
        element.text = "".join(_LETTERS[variant][letter] for letter in element.text or "")
        element.set("mathvariant", "normal")
    elif variant != "normal":
        element.set("style", _STYLES[variant])


def _columns(table: ET.Element) -> None:
    """How columns are aligned and spaced, cell by cell too: few readers obey the table's word."""
    aligned = table.get("columnalign", "center").split()
    gaps = table.get("columnspacing", "0.8em").split()
    for row in table.findall(f"{_NS}mtr"):
        for i, cell in enumerate(row.findall(f"{_NS}mtd")):
            left = gaps[min(i - 1, len(gaps) - 1)] if i else "0"
            side = aligned[min(i, len(aligned) - 1)]
            cell.set("style", f"text-align: {side}; padding-left: {left}; padding-right: 0")
