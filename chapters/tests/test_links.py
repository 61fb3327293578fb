"""Links to other sites are well formed. Whether they lead anywhere, `make check-links` asks."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import nbformat
import pybtex.database
import pytest
from book.extensions import link_check
from book.tools.notebooks import ROOT, address, chapter_paths, read, write
from book.tools.notebooks.links import PLACES, short, whole
from book.tools.notebooks.links import pages as published_pages
from bs4 import BeautifulSoup
from nbconvert.filters import markdown2html_mistune
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from chapter import without_fences

# The targets of Markdown's links, spaces and all, with one pair of brackets inside; then bare ones.
_TARGET = re.compile(r"\]\(\s*(https?:(?:[^()]|\([^()]*\))*)\)", re.IGNORECASE)
_BARE = re.compile(r"https?://[^\s<>\"'`)\]]+", re.IGNORECASE)
_ALLOWED = re.compile(r"(?:[A-Za-z0-9._~:/?#@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}")
_DOI = re.compile(r"10\.\d{4,9}/[A-Za-z0-9._;()/:-]*[A-Za-z0-9)]")
_ARXIV = re.compile(r"/abs/(?:\d\d(?:0[1-9]|1[0-2])\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})")


def ill_formed(link: str) -> str | None:
    """What is wrong with the form of a link to another site, if anything is."""
    if not _ALLOWED.fullmatch(link):
        return "it holds a space or another character that an address does not have"
    parts = urlsplit(link)
    if parts.scheme != "https":
        return "it is not https"
    if not _HOST.fullmatch(parts.netloc):
        return f"{parts.netloc!r} is no site's name"
    if link[-1] in ".,;:!" or link.count("(") != link.count(")"):
        return "its end belongs to the sentence around it"
    if parts.netloc.endswith("doi.org"):
        return "it goes to the DOI's resolver: cite it from the bibliography, field doi"
    if parts.netloc.endswith("arxiv.org") and not _ARXIV.fullmatch(parts.path):
        return "it is not the page of an article on arXiv, like https://arxiv.org/abs/1706.03762"
    return None


def links(markdown: str) -> list[str]:
    """The links to other sites in a Markdown text; an example in a code block is none."""
    text = re.sub(r"`[^`\n]*`", "", without_fences(markdown))
    bare = _BARE.findall(_TARGET.sub("", text))
    return _TARGET.findall(text) + [link.rstrip(".,;:") for link in bare]


def everywhere() -> dict[str, list[str]]:
    """Place -> the links that its readers see."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "book").glob("*.md")]
    found = {path.name: links(path.read_text("utf8")) for path in pages}
    for path in chapter_paths():
        cells = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
        found[path.name] = links("\n\n".join(cells))
    for key, entry in bibliography().items():
        found[f"references.bib, {key}"] = [entry.fields["url"]] if "url" in entry.fields else []
    return found


def bibliography() -> pybtex.database.OrderedCaseInsensitiveDict:
    """Key -> entry."""
    path = ROOT / "book" / "references.bib"
    return pybtex.database.parse_file(str(path), encoding="utf-8").entries


def test_links_to_other_sites_are_well_formed():
    seen = everywhere()
    assert sum(map(len, seen.values())) > 100, "the links are no longer found"
    wrong = [
        f"{p}: {link}: {ill_formed(link)}" for p in seen for link in seen[p] if ill_formed(link)
    ]
    assert not wrong


def test_every_doi_is_well_formed_and_stands_once():
    dois = [entry.fields["doi"] for entry in bibliography().values() if "doi" in entry.fields]
    assert len(dois) > 50, "the DOIs are no longer found"
    assert [doi for doi in dois if not _DOI.fullmatch(doi)] == []
    assert len({doi.lower() for doi in dois}) == len(dois)


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("http://example.org/", "not https"),
        ("https://example", "no site's name"),
        ("https://exa mple.org", "a space"),
        ("https://example.org/a b", "a space"),
        ("https://example.org/naïve", "another character"),
        ("https://example.org/50%", "another character"),
        ("https://example.org/a.", "the sentence around it"),
        ("https://example.org/a)", "the sentence around it"),
        ("https://someone@example.org/", "no site's name"),
        ("https://doi.org/10.1000/1", "field doi"),
        ("https://arxiv.org/pdf/1706.03762", "not the page of an article"),
        ("https://arxiv.org/abs/1713.03762", "not the page of an article"),
    ],
)
def test_an_ill_formed_link_is_told(link, says):
    assert says in ill_formed(link)


