"""A check of averages: perplexity is a function of total nats and total tokens, of nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unrolled_book.behaviour.arrays import BehaviourError, array

LARGEST = 700.0  # nats a token; exp of 710 is infinite in float64
Cut = list[np.ndarray]


def check_perplexity(
    measure: Callable[[Sequence[Any]], Any], nats: Any, *, tolerance: float = 1e-6
) -> None:
    """Check that `measure` gives exp(Σ nats / n tokens), however the tokens are cut into batches.

    The check sorts the n losses, so that batches differ as much as they can. It cuts them into one
    batch, into batches of one token, into two pairs of unequal parts, and into three batches whose
    last is shorter; each time the relative error must be at most `tolerance`.

    measure: a list of arrays (n_batch,), the losses −log p of the tokens of each batch, to one
             number. It may change its arrays: they are copies.
    nats: (n,) such losses, n ≥ 4, finite, their mean at most 700. They must differ enough that each
          mistake named below gives another number: equal losses hide them all.

    Raises BehaviourError with the first cut that goes wrong, both numbers and a guess (perplexities
    of tokens or of batches averaged, batches weighted equally, the last batch left out, bits taken
    for nats), or where the measure gives something else than one number; ValueError or TypeError
    for losses that the check cannot use.
    """
    values = _losses(nats)
    expected = float(np.exp(values.mean()))
    cuts = _cuts(values)
    _refuse_losses_that_hide(cuts, expected, 2 * tolerance)
    for batches in cuts:
        got = _number(measure([batch.copy() for batch in batches]))
        if not np.isclose(got, expected, rtol=tolerance, atol=0):
            sizes = ", ".join(
                [str(len(batch)) for batch in batches[:4]] + ["…"][: len(batches) > 4]
            )
            raise BehaviourError(
                f"with batches of {sizes} tokens the perplexity comes out as {got:.6g}; total nats "
                f"over total tokens give {expected:.6g}{_why(batches, got)}"
            )


def _losses(nats: Any) -> np.ndarray:
    """The losses in ascending order, float64."""
    values = array(nats)
    if values.dtype.kind not in "iuf":
        raise TypeError(f"nats needs numbers, got {values.dtype}")
    if values.ndim != 1 or len(values) < 4:
        raise ValueError(f"nats needs shape (n,) with n ≥ 4, got {values.shape}")
    values = np.sort(values.astype(np.float64))
    if not np.isfinite(values).all():
        bad = np.count_nonzero(~np.isfinite(values))
        raise ValueError(f"nats must be finite; {bad} of {len(values)} are not")
    if values.mean() > LARGEST:
        raise ValueError(
            f"the mean loss is {values.mean():.6g} nats, and its exponential no longer a float64"
        )
    return values


def _cuts(values: np.ndarray) -> list[Cut]:
    n = len(values)
    return [
        [values],
        [values[:1], values[1:]],
        [values[: n - 1], values[n - 1 :]],
        np.split(values, [n // 2, n - 1]),
        np.split(values, n),
    ]


def _refuse_losses_that_hide(cuts: list[Cut], expected: float, tolerance: float) -> None:
    """ValueError where a wrong formula comes out right in all cuts."""
    each = [_mistakes(batches) for batches in cuts]
    for mistake in each[0]:
        if all(np.isclose(found[mistake], expected, rtol=tolerance, atol=0) for found in each):
            raise ValueError(
                f"the losses are too much alike: {expected:.6g} also comes out where {mistake}; "
                "take losses that differ more"
            )


def _number(got: Any) -> float:
    value = array(got)
    if value.dtype.kind not in "iuf" or value.ndim:
        what = f"an array of shape {value.shape}" if value.ndim else repr(got)
        raise BehaviourError(f"the measure gives {what}; a perplexity is one real number")
    return float(value)


def _mistakes(batches: Cut) -> dict[str, float]:
    """What the formulas give that are often written in place of the right one."""
    means = np.array([batch.mean() for batch in batches])
    values = np.concatenate(batches)
    whole = batches[:-1] if len(batches[-1]) < len(batches[0]) else batches
    with np.errstate(over="ignore", divide="ignore"):
        return {
            "the batches' perplexities are averaged": np.exp(means).mean(),
            "the tokens' perplexities 1/p are averaged": np.exp(values).mean(),
            "the batches' means are averaged, whatever their lengths": np.exp(means.mean()),
            "the last, shorter batch is left out": np.exp(np.concatenate(whole).mean()),
            "bits are taken for nats": 2 ** values.mean(),
            "the exponential of the mean loss is missing": values.mean(),
            "the probabilities are averaged before the reciprocal": 1 / np.exp(-values).mean(),
        }


def _why(batches: Cut, got: float) -> str:
    """A guess at the mistake: the formula, among those often written, that gives `got`."""
    for mistake, number in _mistakes(batches).items():
        if np.isclose(got, number, rtol=1e-6, atol=0):
            return f". It looks as if {mistake}"
    return ""
