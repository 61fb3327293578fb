"""What a published book has beside its text: its address, previews of links, a map, a feed, a foot.

The address of the site follows from `_config.yml` (repository: url), as GitHub Pages makes it; the
environment variable BOOK_URL sets another. From it come each page's canonical link, its OpenGraph
tags, `sitemap.xml`, `robots.txt`, `feed.xml` (the versions of CHANGELOG.md) and `404.html`, whose
links work at any depth and, by a script in it, at another address than that one. The foot of a page
says which version it is of, when it last changed, and where to report a mistake.

Written here and not left to extensions: sphinx-sitemap forgets the pages that a second build
does not write again, sphinx-notfound-page does not reach the theme's table of contents, and
sphinx-last-updated-by-git takes the notebooks' downloads away where there is no git.
"""

from __future__ import annotations

import datetime
import html
import os
import re
import subprocess
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

from docutils import nodes
from markdown_it import MarkdownIt
from sphinx.application import Sphinx
from sphinx.config import Config

CARDS = "_static/cards"  # one picture a page; `make site` draws them
CARD_SIZE = (1200, 630)  # pixels, as the services that show cards ask for
NOT_FOUND = "404"
ATOM = "http://www.w3.org/2005/Atom"
SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
EDITED = "main"  # the branch that a reader's edit goes to, whatever tag the notebooks pin
_RELEASE = re.compile(r"^## (\d\S*) \((\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)
LOST = Path(__file__).with_name("lost.js")  # for the page 404, which carries it
_RELATIVE = re.compile(r'((?:href|src|action|data-content_root)=")(?![#/]|[a-z][a-z+.-]*:)(?:\./)?')


def site_address(repository: str) -> str:
    """The site's address, with a slash at its end: BOOK_URL, or that of the repository's Pages.

    Raises ValueError for an address that is not http(s)://host/….
    """
    given = os.environ.get("BOOK_URL", "")
    if not given:
        owner, name = repository.rstrip("/").removesuffix(".git").split("/")[-2:]
        host = f"{owner.lower()}.github.io"
        given = f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"
    url = urlsplit(given)
    if url.scheme not in {"http", "https"} or not url.netloc or url.query or url.fragment:
        raise ValueError(f"BOOK_URL is an address such as https://example.org/book/, got {given!r}")
    return given.rstrip("/") + "/"


def page_address(site: str, page: str) -> str:
    """A page's one address; the landing page's is the site's own."""
    return site if page == "index" else f"{site}{page}.html"


def version(root: Path) -> str:
    """The book's version, from its one place."""
    return tomllib.loads((root / "lib" / "pyproject.toml").read_text("utf8"))["project"]["version"]


def last_changes(root: Path) -> dict[str, datetime.date]:
    """The day of each file's last commit, by its path below root.

    Empty where it cannot be known: without git, without a history, or with a part of it.
    """

    def git(*arguments: str) -> str:
        asked = ("git", "-C", str(root), "-c", "core.quotePath=off", *arguments)
        return subprocess.run(asked, capture_output=True, check=True, encoding="utf8").stdout

    days: dict[str, datetime.date] = {}
    try:
        if git("rev-parse", "--is-shallow-repository").strip() == "true":
            return {}
        commits = git("log", "--format=%x00%as", "--name-only", "--relative").split("\0")[1:]
    except (OSError, subprocess.CalledProcessError):
        return {}
    for commit in commits:
        day, *files = commit.split("\n")
        for name in filter(None, files):
            days.setdefault(name, datetime.date.fromisoformat(day))
    return days


def set_up(app: Sphinx, config: Config) -> None:
    """The address and the name of the book, for Sphinx and for the templates."""
    root = Path(app.srcdir)
    config.html_baseurl = site_address(config.html_theme_options["repository_url"])
    config.project = config.html_title
    config.release = config.version = version(root)
    app.last_changes = last_changes(root)


def description(doctree: nodes.document) -> str:
    """The page's first paragraph, in at most 200 characters."""
    first = next(doctree.findall(nodes.paragraph), None)
    text = first.astext().replace("\\", "") if first else ""  # \sigma is read as sigma
    return textwrap.shorten(text, 200, placeholder=" …")


def tell_services(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """What search engines and messengers are told of a page; pages that are no text stay unsaid."""
    if not doctree or app.builder.format != "html":
        context["pageurl"] = None
        return
    site = app.config.html_baseurl
    context["pageurl"] = page_address(site, page)
    title = html.unescape(re.sub("<[^>]+>", "", context["title"]))
    width, height = CARD_SIZE
    told = {
        "description": description(doctree),
        "og:type": "website" if page == app.config.root_doc else "article",
        "og:site_name": app.config.project,
        "og:title": title,
        "og:description": description(doctree),
        "og:url": context["pageurl"],
        "og:image": f"{site}{CARDS}/{page.rpartition('/')[2]}.png",
        "og:image:width": str(width),
        "og:image:height": str(height),
        "og:image:alt": f"{title}: a page of the book {app.config.project}",
        "twitter:card": "summary_large_image",
    }
    for name, value in told.items():
        kind = "property" if name.startswith("og:") else "name"
        context["metatags"] += f'\n    <meta {kind}="{name}" content="{html.escape(value)}" />'


def add_foot(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """What the foot of a page says (templates/colophon.html)."""
    if not doctree:
        return
    repository = app.config.html_theme_options["repository_url"].rstrip("/")
    source = str(app.env.doc2path(page, base=False))
    day = app.last_changes.get(source)
    context["foot"] = {
        "report": f"{repository}/issues/new?"
        + urlencode({"template": "erratum.yml", "page": page}, safe="/"),
        "edit": edit_address(repository, source),
        "changed": day and (day.isoformat(), f"{day.day} {day:%B %Y}"),
    }


def edit_address(repository: str, source: str) -> str:
    """Where a reader can edit a page: of a notebook GitHub's web editor shows the cells."""
    if source.endswith(".ipynb") and repository.startswith("https://github.com/"):
        return f"{repository.replace('github.com', 'github.dev', 1)}/blob/{EDITED}/{source}"
    return f"{repository}/edit/{EDITED}/{source}"


def not_found(app: Sphinx) -> Iterator[tuple[str, dict[str, str], str]]:
    """The page that a server shows for an address that leads nowhere."""
    body = """<h1>There is no such page</h1>
<p>The address may be mistyped, or the page has moved. Search the book, or begin at
<a href="index.html">the front page</a>.</p>"""
    yield NOT_FOUND, {"title": "Page not found", "body": body}, "page.html"


def from_anywhere(page: str, site: str) -> str:
    """The page's HTML with links that start at the host, so that they lead home at any depth.

    Where the book lies elsewhere than was told, a port or folder of its own, the script finds it.
    """
    base = urlsplit(site).path
    script = f'<head>\n<script data-base="{base}">\n{LOST.read_text("utf8")}</script>'
    return _RELATIVE.sub(rf"\g<1>{base}", page).replace("<head>", script, 1)


def feed(changes: str, site: str, title: str, authors: str) -> bytes:
    """The releases of a CHANGELOG as an Atom feed; what is not released yet is left out."""
    ElementTree.register_namespace("", ATOM)
    root = ElementTree.Element(f"{{{ATOM}}}feed")

    def add(parent: ElementTree.Element, tag: str, text: str = "", **attributes: str) -> None:
        made = ElementTree.SubElement(parent, f"{{{ATOM}}}{tag}", attributes)
        made.text = text or None

    parts = _RELEASE.split(changes)[1:]
    releases = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
    add(root, "title", f"{title}: what is new")
    add(root, "id", site)
    add(root, "link", href=site)
    add(root, "link", href=f"{site}feed.xml", rel="self")
    add(root, "updated", f"{releases[0][1] if releases else '2026-01-01'}T00:00:00Z")
    author = ElementTree.SubElement(root, f"{{{ATOM}}}author")
    add(author, "name", authors)
    for number, day, text in releases:
        entry = ElementTree.SubElement(root, f"{{{ATOM}}}entry")
        add(entry, "title", f"{title} {number}")
        add(entry, "id", f"{site}#version-{number}")
        add(entry, "link", href=site)
        add(entry, "updated", f"{day}T00:00:00Z")
        add(entry, "content", MarkdownIt().render(text), type="html")
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def sitemap(days: dict[str, datetime.date | None]) -> bytes:
    """The map of the site for search engines; days: of a page's last change, by its address."""
    ElementTree.register_namespace("", SITEMAP)
    root = ElementTree.Element(f"{{{SITEMAP}}}urlset")
    for address, day in days.items():
        url = ElementTree.SubElement(root, f"{{{SITEMAP}}}url")
        ElementTree.SubElement(url, f"{{{SITEMAP}}}loc").text = address
        if day:
            ElementTree.SubElement(url, f"{{{SITEMAP}}}lastmod").text = day.isoformat()
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def write_files(app: Sphinx, error: Exception | None) -> None:
    """The site's files that are no pages; .nojekyll has GitHub Pages serve names with a _."""
    if error or app.builder.format != "html":
        return
    out, site = Path(app.outdir), app.config.html_baseurl
    changes = Path(app.srcdir, "CHANGELOG.md").read_text("utf8")
    days = {
        page_address(site, page): app.last_changes.get(str(app.env.doc2path(page, base=False)))
        for page in sorted(app.env.found_docs)
    }
    (out / "sitemap.xml").write_bytes(sitemap(days))
    (out / "robots.txt").write_text(
        f"User-agent: *\nAllow: /\nSitemap: {site}sitemap.xml\n", "utf8"
    )
    (out / "feed.xml").write_bytes(feed(changes, site, app.config.project, app.config.author))
    (out / ".nojekyll").touch()
    lost = out / f"{NOT_FOUND}.html"
    lost.write_text(from_anywhere(lost.read_text("utf8"), site), "utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("config-inited", set_up, priority=900)
    app.connect("html-collect-pages", not_found)
    app.connect("html-page-context", tell_services)
    app.connect("html-page-context", add_foot)
    app.connect("build-finished", write_files, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
