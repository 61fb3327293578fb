"""One folder for any static host, `_build/site`: the pages, their cards, the PDF and the EPUB.

    python -m book.tools.site          after `make html`, with the same BOOK_URL

The folder is checked before it is done: every address in it leads somewhere, and every page names
itself by one address.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from book.tools.notebooks import ROOT

BUILD = ROOT / "_build"
HTML = BUILD / "html"
OUT = BUILD / "site"
EDITIONS = {"PDF": "unrolled.pdf", "EPUB": "unrolled.epub"}  # made by `make pdf` and `make epub`
PLACE = "<!-- editions -->"  # on the landing page, where links to them go


def assemble(html: Path, build: Path, out: Path) -> list[str]:
    """Copy the pages and the editions that are built to `out`; the names of those editions."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(html, out, ignore=shutil.ignore_patterns(".buildinfo*", ".doctrees"))
    there = {kind: name for kind, name in EDITIONS.items() if (build / name).is_file()}
    for name in there.values():
        shutil.copyfile(build / name, out / name)
    if there:
        landing = out / "index.html"
        text = landing.read_text("utf8")
        if PLACE not in text:
            raise ValueError(f"index.md has no {PLACE}, where the links to the editions go")
        landing.write_text(text.replace(PLACE, _links(out, there)), "utf8")
    return list(there)


def _links(out: Path, editions: dict[str, str]) -> str:
    sizes = {kind: (out / name).stat().st_size / 1e6 for kind, name in editions.items()}
    links = [
        f'<a href="{name}" download>{kind}</a> ({sizes[kind]:.{int(sizes[kind] < 10)}f} MB)'
        for kind, name in editions.items()
    ]
    return f'<p class="u-editions">To read on paper or away from the web: {", ".join(links)}.</p>'
