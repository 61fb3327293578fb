"""`make pdf`: the built pages → `_build/unrolled.pdf`.

python -m book.tools.paper              the whole book
python -m book.tools.paper 02 14        only these chapters
"""

from __future__ import annotations

import argparse
import os
import shutil
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pikepdf
from playwright.sync_api import Browser, Page, sync_playwright

from book.extensions.imprint import Imprint
from book.extensions.publishing import site_address
from book.tools.epub.__main__ import FLAGS, ONLY_ON_THE_WEB, edition
from book.tools.epub.leaves import SITE, contents, leaves
from book.tools.live.packages import NoBundle
from book.tools.notebooks import ROOT
from book.tools.notebooks.address import repository_url
from book.tools.paper import faces, heads
from book.tools.paper.document import Document, Pages
from book.tools.paper.front import Edition

NOT_ON_PAPER = ONLY_ON_THE_WEB | {  # what is used at a screen, and the teachers' tables
    f"book/{name}.html"
    for name in ("workbench", "today", "instructors", "tutor", "accessibility", "api")
}
OUT = ROOT / "_build" / "unrolled.pdf"
TEXT_WIDTH = 597  # CSS pixels, what paper.css leaves of the page between its margins
# A formula that is wider than the page is set smaller; what else is too wide is told. A long one in
# a line may break after its signs, or the line before it is left with wide spaces.
# A drawing whose labels are larger than LABEL is made smaller, down to two thirds; one whose labels
# stand out over the text is moved in.
FIT = """() => {
  const LABEL = 9.9;
  const article = e => e.closest(".p-page").getBoundingClientRect();
  // All is measured before anything is changed: each change lays out the whole book again.
  const change = (all, measure) => all.map(e => [e, measure(e)]).forEach(
    ([e, style]) => Object.assign(e.style, style));
  change([...document.querySelectorAll("div.math")], formula => {
    const parts = [...formula.querySelectorAll(".katex-base")].map(e => e.getBoundingClientRect());
    const left = Math.min(...parts.map(e => e.left)), right = Math.max(...parts.map(e => e.right));
    const room = formula.getBoundingClientRect();
    const most = Math.min(room.right, article(formula).right) - room.left;
    return right - left > most ? {fontSize: 97 * most / (right - left) + "%"} : {};
  });
  change([...document.querySelectorAll("span.math")],
    formula => formula.getBoundingClientRect().width > 110 ? {display: "inline"} : {});
  const drawings = [...document.querySelectorAll("figure svg, .u-map svg")]
    .filter(svg => svg.querySelector("text"));
  const ends = svg => {  // how far its words stand out over the text, and how wide they are
    const words = [...svg.querySelectorAll("text")].map(e => e.getBoundingClientRect());
    const room = article(svg), left = Math.min(room.right, ...words.map(e => e.left));
    const right = Math.max(room.left, ...words.map(e => e.right));
    return {left: room.left - left, right: right - room.right, share: room.width / (right - left)};
  };
  change(drawings, svg => {
    const sizes = [...svg.querySelectorAll("text, tspan")]
      .filter(e => e.textContent.trim())
      .map(e => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a)
      .sort((a, b) => a - b);
    const label = sizes[Math.floor(sizes.length / 2)];
    const share = Math.min(label > LABEL ? Math.max(0.65, LABEL / label) : 1, ends(svg).share);
    return share < 1 ? {width: share * svg.getBoundingClientRect().width + "px"} : {};
  });
  change(drawings, svg => {
    const {left, right} = ends(svg), shift = Math.max(0, left) - Math.max(0, right);
    return shift ? {position: "relative", left: shift + "px"} : {};
  });
  return [...document.querySelectorAll(".p-page *")].filter(e =>
    !e.closest(".katex-mathml, .vlist-t")  // a subscript reaches past the edge with an empty box
    && !e.matches("svg *") && e.getBoundingClientRect().right > article(e).right + 2).map(e =>
      e.closest(".p-page").id + ": " + e.outerHTML.slice(0, 100).replace(/\\s+/g, " "));
}"""
# What the first print tells: the numbers of the pages, and before which blocks one stays empty.
FILL = """([pages, blank, index]) => {
  document.getElementById("index").innerHTML = index;
  for (const e of document.querySelectorAll(".p-number")) e.textContent = pages[e.dataset.of];
  for (const key of blank)
    document.getElementById(key).insertAdjacentHTML("beforebegin", '<div class="p-blank"></div>');
  document.body.style.visibility = "visible";
}"""


