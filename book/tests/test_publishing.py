"""What a published book has beside its text: addresses, previews, a map, a feed, a 404, a foot."""

from __future__ import annotations

import datetime
import re
import subprocess
import tomllib
import zipfile
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest
import yaml
from conftest import PATIENCE, ROOT, SITE, Quiet, base, pages, served, show
from PIL import Image
from playwright.sync_api import expect

from book.extensions import publishing
from book.extensions.publishing import ATOM, SITEMAP, page_address
from book.tools import site
from book.tools.generate import errata
from book.tools.site import cards
from book.tools.site import faults as check

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
REPOSITORY = CONFIG["repository"]["url"]
PAGES = [name for name in pages() if name not in check.UNLISTED]
CHANGES = """# Changes

## Unreleased

- Not yet.

## 1.1.0 (2027-02-03)

- **A word** & another.

## 1.0.0 (2027-01-02)

- The first.
"""


# ---- the address ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("repository", "book_url", "address"),
    [
        ("https://github.com/Ann/book", "", "https://ann.github.io/book/"),
        ("https://github.com/ann/book.git", "", "https://ann.github.io/book/"),
        ("https://github.com/Ann/ann.github.io/", "", "https://ann.github.io/"),
        ("https://github.com/ann/book", "https://example.org", "https://example.org/"),
        ("https://github.com/ann/book", "http://a.b:81/x//", "http://a.b:81/x/"),
    ],
)
def test_the_address_is_that_of_pages_or_the_one_given(repository, book_url, address, monkeypatch):
    monkeypatch.setenv("BOOK_URL", book_url)
    assert publishing.site_address(repository) == address


@pytest.mark.parametrize("given", ["example.org/book", "/book/", "https://", "https://a.b/?x=1"])
def test_what_is_no_address_is_refused(given, monkeypatch):
    monkeypatch.setenv("BOOK_URL", given)
    with pytest.raises(ValueError, match="BOOK_URL is an address such as"):
        publishing.site_address(REPOSITORY)


def built_for() -> str:
    """The address for which the pages were built."""
    return check.read(SITE / "index.html").told["canonical"][0]


def test_every_address_in_the_built_book_is_right():
    assert check.faults(SITE, built_for(), cards=False) == []


def test_the_book_lies_under_a_path_that_ends_in_a_slash():
    assert base().startswith("/")
    assert base().endswith("/")
    assert built_for().endswith(base())


# ---- what services are told ----------------------------------------------------------------------


def test_each_page_has_a_description_of_its_own():
    said = {name: check.read(SITE / name).told["description"] for name in PAGES}
    assert all(len(texts) == 1 and 40 < len(texts[0]) <= 200 for texts in said.values()), said
    assert len({texts[0] for texts in said.values()}) == len(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_a_preview_with_the_name_of_the_book(name):
    told = check.read(SITE / name).told
    assert told["og:site_name"] == [CONFIG["title"]]
    assert told["og:description"] == told["description"]
    assert told["twitter:card"] == ["summary_large_image"]
    assert not {"og:title", "og:type", "og:image:alt"} - told.keys()
    assert "<" not in told["og:title"][0]


def test_the_map_lists_each_page_and_its_day():
    days = {"https://a.b/": datetime.date(2027, 1, 2), "https://a.b/x.html": None}
    tree = ElementTree.fromstring(publishing.sitemap(days))
    assert [[part.text for part in url] for url in tree] == [
        ["https://a.b/", "2027-01-02"],
        ["https://a.b/x.html"],
    ]
    assert tree.tag == f"{{{SITEMAP}}}urlset"


def test_the_feed_has_what_is_released_and_nothing_else():
    tree = ElementTree.fromstring(publishing.feed(CHANGES, "https://a.b/c/", "Unrolled", "Ada"))
    entries = tree.findall(f"{{{ATOM}}}entry")
    assert [entry.findtext(f"{{{ATOM}}}title") for entry in entries] == [
        "Unrolled 1.1.0",
        "Unrolled 1.0.0",
    ]
    assert tree.findtext(f"{{{ATOM}}}updated") == "2027-02-03T00:00:00Z"
    first = entries[0].find(f"{{{ATOM}}}content")
    assert first.get("type") == "html"
    assert "<strong>A word</strong> &amp; another." in first.text
    assert "Not yet" not in ElementTree.tostring(tree, "unicode")
    for node in [tree, *entries]:  # what the standard asks of each
        assert all(node.findtext(f"{{{ATOM}}}{tag}") for tag in ("id", "title", "updated"))


def test_a_changelog_without_a_release_makes_an_empty_feed():
    tree = ElementTree.fromstring(publishing.feed("# Changes\n", "https://a.b/", "Unrolled", "Ada"))
    assert tree.findall(f"{{{ATOM}}}entry") == []


# ---- the foot of a page --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["index.html", "book/about.html", "chapters/14_attention.html"])
def test_the_foot_names_the_version_and_where_to_report(name):
    text = (SITE / name).read_text("utf8")
    foot = re.search(r'<p class="u-foot">(.*?)</p>', text, re.DOTALL)[1].replace("&amp;", "&")
    *slides, report, edit = re.findall(r'href="([^"]+)"', foot)
    deck = name.replace("chapters/", "../slides/")
    assert slides == ([deck] if name.startswith("chapters/") else [])
    version = tomllib.loads((ROOT / "lib" / "pyproject.toml").read_text("utf8"))["project"]
    assert f"Version {version['version']}<" in foot
    page = name.removesuffix(".html")
    assert parse_qs(urlsplit(report).query) == {"template": ["erratum.yml"], "page": [page]}
    assert report.startswith(f"{REPOSITORY}/issues/new?")
    assert edit.endswith((f"/main/{page}.md", f"/main/{page}.ipynb"))


def test_the_form_for_mistakes_takes_the_page_from_the_address():
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "erratum.yml").read_text("utf8"))
    assert "page" in [part.get("id") for part in form["body"]]


