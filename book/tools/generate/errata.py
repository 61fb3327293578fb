"""The page of errata, `book/errata.md`, from the list in `book/errata.toml`."""

from __future__ import annotations

import datetime
import tomllib
from typing import Any

from book.tools.notebooks import ROOT, read

TARGET = ROOT / "book" / "errata.md"
LIST = ROOT / "book" / "errata.toml"
NEEDED = {
    "page": str,
    "place": str,
    "wrong": str,
    "right": str,
    "date": datetime.date,
    "version": str,
}
HEAD = """\
# Errata

This page lists mistakes that stood in a released version of the book, with their corrections, the
newest first. The pages you read here are corrected already; the list is for those who printed or
downloaded an earlier version. The version of a page stands at its foot.
"""
NONE = """
No mistake has been reported in a released version so far. That does not mean that there is none.
"""
FOOT = """
## Report a mistake

Every page has a link **Report a mistake** at its foot. It opens a form in which the page is already
named: copy what is wrong, and say what would be right and how you know. A wrong letter is welcome,
and so is a wrong proof.
"""


def page() -> str:
    """The page as the list has it today."""
    return written(tomllib.loads(LIST.read_text("utf8")).get("erratum", []))


def written(errata: list[dict[str, Any]]) -> str:
    """The page for these errata. Raises ValueError for one that is not whole."""
    for number, erratum in enumerate(errata, start=1):
        if fault := _fault(erratum):
            raise ValueError(f"book/errata.toml, erratum {number}: {fault}")
    newest = sorted(errata, key=lambda erratum: erratum["date"], reverse=True)
    return HEAD + ("".join(map(_entry, newest)) or NONE) + FOOT


def _fault(erratum: dict[str, Any]) -> str:
    for key, kind in NEEDED.items():
        if key not in erratum:
            return f"{key} is missing"
        if type(erratum[key]) is not kind:
            return f"{key} is {'a date' if kind is datetime.date else 'a text'} in this list"
    if unknown := sorted(erratum.keys() - NEEDED.keys() - {"found_by"}):
        return f"there is no {unknown[0]}"
    return "" if _source(erratum["page"]) else f"there is no page {erratum['page']}"


def _source(page: str) -> str | None:
    names = (f"{page}.ipynb", f"{page}.md")
    return next((name for name in names if (ROOT / name).is_file()), None)


def _entry(erratum: dict[str, Any]) -> str:
    source = _source(erratum["page"])
    link = f"[{_title(source)}](../{source})"
    day = f"{erratum['date'].day} {erratum['date']:%B %Y}"
    finder = f" (found by {erratum['found_by']})" if "found_by" in erratum else ""
    return f"""
**{link}**, {erratum["place"]}. Corrected in version {erratum["version"]}, {day}{finder}.

- It said: {erratum["wrong"]}
- It says: {erratum["right"]}
"""


def _title(source: str) -> str:
    path = ROOT / source
    text = read(path).cells[0].source if path.suffix == ".ipynb" else path.read_text("utf8")
    return next(line for line in text.splitlines() if line.startswith("# ")).removeprefix("# ")
