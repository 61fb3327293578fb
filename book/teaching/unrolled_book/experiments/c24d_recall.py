"""Chapter 24d: what a selective state and attention remember, by the number of pairs to hold.

The readers of chapter 14's task: n entries, a name and its room each, then all n names again in
another order; after each the reader says the room. About 45 minutes on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from unrolled.data.batches import IGNORE
from unrolled.models.layers import RMSNorm
from unrolled.models.ssm import Mamba
from unrolled.models.transformer import Stack
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.fit import fit

from unrolled_book.experiments import _common
from unrolled_book.experiments._common import best_lr, cosine, n_parameters, seeded

SEEDS = (0, 1, 2)
N_NAMES, N_ROOMS, LONGEST = 32, 10, 16  # LONGEST: the most pairs in training
PAIRS = (1, 2, 4, 8, 16, 32)
D_MODEL, D_INNER, BATCH_SIZE = 32, 32, 32
# Numbers in the state of each of D_INNER channels; "fixed": nothing in it depends on the input.
STATES = {"state 2": 2, "state 8": 8, "state 32": 32, "fixed 8": 8}
LRS = (1e-2, 2e-2, 4e-2)  # where the search begins; it goes on while the best lies at an end
ARMS = ("attention", *STATES)


class Fixed(nn.Module):
    """A layer's x_proj that gives the same step, write and read whatever it is given."""

    def __init__(self, width: int):
        super().__init__()
        self.values = nn.Parameter(torch.randn(width) * width**-0.5)

    def forward(self, u: Tensor) -> Tensor:
        return self.values.expand(*u.shape[:-1], -1)


class Recall(nn.Module):
    """Names and rooms (B, T) → logits of rooms (B, T, N_ROOMS), through one layer."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.name, self.room = nn.Embedding(N_NAMES, D_MODEL), nn.Embedding(N_ROOMS + 1, D_MODEL)
        self.norm, self.layer, self.final_norm = RMSNorm(D_MODEL), layer, RMSNorm(D_MODEL)
        self.head = nn.Linear(D_MODEL, N_ROOMS)

    def forward(self, names: Tensor, rooms: Tensor) -> Tensor:
        x = self.name(names) + self.room(rooms)
        y = self.layer(self.norm(x))
        return self.head(self.final_norm(x + (y[0] if isinstance(y, tuple) else y)))


def build(arm: str, seed: int) -> Recall:
    """A reader whose layer is a causal attention block without positions, or a `Mamba` alone."""
    with seeded(seed):
        if arm == "attention":
            config = TransformerConfig(d_model=D_MODEL, n_heads=2, position="none", init_std=0.1)
            return Recall(Stack(config, causal=True))
        layer = Mamba(D_MODEL, d_inner=D_INNER, d_state=STATES[arm], conv_width=1)
        if arm.startswith("fixed"):
            layer.x_proj = Fixed(layer.x_proj.out_features)
        return Recall(layer)


def memory(arm: str, n: int) -> int:
    """Numbers that the layer keeps after n entries: keys and values, or a state of one size."""
    return 2 * D_MODEL * n if arm == "attention" else D_INNER * STATES[arm]


def tables(rng: np.random.Generator, n: int, batch_size: int) -> tuple[tuple, np.ndarray]:
    """((names, rooms), targets), each (B, 2n): the table, then the names in another order."""
    mixed = rng.permuted(np.tile(np.arange(N_NAMES), (batch_size, 1)), axis=1)[:, :n]
    rooms = rng.integers(N_ROOMS, size=(batch_size, n))
    order = rng.permuted(np.tile(np.arange(n), (batch_size, 1)), axis=1)
    asked, answers = (np.take_along_axis(a, order, axis=1) for a in (mixed, rooms))
    names = np.concatenate([mixed, asked], axis=1)
    shown = np.concatenate([rooms, np.full_like(rooms, N_ROOMS)], axis=1)
    targets = np.concatenate([np.full_like(rooms, IGNORE), answers], axis=1)
    return (names, shown), targets


def batches(seed: int) -> Iterator:
    """Tables of 1 to LONGEST pairs without end."""
    rng = np.random.default_rng(seed)
    while True:
        yield tables(rng, int(rng.integers(1, LONGEST + 1)), BATCH_SIZE)


@torch.no_grad()
def right(model: Recall, n: int, n_tables: int) -> float:
    """Percent of right answers on new tables of n pairs."""
    (names, rooms), targets = tables(np.random.default_rng(99), n, n_tables)
    logits = model(torch.from_numpy(names), torch.from_numpy(rooms))[:, n:]
    return float(100 * np.mean(logits.argmax(-1).numpy() == targets[:, n:]))


def train(arm: str, *, lr: float, n_steps: int, seed: int) -> Recall:
    """A reader after n_steps."""
    model = build(arm, seed)
    config = cosine(n_steps, lr, seed, weight_decay=0.0)
    fit(model, batches(seed), config, progress=False)
    return model


def search(lrs: Sequence[float], measure: Callable[[float], float]) -> list[dict]:
    """Errors by rate, sorted; half the lowest or twice the highest is added while it is best.

    It ends where a rate inside is as good as both ends.
    """
    found = _common.search(sorted(lrs), measure, "errors")
    while (best := best_lr(found, "errors")) not in [f["lr"] for f in found[1:-1]]:
        end = next(f["errors"] for f in found if f["lr"] == best)
        if end in [f["errors"] for f in found[1:-1]]:
            break
        beyond = best / 2 if best == found[0]["lr"] else best * 2
        found += _common.search([beyond], measure, "errors")
        found.sort(key=lambda f: f["lr"])
    return found


def run(
    *,
    n_steps: int = 1000,
    n_tables: int = 300,
    seeds: Sequence[int] = SEEDS,
    lrs: Sequence[float] = LRS,
    arms: Sequence[str] = ARMS,
    pairs: Sequence[int] = PAIRS,
) -> dict:
    """A record's fields: `metrics["rows"]` has for each arm and seed "right", percent by pairs.

    Each arm has the learning rate that is best by the errors on LONGEST pairs after as many steps,
    with a seed of its own: after 300 steps, rates lead that end worse.
    """
    rows, found = [], {}
    for arm in arms:

        def measure(lr: float, arm: str = arm) -> float:
            model = train(arm, lr=lr, n_steps=n_steps, seed=100)
            return 100 - right(model, LONGEST, n_tables)

        found[arm] = search(lrs, measure)
        lr = best_lr(found[arm], "errors")
        for seed in seeds:
            model = train(arm, lr=lr, n_steps=n_steps, seed=seed)
            rows.append({
                "arm": arm, "seed": seed, "lr": lr, "parameters": n_parameters(model),
                "right": [right(model, n, n_tables) for n in pairs],
                "memory": [memory(arm, n) for n in pairs],
            })  # fmt: skip
    config = {
        "n_steps": n_steps, "search": found, "pairs": [*pairs],
        "longest": LONGEST, "n_names": N_NAMES, "n_rooms": N_ROOMS, "d_model": D_MODEL,
        "d_inner": D_INNER, "states": STATES, "batch_size": BATCH_SIZE,
    }  # fmt: skip
    return {"config": config, "seeds": [*seeds], "metrics": {"rows": rows}, "curve": []}
