"""Links of a chapter to a source or a term of the book: short to write, whole on disk.

An author writes ``[Shannon (1948)](cite:shannon1948)`` and ``[perplexity](term:perplexity)``. A
link like that is dead in Jupyter, in Colab and on GitHub, so a notebook's file holds the address of
the published page. `read` gives the tools the short form, `write` puts the whole one on disk, and
``book/extensions/book_links.py`` makes it a link within the book again.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
PLACES = {"cite": "book/bibliography.html#cite-", "term": "book/glossary.html#term-"}
WHOLE = re.compile(r"https?://[^\s()<>]+?/(book/(?:bibliography|glossary)\.html#(?:cite|term)-)")
_SHORT = re.compile(r"(?<=\]\()(cite|term):")


@cache
def pages(config: Path = ROOT / "_config.yml") -> str:
    """The address that GitHub Pages gives the repository of the book's configuration."""
    url = yaml.safe_load(config.read_text("utf8"))["repository"]["url"]
    owner, name = url.rstrip("/").removesuffix(".git").split("/")[-2:]
    return f"https://{owner}.github.io/{name}"


def short(text: str) -> str:
    """The text with `cite:` and `term:` in place of whole addresses, whosever pages they are."""
    schemes = {place: scheme for scheme, place in PLACES.items()}
    return WHOLE.sub(lambda found: f"{schemes[found[1]]}:", text)


def whole(text: str, site: str | None = None) -> str:
    """Markdown with whole addresses in place of `](cite:` and `](term:`. site: without a slash."""
    return _SHORT.sub(lambda found: f"{site or pages()}/{PLACES[found[1]]}", text)
