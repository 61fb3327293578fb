"""A check of averages: perplexity is a function of total nats and total tokens, of nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unrolled.teaching.behaviour.arrays import BehaviourError, array

Cut = list[np.ndarray]


def check_perplexity(
    measure: Callable[[Sequence[Any]], Any], nats: Any, *, tolerance: float = 1e-6
) -> None:
    """Check that `measure` gives exp(Σ nats / n tokens), however the tokens are cut into batches.

    The check cuts the n tokens into one batch, into batches of one token, and into two pairs of
    unequal parts; each time the relative error must be at most `tolerance`.

    measure: a list of arrays (n_batch,), the losses −log p of the tokens of each batch, to one
             number.
    nats: (n,) such losses, n ≥ 4, finite, not all equal: equal losses hide every mistake.

    Raises BehaviourError with the first cut that goes wrong, both numbers and a guess (perplexities
    of tokens or of batches averaged, batches weighted equally, bits taken for nats); ValueError or
    TypeError for losses that the check cannot use.
    """
    values = array(nats)
    if values.dtype.kind not in "iuf":
        raise TypeError(f"nats needs numbers, got {values.dtype}")
    values = values.astype(np.float64)
    if values.ndim != 1 or len(values) < 4 or not np.isfinite(values).all():
        raise ValueError(f"nats needs shape (n,) with n ≥ 4, all finite, got {values.shape}")
    if np.ptp(values) == 0:
        raise ValueError("all losses are equal: no average of them can go wrong")
    expected = float(np.exp(values.mean()))
    for batches in _cuts(values):
        got = float(array(measure(batches)))
        if not np.isclose(got, expected, rtol=tolerance, atol=0):
            sizes = ", ".join(
                [str(len(batch)) for batch in batches[:4]] + ["…"][: len(batches) > 4]
            )
            raise BehaviourError(
                f"with batches of {sizes} tokens the perplexity comes out as {got:.6g}; total nats "
                f"over total tokens give {expected:.6g}{_why(batches, got)}"
            )


def _cuts(values: np.ndarray) -> list[Cut]:
    n = len(values)
    return [
        [values],
        [values[:1], values[1:]],
        [values[: n - 1], values[n - 1 :]],
        np.split(values, n),
    ]


def _why(batches: Cut, got: float) -> str:
    """A guess at the mistake: the formula, among those often written, that gives `got`."""
    means = [batch.mean() for batch in batches]
    values = np.concatenate(batches)
    with np.errstate(over="ignore"):
        guesses = {
            "the batches' perplexities are averaged": np.mean(np.exp(means)),
            "the tokens' perplexities 1/p are averaged": np.exp(values).mean(),
            "the batches' means are averaged, whatever their lengths": np.exp(np.mean(means)),
            "bits are taken for nats": 2 ** values.mean(),
            "this is the mean loss, not yet its exponential": values.mean(),
            "the probabilities are averaged before the reciprocal": 1 / np.exp(-values).mean(),
        }
    for guess, number in guesses.items():
        if np.isclose(got, number, rtol=1e-6, atol=0):
            return f". It looks as if {guess}" if not guess.startswith("this") else f": {guess}"
    return ""
