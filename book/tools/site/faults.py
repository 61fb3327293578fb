"""Whether every address in a built site is right: links, canonical links, previews, map, feed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

from book.extensions.publishing import NOT_FOUND, page_address

UNLISTED = {f"{NOT_FOUND}.html", "search.html"}  # no text: not in the map, without an address
_LINKS = ("href", "src", "action", "poster")


@dataclass
class Addresses(HTMLParser):
    """The addresses that a page names, and the places in it that others can name."""

    path: Path
    links: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    told: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text("utf8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.ids.add(given["id"])
        if tag == "link" and given.get("rel") == "canonical":
            self.told["canonical"].append(given["href"])
        elif tag == "meta" and (name := given.get("property") or given.get("name")):
            self.told[name].append(given.get("content") or "")
        else:
            self.links += [given[name] for name in _LINKS if given.get(name)]


@cache
def read(path: Path) -> Addresses:
    """The page's addresses; each page is read once."""
    return Addresses(path)


def pages(folder: Path) -> list[str]:
    """The site's pages, as paths below its folder; decks of slides are none (see `decks`)."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    return sorted(name for name in found if not name.startswith(("_", "slides/")))


def decks(folder: Path) -> list[str]:
    """The decks of slides: each names its chapter's page as the address of its text."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob("slides/*.html"))


def broken_links(folder: Path, name: str, site: str) -> list[str]:
    """The page's links into the site that lead nowhere."""
    return [link for link in read(folder / name).links if not _leads(folder, name, link, site)]


def _leads(folder: Path, name: str, link: str, site: str) -> bool:
    base = urlsplit(site).path
    url = urlsplit(base + link.removeprefix(site) if link.startswith(site) else link)
    if url.scheme or url.netloc:
        return True
    if url.path.startswith("/"):
        target = folder / unquote(url.path.removeprefix(base))  # outside the folder where it stays
    else:
        target = (folder / name).parent / unquote(url.path) if url.path else folder / name
    target = target.resolve() / "index.html" if target.is_dir() else target.resolve()
    if not target.is_file() or not target.is_relative_to(folder.resolve()):
        return False
    known = not url.fragment or target.suffix != ".html"
    return known or unquote(url.fragment) in read(target).ids


def wrong_names(folder: Path, name: str, site: str, *, cards: bool = True) -> Iterator[str]:
    """What a page tells services wrongly: its own address, its card."""
    told = read(folder / name).told
    expected = [] if name in UNLISTED else [page_address(site, name.removesuffix(".html"))]
    for kind in ("canonical", "og:url"):
        if told[kind] != expected:
            yield f"{kind} is {told[kind]}, not {expected}"
    for image in told["og:image"]:
        if not image.startswith(site):
            yield f"og:image is {image}, outside {site}"
        elif cards and not (folder / image.removeprefix(site)).is_file():
            yield f"og:image is {image}, which is not there"
    if len(told["og:image"]) != len(expected):
        yield f"{len(told['og:image'])} og:image"


def faults(folder: Path, site: str, *, cards: bool = True) -> list[str]:
    """What is wrong with the addresses of the built site; cards=False: cards are not drawn yet."""
    found = []
    for name in pages(folder):
        found += [f"{name}: {link} leads nowhere" for link in broken_links(folder, name, site)]
        found += [f"{name}: {fault}" for fault in wrong_names(folder, name, site, cards=cards)]
    for name in decks(folder):
        found += [f"{name}: {link} leads nowhere" for link in broken_links(folder, name, site)]
    listed = _texts(folder / "sitemap.xml", "loc")
    wanted = {
        page_address(site, name.removesuffix(".html"))
        for name in pages(folder)
        if name not in UNLISTED
    }
    found += [f"sitemap.xml: {address} is no page" for address in sorted(listed - wanted)]
    found += [f"sitemap.xml: {address} is missing" for address in sorted(wanted - listed)]
    if f"Sitemap: {site}sitemap.xml" not in (folder / "robots.txt").read_text("utf8"):
        found.append(f"robots.txt does not name {site}sitemap.xml")
    own = re.findall(r'<link href="([^"]*)"', (folder / "feed.xml").read_text("utf8"))
    if wrong := [address for address in own if not address.startswith(site)]:
        found.append(f"feed.xml: {wrong[0]} is outside {site}")
    return found


def _texts(path: Path, tag: str) -> set[str]:
    return {node.text for node in ElementTree.parse(path).iter() if node.tag.endswith(f"}}{tag}")}
