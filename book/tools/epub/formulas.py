"""Formulas: TeX as it stands in a built page → MathML, with the TeX as its alternative text."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree as ET

from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Browser

from book.tools.notebooks import ROOT

MATHJAX = ROOT / "book" / "assets" / "mathjax"
MATHML = "http://www.w3.org/1998/Math/MathML"
_IN_TEXT = re.compile(r"\$([^$]+)\$|\\\((.+?)\\\)")
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
Formula = tuple[str, bool]  # its TeX, and whether it stands on a line of its own


def mark(body: Tag) -> None:
    """Give the formulas in captions, which stand there as `$…$`, the form of those in the text."""
    for caption in body.select(".tex2jax_process"):
        for text in caption.find_all(string=_IN_TEXT):
            if text.parent.css.closest(".math"):
                continue
            html = _IN_TEXT.sub(lambda m: f'<span class="math">\\({m[1] or m[2]}\\)</span>',
                                text.output_ready("minimal"))  # fmt: skip
            text.replace_with(BeautifulSoup(html, "html.parser", multi_valued_attributes=None))


def found(body: Tag) -> list[tuple[Tag, Formula]]:
    """The formulas of a page, each with the element that holds it."""
    return [(each, _formula(each)) for each in body.select(".math")]


def _formula(holder: Tag) -> Formula:
    text = holder.get_text().strip()
    opening, tex, closing = text[:2], text[2:-2].strip(), text[-2:]
    if (opening, closing) not in {("\\(", "\\)"), ("\\[", "\\]")}:
        raise ValueError(f"a formula stands between \\( \\) or \\[ \\], got {text[:60]!r}")
    return tex, opening == "\\["


def mathml(formulas: set[Formula], browser: Browser) -> dict[Formula, tuple[str, float]]:
    """The MathML of each, as the book's own MathJax writes it, and how wide it is, in em.

    Raises:
        ValueError: for TeX that MathJax does not understand.
    """
    ordered = sorted(formulas)
    page = browser.new_page()
    page.add_init_script("""window.MathJax = {
      loader: {load: ["input/tex", "a11y/assistive-mml"]}, startup: {typeset: false},
      tex: {packages: {"[-]": ["noundefined"]}}};""")
    page.goto((MATHJAX / "README.md").as_uri())  # a page from where it may load its parts
    page.add_script_tag(url=(MATHJAX / "startup.js").as_uri())
    written = page.evaluate(
        """async formulas => {
          await MathJax.startup.promise;
          const all = [];
          for (const [tex, display] of formulas)
            all.push(await MathJax.tex2mmlPromise(tex, {display}));
          return all;
        }""",
        ordered,
    )
    page.add_style_tag(path=Path(__file__).parent / "style.css")
    tidied = [_tidy(text, tex) for text, (tex, _) in zip(written, ordered, strict=True)]
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
    """Put the MathML where the TeX stood; what is too wide for a phone says so."""
    for holder, formula in holders:
        text, width = written[formula]
        math = BeautifulSoup(text, "html.parser")
        size = next((name for limit, name in _WIDTHS.items() if width > limit), "")
        if formula[1] or size:
            holder.attrs = {"class": ("formula" if formula[1] else "long") + size}
            holder.clear()
            holder.append(math)
        else:
            holder.replace_with(math)


def _tidy(text: str, tex: str) -> str:
    root = ET.fromstring(text)
    if root.find(f".//{_NS}merror") is not None:
        raise ValueError(f"MathJax does not understand {tex!r}")
    for element in root.iter():
        _space_after_names(element)
        element.text = (element.text or "").strip() if len(element) == 0 else None
        element.tail = None
        for name in [name for name in element.attrib if name.startswith("data-")]:
            del element.attrib[name]
        _variant(element)
        if element.tag == f"{_NS}mtable":
            _columns(element)
    words = re.sub(r"\s*\\(begin|end)\{split\}\s*", "", tex)
    root.set("alttext", " ".join(words.split()))
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
