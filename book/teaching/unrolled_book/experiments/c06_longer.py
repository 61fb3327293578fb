"""Chapter 6b: controls beside `c06_depth`, at 40 layers.

The networks into which layers were inserted trained for 1,200 steps in all, the others for 800. Do
1,200 steps help a plain stack with He's start? And a residual stack whose branches start smaller
by 1/depth instead of 1/√depth, so that their size does not grow with depth: does it learn as well?
The rates are those that `c06_depth` found for the same stack at 800 steps. Two minutes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from unrolled_book.experiments import c06_depth, record

NEEDS = ("c06_depth",)
DEPTH = 40


def smaller(seed: int) -> c06_depth.DeepNet:
    """A fresh residual network of 40 layers, He's weights divided by the depth."""
    model = c06_depth.fresh(c06_depth.Arm(depth=DEPTH, residual=True, start="small"), seed)
    with torch.no_grad():
        for layer in model.stack.layers:
            layer.weight /= DEPTH**0.5  # "small" has divided by the root already
    return model


def searched_lr(residual: bool, start: str) -> float:
    """The rate of the record for this stack of 40 layers."""
    wanted = {"depth": DEPTH, "residual": residual, "start": start, "batch_norm": False}
    rows = record.load("c06_depth")["metrics"]["runs"]
    return next(r["lr"] for r in rows if wanted.items() <= r.items())


def run(seeds: Sequence[int] = (0, 1, 2), n_steps: int = c06_depth.N_STEPS) -> dict:
    """metrics: "longer", plain with He's start, half as many steps more; "smaller"."""
    lrs = {"longer": searched_lr(False, "he"), "smaller": searched_lr(True, "small")}
    found: dict[str, list[dict]] = {name: [] for name in lrs}
    for seed in seeds:
        plain = c06_depth.fresh(c06_depth.Arm(depth=DEPTH, residual=False), seed)
        jobs = {"longer": (plain, 3 * n_steps // 2), "smaller": (smaller(seed), n_steps)}
        for name, (model, steps) in jobs.items():
            c06_depth.train(model, lrs[name], seed, steps)
            row = {"seed": seed, "n_steps": steps, "lr": lrs[name]}
            found[name].append({**row, **c06_depth.evaluate(model)})
    return {"config": {"depth": DEPTH, "lrs": lrs}, "seeds": [*seeds], "metrics": found}
