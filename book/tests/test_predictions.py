"""Predictions in the page: answered by keyboard and pointer, judged as in a notebook, kept."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import SITE, axe, pages, soup
from unrolled_book.predictions import KINDS, Prediction, number, stored

ASKED = [name for name in pages() if "u-asked" in (SITE / name).read_text("utf8")]
FIRST_OF = {
    kind: next((p.name for p in stored().values() if p.kind == kind), None) for kind in KINDS
}
# Answers each prediction of the page with each of the answers given for it, and tells what the
# page made of it: its state, and the reason that it marks.
ANSWER = """given => Object.entries(given).map(([name, answers]) => {
  const box = document.querySelector(`[data-name="${name}"]`);
  const place = (box, letter) => [...document.querySelectorAll(`[data-place="${letter}"]`)].filter(
    e => e.compareDocumentPosition(box) & Node.DOCUMENT_POSITION_FOLLOWING).at(-1);
  const [go, anew] = box.querySelectorAll(":scope > .u-bar button");
  return [name, answers.map(answer => {
    const list = box.querySelector(":scope > ul"), input = box.querySelector(".u-guess");
    if (box.dataset.kind === "choice") list.querySelector(`[value="${answer}"]`).click();
    else if (box.dataset.kind === "order") for (const letter of answer.split(", "))
      list.append([...list.children].find(e => e.innerText.trim().startsWith(`${letter}.`)
        || e.querySelector("strong").innerText === `${letter}.`));
    else if (box.dataset.kind === "cells") for (const cell of answer.split("; "))
      box.querySelector(`[data-cell="${cell}"]`).click();
    else if (box.dataset.kind === "places") for (const letter of answer.match(/\\b[a-z]\\b/g))
      place(box, letter).onclick();
    else input.value = answer;
    go.click();
    const yours = box.querySelector(".u-yours em");
    const said = [box.dataset.state, yours?.dataset.when ?? yours?.textContent ?? null];
    const kept = JSON.parse(localStorage["unrolled-predictions"]).predictions[name];
    anew.click();
    return [...said, kept.given, kept.right, box.dataset.state];
  })];
})"""


def page_of(name: str) -> str:
    return next(page for page in ASKED if soup(page).select_one(f'[data-name="{name}"]'))


def within(span: str) -> str:
    """A number in '1 to 5', 'above 5' or 'below 1'."""
    found = re.fullmatch(r"(?:above (\S+)|below (\S+)|(\S+)(?: to \S+)?)", span)
    above, below, low = found.groups()
    if low:
        return low
    return f"{number(above) + abs(number(above)) + 1}" if above else f"{number(below) - 1e-9}"


def tries(one: Prediction) -> list[str]:
    """The right answer, and one for each reason."""
    if one.kind == "number":
        return [one.right, *(within(wrong.when) for wrong in one.wrong)]
    if one.kind == "order":
        letters, found = sorted(one.options), [one.right]
        for wrong in one.wrong:
            first, then = wrong.when.split(" before ")
            rest = [x for x in letters if x not in (first, then)]
            found.append(", ".join([*rest, first, then]))
        return found
    return [one.right, *(wrong.when for wrong in one.wrong)]


@pytest.mark.parametrize("name", ASKED)
def test_the_page_judges_as_a_notebook_does(name, open_page):
    page = open_page(name, again=False)
    asked = [stored()[box["data-name"]] for box in soup(name).select(".u-asked")]
    given = {one.name: tries(one) for one in asked}
    for found, answers in page.evaluate(ANSWER, given):
        one = stored()[found]
        for answer, (state, marked, kept, right, after) in zip(given[found], answers, strict=True):
            assert right == one.is_right(answer), (found, answer)
            assert one.is_right(kept) == right
            assert state == ("right" if right else "wrong")
            assert bool(marked) == bool(one.why(answer)), (found, answer)
            assert after == ""


@pytest.mark.parametrize("kind", [kind for kind, name in FIRST_OF.items() if name])
def test_a_prediction_is_answered_by_keyboard(kind, open_page):
    one = stored()[FIRST_OF[kind]]
    page = open_page(page_of(one.name), "phone")
    page.evaluate("localStorage.clear()")
    page.reload()
    box = page.locator(f'[data-name="{one.name}"]')
    go = box.get_by_role("button", name="Commit")
    go.focus()
    page.keyboard.press("Enter")
    if kind == "choice":
        assert "Choose one first" in box.locator(".u-verdict").inner_text()
        page.keyboard.press("Space")  # the focus has gone to the first option
        for _ in range(sorted(one.options).index(one.right)):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
    elif kind in ("number", "text"):
        assert re.search("Give a number|Write your guess", box.locator(".u-verdict").inner_text())
        page.keyboard.type(one.right)
        page.keyboard.press("Enter")
    elif kind == "cells":
        for cell in re.findall(r"row \d+, column \d+", one.right):
            box.locator(f'[data-cell="{cell}"]').press("Space")
        go.press("Enter")
    elif kind == "places":
        assert "in the drawing above" in box.locator(".u-verdict").inner_text()
        for letter in one.options:  # the focus has gone to the first place
            here = page.evaluate("document.activeElement.dataset.place")
            assert here == letter
            if letter in one.right.split()[1:]:
                page.keyboard.press("Enter")
                assert page.evaluate("document.activeElement.ariaPressed") == "true"
                assert one.options[letter].strip("*") in box.locator(".u-marked").inner_text()
            page.keyboard.press("ArrowRight")
        go.press("Enter")
    else:  # an order is committed as it stands
        box.get_by_role("button", name="Try anew").press("Enter")
        for place, letter in enumerate(one.right.split(", ")):
            up = box.get_by_role("button", name=f"Move {letter} up")
            while box.locator("ul > li strong").all_inner_texts()[place] != f"{letter}.":
                up.press("Enter")
        go.press("Enter")
    assert box.get_attribute("data-state") == "right"
    assert "Right" in box.locator(".u-verdict").inner_text()
    assert box.locator("details").evaluate("fold => fold.open")
    page.reload()
    assert page.locator(f'[data-name="{one.name}"]').get_attribute("data-state") == "right"


def test_answered_pages_are_accessible(open_page):
    for name in {page_of(one) for one in FIRST_OF.values() if one}:
        page = open_page(name)
        page.evaluate("""() => document.querySelectorAll(".u-asked").forEach(box => {
          const first = box.querySelector(":scope > ul input, .u-cell button");
          if (first) first.click();
          else if (box.dataset.kind === "places")
            document.querySelectorAll(".u-place").forEach(place => place.onclick());
          else if (box.querySelector(".u-guess")) box.querySelector(".u-guess").value = "1";
          box.querySelector(".u-go").click();
        })""")
        assert axe(page) == []


PLACED = sorted(page_of(p.name) for p in stored().values() if p.kind == "places")


@pytest.mark.parametrize("view", ["desktop", "phone", "dark"])
@pytest.mark.parametrize("name", PLACED)
def test_a_place_is_hit_by_a_finger_and_says_what_it_is(name, view, open_page):
    page = open_page(name, view)
    page.evaluate("localStorage.clear()")
    page.reload()
    for box in soup(name).select('.u-asked[data-kind="places"]'):
        one = stored()[box["data-name"]]
        frame = page.locator(f'[data-name="{one.name}"]')
        assert frame.locator("ul").first.is_hidden()
        for letter, words in one.options.items():
            label = words.replace("*", "")
            place = page.get_by_role("button", name=label, exact=True)
            size = place.locator("path").bounding_box()
            assert min(size["width"], size["height"]) >= 24, (letter, size)
            # at the middle, and not by the element that a script names: what lies above it counts
            place.scroll_into_view_if_needed()
            size = place.locator("path").bounding_box()
            middle = (size["x"] + size["width"] / 2, size["y"] + size["height"] / 2)
            page.mouse.click(*middle)
            assert place.get_attribute("aria-pressed") == "true", letter
            page.mouse.click(*middle)
            assert place.get_attribute("aria-pressed") == "false", letter
        assert "nothing yet" in frame.locator(".u-marked").inner_text()


@pytest.mark.parametrize("name", PLACED)
def test_without_a_script_a_drawing_is_an_image_and_its_places_are_named(name):
    text = (SITE / name).read_text("utf8")
    for box in soup(name).select('.u-asked[data-kind="places"]'):
        drawing = text[: text.index(f'data-name="{box["data-name"]}"')].rpartition("<svg ")[2]
        drawing = drawing.partition("</svg>")[0]
        items = [li.strong.get_text().strip(".") for li in box.find("ul", recursive=False)("li")]
        assert re.findall('<g data-place="(.)">', drawing) == items
        assert drawing.startswith('role="img"')
        assert "tabindex" not in drawing


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_leads_to_the_cell_that_shows_it(name, open_page):
    page = open_page(name)
    page.evaluate("localStorage.clear()")
    given = {box["data-name"]: [tries(stored()[box["data-name"]])[-1]]
             for box in soup(name).select(".u-asked")}  # fmt: skip
    page.evaluate(ANSWER.replace("anew.click();", ""), given)
    for found in given:
        link = page.locator(f'[data-name="{found}"] .u-verdict a')
        here = link.bounding_box()["y"]
        said = link.inner_text()
        link.press("Enter")
        cell = page.locator(":focus")
        assert "cell" in cell.get_attribute("class").split()
        assert cell.evaluate("cell => getComputedStyle(cell).outlineWidth") == "2px"
        assert cell.locator("pre, figure, table").first.count()
        gap = page.evaluate("""name => document.querySelector(`[data-name="${name}"]`)
          .getBoundingClientRect().top - document.activeElement.getBoundingClientRect().top""",
                            found)  # fmt: skip
        assert said == ("See it above" if gap > 0 else "See it below"), (found, here)


def test_an_open_question_keeps_what_is_written(open_page):
    page = open_page(next(name for name in ASKED if soup(name).select_one("p.u-predict")))
    page.evaluate("localStorage.clear()")
    page.reload()
    fold = page.locator("details.u-open").first
    fold.locator("summary").click()
    fold.locator("textarea").fill("I think so.")
    page.reload()
    assert page.locator("details.u-open textarea").first.input_value() == "I think so."
    assert page.locator("details.u-open").first.evaluate("fold => fold.open")


def test_progress_counts_and_exports_predictions(open_page, tmp_path):
    page = open_page(ASKED[0])
    page.evaluate("localStorage.clear()")
    given = {name: [stored()[name].right] for name in list(stored())[:2]}
    page.evaluate(ANSWER.replace("anew.click();", ""), given)
    page = open_page("book/progress.html")
    page.wait_for_selector(f"text=2 of {len(stored())} predictions made, 2 of them right")
    assert "2 predicted, 2 right" in page.inner_text("#u-progress")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    file = Path(tmp_path) / "answers.json"
    download.value.save_as(file)
    assert {*json.loads(file.read_text("utf8"))["predictions"]} == {*given}
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Erase").click()
    page.wait_for_selector(f"text=0 of {len(stored())} predictions made")
    page.set_input_files("#u-progress input[type=file]", file)
    page.wait_for_selector(f"text=2 of {len(stored())} predictions made")


@pytest.mark.parametrize("name", ASKED)
def test_without_a_script_the_answer_is_folded_below_its_question(name):
    for box in soup(name).select(".u-asked"):
        fold = box.find("details", recursive=False)
        assert fold.summary.get_text() == "Answer"
        assert fold.find("strong").get_text().startswith(box["data-right"][:3])
        assert not fold.has_attr("open")
