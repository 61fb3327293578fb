"""What the figure of typed tokens writes into a page and refuses; a browser tests the rest."""

from __future__ import annotations

import json
import re

import pytest
from unrolled.data.bpe import BPETokenizer
from unrolled_book.moving import typed_tokens

TOKENIZER = BPETokenizer.train("low lower lowest <b>é</b> " * 3, 12)


def shown(displayed) -> str:
    (bundle,) = displayed
    return bundle["text/html"]


def test_the_still_has_the_tokens_of_the_start(displayed):
    typed_tokens.show(TOKENIZER, "low <b>é\n", merges=(0, 4, 10), start=4, caption="So it is.")
    page = shown(displayed)
    ids = BPETokenizer(TOKENIZER.merges[:4]).encode("low <b>é\n").tolist()
    assert [int(i) for i in re.findall(r"<small>(\d+)</small>", page)] == ids
    assert f"4 merges: {len(ids)} tokens for 10 bytes" in page
    assert "&lt;" in page
    assert "↵" in page
    assert "So it is." in page
    assert "4 merges cut" in displayed[0]["text/plain"]


def test_bytes_of_a_cut_character_are_hex(displayed):
    typed_tokens.show(BPETokenizer([]), "é", merges=(0,), start=0)
    assert '<span class="u-typed-bytes">C3</span>' in shown(displayed)
    assert typed_tokens.written(b" a\n") == ("␣a↵", True)
    assert typed_tokens.written(b" \xf0") == ("20 F0", False)


def test_the_page_has_the_merges_up_to_the_last_stop(displayed):
    typed_tokens.show(TOKENIZER, "low", merges=(0, 5), start=5)
    (written,) = re.findall(r'(?s)<script type="application/json">(.*?)</script>', shown(displayed))
    data = json.loads(written)
    ids = {token: i for i, token in enumerate(TOKENIZER.vocab)}
    assert data["merges"] == [ids[token] for pair in TOKENIZER.merges[:5] for token in pair]
    assert (data["stops"], data["start"]) == ([0, 5], 1)


@pytest.mark.parametrize(
    ("tokenizer", "text", "options", "message"),
    [
        (TOKENIZER, "", {}, r"1 … 300 characters"),
        (TOKENIZER, "a" * 301, {}, r"1 … 300 characters"),
        (TOKENIZER, "a\r\n", {}, "no carriage return"),
        (TOKENIZER, "a", {"merges": (0, 99)}, "a number of merges"),
        (TOKENIZER, "a", {"merges": (4, 0)}, r"must rise and hold 4, the start, got \[4, 0\]"),
        (TOKENIZER, "a", {"merges": (0, 5)}, "must rise and hold 4"),
        (BPETokenizer(TOKENIZER.merges, ["<s>"]), "a", {}, "GPT-2's pattern only"),
        (BPETokenizer(TOKENIZER.merges, pattern="none"), "a", {}, "GPT-2's pattern only"),
        (BPETokenizer([], vocab=BPETokenizer([]).vocab[::-1]), "a", {"merges": (0,), "start": 0},
         "in their order"),
        (BPETokenizer(TOKENIZER.merges, vocab=(*TOKENIZER.vocab[:256], *TOKENIZER.vocab[:255:-1])),
         "a", {}, "in the order of the merges"),
    ],
)  # fmt: skip
def test_what_the_page_cannot_follow_is_refused(tokenizer, text, options, message):
    with pytest.raises(ValueError, match=message):
        typed_tokens.show(tokenizer, text, **({"merges": (0, 4), "start": 4} | options))
