"""Chapter 12's recorded experiment: the same tokens for all, and scores that a model earns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from unrolled.models.ngram import NGram
from unrolled.teaching import record
from unrolled.teaching.experiments import c12_words
from unrolled.teaching.ladder import evaluate

SMALL = dict(
    corpus="shakespeare-small", vocab_size=101, search_steps=2, seeds=(3, 5), orders=(2, 3)
)


@pytest.fixture(scope="module")
def result():
    return c12_words.run(n_steps=7, lrs=(1e-2, 2e-2), exhibit_lr=1e-4, **SMALL)


def test_it_can_be_recorded(result, tmp_path):
    record.save("c12_words", **result, seconds=1.0, folder=tmp_path)
    assert record.load("c12_words", tmp_path)["metrics"] == result["metrics"]


def test_every_seed_is_scored_and_the_row_is_their_mean(result):
    for row in [*result["metrics"]["rows"][2:], result["metrics"]["exhibit"]]:
        assert row["seeds"] == [3, 5]
        for split in ("valid", "test"):
            scores = row[f"{split}_perplexity_by_seed"]
            assert len(set(scores)) == 2
            assert row[f"{split}_perplexity"] == pytest.approx(np.mean(scores))


def test_rates_are_chosen_by_the_search(result):
    for cell, row in zip(("elman", "lstm"), result["metrics"]["rows"][2:], strict=True):
        found = result["config"]["search"][cell]
        assert row["lr"] == min(found, key=lambda f: f["valid_perplexity"])["lr"]
    assert result["metrics"]["exhibit"]["lr"] == 1e-4


def test_a_rate_that_diverges_is_reported_and_not_chosen():
    result = c12_words.run(n_steps=1, lrs=(1e30, 1e-2), exhibit_lr=None, **SMALL)
    assert [f["valid_perplexity"] is None for f in result["config"]["search"]["lstm"]] == [1, 0]
    assert result["metrics"]["rows"][-1]["lr"] == 1e-2
    assert "exhibit" not in result["metrics"]


def test_the_parameters_are_counted_by_hand(result):
    V, D, H = 101, 64, 128
    outside = V * D + (H * D + D) + V  # embedding, map to its width, bias of the head
    elman, lstm = (row["parameters"] for row in result["metrics"]["rows"][2:])
    assert elman == outside + H * D + H * H + 2 * H
    assert lstm == outside + 4 * (H * D + H * H + 2 * H)


def test_untrained_networks_are_worse_than_counts_and_better_than_nothing(result):
    *counted, elman, lstm = result["metrics"]["rows"]
    for row in (elman, lstm):
        assert max(c["test_perplexity"] for c in counted) < row["test_perplexity"] < 101


def test_the_curves_hold_every_validation_of_every_run(result):
    runs = {(p["model"], p["lr"], p["seed"]) for p in result["curve"]}
    assert len(runs) == 6
    assert len(result["curve"]) == 6 * 7
    assert all(1 <= p["valid_perplexity"] < math.inf for p in result["curve"])


def test_kneser_ney_is_scored_as_by_windows_with_overlap(result):
    tokens, tokenizer = c12_words.tokens_of("shakespeare-small", 101)
    model = NGram.fit(tokens["train"], 3, 101, "kneser-ney", modified=True)
    by_windows = evaluate(model, tokens["valid"][:3001], 1, start=tokenizer.end).perplexity
    short = {**tokens, "valid": tokens["valid"][:3001]}
    (row,) = c12_words.kneser_ney_rows(short, tokenizer, (3,))
    assert row["valid_perplexity"] == pytest.approx(by_windows, rel=1e-12)


def test_one_seed_gives_one_result():
    tokens, tokenizer = c12_words.tokens_of("shakespeare-small", 101)
    losses = [
        c12_words.train("elman", tokens, tokenizer, lr=1e-2, n_steps=2, seed=seed)[1].best_loss
        for seed in (0, 0, 1)
    ]
    assert losses[0] == losses[1] != losses[2]
