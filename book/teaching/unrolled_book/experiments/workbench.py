"""The workbench's models, trained by torch: where a run in the page should be after as many steps.

Each model is the library's own (`workbench.twins`), with torch's Adam and the page's first
settings. About 10 minutes for five seeds on one core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import torch
from torch.nn import functional as F
from unrolled.data.batches import random_batch

from unrolled_book.workbench.models import MODELS
from unrolled_book.workbench.page import LENGTH, shipped
from unrolled_book.workbench.run import MOST, Run, Settings, Text
from unrolled_book.workbench.twins import twin

CORPUS = "shakespeare"
ORDERS = (1, 2, 3, 4, 5)
STEPS = (100, 1000)
LONGEST = {"two-layer-gpt": 4000}  # it learns the slowest


def text() -> Text:
    """The text that the page opens with."""
    return Text(shipped(CORPUS))


def train_here(model: str, *, seed: int, n_steps: int) -> float:
    """Held-out bits per byte after a run of the workbench itself."""
    run = Run(text(), Settings(model=model, seed=seed))
    for _ in range(n_steps):
        run.step(MODELS[model].lr)
    return run.bits()


def train_torch(model: str, text: Text, *, seed: int, steps: Sequence[int]) -> list[float]:
    """Held-out bits per byte after each of these numbers of steps, in float32."""
    settings = Settings(model=model, seed=seed)
    scored = Run(text, settings)  # fresh weights, and the same way of scoring
    module = twin(model, scored.arrays).float()
    optimizer = torch.optim.Adam(module.parameters(), lr=MODELS[model].lr)
    rng, found = np.random.default_rng((seed, 1)), []
    for step in range(1, max(steps) + 1):
        batch = {"batch_size": settings.batch, "seq_len": settings.window}
        inputs, targets = map(torch.from_numpy, random_batch(rng, text.train, **batch))
        loss = F.cross_entropy(module(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), MOST)
        optimizer.step()
        if step in steps:
            scored.logits = lambda ids: module(torch.from_numpy(ids)).numpy().astype(float)
            with torch.no_grad():
                found.append(scored.bits())
    return found


def config(models: Sequence[str]) -> dict:
    """What the form of the page begins with; the seed is each of several here."""
    first = {k: v for k, v in asdict(Settings()).items() if k not in ("model", "seed")}
    lr = {name: MODELS[name].lr for name in models}
    return first | {"lr": lr, "corpus": CORPUS, "characters": LENGTH}


def run(
    models: Sequence[str] = tuple(MODELS),
    *,
    seeds: Sequence[int] = range(5),
    steps: Sequence[int] = STEPS,
    longest: Mapping[str, int] = LONGEST,
) -> dict:
    """For each model the bits per byte after these steps, and longest, by seed; the n-grams'."""
    here = text()
    rows = {}
    for model in models:
        looks = [*steps, *([longest[model]] if model in longest else [])]
        by_seed = [train_torch(model, here, seed=seed, steps=looks) for seed in seeds]
        rows[model] = {"steps": looks, "bits": [list(b) for b in zip(*by_seed, strict=True)]}
    return {
        "config": config(models),
        "seeds": list(seeds),
        "metrics": {"rows": rows, "n_grams": {str(n): here.n_gram(n) for n in ORDERS}},
    }
