"""Chapter 4's recorded experiment: rows as recorded, and the context inside of tokens."""

from __future__ import annotations

import json

import numpy as np
import pytest
from unrolled.data.bpe import BPETokenizer
from unrolled_book.experiments import c04_context, record


def test_bytes_inside_counts_what_stands_before_a_byte_in_its_own_token():
    tokenizer = BPETokenizer([(b"a", b"b"), (b"ab", b"c")])
    assert c04_context.inside(tokenizer.encode("abc"), tokenizer) == 1  # (0 + 1 + 2) / 3
    assert c04_context.inside(np.array([256, 0]), tokenizer) == pytest.approx(1 / 3)
    assert c04_context.inside(tokenizer.encode("xyz"), tokenizer) == 0


def test_the_result_is_json_with_a_row_for_every_text_and_order(monkeypatch):
    monkeypatch.setattr(c04_context, "TRAIN_BYTES", 20_000)
    result = c04_context.run(["austen"], merges=(0, 7), orders=(1, 3))
    result = json.loads(json.dumps(result, allow_nan=False))
    keys = [(r["split"], r["merges"], r["order"]) for r in result["metrics"]["runs"]]
    assert keys == [(s, k, n) for k in (0, 7) for n in (1, 3) for s in ("valid", "test")]


def test_recorded_rows_come_out_again():
    recorded = record.load("c04_context")
    assert recorded["config"]["train_bytes"] == c04_context.TRAIN_BYTES
    found = c04_context.measure("shakespeare-small", 250, recorded["config"]["orders"][:2])
    rows = [r for r in recorded["metrics"]["runs"] if r["corpus"] == "shakespeare-small"]
    rows = [r for r in rows if r["merges"] == 250 and r["order"] <= 2]
    for row, expected in zip(found, rows, strict=True):
        texts = ("corpus", "split", "merges", "order")
        assert [row.pop(name) for name in texts] == [expected.pop(name) for name in texts]
        assert row == pytest.approx(expected, rel=2e-3)
