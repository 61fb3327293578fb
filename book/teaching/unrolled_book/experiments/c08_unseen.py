"""Chapter 8: where counting has nothing to say.

Kneser–Ney and a feed-forward network predict chapter 12's words from three words each, and their
mixtures. Every test token is scored, and the scores are split by how often its context, the three
tokens before it, stands in the training text. Controls: a network whose table of embeddings stays
random, and mixtures of two networks. About twelve minutes on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np
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

Scores = dict[str, np.ndarray]  # "valid", "test": ln P of each token

CONTEXT = 3
SEEDS = (0, 1, 2)
LRS = (4e-3, 8e-3, 1.6e-2, 3.2e-2)
BINS = (0, 1, 4, 31)  # the least count of each: never, 1–3, 4–30, more than 30
SHARES = tuple(k / 20 for k in range(1, 20))  # of the network in a mixture, to choose from
NETS = {
    "net": Net(context_length=CONTEXT),
    "short": Net(context_length=CONTEXT, n_steps=1000),  # a training of its own, as long as this
    "frozen": Net(context_length=CONTEXT, learn_table=False),
}


def times_seen(train_ids: np.ndarray, ids: np.ndarray, start: int) -> np.ndarray:
    """How often the CONTEXT tokens before each token of ids (n,) stand in a row in train_ids.

    The first contexts are filled up with `start`.
    """
    base = 1 + int(max(train_ids.max(), ids.max(), start))
    before = np.concatenate([np.full(CONTEXT, start), ids[:-1]])
    keys, counts = np.unique(_keys(train_ids, base), return_counts=True)
    wanted = _keys(before, base)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, counts[place], 0)


def _keys(ids: np.ndarray, base: int) -> np.ndarray:
    """One integer for each CONTEXT tokens in a row, (n − CONTEXT + 1,)."""
    rows = np.lib.stride_tricks.sliding_window_view(ids.astype(np.int64), CONTEXT)
    return rows @ base ** np.arange(CONTEXT)


def mixed(one: np.ndarray, other: np.ndarray, share: float = 0.5) -> np.ndarray:
    """ln of the mean of two models' probabilities, `share` of it from `one`."""
    return np.logaddexp(np.log(share) + one, np.log1p(-share) + other)


def best_share(one: np.ndarray, other: np.ndarray) -> float:
    """The share of SHARES whose mixture gives these tokens the highest probability."""
    return max(SHARES, key=lambda share: mixed(one, other, share).sum())


def scored(score: Callable[[np.ndarray], np.ndarray]) -> Scores:
    """ln P of every token of both held-out texts."""
    return {"valid": score(words().valid), "test": score(words().test)}


def mixture(one: Scores, other: Scores, share: float = 0.5) -> Scores:
    """The scores of `mixed`."""
    return {split: mixed(one[split], other[split], share) for split in one}


def with_mixtures(nets: dict[str, Scores], count: Scores, other: Scores) -> list[tuple]:
    """(name, share or None, scores) of the nets, and of their mixtures with counting."""
    found = [(name, None, scores) for name, scores in nets.items()]
    for name, scores in nets.items():
        share = best_share(scores["valid"], count["valid"])
        found.append((f"half {name}", 0.5, mixture(scores, count)))
        found.append((f"tuned {name}", share, mixture(scores, count, share)))
    return [*found, ("two nets", 0.5, mixture(nets["net"], other))]


def row(
    name: str, seed: int | None, share: float | None, scores: Scores, which: np.ndarray
) -> dict:
    """The model's perplexities on validation and test, and on each bin of the test tokens."""
    bins = [perplexity(-scores["test"][which == k].mean()) for k in range(len(BINS))]
    return {
        "model": name, "seed": seed, "share": share,
        "valid_perplexity": perplexity(-scores["valid"].mean()),
        "test_perplexity": perplexity(-scores["test"].mean()), "test_perplexity_by_bin": bins,
    }  # fmt: skip


def tuned(nets: dict[str, Net], lrs: Sequence[float]) -> tuple[dict[str, Net], dict]:
    """The nets with their best rates, each searched at its full length, and what was found."""
    searches = {name: search(net, lrs) for name, net in nets.items()}
    best = {name: best_lr(found, LOSS) for name, found in searches.items()}
    return {name: replace(net, lr=best[name]) for name, net in nets.items()}, searches


def run(
    seeds: Sequence[int] = SEEDS, lrs: Sequence[float] = LRS, n_steps: int | None = None
) -> dict:
    """Search the rates, train every net with every seed, and mix.

    metrics: "rows", one for each model and seed: "kneser-ney", the NETS, "half net" and so on for
    mixtures in equal parts with Kneser–Ney, "tuned net" with the share that is best on validation,
    "two nets" for the net of this seed and of the next in equal parts; "bins", with their part of
    the test tokens. n_steps: instead of what NETS say.
    """
    nets = NETS
    if n_steps is not None:
        nets = {name: replace(net, n_steps=n_steps) for name, net in nets.items()}
    nets, searches = tuned(nets, lrs)
    text, counting = words(), kneser_ney(CONTEXT + 1)
    count = scored(lambda ids: counted(counting, ids))
    which = np.digitize(times_seen(text.train, text.test, text.eos), BINS) - 1
    found = []
    for seed in seeds:
        models = {name: train(net, seed) for name, net in nets.items()}
        found.append({name: scored(partial(log_probs, model)) for name, model in models.items()})
    rows = [row("kneser-ney", None, None, count, which)]
    for k, seed in enumerate(seeds):
        other = found[(k + 1) % len(seeds)]["net"]
        for name, share, scores in with_mixtures(found[k], count, other):
            rows.append(row(name, seed, share, scores, which))
    n_bin = np.bincount(which, minlength=len(BINS))
    bins = [{"at_least": least, "tokens": int(n), "part": n / len(which)}
            for least, n in zip(BINS, n_bin, strict=True)]  # fmt: skip
    config = {
        **_c08_words.settings(), "context": CONTEXT,
        "nets": {name: asdict(net) for name, net in nets.items()},
        "search": searches,
        "parameters": n_parameters(models["net"]),
        "kneser_ney_parameters": counting.n_parameters,
    }  # fmt: skip
    return {"config": config, "seeds": [*seeds], "metrics": {"rows": rows, "bins": bins}}
