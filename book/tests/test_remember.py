"""The page Today, the map with its paths, and what is there for programs."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import sys
import zipfile

import pytest
from bs4 import BeautifulSoup
from conftest import ROOT, SITE, axe, pages, weight
from unrolled_book import exercises
from unrolled_book.cards import of_chapter

sys.path.append(str(ROOT / "book" / "extensions"))
from formulas import set_all
from remember import html

TODAY, MAP, FIRST = "book/today.html", "book/map.html", "01_chain_rule"
CHAPTERS = [name for name in pages() if name.startswith("chapters/")]


@pytest.fixture
def today(open_page):
    page = open_page(TODAY)
    page.evaluate("localStorage.clear()")
    page.clock.install(time="2026-03-01T10:00:00")
    page.goto(f"{page.url}#deck-{FIRST}")
    page.reload()
    return page


def n_due(page) -> int:
    page.wait_for_selector(".u-card [role=status]")
    found = re.match(r"(\d+) cards?", page.inner_text(".u-card [role=status]"))
    return int(found[1]) if found else 0


def answer(page, label) -> None:
    """Turn the card by keyboard and say whether it was known."""
    page.get_by_role("button", name="Show the answer").press("Enter")
    page.get_by_role("button", name=label).press("Enter")


def test_cards_come_back_after_longer_and_longer_times(today):
    assert today.evaluate("document.activeElement.closest('li')?.id") == f"deck-{FIRST}"
    today.keyboard.press("Space")
    today.wait_for_selector("text=cards for today")
    n = n_due(today)
    assert 5 <= n <= 8
    answer(today, "Not yet")
    assert n_due(today) == n  # it comes back in this sitting
    for _ in range(n):
        answer(today, "I knew it")
    assert "Nothing is due" in today.inner_text(".u-card")
    for days, back in ((1, n), (2, 0), (1, n), (6, 0), (1, n)):
        today.clock.fast_forward(days * 24 * 3600 * 1000)
        today.reload()
        assert n_due(today) == back, days
        for _ in range(back):
            answer(today, "I knew it")


def test_what_is_known_stays_and_leaves_with_the_chapter(today):
    today.keyboard.press("Space")
    today.wait_for_selector("text=cards for today")
    answer(today, "I knew it")
    n = n_due(today)
    today.reload()
    assert n_due(today) == n
    today.locator(f"#deck-{FIRST} input").press("Space")
    assert "No chapter is added yet" in today.inner_text(".u-card")


@pytest.mark.parametrize("view", ["desktop", "phone"])
def test_a_card_and_the_map_are_accessible(view, open_page):
    page = open_page(TODAY, view)
    page.evaluate("localStorage.clear()")
    page.reload()
    page.locator(f"#deck-{FIRST} input").check()
    page.get_by_role("button", name="Show the answer").click()
    page.wait_for_selector(".u-back .katex")
    assert axe(page) == []
    page = open_page(MAP, view)
    page.locator('a[data-n="14"]').click()
    assert axe(page) == []


def test_the_map_says_what_a_chapter_needs_by_keyboard(open_page):
    page = open_page(MAP)
    page.evaluate("localStorage.clear()")
    page.reload()
    page.locator('a[data-n="2b"]').focus()
    needs = page.eval_on_selector_all("a.u-need", "all => all.map(a => a.dataset.n)")
    assert needs == ["1", "2"]
    page.keyboard.press("Enter")
    assert "2b. Smoothing" in page.inner_text(".u-map-said")
    page.keyboard.press("Enter")  # the second time it leads there
    page.wait_for_url("**/02b_smoothing.html")


def test_a_chapter_says_where_the_reader_is_on_the_chosen_path(open_page):
    page = open_page(MAP)
    page.locator("#u-map select").select_option("attention")
    page = open_page("chapters/15_masking.html")
    assert page.inner_text(".u-on-path").startswith("Attention in an evening: 2 of 6.")
    assert page.get_attribute(".u-on-path a:last-of-type", "href") == "16_multihead.html"
    page = open_page("chapters/13_seq2seq.html")
    assert not page.locator(".u-on-path").count()
    page.evaluate("localStorage.clear()")


def test_each_chapter_leads_to_its_cards():
    for name in CHAPTERS:
        text = (SITE / name).read_text("utf8")
        assert f'../book/today.html#deck-{name[9:-5]}"' in text


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_ends_with_its_cards_folded_and_light(name):
    text = (SITE / name).read_text("utf8")
    fold = BeautifulSoup(text, "html.parser").select_one("details.u-cards")
    cards = of_chapter(ROOT / "chapters" / f"{name[9:-5]}.ipynb")
    assert fold.summary.get_text() == f"Remember this chapter: {len(cards)} cards"
    assert not fold.has_attr("open")
    items = fold.ol.find_all("li", recursive=False)
    asked = set_all(html(side) for card in cards for side in (card.front, card.back))
    sides = [BeautifulSoup(side, "html.parser").decode() for side in asked]
    for item, own_front, own_back in zip(items, sides[::2], sides[1::2], strict=True):
        front, back = item.find_all(["div", "details"], recursive=False)
        assert front.decode_contents() == own_front
        assert not back.has_attr("open")
        assert back.div.decode_contents() == own_back
    cut = text.index('<details class="u-cards">'), text.index('<p class="u-remember">')
    without = (text[: cut[0]] + text[cut[1] :]).encode()
    assert weight(SITE / name) - len(gzip.compress(without, 6)) < 3000


def test_the_deck_has_every_card(tmp_path):
    text = (SITE / "_static" / "cards.js").read_text("utf8")
    with zipfile.ZipFile(SITE / "_static" / "unrolled.apkg") as deck:
        deck.extract("collection.anki2", tmp_path)
    with sqlite3.connect(tmp_path / "collection.anki2") as base:
        names = {row[0] for row in base.execute("select guid from notes")}
        written = base.execute("select min(id), min(mod), max(mod) from notes").fetchone()
    assert names == set(re.findall(r'"name": "(\d\d\w*-[0-9a-f]{8})"', text))
    assert len(names) >= 5 * len(CHAPTERS)
    # Anki cannot open a note number 0, and takes an old note for the one it has
    assert min(written) > 1_700_000_000
    assert written[1] == written[2]


# ---- for programs -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapters_markdown_has_no_line_of_a_solution(name):
    text = (SITE / name).with_suffix(".md").read_text("utf8")
    stem = name[9:-5]
    cells = json.loads((ROOT / "chapters" / f"{stem}.ipynb").read_text("utf8"))["cells"]
    own = [c for c in cells if "exercise" not in c["metadata"].get("tags", [])]
    told = {" ".join(line.split()) for c in own for line in "".join(c["source"]).splitlines()}
    lines = {" ".join(line.split()) for line in text.splitlines()} - told
    for short in exercises.chapters()[f"c{stem}"]:
        one = exercises.load(f"c{stem}/{short}")
        assert one.title in text
        open_code = " ".join((one.starter + one.statement).split())
        for line in one.solution_source.splitlines():
            plain = " ".join(line.split())
            if len(plain) >= 30 and plain not in open_code and not plain.startswith(('"""', "#")):
                assert plain not in lines, (short, plain)
    assert "<details><summary>Solution" not in text
    assert "```text" in text
    assert "## What the checks of the exercises know" in text


def test_the_list_for_programs_leads_to_what_is_there():
    text = (SITE / "llms.txt").read_text("utf8")
    found = re.findall(r"\]\(https://[^/]+/unrolled/([^)]+)\): \S", text)
    assert len(found) > len(CHAPTERS)
    assert all((SITE / page).is_file() for page in found)
    assert sum(page.endswith(".md") for page in found) == len(CHAPTERS)
