"""Chapter 6's recorded experiments: what is trained, how it starts, what is inserted."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from unrolled_book.experiments import c06_depth, c06_layers, c06_longer, record
from unrolled_book.experiments.c06_depth import Arm, deepen, fresh, inserted, run, train

ARMS = (Arm(depth=2, residual=False), Arm(depth=3, residual=True, start="small"))


def small() -> dict:
    return run(arms=ARMS, seeds=(0, 3), n_steps=2)


def test_the_result_is_json_with_a_run_for_every_arm_and_seed(monkeypatch):
    monkeypatch.setattr(c06_depth, "LRS", (1e-3, 1e-2))
    monkeypatch.setattr(c06_depth, "LONG", 7)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    result = json.loads(json.dumps(small(), allow_nan=False))
    assert torch.equal(torch.rand(2), expected), "torch's generator was used"
    assert [(r["depth"], r["seed"]) for r in result["metrics"]["runs"]] == [
        (2, 0), (2, 3), (3, 0), (3, 3),
    ]  # fmt: skip
    for row, searched in zip(
        result["metrics"]["runs"][::2], result["config"]["searches"], strict=True
    ):
        best = min(searched["search"], key=lambda found: found["train"])
        assert row["lr"] == best["lr"]
    assert [len(c["bits"]) for c in result["curve"]] == [1] * 4
    assert [r["depth"] for r in result["metrics"]["inserted"]] == [5, 7, 5, 7]


def test_starts_are_what_they_are_called():
    of = {kind: fresh(Arm(depth=4, residual=False, start=kind), 0) for kind in c06_depth.STARTS}
    he, little, identity = (of[kind].stack.layers[1].weight for kind in c06_depth.STARTS)
    assert_close(he.std().item(), (2 / 64) ** 0.5, rtol=0.05, atol=0)
    assert_close(little, he / 2)
    assert torch.equal(identity, torch.eye(64))
    assert all(not layer.bias.any() for model in of.values() for layer in model.stack.layers)
    with pytest.raises(ValueError, match="start must be one of"):
        fresh(Arm(depth=1, residual=False, start="glorot"), 0)


def test_inserted_identity_layers_change_no_output():
    model = fresh(Arm(depth=2, residual=False), 1)
    deeper = deepen(model, 9)
    tokens = torch.arange(16).view(2, 8)
    assert len(deeper.stack.layers) == 9
    assert len(model.stack.layers) == 2
    assert torch.equal(deeper(tokens), model(tokens))


@pytest.mark.parametrize(
    "model",
    [
        fresh(Arm(depth=2, residual=True), 1),
        fresh(Arm(depth=2, residual=False, batch_norm=True), 1),
        c06_layers.fresh("tanh", 1),
    ],
    ids=["residual", "batch norm", "tanh"],
)
def test_where_identity_layers_would_change_the_outputs_they_are_refused(model):
    with pytest.raises(ValueError, match="only a plain stack of ReLU layers"):
        deepen(model, 9)


def test_a_stack_cannot_be_deepened_to_fewer_layers():
    with pytest.raises(ValueError, match="has 3 layers, got n_layers = 2"):
        deepen(fresh(Arm(depth=3, residual=False), 1), 2)


def test_the_insertion_begins_where_the_short_stack_stood():
    short, deep = inserted(1e-2, (1e-2, 1e-2), seed=0, n_steps=4)
    assert short["before"] == deep["before"]
    assert short["train"] != deep["train"]


def test_batch_norm_stands_before_the_activation_in_every_layer():
    model = fresh(Arm(depth=3, residual=False, batch_norm=True), 0)
    tokens, _ = c06_depth.draw(np.random.default_rng(0), c06_depth.text()[1], 64)
    a = model.stack.layers[0](model.features(tokens))
    assert_close(a.mean(0), torch.zeros(64), atol=1e-5, rtol=0)
    assert_close(a.std(0, correction=0), torch.ones(64), atol=1e-2, rtol=0)
    assert len(model.stack.layers) == 3


def test_guessing_by_frequency_costs_the_entropy():
    _, ids, _ = c06_depth.text()
    share = np.unique(ids, return_counts=True)[1] / len(ids)
    assert c06_depth.by_frequency() == pytest.approx(-(share * np.log2(share)).sum())


def test_what_is_looked_at_are_the_layers_outputs_and_gradients():
    model = c06_layers.fresh("sigmoid", 0)
    seen = c06_layers.look(model)
    assert all(len(seen[key]) == 4 for key in ("mean", "spread", "gradient", "weight_gradient"))
    assert all(abs(mean - 0.5) < 0.05 for mean in seen["mean"])
    assert all(p.grad is None for p in model.parameters())
    bound = model.stack.layers[0].weight.abs().max().item()
    assert 0.9 / 8 < bound <= 1 / 8, "torch's start is uniform between ±1/√inputs"


def test_a_frozen_first_layer_stays_and_the_others_learn(monkeypatch):
    model = c06_layers.fresh("sigmoid", 0)
    before = [p.clone() for p in model.parameters()]
    monkeypatch.setattr(c06_layers, "fresh", lambda *_: model)
    c06_layers.train(c06_layers.TRAININGS["sigmoid, first layer frozen"], 0, 3)
    same = {
        name: torch.equal(p, old)
        for (name, p), old in zip(model.named_parameters(), before, strict=True)
    }
    assert [name for name in same if same[name]] == [
        "embedding.weight", "stack.layers.0.weight", "stack.layers.0.bias",
    ]  # fmt: skip


def test_the_controls_train_longer_and_start_smaller(monkeypatch):
    monkeypatch.setattr(c06_depth, "evaluate", lambda model: {"train": 1.0})
    found = json.loads(json.dumps(c06_longer.run(seeds=(0,), n_steps=2)))["metrics"]
    assert [found[name][0]["n_steps"] for name in ("longer", "smaller")] == [3, 2]
    weight = c06_longer.smaller(0).stack.layers[7].weight
    assert_close(weight.std().item(), (2 / 64) ** 0.5 / 40, rtol=0.05, atol=0)


# The first points of the records come out again.


@pytest.mark.parametrize("arm", [ARMS[1], Arm(depth=5, residual=False)])
def test_a_recorded_arm_is_trained_as_it_was(arm):
    recorded = record.load("c06_depth")
    runs = recorded["metrics"]["runs"]
    kind = {"depth": 5, "residual": arm.residual, "start": arm.start}
    place = next(i for i, r in enumerate(runs) if kind.items() <= r.items() and r["seed"] == 0)
    row = runs[place]
    model = fresh(Arm(**kind), 0)
    losses = train(model, row["lr"], 0, 2 * c06_depth.EVERY)
    found = np.reshape(losses, (2, -1)).mean(1) / np.log(2)
    assert found == pytest.approx(recorded["curve"][place]["bits"][:2], abs=0.01)


@pytest.mark.parametrize("name", c06_layers.TRAININGS)
def test_the_first_layers_of_the_record_come_out_again(name):
    recorded = record.load("c06_layers")["curve"]
    wanted = [r for r in recorded if r["training"] == name and r["seed"] == 0][:2]
    found = c06_layers.train(c06_layers.TRAININGS[name], 0, c06_layers.EVERY)
    for row, expected in zip(found, wanted, strict=True):
        assert row["bits"] == pytest.approx(expected["bits"], rel=0.01)
        assert row["mean"] == pytest.approx(expected["mean"], abs=0.01)
