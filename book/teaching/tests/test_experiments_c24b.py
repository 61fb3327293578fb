"""Chapter 24b's recorded experiments: what is measured, on cases counted by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn
from unrolled.data.batches import IGNORE
from unrolled.models.moe import MixtureOfExperts
from unrolled_book.experiments import (
    _common,
    c24b_digits,
    c24b_experts,
    c24b_length,
    c24b_recall,
    record,
)


def test_a_table_is_asked_for_each_of_its_names_once():
    (names, rooms), targets = c24b_recall.tables(np.random.default_rng(0), 5, 3)
    for name, room, target in zip(names, rooms, targets, strict=True):
        table = dict(zip(name[:5].tolist(), room[:5].tolist(), strict=True))
        assert len(table) == 5
        assert (target[:5] == IGNORE).all()
        assert (room[5:] == c24b_recall.N_ROOMS).all()
        assert sorted(name[5:]) == sorted(name[:5])
        assert target[5:].tolist() == [table[n] for n in name[5:].tolist()]


def test_a_reader_that_looks_things_up_is_right_and_a_guess_is_not():
    def lookup(names, rooms):
        n = names.shape[1] // 2
        same = names[:, :, None] == names[:, None, :n]
        found = (same * rooms[:, None, :n]).sum(-1)
        return nn.functional.one_hot(found, c24b_recall.N_ROOMS)

    assert c24b_recall.right(lookup, 8, 20) == 100
    guess = c24b_recall.right(lambda names, _: torch.eye(10)[names * 0], 8, 200)
    assert guess == pytest.approx(10, abs=3)


def test_memory_is_what_the_layer_keeps():
    cache = c24b_recall.build("attention", 0).layer
    keys = cache.blocks[0].attention
    assert c24b_recall.memory("attention", 7) == 7 * 2 * keys.n_heads * keys.head_dim
    layer = c24b_recall.build("state 8", 0).layer
    state = layer.new_state(torch.zeros(1, 1, c24b_recall.D_MODEL))
    assert c24b_recall.memory("state 8", 7) == state.hidden.numel()
    assert state.recent.numel() == 0  # the convolution has width 1 and remembers nothing


def test_the_fixed_layer_selects_nothing():
    """Its output is linear in what enters the state, once gate and activation are held."""
    fixed = c24b_recall.build("fixed 8", 0).layer.x_proj
    selective = c24b_recall.build("state 8", 0).layer.x_proj
    x, y = torch.randn(2, 1, 3, c24b_recall.D_INNER)
    assert torch.equal(fixed(x), fixed(y))
    assert not torch.allclose(selective(x), selective(y))
    assert fixed(x).shape == selective(x).shape


def test_the_last_written_value_is_known_from_the_symbols():
    symbols, last = c24b_length.texts(np.random.default_rng(0), 50, 4)
    for row, answer in zip(symbols.tolist(), last.tolist(), strict=True):
        value = None
        for symbol, right in zip(row, answer, strict=True):
            value = symbol if symbol < c24b_length.N_VALUES else value
            assert right == value
    assert 0.02 < (symbols[:, 1:] < c24b_length.N_VALUES).mean() < 0.15


def test_errors_are_counted_at_the_last_positions():
    def forgetful(symbols):
        """Right at the last SCORED positions only where the symbol itself writes."""
        return torch.eye(8)[symbols % c24b_length.N_VALUES]

    found = c24b_length.errors(forgetful, 128, 40)
    assert found == pytest.approx(100 * 3 / 4 * 15 / 16, abs=6)


def test_blocks_stay_together_and_folds_are_nearly_equal():
    for block, seed in ((1, 0), (30, 1), (100, 2)):
        fold = c24b_digits.folds(1797, block=block, seed=seed)
        assert all(len(set(fold[k : k + block])) == 1 for k in range(0, 1797, block))
        assert np.ptp(np.bincount(fold)) <= 2 * block
    thirds = c24b_digits.folds(1797)
    assert (np.diff(thirds) >= 0).all()
    assert np.bincount(thirds).tolist() == [599, 599, 599]


def test_digits_are_scaled_and_all_arms_have_about_one_size():
    images, classes = c24b_digits.digits()
    assert images.shape == (1797, 1, 8, 8)
    assert (images.min(), images.max()) == (0, 1)
    assert set(classes.tolist()) == set(range(10))
    sizes = [_common.n_parameters(c24b_digits.build(arm, 0)) for arm in c24b_digits.ARMS]
    assert max(sizes) < 1.05 * min(sizes)


def test_no_tested_picture_has_a_say_in_the_choice_of_a_rate(monkeypatch):
    fold, seen = c24b_digits.folds(1797, block=30, seed=0), []
    images = c24b_digits.digits()[0]

    def train(arm, train_set, **options):
        seen.append(train_set[0])
        return options["lr"]

    def right(lr, tested, classes):
        seen.append(tested)
        return 100 * lr

    monkeypatch.setattr(c24b_digits, "train", train)
    monkeypatch.setattr(c24b_digits, "right", right)
    for k in range(3):
        seen.clear()
        assert c24b_digits.chosen("ViT", fold, k, lrs=(0.1, 0.3, 0.2), n_steps=1) == 0.3
        assert sum(map(len, seen[:2])) == (fold != k).sum()
        kept_out = {image.tobytes() for image in images[fold == k]}
        assert not any(image.tobytes() in kept_out for part in seen for image in part)


def test_a_token_meets_as_many_weights_as_in_the_narrow_dense_layer():
    narrow, wide, mixture, balanced = (c24b_experts.build(arm, 65, 0) for arm in c24b_experts.ARMS)
    routers = sum(m.router.weight.numel() for m in mixture.modules()
                  if isinstance(m, MixtureOfExperts))  # fmt: skip
    assert c24b_experts.n_active(mixture) == _common.n_parameters(narrow) + routers
    assert _common.n_parameters(mixture) == _common.n_parameters(wide) + routers
    assert c24b_experts.n_active(wide) == _common.n_parameters(wide)
    assert all(map(torch.equal, mixture.parameters(), balanced.parameters()))


def small(module, **changes):
    return json.loads(json.dumps(module.run(seeds=(0,), lrs=(5e-3,), **changes)))


def test_each_experiment_gives_a_record():
    few = {"n_steps": 3, "search_steps": 2}
    found = small(c24b_recall, **few, n_tables=3, arms=("attention", "fixed 8"), pairs=(1, 2))
    assert [row["arm"] for row in found["metrics"]["rows"]] == ["attention", "fixed 8"]
    found = small(c24b_length, **few, n_texts=2, arms=("selective",), lengths=(64, 80))
    assert len(found["metrics"]["rows"][0]["errors"]) == 2
    found = small(c24b_digits, n_steps=2, arms=("convolution",))
    assert [row["split"] for row in found["metrics"]["rows"]] == ["random", "contiguous"]
    found = small(c24b_experts, n_steps=4, n_windows=3, arms=("experts, balanced",))
    row = found["metrics"]["rows"][0]
    assert np.array(row["loads"]).shape == (2, 8)
    assert np.array(row["loads"]).sum(1) == pytest.approx(1)
    assert row["curve"][0]["step"] == 0
    assert row["curve"][-1]["step"] == 4


def test_a_search_of_the_record_comes_out_again():
    config = record.load("c24b_length")["config"]
    tried = {row["lr"]: row["errors"] for row in config["search"]["selective"]}
    for lr in (1e-2, 2e-2):
        model = c24b_length.train("selective", lr=lr, n_steps=config["search_steps"], seed=100)
        found = c24b_length.errors(model, config["train_length"], 100)
        assert found == pytest.approx(tried[lr], abs=3)


@pytest.mark.parametrize("module", [c24b_experts, c24b_length])
def test_no_searched_rate_is_at_the_edge_unless_the_edge_is_as_good(module):
    """An arm at the edge of its grid might do better beyond it."""
    name = module.__name__.rpartition(".")[2]
    found = record.load(name)["config"]["search"]
    for arm, tried in found.items():
        (what,) = set(tried[0]) - {"lr"}
        best = min(row[what] for row in tried if row[what] is not None)
        inner = min(row[what] for row in tried[1:-1])
        assert inner <= best * 1.02 + 0.5 * (what == "errors"), (name, arm, tried)


def test_what_was_written_once_is_asked_for_after_the_noise():
    def remembers(symbols):
        return torch.eye(8)[symbols[:, :1].expand_as(symbols)]

    def says_the_last(symbols):
        return torch.eye(8)[symbols % c24b_length.N_VALUES]

    assert c24b_length.errors_back(remembers, 30, 50) == 0
    assert c24b_length.errors_back(says_the_last, 30, 400) == pytest.approx(75, abs=8)
