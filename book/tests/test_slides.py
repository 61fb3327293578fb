"""The decks: what stands on their slides, and how they behave in a lecture."""

from __future__ import annotations

import functools
import html
import json
import re

import pytest
from bs4 import BeautifulSoup
from conftest import AT_REST, AXE, COLOURS, LOOK, RUN_AXE, SITE, THIN, Visit, noted
from playwright.sync_api import Page

from book.tools.notebooks import CHAPTERS, chapter_paths
from book.tools.slides import words
from book.tools.slides.__main__ import slides_of
from book.tools.slides.blocks import PLACE, _said
from book.tools.slides.deck import LESSON, Slide

CHAPTER_NAMES = [path.stem for path in chapter_paths()]
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
SHOWN_APART = re.compile(r"<(figure|table|pre)\b.*?</\1>", re.DOTALL)
slides = functools.cache(lambda name: slides_of(name)[1])


def prose(slide: Slide) -> str:
    """What is read on a slide, without formulas, figures, tables and code."""
    return SHOWN_APART.sub(" ", PLACE.sub(" ", slide.heading + " " + slide.body))


@pytest.mark.parametrize("name", CHAPTER_NAMES)
def test_a_deck_fills_a_lesson_and_its_slides_are_short(name: str) -> None:
    deck = slides(name)
    assert 20 <= len(deck) <= 32
    assert sum(slide.minutes for slide in deck) == pytest.approx(LESSON, abs=1)
    long = {i: words.count(prose(slide)) for i, slide in enumerate(deck, 1)
            if slide.kind != "poll" and i > 2}  # fmt: skip
    assert {i: n for i, n in long.items() if n > 55} == {}
    assert all(slide.notes for slide in deck if slide.kind == "poll")


@pytest.mark.parametrize("name", CHAPTER_NAMES)
def test_every_number_on_a_slide_stands_in_the_chapter(name: str) -> None:
    notebook = (CHAPTERS / f"{name}.ipynb").read_text("utf8")
    cells = json.loads(notebook)["cells"]
    known = set(NUMBER.findall(json.dumps(cells, ensure_ascii=False)))
    shown = html.unescape(re.sub("<[^>]+>", " ", " ".join(map(prose, slides(name)))))
    assert set(NUMBER.findall(shown)) - known == set()


@pytest.mark.parametrize("name", CHAPTER_NAMES)
def test_a_boxed_formula_is_on_the_deck(name: str) -> None:
    chapter, deck = slides_of(name)
    boxed = [b for b in chapter.blocks if b.boxed and b.shown is not False]
    page = "".join(chapter.parts)
    assert sum(b.boxed for b in chapter.blocks) == page.count('<menclose notation="box">')
    assert [b.tag for b in boxed if not any(str(b.tag) in slide.body for slide in deck)] == []


def test_a_sentence_leads_to_the_question_after_it() -> None:
    asked = next(slide for slide in slides("21_generation") if "To be, or not to be" in slide.body)
    lead, question = asked.body.index("plainest"), asked.body.index("Predict.")
    assert asked.kind == "poll"
    assert lead < question


def test_a_sentence_is_found_by_its_beginning_and_can_be_cut() -> None:
    text = BeautifulSoup("<p>One <b>two</b>, three. Is it four? It is.</p>", "html.parser").p
    found = words.sentences(text)
    assert [one.text for one in found] == ["One two, three.", "Is it four?", "It is."]
    assert words.said("One", found) == "One <b>two</b>, three."
    assert words.said("One … two", found) == "One <b>two</b>."
    assert words.said("Is … It is", found) == "Is it four? It is."
    with pytest.raises(ValueError, match="no sentence begins with 'Two'"):
        words.said("Two", found)
    text = BeautifulSoup("<p>He et al. (2016) say so. True.</p>", "html.parser").p
    assert [one.text for one in words.sentences(text)] == ["He et al. (2016) say so.", "True."]


def test_metadata_that_nobody_reads_are_refused() -> None:
    with pytest.raises(ValueError, match=r"cell 7: .*'skip'"):
        _said({"id": "7", "metadata": {"slide": {"skip": True}}})
    with pytest.raises(ValueError, match="'picture'"):
        _said({"id": "7", "metadata": {"slide": {"show": ["picture"]}}})


# ---- in a browser --------------------------------------------------------------------------------

