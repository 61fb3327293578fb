"""Chapter 22: which width is best for a budget of operations? Transformers of two layers.

Every budget is spent on several widths, each trained as long as the budget lasts, with several
seeds. A width's learning rate is searched with other seeds at a tenth of its largest budget; where
the best rate is the largest or smallest of those tried, the next one is tried too. From the lowest
points of the budgets' valleys follow the best size and the loss at a larger budget,
which three widths around the predicted one then spend. As a control the best width of every
smaller budget is trained with half and with twice its rate. About 20 minutes on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
import torch
from torch.nn import functional as F
from unrolled.accounting import cost
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.evaluate import bits
from unrolled.training.fit import fit

from unrolled_book.experiments._common import best_lr, cosine, search, seeded, windows
from unrolled_book.scaling import power_law, valley

CORPUS = "shakespeare"
N_LAYERS, WINDOW, BATCH_SIZE = 2, 64, 8
HEADS = {6: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 2, 48: 3, 64: 4, 96: 6, 128: 8}  # of each width
BUDGETS = {  # operations, and the widths that spend them
    1e10: (6, 8, 12, 16, 24),
    3e10: (8, 12, 16, 24, 32),
    1e11: (12, 16, 24, 32, 48),
    3e11: (24, 32, 48, 64),
    1e12: (32, 48, 64, 96),
}
HELD_OUT = 3e12
SEEDS, LARGE = (0, 1, 2), 3e11  # from this budget on the last seed is left out
LRS, SEARCH_SEEDS = (5e-3, 1e-2, 2e-2, 4e-2), (100, 101)
N_VALID = 1000  # windows


@cache
def text() -> tuple[int, np.ndarray, torch.Tensor]:
    """The number of characters, the training text, and windows of the validation text."""
    corpus = corpora.load(CORPUS)
    tokenizer = CharTokenizer.train(corpus.train)
    valid = tokenizer.encode(corpus.valid)
    starts = np.linspace(0, len(valid) - WINDOW - 1, N_VALID).astype(int)
    rows = np.stack([valid[i : i + WINDOW + 1] for i in starts])
    return tokenizer.vocab_size, tokenizer.encode(corpus.train), torch.from_numpy(rows).long()


def config(d_model: int) -> TransformerConfig:
    """LLaMA's choices with a tied head; matrices start with a standard deviation of 1/√D."""
    return TransformerConfig(
        vocab_size=text()[0], d_model=d_model, n_layers=N_LAYERS, n_heads=HEADS[d_model],
        d_ff=8 * round(d_model / 3), context_length=WINDOW, activation="swiglu", norm="rms",
        norm_eps=1e-6, position="rotary", bias=False, init_std=d_model**-0.5,
    )  # fmt: skip


def train(d_model: int, compute: float, lr: float, seed: int) -> dict:
    """Train one width until the budget is spent: its row of the record.

    "tokens" are read, "flops" those that `cost.flops` counts for them, "bits" those of a character
    of the validation text.
    """
    shape = config(d_model)
    a_step = cost.flops(shape, WINDOW, batch=BATCH_SIZE, training=True)["total"]
    n_steps = round(compute / a_step)
    with seeded(seed):
        model = TransformerLM(shape)
    settings = cosine(n_steps, lr, seed, grad_clip=1.0)
    batches = windows(text()[1], seed, batch_size=BATCH_SIZE, window=WINDOW)
    fit(model, batches, settings, progress=False)
    model.eval()
    with torch.no_grad():
        logits = model(text()[2][:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), text()[2][:, 1:].flatten()).item()
    return {
        "d_model": d_model, "compute": compute, "lr": lr, "seed": seed,
        "tokens": n_steps * BATCH_SIZE * WINDOW, "flops": float(f"{n_steps * a_step:.6g}"),
        "bits": float(f"{bits(loss):.4g}"),
    }  # fmt: skip


def n_parameters(d_model: int) -> int:
    """All of them; the embedding, which is the head as well, counts once."""
    return cost.parameters(config(d_model))["total"]


