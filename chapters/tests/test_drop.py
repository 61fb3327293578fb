"""A chapter is taken out whole, and what still speaks of it is named."""

from __future__ import annotations

import json
import re
import shutil
import tomllib

import pytest
import yaml
from book.tools.notebooks import ROOT, read
from book.tools.notebooks import drop as tool
from book.tools.site import small
from unrolled_book import exercises

STEM, N = "02b_smoothing", "2b"
COPIED = ("_toc.yml", "index.md", "chapters", "book")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A copy of the book's sources, without chapter 2b."""
    root = tmp_path_factory.mktemp("book")
    skip = shutil.ignore_patterns("tests", "__pycache__", "assets", "results", "*.npz", ".ipynb_*")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=skip)
        else:
            shutil.copy(ROOT / name, root / name)
    (root / "book" / "tests").mkdir()
    shutil.copy(ROOT / "book/tests/queries.toml", root / "book/tests")
    tool.drop(STEM, root)
    return root


def test_nothing_of_the_chapter_is_left_in_its_places(root):
    toc = yaml.safe_load((root / "_toc.yml").read_text("utf8"))
    assert STEM not in json.dumps(toc)
    assert all(entry.get("sections", True) for part in toc["parts"] for entry in part["chapters"])
    for name in ("misconceptions.toml", "paths.toml", "tests/queries.toml"):
        text = (root / "book" / name).read_text("utf8")
        tomllib.loads(text)
        assert STEM not in text, name
        assert f'"{N}"' not in text, name
    assert STEM not in (root / "book/tools/notebooks/colab.json").read_text("utf8")
    assert f"c{STEM}" not in exercises.chapters(root / tool.TEACHING / "exercises")
    for path in (root / tool.SYLLABI).glob("*.toml"):
        assert STEM not in str(tomllib.loads(path.read_text("utf8"))), path.name
    assert not list(root.rglob(f"{STEM}.*"))


def test_links_to_it_become_words_and_are_listed(root):
    for path in (root / "chapters").glob("*.ipynb"):
        before, after = read(ROOT / "chapters" / path.name), read(path)
        assert f"{STEM}.ipynb" not in str(after)
        for one, other in zip(before.cells, after.cells, strict=True):
            if f"{STEM}.ipynb" not in one.source:
                assert one.source == other.source or "minutes to read" in one.source
    told = tool.left(STEM, root)
    assert any(line.startswith("chapters/03_perplexity.ipynb, cell 0: ") for line in told)


def test_sources_and_terms_go_only_where_nothing_else_links_to_them(root):
    gone = read(ROOT / "chapters" / f"{STEM}.ipynb")
    rest = "\n".join(str(read(path)) for path in (root / "chapters").glob("*.ipynb"))
    for kind, file, shown in (("cite", "references.bib", "{{{},"), ("term", "glossary.md", None)):
        before = (ROOT / "book" / file).read_text("utf8")
        after = (root / "book" / file).read_text("utf8")
        assert len(after) < len(before), f"nothing went from {file}"
        if shown:
            lost = [key for key in re.findall(r"^@\w+\{(\w+),", before, re.M)
                    if shown.format(key) not in after]  # fmt: skip
            assert lost
            assert all(f"({kind}:{key})" in str(gone) for key in lost)
            assert not any(f"({kind}:{key})" in rest for key in lost)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("see [chapter\n9b](09b_a.ipynb#x-y), too", "see chapter\n9b, too"),
        ("[*a* `b`](../chapters/09b_a.ipynb)", "*a* `b`"),
        ('<a class="u" href="chapters/09b_a.html#x">nine <b>b</b></a>', "nine <b>b</b>"),
        ("[9](09_a.ipynb), [a](109b_a.ipynb)", "[9](09_a.ipynb), [a](109b_a.ipynb)"),
    ],
)
def test_a_link_becomes_its_words(text, plain):
    assert tool.unlinked(text, "09b_a") == plain


TOC = """parts:
  - caption: One
    chapters:
      - file: chapters/01_a
        sections:
          - file: chapters/01b_b
      - file: book/x
  - caption: Two
    chapters:
      - file: chapters/02_c
"""


def test_the_table_of_contents_keeps_no_empty_list_and_no_hole():
    assert "sections" not in tool.without_line(TOC, "01b_b")
    with pytest.raises(ValueError, match="01b_b stands below 01_a"):
        tool.without_line(TOC, "01_a")
    with pytest.raises(ValueError, match="'Two' would have no chapter"):
        tool.without_line(TOC, "02_c")
    with pytest.raises(ValueError, match="has 0 lines"):
        tool.without_line(TOC, "03_d")


def test_in_a_small_book_a_part_goes_and_links_lead_to_the_whole_one():
    assert (
        yaml.safe_load(tool.without_line(TOC, "02_c", parts=True))["parts"][-1]["caption"] == "One"
    )
    text = 'See [*c*](../chapters/02_c.ipynb#a-b), [c](02_c.ipynb) and <a href="02_c.html">it</a>.'
    there = "https://example.org/book/chapters/02_c.html"
    assert tool.unlinked(text, "02_c", "https://example.org/book/") == (
        f'See [*c*]({there}#a-b), [c]({there}) and <a href="{there}">it</a>.'
    )
    week = '[[weeks]]\nname = "w{}"\nexercises = [\n{}]\n\n'
    syllabus = 'title = "T"\n\n' + week.format(1, "") + week.format(2, '    "c01_a/b",\n')
    assert [w["name"] for w in tomllib.loads(tool.without_empty_weeks(syllabus))["weeks"]] == ["w2"]


def test_a_small_book_has_the_chapters_of_its_syllabus_and_overwrites_no_other_folder(tmp_path):
    folder = ROOT / tool.SYLLABI
    found = small.chapters_of(folder / "four_weeks.toml")
    assert {"01_chain_rule", "07b_gradients", "20_transformer_lm"} <= found
    assert "09_rnn" not in found
    with pytest.raises(ValueError, match="there is no syllabus"):
        small.chapters_of(tmp_path / "none.toml")
    (tmp_path / "mine.txt").write_text("kept", "utf8")
    with pytest.raises(ValueError, match="holds something else than a book"):
        small.build(folder / "four_weeks.toml", tmp_path)
    assert (tmp_path / "mine.txt").exists()


def test_a_term_goes_with_what_it_means():
    glossary = "# G\n\n```{glossary}\nfirst term\n  A.\n\nJacobian\n  B.\n\nlast\n  C.\n```\n"
    assert tool.without_term(glossary, "Jacobian") == glossary.replace("Jacobian\n  B.\n\n", "")
    assert tool.without_term(glossary, "first-term") == glossary.replace("first term\n  A.\n\n", "")
    assert tool.without_term(glossary, "last") == glossary.replace("last\n  C.\n", "")
    assert tool.without_term(glossary, "term") == glossary
