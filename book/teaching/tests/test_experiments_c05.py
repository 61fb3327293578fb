"""Chapter 5's recorded experiment: its text, its comparisons, and the form of its result."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from unrolled_book.experiments import c05_vectors
from unrolled_book.experiments.c05_vectors import LINK, SKIPGRAM, link, nearest, overlap

QUICK = {"n_epochs": 1, "batch_size": 20_000, "negatives": 2}


@pytest.fixture
def tiny(monkeypatch):
    """The first words of each text and the frequent ones only, so that a run takes a second."""
    text, n_words = c05_vectors.text, 750  # all PROBES among them

    def cut(corpus=c05_vectors.CORPUS):
        vocab, tokens = text(corpus)
        return vocab[:n_words], np.where(tokens < n_words, tokens, -1)[:20_000]

    monkeypatch.setattr(c05_vectors, "text", cut)
    monkeypatch.setattr(c05_vectors, "BANDS", ((0, 100), (100, 750)))
    monkeypatch.setattr(c05_vectors, "LONGER", 2)


def test_the_text_has_its_most_frequent_words_first():
    vocab, tokens = c05_vectors.text()
    counts = np.bincount(tokens[tokens >= 0], minlength=len(vocab))
    assert vocab[:3] == ("the", "and", "i")
    assert (np.diff(counts) <= 0).all()
    assert counts.min() == c05_vectors.MIN_COUNT
    assert tokens.min() == -1
    assert set(c05_vectors.PROBES) < set(vocab)


def test_overlap_is_ten_with_itself_and_small_with_chance():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 300, 7))
    assert overlap(a, a) == 10
    assert overlap(a, 3 * a) == 10
    assert overlap(a, b) < 1
    assert not (nearest(a, 10) == np.arange(300)[:, None]).any()


def test_a_word_is_compared_with_its_nearest_other_word_in_both_texts():
    """In the text words 2i and 2i + 1 have the cosine 0.6; shuffled, all words have 0."""
    pairs, null = np.zeros((1500, 1500)), np.eye(1500)
    pairs[np.arange(1500), np.arange(1500) // 2 * 2] = 1
    pairs[1::2] = 0.6 * pairs[1::2] + 0.8 * null[1::2]
    found = c05_vectors.against_shuffled(pairs, null)
    assert [band.pop("ranks") for band in found] == [[1, 100], [101, 500], [501, 1500]]
    assert found == [{"text": 0.6, "shuffled": 0, "nearer": 1}] * 3
    assert all(band["nearer"] == 0 for band in c05_vectors.against_shuffled(null, pairs))


def test_expected_counts_are_those_of_drawn_windows():
    """a b c with windows drawn from 1 and 2: neighbours always, the far pair half of the time."""
    settings = replace(LINK, window=2, negatives=1, power=1.0)
    pairs, counts, target = c05_vectors.expected_pmi(np.array([0, 1, 2]), 3, settings)
    found = {tuple(pair): n for pair, n in zip(pairs.tolist(), counts, strict=True)}
    assert found == {(0, 1): 1, (1, 0): 1, (1, 2): 1, (2, 1): 1, (0, 2): 0.5, (2, 0): 0.5}
    np.testing.assert_allclose(target[(pairs == [0, 1]).all(1)], np.log(1 * 5 / (1.5 * 2)))


def test_the_result_is_json_with_a_run_for_every_seed_and_width(tiny):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    result = c05_vectors.run(
        seeds=(0, 3),
        widths=(2, 3),
        skipgram=replace(SKIPGRAM, **QUICK),
        linked=replace(LINK, **QUICK),
    )
    assert torch.equal(torch.rand(2), expected), "torch's generator was used"
    metrics = json.loads(json.dumps(result, allow_nan=False))["metrics"]
    assert [run["seed"] for run in metrics["runs"]] == [0, 3]
    assert all(set(run["neighbours"]) == set(c05_vectors.PROBES) for run in metrics["runs"])
    assert [(r["width"], r["seed"]) for r in metrics["link"]] == [(2, 0), (2, 3), (3, 0), (3, 3)]
    assert [r["n_epochs"] for r in metrics["longer"]] == [c05_vectors.LONGER] * 2


def test_products_follow_pmi_more_closely_after_training(tiny):
    short = replace(LINK, n_epochs=1, batch_size=20_000, lr=1e-4)
    longer = replace(LINK, n_epochs=12, batch_size=500)
    assert link(20, 0, short)["slope"] < 0.1 < link(20, 0, longer)["slope"]
