"""Exercises solved in the page: by a reader with nothing but a browser."""

from __future__ import annotations

import gzip
import json
import re
from typing import ClassVar
from urllib.parse import urlsplit

import pytest
from conftest import AXE, PATIENCE, SITE, VIEWS, Quiet, file_at, pages, served, show
from unrolled_book import exercises
from unrolled_book.check import examine

CHAPTER = "chapters/01_chain_rule.html"
SHIFT, BITS = 1, 2  # the places of these exercises on the page
RIGHT = """def bits_per_byte(log_probs, text):
    return float(-log_probs.sum() / np.log(2) / len(text.encode("utf-8")))"""
IN_NATS = RIGHT.replace(" / np.log(2)", "")
FOR_EVER = "def bits_per_byte(log_probs, text):\n    while True:\n        pass"
STATE = "([n, state]) => document.querySelectorAll('.u-solve')[n].dataset.state === state"


def solve(page, n, source, state):
    """Write an answer, check it by the keyboard, and wait until it has this state."""
    area = page.locator(".u-solve textarea").nth(n)
    area.fill(source)
    area.press("Control+Enter")
    page.wait_for_function(STATE, arg=[n, state])
    return said(page, n)


def said(page, n):
    return page.locator(".u-said").nth(n).inner_text().strip()


def new_context(browser, script=""):
    context = browser.new_context(**VIEWS["desktop"])
    context.set_default_timeout(PATIENCE)
    context.add_init_script(f"delete Navigator.prototype.serviceWorker; {script}")
    return context


@pytest.fixture(scope="module")
def context(browser):
    yield (context := new_context(browser))
    context.close()


@pytest.fixture
def open_fresh(browser, context, address):
    """A page in a browser that has never seen the book, or has forgotten it."""
    own = []

    def go(name=CHAPTER, view="desktop", at=address, script=""):
        if script:
            own.append(new_context(browser, script))
            page = own[-1].new_page()
        else:
            page = (context.pages or [context.new_page()])[0]
            page.goto(f"{at}/robots.txt")
            page.evaluate("localStorage.clear()")
        show(page, view)
        page.goto(f"{at}/{name}", wait_until="load")
        page.wait_for_function("document.querySelector('.u-solve, #u-progress p')")
        return page

    yield go
    for thing in (*context.pages[1:], *own):
        thing.close()


@pytest.fixture(scope="module")
def page(browser, address):
    """A page on which Python has started."""
    context = new_context(browser)
    page = context.new_page()
    page.goto(f"{address}/{CHAPTER}")
    solve(page, BITS, RIGHT, "passed")
    yield page
    context.close()


@pytest.mark.parametrize("name", [name for name in pages() if name.startswith("chapters/")])
def test_every_exercise_has_an_editor_or_a_reason(name, open_page):
    page = open_page(name, again=False)
    there = ".u-solve:not(.tag_try *), .u-elsewhere"  # a listing that is open has the same box
    page.wait_for_selector(there, state="attached")
    listed = exercises.chapters()["c" + name.removeprefix("chapters/").removesuffix(".html")]
    assert page.locator(there).count() == len(listed)


def test_nothing_of_python_loads_before_the_first_check(open_fresh):
    page, asked = open_fresh("book/progress.html"), []
    page.on("request", lambda request: asked.append(request.url))
    open_fresh()
    page.locator(".u-solve textarea").first.type("# a thought\n")
    assert [url for url in asked if "/live/" in url] == []
    manifest = json.loads((SITE / "_static/live/manifest.json").read_text("utf8"))
    sizes = [(SITE / "_static/live" / name).stat().st_size for name in manifest["first"]]
    note = page.locator(".u-note").first.inner_text()
    assert f"loads {sum(sizes) / 1e6:.1f} MB once" in note


def test_a_right_answer_passes_and_a_mistake_is_named(page):
    assert said(page, BITS).startswith("✓ bits_per_byte: all 5 tests passed")
    report = solve(page, BITS, IN_NATS, "failed")
    assert "Likely cause: this is in nats; one bit is ln 2 nats." in report