def test_a_notebook_is_edited_as_cells_where_the_host_can():
    edit = publishing.edit_address
    assert edit("https://github.com/a/b", "x.md") == "https://github.com/a/b/edit/main/x.md"
    assert edit("https://github.com/a/b", "x.ipynb") == "https://github.dev/a/b/blob/main/x.ipynb"
    assert edit("https://code.org/a/b", "x.ipynb") == "https://code.org/a/b/edit/main/x.ipynb"


@pytest.fixture
def history(tmp_path):
    """A repository in which a file changed on two days and another on one."""

    def git(*arguments, day=None):
        who = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A"}
        who |= {"GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": "/dev/null"}
        when = {"GIT_AUTHOR_DATE": f"{day}T12:00:00Z", "GIT_COMMITTER_DATE": f"{day}T12:00:00Z"}
        environment = who | (when if day else {}) | {"PATH": "/usr/bin:/bin"}
        subprocess.run(["git", "-C", tmp_path, *arguments], check=True, env=environment)

    git("init", "-q")
    for day, names in {"2026-01-01": ["a.md", "ü b.md"], "2026-02-03": ["a.md"]}.items():
        for name in names:
            (tmp_path / name).write_text(day, "utf8")
        git("add", "-A")
        git("commit", "-qm", "x", day=day)
    return tmp_path


def test_a_file_changed_on_the_day_of_its_last_commit(history):
    first, last = datetime.date(2026, 1, 1), datetime.date(2026, 2, 3)
    assert publishing.last_changes(history) == {"a.md": last, "ü b.md": first}


def test_without_a_whole_history_there_are_no_days(history, tmp_path, monkeypatch):
    shallow = tmp_path / "shallow"
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", f"file://{history}", shallow], check=True
    )  # fmt: skip
    assert publishing.last_changes(shallow) == {}
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(empty / "nothing"))
    assert publishing.last_changes(empty) == {}
    monkeypatch.setenv("PATH", str(empty))
    assert publishing.last_changes(history) == {}


# ---- a page that is not there --------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["nothing.html", "chapters/nothing", "a/b/c/d/"])
def test_the_page_for_a_wrong_address_is_whole_at_any_depth(lost, tab, address):
    show(tab, "desktop")
    missed = []
    note = lambda answer: answer.status >= 400 and missed.append(urlsplit(answer.url).path)  # noqa: E731
    tab.on("response", note)
    tab.goto(f"{address}/{lost}")
    tab.remove_listener("response", note)
    assert missed == [f"{base()}{lost}"], "everything else is there"
    assert tab.inner_text("article h1") == "There is no such page"
    assert tab.evaluate("getComputedStyle(document.querySelector('.bd-sidebar-primary')).flexBasis")
    tab.click("text=the front page")
    expect(tab).to_have_url(f"{address}/index.html", timeout=PATIENCE)


class AtTheRoot(Quiet):
    """Serves the book at /, whatever address it was built for."""

    def translate_path(self, path: str) -> str:
        return super().translate_path(base() + path.removeprefix("/"))


class InAFolder(Quiet):
    """Serves the book in another folder than it was built for."""

    def translate_path(self, path: str) -> str:
        inside = path.startswith("/some/folder/")
        return super().translate_path(
            base() + path.removeprefix("/some/folder/") if inside else "/no"
        )


