"""Chapter 24d: remember the last mark; trained on 64 symbols, tested on up to 1,024.

A text of symbols 0 … 2·N_VALUES − 1: a symbol below N_VALUES writes its value, any other is noise.
At each position the reader says the value that was written last (a flip-flop). About three minutes
on one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import nn
from unrolled.models.recurrent_lm import SelectiveLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.fit import fit

from unrolled_book.experiments import _common
from unrolled_book.experiments._common import best_lr, cosine, n_parameters, seeded

SEEDS = (0, 1, 2)
N_VALUES, EVERY = 4, 16  # one symbol of EVERY writes, on average
TRAIN_LENGTH, BATCH_SIZE = 64, 16
LENGTHS = (64, 128, 256, 512, 1024)
SCORED = 64  # the last positions of a text
BACK = (16, 64, 256, 900)  # how far back the only write is
D_MODEL = 32
POSITIONS = {"attention, rotary": "rotary", "attention, ALiBi": "alibi", "attention, none": "none"}
LRS = (2e-3, 5e-3, 1e-2, 2e-2, 4e-2)
ARMS = ("selective", *POSITIONS)


def build(arm: str, seed: int) -> nn.Module:
    """Two blocks of attention with the arm's positions, or one selective layer."""
    with seeded(seed):
        if arm == "selective":
            sizes = {"d_model": D_MODEL, "d_inner": D_MODEL, "d_state": 4, "conv_width": 1}
            return SelectiveLM(2 * N_VALUES, **sizes)
        config = TransformerConfig(
            vocab_size=2 * N_VALUES, d_model=D_MODEL, n_layers=2, n_heads=4, init_std=0.1,
            context_length=max(LENGTHS), position=POSITIONS[arm], d_ff=2 * D_MODEL,
        )  # fmt: skip
        return TransformerLM(config)


def texts(rng: np.random.Generator, length: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(symbols, values written last), both (n, length); the first symbol always writes."""
    values = rng.integers(N_VALUES, size=(n, length))
    writes = rng.random((n, length)) < 1 / EVERY
    writes[:, 0] = True
    last = np.maximum.accumulate(np.where(writes, np.arange(length), 0), axis=1)
    return np.where(writes, values, values + N_VALUES), np.take_along_axis(values, last, axis=1)


def batches(seed: int) -> Iterator:
    """Texts of TRAIN_LENGTH without end."""
    rng = np.random.default_rng(seed)
    while True:
        yield texts(rng, TRAIN_LENGTH, BATCH_SIZE)


@torch.no_grad()
def errors(model: nn.Module, length: int, n: int) -> float:
    """Percent of wrong answers at the last SCORED positions of n new texts."""
    symbols, last = texts(np.random.default_rng(99), length, n)
    said = model(torch.from_numpy(symbols)).argmax(-1).numpy()
    return float(100 * np.mean(said[:, -SCORED:] != last[:, -SCORED:]))


@torch.no_grad()
def errors_back(model: nn.Module, back: int, n: int) -> float:
    """Percent of wrong answers, on n texts, `back` symbols of noise after the only write."""
    rng = np.random.default_rng(98)
    written, noise = rng.integers(N_VALUES, size=n), rng.integers(N_VALUES, size=(n, back))
    symbols = np.concatenate([written[:, None], noise + N_VALUES], axis=1)
    said = model(torch.from_numpy(symbols))[:, -1].argmax(-1).numpy()
    return float(100 * np.mean(said != written))


def train(arm: str, *, lr: float, n_steps: int, seed: int) -> nn.Module:
    """A reader after n_steps."""
    model = build(arm, seed)
    config = cosine(n_steps, lr, seed, weight_decay=0.0)
    fit(model, batches(seed), config, progress=False)
    return model


def run(
    *,
    n_steps: int = 500,
    search_steps: int = 150,
    n_texts: int = 100,
    seeds: Sequence[int] = SEEDS,
    lrs: Sequence[float] = LRS,
    arms: Sequence[str] = ARMS,
    lengths: Sequence[int] = LENGTHS,
) -> dict:
    """A record's fields: `metrics["rows"]` has for each arm and seed "errors", percent by length,
    and "errors_back", percent by the distance of the only write.

    Each arm has the learning rate that is best after `search_steps`, by the errors at the length
    of training, with a seed of its own.
    """
    rows, found = [], {}
    for arm in arms:

        def measure(lr: float, arm: str = arm) -> float:
            return errors(train(arm, lr=lr, n_steps=search_steps, seed=100), TRAIN_LENGTH, n_texts)

        found[arm] = _common.search(lrs, measure, "errors")
        lr = best_lr(found[arm], "errors")
        for seed in seeds:
            model = train(arm, lr=lr, n_steps=n_steps, seed=seed)
            rows.append({
                "arm": arm, "seed": seed, "lr": lr, "parameters": n_parameters(model),
                "errors": [errors(model, n, n_texts) for n in lengths],
                "errors_back": [errors_back(model, n, n_texts) for n in BACK],
            })  # fmt: skip
    config = {
        "n_steps": n_steps, "search_steps": search_steps, "search": found, "lengths": [*lengths],
        "train_length": TRAIN_LENGTH, "n_values": N_VALUES, "every": EVERY, "scored": SCORED,
        "back": BACK, "d_model": D_MODEL, "batch_size": BATCH_SIZE,
    }  # fmt: skip
    return {"config": config, "seeds": [*seeds], "metrics": {"rows": rows}, "curve": []}