def test_the_report_is_the_notebooks_own(page):
    source = "def shift(texts, start, end, pad):\n    return texts"
    names = {}
    exec(source, names)
    report = solve(page, SHIFT, source, "failed")
    expected = examine(exercises.load("shift"), names["shift"], seed=0).text
    assert report.split("\n")[0] == expected.split("\n")[0]
    assert report.split("\n")[-1].strip() == expected.split("\n")[-1].strip()


def test_a_starter_is_not_written_yet(page):
    page.locator(".u-solve textarea").nth(SHIFT).fill("shift = 1")
    page.locator(".u-solve").nth(SHIFT).get_by_text("Reset", exact=True).click()
    starter = page.locator(".u-solve textarea").nth(SHIFT).input_value()
    assert "not written yet" in solve(page, SHIFT, starter, "unwritten")


def test_an_endless_loop_leaves_the_page_alive_and_is_stopped(page):
    area = page.locator(".u-solve textarea").nth(BITS)
    area.fill(FOR_EVER)
    area.press("Control+Enter")
    page.wait_for_function(f"document.querySelectorAll('.u-said')[{BITS}].innerText.match(/Check/)")
    # While Python loops the page goes on drawing frames.
    page.wait_for_function("() => (window.frame = (window.frame ?? 0) + 1) > 5", polling="raf")
    other = page.locator(".u-solve").nth(SHIFT)
    other.locator(".u-go").click()
    assert "Another check is running (exercise 1.3)" in said(page, SHIFT)
    with page.expect_worker():  # Stop itself starts a fresh Python
        page.locator(".u-solve").nth(BITS).get_by_text("Stop", exact=True).click()
    assert "Stopped" in said(page, BITS)
    assert area.input_value() == FOR_EVER
    assert "all 5 tests" in solve(page, BITS, RIGHT, "passed")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("    exit()", "SystemExit"),
        ("    return bits_per_byte(log_probs, text)", "RecursionError"),
        ("    return np.ones(2 * 10**8)", "Memory"),
        ("    import os\n    os._exit(3)", ""),
        ("    while True:\n        raise KeyboardInterrupt", ""),
    ],
)
def test_what_would_end_python_ends_in_a_report(page, body, says):
    report = solve(page, BITS, f"def bits_per_byte(log_probs, text):\n{body}", "failed")
    assert report.startswith("✗")
    assert says in report
    assert "all 5 tests" in solve(page, BITS, RIGHT, "passed")


@pytest.mark.parametrize(
    "patch",
    [
        "np.isclose = lambda *a, **k: np.array(True)",
        "import json\njson.dumps = lambda *a: '{}'",
        "from unrolled_book.exercises.engine import marking as m\nm.difference = lambda *a: 0",
    ],
    ids=["numpy", "json", "engine"],
)
def test_an_answer_that_breaks_what_judges_it_does_not_judge_the_next(patch, page):
    area = page.locator(".u-solve textarea").nth(BITS)
    area.fill(f"{IN_NATS}\n{patch}")
    area.press("Control+Enter")
    page.wait_for_function(f"!document.querySelectorAll('.u-said')[{BITS}].innerText.match(/…$/)")
    assert "this is in nats" in solve(page, BITS, IN_NATS + "  # honest", "failed")
    assert "all 5 tests" in solve(page, BITS, RIGHT, "passed")


def test_check_keeps_the_focus_and_no_button_comes_where_stop_stood(page):
    box = page.locator(".u-solve").nth(BITS)
    page.locator(".u-solve textarea").nth(BITS).fill(FOR_EVER)
    box.locator(".u-go").focus()
    page.keyboard.press("Enter")
    stop = box.get_by_text("Stop", exact=True)
    stop.wait_for()
    place = stop.bounding_box()
    assert box.locator(".u-go").evaluate("go => document.activeElement === go")
    stop.click()
    under = "([x, y]) => document.elementFromPoint(x, y)?.closest('button')?.textContent ?? ''"
    middle = [place["x"] + place["width"] / 2, place["y"] + place["height"] / 2]
    assert page.evaluate(under, middle) == ""


