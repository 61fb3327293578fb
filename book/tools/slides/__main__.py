"""`make slides`: the built pages → `_build/html/slides`, linked from the chapters' pages.

python -m book.tools.slides              all decks
python -m book.tools.slides 02 14        only these
python -m book.tools.slides --pdf 14     and each as a PDF beside it
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tomllib
from pathlib import Path

from playwright.sync_api import sync_playwright

from book.tools.epub.__main__ import FLAGS
from book.tools.epub.leaves import SITE
from book.tools.live.packages import NoBundle
from book.tools.notebooks import ROOT, chapter_paths, number
from book.tools.slides import document
from book.tools.slides.blocks import Chapter, read
from book.tools.slides.deck import Slide, deck

PLACE = "<!-- slides -->"  # where a page of the site gets its links to decks


def slides_of(name: str) -> tuple[Chapter, list[Slide]]:
    """A chapter's page and its slides."""
    beliefs = tomllib.loads((ROOT / "book" / "misconceptions.toml").read_text("utf8"))
    said = [f"Some believe: {one['believes']} {one['cure']}" for one in beliefs.get(name, [])]
    chapter = read(name)
    return chapter, deck(chapter, said)


def build(names: list[str]) -> dict[str, list[Slide]]:
    """Write the decks of these chapters and link to them; the slides by chapter.

    Raises NoBundle without reveal.js, ValueError for metadata that ask for what is not there.
    """
    engine, made = document.write_engine(), {}
    document.OUT.mkdir(exist_ok=True)
    for name in names:
        chapter, made[name] = slides_of(name)
        text = document.page(chapter, made[name], engine)
        (document.OUT / f"{name}.html").write_text(text, "utf8")
        _link(SITE / "chapters" / f"{name}.html", document.link(name))
    decks = sorted(path.stem for path in document.OUT.glob("*.html"))
    links = [document.link(name, f"chapter {number(name)}") for name in decks]
    _link(SITE / "book" / "instructors.html", f"<p>The decks: {', '.join(links)}.</p>")
    return made


def _link(page: Path, links: str) -> None:
    """Put links where the page has a place for them; a page that has its links stays as it is."""
    page.write_text(page.read_text("utf8").replace(PLACE, links), "utf8")


def print_pdfs(names: list[str]) -> None:
    """Each deck as a PDF beside it, a page for each slide."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.set_default_timeout(300_000)
        for name in names:
            page.goto((document.OUT / f"{name}.html").as_uri() + "?print-pdf")
            page.wait_for_selector("html[data-fitted]", state="attached")
            page.pdf(path=document.OUT / f"{name}.pdf", prefer_css_page_size=True,
                     print_background=True, tagged=True)  # fmt: skip
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", help="beginnings of names, such as 14")
    parser.add_argument("--pdf", action="store_true", help="print each deck, too")
    given = parser.parse_args()
    names = [path.stem for path in chapter_paths(given.chapters)]
    try:
        made = build(names)
    except NoBundle as why:
        sys.exit(f"slides: there is no reveal.js: {why}")
    if given.pdf:
        print_pdfs(names)
    n = sum(map(len, made.values()))
    print(f"slides: {len(made)} decks, {n} slides, {document.OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
