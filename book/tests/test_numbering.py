"""Numbers to cite: on the built pages of all chapters."""

from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup, Tag
from conftest import SITE, soup

from book.extensions.numbering import Numbers
from book.tools.epub.__main__ import pages
from book.tools.epub.leaves import contents, leaves

BASE = "https://example.org/book/"
CHAPTERS = [entry for entry in contents() if entry[1].startswith("chapters/")]
PATHS = [path for _, path in CHAPTERS]
KINDS = ("Figure", "Table", "Equation")


def told(body: Tag) -> list[str]:
    """The numbers of an article, in its order: "Figure 14.1", "Equation 14.1"."""
    texts = [each.get_text() for each in body.select(".u-no, .no")]
    return [re.sub(r"^\((.+)\)$", r"Equation \1", text) for text in texts]


def article(path: str) -> Tag:
    return soup(path).select_one("article.bd-article")


@pytest.mark.parametrize("path", PATHS)
def test_what_can_be_cited_is_numbered_in_its_order(path):
    body = article(path)
    chapter = re.search(r"/0*(\d+[a-z]?)_", path)[1]
    tables = body.select("figure:has(caption)")
    due = {
        "Figure": [each for each in body.select("figure") if "u-table" not in each["class"]],
        "Table": tables,
        "Equation": [each for each in body.select("div.math") if r"\boxed" in each.get_text()],
    }
    found = told(body)
    for kind in KINDS:
        own = [number for number in found if number.startswith(kind)]
        assert own == [f"{kind} {chapter}.{n}" for n in range(1, len(due[kind]) + 1)]
        for number, each in zip(own, due[kind], strict=True):
            holder = each.parent if kind == "Equation" else each
            assert holder["id"] == re.sub(r"\W+", "-", number.lower())
            (link,) = holder.select(".u-no")
            assert link["href"] == f"#{holder['id']}"
            assert kind == "Equation" or link.parent.name in {"figcaption", "caption"}


@pytest.mark.parametrize("path", PATHS)
def test_the_markdown_has_the_numbers_of_its_page(path):
    text = (SITE / path).with_suffix(".md").read_text("utf8")
    found = re.findall(
        r"^\[(Figure [\w.]+)\b|^(Table [\w.]+)\. |\\tag\{(.*?)\}", text, re.MULTILINE
    )
    said = [a or b or f"Equation {c}" for a, b, c in found]
    assert said == told(article(path))


def test_the_epub_has_each_number_once(browser):
    path = "chapters/14_attention.html"
    made, _ = pages(leaves(BASE, [entry for entry in CHAPTERS if entry[1] == path]), BASE, browser)
    body = BeautifulSoup(made[0].body, "html.parser")
    found = told(body)
    assert found == told(article(path))
    assert {"Figure 14.1", "Table 14.1", "Equation 14.1"} <= set(found)
    for number in found:
        if not number.startswith("Equation"):
            assert len(re.findall(rf"{number}(?!\d)", body.get_text())) == 1, number


def test_what_is_no_chapter_and_what_has_no_caption_have_no_number():
    assert Numbers.of("book/ladder") is None
    bare = '<figure class="u-figure u-table"><table></table></figure>'
    page = bare + '<figure class="u-figure"><svg></svg></figure>'
    numbered = Numbers.of("chapters/02b_smoothing").on_page(page)
    assert numbered.startswith(bare)
    assert '<figcaption><a class="u-no" href="#figure-2b-1">Figure 2b.1</a></figcap' in numbered