def test_a_flood_of_output_is_cut(page):
    flood = f"{RIGHT}\nfor _ in range(100_000):\n    print('a line of output')"
    report = solve(page, BITS, flood, "passed")
    assert "Your code printed:" in report
    assert len(report) < 30_000


def test_syntax_errors_are_told_with_their_line(page):
    report = solve(page, BITS, "def bits_per_byte(log_probs, text)\n    return 1", "failed")
    assert "SyntaxError" in report
    assert "line 1" in report


def test_a_readers_code_reaches_no_other_host(page):
    """Not even through JavaScript's own constructor, where Python's ways are closed."""
    asked = []

    class Elsewhere(Quiet):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Content-Type", "text/javascript")
            self.end_headers()

        do_POST = do_GET

    with served(Elsewhere) as at:
        there = urlsplit(at).netloc
        roads = [
            f"import js\njs.fetch('http://{there}/1')",
            f"import pyodide.http\npyodide.http.open_url('http://{there}/2')",
            f"import urllib.request\nurllib.request.urlopen('http://{there}/3')",
            f"import socket\nsocket.create_connection(('127.0.0.1', {there.partition(':')[2]}))",
            f"from pyodide.code import run_js\nrun_js('fetch(\"http://{there}/4\")')",
        ]
        for n, code in enumerate(
            [
                "fetch('http://{}')",
                "const x = new XMLHttpRequest(); x.open('GET', 'http://{}', false); x.send()",
                "new WebSocket('ws://{}')",
                "import('http://{}.mjs')",
                "new EventSource('http://{}')",
                "new Worker('data:text/javascript,fetch(%22http://{}%22)')",
            ]
        ):
            script = code.format(f"{there}/js{n}")
            roads.append(
                f"from pyodide.ffi import to_js\nto_js([1]).constructor.constructor({script!r})()"
            )
        for road in roads:
            solve(page, BITS, f"{road}\n{RIGHT}\nbits_per_byte = None", "failed")
        tab = page.context.new_page()
        tab.goto(f"{at}/control")
        tab.close()
    assert asked, "what is asked for is heard"
    assert [path for path in asked if not path.endswith(("/control", "/favicon.ico"))] == []


def test_the_answer_is_there_again_after_loading(open_fresh):
    page = open_fresh()
    page.locator(".u-solve textarea").nth(BITS).fill(IN_NATS)
    page.reload()
    assert page.locator(".u-solve textarea").nth(BITS).input_value() == IN_NATS
    page.locator(".u-solve").nth(BITS).get_by_text("Reset", exact=True).click()
    page.reload()
    assert "your code here" in page.locator(".u-solve textarea").nth(BITS).input_value()


def test_an_answer_that_changes_during_its_check_is_not_taken_for_the_checked_one(open_fresh):
    page = open_fresh()
    area = page.locator(".u-solve textarea").nth(BITS)
    area.fill(RIGHT)
    area.press("Control+Enter")
    area.fill("bits_per_byte = 1")
    page.wait_for_function(f"document.querySelectorAll('.u-said')[{BITS}].innerText.includes('✓')")
    kept = page.evaluate("JSON.parse(localStorage['unrolled-answers']).answers")
    answer = kept["c01_chain_rule/bits_per_byte"]
    assert (answer["source"], answer["state"]) == ("bits_per_byte = 1", "draft")


def test_an_answer_is_found_where_an_earlier_edition_had_it(open_fresh):
    answer = {"source": IN_NATS, "state": "failed", "n_passed": 0, "n_tests": 5, "changed": ""}
    old = {"format": "unrolled-answers", "version": 1, "answers": {"c09_x/bits_per_byte": answer}}
    page = open_fresh()
    page.evaluate("old => localStorage.setItem('unrolled-answers', JSON.stringify(old))", old)
    page.reload()
    area = page.locator(".u-solve textarea").nth(BITS)
    assert area.input_value() == IN_NATS
    area.fill(RIGHT)
    kept = page.evaluate("JSON.parse(localStorage['unrolled-answers']).answers")
    assert list(kept) == ["c01_chain_rule/bits_per_byte"]


