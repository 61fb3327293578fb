"""`make pdf`: the built pages → `_build/unrolled.pdf`.

python -m book.tools.paper              the whole book
python -m book.tools.paper 02 14        only these chapters
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
from bisect import bisect_right
from pathlib import Path

import pikepdf
from playwright.sync_api import Browser, sync_playwright
from pypdf import PdfReader, PdfWriter

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
# A formula that is wider than the page is set smaller; what else is too wide is told.
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


def print_pdf(browser: Browser, text: str, out: Path, **options: bool) -> list[str]:
    """Print the document, and say what is wider than its page. options: Chromium's, of a PDF."""
    source = SITE / f"_paper-{os.getpid()}.html"  # beside the pages whose styles it uses
    source.write_text(text, "utf8")
    page = browser.new_page(viewport={"width": TEXT_WIDTH, "height": 900})
    try:
        page.set_default_timeout(900_000)
        page.emulate_media(media="print")
        page.goto(source.as_uri())
        page.evaluate("document.fonts.ready.then(() => 1)")
        wide = page.evaluate(FIT)
        page.pdf(path=out, prefer_css_page_size=True, **options)
        return wide
    finally:
        page.close()
        source.unlink()


def page_numbers(path: Path) -> Pages:
    """On which page each id stands that is linked to, from the print's named destinations."""
    reader = PdfReader(path)
    return {
        name.lstrip("/"): reader.get_destination_page_number(target) + 1
        for name, target in reader.named_destinations.items()
    }


def arranged(document: Document, pages: Pages) -> tuple[Pages, frozenset[str]]:
    """Where the ids will stand when chapters begin on right pages, and the blocks after blanks.

    pages: where they stand without empty pages.
    """
    starts = [(pages[block.key], block) for block in document.blocks({})]
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
    set_in = fonts()
    print_pdf(browser, document.html({}, faces=set_in), out, outline=False, tagged=False)
    pages, blank = arranged(document, page_numbers(out))
    wide = print_pdf(browser, document.html(pages, blank, set_in), out, outline=True, tagged=True)
    pages = page_numbers(out)
    writer = PdfWriter(clone_from=out)
    blanks = {pages[key] - 1 for key in blank}
    over = out.with_suffix(".heads.pdf")
    text = heads.document(document, pages, blanks, len(writer.pages), set_in)
    print_pdf(browser, text, over, outline=False, tagged=False)
    heads.stamp(writer, PdfReader(over))
    over.unlink()
    imprint = document.edition.imprint
    writer.add_metadata({"/Title": imprint.whole, "/Author": imprint.author})
    whole = io.BytesIO()
    writer.write(whole)
    with pikepdf.open(whole) as pdf:  # small objects together in compressed streams: a third
        pdf.save(out, object_stream_mode=pikepdf.ObjectStreamMode.generate, deterministic_id=True)
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
    n = len(PdfReader(OUT).pages)
    print(f"pdf: {n} pages, {OUT.stat().st_size / 1e6:.1f} MB, {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
