"""Chapter 5's words under a new name: who is found again, and the form of the result."""

from __future__ import annotations

import json

import numpy as np
import pytest
from unrolled_book.experiments import c05_renamed, c05_vectors
from unrolled_book.experiments.c05_renamed import OCCURRENCES, WORDS, found_again, run


@pytest.fixture
def blocks(monkeypatch):
    """A text of 77 words in eleven groups of seven; each word is met only inside its group."""
    rng = np.random.default_rng(0)
    parts = [rng.permutation(np.arange(7 * b, 7 * b + 7)) for b in rng.integers(0, 11, 6_000)]
    known = tuple(map(str, range(77))), np.concatenate(parts)
    monkeypatch.setattr(c05_renamed, "text", lambda: known)
    return known


def test_a_new_name_finds_the_old_word_only_where_words_keep_company(blocks):
    before = blocks[1].copy()
    for seed in range(3):
        real = found_again(200, seed, words=(3, 30))
        null = found_again(200, seed, words=(3, 30), shuffled=True)
        assert max(real["ranks"]) <= 7 < max(null["ranks"])
        assert real == found_again(200, seed, words=(3, 30))
    np.testing.assert_array_equal(blocks[1], before)


def test_the_result_is_json_with_a_control_for_each_number_and_seed(blocks):
    result = json.loads(json.dumps(run((0, 3), (5, 9, 20), (20, 70)), allow_nan=False))
    assert result["config"]["words"] == ["5", "9", "20"]
    for name, shuffled in (("found", False), ("control", True)):
        rows = result["metrics"][name]
        assert all(len(row["ranks"]) == 3 and row["shuffled"] == shuffled for row in rows)
        assert [(r["n"], r["seed"]) for r in rows] == [(20, 0), (20, 3), (70, 0), (70, 3)]


def test_every_word_occurs_more_often_than_it_is_renamed():
    vocab, tokens = c05_vectors.text()
    counts = np.bincount(tokens[tokens >= 0], minlength=len(vocab))[list(WORDS)]
    assert len(WORDS) == 40
    assert counts.min() == 153 > max(OCCURRENCES)
