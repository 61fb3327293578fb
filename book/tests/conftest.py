"""The built book, served from here under a sub-path and read by one real browser.

A page is loaded once and shown in three views (desktop, dark, phone); what the tests ask about is
noted down during the visit, and what they try by hand they try on the page that is still open. With
SCREENSHOTS=1 in the environment a picture of each goes to `screenshots/`, for a person to look at.

A busy machine is no failure: a test waits for what is to be, as long as that takes. With SLOW=1 the
host keeps each file back that a page asks for, so a test that reads too early falls.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import math
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import axe_playwright_python
import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, sync_playwright
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("BOOK_HTML", ROOT / "_build" / "html"))
SCREENSHOTS = ROOT / "screenshots"
AXE = next(Path(axe_playwright_python.__file__).parent.rglob("axe.min.js"))
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run"
    " --disable-background-networking --disable-component-update --disable-sync"
)
# Tens of thousands of elements would take axe minutes: of the coloured words in code each colour is
# looked at three times, of a formula what a screen reader meets, the text of its hidden MathML, and
# of a drawing that is an image its name. The drawings come back when axe has done.
THIN = """() => {
  window.drawings = [...document.querySelectorAll("svg[role=img]")].map(
    e => [e, [...e.childNodes]]);
  for (const [drawing] of drawings)
    drawing.replaceChildren(...drawing.querySelectorAll(":scope > title"));
  document.querySelectorAll(".katex-html").forEach(math => math.replaceChildren());
  document.querySelectorAll(".katex-mathml math").forEach(m => m.textContent = m.textContent);
  const seen = {};
  for (const word of document.querySelectorAll("pre span[class]")) {
    seen[word.className] = (seen[word.className] || 0) + 1;
    if (seen[word.className] > 3) word.replaceWith(...word.childNodes);
  }
}"""
DRAW_AGAIN = "() => drawings.forEach(([drawing, parts]) => drawing.replaceChildren(...parts))"
# The contrast of a text takes axe 2 ms. Of texts that look alike, on the same ground, in elements
# of one kind, three are looked at, on whatever page and in whatever view they come first.
LOOK = """known => {
  const ground = new Map(), before = new Set(known), seen = {};
  for (const e of document.querySelectorAll("*")) {
    const s = getComputedStyle(e), above = e.parentElement && getComputedStyle(e.parentElement);
    const lies = ["static", "relative"].includes(s.position) ? "" : s.position;
    const own = [s.backgroundColor, s.backgroundImage, s.opacity, s.filter, lies].join();
    const plain = own === "rgba(0, 0, 0, 0),none,1,none,";
    ground.set(e, (ground.get(e.parentNode) ?? "") + (plain ? "" : `/${own}`));
    const size = parseFloat(s.fontSize), large = size >= 24 || size > 18.6 && s.fontWeight >= 700;
    delete e.dataset.look;
    const says = [...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim());
    if (!says && !e.matches("input, select, textarea") || !e.getClientRects().length) continue;
    const kind = [e.tagName, e.className, s.color, large, s.textDecorationLine, above?.color,
      ground.get(e)].join();
    if (before.has(kind)) continue;
    seen[kind] = (seen[kind] || 0) + 1;
    if (seen[kind] <= 3) e.dataset.look = "";
  }
  axe.configure({rules: [{id: "color-contrast", selector: "[data-look]"},
    {id: "link-in-text-block", selector: "a[href][data-look]"}]});
  return Object.keys(seen);
}"""
COLOURS = ["color-contrast", "link-in-text-block"]
RUN_AXE = """only => axe.run(document, {
  resultTypes: ["violations"], preload: false, ...(only && {runOnly: only})
}).then(r => r.violations)"""
# The tags of what this view shows and the ones before it did not: a phone's buttons, say.
NEWLY_SHOWN = """() => {
  const all = [...document.querySelectorAll("body :not(.katex *)")]
    .filter(e => e.getClientRects().length);
  const first = !window.shown, fresh = all.filter(e => !window.shown?.has(e));
  window.shown = new Set([...(window.shown ?? []), ...all]);
  return first ? [] : fresh.map(e => e.cloneNode(false).outerHTML);
}"""
# Whatever scrolls must be reachable by keyboard; axe sees it only on the whole page. The page mends
# it a moment after its width has changed.
STUCK = """async () => {
  const scrolls = way => ["auto", "scroll"].includes(way);
  const held = "a, button, input, [tabindex='0']";
  const stuck = () => [...document.querySelectorAll("main :not(.katex *, svg *)")].filter(
    e => e.tabIndex < 0 && e.clientWidth && (e.scrollWidth > e.clientWidth + 1
      && scrolls(getComputedStyle(e).overflowX) || e.scrollHeight > e.clientHeight + 1
      && scrolls(getComputedStyle(e).overflowY) && !e.querySelector(held)));
  for (let n = 0; n < 50 && stuck().length; n++) await new Promise(r => setTimeout(r, 100));
  return stuck().map(e => e.outerHTML.slice(0, 90));
}"""
# Code and outputs that a desktop shows only in part; what is folded does not count. The address in
# the first cell is as long as it is.
CUT = """() => [...document.querySelectorAll("main pre")].slice(1).filter(e =>
  !e.closest("details") && e.scrollWidth > e.clientWidth + 1)
  .map(e => e.textContent.slice(0, 60))"""
# On a phone: what scrolls sideways and does not show it, or shows it and does not; and marks that
# do not stand beside the formula that they belong to, but below it or at the end of the line.
UNMARKED = """async () => {
  const wrong = () => [...document.querySelectorAll("main :not(.katex *, svg *)")]
    .filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1
    && ["auto", "scroll"].includes(getComputedStyle(e).overflowX)
    && !getComputedStyle(e).boxShadow.includes("inset")
    || e.matches(".u-more") && e.scrollWidth <= e.clientWidth + 1
    || e.matches(".u-more") && getComputedStyle(e).overflowX === "visible");
  for (let n = 0; n < 50 && wrong().length; n++) await new Promise(r => setTimeout(r, 100));
  return wrong().map(e => e.outerHTML.slice(0, 90));
}"""
FALLEN = """() => [...document.querySelectorAll("main span.math")].filter(math => {
  let text = math.nextSibling, range = document.createRange();
  if (math.parentNode.matches(".u-joined")) text = math.parentNode.lastChild;
  const last = [...math.querySelectorAll(".katex-base")].at(-1).getBoundingClientRect();
  if (text?.nodeType !== Node.TEXT_NODE || !/^[.,;:!?)\\]]/.test(text.data)) return false;
  range.setStart(text, 0), range.setEnd(text, 1);
  const mark = range.getBoundingClientRect();
  return mark.top > last.bottom - 2 || Math.abs(mark.left - last.right) > 4;
}).map(e => e.parentNode.textContent.slice(0, 80))"""
# Formulas that nothing has set: as TeX, also between the dollars of a caption.
UNSET = """() => [...document.querySelectorAll(
  "main .math:not(:has(.katex)), .tex2jax_process:not(:has(.katex))")]
  .filter(e => e.matches(".math") || /\\$[^$]+\\$/.test(e.textContent))
  .map(e => e.textContent.slice(0, 80))"""
# Labels of drawings that a phone shows smaller than nine pixels.
TINY = """() => [...document.querySelectorAll("main svg text")].filter(e => {
  const m = e.getScreenCTM();
  return e.getClientRects().length && e.textContent.trim()
    && parseFloat(getComputedStyle(e).fontSize) * Math.hypot(m.a, m.b) < 8.95;
}).map(e => e.textContent.trim().slice(0, 40))"""
# Captions of tables that a phone shows only in part.
HALF_SEEN = """() => [...document.querySelectorAll("main caption")]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.textContent.slice(0, 60))"""
PATIENCE = 180_000  # milliseconds, for what takes one on a quiet machine
VIEWS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 760}, "color_scheme": "light"},
}


def pages() -> list[str]:
    """All pages of the built book, as paths below the site; its decks have tests of their own."""
    found = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    return [name for name in found if not name.startswith(("_", "slides/"))]


@dataclass
class Visit:
    """What was seen on one page, in all views."""

    path: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)  # console errors and uncaught exceptions
    violations: list[str] = field(default_factory=list)  # axe-core
    unset: list[str] = field(default_factory=list)  # formulas that stand as TeX
    too_wide: list[str] = field(default_factory=list)  # the views in which it scrolls sideways
    newly_shown: dict[str, set[str]] = field(default_factory=dict)  # tags, by view
    cut: list[str] = field(default_factory=list)  # the beginnings of blocks that scroll sideways
    unmarked: list[str] = field(default_factory=list)  # of those on a phone, without a shaded edge
    fallen: list[str] = field(default_factory=list)  # paragraphs, by view: see FALLEN
    tiny: list[str] = field(default_factory=list)  # labels on a phone
    half_seen: list[str] = field(default_factory=list)  # captions on a phone

    @property
    def files(self) -> list[Path]:
        asked = (file_at(url) for url in dict.fromkeys(self.requests))
        return [path for path in asked if path and path.is_file()]

    @property
    def kilobytes(self) -> float:
        """What travels, gzipped; 1 kB = 1000 bytes. Without the fonts of formulas, some 130 kB that
        the pages share: how many have come when the visit ends is a matter of timing."""
        return sum(weight(path) for path in self.files if path.suffix != ".woff2") / 1000


@functools.cache
def weight(path: Path) -> int:
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

    def do_GET(self) -> None:
        if os.environ.get("SLOW") == "1" and not self.path.endswith(("/", ".html")):
            time.sleep(0.6)  # seconds
        super().do_GET()

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the browser left the page
            super().handle()


def until(page: Page, holds: str, arg: object = None) -> None:
    """Wait until a promise holds; Playwright's `wait_for_function` takes any promise for true."""
    page.evaluate(
        f"""async arg => {{
          const holds = {holds}, end = performance.now() + {PATIENCE};
          while (!await holds(arg)) {{
            if (performance.now() > end) throw new Error(`it never came to hold: ${{holds}}`);
            await new Promise(again => setTimeout(again, 100));
          }}
        }}""",
        arg,
    )


