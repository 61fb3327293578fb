"""The landing page: its list as it is shown, its numbers as they are counted, what it loads."""

from __future__ import annotations

import html
import re
import sys

import pytest
import yaml
from conftest import ROOT, SITE, soup
from unrolled_book import exercises
from unrolled_book.experiments import ladder, record

from book.tools.notebooks import number, published, read
from book.tools.notebooks.weight import weigh

sys.path.append(str(ROOT / "book" / "extensions"))
import landing

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
CFF = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf8"))


def text(selector: str) -> str:
    return " ".join(soup("index.html").select_one(selector).get_text(" ").split())


# ---- the list of the chapters --------------------------------------------------------------------

# Number, link, line and left edge of each chapter, from top to bottom as a reader sees them.
LISTED = """() => [...document.querySelectorAll(".u-road li")].map(li => ({
  number: li.querySelector(":scope > .u-n").innerText,
  link: li.querySelector(":scope > a").pathname,
  line: li.querySelector(":scope > .u-one").innerText,
  left: li.querySelector(":scope > a").getBoundingClientRect().left,
  top: li.querySelector(":scope > a").getBoundingClientRect().top,
  within: li.parentNode.closest("li")?.querySelector(".u-n").innerText ?? null,
}))"""


@pytest.mark.parametrize("view", ["desktop", "phone"])
def test_the_list_shows_each_chapter_in_its_place(view, open_page):
    listed = open_page("index.html", view).evaluate(LISTED)
    stand = published()
    assert [one["number"] for one in listed] == [number(path.stem) for path in stand]
    assert [one["link"].rpartition("/")[2] for one in listed] == [f"{p.stem}.html" for p in stand]
    assert [one["top"] for one in listed] == sorted(one["top"] for one in listed)
    whole = {one["left"] for one in listed if one["within"] is None}
    assert len(whole) == 1, "the chapters stand below each other"
    for one in listed:
        letter = one["number"][-1].isalpha()
        assert one["within"] == (one["number"][:-1] if letter else None)
        assert (one["left"] > min(whole)) == letter, "one with a letter is set in"
        assert 10 < len(one["line"]) < 160


def test_the_minutes_are_those_that_are_counted():
    shown = [tag.get_text() for tag in soup("index.html").select(".u-road .u-min")]
    counted = [weigh(read(path)).minutes for path in published()]
    assert shown == [f"{minutes}\xa0min" for minutes in counted]
    assert f"Start with chapter 1 · {counted[0]} minutes" in text(".u-go")
    assert f"{len(counted)} chapters, {round(sum(counted) / 60)} hours" in text(".u-ways")


def test_a_promise_becomes_one_line():
    line = landing.one_line
    assert line("In this chapter we build a model, and break it.") == "Build a model, and break it."
    long = (
        "Two stacks of blocks differ only in the place of a norm: one learns, the other does not."
    )
    assert line(long) == "Two stacks of blocks differ only in the place of a norm."
    assert line("How large a model? We count.") == "How large a model?"
    assert line('We turn "better" into a number.') == "Turn “better” into a number."


def test_a_chapter_without_minutes_is_told_so(tmp_path):
    (tmp_path / "01_a.ipynb").write_text(
        '{"cells": [{"source": ["# 1. A\\n", "\\n", "*Promise.*"]}]}', "utf8"
    )
    with pytest.raises(ValueError, match=r"01_a\.ipynb: the opening says no"):
        landing.Chapter.read(tmp_path, "01_a")


# ---- numbers, citation ---------------------------------------------------------------------------


def test_exercises_and_wrong_answers_are_counted():
    every = [f"{c}/{n}" for c, names in exercises.chapters().items() for n in names]
    wrong = sum(len(exercises.load(name).wrong) for name in every)
    assert f"{len(every)} exercises" in text(".u-ways")
    assert f"{wrong:,} wrong answers" in text(".u-ways")


def test_no_number_of_the_words_is_typed():
    typed = re.findall(
        r"(?<![\w(/#_.-])\d[\d.,]*(?! runs in|\w)", (ROOT / "index.md").read_text("utf8")
    )
    said = [one for one in typed if one not in {"200", "300"}]  # the size of the cover
    assert said == ["20"], "index.md: only chapter 20 is named by its number"


def test_a_name_or_a_place_that_is_wrong_is_named():
    made = dict.fromkeys(("front", "rungs", "contents"), "x")
    whole = "<!-- front --><!-- rungs --><!-- contents -->((exercises))"
    assert landing.filled(whole, made, {"exercises": 1453}) == "xxx1,453"
    with pytest.raises(ValueError, match=r"asks for \(\(exercise\)\)"):
        landing.filled(whole.replace("s))", "))"), made, {"exercises": 1})
    with pytest.raises(ValueError, match="no <!-- rungs -->"):
        landing.filled(whole.replace("rungs", ""), made, {"exercises": 1})


def test_the_ladder_shows_the_records_best_and_says_who_is_ahead():
    shown = [tag.get_text(" ", strip=True) for tag in soup("index.html").select(".u-rungs li")]
    assert shown[0].startswith("uniform")
    scores = {row["model"]: row["test_bits_per_byte"] for row in ladder.rows()}
    for name in ("LSTM (384 units)", "Transformer (4 layers of 128)"):
        assert f"{name.split()[0]} {scores[name]:.2f}" in shown
    assert len(shown) == 1 + len(ladder.RECORDS)
    assert scores["LSTM (384 units)"] < scores["Transformer (4 layers of 128)"]
    assert "our LSTM is ahead of our Transformer" in text(".u-rungs")
    later = record.load("c20_longer")["metrics"]["rows"]
    assert min(later, key=lambda row: row["test_bits_per_byte"])["model"].startswith("Transformer")
    assert "after twice that time it is the other way round" in text(".u-rungs")


def test_what_the_ladder_says_follows_its_rows():
    rows = [{"model": "A (1)", "test_bits_per_byte": 2.0, "seconds": 100},
            {"model": "B, x", "test_bits_per_byte": 1.5, "seconds": 101}]  # fmt: skip
    assert "our B is ahead of our A</b>, 1.500 to 2.000; after twice that time it is still so" in (
        landing.verdict(rows, rows)
    )
    with pytest.raises(ValueError, match="took different times"):
        landing.verdict([rows[0] | {"seconds": 50}, rows[1]], rows)


def test_the_page_can_be_cited():
    assert text(".u-by").startswith(f"{CONFIG['author']} · version {CFF['version']}")
    line, bibtex = landing.cited(CFF, CONFIG["copyright"], "https://a.b/")
    shown = text(".u-cite-it")
    assert line.removesuffix("https://a.b/") in shown
    assert f"author = {{{{{CFF['authors'][0]['name']}}}}}" in bibtex
    assert html.escape(bibtex.split("url")[0]) in (SITE / "index.html").read_text("utf8")


def test_people_are_cited_by_their_names():
    people = [{"given-names": "Ada", "family-names": "Lovelace"}, {"name": "The Others"}]
    line, bibtex = landing.cited(CFF | {"authors": people}, "2026", "https://a.b/")
    assert line.startswith("Ada Lovelace, The Others (2026). ")
    assert "author = {Ada Lovelace and {The Others}}" in bibtex
