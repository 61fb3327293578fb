"""The PDF of a few pages: what a printed book owes its reader, and its printer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser
from pypdf import PageObject, PdfReader

from book.extensions.imprint import Imprint
from book.tools.epub.__main__ import edition
from book.tools.epub.leaves import contents, leaves
from book.tools.live.packages import NoBundle
from book.tools.notebooks import ROOT
from book.tools.paper import faces, on_paper
from book.tools.paper.__main__ import NOT_ON_PAPER, arranged, build
from book.tools.paper.document import Document
from book.tools.paper.front import Edition, qr

IMPRINT = Imprint.read(ROOT)
BASE = "https://example.org/book/"
FEW = {"chapters/01_chain_rule.html", "book/glossary.html", "book/bibliography.html"}
MM = 72 / 25.4
INNER, OUTER = 25 * MM, 20 * MM  # the margins of paper.css


def chosen(wanted: set[str] = FEW) -> Document:
    found = leaves(BASE, [entry for entry in contents() if entry[1] in wanted])
    return Document(found, Edition(IMPRINT, BASE, edition()))


@pytest.fixture(scope="module")
def document() -> Document:
    return chosen()


@pytest.fixture(scope="module")
def pdf(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser, document: Document
) -> PdfReader:
    out = tmp_path_factory.mktemp("paper") / "few.pdf"
    too_wide = build(document, browser, out)
    assert not too_wide
    return PdfReader(out)


@pytest.fixture(scope="module")
def texts(pdf: PdfReader) -> list[str]:
    return [" ".join(page.extract_text().split()) for page in pdf.pages]


def test_the_contents_name_the_page_of_each_entry(texts: list[str]) -> None:
    at = next(i for i, text in enumerate(texts) if text.startswith("Contents"))
    entry = re.search(r"1\. The chain rule of language ?(\d+)", texts[at])
    assert entry, texts[at]
    number = int(entry[1])
    assert "You will be able to" in texts[number - 1]
    section = re.search(r"What goes wrong ?[. ]*(\d+)", texts[at])
    assert "What goes wrong" in texts[int(section[1]) - 1]
    assert "Summary" not in texts[at], "every chapter has one"


def test_chapters_begin_on_right_pages_and_pages_are_numbered(texts: list[str]) -> None:
    begin = next(i for i, text in enumerate(texts, 1) if "You will be able to" in text)
    assert begin % 2 == 1
    assert texts[begin - 1].endswith(f" {begin}")
    assert f"{begin + 1} 1. The chain rule of language" in texts[begin]
    solutions = next(i for i, text in enumerate(texts, 1) if text.startswith("Solutions"))
    assert solutions % 2 == 1
    right = texts[begin + 1]
    assert re.search(rf" \D+ ?{begin + 2}$", right), "a right page names its section"


def test_the_heads_know_the_page_of_each_section(document: Document, pdf: PdfReader) -> None:
    known = {name.lstrip("/") for name in pdf.named_destinations}
    assert {key for key, *_ in document.sections()} <= known


def test_an_empty_page_stands_before_what_would_begin_on_the_left(document: Document) -> None:
    """Each block one page long: what begins a chapter moves on to a right page."""
    keys = [block.key for block in document.blocks]
    moved, blank = arranged(document, {key: i for i, key in enumerate(keys, 1)})
    recto = [block.key for block in document.blocks if block.recto]
    assert {"solutions", "index"} <= set(recto)
    assert all(moved[key] % 2 == 1 for key in recto)
    assert moved[keys[-1]] == len(keys) + len(blank)


def test_an_exercise_and_its_solution_name_each_others_pages(texts: list[str]) -> None:
    told = [
        (i, int(n)) for i, t in enumerate(texts, 1) for n in re.findall(r"Solution: page (\d+)", t)
    ]
    assert len(told) >= 4
    for exercise, solution in told:
        backs = re.findall(r"Exercise: page (\d+)", texts[solution - 1])
        assert {str(exercise), str(exercise - 1)} & set(backs), (exercise, solution)


def test_the_index_names_pages_that_hold_the_term(texts: list[str]) -> None:
    begin = next(i for i, text in enumerate(texts) if text.startswith("Index"))
    index = " ".join(texts[begin:])
    assert "Shannon, Claude" in index
    for term in ("language model", "token", "end-of-sequence symbol", "bits per byte"):
        found = re.search(rf"(?:^|[\s.]){term}, ((?:\d+, )*\d+)", index)
        assert found, term
        for page in found[1].split(", "):
            both = re.sub(r"- ?", "", " ".join(texts[int(page) - 1 : int(page) + 1])).lower()
            assert re.sub(r"-", "", term) in both, (term, page)


def test_folded_code_and_checks_are_left_out_and_visible_code_is_there(texts: list[str]) -> None:
    text = " ".join(texts)
    assert "# Code of the figure" not in text
    assert 'check("' not in text
    assert "def " in text
    assert not re.search(r"(?<!page, )\b(Drag|Step through|Click) (the|it)\b", text)


def test_what_a_screen_can_do_is_said_of_the_web_page() -> None:
    assert on_paper.on_the_web("Dots are keys. Drag the query.") == (
        "Dots are keys. On the web page, drag the query."
    )
    assert on_paper.on_the_web("Move r into the logarithm") == "Move r into the logarithm"
    # A formula ends the text: "Move $r$ into the logarithm", and after **Try.** " Move $a$".
    assert on_paper.on_the_web("Move ") == "Move "
    assert on_paper.on_the_web(" Move ") == " On the web page, move "
    assert on_paper.on_the_web("Move") == "On the web page, move"  # in bold


def test_what_is_lifted_in_a_formula_is_not_positioned() -> None:
    lifted = '<span style="margin-top:-3.1em;margin-bottom:3.1em;margin-right:0.05em;">'
    assert on_paper.level('<span style="top:-3.1em;margin-right:0.05em;">') == lifted
    assert on_paper.level('<span style="top:0em;">') == '<span style="top:0em;">'


def test_code_is_parted_at_its_empty_lines_and_stays_as_it_is() -> None:
    code = 'a = 1\n\ndef f():\n    """Says.\n\n    More."""\n    return 1\n\n\nf()\n'
    soup = BeautifulSoup(
        f"<article><pre>{code.split(chr(34) * 3)[0]}<span class='sd'>\"\"\"Says.\n\n    More.\"\"\""
        f"</span>{code.split(chr(34) * 3)[2]}</pre></article>", "html.parser"
    )  # fmt: skip
    on_paper.prepare(soup.article)
    assert len(soup.select(".p-block")) == 3
    assert re.sub(r"\n+", "\n", soup.pre.get_text()) == re.sub(r"\n+", "\n", code)


def fonts(page: PageObject) -> list[dict]:
    found, todo = [], [page["/Resources"]]
    while todo:
        resources = todo.pop().get_object()
        found += [font.get_object() for font in resources.get("/Font", {}).values()]
        forms = [each.get_object() for each in resources.get("/XObject", {}).values()]
        todo += [form["/Resources"] for form in forms if "/Resources" in form]
    return found


def test_the_faces_are_outlines_and_in_the_file(pdf: PdfReader) -> None:
    names = set()
    for font in [font for page in pdf.pages for font in fonts(page)]:
        assert font["/Subtype"] == "/Type0", font
        inner = font["/DescendantFonts"][0].get_object()
        assert {"/FontFile2", "/FontFile3"} & set(inner["/FontDescriptor"]), font
        names.add(font["/BaseFont"].split("+")[-1].split("-")[0])
    assert {"KaTeX_Math", "KaTeX_Main"} <= names
    try:
        faces.rules()
    except NoBundle:
        return  # npm could not be asked: set in the faces of this machine
    assert {"LibertinusSerif"} <= names
    assert any(name.startswith("SourceCodePro") for name in names)


def test_the_file_says_what_it_is(pdf: PdfReader) -> None:
    assert pdf.metadata.title == IMPRINT.whole
    assert pdf.metadata.author == IMPRINT.author
    assert [one.title for one in pdf.outline if not isinstance(one, list)]
    assert pdf.trailer["/Root"]["/MarkInfo"]["/Marked"]


def test_all_pages_have_one_size_and_the_text_keeps_to_its_area(pdf: PdfReader) -> None:
    for number, page in enumerate(pdf.pages, 1):
        width, height = page.mediabox.width, page.mediabox.height
        assert (width / MM, height / MM) == pytest.approx((203, 254), abs=0.3)
        left = INNER if number % 2 else OUTER
        starts: list[tuple[float, str]] = []

        def see(text: str, cm: list, tm: list, *_: object, into: list = starts) -> None:
            if text.strip():
                into.append((tm[4] * cm[0] + tm[5] * cm[2] + cm[4], text))

        if number > 1:  # not on the cover
            page.extract_text(visitor_text=see)
        right = width - (OUTER if number % 2 else INNER)
        outside = [one for one in starts if not left - 3 < one[0] < right]
        assert not outside, (number, outside[:3])


def test_the_imprint_says_version_date_licence_and_how_to_cite(texts: list[str]) -> None:
    about = texts[3]
    assert re.search(r"Version \d+\.\d+\.\d+, \d+ [A-Z][a-z]+ \d{4}", about), about
    assert IMPRINT.licence in about
    assert "To cite this book" in about
    assert BASE in about


def test_pages_that_need_a_screen_are_not_printed() -> None:
    listed = {path for _, path in contents()}
    assert listed >= NOT_ON_PAPER
    assert "book/instructors.html" in NOT_ON_PAPER


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
    document = chosen({"chapters/01_chain_rule.html"})
    document.leaves[0].body.select_one("a[href^='#']")["href"] = "#nowhere"
    with pytest.raises(ValueError, match="lead nowhere: #nowhere"):
        build(document, browser, tmp_path / "never.pdf")
