"""The built book, served from here under a sub-path and read by one real browser.

A page is visited once in each of three views (desktop, dark, phone); what the tests ask about is
noted down during the visit, and what they try by hand they try on the page that is still open. With
SCREENSHOTS=1 in the environment a picture of each goes to `screenshots/`, for a person to look at.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("BOOK_HTML", ROOT / "_build" / "html"))
SCREENSHOTS = ROOT / "screenshots"
AXE = next(Path(axe_playwright_python.__file__).parent.rglob("axe.min.js"))
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run"
    " --disable-background-networking --disable-component-update --disable-sync"
)
# Tens of thousands of elements would take axe minutes: of the coloured words in code each colour is
# looked at three times, and of a formula what a screen reader meets, the text of its hidden MathML.
THIN = """() => {
  document.querySelectorAll("mjx-math").forEach(math => math.replaceChildren());
  document.querySelectorAll("mjx-assistive-mml math").forEach(m => m.textContent = m.textContent);
  const seen = {};
  for (const word of document.querySelectorAll("pre span[class]")) {
    seen[word.className] = (seen[word.className] || 0) + 1;
    if (seen[word.className] > 3) word.replaceWith(...word.childNodes);
  }
}"""
# The contrast of a text takes axe 2 ms. Of texts that look alike, on the same ground, in elements
# of one kind, three are looked at; of what a reader fills in, all.
LOOK = """() => {
  const ground = new Map(), seen = {};
  for (const e of document.querySelectorAll("*")) {
    const s = getComputedStyle(e);
    const own = [s.backgroundColor, s.backgroundImage, s.opacity, s.filter, s.position].join();
    ground.set(e, `${ground.get(e.parentNode) ?? ""}/${own}`);
    const says = [...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim());
    if (!says && !e.matches("input, select, textarea") || !e.getClientRects().length) continue;
    const kind = [e.tagName, e.className, s.color, s.fontSize, s.fontWeight, ground.get(e)].join();
    seen[kind] = (seen[kind] || 0) + 1;
    if (!says || seen[kind] <= 3) e.dataset.look = "";
  }
  axe.configure({rules: [{id: "color-contrast", selector: "[data-look]"}]});
}"""
# In the dark only the colours are others than on the desktop.
RUN_AXE = """view => axe.run(document, {resultTypes: ["violations"], preload: false,
  ...(view === "dark" ? {runOnly: ["color-contrast", "link-in-text-block"]} : {}),
}).then(r => r.violations)"""
# Whatever scrolls sideways must be reachable by keyboard; axe sees it only on the whole page.
STUCK = """() => [...document.querySelectorAll("main *")].filter(e =>
  e.scrollWidth > e.clientWidth + 1 && e.clientWidth && e.tabIndex < 0 &&
  ["auto", "scroll"].includes(getComputedStyle(e).overflowX)).map(e => e.outerHTML.slice(0, 90))"""
# Code and outputs that a desktop shows only in part; what is folded does not count. The address in
# the first cell is as long as it is.
CUT = """() => [...document.querySelectorAll("main pre")].slice(1).filter(e =>
  !e.closest("details") && e.scrollWidth > e.clientWidth + 1)
  .map(e => e.textContent.slice(0, 60))"""
VIEWS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 760}, "color_scheme": "light"},
}


def pages() -> list[str]:
    """All pages of the built book, as paths below the site."""
    found = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    return [name for name in found if not name.startswith("_")]


@dataclass
class Visit:
    """What was seen on one page in one view."""

    path: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)  # console errors and uncaught exceptions
    violations: list[str] = field(default_factory=list)  # axe-core
    math_errors: list[str] = field(default_factory=list)
    width: int = 0  # of the document, in pixels
    cut: list[str] = field(default_factory=list)  # the beginnings of blocks that scroll sideways

    @property
    def files(self) -> list[Path]:
        asked = (file_at(url) for url in dict.fromkeys(self.requests))
        return [path for path in asked if path and path.is_file()]

    @property
    def kilobytes(self) -> float:
        """What travels, gzipped; 1 kB = 1000 bytes. Without the fonts of formulas, some 130 kB that
        the pages share: how many have come when the visit ends is a matter of timing."""
        return sum(_weight(path) for path in self.files if path.suffix != ".woff") / 1000


@functools.cache
def _weight(path: Path) -> int:
    body = path.read_bytes()
    return len(body) if path.suffix in {".woff", ".woff2", ".png", ".webp"} else len(
        gzip.compress(body, 6)
    )  # fmt: skip


@functools.cache
def base() -> str:
    """The path that the built book expects to lie at, with slashes: /unrolled/ on GitHub Pages."""
    home = (SITE / "index.html").read_text("utf8")
    return urlsplit(re.search(r'rel="canonical" href="([^"]+)"', home)[1]).path


def file_at(url: str) -> Path | None:
    """The file of the built book that an address asks for; None outside its path."""
    path = unquote(urlsplit(url).path)
    return SITE / path.removeprefix(base()) if path.startswith(base()) else None


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A host of static files, as GitHub Pages is one: the book lies below a path, with its 404."""

    def translate_path(self, path: str) -> str:
        found = file_at(path)
        if found and (found / "index.html").is_file():
            found /= "index.html"
        return str(found or SITE / "nothing lies outside the book's path")

    def send_error(self, code: int, *args: object, **options: object) -> None:
        lost = SITE / "404.html"
        if code != 404 or not lost.is_file():
            super().send_error(code, *args, **options)
            return
        body = lost.read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the browser left the page
            super().handle()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of a page one after the other in one worker, which visits it once; big ones first.

    Tests that belong to no page come last, together unless they have a group of their own.
    """

    def page(item: pytest.Item) -> str:
        name = item.callspec.params.get("name", "") if hasattr(item, "callspec") else ""
        return name if name in found else "others"

    found = pages()
    items.sort(key=lambda item: (-_size(page(item)), page(item)))
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(page(item)))


def _size(name: str) -> int:
    return (SITE / name).stat().st_size if name != "others" else 0


@contextlib.contextmanager
def served(handler: type[http.server.BaseHTTPRequestHandler] = Quiet) -> Iterator[str]:
    """Serve the built book; the address of its landing page, without the slash at the end."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}{base().rstrip('/')}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    if not (SITE / "search.html").exists():
        pytest.fail(f"no built book in {SITE}; build it with: make html")
    with served() as at:
        yield at


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.fail("the browser tests need Chromium; install it with: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS.split())
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def tabs(browser: Browser) -> Iterator[dict[str, Page]]:
    """One tab for each view."""
    contexts = {view: browser.new_context(**options) for view, options in VIEWS.items()}
    for context in contexts.values():  # no page comes from what another left (see test_offline.py)
        context.add_init_script("delete Navigator.prototype.serviceWorker")
    yield {view: context.new_page() for view, context in contexts.items()}
    for context in contexts.values():
        context.close()


@pytest.fixture(scope="session")
def open_page(tabs: dict[str, Page], address: str) -> Callable[..., Page]:
    """Open a path of the book in a view, with all formulas set.

    again=False: the page as the test before left it, where it is still open.
    """

    def go(path: str, view: str = "desktop", *, again: bool = True) -> Page:
        tab = tabs[view]
        if not again and tab.url == f"{address}/{path}":
            return tab
        tab.goto(f"{address}/{path}", wait_until="load")
        tab.evaluate("window.MathJax?.startup?.promise")
        tab.evaluate("document.fonts.ready.then(() => 0)")
        return tab

    return go


@pytest.fixture(scope="session")
def visit(tabs: dict[str, Page], open_page: Callable[..., Page]) -> Callable[[str, str], Visit]:
    """The visit to a page in a view; paid for once."""

    @functools.cache
    def of(path: str, view: str) -> Visit:
        seen = Visit(path)
        tab = tabs[view]
        tab.goto("about:blank")  # what another page still asks for is not this one's
        note = {
            "request": lambda request: seen.requests.append(request.url),
            "pageerror": lambda error: seen.complaints.append(str(error)),
            "response": lambda response: (
                response.status >= 400
                and seen.complaints.append(f"{response.status} {response.url}")
            ),
            "console": lambda message: (
                message.type in {"error", "warning"} and seen.complaints.append(message.text)
            ),
        }
        for event, listener in note.items():
            tab.on(event, listener)
        open_page(path, view)
        seen.math_errors = tab.evaluate(
            "[...document.querySelectorAll('mjx-merror')].map(e => e.textContent)"
        )
        seen.width = tab.evaluate("document.documentElement.scrollWidth")
        seen.cut = tab.evaluate(CUT)
        seen.violations = [f"no keyboard can scroll {part}" for part in tab.evaluate(STUCK)]
        if os.environ.get("SCREENSHOTS") == "1":
            picture = f"{path.removesuffix('.html').replace('/', '-')}-{view}.jpg"
            tab.screenshot(path=SCREENSHOTS / picture, quality=80, full_page=True)
        tab.add_script_tag(path=AXE)
        tab.evaluate(THIN)
        tab.evaluate(LOOK)
        for violation in tab.evaluate(RUN_AXE, view):
            nodes = violation["nodes"]
            if violation["id"] == "empty-table-header":  # axe does not read MathML, readers do
                nodes = [n for n in nodes if not tab.query_selector(f"{n['target'][0]} math")]
            if nodes:
                where = "; ".join(str(node["target"]) for node in nodes[:4])
                seen.violations.append(f"{violation['id']}: {violation['help']} at {where}")
        for event, listener in note.items():
            tab.remove_listener(event, listener)
        return seen

    return of