@functools.lru_cache(maxsize=2)
def soup(name: str) -> BeautifulSoup:
    """The page's elements, without what is in scripts, drawings and code: most of its length."""
    text = (SITE / name).read_text("utf8")
    text = re.sub(r"(<(script|svg|pre)\b[^>]*>).*?</\2>", r"\1</\2>", text, flags=re.DOTALL)
    return BeautifulSoup(text, "html.parser")


def group(nodeid: str) -> str:
    """The page that a test is about, or the test's file."""
    about = re.search(r"[\[-]([\w/.]+\.html)", nodeid)
    return about[1] if about and (SITE / about[1]).is_file() else nodeid.partition("::")[0]


class ByPage(LoadScopeScheduling):
    """All tests of a page run one after the other in one worker, which visits it once; so do the
    tests of a file that belong to no page."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByPage:
    return ByPage(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files first, then pages by their size: short ones end evenly."""
    sizes = {name: (SITE / name).stat().st_size for name in pages()}
    of = {item: group(item.nodeid) for item in items}
    items.sort(key=lambda item: (-sizes.get(of[item], math.inf), of[item]))


def axe(page: Page) -> list:
    """What axe finds wrong with the page as it stands."""
    page.add_script_tag(path=AXE)
    return page.evaluate(RUN_AXE, None)