def rates(
    budgets: Mapping[float, Sequence[int]], lrs: Sequence[float], train: Callable[..., dict]
) -> list[dict]:
    """For each width {"d_model", "compute", "search"}: the mean bits of each rate."""
    found = []
    for d_model in sorted({d for widths in budgets.values() for d in widths}):
        compute = max(c for c, widths in budgets.items() if d_model in widths) / 10

        def measure(lr: float, d: int = d_model, c: float = compute) -> float:
            return float(np.mean([train(d, c, lr, seed)["bits"] for seed in SEARCH_SEEDS]))

        searched = search(lrs, measure, "bits")
        while (edge := _beyond(searched)) is not None:
            searched = sorted(searched + search([edge], measure, "bits"), key=lambda f: f["lr"])
        found.append({"d_model": d_model, "compute": compute, "search": searched})
    return found


def _beyond(searched: Sequence[dict]) -> float | None:
    """The rate to try next, where the best one is at the edge of those tried."""
    tried = [found["lr"] for found in searched]
    best = best_lr(searched, "bits")
    return best / 2 if best == min(tried) else best * 2 if best == max(tried) else None


def lowest(rows: Sequence[dict]) -> list[dict]:
    """Of each budget the best size, its loss, and the width among those trained nearest to it."""
    found = []
    for compute in sorted({row["compute"] for row in rows}):
        here = [row for row in rows if row["compute"] == compute]
        sizes = [n_parameters(row["d_model"]) for row in here]
        best, loss = valley(sizes, [row["bits"] for row in here])
        found.append({"compute": compute, "parameters": best, "bits": loss})
    return found


def nearest(widths: Sequence[int], size: float) -> int:
    """The width whose number of parameters is nearest to a size, as a ratio."""
    return min(widths, key=lambda d: abs(np.log(n_parameters(d) / size)))


def run(
    budgets: Mapping[float, Sequence[int]] = BUDGETS,
    seeds: Sequence[int] = SEEDS,
    held_out: float = HELD_OUT,
    lrs: Sequence[float] = LRS,
    train: Callable[..., dict] = train,
) -> dict:
    """Search the rates, spend the budgets, predict, and spend the held-out budget.

    metrics: "runs", the rows of `train`; "predicted", the best size at the held-out budget;
    "held_out", the rows of three widths there; "control", rows with other rates, first seed only.
    train: a function in the place of this module's.
    """
    searched = rates(budgets, lrs, train)
    lr = {found["d_model"]: best_lr(found["search"], "bits") for found in searched}
    rows = [
        train(d, c, lr[d], seed)
        for c in budgets
        for seed in (seeds if c < LARGE else seeds[:-1])
        for d in budgets[c]
    ]
    best = lowest(rows)
    k, a = power_law([b["compute"] for b in best], [b["parameters"] for b in best])
    predicted, widths = k * held_out**a, sorted(lr)
    middle = widths.index(nearest(widths[1:-1], predicted))
    last = [train(d, held_out, lr[d], seeds[0]) for d in widths[middle - 1 : middle + 2]]
    chosen = [nearest(widths, b["parameters"]) for b in best]
    control = [
        train(d, b["compute"], lr[d] * factor, seeds[0])
        for b, d in zip(best, chosen, strict=True)
        if b["compute"] < LARGE
        for factor in (0.5, 2)
    ]
    settings = {
        "corpus": CORPUS, "n_layers": N_LAYERS, "window": WINDOW, "batch_size": BATCH_SIZE,
        "lrs": [*lrs], "search_seeds": [*SEARCH_SEEDS], "searches": searched,
        "parameters": {str(d): cost.parameters(config(d)) for d in widths},
    }  # fmt: skip
    metrics = {
        "runs": rows,
        "predicted": float(f"{predicted:.4g}"),
        "held_out": last,
        "control": control,
    }
    return {"config": settings, "seeds": [*seeds], "metrics": metrics}
