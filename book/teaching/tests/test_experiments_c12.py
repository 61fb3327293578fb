"""Chapter 12's recorded experiments: the same tokens for all, and cells looked at as they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from unrolled.data.tokens import CharTokenizer
from unrolled.models.ngram import NGram
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.training.evaluate import evaluate
from unrolled_book.experiments import c12_cells, c12_words, record

SMALL = dict(
    corpus="shakespeare-small", vocab_size=101, search_steps=2, seeds=(3, 5), orders=(2, 3)
)


@pytest.fixture(scope="module")
def result(short_texts):
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


def test_a_rate_that_diverges_is_reported_and_not_chosen(short_texts):
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
    by_windows = evaluate(model, tokens["valid"][:3001], 1, start=tokenizer.eos_id).perplexity
    short = {**tokens, "valid": tokens["valid"][:3001]}
    (row,) = c12_words.kneser_ney_rows(short, tokenizer, (3,))
    assert row["valid_perplexity"] == pytest.approx(by_windows, rel=1e-12)


def test_one_seed_gives_one_result(short_texts):
    tokens, tokenizer = c12_words.tokens_of("shakespeare-small", 101)
    losses = [
        c12_words.train("elman", tokens, tokenizer, lr=1e-2, n_steps=2, seed=seed)[1].best_loss
        for seed in (0, 0, 1)
    ]
    assert losses[0] == losses[1] != losses[2]


@pytest.fixture(scope="module")
def trained(short_texts):
    return c12_cells.run(n_steps=3, seeds=(3, 5), n_looks=3)


def test_cells_can_be_recorded(trained, tmp_path):
    record.save("c12_cells", **trained, seconds=1.0, folder=tmp_path)
    assert record.load("c12_cells", tmp_path)["metrics"] == trained["metrics"]


def test_every_seed_has_its_cell_and_its_looks(trained):
    assert [found["seed"] for found in trained["metrics"]["by_seed"]] == [3, 5]
    assert [(p["seed"], p["step"]) for p in trained["curve"]] == [
        (seed, step) for seed in (3, 5) for step in (1, 2, 3)
    ]
    for found in trained["metrics"]["by_seed"]:
        assert 0 <= found["cell"] < 128
        assert abs(found["chosen"]) <= 1 + 1e-9
        assert 0 < found["line_ends"][0] < 1


def test_places_count_from_the_last_new_line():
    np.testing.assert_array_equal(
        c12_cells.places(np.array([7, 0, 5, 5, 0, 0, 5]), newline=0), [1, 0, 1, 2, 0, 0, 1]
    )


@pytest.fixture(scope="module")
def fresh():
    torch.manual_seed(0)
    return RecurrentLM(11, "lstm", embedding_dim=3, hidden_size=5)


def test_a_model_of_the_character_before_listens_to_it_alone():
    """A model whose prediction depends on the character before the last one alone."""
    tokenizer = CharTokenizer.train("\nabcdefghijklmnopqrstuvwxyz")
    table = torch.randn(27, 27)

    def bigram(ids):
        return table[torch.roll(ids, 1, dims=1)]

    moved = c12_cells.listened(bigram, tokenizer, "abz")
    for kind in ("letter", "newline"):
        assert [m > 0 for m in moved[kind]] == [False, True, False]
    p = table.softmax(-1).numpy()
    letters = tokenizer.encode("b" + c12_cells.OTHERS + "\n")
    expected = np.abs(p[letters[1:]] - p[letters[0]]).sum(-1) / 2
    assert moved["letter"][1] == pytest.approx(expected[:-1].mean(), abs=1e-6)
    assert moved["newline"][1] == pytest.approx(expected[-1], abs=1e-6)


def test_reading_by_steps_is_the_models_own_reading(fresh, rng_ids):
    _, logits = c12_cells.read(fresh, rng_ids)
    rows = torch.from_numpy(rng_ids.reshape(c12_cells.N_ROWS, -1))
    whole = fresh(rows)[:, c12_cells.WARM_UP :].flatten(0, 1)
    torch.testing.assert_close(logits, whole, atol=1e-5, rtol=1e-5)


def test_a_clamped_cell_stands_still_and_the_logits_move(fresh, rng_ids):
    states, logits = c12_cells.read(fresh, rng_ids)
    held, moved = c12_cells.read(fresh, rng_ids, clamp=(2, 0.5))
    assert (held[:, 2] == 0.5).all()
    assert not torch.equal(logits, moved)
    assert states[:, 2].std() > 0


@pytest.fixture(scope="module")
def rng_ids():
    return np.random.default_rng(0).integers(11, size=c12_cells.N_ROWS * c12_cells.LENGTH)


def test_a_cell_that_is_the_feature_correlates_fully():
    rng = np.random.default_rng(0)
    feature = rng.normal(size=503)
    states = np.stack([rng.normal(size=503), -2 * feature + 1, np.zeros(503)], axis=1)
    r = c12_cells.correlations(states, feature)
    np.testing.assert_allclose(r[1:], [-1, 0], atol=1e-6)
    assert abs(r[0]) < 0.2