@pytest.mark.parametrize(
    ("host", "home", "lost"),
    [(AtTheRoot, "", "404.html"), (AtTheRoot, "", "a/b/c"), (InAFolder, "/some/folder", "a/b.html"),
     (None, SITE.as_uri(), "404.html")],
)  # fmt: skip
def test_the_page_for_a_wrong_address_is_styled_where_the_book_was_not_built_for(
    host, home, lost, browser
):
    """At a port of its own, in a folder, from a disk: the page finds the book."""
    with served(host or Quiet) as address:
        root = home if host is None else address.removesuffix(base().rstrip("/")) + home
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{root}/{lost}")
        page.wait_for_function(
            "getComputedStyle(document.querySelector('.bd-main')).display === 'flex'"
        )
        assert page.get_attribute("text=the front page", "href").endswith("/index.html")
        page.click("text=the front page")
        page.wait_for_selector(".u-lede")
        page.close()


def test_a_wrong_address_is_searched_from(tab, address):
    show(tab, "desktop")
    tab.goto(f"{address}/a/b/c")
    tab.keyboard.press("Control+k")
    tab.keyboard.type("perplexity")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("main .u-found li a")
    assert urlsplit(tab.url).path == f"{base()}search.html"


def test_links_from_anywhere_leave_other_links_alone():
    page = '<a href="x.html"><a href="#y"><a href="/z"><a href="https://a.b/"><img src="./p.png">'
    made = publishing.from_anywhere(page + '<html data-content_root="./">', "https://h/book/")
    assert re.findall(r'="(.*?)"', made) == [
        "/book/x.html", "#y", "/z", "https://a.b/", "/book/p.png", "/book/",
    ]  # fmt: skip


# ---- one folder for any host ---------------------------------------------------------------------

HOME = "https://a.b/c/"


@pytest.fixture
def small(tmp_path):
    """A site of two pages, without a fault."""
    for page in ("index", "chapters/one"):
        path = tmp_path / f"{page}.html"
        path.parent.mkdir(exist_ok=True)
        root = "../" if "/" in page else ""
        path.write_text(
            f"""<html><head><link rel="canonical" href="{page_address(HOME, page)}">
<meta property="og:url" content="{page_address(HOME, page)}">
<meta property="og:image" content="{HOME}card.png"></head><body id="top">
<a href="{root}index.html#top">home</a> <a href="{root}chapters/one.html">one</a>
<a href="/c/chapters/one.html">one</a> <a href="{HOME}chapters/one.html">one</a>
<a href="https://elsewhere.org/x">x</a> {site.PLACE}</body></html>""",
            "utf8",
        )
    (tmp_path / "card.png").touch()
    (tmp_path / "robots.txt").write_text(f"Sitemap: {HOME}sitemap.xml\n", "utf8")
    (tmp_path / "feed.xml").write_bytes(publishing.feed(CHANGES, HOME, "Small", "Ada"))
    days = {page_address(HOME, page): None for page in ("index", "chapters/one")}
    (tmp_path / "sitemap.xml").write_bytes(publishing.sitemap(days))
    return tmp_path


def test_a_site_without_a_fault_passes(small):
    assert check.faults(small, HOME) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("index.html", "chapters/one.html", "chapters/two.html", "chapters/two.html leads nowhere"),
        ("index.html", "#top", "#bottom", "index.html#bottom leads nowhere"),
        ("index.html", "/c/chapters", "/chapters", "/chapters/one.html leads nowhere"),
        ("chapters/one.html", "../index.html", "../../index.html", "leads nowhere"),
        ("chapters/one.html", f"{HOME}chapters/one.html", f"{HOME}one.html", "canonical is"),
        ("index.html", 'og:url" content="https://a.b', 'og:url" content="https://x.y', "og:url is"),
        ("index.html", "card.png", "no.png", "no.png, which is not there"),
        ("index.html", f"{HOME}card.png", "https://x.y/card.png", "outside https://a.b/c/"),
        ("sitemap.xml", "chapters/one", "chapters/two", "chapters/one.html is missing"),
        ("robots.txt", HOME, "https://a.b/", "robots.txt does not name"),
        ("feed.xml", 'link href="https://a.b/c/"', 'link href="https://x.y/"', "feed.xml: https"),
    ],
)
def test_a_wrong_address_is_named(name, old, new, says, small):
    path = small / name
    text = path.read_text("utf8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf8")
    found = check.faults(small, HOME)
    assert any(says in fault for fault in found), found


