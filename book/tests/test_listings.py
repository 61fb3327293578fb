"""Listings of the chapters, tried in the page: opened, changed, stopped, put back."""

from __future__ import annotations

import pytest
from conftest import AXE, PATIENCE, SITE, VIEWS, pages, show

from book.tools.live import listings
from book.tools.notebooks import published

CHAPTER = "chapters/14_attention.html"
PATHS = {f"chapters/{path.stem}.html": path for path in published()}
STORED = "weights [0, 1, 0] answer 7"
SAYS = "text => document.querySelector('.u-said[data-mine]').innerText.includes(text)"


@pytest.fixture(scope="module")
def page(browser, address):
    """A chapter in a browser that has asked for nothing of Python yet; `page.asked` lists it."""
    context = browser.new_context(**VIEWS["desktop"])
    context.set_default_timeout(PATIENCE)
    context.add_init_script("delete Navigator.prototype.serviceWorker")
    page = context.new_page()
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(f"{address}/{CHAPTER}", wait_until="load")
    page.wait_for_selector(".u-try button")
    yield page
    context.close()


def first(page):
    """The first listing's cell, opened if it was not."""
    cell = page.locator("div.cell.tag_try").first
    if cell.locator(".u-try button").count():
        cell.locator(".u-try button").click()
        cell.locator(".u-said").evaluate("said => said.dataset.mine = ''")
    return cell


def run(page, source, says):
    """Run this text by the keyboard, and wait until the answer holds what is expected of it."""
    area = first(page).locator("textarea")
    area.fill(source)
    area.press("Control+Enter")
    page.wait_for_function(SAYS, arg=says)
    return first(page).locator(".u-said").inner_text().strip()


@pytest.mark.parametrize("name", [name for name in pages() if name.startswith("chapters/")])
def test_every_tagged_listing_opens_with_the_text_that_runs(name, open_page):
    """Which is the notebook's, but for what it asserts of its own numbers."""
    page = open_page(name, again=False)
    page.wait_for_selector(".u-try button", state="attached")
    page.eval_on_selector_all(".u-try button", "all => all.forEach(button => button.click())")
    wanted = [one.source for one in listings.of_chapter(PATHS[name])]
    opened = "n => document.querySelectorAll('div.cell.tag_try textarea').length === n"
    page.wait_for_function(opened, arg=len(wanted))
    found = page.eval_on_selector_all("div.cell.tag_try textarea", "all => all.map(a => a.value)")
    assert found == wanted


def test_nothing_of_python_loads_before_the_first_run(page):
    source = first(page).locator("textarea").input_value()
    assert not first(page).locator("div.cell_input").is_visible()
    assert [url for url in page.asked if "/live/" in url] == []
    assert "The first run loads" in first(page).locator(".u-note").inner_text()
    assert run(page, source, STORED) == STORED
    assert any("c14_attention.json" in url for url in page.asked)


def test_a_changed_number_gives_another_answer_in_the_place_of_the_stored_one(page):
    source = listings.of_chapter(PATHS[CHAPTER])[0].source
    assert run(page, source.replace("7", "9"), "answer 9") == "weights [0, 1, 0] answer 9"
    assert not first(page).locator("div.cell_output").is_visible()
    assert (
        run(page, "import numpy as np\nnp.eye(2)", "array") == "array([[1., 0.],\n       [0., 1.]])"
    )
    assert run(page, "x = 1", "nothing") == "It has run, and printed nothing."


def test_an_error_points_at_the_readers_line(page):
    said = run(page, "print('so far')\nrows = [1]\nrows[4]", "IndexError")
    assert said.split("\n") == ["so far", "line 3: rows[4]", "IndexError: list index out of range"]
    assert first(page).locator(".u-solve").get_attribute("data-state") == "failed"


def test_an_endless_loop_is_stopped_and_the_text_stays(page):
    loop = "while True:\n    pass"
    run(page, loop, "Running …")
    exercise = page.locator(".u-solve:not(.cell *)").first
    exercise.locator(".u-go").click()
    assert "Another run is running (listing 1)" in exercise.locator(".u-said").inner_text()
    first(page).get_by_text("Stop", exact=True).click()
    assert "Stopped" in first(page).locator(".u-said").inner_text()
    assert first(page).locator("textarea").input_value() == loop
    assert run(page, "print(1 + 1)", "2") == "2"
    assert len(page.workers) == 1, "the one that loops has ended"


def test_reset_brings_the_book_back(page):
    run(page, "print('mine')", "mine")
    first(page).get_by_text("Reset", exact=True).click()
    text = listings.of_chapter(PATHS[CHAPTER])[0].source
    assert first(page).locator("textarea").input_value() == text
    assert first(page).locator("div.cell_output").inner_text().strip() == STORED
    assert first(page).locator(".u-said").inner_text().startswith("The chapter’s listing is back")


def test_what_an_earlier_listing_has_changed_is_not_there_in_the_next(page):
    run(page, "import numpy as np\nnp.exp = None\nmine = 1", "nothing")
    assert "NameError" in run(page, "mine", "NameError")
    assert run(page, "import numpy as np\nprint(np.exp(0.0))", "1.0") == "1.0"


def test_by_keyboard_alone(open_page):
    page = open_page(CHAPTER, again=False)
    page.locator(".u-try button").first.focus()
    page.keyboard.press("Enter")
    area = page.locator("div.cell.tag_try textarea").first
    page.wait_for_function("document.activeElement.tagName === 'TEXTAREA'")
    page.keyboard.press("Control+A")
    page.keyboard.type("print(6 * 7)")
    page.keyboard.press("Control+Enter")
    said = page.locator("div.cell.tag_try .u-said").first
    assert said.get_attribute("role") == "status"
    said.get_by_text("42", exact=True).wait_for(timeout=PATIENCE)
    for name in ("Run: listing 1", "Reset: listing 1"):
        page.keyboard.press("Escape")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == name
    page.keyboard.press("Enter")
    assert "Ophelia" in area.input_value()


def test_a_listing_is_accessible_and_fits(page):
    run(page, "rows = [1]\nrows[4]", "IndexError")
    page.add_script_tag(path=AXE)
    for view, options in VIEWS.items():
        show(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= options["viewport"]["width"]
        found = page.evaluate(
            "() => axe.run([...document.querySelectorAll('div.cell.tag_try')],"
            " {resultTypes: ['violations']})"
            ".then(r => r.violations.map(v => v.id + ' ' + v.nodes.map(n => n.html)))"
        )
        assert found == []
    show(page, "desktop")


def test_on_paper_without_a_script_and_from_a_folder_stands_the_listing_alone(
    browser, page, address
):
    first(page)
    page.emulate_media(media="print")
    cell = page.locator("div.cell.tag_try").first
    assert not cell.locator(".u-solve").is_visible()
    assert cell.locator("div.cell_input").is_visible()
    assert cell.locator("div.cell_output").is_visible()
    page.emulate_media(media="screen")
    folder = f"{(SITE / CHAPTER).as_uri()}"
    for where, script in ((f"{address}/{CHAPTER}", False), (folder, True)):
        context = browser.new_context(java_script_enabled=script)
        other = context.new_page()
        other.goto(where, wait_until="load")
        assert other.locator("div.cell.tag_try").count() > 1
        assert other.locator(".u-try").count() == 0
        context.close()