class Host(http.server.ThreadingHTTPServer):
    request_queue_size = 128  # a browser asks for six files at once, and several pages do


@contextlib.contextmanager
def served(handler: type[http.server.BaseHTTPRequestHandler] = Quiet) -> Iterator[str]:
    """Serve the built book; the address of its landing page, without the slash at the end."""
    with Host(("127.0.0.1", 0), handler) as server:
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
def tab(browser: Browser) -> Iterator[Page]:
    """The tab in which all pages are read."""
    context = browser.new_context(**VIEWS["desktop"])
    context.set_default_timeout(PATIENCE)
    # No page comes from what another left (see test_offline.py).
    context.add_init_script("delete Navigator.prototype.serviceWorker")
    yield context.new_page()
    context.close()


SHOWN = """scheme => matchMedia(`(prefers-color-scheme: ${scheme})`).matches &&
  [scheme, undefined].includes(document.documentElement.dataset.theme)"""
AT_REST = """document.getAnimations().filter(a => a instanceof CSSTransition)
  .forEach(a => a.finish())"""  # or a colour would be one on its way


def show(tab: Page, view: str) -> None:
    """Turn the tab into another view, as a reader turns a window or a theme, without loading."""
    size, scheme = VIEWS[view]["viewport"], VIEWS[view]["color_scheme"]
    if tab.viewport_size != size:
        tab.set_viewport_size(size)
    if not tab.evaluate(SHOWN, scheme):
        tab.emulate_media(color_scheme=scheme)
        tab.wait_for_function(SHOWN, arg=scheme)
    tab.evaluate(AT_REST)


