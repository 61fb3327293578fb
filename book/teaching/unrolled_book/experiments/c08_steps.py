"""Chapter 8: five optimisers, each with a constant rate, a cosine, and a warm-up before it.

The network reads three letters of a name and predicts the fourth. Each pair of optimiser and
schedule has its own search over learning rates, with a seed of its own; what counts is the loss on
other names. About three minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.training.schedule import constant, cosine

from unrolled_book.experiments._common import best_lr, n_parameters, search, seeded

CORPUS = "names"
N_READ, WIDTH, HIDDEN = 3, 10, 64
BATCH_SIZE, N_STEPS, WARMUP = 64, 600, 30
SEARCH_SEED = 100
OPTIMIZERS = {
    "SGD": torch.optim.SGD,
    "momentum": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9),
    "RMSprop": torch.optim.RMSprop,
    "Adam": torch.optim.Adam,
    "AdamW": lambda p, lr: torch.optim.AdamW(p, lr=lr, weight_decay=0.1),
}
# Rates of the search: each the double of the one before.
FIRST = {"SGD": 0.125, "momentum": 0.0125, "RMSprop": 0.0025, "Adam": 0.0025, "AdamW": 0.0025}
N_RATES = 7
SCHEDULES = {
    "constant": lambda step, n: constant(step, n),
    "cosine": lambda step, n: cosine(step, n),
    "warm-up, cosine": lambda step, n: cosine(step, n, warmup_steps=min(WARMUP, n)),
}


@cache
def windows(split: str) -> tuple[Tensor, Tensor]:
    """Contexts (N, 3) and the letters after them (N,); a line end begins and ends each name."""
    corpus = corpora.load(CORPUS)
    letters = CharTokenizer.train(corpus.train.lower())
    rows = []
    for name in getattr(corpus, split).lower().split():
        ids = letters.encode("\n" * N_READ + name + "\n").tolist()
        rows += [ids[i : i + N_READ + 1] for i in range(len(ids) - N_READ)]
    found = torch.tensor(rows)
    return found[:, :N_READ], found[:, N_READ]


def fresh(seed: int) -> nn.Sequential:
    """The feed-forward model of chapter 8 out of torch's own parts, (B, 3) → (B, V)."""
    vocab_size = int(windows("train")[1].max()) + 1
    with seeded(seed):
        return nn.Sequential(
            nn.Embedding(vocab_size, WIDTH), nn.Flatten(),
            nn.Linear(N_READ * WIDTH, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, vocab_size),
        )  # fmt: skip


def trained(optimizer: str, schedule: str, lr: float, seed: int, n_steps: int) -> float:
    """The validation loss in nats after n_steps with this rate at the schedule's peak."""
    model = fresh(seed)
    step_with = OPTIMIZERS[optimizer](model.parameters(), lr=lr)
    rng = torch.Generator().manual_seed(seed)
    contexts, targets = windows("train")
    for step in range(n_steps):
        chosen = torch.randint(len(contexts), (BATCH_SIZE,), generator=rng)
        step_with.param_groups[0]["lr"] = lr * SCHEDULES[schedule](step, n_steps)
        loss = F.cross_entropy(model(contexts[chosen]), targets[chosen])
        step_with.zero_grad()
        loss.backward()
        step_with.step()
    contexts, targets = windows("valid")
    with torch.no_grad():
        return float(f"{F.cross_entropy(model(contexts), targets).item():.4g}")


def run(seeds: Sequence[int] = (0, 1, 2), n_steps: int = N_STEPS, n_rates: int = N_RATES) -> dict:
    """Search the rate of each pair, then train with every seed.

    metrics: "runs", a row for each pair and seed with its loss in nats. config: the searches.
    """
    rows, searches = [], []
    for optimizer in OPTIMIZERS:
        lrs = [FIRST[optimizer] * 2**k for k in range(n_rates)]
        for schedule in SCHEDULES:
            pair = {"optimizer": optimizer, "schedule": schedule}
            found = search(lrs, lambda lr, pair=pair: trained(**pair, lr=lr, seed=SEARCH_SEED,
                           n_steps=n_steps), "valid")  # fmt: skip
            searches.append({**pair, "search": found})
            lr = best_lr(found, "valid")
            for seed in seeds:
                loss = trained(**pair, lr=lr, seed=seed, n_steps=n_steps)
                rows.append({**pair, "lr": lr, "seed": seed, "valid": loss})
    config = {
        "n_read": N_READ, "width": WIDTH, "hidden": HIDDEN, "batch_size": BATCH_SIZE,
        "n_steps": n_steps, "warmup_steps": WARMUP, "search_seed": SEARCH_SEED,
        "searches": searches, "corpus": CORPUS, "parameters": n_parameters(fresh(0)),
        "weight_decay": 0.1, "momentum": 0.9,
    }  # fmt: skip
    return {"config": config, "seeds": [*seeds], "metrics": {"runs": rows}}
