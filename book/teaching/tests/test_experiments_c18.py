"""Chapter 18's recorded experiment: what is trained, how it starts, what it hands over."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from unrolled_book.experiments import c18_depth as experiment
from unrolled_book.experiments.c18_depth import Arm, fresh, run, train


def small(**changes) -> dict:
    arms = (
        Arm(place="pre", depth=1, lr=1e-3, warmup=0),
        Arm(place="post", depth=2, lr=1e-2, warmup=5, activation="swiglu"),
    )
    return run(**({"arms": arms, "seeds": (0, 3), "n_steps": 3} | changes))


def test_the_result_is_json_with_a_run_and_a_curve_for_every_arm_and_seed():
    result = json.loads(json.dumps(small()))
    runs = result["metrics"]["runs"]
    assert [(r["place"], r["depth"], r["seed"]) for r in runs] == [
        ("pre", 1, 0), ("pre", 1, 3), ("post", 2, 0), ("post", 2, 3),
    ]  # fmt: skip
    assert all(r["updates"] == 3 for r in runs)
    assert [len(c["bits"]) for c in result["curve"]] == [1] * 4
    assert result["seeds"] == [0, 3]
    assert result["config"]["depths"] == [1, 2]
    assert [len(r["gradients"]) for r in runs] == [1, 1, 2, 2]


def test_the_same_call_gives_the_same_result_and_leaves_torchs_generator_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    assert small() == small()
    assert torch.equal(torch.rand(2), expected)


def test_a_curve_has_the_mean_of_every_twenty_updates(monkeypatch):
    monkeypatch.setattr(experiment, "EVERY", 2)
    arm = Arm(place="pre", depth=1, lr=1e-3, warmup=0)
    assert len(train(arm, seed=0, n_steps=5)["curve"]) == 3


def test_a_training_that_diverges_is_told():
    arm = Arm(place="pre", depth=1, lr=1e30, warmup=0)
    row = json.loads(json.dumps(train(arm, seed=0, n_steps=4), allow_nan=False))
    assert row["updates"] < 4
    assert (row["bits"], row["gradients"]) == (None, [None])


def test_gradients_are_norms_over_all_matrices_of_a_block_and_leave_none_behind():
    model = fresh("post", 3, seed=1)
    found = experiment.gradients(model)
    assert all(p.grad is None for p in model.parameters())
    tokens, targets = map(torch.from_numpy, experiment.held_out())
    torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()).backward()
    for norm, block in zip(found, model.stack.blocks, strict=True):
        matrices = [p.grad.flatten() for p in block.parameters() if p.ndim == 2]
        assert norm == pytest.approx(torch.cat(matrices).norm().item(), rel=1e-5)


@pytest.mark.parametrize("activation", experiment.ACTIVATIONS)
def test_activations_have_equal_parameters_to_a_hundredth(activation):
    def count(activation):
        layer = fresh("pre", 1, seed=0, activation=activation).stack.blocks[0].feed_forward
        return sum(p.numel() for p in layer.parameters())

    assert count(activation) == pytest.approx(count("gelu"), rel=0.01)


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_every_matrix_starts_with_variance_2_over_inputs_and_outputs(activation):
    model = fresh("post", 3, seed=1, activation=activation)
    D, F = experiment.WIDTH, experiment.inner_width(activation)
    for name, parameter in model.stack.blocks.named_parameters():
        if parameter.ndim == 2:
            other = F if "feed_forward" in name else D
            expected = (2 / (D + other)) ** 0.5
            assert parameter.std().item() == pytest.approx(expected, rel=0.06), name
    embedded = model.embedding.weight[:, None] + model.stack.position.weight
    assert embedded.std().item() == pytest.approx(1, rel=0.05)


def test_the_small_start_is_small_and_unknown_ones_are_refused():
    model = fresh("pre", 2, seed=0, init="small")
    assert model.stack.blocks[0].attention.q_proj.weight.std() < 0.03
    with pytest.raises(ValueError, match="init must be one of"):
        fresh("pre", 2, seed=0, init="large")


def test_guessing_by_frequency_costs_the_entropy_of_the_letters():
    _, train_ids, _ = experiment.text()
    p = np.bincount(train_ids) / len(train_ids)
    entropy = -(p * np.log2(p, where=p > 0, out=np.zeros_like(p))).sum()
    assert experiment.by_frequency() == pytest.approx(entropy, abs=0.1)


def test_one_grid_has_both_places_of_every_setting():
    arms = experiment.grid((2, 6), (1e-3,), (0, 7))
    assert len(arms) == len(set(arms)) == 8
    assert {arm.place for arm in arms} == {"pre", "post"}