def test_every_exercise_of_the_progress_page_is_linked(open_fresh):
    page = open_fresh("book/progress.html")
    links = page.eval_on_selector_all("#u-progress li a", "all => all.map(a => a.href)")
    assert len(links) == sum(map(len, exercises.chapters().values()))
    for link in links:
        path, _, anchor = link.partition("#")
        chapter = SITE / "chapters" / path.rpartition("/")[2]
        assert f'<section id="{anchor}">' in chapter.read_text("utf8")


def test_the_editor_looks_like_the_code_beside_it(open_fresh):
    ground = "e => getComputedStyle(e).backgroundColor"
    font = "e => getComputedStyle(e).fontSize"
    for view in ("desktop", "dark"):
        page = open_fresh(view=view)
        seen = [page.eval_on_selector(one, ground) for one in (".u-editor", "div.cell_input")]
        seen += [page.eval_on_selector(one, font) for one in (".u-editor *", "div.cell_input pre")]
        assert (seen[0], seen[2]) == (seen[1], seen[3])


def test_another_tab_sees_the_answer_and_its_own_are_kept(open_fresh, address):
    page = open_fresh()
    other = page.context.new_page()
    other.goto(f"{address}/{CHAPTER}")
    page.locator(".u-solve textarea").nth(BITS).fill(IN_NATS)
    other.wait_for_function(
        "t => document.querySelectorAll('textarea')[2].value === t", arg=IN_NATS
    )
    other.locator(".u-solve textarea").nth(SHIFT).fill("shift = None")
    page.reload()
    kept = [page.locator(".u-solve textarea").nth(n).input_value() for n in (SHIFT, BITS)]
    assert kept == ["shift = None", IN_NATS]


def test_no_tab_writes_an_older_text_over_a_newer_one(open_fresh, address):
    page = open_fresh()
    areas = page.locator(".u-solve textarea")
    areas.nth(BITS).press("End")  # and the focus stays in the editor while the other tab is used
    other = page.context.new_page()
    other.goto(f"{address}/{CHAPTER}")
    other.locator(".u-solve textarea").nth(BITS).fill(IN_NATS)
    page.wait_for_function("document.body.innerText.includes('was changed in another tab')")
    areas.nth(BITS).press("Control+End")
    areas.nth(BITS).type("  # mine")
    text = f"{IN_NATS}  # mine"
    other.wait_for_function("t => document.querySelectorAll('textarea')[2].value === t", arg=text)
    assert areas.nth(BITS).input_value() == text


def test_a_starter_that_has_changed_is_announced_until_reset(open_fresh):
    page = open_fresh()
    solved = page.locator(".u-solve").nth(BITS)
    solved.locator("textarea").fill(IN_NATS)
    assert "has changed" not in solved.inner_text()
    page.evaluate("""() => {
      const kept = JSON.parse(localStorage["unrolled-answers"]);
      for (const answer of Object.values(kept.answers)) answer.starter = "of an earlier edition";
      localStorage["unrolled-answers"] = JSON.stringify(kept);
    }""")
    page.reload()
    page.wait_for_selector(".u-solve")
    assert "The starter has changed since you began" in solved.inner_text()
    solved.locator("textarea").type("# more")
    assert "The starter has changed since you began" in solved.inner_text()
    solved.get_by_text("Reset", exact=True).click()
    assert "has changed" not in solved.inner_text()


@pytest.mark.parametrize(
    "script",
    [
        "Object.defineProperty(window, 'localStorage', {get() { throw new Error('no'); }})",
        "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); }",
    ],
    ids=["forbidden", "full"],
)
def test_a_browser_that_keeps_nothing_says_so_and_loses_nothing_meanwhile(script, open_fresh):
    page = open_fresh(script=script)
    page.locator(".u-solve textarea").nth(BITS).fill(IN_NATS)
    assert "keeps no answers" in page.locator(".u-note").nth(BITS).inner_text()
    assert page.locator(".u-solve textarea").nth(BITS).input_value() == IN_NATS


