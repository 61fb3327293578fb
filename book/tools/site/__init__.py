"""One folder for any static host, `_build/site`: pages, their cards, PDF, EPUB, all notebooks.

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
EDITIONS = {"PDF": "unrolled.pdf", "EPUB": "unrolled.epub"}  # made by `make pdf` and `make epub`
NOTEBOOKS = "unrolled-notebooks.zip"
PLACE = "<!-- editions -->"  # on the landing page, where links to them go


def assemble(html: Path, build: Path, out: Path) -> list[str]:
    """Copy the pages and the editions that are built to `out`; the names of those editions."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(html, out, ignore=shutil.ignore_patterns(".buildinfo*", ".doctrees"))
    there = {kind: name for kind, name in EDITIONS.items() if (build / name).is_file()}
    for name in there.values():
        shutil.copyfile(build / name, out / name)
    pack(sorted((html / "_sources" / "chapters").glob("*.ipynb")), out / NOTEBOOKS)
    landing = out / "index.html"
    text = landing.read_text("utf8")
    if PLACE not in text:
        raise ValueError(f"index.html has no {PLACE}, where the links to the editions go")
    links = _links(out, {**there, "Notebooks": NOTEBOOKS})
    landing.write_text(text.replace(PLACE, links), "utf8")
    return list(there)


def pack(notebooks: list[Path], target: Path) -> None:
    """The notebooks as one archive, the same bytes from the same notebooks."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in notebooks:
            member = zipfile.ZipInfo(f"unrolled/{path.name}")  # of 1 January 1980
            archive.writestr(member, path.read_bytes(), zipfile.ZIP_DEFLATED)


def _links(out: Path, editions: dict[str, str]) -> str:
    sizes = {kind: (out / name).stat().st_size / 1e6 for kind, name in editions.items()}
    return " ".join(
        f'<a class="u-button" href="{name}" download>{kind} '
        f"<small>{sizes[kind]:.{int(sizes[kind] < 10)}f} MB</small></a>"
        for kind, name in editions.items()
    )
