"""Numbers to cite, and the archive of figures: on the built pages of all chapters."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from bs4 import BeautifulSoup, Tag
from conftest import ROOT, SITE, soup
from playwright.sync_api import Browser
from pypdf import PdfReader

from book.extensions.imprint import Imprint
from book.extensions.numbering import Numbers
from book.tools.epub.__main__ import pages
from book.tools.epub.leaves import contents, leaves
from book.tools.figures.__main__ import FOLDER, build
from book.tools.figures.figure import Figure, figures

BASE = "https://example.org/book/"
WHEN = datetime(2026, 5, 17, 12, tzinfo=UTC)
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


# ---- the archive ---------------------------------------------------------------------------------


def drawn(path: str) -> list[Figure]:
    found = leaves(BASE, [entry for entry in CHAPTERS if entry[1] == path])
    return list(figures(found, BASE, Imprint.read(ROOT)))


@pytest.fixture(scope="module")
def pack(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The archive of chapter 15, of whose figures one is no drawing."""
    out = tmp_path_factory.mktemp("figures") / "figures.zip"
    build(drawn("chapters/15_masking.html"), browser, out, Imprint.read(ROOT), WHEN)
    return zipfile.ZipFile(out)


@pytest.mark.parametrize("path", PATHS)
def test_each_figure_is_taken_once_and_stands_alone_in_light_colours(path):
    page, made = article(path), drawn(path)
    assert [one.name for one in made] == [n for n in told(page) if n.startswith("Figure")]
    for one in made:
        figure = page.find(id=one.address.removeprefix(f"{BASE}{path}#"))
        shown = figure.select_one(".u-still svg") or figure.select_one(":scope > svg, .u-frame svg")
        assert bool(one.svg) == bool(shown), one.name
        if not shown:
            continue
        assert one.alt == shown["aria-label"], f"{one.name} is not what print shows"
        assert "var(" not in one.svg, one.name
        assert "prefers-color-scheme" not in one.svg, one.name
        assert not re.search(r"url\((?!#)|@import|href=\"(?!#)", one.svg), one.name
        texts = {each.tag.rpartition("}")[2]: each.text for each in ET.fromstring(one.svg)}
        assert texts["title"].startswith(one.name), one.name
        assert texts["desc"] == one.alt, one.name
        assert re.search(r"^svg\{font-family:.*, sans-serif\}", texts["style"], re.MULTILINE)


def test_the_archive_lists_its_files_and_no_others(pack):
    rows = list(csv.DictReader(io.StringIO(pack.read(f"{FOLDER}/figures.csv").decode())))
    assert [row["number"] for row in rows] == [f"15.{n}" for n in range(1, len(rows) + 1)]
    named = [row[kind] for row in rows for kind in ("svg", "pdf") if row[kind]]
    assert len(named) == 2 * (len(rows) - 1)
    beside = ["index.html", "figures.csv", "LICENSE.txt"]
    assert sorted(pack.namelist()) == sorted(f"{FOLDER}/{name}" for name in [*named, *beside])
    index = BeautifulSoup(pack.read(f"{FOLDER}/index.html"), "html.parser")
    linked = [link["href"] for link in index.select("figcaption a") if "://" not in link["href"]]
    assert sorted(linked) == sorted(named)
    assert all(
        row["licence"] and row["caption"] and row["address"].startswith(BASE) for row in rows
    )


def test_a_pdf_is_one_page_of_the_drawings_size_and_says_what_it_is(pack):
    names = [name for name in pack.namelist() if name.endswith(".pdf")]
    assert names
    for name in names:
        reader = PdfReader(io.BytesIO(pack.read(name)))
        drawing = ET.fromstring(pack.read(name.replace("pdf", "svg")))
        (page,) = reader.pages
        for side in ("width", "height"):
            points = float(drawing.get(side).removesuffix("pt"))
            assert abs(float(getattr(page.mediabox, side)) - points) < 1, name
        words = {
            each.text.strip() for each in drawing.iter() if each.tag.endswith("text") and each.text
        }
        text = page.extract_text()
        assert any(word in text for word in words if len(word) > 2), "its text is no text"
        number = Path(name).stem.removeprefix("unrolled-figure-").replace("-", ".")
        assert reader.metadata.title == f"Figure {number}"
        assert f"#figure-{number.replace('.', '-')}" in reader.metadata.subject