def test_an_import_that_the_browser_does_not_keep_says_so(open_fresh, tmp_path):
    full = "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); }"
    page = open_fresh("book/progress.html", script=full)
    answer = {"source": RIGHT, "state": "passed", "changed": "2026-01-01T00:00:00Z"}
    found = {"format": "unrolled-answers", "version": 1, "answers": {"c01_x/bits_per_byte": answer}}
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(found), "utf8")
    page.set_input_files("#u-progress input[type=file]", file)
    page.wait_for_selector("text=its storage is full or closed")


def test_what_cannot_be_read_in_the_storage_is_put_aside(open_fresh):
    page = open_fresh(script="localStorage.getItem('unrolled-answers') ?? "
                      "localStorage.setItem('unrolled-answers', '{broken')")  # fmt: skip
    page.locator(".u-solve textarea").nth(BITS).fill(IN_NATS)
    aside = page.evaluate("localStorage.getItem('unrolled-answers-unreadable')")
    kept = page.evaluate("JSON.parse(localStorage.getItem('unrolled-answers')).answers")
    assert aside == "{broken"
    assert kept["c01_chain_rule/bits_per_byte"]["source"] == IN_NATS


def test_progress_counts_exports_imports_and_erases(page, open_fresh, address, tmp_path):
    solve(page, BITS, RIGHT, "passed")
    tab = page.context.new_page()
    tab.goto(f"{address}/book/progress.html")
    total = sum(map(len, exercises.chapters().values()))
    tab.wait_for_selector(f"text=1 of {total} exercises solved")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Export").click()
    file = tmp_path / "answers.json"
    download.value.save_as(file)
    tab.close()
    data = json.loads(file.read_text("utf8"))
    assert (data["format"], data["version"]) == ("unrolled-answers", 1)
    assert data["answers"]["c01_chain_rule/bits_per_byte"]["source"] == RIGHT

    elsewhere = open_fresh("book/progress.html")
    assert f"0 of {total} exercises solved" in elsewhere.inner_text("#u-progress")
    for text, says in [("no JSON", "is not JSON"), ("{}", "holds no answers")]:
        bad = tmp_path / "bad.json"
        bad.write_text(text, "utf8")
        elsewhere.set_input_files("#u-progress input[type=file]", bad)
        elsewhere.wait_for_selector(f"text={says}")
    elsewhere.set_input_files("#u-progress input[type=file]", file)
    elsewhere.wait_for_selector(f"text=1 of {total} exercises solved")
    elsewhere.once("dialog", lambda dialog: dialog.dismiss())
    elsewhere.get_by_role("button", name="Erase").click()
    assert f"1 of {total}" in elsewhere.inner_text("#u-progress")
    elsewhere.once("dialog", lambda dialog: dialog.accept())
    elsewhere.get_by_role("button", name="Erase").click()
    assert f"0 of {total}" in elsewhere.inner_text("#u-progress")


def test_the_editor_by_keyboard(open_fresh):
    page = open_fresh()
    area = page.locator(".u-solve textarea").nth(BITS)
    starter = area.input_value()
    area.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("def f(x):\nif x:\nreturn 1")
    assert area.input_value() == "def f(x):\n    if x:\n        return 1"
    page.keyboard.press("Home")
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Backspace")
    assert area.input_value() == "def f(x):\n    if x:\n    return 1"
    page.keyboard.press("Tab")
    assert area.input_value() == "def f(x):\n    if x:\n        return 1"
    page.keyboard.press("Control+A")
    page.keyboard.press("Shift+Tab")
    assert area.input_value() == "def f(x):\nif x:\n    return 1"
    page.keyboard.press("Tab")
    assert area.input_value() == "    def f(x):\n    if x:\n        return 1"
    for _ in range(60):
        page.keyboard.press("Control+Z")
    assert area.input_value() == starter
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Check"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").endswith("1.3")


