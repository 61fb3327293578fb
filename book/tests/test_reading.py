"""Points for answers in words, given by keyboard on a page of this computer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from unrolled_book.coursework import written
from unrolled_book.coursework.reading import Reading
from unrolled_book.coursework.submissions import Submission
from unrolled_book.coursework.syllabus import Question, Syllabus, Week
from unrolled_book.coursework.written import Given

STATEMENT = r"Why is $\frac{1}{\sqrt{d}}$ there? Explain *briefly*."
QUESTION = Question("scale", "Why scale?", STATEMENT, 4, (r"2: the variance is $d$",))
WEEK = Week("week1", "One", None, (), (QUESTION,))
COURSE = Syllabus("A course", "a secret of the test", (WEEK,), (), 1.0, Path("course.toml"))
SAID = {"ada": r"Sums of $d$ products grow like $\sqrt d$.", "bob": "No idea.", "<i>cleo": "x"}


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Reading]:
    handed = [
        Submission(student, (("w.py", f"# <!-- answer: scale -->\n# {text}".encode()),))
        for student, text in SAID.items()
    ]
    written.write(COURSE, handed, tmp_path / "written")
    with Reading(tmp_path, COURSE, WEEK) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def page(browser: Browser, reading: Reading) -> Iterator[Page]:
    found = browser.new_page()
    said: list[str] = []
    found.on("console", lambda each: said.append(each.text))
    found.goto(f"{reading.address}scale.html")
    yield found
    assert not [text for text in said if "400" not in text]
    found.close()


def test_a_class_is_read_without_the_mouse(page: Page, reading: Reading) -> None:
    assert page.evaluate("document.activeElement.ariaLabel") == "Points of ada"
    page.keyboard.type("2,5")
    page.keyboard.press("Tab")
    page.keyboard.type("Good start")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_label("Points of bob")).to_be_focused()
    page.keyboard.type("9")
    page.keyboard.press("Enter")
    expect(page.get_by_text("not saved: bob, scale: points is '9'")).to_be_visible()
    expect(page.get_by_label("Points of bob")).to_be_focused()
    page.keyboard.press("Backspace")
    page.keyboard.type("0")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Points of <i>cleo")).to_be_focused()
    expect(page.get_by_role("status").first).to_contain_text("2 of 3 have points")
    assert written.read_points(reading.table, COURSE) == {
        ("ada", "scale"): Given(2.5, "Good start"),
        ("bob", "scale"): Given(0.0, ""),
    }
    page.reload()  # begins at the first who has none
    expect(page.get_by_label("Points of <i>cleo")).to_be_focused()
    expect(page.get_by_label("Points of ada")).to_have_value("2.5")


def test_formulas_are_set_and_all_can_be_reached(page: Page) -> None:
    assert page.locator("aside mfrac").count() == 1
    assert page.locator("article math").count() == 2
    assert page.locator("article i").count() == 0
    assert not Axe().run(page).response["violations"]
