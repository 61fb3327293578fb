"""The built book, served from here and read by one real browser.

A page is visited once in each of three views (desktop, dark, phone); everything the tests ask about
is noted down during the visit. With SCREENSHOTS=1 in the environment a picture of each goes to
`screenshots/`, for a person to look at.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

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
# looked at three times, and of a formula what a screen reader meets, its hidden MathML.
THIN = """() => {
  document.querySelectorAll("mjx-math").forEach(math => math.replaceChildren());
  const seen = {};
  for (const word of document.querySelectorAll("pre span[class]")) {
    seen[word.className] = (seen[word.className] || 0) + 1;
    if (seen[word.className] > 3) word.replaceWith(...word.childNodes);
  }
}"""
RUN_AXE = "axe.run(document, {resultTypes: ['violations'], preload: false}).then(r => r.violations)"
# Whatever scrolls sideways must be reachable by keyboard; axe sees it only on the whole page.
STUCK = """() => [...document.querySelectorAll("main *")].filter(e =>
  e.scrollWidth > e.clientWidth + 1 && e.clientWidth && e.tabIndex < 0 &&
  ["auto", "scroll"].includes(getComputedStyle(e).overflowX)).map(e => e.outerHTML.slice(0, 90))"""
VIEWS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 760}, "color_scheme": "light"},
}


def pages() -> list[str]:
    """All pages of the built book but the redirect at its root, as paths below the site."""
    found = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    return [name for name in found if name != "index.html" and not name.startswith("_")]


@dataclass
class Visit:
    """What was seen on one page in one view."""

    path: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)  # console errors and uncaught exceptions
    violations: list[str] = field(default_factory=list)  # axe-core
    math_errors: list[str] = field(default_factory=list)
    width: int = 0  # of the document, in pixels

    @property
    def files(self) -> list[Path]:
        asked = (SITE / urlsplit(url).path.lstrip("/") for url in dict.fromkeys(self.requests))
        return [path for path in asked if path.is_file()]

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


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the browser left the page
            super().handle()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of a page in one worker, which visits it once."""
    for item in items:
        page = getattr(item, "callspec", None) and item.callspec.params.get("name")
        item.add_marker(pytest.mark.xdist_group(page or "others"))


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    if not (SITE / "search.html").exists():
        pytest.fail(f"no built book in {SITE}; build it with: make html")
    handler = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


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
def open_page(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Open a path of the book in a view, with all formulas set; one tab for each view."""
    contexts = {view: browser.new_context(**options) for view, options in VIEWS.items()}
    tabs = {view: context.new_page() for view, context in contexts.items()}

    def go(path: str, view: str = "desktop") -> Page:
        tab = tabs[view]
        tab.goto(f"{address}/{path}", wait_until="load")
        tab.evaluate("window.MathJax?.startup?.promise")
        tab.evaluate("document.fonts.ready.then(() => 0)")
        return tab

    yield go
    for context in contexts.values():
        context.close()


@pytest.fixture(scope="session")
def visit(open_page: Callable[..., Page]) -> Callable[[str, str], Visit]:
    """The visit to a page in a view; paid for once."""

    @functools.cache
    def of(path: str, view: str) -> Visit:
        seen = Visit(path)
        tab = open_page("search.html", view)
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
        seen.violations = [f"no keyboard can scroll {part}" for part in tab.evaluate(STUCK)]
        if os.environ.get("SCREENSHOTS") == "1":
            picture = f"{path.removesuffix('.html').replace('/', '-')}-{view}.jpg"
            tab.screenshot(path=SCREENSHOTS / picture, quality=80, full_page=True)
        tab.add_script_tag(path=AXE)
        tab.evaluate(THIN)
        for violation in tab.evaluate(RUN_AXE):
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
