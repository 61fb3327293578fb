"""Chapter 17's recorded experiment: the same tokens at every length, all else equal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from unrolled_book.experiments import c17_extrapolation as experiment
from unrolled_book.experiments import record

SMALL = dict(schemes=("learned", "relative, 128", "rotary"), seeds=(3, 5), n_steps=2,
             train_length=16, lengths=(32, 48), n_windows=5, reaches=(33, 48))  # fmt: skip


@pytest.fixture(scope="module")
def result():
    return experiment.run(**SMALL)


def test_it_can_be_recorded(result, tmp_path):
    record.save("c17_extrapolation", **result, seconds=1.0, folder=tmp_path)
    assert record.load("c17_extrapolation", tmp_path)["metrics"] == result["metrics"]


def test_every_scheme_is_scored_for_every_seed_and_length(result):
    rows = result["metrics"]["rows"]
    assert [row["scheme"] for row in rows] == [*SMALL["schemes"], "rotary, trained at 48"]
    assert [row["train_length"] for row in rows] == [16, 16, 16, 48]
    for row in rows:
        assert np.shape(row["bits"]) == (2, 2)
        assert np.shape(row["train_bits"]) == (2,)
        assert len(set(row["train_bits"])) == 2
        assert 1 < np.min(row["bits"]) < 12


def test_the_curve_has_every_run_in_bins_of_positions(result):
    curve = result["curve"]
    assert len({(p["scheme"], p["seed"]) for p in curve}) == 8
    assert [p["position"] for p in curve[:3]] == [0, 16, 32]
    assert len(curve) == 8 * 3


def test_the_reference_scheme_is_scored_for_every_reach(result):
    assert np.shape(result["metrics"]["reach"]) == (2, 2)


def test_a_key_beyond_the_reach_is_not_read():
    model = experiment.build("rotary", 11, 48, seed=0).eval()
    texts = np.random.default_rng(0).integers(11, size=(3, 49))
    begin = texts.copy()
    begin[:, 0] = (begin[:, 0] + 1) % 11
    # two layers: the first token reaches the scored ones, from 16 on, over 2 · (reach − 1) steps
    ours, changed = (experiment.by_reach(model, t, (8, 16, 48)) for t in (texts, begin))
    assert [a == b for a, b in zip(ours, changed, strict=True)] == [True, False, False]
    assert ours[2] == pytest.approx(experiment.losses(model, texts)[:, -32:].mean(), abs=1e-5)


def test_cosines_of_the_table_are_a_table_of_cosines(result):
    table = np.array(result["metrics"]["table"])
    assert table.shape == (16, 16)
    assert np.abs(np.diagonal(table) - 1).max() < 1e-3
    assert np.abs(table).max() < 1 + 1e-3


@pytest.mark.parametrize("scheme", [*experiment.SCHEMES, "rotary"])
def test_schemes_differ_in_their_position_only(scheme):
    model = experiment.build(scheme, 11, 23, seed=0)
    none = experiment.build("none", 11, 23, seed=0)
    extra = {"learned": 23 * 64, "relative": 32 * 4, "relative, 128": 32 * 4}.get(scheme, 0)
    count = sum(p.numel() for p in model.parameters())
    assert count - sum(p.numel() for p in none.parameters()) == extra


def test_the_distance_of_the_last_bucket_is_taken_from_the_name():
    assert experiment.build("relative", 11, 23, 0).stack.position.max_distance == 32
    assert experiment.build("relative, 128", 11, 23, 0).stack.position.max_distance == 128


def test_windows_end_with_a_target_and_lie_in_the_text():
    texts = experiment.windows(np.arange(101), 3, 7)
    assert texts.shape == (3, 8)
    assert texts[0].tolist() == list(range(8))
    assert texts[-1, -1] == 100


def test_the_same_tokens_are_scored_at_every_length():
    """A model that looks at the last token only loses the same, however long the window."""

    class Bigram(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(7, 7)

        def forward(self, tokens):
            return self.table(tokens)

    texts = experiment.windows(np.random.default_rng(0).integers(7, size=997), 11, 64)
    by_length = experiment.by_length(Bigram(), texts, (32, 41, 64))
    assert np.ptp(by_length) < 1e-9


def test_untouched_rows_of_a_table_stay_as_they_began():
    tokens = np.random.default_rng(0).integers(5, size=200)
    model, fresh = (experiment.build("learned", 5, 31, seed=1) for _ in range(2))
    experiment.train(model, tokens, length=7, n_steps=2, seed=1)
    before, after = (m.stack.position.weight for m in (fresh, model))
    assert torch.equal(before[7:], after[7:])
    assert not (before[:7] == after[:7]).any()
