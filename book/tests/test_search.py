"""The search: what it finds first, and that it works by keyboard, on a phone, from a folder."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import PATIENCE, ROOT, SITE, axe, base, pages, soup
from docutils import nodes

sys.path.append(str(ROOT / "book" / "extensions"))
import book_search

QUERIES = tomllib.loads(Path(__file__).with_name("queries.toml").read_text("utf8"))
SCRIPTS = SITE / "_static" / "search"


@functools.cache
def found(*queries: str) -> list[list[dict]]:
    """What the built search answers, by node, as it does in a page."""
    node = shutil.which("node")
    assert node, "the search is tried in node; install it with: apt-get install nodejs"
    command = [node, str(Path(__file__).with_name("search_in_node.mjs")), str(SCRIPTS)]
    done = subprocess.run(command, input=json.dumps(queries), capture_output=True, encoding="utf8")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["answers"]


def place(entry: dict) -> str:
    return entry["url"].removeprefix("chapters/").replace(".html", "")


def ranks(answers: list[list[dict]]) -> dict[str, int | None]:
    """Where the first right section of each query stands, from 1; None where it is not found."""
    return {
        query: next((i for i, one in enumerate(answer, 1) if place(one) in right), None)
        for (query, right), answer in zip(QUERIES.items(), answers, strict=True)
    }


# ---- what is found -------------------------------------------------------------------------------


def test_students_find_the_right_section():
    stand = ranks(found(*QUERIES))
    assert len(stand) == 60
    missed = {query: rank for query, rank in stand.items() if rank is None or rank > 3}
    first = sum(rank == 1 for rank in stand.values())
    assert len(missed) <= 0.1 * len(stand), f"not among the first three: {missed}"
    assert first >= 0.7 * len(stand), f"{first} of {len(stand)} first"


def test_the_sections_of_the_queries_are_there():
    there = {(SITE / "chapters" / f"{p.partition('#')[0]}.html", p.partition("#")[2])
             for right in QUERIES.values() for p in right}  # fmt: skip
    lost = [f"{page.name}#{anchor}" for page, anchor in there
            if anchor and f'id="{anchor}"' not in page.read_text("utf8")]  # fmt: skip
    assert lost == []


def test_the_glossary_comes_last_and_one_word_finds_its_chapter():
    (answer,) = found("attention")
    kinds = [one["kind"] for one in answer]
    assert kinds == sorted(kinds, key=lambda kind: kind == "term")
    assert kinds.count("term") == 3
    assert place(answer[0]) in QUERIES["attention"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("perplexty", "perplexity"), ("cross entropy", "cross-entropy"), ("word2vec", "skip-gram"),
     ("bigrams", "bigram"), ("tokenizer", "tokeniser"), ("multihead", "multi-head")],
)  # fmt: skip
def test_what_is_typed_otherwise_finds_the_same(typed, meant):
    one, other = found(typed, meant)
    assert place(one[0]) in {place(entry) for entry in other[:3]}


def test_what_is_nowhere_is_not_found():
    assert found("zyzzyva qqq", "", "the of", "!?") == [[], [], [], []]


def test_snippets_are_sentences_of_the_page():
    shown = [one for answer in found(*QUERIES) for one in answer]
    furniture = r"Open in Colab|Notebook|Skip to|Copy|Contents|\\[a-z]+|\$|__"
    assert not [one["first"] for one in shown if re.search(furniture, one["first"])]
    assert all(len(one["first"]) <= 202 for one in shown)
    assert sum(bool(one["first"]) for one in shown) > 0.95 * len(shown)


# ---- how the index is made -----------------------------------------------------------------------


def test_the_other_names_of_a_term_come_from_the_glossary():
    source = "```{glossary}\nskip-gram\n  A model.\n  % also: word2vec, CBOW\n\nbit\n  A.\n```\n"
    assert book_search.also(source) == {"skip-gram": ["word2vec", "CBOW"]}
    with pytest.raises(ValueError, match="'% also: x' stands in no entry"):
        book_search.also("skip-gram\n  A model.\n\n% also: x\n")


def test_a_reader_of_the_glossary_does_not_see_them():
    assert "also:" not in soup("book/glossary.html").select_one("main").get_text()
    titles = [link["title"] for link in soup("chapters/15_masking.html").select("a.u-term[title]")]
    assert titles
    assert not [title for title in titles if "also:" in title]


def test_a_formula_is_found_by_its_words_and_shown_by_its_signs():
    assert book_search.spoken(r"\operatorname{softmax}(q/\sqrt{d})").split() == ["softmax", "sqrt"]
    assert book_search.shown(r"\sqrt{d_k} \le \alpha") == "√(d_k) ≤ α"
    assert book_search.shown(r"\frac{a}{b} + \frac12") == "a/b + 1/2"
    assert book_search.sentence("Predict. Which is larger? Why?") == "Predict. Which is larger?"


def test_answers_outputs_and_sources_are_not_searched():
    section = nodes.section("", nodes.title("", "A"), ids=["a"])
    section += nodes.paragraph("", "Shown words stand here. More.")
    section += nodes.raw("", "<details><summary>Solution</summary>", format="html")
    section += nodes.paragraph("", "secret")
    section += nodes.raw("", "</details>", format="html")
    cell = nodes.container("", classes=["cell"])
    cell += nodes.container("", nodes.literal_block("", "def f(): pass"), classes=["cell_input"])
    cell += nodes.container("", nodes.literal_block("", "printed"), classes=["cell_output"])
    section += cell
    section += nodes.section("", nodes.title("", "Sources"), nodes.paragraph("", "x"), ids=["s"])
    (entry,) = book_search.sections("chapters/01_a", section, {})
    assert entry.first == "Shown words stand here."
    assert "secret" not in entry.text
    assert "printed" not in entry.code
    assert book_search.packed(entry, {"more"})["text"] == "here shown stand words"
    assert book_search.packed(entry, set())["code"] == "f"


# ---- in the page ---------------------------------------------------------------------------------


def asked(page, query):
    page.keyboard.press("Control+k")
    page.keyboard.type(query)
    page.wait_for_selector("dialog .u-found li a")
    return page


@pytest.mark.parametrize("name", pages())
def test_nothing_of_the_search_is_loaded_before_it_is_opened(name, visit):
    loaded = [url for url in visit(name, "desktop").requests if "/_static/search/" in url]
    assert [url for url in loaded if not url.partition("?")[0].endswith("search/load.js")] == []


@pytest.mark.parametrize("view", ["desktop", "phone", "dark"])
def test_the_search_works_by_keyboard_and_passes_axe(view, open_page):
    page = asked(open_page("chapters/01_chain_rule.html", view), "perplexty")
    assert re.match(r"\d+ found", page.inner_text("dialog [role=status]"))
    assert axe(page) == []
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.closest('li') === document.activeElement"
                         ".closest('ol').firstElementChild")  # fmt: skip
    page.keyboard.press("Enter")
    page.wait_for_url("**/03_perplexity.html#*", timeout=PATIENCE)
    assert page.url.partition("#")[0].endswith(f"{base()}chapters/03_perplexity.html")
    assert "Hide Search Matches" not in page.inner_text("body")


def test_a_find_on_the_same_page_closes_the_search(open_page):
    page = asked(open_page("chapters/01_chain_rule.html"), "shift by one")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function("!document.querySelector('#pst-search-dialog').open")
    assert page.url.endswith("#inputs-and-targets-shift-by-one")


def test_the_page_of_the_search_answers_its_address_and_says_when_it_finds_nothing(open_page):
    page = open_page("search.html?q=beam+serach")
    page.wait_for_selector("main .u-found li a")
    assert page.input_value("main input[name=q]") == "beam serach"
    assert "beam search" in page.inner_text("main .u-found li >> nth=0")
    page.fill("main input[name=q]", "zyzzyva")
    page.wait_for_selector("main [role=status]:has-text('Nothing found')")
    assert page.locator("main .u-found li").count() == 0
    assert page.url.endswith("?q=zyzzyva")


def test_what_is_loaded_when_the_search_is_opened_is_light():
    files = [SCRIPTS / name for name in book_search.SCRIPTS]
    loaded = sum(len(gzip.compress(file.read_bytes(), 6)) for file in files)
    assert loaded < 260_000


def test_the_engine_is_the_one_of_npm():
    """Unchanged but for its last line, which names a map of its source."""
    code = (ROOT / "book/assets/search/minisearch.js").read_bytes()
    told = (ROOT / "book/assets/search/README.md").read_text("utf8")
    assert hashlib.sha256(code).hexdigest() in told
