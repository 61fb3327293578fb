"""`make epub`: the built pages → `_build/unrolled.epub`."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from book.extensions.imprint import Imprint
from book.extensions.publishing import site_address
from book.tools.epub import chapters, formulas, packing
from book.tools.epub.leaves import Leaf, contents, leaves
from book.tools.epub.packing import Page
from book.tools.notebooks import ROOT
from book.tools.notebooks.address import repository_url

OUT = ROOT / "_build" / "unrolled.epub"
FLAGS = "--headless --no-sandbox --disable-gpu --no-first-run --disable-sync"
ONLY_ON_THE_WEB = {"book/progress.html"}  # a page that shows what this browser keeps
KINDS = {"book/glossary.html": "glossary", "book/bibliography.html": "bibliography"}
MOVING = ".u-explore, .u-model, .u-game, .u-typed, .u-paint"


def pages(found: list[Leaf], base: str, browser: Browser) -> tuple[list[Page], dict[str, str]]:
    """The pages of the EPUB after the first ones, and their pictures by name.

    found: the pages of the site, in order, which are changed; base: the site's address.
    """
    pictures: dict[str, str] = {}
    solved: list[Leaf] = []
    for leaf in found:
        formulas.mark(leaf.body)
        live, moving = base + leaf.path, len(leaf.body.select(MOVING))
        chapters.without_controls(leaf.body, MOVING, live)
        pictures |= {one.name: one.content for one in chapters.drawings(leaf.body)}
        solved += _solutions(leaf)
        if leaf.path.startswith("chapters/"):
            leaf.body.append(chapters.on_the_web(live, moving))
    both = [*found, *solved]
    for leaf in both:
        chapters.tidy(leaf.body)
    holders = [formulas.found(leaf.body) for leaf in both]
    written = formulas.mathml({formula for each in holders for _, formula in each}, browser)
    for each in holders:
        formulas.put(each, written)
    _link(both)
    return [_page(leaf) for leaf in both], pictures


def _solutions(leaf: Leaf) -> list[Leaf]:
    """The page of a chapter's solutions, if it has any."""
    path = leaf.path.replace(".html", "-solutions.html")
    own = Leaf(path, "Solutions", leaf.title, leaf.body)
    taken = chapters.solutions(leaf.body, leaf.file, own.file)
    own.body = chapters.headed(f"Solutions of chapter {leaf.title}", taken)
    return [own] if taken else []


def _link(found: list[Leaf]) -> None:
    """Lead each link within the book to the file that holds its target."""
    where = {tag["id"]: leaf.file for leaf in found for tag in leaf.body.select("[id]")}
    files = {leaf.key: leaf.file for leaf in found}
    for leaf in found:
        for link in leaf.body.select("a[href^='#']"):
            target = link["href"][1:]
            if target not in where and target not in files:
                raise ValueError(f"{leaf.path} links to {target!r}, which no page has")
            link["href"] = files.get(target) or f"{where[target]}#{target}"


def _page(leaf: Leaf) -> Page:
    kind = KINDS.get(leaf.path)
    sections = []
    if leaf.part != "Solutions":
        kind = "chapter" if leaf.path.startswith("chapters/") else kind
        sections = [(heading.parent["id"], " ".join(heading.get_text().split()))
                    for heading in leaf.body.select("section[id] > h2")]  # fmt: skip
    marked = f' epub:type="{kind}"' if kind else ""
    body = f"<body{marked}>{leaf.body.decode_contents(formatter='minimal')}</body>"
    return Page(f"text/{leaf.file}", leaf.title, body, leaf.part, sections)


def front(base: str, when: datetime, imprint: Imprint) -> list[Page]:
    """The cover and the title page."""
    title, subtitle, author, licence = map(
        escape, (imprint.title, imprint.subtitle, imprint.author, imprint.licence)
    )
    cover = (
        '<body epub:type="cover" class="cover"><img src="../cover.png" role="doc-cover" '
        f'alt="{title}. {subtitle}. A curled line unrolls into a chain of points; '
        'arcs lead from each point back to all before it."/></body>'
    )
    page = f"""<body epub:type="titlepage"><h1>{title}</h1>
<p class="subtitle">{subtitle}</p><p>{author}</p>
<h2>About this edition</h2>
<p>This is the book for reading away from a computer. The web book has more: its figures move, its
code can be run, its exercises check your answers, and code folded away here can be opened.</p>
<p><a href="{base}">{base}</a></p>
<p>Figures that move stand here as stills, each with a link to the figure itself. The solutions of
the exercises are at the end; a link leads from each exercise to its solution and back.</p>
<p>{licence}</p>
<p>Edition of {when:%Y-%m-%d}.</p></body>"""
    return [
        Page("text/cover.xhtml", "Cover", cover),
        Page("text/title.xhtml", "Title page", page),
    ]


def cover(browser: Browser, imprint: Imprint) -> bytes:
    """The cover as a picture, which shops and shelves want, from the drawing beside this file."""
    page = browser.new_page(viewport={"width": 1200, "height": 1800})
    page.set_content(f"<body style='margin:0'>{imprint.cover()}</body>")
    picture = page.screenshot()
    page.close()
    return picture


def edition() -> datetime:
    """The date of the edition: SOURCE_DATE_EPOCH, or the last commit's, or the copyright's year."""
    given = os.environ.get("SOURCE_DATE_EPOCH") or subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, encoding="utf8"
    ).stdout.strip()  # fmt: skip
    if given:
        return datetime.fromtimestamp(int(given), UTC)
    return datetime(int(Imprint.read(ROOT).year), 1, 1, tzinfo=UTC)


def build(
    found: list[Leaf], base: str, when: datetime, browser: Browser, out: Path, imprint: Imprint
) -> list[Page]:
    """Write the EPUB of these pages of the site, and return the pages that it has."""
    inner, pictures = pages(found, base, browser)
    everything = front(base, when, imprint) + inner
    content = packing.files(everything, pictures, base, when, imprint)
    packing.write(out, {**content, "cover.png": cover(browser, imprint)}, when)
    return everything


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    base = site_address(repository_url())
    found = leaves(base, [entry for entry in contents() if entry[1] not in ONLY_ON_THE_WEB])
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        made = build(found, base, edition(), browser, OUT, Imprint.read(ROOT))
        browser.close()
    size = OUT.stat().st_size / 1e6
    print(f"epub: {len(made)} pages, {size:.1f} MB, {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
