"""`make pdf`: the built pages → `_build/unrolled.pdf`.

python -m book.tools.paper              the whole book
python -m book.tools.paper 02 14        only these chapters
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from pypdf import PdfReader, PdfWriter

from book.extensions.imprint import Imprint
from book.extensions.publishing import site_address
from book.tools.epub.__main__ import FLAGS, ONLY_ON_THE_WEB
from book.tools.epub.leaves import SITE, contents, leaves
from book.tools.notebooks import ROOT
from book.tools.notebooks.address import repository_url
from book.tools.paper.document import Document, Pages

OUT = ROOT / "_build" / "unrolled.pdf"
TEXT_WIDTH = 646  # CSS pixels, what paper.css leaves of the page between its margins
# A formula that is wider than the page is set smaller; what else is too wide is told.
FIT = """width => {
  const article = e => e.closest(".p-page").getBoundingClientRect();
  for (const formula of document.querySelectorAll("div.math")) {
    const parts = [...formula.querySelectorAll(".katex-base")].map(e => e.getBoundingClientRect());
    const left = Math.min(...parts.map(e => e.left)), right = Math.max(...parts.map(e => e.right));
    const room = formula.getBoundingClientRect();
    const most = Math.min(room.right, article(formula).right) - room.left;
    if (right - left > most) formula.style.fontSize = 97 * most / (right - left) + "%";
  }
  return [...document.querySelectorAll(".p-page *")].filter(e => !e.closest(".katex-mathml")
    && !e.matches("svg *") && e.getBoundingClientRect().right > article(e).right + 2).map(e =>
      e.closest(".p-page").id + ": " + e.outerHTML.slice(0, 100).replace(/\\s+/g, " "));
}"""


def print_pdf(browser: Browser, text: str, out: Path) -> list[str]:
    """Print the document, with bookmarks and tags, and say what is wider than its page."""
    source = SITE / f"_paper-{os.getpid()}.html"  # beside the pages whose styles it uses
    source.write_text(text, "utf8")
    page = browser.new_page(viewport={"width": TEXT_WIDTH, "height": 900})
    try:
        page.set_default_timeout(900_000)
        page.emulate_media(media="print")
        page.goto(source.as_uri())
        page.evaluate("document.fonts.ready.then(() => 1)")
        wide = page.evaluate(FIT, TEXT_WIDTH)
        page.pdf(path=out, prefer_css_page_size=True, outline=True, tagged=True)
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


def build(document: Document, browser: Browser, out: Path) -> list[str]:
    """Write the PDF: printed twice, for in the first print the page numbers are not yet known."""
    if dead := document.dead_links():
        raise ValueError(f"links within the book that lead nowhere: {', '.join(dead)}")
    print_pdf(browser, document.html({}), out)
    wide = print_pdf(browser, document.html(page_numbers(out)), out)
    writer = PdfWriter(clone_from=out)
    writer.add_metadata({"/Title": document.imprint.whole, "/Author": document.imprint.author})
    writer.write(out)
    return wide


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", help="beginnings of names, such as 14")
    wanted = tuple(f"chapters/{name}_" for name in parser.parse_args().chapters) or ("",)
    base = site_address(repository_url())
    paths = [entry for entry in contents() if entry[1] not in ONLY_ON_THE_WEB]
    found = leaves(base, [entry for entry in paths if entry[1].startswith(wanted)])
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        wide = build(Document(found, base, Imprint.read(ROOT)), browser, OUT)
        browser.close()
    for each in wide:
        print(f"pdf: wider than its page: {each}")
    n = len(PdfReader(OUT).pages)
    print(f"pdf: {n} pages, {OUT.stat().st_size / 1e6:.1f} MB, {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
