"""Chapter 24: low-rank adapters against full tuning, at equal steps and each with its own rate.

The task, the model and the demonstrations are those of `c24_instructions`, whose runs are the full
tuning. About four minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn
from unrolled.data import corpora
from unrolled.models.lora import add_lora
from unrolled.training.fit import fit

from unrolled_book.experiments import c24_instructions as task
from unrolled_book.experiments._common import best_lr, search, seeded
from unrolled_book.experiments.ladder import CORPUS

NEEDS = task.NEEDS
RANKS, ALPHA = (1, 4, 16), 16.0
WHERE = "stack.*"  # all linear maps of all blocks
LRS = (1e-3, 3e-3, 1e-2, 3e-2)


def tuned(template: task.Template, rank: int, lr: float, seed: int, n_steps: int) -> nn.Module:
    """The book's model with adapters that have learned for n_steps."""
    shown = task.demonstrations(corpora.load(CORPUS).train, 4000, seed)
    model = task.base_model(seed)
    with seeded(seed):
        add_lora(model, WHERE, rank=rank, alpha=ALPHA)
    fit(model, task.batches(template, shown, seed), task.settings(lr, seed, n_steps))
    return model


def run(*, seeds: Sequence[int] = task.SEEDS, ranks: Sequence[int] = RANKS,
        lrs: Sequence[float] = LRS, n_steps: int = task.N_STEPS,
        n_asked: int = task.N_ASKED) -> dict:  # fmt: skip
    """A record's fields: `metrics["rows"]` by `c24_instructions.measured` for each rank and seed,
    with the number of numbers that train; ["search"]: for each rank the rates tried."""
    template = task.Template()
    found, rows = {}, []
    for rank in ranks:

        def share(lr: float, rank: int = rank) -> float:
            model = tuned(template, rank, lr, task.SEARCH_SEED, n_steps)
            return task.bad(model, template, n_asked)

        found[str(rank)] = search(lrs, share, "bad")
        lr = best_lr(found[str(rank)], "bad")
        for seed in seeds:
            model = tuned(template, rank, lr, seed, n_steps)
            trains = sum(p.numel() for p in model.parameters() if p.requires_grad)
            row = {"rank": rank, "seed": seed, "lr": lr, "trains": trains}
            rows.append(row | task.measured(model, template, seed, n_asked))
    config = {
        "ranks": [*ranks], "alpha": ALPHA, "where": WHERE, "lrs": [*lrs], "n_steps": n_steps,
        "search_seed": task.SEARCH_SEED, "n_asked": n_asked,
    }  # fmt: skip
    return {
        "config": config,
        "seeds": [*seeds],
        "metrics": {"rows": rows, "search": found},
        "curve": [],
    }
