"""Chapter 4's figure cuts what the reader types exactly as the library does."""

from __future__ import annotations

import json

import numpy as np
import pytest
from unrolled.data import corpora
from unrolled.data.bpe import PATTERNS, BPETokenizer

PAGE = "chapters/04_tokens.html"
FIXED = (
    "", " ", "a", "  two  spaces ", "tab\t\ttab", "line\nline\n\n", "don't DON'T don’t o'er we'll",
    "12 1998 3.14159 ½ ³ Ⅷ", "café cafe\u0301 naïve", "нет привет", "हिन्दी",
    "漢字かな 한국어", "العربية", "😀😀 👩‍👩‍👧 🏳️‍🌈",
    "a\u00a0b\u2003c\u2028d\u0085e", "\ufefftext\ufeff", "\u001c\u001f",
    "<b>&amp;</b>", "!?!?...--", "the the\u200bthe", "lll eeeee ooo",
    "\U0010ffff\U0001d400",
)  # fmt: skip
# For each text and number of merges: the ids and the tokens that the page shows.
CUT = """texts => {
  const figure = document.querySelector("figure.u-typed");
  const [field, slider] = ["textarea", "input"].map(q => figure.querySelector(q));
  const cut = [];
  for (const [text, stop] of texts) {
    field.value = text;
    slider.value = stop;
    slider.dispatchEvent(new Event("input", {bubbles: true}));
    cut.push([...figure.querySelectorAll("small")].map(e => +e.textContent));
  }
  return cut;
}"""


@pytest.fixture
def page(open_page):
    return open_page(PAGE, "phone")


@pytest.fixture
def data(page):
    return json.loads(page.inner_text(".u-typed script[type='application/json']"))


@pytest.fixture
def tokenizers(data):
    merges, vocab = [], [bytes([i]) for i in range(256)]
    for a, b in zip(data["merges"][::2], data["merges"][1::2], strict=True):
        merges.append((vocab[a], vocab[b]))
        vocab.append(vocab[a] + vocab[b])
    return [BPETokenizer(merges[:k]) for k in data["stops"]]


def many_texts() -> list[str]:
    """Fixed ones, pieces of plays, and random characters of the first planes of Unicode."""
    rng = np.random.default_rng(4)
    play = corpora.load("shakespeare").test
    pieces = [play[at : at + 120] for at in rng.integers(0, len(play) - 120, 60)]
    blocks = [(0x20, 0x7F), (0xA0, 0x250), (0x370, 0x530), (0x900, 0x980), (0x4E00, 0x5000)]
    blocks += [(0x1F300, 0x1F650), (0x2000, 0x2070), (0x300, 0x370), (0x660, 0x66A)]
    for _ in range(60):
        chosen = rng.choice(len(blocks), 12)
        pieces.append("".join(chr(rng.integers(*blocks[b])) for b in chosen))
    return [*FIXED, *pieces]


def test_the_page_gives_the_ids_of_the_library(page, tokenizers):
    asked = [(text, stop) for text in many_texts() for stop in range(len(tokenizers))]
    for (text, stop), ids in zip(asked, page.evaluate(CUT, asked), strict=True):
        assert ids == tokenizers[stop].encode(text).tolist(), (text, stop)


def test_the_script_begins_with_what_was_there_before_it(page, data):
    still = page.request.get(page.url).text()
    at = still.index('<p class="u-typed-says">')
    still = still[still.index("<ol>", at) : still.index("</ol>", at)]
    now = page.evaluate("document.querySelector('.u-typed ol').outerHTML").removesuffix("</ol>")
    unfolded = "t => Object.assign(document.createElement('div'), {innerHTML: t}).innerHTML"
    assert page.evaluate(unfolded, still + "</ol>") == now + "</ol>"


def test_it_works_by_keyboard_and_tells_a_screen_reader(page, data, tokenizers):
    page.focus(".u-typed textarea")
    page.keyboard.press("Control+a")
    page.keyboard.type("ninepence")
    assert page.locator(".u-typed-says").get_attribute("role") == "status"
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert page.inner_text(".u-typed-says") == "0 merges: 9 tokens for 9 bytes"
    page.keyboard.press("ArrowRight")
    assert data["stops"][1] == 1
    merges = "1 merge"
    assert page.get_attribute(".u-typed input", "aria-valuetext") == merges
    n = len(tokenizers[1].encode("ninepence"))
    assert page.inner_text(".u-typed-says") == f"{merges}: {n} tokens for 9 bytes"


def test_a_long_text_wraps_on_a_phone(page):
    page.fill(".u-typed textarea", "antidisestablishmentarianism " * 10)
    assert page.evaluate("document.querySelector('.u-typed').scrollWidth") <= 375


def test_a_piece_that_fits_into_a_line_stands_in_one(page, data, tokenizers):
    text, pieces = "He was born in 1598, in 1599 or in 1600: who knows?" * 3, []
    page.fill(".u-typed textarea", text)
    page.fill(".u-typed input", "1")
    tops = page.evaluate(
        "[...document.querySelectorAll('.u-typed small')].map(e => Math.round(e.offsetTop))"
    )
    for piece in PATTERNS["gpt2"].findall(text):
        n = len(tokenizers[1].encode(piece))
        pieces.append(tops[:n])
        tops = tops[n:]
    assert not tops
    assert len({row for tops_of in pieces for row in tops_of}) > 5
    assert all(len(set(tops_of)) == 1 for tops_of in pieces), pieces
