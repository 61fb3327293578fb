"""Chapter 22's recorded experiment: budgets are spent, and a known law comes out."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from unrolled.teaching.experiments import c22_scaling as scaling
from unrolled.training.scaling import Law, power_law


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
