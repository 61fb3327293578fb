"""Chapter 8: what a longer context gives a feed-forward network, and what it costs.

A network of fixed width predicts chapter 12's words from one to six words, each length with a rate
of its own; Kneser–Ney reads as many. Every word more adds a block to the hidden layer's matrix.
About ten minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unrolled.training.evaluate import perplexity

from unrolled_book.experiments import _c08_words
from unrolled_book.experiments._c08_words import (
    LOSS,
    Net,
    counted,
    kneser_ney,
    log_probs,
    search,
    train,
    words,
)
from unrolled_book.experiments._common import best_lr, n_parameters

SEEDS = (0, 1, 2)
LENGTHS = (1, 2, 3, 4, 5, 6)
LRS = (8e-3, 1.6e-2, 3.2e-2)
N_STEPS, SEARCH_STEPS = 1500, 500


def run(
    seeds: Sequence[int] = SEEDS,
    lengths: Sequence[int] = LENGTHS,
    lrs: Sequence[float] = LRS,
    n_steps: int = N_STEPS,
    search_steps: int = SEARCH_STEPS,
) -> dict:
    """Search each length's rate, then train with every seed.

    metrics: "rows", a network for each length and seed; "kneser_ney", a row for each length.
    """
    text, rows, searches = words(), [], []
    for length in lengths:
        net = Net(context_length=length, n_steps=search_steps)
        found = search(net, lrs)
        searches.append({"context": length, "search": found})
        net = replace(net, lr=best_lr(found, LOSS), n_steps=n_steps)
        for seed in seeds:
            model = train(net, seed)
            rows.append({
                "context": length, "seed": seed, "lr": net.lr, "parameters": n_parameters(model),
                "hidden_layer": n_parameters(model.hidden_layer),
                "valid_perplexity": perplexity(-log_probs(model, text.valid).mean()),
                "test_perplexity": perplexity(-log_probs(model, text.test).mean()),
            })  # fmt: skip
    config = {
        **_c08_words.settings(), "n_steps": n_steps, "search_steps": search_steps,
        "searches": searches,
    }  # fmt: skip
    kneser_ney_rows = [counting_row(length) for length in lengths]
    return {"config": config, "seeds": [*seeds],
            "metrics": {"rows": rows, "kneser_ney": kneser_ney_rows}}  # fmt: skip


def counting_row(length: int) -> dict:
    """Modified Kneser–Ney after as many words of context."""
    model = kneser_ney(length + 1)
    return {
        "context": length, "parameters": model.n_parameters,
        "valid_perplexity": perplexity(-counted(model, words().valid).mean()),
        "test_perplexity": perplexity(-counted(model, words().test).mean()),
    }  # fmt: skip
