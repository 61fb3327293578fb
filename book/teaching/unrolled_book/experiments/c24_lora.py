"""Chapter 24: low-rank adapters against full tuning, at equal steps and each with its own rate.

The task, the model and the demonstrations are those of `c24_instructions`, whose runs are the full
tuning. The task has three tokens that the model has never seen, so the table of the embedding,
which is the head's too, trains beside the adapters; one arm keeps it as it is. About five minutes
on one core.
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
ALPHA = 16.0
ARMS = ((1, True), (4, True), (16, True), (4, False))  # rank; whether the table trains
WHERE = "stack.*"  # all linear maps of all blocks
LRS = (3e-3, 1e-2, 2e-2, 3e-2, 6e-2)


def tuned(
    template: task.Template, rank: int, table: bool, lr: float, seed: int, n_steps: int
) -> nn.Module:
    """The book's model with adapters that have learned for n_steps; table: its rows, too."""
    shown = task.demonstrations(corpora.load(CORPUS).train, 4000, seed)
    model = task.base_model(seed)
    with seeded(seed):
        add_lora(model, WHERE, rank=rank, alpha=ALPHA)
    model.embedding.weight.requires_grad_(table)
    fit(model, task.batches(template, shown, seed), task.settings(lr, seed, n_steps))
    return model


def run(*, seeds: Sequence[int] = task.SEEDS, arms: Sequence[tuple[int, bool]] = ARMS,
        lrs: Sequence[float] = LRS, n_steps: int = task.N_STEPS,
        n_asked: int = task.N_ASKED) -> dict:  # fmt: skip
    """A record's fields: `metrics["rows"]` by `c24_instructions.measured` for each arm and seed,
    with the number of numbers that train; ["searches"]: for each arm the rates tried."""
    template = task.Template()
    searches, rows = [], []
    for rank, table in arms:

        def share(lr: float, rank: int = rank, table: bool = table) -> float:
            model = tuned(template, rank, table, lr, task.SEARCH_SEED, n_steps)
            return task.bad(model, template, n_asked)

        found = search(lrs, share, "bad")
        searches.append({"rank": rank, "table": table, "search": found})
        lr = best_lr(found, "bad")
        for seed in seeds:
            model = tuned(template, rank, table, lr, seed, n_steps)
            trains = sum(p.numel() for p in model.parameters() if p.requires_grad)
            row = {"rank": rank, "table": table, "seed": seed, "lr": lr, "trains": trains}
            rows.append(row | task.measured(model, template, seed, n_asked))
    config = {
        "arms": [list(arm) for arm in arms], "alpha": ALPHA, "where": WHERE, "lrs": [*lrs],
        "n_steps": n_steps, "search_seed": task.SEARCH_SEED, "n_asked": n_asked,
    }  # fmt: skip
    return {
        "config": config,
        "seeds": [*seeds],
        "metrics": {"rows": rows, "searches": searches},
        "curve": [],
    }
