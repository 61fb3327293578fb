"""The pages of the built book as they stand in one document: ids of their own, links within it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import yaml
from bs4 import BeautifulSoup, Tag

from book.tools.notebooks import ROOT

SITE = Path(os.environ.get("BOOK_HTML", ROOT / "_build" / "html"))


@dataclass
class Leaf:
    """A page of the site as it stands in the document."""

    path: str  # "chapters/14_attention.html"
    part: str  # the caption of its part
    title: str
    body: Tag

    @property
    def key(self) -> str:
        """What its ids begin with: "chapters-14_attention"."""
        return re.sub(r"\W+", "-", self.path.removesuffix(".html"))

    @property
    def file(self) -> str:
        """Its file's name: "14_attention.xhtml"."""
        return Path(self.path).with_suffix(".xhtml").name


def contents() -> list[tuple[str, str]]:
    """(part, path below the site) of all pages but the landing page, in the book's order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf8"))
    found = []
    for part in toc["parts"]:
        for entry in part["chapters"]:
            for each in (entry, *entry.get("sections", ())):
                found.append((part["caption"], f"{each['file']}.html"))
    return found


def leaves(base: str, entries: Sequence[tuple[str, str]]) -> list[Leaf]:
    """The pages of these entries of the contents, without scripts and folded code.

    A link to a page that is not among them leads to its address below base, the site's.
    """
    found = []
    for part, path in entries:
        soup = BeautifulSoup(
            (SITE / path).read_text("utf8"), "html.parser", multi_valued_attributes=None
        )
        body = soup.select_one("article.bd-article")
        for unwanted in body.select("script, template, a.headerlink, .u-fold, .u-cards, noscript"):
            unwanted.decompose()
        found.append(Leaf(path, part, body.h1.get_text().strip(), body))
    keys = {leaf.path: leaf.key for leaf in found}
    for leaf in found:
        _make_unique(leaf)
        _lead_within(leaf, keys, base)
    return found


def _make_unique(leaf: Leaf) -> None:
    for tag in leaf.body.find_all(True):
        for name, value in tag.attrs.items():
            if name == "id":
                tag[name] = f"{leaf.key}--{value}"
            elif name.startswith("aria-") and name.endswith("by"):
                tag[name] = " ".join(f"{leaf.key}--{each}" for each in value.split())
            elif tag.name == "use" and name.endswith("href"):
                tag[name] = value.replace("#", f"#{leaf.key}--")
            elif "url(#" in value:
                tag[name] = value.replace("url(#", f"url(#{leaf.key}--")


def _lead_within(leaf: Leaf, keys: dict[str, str], base: str) -> None:
    for link in leaf.body.select("a[href]"):
        url = urlsplit(link["href"])
        if url.scheme or url.netloc:
            continue
        target = urljoin(leaf.path, url.path) if url.path else leaf.path
        if target in keys:
            link["href"] = f"#{keys[target]}" + (f"--{url.fragment}" if url.fragment else "")
        else:
            link["href"] = base + target + (f"#{url.fragment}" if url.fragment else "")