OVERFLOWS = """() => [...document.querySelectorAll("section.s-slide")].flatMap((slide, i) => {
  const page = slide.getBoundingClientRect(), body = slide.querySelector(".s-body");
  const parts = slide.querySelectorAll(":scope *:not(.notes, .notes *, .katex *, svg *)");
  const out = [...parts].filter(e => {
    const box = e.getBoundingClientRect();
    return box.width && !e.closest(".u-status, .u-unseen") && (box.right > page.right + 1
      || box.bottom > page.bottom + 1 || box.left < page.left - 1 || box.top < page.top - 1);
  });
  const small = parseFloat(getComputedStyle(body).fontSize) < 17;
  const code = slide.querySelectorAll("div.highlight");
  out.push(...[...code].filter(e => e.scrollWidth > e.clientWidth + 1));
  return [...out.map(e => e.outerHTML.slice(0, 80)), ...(small ? ["small"] : [])]
    .map(what => `${i + 1}: ${what}`);
})"""


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    if not (SITE / "slides" / "01_chain_rule.html").exists():
        pytest.fail(f"no decks in {SITE / 'slides'}; build them with: make slides")


@pytest.fixture(scope="module")
def looked_at() -> set[str]:
    """The looks of texts whose contrast has been measured, on whatever deck."""
    return set()


@pytest.mark.parametrize("name", CHAPTER_NAMES)
def test_every_slide_of_a_deck_fits_and_can_be_read(
    name: str, open_page, address: str, looked_at: set[str]
) -> None:
    seen = Visit(name)
    page = open_page("404.html")
    with noted(page, seen):
        page = open_page(f"slides/{name}.html?print-pdf")
        page.wait_for_selector("html[data-fitted]", state="attached")
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith(address)] == []
    assert page.locator("section.s-slide").count() == len(slides(name))
    assert page.evaluate(OVERFLOWS) == []
    page.add_script_tag(path=AXE)
    page.evaluate(THIN)
    for theme, rules in (("light", None), ("dark", COLOURS)):
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        page.evaluate(AT_REST)
        looked_at.update(page.evaluate(LOOK, [*looked_at]))
        found = page.evaluate(RUN_AXE, rules)
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


@pytest.fixture
def lecture(open_page) -> Page:
    page = open_page("slides/14_attention.html")
    page.wait_for_function("window.deck?.isReady()")
    return page


AT = "[deck.getIndices().h, deck.getIndices().f]"


def go_to(page: Page, selector: str) -> None:
    """Turn to the first slide that has this, with no fragment shown."""
    page.evaluate("""s => deck.slide([...document.querySelectorAll("section.s-slide")].indexOf(
        document.querySelector(s).closest("section")), 0, -1)""", selector)  # fmt: skip


def test_the_answer_of_a_poll_comes_after_its_question(lecture: Page) -> None:
    go_to(lecture, ".s-poll .s-answer")
    answer = lecture.locator("section.present .s-answer.visible")
    assert answer.count() == 0
    lecture.keyboard.press("ArrowRight")
    assert answer.count() == 1


def test_a_clicker_steps_a_figure_and_goes_back(lecture: Page) -> None:
    go_to(lecture, ".u-explore .s-step")
    slide = lecture.evaluate("deck.getIndices().h")
    slider = lecture.locator("section.present form input")
    assert slider.input_value() == "0"
    drawing = lecture.locator("section.present .u-frame").inner_html()
    lecture.keyboard.press("ArrowRight")
    lecture.keyboard.press("ArrowRight")
    assert (slider.input_value(), lecture.evaluate("deck.getIndices().h")) == ("2", slide)
    assert lecture.locator("section.present .u-frame").inner_html() != drawing
    lecture.keyboard.press("ArrowLeft")
    assert slider.input_value() == "1"


def test_keys_within_a_figure_turn_no_slide(lecture: Page) -> None:
    go_to(lecture, ".u-explore .s-step")
    at = lecture.evaluate(AT)
    lecture.locator("section.present form input").focus()
    lecture.keyboard.press("ArrowRight")
    lecture.locator("section.present form button").last.focus()
    lecture.keyboard.press("Space")
    assert lecture.locator("section.present form input").input_value() == "2"
    assert lecture.evaluate(AT) == at
    lecture.keyboard.press("Escape")
    lecture.keyboard.press("ArrowRight")
    assert lecture.evaluate(AT) != at


GROUND = "getComputedStyle(document.body).backgroundColor"


def test_dark_is_a_key_away(lecture: Page) -> None:
    assert lecture.evaluate(GROUND) == "rgb(255, 255, 255)"
    lecture.keyboard.press("d")
    assert lecture.evaluate(GROUND) == "rgb(20, 24, 30)"


def test_the_model_runs_on_its_slide(open_page) -> None:
    page = open_page("slides/20_transformer_lm.html")
    page.wait_for_function("window.deck?.isReady()")
    go_to(page, ".u-model")
    page.wait_for_selector("section.present .u-model button, section.present .u-model textarea")
