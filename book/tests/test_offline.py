"""Visited pages without a network, a new edition of the book, and the book from a folder."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shutil
import sys
import threading
import time
from typing import ClassVar

import pytest
from conftest import PATIENCE, ROOT, SITE, VIEWS, Quiet, base, pages, served, soup, until
from playwright.sync_api import Error

sys.path.append(str(ROOT / "book" / "extensions"))
import offline
import versions

CHAPTER = "chapters/01_chain_rule.html"
OTHER = "chapters/02_ngrams.html"
KEPT = "caches.open('unrolled').then(c => c.keys()).then(k => k.map(r => r.url))"
# Until the worker has seen what the first page asked for before there was a worker.
SETTLED = """() => caches.open('unrolled').then(c => c.keys()).then(kept => {
  const urls = kept.map(k => k.url);
  const is = url => urls.includes(url) || urls.includes(url.split('?')[0]);
  return navigator.serviceWorker.controller && is(location.href) &&
    performance.getEntriesByType('resource').every(e => !e.name.startsWith(location.origin)
      || e.name.includes('manifest.webmanifest') || is(e.name));
})"""


class Host(Quiet):
    """As GitHub Pages: a browser may keep each file for ten minutes."""

    edits: ClassVar[dict[str, bytes]] = {}  # what it has in place of the built files
    held: ClassVar[dict[str, threading.Event]] = {}  # what it answers only when that is set
    gone = False  # as for a browser without a network; every request goes through `handle`

    def handle(self) -> None:
        if not self.gone:
            super().handle()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].removeprefix(base())
        if path in self.held:
            self.held[path].wait(PATIENCE / 1000)
        if path not in self.edits:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Length", str(len(self.edits[path])))
        self.end_headers()
        self.wfile.write(self.edits[path])

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "max-age=600")
        super().end_headers()


@pytest.fixture
def host():
    """A host of the book, with its address and its edits."""
    handler = type("Handler", (Host,), {"edits": {}, "held": {}})
    with served(handler) as handler.address:
        yield handler


@pytest.fixture
def reader(browser):
    """A browser that has never seen the book."""
    context = browser.new_context(**VIEWS["desktop"])
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    yield page
    context.close()


def visited(page, url):
    page.goto(url)
    until(page, SETTLED)
    return page


def test_a_visited_page_is_whole_without_a_network(reader, host):
    page = visited(reader, f"{host.address}/{CHAPTER}")
    formulas = page.locator(".math .katex").count()
    host.edits[CHAPTER] = b"a page that no reader without a network sees"
    host.gone = True
    lost = []
    page.on("requestfailed", lambda request: lost.append((request.failure, request.url)))
    page.reload()
    assert page.locator(".math .katex").count() == formulas > 100
    fonts = "[...document.fonts].filter(f => f.status === 'error').map(f => f.family)"
    assert page.evaluate(fonts) == []
    assert page.evaluate("getComputedStyle(document.querySelector('.bd-main')).display") == "flex"
    figure = page.locator(".u-explore input").first
    figure.focus()
    page.locator(".u-solve textarea").nth(3).wait_for()
    # The reload ends what was on its way; the browser asks for the icon when it likes.
    lost = [one for one in lost if one[0] != "net::ERR_ABORTED" and "favicon" not in one[1]]
    assert (lost, page.complaints) == ([], [])


def test_what_is_still_on_its_way_when_the_worker_comes_is_kept(reader, host):
    host.held |= {name: threading.Event() for name in ("sw.js", "robots.txt")}
    reader.goto(f"{host.address}/{CHAPTER}")
    reader.evaluate("url => { fetch(url) }", f"{host.address}/robots.txt")
    host.held["sw.js"].set()
    reader.wait_for_function("navigator.serviceWorker.controller")
    host.held["robots.txt"].set()
    until(reader, f"url => {KEPT}.then(urls => urls.includes(url))", f"{host.address}/robots.txt")


def test_an_unvisited_page_says_so_in_a_sentence(reader, host):
    page = visited(reader, f"{host.address}/{CHAPTER}")
    host.gone = True
    page.goto(f"{host.address}/{OTHER}")
    assert "has not been visited on this device yet" in page.inner_text("body")
    assert page.get_attribute("a", "href") == f"{host.address}/"


def test_the_search_works_without_a_network_once_used_and_its_words_are_not_kept(reader, host):
    page = visited(reader, f"{host.address}/search.html?q=trigram")
    page.wait_for_selector("main .u-found li a")
    host.gone = True
    page.goto(f"{host.address}/search.html?q=perplexity")
    page.wait_for_selector("main .u-found li a")
    kept = page.evaluate(KEPT)
    assert f"{host.address}/search.html" in kept
    assert not [url for url in kept if "q=" in url]
    assert all(url.startswith(f"{host.address}/") for url in kept)


def test_python_is_kept_once_it_was_used(reader, host):
    page = visited(reader, f"{host.address}/{CHAPTER}")
    assert not [url for url in page.evaluate(KEPT) if "/live/" in url]
    page.locator(".u-solve .u-go").first.click()
    page.wait_for_selector(".u-said:has-text('not written yet')")
    manifest = json.loads((SITE / "_static/live/manifest.json").read_text("utf8"))
    names = ["live.mjs", "manifest.json", *manifest["first"]]
    all_are = "urls => names.every(name => urls.some(url => url.includes(`/live/${name}?`)))"
    until(page, f"names => {KEPT}.then({all_are})", names)


def test_a_new_edition_reaches_a_reader_at_the_next_visit_and_takes_the_olds_place(reader, host):
    page = visited(reader, f"{host.address}/{CHAPTER}")
    old = [url for url in page.evaluate(KEPT) if "unrolled.css" in url]
    text = (SITE / CHAPTER).read_text("utf8")
    text = re.sub(r"unrolled\.css\?v=\w+", "unrolled.css?v=new", text)
    host.edits[CHAPTER] = text.replace("</h1>", ", second edition</h1>", 1).encode()
    session = page.context.new_cdp_session(page)
    session.send("Network.clearBrowserCache")  # the ten minutes are over
    page.goto(f"{host.address}/{CHAPTER}")
    assert "second edition" in page.inner_text("h1")
    mine = f"{KEPT}.then(urls => urls.filter(url => url.includes('unrolled.css')))"
    until(page, f"() => {mine}.then(urls => urls.length === 1 && urls[0].endsWith('=new'))")
    assert len(old) == 1
    assert not old[0].endswith("=new")


def test_a_broken_worker_goes_at_the_next_edition(reader, host):
    good = (SITE / "sw.js").read_bytes()
    broken = b"event.respondWith(Promise.reject(new Error('broken')))"
    host.edits["sw.js"] = good.replace(b"event.respondWith(answer(event, request))", broken)
    reader.goto(f"{host.address}/{CHAPTER}")
    reader.wait_for_function("navigator.serviceWorker.controller !== null")
    with pytest.raises(Error):
        reader.goto(f"{host.address}/{OTHER}")
    host.edits["sw.js"] = offline.FAREWELL.encode()
    end = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < end:  # a browser looks for a new worker a second after each visit
        with contextlib.suppress(Error):
            reader.goto(f"{host.address}/{OTHER}")
            break
        reader.wait_for_timeout(2000)
    assert "2." in reader.inner_text("h1")
    until(reader, "() => caches.keys().then(kept => !kept.length)")


def test_the_book_can_be_installed(reader, host):
    page = visited(reader, f"{host.address}/")
    session = page.context.new_cdp_session(page)
    errors = session.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert [e["errorId"] for e in errors if e["errorId"] != "in-incognito"] == []
    manifest = session.send("Page.getAppManifest")
    assert manifest["errors"] == []
    assert manifest["url"] == f"{host.address}/manifest.webmanifest"


def test_a_browser_that_refuses_the_worker_says_nothing(browser, host):
    context = browser.new_context()
    context.add_init_script(
        "Object.defineProperty(navigator, 'serviceWorker', {value: {"
        "addEventListener() {}, register: () => Promise.reject('no')}})"
    )
    page, complaints = context.new_page(), []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda m: m.type in {"error", "warning"} and complaints.append(m.text))
    page.goto(f"{host.address}/{CHAPTER}", wait_until="load")
    assert complaints == []
    context.close()


# ---- versions ------------------------------------------------------------------------------------

LOADED = "link[rel=stylesheet], link[rel=icon], script[src]"


@pytest.mark.parametrize("name", pages())
def test_what_a_page_loads_has_its_version_in_its_address(name):
    for tag in soup(name).select(LOADED):
        address = tag.get("src") or tag["href"]
        path, _, version = address.partition("?v=")
        file = SITE / re.sub(r"^(\.\./)*", "", path.removeprefix(base()))
        assert version == versions.version(file.read_bytes()), address


@pytest.mark.parametrize("path", sorted((SITE / "_static/exercises").glob("*.*js")))
def test_a_module_asks_for_others_by_their_version(path):
    asked = re.findall(r"""["']\./([\w.-]+js)([^"']*)["']""", path.read_text("utf8"))
    for name, query in asked:
        assert query == f"?v={versions.version((path.parent / name).read_bytes())}"


def test_a_change_deep_down_changes_every_address_above_it(tmp_path):
    shutil.copytree(SITE / "_static/exercises", tmp_path / "_static/exercises")
    shutil.copy(SITE / CHAPTER, tmp_path / "chapter.html")
    versions.stamp(tmp_path)
    before = (tmp_path / "chapter.html").read_text("utf8")
    versions.stamp(tmp_path)
    assert (tmp_path / "chapter.html").read_text("utf8") == before
    with (tmp_path / "_static/exercises/answers.mjs").open("a", encoding="utf8") as file:
        file.write("// changed\n")
    versions.stamp(tmp_path)
    after = (tmp_path / "chapter.html").read_text("utf8")
    address = functools.partial(re.search, r"exercises/load\.js\?v=\w+")
    assert address(before)[0] != address(after)[0]


def test_the_bundle_is_asked_for_by_its_version():
    text = (SITE / CHAPTER).read_text("utf8")
    told = json.loads(re.search(r'id="u-live">(.*?)</script>', text, re.DOTALL)[1])
    manifest = SITE / "_static/live/manifest.json"
    assert told["version"] == versions.version(manifest.read_bytes())
    assert "live.mjs?v=${version}" in (SITE / "_static/exercises/worker.mjs").read_text("utf8")


# ---- from a folder -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["index.html", "book/glossary.html", "book/progress.html", "search.html?q=trigram",
     "chapters/14_attention.html", "chapters/20_transformer_lm.html"],
)  # fmt: skip
def test_the_book_reads_from_a_folder(name, browser):
    page, complaints = browser.new_page(), []
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda m: m.type in {"error", "warning"} and complaints.append(m.text))
    path, _, query = name.partition("?")
    page.goto(f"{(SITE / path).as_uri()}?{query}")
    page.evaluate("document.fonts.ready.then(() => 0)")
    if "search" in name:
        page.wait_for_selector("main .u-found li a")
    if "chapters" in name or "progress" in name:
        assert "opened from a folder" in page.inner_text("p.u-elsewhere")
    page.close()
    assert complaints == []
