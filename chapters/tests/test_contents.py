"""The table of contents and the chapters tell the same story."""

from __future__ import annotations

import re

import pytest
import yaml
from book.tools.generate import concept_map
from book.tools.live import listings
from book.tools.notebooks import ROOT, chapter_paths, published
from book.tools.notebooks.links import short
from unrolled_book.cards import of_chapter
from unrolled_book.predictions import of_notebook

from rules_text import bibliography

PAGES = ("README.md", "CONTRIBUTING.md", "index.md", "book/how-to-use.md", "book/about.md")


def listed() -> list[str]:
    """The chapters of the table of contents, in its order; b-chapters are `sections` there."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text("utf8"))
    chapters = [entry for part in contents["parts"] for entry in part["chapters"]]
    files = [e["file"] for entry in chapters for e in (entry, *entry.get("sections", ()))]
    return [name.removeprefix("chapters/") for name in files if name.startswith("chapters/")]


def differences(in_contents: list[str], in_book: list[str], drafts: list[str]) -> list[str]:
    """What to do so that the table of contents lists the chapters of the book, in their order."""
    said = [
        f"chapters/{stem} is not in _toc.yml: list it there under its part"
        for stem in in_book
        if stem not in in_contents
    ]
    for stem in in_contents:
        if stem in drafts:
            said.append(f"{stem} is a draft in _toc.yml: take it out, or make publish NAME={stem}")
        elif stem not in in_book:
            said.append(f"_toc.yml lists chapters/{stem}, which is not there: take it out")
    if not said and in_contents != in_book:
        said.append(f"_toc.yml lists the chapters out of order; expected {in_book}")
    return said


def test_the_table_of_contents_lists_the_chapters_in_order():
    in_book = [path.stem for path in published()]
    drafts = [path.stem for path in chapter_paths() if path.stem not in in_book]
    assert not differences(listed(), in_book, drafts)


@pytest.mark.parametrize(
    ("in_contents", "says"),
    [
        (["01_a"], "chapters/02_b is not in _toc.yml: list it"),
        (["01_a", "02_b", "03_c"], "03_c is a draft in _toc.yml: take it out, or make publish"),
        (["01_a", "02_b", "04_d"], "lists chapters/04_d, which is not there"),
        (["02_b", "01_a"], "out of order"),
    ],
)
def test_a_difference_is_told_with_what_to_do(in_contents, says):
    told = differences(in_contents, ["01_a", "02_b"], ["03_c"])
    assert len(told) == 1
    assert says in told[0]


def test_every_source_of_the_bibliography_is_cited():
    pages = [*(ROOT / "chapters").glob("*.ipynb"), *(ROOT / "book").glob("*.md")]
    text = short("\n".join(page.read_text("utf8") for page in pages))
    uncited = [key for key in sorted(bibliography()) if f"(cite:{key})" not in text]
    assert not uncited, f"cite {', '.join(uncited)}, or take them out of book/references.bib"


@pytest.mark.parametrize("page", PAGES)
def test_no_page_counts_the_chapters_by_hand(page):
    text = (ROOT / page).read_text("utf8")
    counts = r"(?i)\b(?:\d+|[a-z]*teen|ten|eleven|twelve|(?:twen|thir|for)ty\S*) chapters\b"
    typed = re.findall(counts, text)
    assert not typed, f"{page} counts them; only the landing page does, when it is built"


@pytest.mark.parametrize("path", published(), ids=lambda path: path.stem)
def test_a_chapter_asks_for_predictions_and_has_cards(path):
    kinds = [one.kind for one in of_notebook(path)]
    assert len(kinds) >= 4
    assert {"number", "cells"} & set(kinds)
    assert 5 <= len(of_chapter(path)) <= 8


@pytest.mark.parametrize("path", published(), ids=lambda path: path.stem)
def test_a_chapter_has_listings_that_a_reader_can_try_in_the_page(path):
    """With what they need from before, which needs no torch and no matplotlib."""
    found = listings.of_chapter(path)
    assert 1 <= len(found) <= 4
    for listing in found:
        assert listing.printed or listing.value, f"cell {listing.cell} shows nothing"
        assert len(listing.before) < 3_000, f"cell {listing.cell} needs much from before"


def test_every_card_belongs_to_a_chapter():
    files = {path.stem for path in (ROOT / "book" / "cards").iterdir()}
    assert files == {path.stem for path in published()}
    names = [card.name for path in published() for card in of_chapter(path)]
    assert len(set(names)) == len(names)


def test_each_path_through_the_book_is_closed():
    every = concept_map.chapters()
    for way in concept_map.ways():
        assert list(way.chapters) == [n for n in every if n in way.chapters], way.name
        assert set(concept_map.missing(way.chapters, every)) <= set(way.knows), way.name
        assert not set(way.chapters) & set(way.knows), way.name


def test_no_chapter_needs_itself_by_a_detour():
    every = concept_map.chapters()
    for n, one in every.items():
        assert all(list(every).index(need) < list(every).index(n) for need in one.needs)


def test_the_map_draws_every_chapter():
    assert set(concept_map.places()) == set(concept_map.chapters())
