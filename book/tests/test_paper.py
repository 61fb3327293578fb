"""The PDF of two pages: what a printed book owes its reader."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from pypdf import PdfReader

from book.extensions.imprint import Imprint
from book.tools.epub.leaves import Leaf, contents, leaves
from book.tools.notebooks import ROOT
from book.tools.paper.__main__ import build
from book.tools.paper.document import Document, qr

IMPRINT = Imprint.read(ROOT)
BASE = "https://example.org/book/"
TWO = {"chapters/01_chain_rule.html", "book/errata.html"}


def chosen() -> list[Leaf]:
    return leaves(BASE, [entry for entry in contents() if entry[1] in TWO])


@pytest.fixture(scope="module")
def pdf(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> PdfReader:
    out = tmp_path_factory.mktemp("paper") / "two.pdf"
    too_wide = build(Document(chosen(), BASE, IMPRINT), browser, out)
    assert not too_wide
    return PdfReader(out)


@pytest.fixture(scope="module")
def texts(pdf: PdfReader) -> list[str]:
    return [" ".join(page.extract_text().split()) for page in pdf.pages]


def test_the_contents_name_the_page_of_each_entry(texts: list[str]) -> None:
    entry = re.search(r"1\. The chain rule of language (\d+)", texts[1])
    assert entry, texts[1]
    number = entry[1]
    page = texts[int(number) - 1]
    assert "You will be able to" in page
    assert f"{IMPRINT.title} 1. The chain rule of language {number} " in page, (
        "head and foot say another"
    )


def test_an_exercise_and_its_solution_name_each_others_pages(texts: list[str]) -> None:
    told = [
        (i, int(n)) for i, t in enumerate(texts, 1) for n in re.findall(r"Solution: page (\d+)", t)
    ]
    assert len(told) >= 4
    for exercise, solution in told:
        backs = re.findall(r"Exercise: page (\d+)", texts[solution - 1])
        assert {str(exercise), str(exercise - 1)} & set(backs), (exercise, solution)


def test_folded_code_and_checks_are_left_out_and_visible_code_is_there(texts: list[str]) -> None:
    text = " ".join(texts)
    assert "# Code of the figure" not in text
    assert 'check("' not in text
    assert "def " in text


def test_the_file_says_what_it_is_and_brings_its_fonts(pdf: PdfReader) -> None:
    assert pdf.metadata.title == IMPRINT.whole
    assert pdf.metadata.author == IMPRINT.author
    assert [one.title for one in pdf.outline if not isinstance(one, list)]
    fonts = [
        font.get_object()
        for page in pdf.pages
        for font in page["/Resources"].get("/Font", {}).values()
    ]
    assert fonts
    for font in fonts:
        inner = font.get("/DescendantFonts", [font])[0].get_object()
        described = inner.get("/FontDescriptor", {})
        embedded = {"/FontFile", "/FontFile2", "/FontFile3"} & set(described)
        assert embedded or font["/Subtype"] == "/Type3", font


def test_each_chapter_leads_to_its_page_on_the_web(pdf: PdfReader) -> None:
    links = {
        note.get_object()["/A"]["/URI"]
        for page in pdf.pages
        for note in page.get("/Annots", [])
        if "/URI" in note.get_object().get("/A", {})
    }
    assert f"{BASE}chapters/01_chain_rule.html" in links
    assert all(link.startswith("https://") for link in links)
    assert qr(BASE).startswith("<svg")


def test_a_link_that_leads_nowhere_stops_the_print(tmp_path: Path, browser: Browser) -> None:
    document = Document(chosen(), BASE, IMPRINT)
    document.leaves[0].body.select_one("a[href^='#']")["href"] = "#nowhere"
    with pytest.raises(ValueError, match="lead nowhere: #nowhere"):
        build(document, browser, tmp_path / "never.pdf")