@pytest.fixture(scope="session")
def open_page(tab: Page, address: str) -> Callable[..., Page]:
    """Open a path of the book in a view.

    again=False: the page as the test before left it, where it is still open.
    """

    def go(path: str, view: str = "desktop", *, again: bool = True) -> Page:
        url = f"{address}/{path}"
        if again or tab.url != url:
            tab.goto("about:blank")  # what another page still asks for is not this one's
            show(tab, view)
            tab.goto(url, wait_until="load")
            tab.evaluate("document.fonts.ready.then(() => 0)")
        show(tab, view)
        return tab

    return go


@contextlib.contextmanager
def noted(tab: Page, seen: Visit) -> Iterator[None]:
    """Note down what the tab asks for and complains of."""
    note = {
        "request": lambda request: seen.requests.append(request.url),
        "pageerror": lambda error: seen.complaints.append(str(error)),
        "response": lambda response: (
            response.status >= 400 and seen.complaints.append(f"{response.status} {response.url}")
        ),
        "console": lambda message: (
            message.type in {"error", "warning"} and seen.complaints.append(message.text)
        ),
    }
    for event, listener in note.items():
        tab.on(event, listener)
    yield
    for event, listener in note.items():
        tab.remove_listener(event, listener)


def measured(tab: Page, view: str, seen: Visit) -> None:
    """Note down what of the whole page depends on its width."""
    show(tab, view)
    if tab.evaluate("document.documentElement.scrollWidth") > VIEWS[view]["viewport"]["width"]:
        seen.too_wide.append(view)
    if view == "desktop":
        seen.cut = tab.evaluate(CUT)
    seen.newly_shown[view] = set(tab.evaluate(NEWLY_SHOWN))
    seen.violations += [f"{view}: no keyboard can scroll {part}" for part in tab.evaluate(STUCK)]
    if view == "phone":
        seen.unmarked, seen.tiny = tab.evaluate(UNMARKED), tab.evaluate(TINY)
        seen.half_seen = tab.evaluate(HALF_SEEN)
    seen.fallen += [f"{view}: {part}" for part in tab.evaluate(FALLEN)]


def pictured(tab: Page, view: str, path: str) -> None:
    show(tab, view)
    picture = f"{path.removesuffix('.html').replace('/', '-')}-{view}.jpg"
    tab.screenshot(path=SCREENSHOTS / picture, quality=80, full_page=True)


def violations(tab: Page, view: str, seen: Visit, looked_at: set[str]) -> Iterator[str]:
    """What axe finds that it has not been asked in another view, or on another page."""
    show(tab, view)
    texts, shown = set(tab.evaluate(LOOK, [*looked_at])), seen.newly_shown.get(view, set())
    whole = view == "desktop" or shown - looked_at
    looked_at |= texts | shown
    if not whole and not texts:
        return
    tab.evaluate(STUCK)  # until the page has settled
    for violation in tab.evaluate(RUN_AXE, None if whole else COLOURS):
        nodes = violation["nodes"]
        if violation["id"] == "empty-table-header":  # axe does not read MathML, readers do
            nodes = [n for n in nodes if not tab.query_selector(f"{n['target'][0]} math")]
        if nodes:
            where = "; ".join(str(node["target"]) for node in nodes[:4])
            yield f"{view}: {violation['id']}: {violation['help']} at {where}"


@pytest.fixture(scope="session")
def visit(tab: Page, open_page: Callable[..., Page]) -> Callable[..., Visit]:
    """The visit to a page, loaded in one view and looked at in all; paid for once."""
    looked_at: set[str] = set()

    @functools.cache
    def of(path: str, loaded: str) -> Visit:
        seen = Visit(path)
        with noted(tab, seen):
            open_page(path, loaded)
            seen.unset = tab.evaluate(UNSET)
            for view in VIEWS if os.environ.get("SCREENSHOTS") == "1" else ():
                pictured(tab, view, path)
            for view in ("desktop", "phone"):  # the dark has the desktop's width
                measured(tab, view, seen)
            tab.add_script_tag(path=AXE)
            tab.evaluate(THIN)
            for view in VIEWS:
                seen.violations += violations(tab, view, seen, looked_at)
            tab.evaluate(DRAW_AGAIN)
        return seen

    return of
