"""The EPUB of three pages: what every reader of EPUBs asks, and what nobody should miss in it."""

from __future__ import annotations

import posixpath
import re
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urldefrag
from xml.etree import ElementTree as ET

import pytest
from bs4 import BeautifulSoup
from conftest import ROOT, SITE
from playwright.sync_api import Browser
from unrolled_book.predictions import of_notebook

from book.extensions.formulas import holder, set_all
from book.extensions.imprint import Imprint
from book.tools.epub.__main__ import build, pages
from book.tools.epub.formulas import MATHML, found, mark, mathml, put
from book.tools.epub.leaves import Leaf, contents, leaves

BASE = "https://example.org/book/"
THREE = {"chapters/14_attention.html", "book/glossary.html", "book/map.html"}
WHEN = datetime(2026, 5, 17, 12, tzinfo=UTC)
XHTML = "{http://www.w3.org/1999/xhtml}"
OPF = "{http://www.idpf.org/2007/opf}"
CHAPTER = "EPUB/text/14_attention.xhtml"


def chosen(paths: set[str]) -> list[Leaf]:
    return leaves(BASE, [entry for entry in contents() if entry[1] in paths])


@pytest.fixture(scope="module")
def epub(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("epub") / "three.epub"
    build(chosen(THREE), BASE, WHEN, browser, out, Imprint.read(ROOT))
    return zipfile.ZipFile(out)


@pytest.fixture(scope="module")
def trees(epub: zipfile.ZipFile) -> dict[str, ET.Element]:
    """Every XML file of the book, parsed: it is well-formed."""
    return {name: ET.fromstring(epub.read(name)) for name in epub.namelist()
            if not name.endswith((".css", ".png", "mimetype"))}  # fmt: skip


@pytest.fixture(scope="module")
def texts(trees: dict[str, ET.Element]) -> dict[str, ET.Element]:
    return {name: tree for name, tree in trees.items() if name.endswith(".xhtml")}


def test_the_container_begins_with_its_media_type_stored(epub: zipfile.ZipFile) -> None:
    first = epub.infolist()[0]
    assert first.filename == "mimetype"
    assert first.compress_type == zipfile.ZIP_STORED
    assert not first.extra
    assert epub.read("mimetype") == b"application/epub+zip"
    assert {entry.date_time for entry in epub.infolist()} == {(2026, 5, 17, 12, 0, 0)}


def test_the_manifest_names_every_file_and_no_other(
    epub: zipfile.ZipFile, trees: dict[str, ET.Element]
) -> None:
    items = trees["EPUB/package.opf"].findall(f"{OPF}manifest/{OPF}item")
    listed = ["EPUB/" + item.get("href", "") for item in items]
    own = {"mimetype", "META-INF/container.xml", "EPUB/package.opf"}
    assert sorted(listed) == sorted(set(epub.namelist()) - own)
    with_math = {f"EPUB/{i.get('href')}" for i in items if i.get("properties") == "mathml"}
    assert with_math == {
        name for name, tree in trees.items() if tree.find(f".//{{{MATHML}}}math") is not None
    }


def test_the_pages_are_read_in_the_books_order(trees: dict[str, ET.Element]) -> None:
    package = trees["EPUB/package.opf"]
    names = {item.get("id"): item.get("href") for item in package.iter(f"{OPF}item")}
    order = [names[each.get("idref")] for each in package.iter(f"{OPF}itemref")]
    assert order == ["text/cover.xhtml", "text/title.xhtml", "nav.xhtml", "text/14_attention.xhtml",
                     "text/map.xhtml", "text/glossary.xhtml",
                     "text/14_attention-solutions.xhtml"]  # fmt: skip


def test_both_contents_list_the_sections(trees: dict[str, ET.Element]) -> None:
    own = "text/14_attention.xhtml"
    nav = [link.get("href") for link in trees["EPUB/nav.xhtml"].iter(f"{XHTML}a")]
    sections = [href for href in nav if href.startswith(f"{own}#")]
    assert len(sections) >= 5
    ncx = [one.get("src") for one in trees["EPUB/toc.ncx"].iter() if one.get("src")]
    assert [src for src in ncx if src.startswith(f"{own}#")] == sections
    orders = [int(one.get("playOrder")) for one in trees["EPUB/toc.ncx"].iter()
              if one.get("playOrder")]  # fmt: skip
    assert orders == list(range(1, len(ncx) + 1))


def test_links_and_pictures_lead_to_what_is_there(
    epub: zipfile.ZipFile, texts: dict[str, ET.Element]
) -> None:
    ids = {name: [e.get("id") for e in tree.iter() if e.get("id")] for name, tree in texts.items()}
    assert all(len(found) == len(set(found)) for found in ids.values())
    inside = 0
    for name, tree in texts.items():
        for element in tree.iter():
            address = element.get("href") or element.get("src")
            if not address or re.match(r"https?://|mailto:", address):
                continue
            path, fragment = urldefrag(address)
            beside = posixpath.join(posixpath.dirname(name), path)
            target = posixpath.normpath(beside) if path else name
            assert target in epub.namelist(), address
            assert not fragment or fragment in ids[target], address
            inside += 1
    assert inside > 40
    links = [link.get("href", "") for link in texts[CHAPTER].iter(f"{XHTML}a")]
    assert BASE + "chapters/13_seq2seq.html" in links  # a page that is not among these
    assert any(link.startswith("glossary.xhtml#") for link in links)


def test_each_solution_stands_at_the_end_with_links_there_and_back(
    texts: dict[str, ET.Element],
) -> None:
    own = "14_attention-solutions.xhtml"
    there = [a.get("href") for a in texts[CHAPTER].iter(f"{XHTML}a") if a.text == "Solution"]
    sections = texts[f"EPUB/text/{own}"].findall(f".//{XHTML}section")
    assert there == [f"{own}#{section.get('id')}" for section in sections]
    assert len(there) >= 4
    for section in sections:
        back = section.find(f"{XHTML}h2/{XHTML}a").get("href")
        assert back.startswith("14_attention.xhtml#")


def test_each_prediction_has_its_answer_at_the_end(texts: dict[str, ET.Element]) -> None:
    asked = [one.name for one in of_notebook(ROOT / "chapters" / "14_attention.ipynb")]
    words = ET.tostring(texts[CHAPTER], encoding="unicode")
    heading = words.index("Answers to the predictions")
    assert len(asked) >= 4
    for name in asked:
        question, answer = (words.index(f'id="{what}-{name}"') for what in ("asked", "answer"))
        assert question < words.index(f'#answer-{name}"') < heading < answer
        assert answer < words.index(f'#asked-{name}"')


def test_formulas_are_mathml_with_their_tex_beside_it(texts: dict[str, ET.Element]) -> None:
    found = [math for tree in texts.values() for math in tree.iter(f"{{{MATHML}}}math")]
    assert len(found) > 100
    assert all(math.get("alttext") for math in found)
    assert r"\sqrt{d_k}" in {math.get("alttext") for math in found}
    for name, tree in texts.items():
        left = "".join(text for e in tree.iter() if "code" not in e.tag for text in (e.text or "",))
        assert "\\(" not in left, name
        assert "\\[" not in left, name


def test_a_formula_too_wide_for_a_phone_says_so(browser: Browser) -> None:
    long = "+".join("x" * 12)
    given = [("x", False), (long, False), ("x", True), (long, True), (f"{long}+{long}", True)]
    given.append((r"a \bmod b", False))
    (html,) = set_all(["".join(holder(*each) for each in given)])
    page = BeautifulSoup(html, "html.parser", multi_valued_attributes=None)
    mark(page)
    holders = found(page)
    put(holders, mathml({formula for _, formula in holders}, browser))
    operators = [operator.decode_contents() for operator in page.select("mo")]
    assert operators[-1].strip() == "mod", "an operator's name is one text"
    assert [each["class"] for each in page.select("[class]")] == [
        "long wide", "formula", "formula wide", "formula widest",
    ]  # fmt: skip


def test_nothing_runs_nothing_is_filled_in_and_nothing_comes_from_elsewhere(
    epub: zipfile.ZipFile, trees: dict[str, ET.Element]
) -> None:
    names = {element.tag.rpartition("}")[2] for tree in trees.values() for element in tree.iter()}
    assert names & {"script", "form", "input", "button", "iframe", "details", "object"} == set()
    for name, tree in trees.items():
        for element in tree.iter():
            assert not [key for key in element.attrib if key.startswith("on")], name
            assert not (element.get("src") or "").startswith("http"), name
    for name in epub.namelist():
        if name.endswith((".css", ".svg")):
            assert not re.search(r"url\((?!#)|@import", epub.read(name).decode()), name


def test_every_picture_has_words_and_is_legible_at_night(
    epub: zipfile.ZipFile, texts: dict[str, ET.Element]
) -> None:
    pictures = [image for tree in texts.values() for image in tree.iter(f"{XHTML}img")]
    assert len(pictures) > 5
    assert all(len(image.get("alt", "")) > 20 for image in pictures)
    drawings = [epub.read(name).decode() for name in epub.namelist() if name.endswith(".svg")]
    for drawing in drawings:
        assert "var(" not in drawing
        assert "prefers-color-scheme:dark" in drawing
        assert re.search(r'<rect class="\w+" x="-6" y="-6"', drawing)
        assert {f".{name}{{" for name in re.findall(r'class="(\w+)"', drawing)} <= set(
            re.findall(r"^\.\w+{", drawing, re.MULTILINE)
        )


def test_folded_code_is_left_out_and_what_moves_leads_to_its_page(
    texts: dict[str, ET.Element],
) -> None:
    words = "".join(texts[CHAPTER].itertext())
    assert "# Code of the figure" not in words
    assert 'check("' not in words
    moving = [a.get("href", "") for a in texts[CHAPTER].iter(f"{XHTML}a")
              if a.text == "Move it on the web page"]  # fmt: skip
    on_the_page = (SITE / "chapters" / "14_attention.html").read_text("utf8")
    assert len(moving) == on_the_page.count('<figure class="u-explore') > 0
    assert all(link.startswith(BASE + "chapters/14_attention.html#") for link in moving)


def test_code_keeps_its_indentation_and_every_line(texts: dict[str, ET.Element]) -> None:
    blocks = ["".join(pre.itertext()) for pre in texts[CHAPTER].iter(f"{XHTML}pre")]
    whole = next(block for block in blocks if block.startswith("def dot_product_attention"))
    assert "\n    return weights @ v, weights" in whole


def test_the_same_pages_make_the_same_bytes(browser: Browser, tmp_path: Path) -> None:
    made = []
    for name in ("one.epub", "again.epub"):
        build(
            chosen({"book/notation.html"}), BASE, WHEN, browser, tmp_path / name, Imprint.read(ROOT)
        )
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]


def test_a_link_that_leads_nowhere_is_an_error(browser: Browser) -> None:
    found = chosen({"book/about.html"})
    found[0].body.a["href"] = "#book-about--nowhere"
    with pytest.raises(ValueError, match="which no page has"):
        pages(found, BASE, browser)