def test_editions_are_linked_where_they_were_built(small, tmp_path):
    build, out = tmp_path / "build", tmp_path / "out"
    build.mkdir()
    html = small / "html"
    sources = html / "_sources" / "chapters"
    sources.mkdir(parents=True)
    (sources / "01_a.ipynb").write_bytes(b"{}")
    (sources / "02_b.md").write_bytes(b"no notebook")
    (html / "index.html").write_text(f"<p>{site.PLACE}</p>", "utf8")
    (html / "book").mkdir()
    (html / "book" / "instructors.html").write_text(f"<p>{site.FIGURES_PLACE}</p>", "utf8")
    assert site.assemble(html, build, out) == []
    text = (out / "index.html").read_text("utf8")
    assert re.findall('href="(.*?)"', text) == [site.NOTEBOOKS]
    assert (out / "book" / "instructors.html").read_text("utf8") == "<p></p>"
    (build / "unrolled.pdf").write_bytes(bytes(31_400_000))
    (build / "unrolled.epub").write_bytes(bytes(2_340_000))
    archive = (out / site.NOTEBOOKS).read_bytes()
    assert site.assemble(html, build, out) == ["PDF", "EPUB"]
    text = (out / "index.html").read_text("utf8")
    assert 'href="unrolled.pdf" download>PDF <small>31 MB</small></a>' in text
    assert 'href="unrolled.epub" download>EPUB <small>2.3 MB</small></a>' in text
    assert (out / "unrolled.pdf").stat().st_size == 31_400_000
    assert (out / site.NOTEBOOKS).read_bytes() == archive
    (build / "unrolled-figures.zip").write_bytes(b"PK")
    assert site.assemble(html, build, out) == ["PDF", "EPUB", "Figures"]
    assert 'href="unrolled-figures.zip"' in (out / "index.html").read_text("utf8")
    told = (out / "book" / "instructors.html").read_text("utf8")
    assert 'href="../unrolled-figures.zip"' in told
    with zipfile.ZipFile(out / site.NOTEBOOKS) as packed:
        assert packed.namelist() == ["unrolled/01_a.ipynb"]
        assert packed.read("unrolled/01_a.ipynb") == b"{}"


def test_the_pages_have_a_place_for_the_editions():
    assert site.PLACE in (SITE / "index.html").read_text("utf8")
    assert site.FIGURES_PLACE in (SITE / "book" / "instructors.html").read_text("utf8")


@pytest.mark.parametrize("name", ["index", "chapters/01_chain_rule", "book/about"])
def test_a_card_shows_the_page(name, browser, tmp_path):
    width, height = publishing.CARD_SIZE
    page = browser.new_page(viewport={"width": width, "height": height})
    cards.draw(page, SITE / f"{name}.html", tmp_path / "card.png")
    page.close()
    picture = Image.open(tmp_path / "card.png").convert("L")
    assert picture.size == publishing.CARD_SIZE
    ink = sum(picture.histogram()[:160]) / (width * height)
    assert 0.01 < ink < 0.5, f"{ink:.1%} of the card is dark"


# ---- errata --------------------------------------------------------------------------------------

ERRATUM = {
    "page": "chapters/01_chain_rule",
    "place": "the second table",
    "wrong": "The sum is 2.",
    "right": "The sum is 1.",
    "date": datetime.date(2026, 12, 1),
    "version": "0.1.1",
}


def test_errata_are_listed_the_newest_first():
    other = ERRATUM | {"page": "book/about", "date": datetime.date(2027, 1, 3), "found_by": "A. R."}
    text = errata.written([ERRATUM, other])
    first = (
        "**[About this book](../book/about.md)**, the second table. Corrected in version 0.1.1, "
    )
    assert first + "3 January 2027 (found by A. R.).\n" in text
    assert "(../chapters/01_chain_rule.ipynb)" in text
    assert text.index("About this book") < text.index("01_chain_rule")
    assert "- It said: The sum is 2.\n- It says: The sum is 1.\n" in text
    assert errata.NONE not in text


def test_a_book_without_errata_says_so():
    text = errata.written([])
    assert errata.NONE in text
    assert "Report a mistake" in text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"right": None}, "erratum 1: right is missing"),
        ({"date": "1 December"}, "date is a date"),
        ({"page": "chapters/99_nothing"}, "there is no page chapters/99_nothing"),
        ({"finder": "A. R."}, "there is no finder"),
    ],
)
def test_an_erratum_that_is_not_whole_is_refused(change, says):
    given = {key: value for key, value in (ERRATUM | change).items() if value is not None}
    with pytest.raises(ValueError, match=says):
        errata.written([given])
