"""Chapter 8's recorded comparison of optimisers and schedules."""

from __future__ import annotations

import json

import torch
from unrolled_book.experiments import c08_steps, record


def test_the_result_is_json_with_a_run_for_every_pair_and_seed():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    result = json.loads(json.dumps(c08_steps.run(seeds=(0, 3), n_steps=2, n_rates=2)))
    assert torch.equal(torch.rand(2), expected), "torch's generator was used"
    runs = result["metrics"]["runs"]
    pairs = [(o, s) for o in c08_steps.OPTIMIZERS for s in c08_steps.SCHEDULES]
    assert [(r["optimizer"], r["schedule"], r["seed"]) for r in runs] == [
        (*pair, seed) for pair in pairs for seed in (0, 3)
    ]
    for row, searched in zip(runs[::2], result["config"]["searches"], strict=True):
        assert row["lr"] == min(searched["search"], key=lambda found: found["valid"])["lr"]


def test_windows_begin_and_end_with_line_ends():
    contexts, targets = c08_steps.windows("train")
    assert contexts[0].tolist() == [0, 0, 0]  # three line ends, then the first letter of Aaban
    assert targets[:6].tolist() == [1, 1, 2, 1, 14, 0]
    assert contexts[5].tolist() == [2, 1, 14]
    assert int(targets.max()) == 26


def test_the_record_searched_far_enough():
    """Every rate that was chosen lies inside its search, so a wider one would not help."""
    for searched in record.load("c08_steps")["config"]["searches"]:
        lrs = [found["lr"] for found in searched["search"]]
        best = min(searched["search"], key=lambda found: found["valid"])["lr"]
        assert best not in (lrs[0], lrs[-1]), searched