def test_colours_follow_the_text(open_fresh):
    page = open_fresh()
    area = page.locator(".u-solve textarea").nth(BITS)
    text = 'def f(x):  # why\n    return {\'a\': 1.5e-3, """b\nc""": None, \'open'
    area.fill(text)
    colours = page.locator(".u-colours").nth(BITS)
    assert colours.evaluate("pre => pre.textContent") == text + "\n"
    found = colours.evaluate(
        "pre => [...pre.querySelectorAll('span')].map(s => [s.className, s.textContent])"
    )
    wanted = [["k", "def"], ["nf", "f"], ["c1", "# why"], ["mi", "1.5e-3"], ["kc", "None"]]
    assert [pair for pair in [*wanted, ["s2", "'open"]] if pair not in found] == []


def test_a_failed_exercise_is_accessible_and_fits(page):
    solve(page, BITS, IN_NATS, "failed")
    assert page.locator(".u-said").nth(BITS).get_attribute("role") == "status"
    page.add_script_tag(path=AXE)
    for view, options in VIEWS.items():
        show(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= options["viewport"]["width"]
        found = page.evaluate(
            "n => axe.run(document.querySelectorAll('.u-solve')[n], {resultTypes: ['violations']})"
            ".then(r => r.violations.map(v => v.id + ' ' + v.nodes.map(n => n.html)))",
            BITS,
        )
        assert found == []
    show(page, "desktop")


def test_print_has_the_starter_and_no_editor(open_fresh):
    page = open_fresh()
    page.emulate_media(media="print")
    assert not page.locator(".u-solve").first.is_visible()
    assert page.locator(".u-replaced").first.is_visible()
    page.emulate_media(media="screen")


class AsPages(Quiet):
    """Types and compression as GitHub Pages sends them: .gz as it is, text gzipped on the way."""

    types: ClassVar = {".gz": "application/gzip", ".mjs": "text/javascript; charset=utf-8",
             ".json": "application/json; charset=utf-8", ".bz2": "application/x-bzip2"}  # fmt: skip
    unpacks = False

    def do_GET(self):
        path = file_at(self.path)
        if not path or not path.is_file():
            self.send_error(404)
            return
        body, kind = path.read_bytes(), self.types.get(path.suffix)
        self.send_response(200)
        self.send_header("Content-Type", kind or self.guess_type(str(path)))
        if self.unpacks and path.suffix == ".gz":
            self.send_header("Content-Encoding", "gzip")
        elif path.suffix in {".html", ".css", ".js", ".mjs", ".json"}:
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Unpacking(AsPages):
    """A server that calls a .gz file gzipped content, as some do: the browser unpacks it."""

    unpacks = True


@pytest.mark.parametrize("handler", [AsPages, Unpacking])
def test_it_runs_from_a_host_of_static_files(handler, open_fresh):
    with served(handler) as at:
        page = open_fresh(at=at)
        assert "all 5 tests" in solve(page, BITS, RIGHT, "passed")


def test_a_part_that_came_cut_short_is_asked_for_again(open_fresh):
    asked = []

    class CutShort(AsPages):
        """Half of numpy the first time, under a name that the browser's cache keeps."""

        def end_headers(self):
            self.send_header("Cache-Control", "max-age=600")
            super().end_headers()

        def do_GET(self):
            if "numpy.tar.gz" not in self.path:
                super().do_GET()
                return
            asked.append(self.path)
            body = (SITE / "_static/live/numpy.tar.gz").read_bytes()
            body = body[: len(body) // 2] if len(asked) == 1 else body
            self.send_response(200)
            self.send_header("Content-Type", "application/gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with served(CutShort) as at:
        page = open_fresh(at=at)
        assert "all 5 tests" in solve(page, BITS, RIGHT, "passed")
    assert len(asked) == 2


def test_the_scripts_are_small():
    kinds = ("exercises.mjs", "runner.mjs", "editor.mjs", "answers.mjs",
             "worker.mjs", "exercises.css")  # fmt: skip
    sizes = [len(gzip.compress((SITE / "_static/exercises" / k).read_bytes())) for k in kinds]
    assert sum(sizes) < 12_000


def test_a_page_of_the_book_names_no_solution_twice():
    text = (SITE / CHAPTER).read_text("utf8")
    told = re.search(r'id="u-live">(.*?)</script>', text, re.DOTALL)[1]
    assert len(told) < 2_000