@contextmanager
def laid_out(browser: Browser, text: str) -> Iterator[Page]:
    """The document, ready to be printed."""
    source = SITE / f"_paper-{os.getpid()}.html"  # beside the pages whose styles it uses
    source.write_text(text, "utf8")
    page = browser.new_page(viewport={"width": TEXT_WIDTH, "height": 900})
    try:
        page.set_default_timeout(900_000)
        page.emulate_media(media="print")
        page.goto(source.as_uri())  # hidden, or what has been read is laid out again and again
        page.evaluate("document.body.style.display = ''; document.body.offsetHeight")
        page.evaluate("document.fonts.ready.then(() => 1)")
        yield page
    finally:
        page.close()
        source.unlink()


def page_numbers(pdf: pikepdf.Pdf) -> Pages:
    """On which page each id stands that is linked to, from the print's named destinations."""
    numbers = {page.objgen: i for i, page in enumerate(pdf.pages, 1)}
    return {name[1:]: numbers[place[0].objgen] for name, place in pdf.Root.Dests.items()}


def arranged(document: Document, pages: Pages) -> tuple[Pages, frozenset[str]]:
    """Where the ids will stand when chapters begin on right pages, and the blocks after blanks.

    pages: where they stand without empty pages.
    """
    starts = [(pages[block.key], block) for block in document.blocks]
    shifts, blank = [], set()
    for start, block in starts:
        shift = shifts[-1] if shifts else 0
        if block.recto and (start + shift) % 2 == 0:
            blank.add(block.key)
            shift += 1
        shifts.append(shift)
    first = [start for start, _ in starts]
    moved = {key: page + shifts[bisect_right(first, page) - 1] for key, page in pages.items()}
    return moved, frozenset(blank)


def build(document: Document, browser: Browser, out: Path) -> list[str]:
    """Write the PDF: printed twice, for in the first print the page numbers are not yet known."""
    if dead := document.dead_links():
        raise ValueError(f"links within the book that lead nowhere: {', '.join(dead)}")
    set_in, imprint = fonts(), document.edition.imprint
    with laid_out(browser, document.html(set_in)) as page:
        wide = page.evaluate(FIT)
        page.evaluate("document.body.style.visibility = 'hidden'")  # numbers its pages sooner
        page.pdf(path=out, prefer_css_page_size=True)
        with pikepdf.open(out) as pdf:
            pages, blank = arranged(document, page_numbers(pdf))
        page.evaluate(FILL, [pages, list(blank), document.indexed(pages)])
        page.pdf(path=out, prefer_css_page_size=True, outline=True, tagged=True)
    over = out.with_suffix(".heads.pdf")
    with pikepdf.open(out, allow_overwriting_input=True) as pdf:
        pages = page_numbers(pdf)
        blanks = {pages[key] - 1 for key in blank}
        text = heads.document(document, pages, blanks, len(pdf.pages), set_in)
        with laid_out(browser, text) as page:
            page.pdf(path=over, prefer_css_page_size=True)
        with pikepdf.open(over) as printed:
            heads.stamp(pdf, printed)
            pdf.docinfo["/Title"], pdf.docinfo["/Author"] = imprint.whole, imprint.author
            # Small objects together in compressed streams: a third.
            pdf.save(
                out, object_stream_mode=pikepdf.ObjectStreamMode.generate, deterministic_id=True
            )
    over.unlink()
    return wide


def fonts() -> str:
    """The rules for the book's faces; nothing, and a line that says why, where they are not."""
    try:
        return faces.rules()
    except NoBundle as why:
        print(f"pdf: set in the faces of this machine: {why}")
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", help="beginnings of names, such as 14")
    wanted = tuple(f"chapters/{name}_" for name in parser.parse_args().chapters) or ("",)
    base = site_address(repository_url())
    paths = [entry for entry in contents() if entry[1] not in NOT_ON_PAPER]
    found = leaves(base, [entry for entry in paths if entry[1].startswith(wanted)])
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        book = Document(found, Edition(Imprint.read(ROOT), base, edition()))
        wide = build(book, browser, OUT)
        browser.close()
    for each in wide:
        print(f"pdf: wider than its page: {each}")
    with pikepdf.open(OUT) as pdf:
        n = len(pdf.pages)
    print(f"pdf: {n} pages, {OUT.stat().st_size / 1e6:.1f} MB, {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