@pytest.mark.parametrize(
    "link",
    [
        "https://en.wikipedia.org/wiki/Softmax_(function)",
        "https://arxiv.org/abs/1706.03762",
        "https://arxiv.org/abs/cmp-lg/9405004",
        "https://example.org/%C3%A9?a=b&c=d#e",
    ],
)
def test_a_well_formed_link_passes(link):
    assert ill_formed(link) is None


@pytest.mark.parametrize(
    ("markdown", "found"),
    [
        ("([a](https://a.org/b_(c))).", ["https://a.org/b_(c)"]),
        ("[a](https://a.org/b c)", ["https://a.org/b c"]),
        ("See https://a.org/b. Or <http://c.org>!", ["https://a.org/b", "http://c.org"]),
        ("Not `http://a.org`.\n```\nhttp://b.org\n```\n", []),
    ],
)
def test_links_are_found_in_markdown(markdown, found):
    assert links(markdown) == found


def test_of_a_doi_is_asked_whether_it_is_registered():
    asked = link_check.registered(None, "https://doi.org/10.1162/neco.1997.9.8.1735")
    assert asked == "https://doi.org/api/handles/10.1162/neco.1997.9.8.1735"
    assert link_check.registered(None, "https://d2l.ai") is None


def test_links_to_sources_and_terms_work_outside_the_book_too():
    markdown = "See [Shannon (1948)](cite:shannon1948) on [**bits**](term:bit), as `cite:x` says."
    on_disk = whole(markdown, "https://ada.github.io/book")
    assert "](https://ada.github.io/book/book/bibliography.html#cite-shannon1948)" in on_disk
    assert "](https://ada.github.io/book/book/glossary.html#term-bit)" in on_disk
    assert "`cite:x`" in on_disk
    assert short(on_disk) == markdown


def test_notebooks_hold_no_link_that_only_the_book_understands():
    lead_to_pages = 0
    for path in chapter_paths():
        notebook = nbformat.read(path, as_version=4)
        texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
        page = BeautifulSoup(markdown2html_mistune("\n\n".join(texts)), "html.parser")
        targets = [link["href"] for link in page.select("a[href]")]
        dead = [target for target in targets if target.startswith(("cite:", "term:"))]
        assert not dead, f"{path.name} has {dead[:3]}; run `make address`"
        lead_to_pages += sum(target.startswith(f"{published_pages()}/") for target in targets)
    assert lead_to_pages > 500, "the links to sources and terms are no longer found"


def test_read_and_write_keep_a_link_in_its_two_forms(tmp_path):
    path = tmp_path / "01_a.ipynb"
    cells = [new_markdown_cell("[Shannon (1948)](cite:shannon1948)"), new_code_cell('"](cite:a)"')]
    notebook = new_notebook(cells=cells)
    write(notebook, path)
    assert notebook.cells[0].source == "[Shannon (1948)](cite:shannon1948)"
    on_disk = nbformat.read(path, as_version=4)
    assert (
        on_disk.cells[0].source
        == f"[Shannon (1948)]({published_pages()}/{PLACES['cite']}shannon1948)"
    )
    assert on_disk.cells[1].source == '"](cite:a)"'
    assert read(path).cells[0].source == notebook.cells[0].source


def test_notebooks_of_a_fork_lead_to_its_own_pages(tmp_path):
    path = tmp_path / "01_a.ipynb"
    there = "https://somebody.github.io/else/book/glossary.html#term-bit"
    cells = [new_code_cell("1"), new_markdown_cell(f"a [bit]({there})")]
    nbformat.write(new_notebook(cells=cells), path)
    assert address.update(path, "https://github.com/x/y", write_it=False)
    assert "somebody" in path.read_text("utf8")
    assert address.update(path, "https://github.com/x/y", write_it=True)
    assert f"a [bit]({published_pages()}/{PLACES['term']}bit)" in path.read_text("utf8")
    assert not address.update(path, "https://github.com/x/y", write_it=False)
