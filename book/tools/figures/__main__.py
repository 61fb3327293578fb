"""`make figures`: the built pages → `_build/unrolled-figures.zip`."""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import shutil
from datetime import datetime
from html import escape
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from book.extensions.imprint import Imprint
from book.extensions.publishing import site_address
from book.tools.epub.__main__ import FLAGS, edition
from book.tools.epub.leaves import contents, leaves
from book.tools.epub.packing import archive
from book.tools.figures.figure import Figure, figures
from book.tools.figures.paper import pdf
from book.tools.notebooks import ROOT
from book.tools.notebooks.address import repository_url
from book.tools.site import BUILD, EDITIONS

FOLDER = "unrolled-figures"  # that the archive unpacks to
COLUMNS = ("number", "svg", "pdf", "chapter", "caption", "alternative text", "moves on the page",
           "address", "licence")  # fmt: skip
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}
figure{margin:2rem 0}img{max-width:100%;height:auto}figcaption{color:#444}"""


def build(
    found: list[Figure], browser: Browser, out: Path, imprint: Imprint, when: datetime
) -> list[str]:
    """Write the archive of these figures; the names of its files."""
    files: dict[str, str | bytes] = {
        "index.html": index(found, imprint),
        "figures.csv": table(found, imprint),
        "LICENSE.txt": (ROOT / "LICENSE-text").read_text("utf8"),
    }
    page = browser.new_page()
    for figure in found:
        if figure.svg:
            files[f"svg/{figure.file}.svg"] = figure.svg
            files[f"pdf/{figure.file}.pdf"] = pdf(figure, page, imprint, when)
    page.close()
    archive(out, {f"{FOLDER}/{name}": data for name, data in files.items()}, when)
    return list(files)


def table(found: list[Figure], imprint: Imprint) -> str:
    """All figures as CSV, those that are no drawing without a file."""
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(COLUMNS)
    for one in found:
        names = [f"{kind}/{one.file}.{kind}" if one.svg else "" for kind in ("svg", "pdf")]
        moves = "yes" if one.moves else "no"
        rows.writerow([one.name.removeprefix("Figure "), *names, one.chapter, one.caption, one.alt,
                       moves, one.address, imprint.licence])  # fmt: skip
    return written.getvalue()


def index(found: list[Figure], imprint: Imprint) -> str:
    """The page that shows all of them."""
    drawn = [one for one in found if one.svg]
    parts = []
    for chapter, members in itertools.groupby(drawn, lambda one: one.chapter):
        parts.append(f"<h2>{escape(chapter)}</h2>")
        parts += [_shown(one) for one in members]
    example = escape(drawn[0].citation(imprint))
    title = escape(f"The figures of {imprint.title}")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>
<body><main><h1>{title}</h1>
<p>{len(drawn)} figures as SVG and PDF. {escape(imprint.licence)} The text of the licence is in
<a href="LICENSE.txt">LICENSE.txt</a>; <a href="figures.csv">figures.csv</a> lists all figures.
Say where a figure comes from, with its number and its address:</p>
<blockquote>{example}</blockquote>
<p>A figure that moves on its page stands here as a still.</p>
{chr(10).join(parts)}
</main></body></html>
"""


def _shown(one: Figure) -> str:
    files = " ".join(f'<a href="{kind}/{one.file}.{kind}">{kind.upper()}</a>'
                     for kind in ("svg", "pdf"))  # fmt: skip
    moves = ", where it moves" if one.moves else ""
    return (
        f'<figure id="{one.file.removeprefix("unrolled-")}">'
        f'<img src="svg/{one.file}.svg" alt="{escape(one.alt)}" loading="lazy">'
        f"<figcaption><strong>{one.name}.</strong> {one.shown} "
        f'<small>{files} <a href="{escape(one.address)}">In the book</a>{moves}</small>'
        "</figcaption></figure>"
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    base, imprint, out = (
        site_address(repository_url()),
        Imprint.read(ROOT),
        BUILD / EDITIONS["Figures"],
    )
    pages = [entry for entry in contents() if entry[1].startswith("chapters/")]
    found = list(figures(leaves(base, pages), base, imprint))
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        build(found, browser, out, imprint, edition())
        browser.close()
    drawn = sum(bool(one.svg) for one in found)
    print(f"figures: {drawn} of {len(found)} are drawings, {out.stat().st_size / 1e6:.1f} MB, "
          f"{out.relative_to(ROOT)}")  # fmt: skip


if __name__ == "__main__":
    main()
