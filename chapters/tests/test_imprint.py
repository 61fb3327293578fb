"""Title, subtitle, authors and licence have one place, `_config.yml`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest
import yaml
from book.extensions.imprint import Imprint
from book.extensions.publishing import feed
from book.tools.epub import packing
from book.tools.epub.__main__ import front
from book.tools.notebooks import ROOT, address
from book.tools.paper.front import Edition

sys.path.append(str(ROOT / "book" / "extensions"))
import landing
import offline

BASE, WHEN = "https://a.b/c/", datetime(2027, 1, 2, tzinfo=UTC)
NEW = {
    "title": "Sequences & sums: a course in two terms",
    "subtitle": "Models of text for those who count",
    "author": "Ada Lovelace, Grace Hopper",
}


@pytest.fixture
def root(tmp_path):
    """A folder with the two files that tell a book's name, three lines of the one changed."""
    text = (ROOT / "_config.yml").read_text("utf8")
    for line, value in NEW.items():
        text, n = re.subn(rf"^{line}: .*$", f'{line}: "{value}"', text, flags=re.MULTILINE)
        assert n == 1, line
    (tmp_path / "_config.yml").write_text(text, "utf8")
    shutil.copy(ROOT / "CITATION.cff", tmp_path)
    return tmp_path


def made(root) -> dict[str, str]:
    """What is generated from the configuration in this folder, without a build."""
    imprint = Imprint.read(root)
    citation = root / "CITATION.cff"
    address.update(citation, address.repository_url(root / "_config.yml"), write_it=True)
    pages = front(BASE, WHEN, imprint)
    edition = Edition(imprint, BASE, WHEN)
    found = {"cover": imprint.cover(), "PDF": edition.title() + edition.about()}
    found["EPUB"] = "".join(packing.files(pages, {}, BASE, WHEN, imprint).values())
    found["manifest"] = offline.manifest(imprint.title, imprint.subtitle)
    found["feed"] = feed("## 1.0.0 (2027-01-02)\n\nNew.\n", BASE, imprint.title, imprint.author)
    found["feed"] = found["feed"].decode()
    found["citation"] = "".join(
        landing.cited(yaml.safe_load(citation.read_text("utf8")), "2027", BASE)
    )
    found["CITATION.cff"] = citation.read_text("utf8")
    for page in ("index.md", "book/about.md", "book/tutor.md"):
        found[page] = imprint.fill((ROOT / page).read_text("utf8"))
    return found


def test_a_book_of_ones_own_has_no_trace_of_this_ones_name(root):
    old, found = Imprint.read(ROOT), made(root)
    for name, text in found.items():
        for trace in (old.title, old.subtitle, old.author):
            assert trace not in text, f"{name}: {trace}"
        assert re.search(r"two terms|Lovelace", text), f"{name} does not say whose it is"
        assert "((" not in re.sub(
            r"\(\((chapters|hours|exercises|wrong|beliefs|syllabi)\)\)", "", text
        )


def test_a_long_title_stays_on_the_cover(root):
    rows = re.findall(r'<text x="(\d+)" y="(\d+)" font-size="(\d+)">(.*?)</text>',
                      Imprint.read(root).cover())  # fmt: skip
    assert [row[3] for row in rows[:3]] == ["Sequences &amp;", "sums: a course", "in two terms"]
    heights = [int(row[1]) for row in rows]
    assert heights == sorted(heights)
    assert heights[-1] < 870, "the drawing begins there"


def test_this_books_cover_is_as_it_was_drawn():
    cover = Imprint.read(ROOT).cover()
    assert 'x="100" y="300" font-size="178">' in cover
    assert 'x="106" y="482" font-size="52">chain rule to the Transformer' in cover


def test_who_is_cited_with_more_than_a_name_keeps_it():
    imprint = Imprint("A", "B", "Ada Lovelace, The others", "2027", "MIT.")
    people = (
        "authors:\n- family-names: Lovelace\n  given-names: Ada\n- name: The others\nversion: 1\n"
    )
    assert address.cite(f'title: "C"\n{people}', imprint) == f'title: "A: B"\n{people}'
    one = Imprint("A", "B", 'Grace "Amazing" Hopper', "2027", "MIT.")
    told = yaml.safe_load(address.cite(f'title: "C"\n{people}', one))
    assert told["authors"] == [{"name": 'Grace "Amazing" Hopper'}]
    assert told["version"] == 1


@pytest.mark.parametrize("line", ["title", "subtitle", "author", "copyright", "licence"])
def test_a_line_that_is_missing_is_named(root, line):
    path = root / "_config.yml"
    path.write_text(
        re.sub(rf"^{line}: .*$", "", path.read_text("utf8"), flags=re.MULTILINE), "utf8"
    )
    with pytest.raises(ValueError, match=f"no line {line}: "):
        Imprint.read(root)


def test_nothing_that_makes_the_book_names_it():
    """Or a book of one's own would bear this name. The library's licence names its authors."""
    places = [
        "index.md",
        "book/*.md",
        "book/templates",
        "book/extensions",
        "book/tools",
        "book/assets",
    ]
    command = ["git", "grep", "-l", "-I", "-w", "Unrolled", "--", *places]
    found = subprocess.run(
        command, cwd=ROOT, capture_output=True, encoding="utf8"
    ).stdout.splitlines()
    assert set(found) <= {"book/tools/live/bundle.py"}
