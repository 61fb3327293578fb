"""What several experiments share: seeds, windows of a text, settings, a search over rates, counts
that write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from unrolled.data.batches import random_batch
from unrolled.models.ngram import NGram
from unrolled.training.fit import DivergedError, FitConfig


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's generator inside the block, and restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def windows(tokens: np.ndarray, seed: int, *, batch_size: int, window: int) -> Iterator:
    """Random windows of a text without end; see `random_batch`."""
    rng = np.random.default_rng(seed)
    while True:
        yield random_batch(rng, tokens, batch_size=batch_size, seq_len=window)


def cosine(n_steps: int, lr: float | None, seed: int, **changes) -> FitConfig:
    """The settings of most experiments: AdamW, a warm-up over 5 % of the steps, a cosine to 5 %."""
    usual = {"betas": (0.9, 0.99), "weight_decay": 0.1, "schedule": "cosine", "min_lr_ratio": 0.05}
    usual["warmup_steps"] = max(1, n_steps // 20)
    return FitConfig(n_steps=n_steps, lr=lr, seed=seed, **usual | changes)


def n_parameters(model: nn.Module) -> int:
    """The number of parameters; shared ones count once."""
    return sum(p.numel() for p in model.parameters())


class Counting(nn.Module):
    """An n-gram model that `generate` can write with."""

    def __init__(self, counted: NGram):
        super().__init__()
        self.counted, self.context_length = counted, counted.order

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.from_numpy(self.counted(tokens.numpy()))  # (B, T, V)


def search(lrs: Sequence[float], measure: Callable[[float], float], name: str) -> list[dict]:
    """For each learning rate {"lr", name: measure(lr)}; None where training diverged."""
    found = []
    for lr in lrs:
        try:
            loss = measure(lr)
        except DivergedError:
            loss = None
        found.append({"lr": lr, name: loss})
    return found


def best_lr(found: list[dict], name: str) -> float:
    """The learning rate with the smallest value of `name` in the result of `search`."""
    return min((f for f in found if f[name] is not None), key=lambda f: f[name])["lr"]
