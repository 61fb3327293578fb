"""Chapter 24b: which characters each expert reads, before training and after.

The arm "experts, balanced" of `c24b_experts`, trained anew at the rate that was found there. `rows`
has for each seed and layer how often each character of the validation text chose each expert, and
for the trained model the same with the routings of all positions shuffled, as a null. About a
minute on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from unrolled.models.moe import routings, with_balance
from unrolled.models.transformer import TransformerLM
from unrolled.training.fit import fit, next_token_loss

from unrolled_book.experiments import _common, c24b_experts
from unrolled_book.experiments._common import cosine
from unrolled_book.experiments.c24b_experts import BALANCE, BATCH_SIZE, N_EXPERTS, SEEDS, WINDOW

ARM, LR = "experts, balanced", 6e-3


@torch.no_grad()
def reads(model: TransformerLM, texts: torch.Tensor, read: torch.Tensor) -> list[list[list[int]]]:
    """For each mixture the counts (V, E): how often a character of read (N,) chose an expert.

    texts: (B, T + 1), and read are the N = B·T characters that count as read, in their order.
    """
    counts = np.zeros((2, model.config.vocab_size, N_EXPERTS), int)
    with routings(model) as records:
        model(texts[:, :-1])
    for of_layer, routing in zip(counts, records, strict=True):
        np.add.at(of_layer, (read[:, None].numpy(), routing.experts.numpy()), 1)
    return counts.tolist()


def shared_bits(counts: np.ndarray) -> float:
    """The mutual information of the rows and the columns of a table of counts, in bits."""
    p = counts / counts.sum()
    by_chance = p.sum(1, keepdims=True) * p.sum(0)
    seen = p > 0
    return float((p[seen] * np.log2(p[seen] / by_chance[seen])).sum())


def run(*, n_steps: int = 500, n_windows: int = 200, seeds: Sequence[int] = SEEDS) -> dict:
    """A record's fields; `rows`: seed, layer, and the tables "before", "after" and "shuffled"."""
    course, rows = c24b_experts.texts(), []
    texts = c24b_experts.held_out(course["valid"], n_windows)
    read = texts[:, :-1].flatten()
    for seed in seeds:
        model = c24b_experts.build(ARM, int(course["train"].max()) + 1, seed)
        before = reads(model, texts, read)
        batches = _common.windows(course["train"], seed, batch_size=BATCH_SIZE, window=WINDOW)
        loss = with_balance(next_token_loss, BALANCE[ARM])
        fit(model, batches, cosine(n_steps, LR, seed), loss=loss, progress=False)
        after = reads(model, texts, read)
        shuffled = reads(model, texts, read[np.random.default_rng(seed).permutation(len(read))])
        for layer, tables in enumerate(zip(before, after, shuffled, strict=True)):
            named = dict(zip(("before", "after", "shuffled"), tables, strict=True))
            rows.append({"seed": seed, "layer": layer} | named)
    config = {"corpus": c24b_experts.CORPUS, "arm": ARM, "lr": LR, "n_steps": n_steps}
    return {"config": config, "seeds": [*seeds], "metrics": {"rows": rows}}
