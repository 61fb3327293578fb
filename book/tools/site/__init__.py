"""One folder for any static host, `_build/site`: pages, their cards, editions, all notebooks.

    python -m book.tools.site          after `make html`, with the same BOOK_URL

The folder is checked before it is done: every address in it leads somewhere, and every page names
itself by one address.
"""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from book.tools.notebooks import ROOT

BUILD = ROOT / "_build"
HTML = BUILD / "html"
OUT = BUILD / "site"
EDITIONS = {  # made by `make pdf`, `make epub` and `make figures`
    "PDF": "unrolled.pdf",
    "EPUB": "unrolled.epub",
    "Figures": "unrolled-figures.zip",
}
NOTEBOOKS = "unrolled-notebooks.zip"
PLACE = "<!-- editions -->"  # on the landing page, where links to them go
FIGURES_PLACE = "<!-- figures -->"  # on the page for instructors


def assemble(html: Path, build: Path, out: Path) -> list[str]:
    """Copy the pages and the editions that are built to `out`; the names of those editions."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(html, out, ignore=shutil.ignore_patterns(".buildinfo*", ".doctrees"))
    there = {kind: name for kind, name in EDITIONS.items() if (build / name).is_file()}
    for name in there.values():
        shutil.copyfile(build / name, out / name)
    pack(sorted((html / "_sources" / "chapters").glob("*.ipynb")), out / NOTEBOOKS)
    _put(out / "index.html", PLACE, _links(out, {**there, "Notebooks": NOTEBOOKS}))
    named = there.get("Figures")
    pack_of_figures = f' <a href="../{named}" download>All drawings as SVG and PDF</a>.'
    _put(out / "book" / "instructors.html", FIGURES_PLACE, pack_of_figures if named else "")
    return list(there)


def pack(notebooks: list[Path], target: Path) -> None:
    """The notebooks as one archive, the same bytes from the same notebooks."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in notebooks:
            member = zipfile.ZipInfo(f"unrolled/{path.name}")  # of 1 January 1980
            archive.writestr(member, path.read_bytes(), zipfile.ZIP_DEFLATED)


def _put(page: Path, place: str, links: str) -> None:
    text = page.read_text("utf8")
    if place not in text:
        raise ValueError(f"{page.name} has no {place}, where the links to the editions go")
    page.write_text(text.replace(place, links), "utf8")


def _links(out: Path, editions: dict[str, str]) -> str:
    sizes = {kind: (out / name).stat().st_size / 1e6 for kind, name in editions.items()}
    return " ".join(
        f'<a class="u-button" href="{name}" download>{kind} '
        f"<small>{sizes[kind]:.{int(sizes[kind] < 10)}f} MB</small></a>"
        for kind, name in editions.items()
    )
