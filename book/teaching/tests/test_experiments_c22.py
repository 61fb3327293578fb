"""Chapter 22's recorded experiment: budgets are spent, and a known law comes out."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from unrolled.accounting import cost
from unrolled_book.experiments import c22_scaling as scaling
from unrolled_book.experiments import c22_times as times
from unrolled_book.experiments import record
from unrolled_book.scaling import Law, power_law


def simulated(d_model, compute, lr, seed):
    """A training that follows a law; a rate other than 0.02 costs something."""
    law = Law(floor=1.2, A=60.0, alpha=0.5, B=400.0, beta=0.4)
    n = scaling.n_parameters(d_model)
    bits = law.loss(n, compute / (6 * n)) + 0.1 * np.log(lr / 0.02) ** 2
    return {"d_model": d_model, "compute": compute, "lr": lr, "seed": seed, "bits": float(bits)}


def test_the_rates_are_the_best_and_the_held_out_widths_lie_around_the_prediction():
    budgets = {1e10: (8, 12, 16, 24, 32), 1e11: (12, 16, 24, 32, 48)}
    result = json.loads(json.dumps(scaling.run(budgets, (0, 5), 4e11, train=simulated)))
    rows = result["metrics"]["runs"]
    assert len(rows) == 2 * 2 * 5
    assert {row["lr"] for row in rows} == {0.02}
    assert {s["d_model"]: s["compute"] for s in result["config"]["searches"]} == {
        8: 1e9, 12: 1e10, 16: 1e10, 24: 1e10, 32: 1e10, 48: 1e10,
    }  # fmt: skip
    last = [row["d_model"] for row in result["metrics"]["held_out"]]
    predicted = result["metrics"]["predicted"]
    assert len(last) == 3
    assert last[1] == scaling.nearest((12, 16, 24, 32), predicted)
    assert [row["lr"] for row in result["metrics"]["control"]] == [0.01, 0.04] * 2
    best = scaling.lowest(rows)
    k, a = power_law([b["compute"] for b in best], [b["parameters"] for b in best])
    assert result["metrics"]["predicted"] == pytest.approx(k * 4e11**a, rel=1e-3)
    assert 0.3 < a < 0.6


def test_the_search_goes_on_until_the_best_rate_is_inside():
    (found,) = scaling.rates({1e10: (8,)}, (0.0025, 0.005), simulated)
    assert [each["lr"] for each in found["search"]] == [0.0025, 0.005, 0.01, 0.02, 0.04]
    (found,) = scaling.rates({1e10: (8,)}, (0.04, 0.08), simulated)
    assert [each["lr"] for each in found["search"]] == [0.01, 0.02, 0.04, 0.08]


def test_the_largest_budgets_leave_out_a_seed():
    budgets = {1e11: (8, 12, 16), 1e12: (8, 12, 16)}
    result = scaling.run(budgets, (0, 1, 2), 3e12, lrs=(0.01, 0.02, 0.04), train=simulated)
    seeds = [(row["compute"], row["seed"]) for row in result["metrics"]["runs"]]
    assert set(seeds) == {(1e11, 0), (1e11, 1), (1e11, 2), (1e12, 0), (1e12, 1)}
    assert {row["compute"] for row in result["metrics"]["control"]} == {1e11}


def test_a_training_spends_its_budget_and_leaves_torchs_generator_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    row = scaling.train(12, 5e8, 1e-2, 7)
    assert torch.equal(torch.rand(2), expected)
    assert row["flops"] == pytest.approx(5e8, rel=0.05)
    n = scaling.n_parameters(12)
    assert 6 * n * row["tokens"] < row["flops"] < 2.5 * 6 * n * row["tokens"]
    assert 3 < row["bits"] < np.log2(70)
    assert scaling.train(12, 5e8, 1e-2, 7) == row
    assert scaling.train(12, 5e8, 1e-2, 8) != row


def test_what_is_timed_reads_as_far_as_its_name_says():
    """The gradient of one output tells which inputs it reads."""
    n, d = 23, 5
    x, w = times.inputs(n, d)
    reads = {}
    for kind, function in times.KINDS.items():
        x.requires_grad_(True)
        (gradient,) = torch.autograd.grad(function(x, w)[15].sum(), x)
        reads[kind] = gradient.abs().sum(1).nonzero()[:, 0].tolist()
    near = list(range(16 - times.REACH, 16))
    assert reads["self-attention"] == list(range(n))
    assert reads["restricted"] == reads["convolution"] == near
    assert reads["recurrence"] == list(range(16))


def test_attention_in_a_window_is_the_masked_one():
    x, w = times.inputs(11, 3)
    behind = torch.arange(11)[:, None] - torch.arange(11)
    scores = (x @ x.T).masked_fill((behind < 0) | (behind >= times.REACH), -torch.inf)
    got = times.restricted(x, w)[times.REACH - 1 :]  # before it, padding stands in the window
    torch.testing.assert_close(got, (scores.softmax(-1) @ x)[times.REACH - 1 :])


def test_exponents_of_exact_powers_come_back():
    rows = [
        {"kind": "a", "length": n, "width": d, "seed": s, "seconds": n**2 * d**0.5}
        for s in (0, 1) for n, d in ((8, 4), (16, 4), (32, 4), (8, 8), (8, 64))
    ]  # fmt: skip
    assert times.exponents(rows) == {"a": {"length": [2.0, 2.0], "width": [0.5, 0.5]}}


def test_the_times_are_json_with_a_row_for_every_size(monkeypatch):
    monkeypatch.setattr(times, "seconds", lambda kind, n, d, seed: n * d * 1e-9)
    result = json.loads(json.dumps(times.run((8, 16), (4, 8), (0, 5))))
    assert len(result["metrics"]["rows"]) == 2 * 4 * 3
    assert result["metrics"]["exponents"]["restricted"] == {"length": [1, 1], "width": [1, 1]}


# --- the record ----------------------------------------------------------------------------------


def test_the_record_is_of_these_budgets():
    recorded = record.load("c22_scaling")
    rows = recorded["metrics"]["runs"]
    found = [(row["compute"], row["d_model"], row["seed"]) for row in rows]
    assert found == [
        (c, d, seed)
        for c in scaling.BUDGETS
        for seed in (scaling.SEEDS if c < scaling.LARGE else scaling.SEEDS[:-1])
        for d in scaling.BUDGETS[c]
    ]
    assert recorded["config"]["parameters"] == {
        str(d): cost.parameters(scaling.config(d)) for d in sorted({row["d_model"] for row in rows})
    }
    assert all(row["flops"] == pytest.approx(row["compute"], rel=0.01) for row in rows)


def test_the_smallest_recorded_training_comes_out_again():
    rows = record.load("c22_scaling")["metrics"]["runs"]
    row = min(rows, key=lambda row: (row["compute"], -row["d_model"]))
    again = scaling.train(row["d_model"], row["compute"], row["lr"], row["seed"])
    assert again == row | {"bits": pytest.approx(row["bits"], abs=0.02)}


def test_the_recorded_exponents_are_those_of_the_recorded_seconds():
    recorded = record.load("c22_times")
    assert recorded["config"]["lengths"] == [*times.LENGTHS]
    assert recorded["metrics"]["exponents"] == times.exponents(recorded["metrics"]["rows"])
