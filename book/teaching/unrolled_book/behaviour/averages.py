"""Checks of averages: perplexity and gradient come from totals, however a batch is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from unrolled_book.behaviour.probe import BehaviourError, array, guess

LARGEST = 700.0  # nats a token; exp of 710 is infinite in float64
Cut = list[np.ndarray]
Rows = np.ndarray  # (n,) indices of the rows of one shard


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

    def near(x: Any) -> bool:
        return bool(np.isclose(x, expected, rtol=2 * tolerance, atol=0))

    for mistake in _all_right([_wrong_perplexities(batches) for batches in cuts], near):
        raise ValueError(
            f"the losses are too much alike: {expected:.6g} also comes out where {mistake}; "
            "take losses that differ more"
        )
    for batches in cuts:
        got = _number(measure([batch.copy() for batch in batches]))
        if not np.isclose(got, expected, rtol=tolerance, atol=0):
            sizes = ", ".join(
                [str(len(batch)) for batch in batches[:4]] + ["…"][: len(batches) > 4]
            )
            mistakes = _wrong_perplexities(batches)
            why = guess(mistakes, lambda x, got=got: np.isclose(got, x, rtol=1e-6, atol=0))
            raise BehaviourError(
                f"with batches of {sizes} tokens the perplexity comes out as {got:.6g}; total nats "
                f"over total tokens give {expected:.6g}{why}"
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


def _all_right(found: list[dict[str, Any]], fits: Callable[[Any], bool]) -> Iterator[str]:
    """The mistakes whose results fit in every cut."""
    return (mistake for mistake in found[0] if all(fits(each[mistake]) for each in found))


def _number(got: Any) -> float:
    value = array(got)
    if value.dtype.kind not in "iuf" or value.ndim:
        what = f"an array of shape {value.shape}" if value.ndim else repr(got)
        raise BehaviourError(f"the measure gives {what}; a perplexity is one real number")
    return float(value)


def _wrong_perplexities(batches: Cut) -> dict[str, float]:
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


def check_shards(
    gradient: Callable[[Sequence[Rows]], Any], n_tokens: Any, *, tolerance: float = 1e-4
) -> None:
    """Check that `gradient` is that of Σ nats / Σ tokens, however the rows are dealt out.

    From the gradients of single rows, g_i with n_i tokens, the check computes Σ n_i g_i / Σ n_i. It
    sorts the rows by their tokens, so that shards differ as much as they can, and deals them out to
    one process, to two (halves; the shortest row and all others), to three unevenly, to one process
    for each row, and to two of which one has no row. Each time |g − expected| / |expected| must be
    at most `tolerance`. The gradients of single rows are taken as given: a factor or a sign that
    all of them share is not found.

    gradient: a list of arrays, the rows of each process, to the gradient with which all make their
              step, an array of any shape. The processes may be a loop. An array may be empty, as
              where a batch has fewer rows than there are processes.
    n_tokens: (B,) whole numbers above 0, the targets that count in each row, B ≥ 3. They must
              differ: equal ones hide the mistakes.

    Raises BehaviourError with the first deal that goes wrong, the relative error and a guess (means
    of the shards averaged or added, shards weighted by rows, only one shard used, divided by the
    number of processes once more or once too little); ValueError or TypeError for rows that the
    check cannot use.
    """
    counts = _counts(n_tokens)
    order = np.argsort(counts, kind="stable")
    single = [_vector(gradient([np.array([i])])) for i in order]
    if any(g.shape != single[0].shape for g in single):
        raise BehaviourError("gradients of single rows differ in shape")
    singles, counts = np.array(single), counts[order]
    expected = counts @ singles / counts.sum()
    deals = _deals(len(counts))
    if not np.linalg.norm(expected) > 0 or not np.isfinite(singles).all():
        raise ValueError("the gradient of the batch is 0 or not finite: nothing can be compared")
    found = [_wrong_gradients(singles, counts, deal) for deal in deals]
    for mistake in _all_right(found, lambda g: _relative(g, expected) <= 2 * tolerance):
        raise ValueError(f"these rows cannot tell: the gradient is right also where {mistake}")
    nobody = np.array([], dtype=int)
    for deal in [*deals, [np.arange(len(counts)), nobody]]:
        got = _vector(gradient([order[shard] for shard in deal]))
        if got.shape != expected.shape:
            raise BehaviourError(f"a gradient of {len(got)} numbers, expected {len(expected)}")
        if not (error := _relative(got, expected)) <= tolerance:
            tokens = ", ".join([str(counts[s].sum()) for s in deal[:4]] + ["…"][: len(deal) > 4])
            mistakes = _wrong_gradients(singles, counts, deal)
            why = guess(mistakes, lambda g, got=got: _relative(got, g) <= tolerance)
            raise BehaviourError(
                f"with shards of {tokens} tokens the gradient is off by {error:.2g} of its length "
                f"from that of Σ nats / Σ tokens{why}"
            )


def _counts(n_tokens: Any) -> np.ndarray:
    counts = array(n_tokens)
    if counts.dtype.kind not in "iu":
        raise TypeError(f"n_tokens needs whole numbers, got {counts.dtype}")
    if counts.ndim != 1 or len(counts) < 3 or (counts < 1).any():
        raise ValueError(
            f"n_tokens needs shape (B,) with B ≥ 3 and numbers above 0, got {counts.tolist()}"
        )
    if counts.min() == counts.max():
        raise ValueError(f"all rows have {counts[0]} tokens: take rows of different lengths")
    return counts.astype(np.int64)


def _vector(gradient: Any) -> np.ndarray:
    return array(gradient).astype(np.float64).reshape(-1)


def _deals(n: int) -> list[list[np.ndarray]]:
    """Shards as positions in the sorted order."""
    rows = np.arange(n)
    uneven = np.split(rows, [1, max(2, 2 * n // 3)])
    return [[rows], np.split(rows, [n // 2]), np.split(rows, [1]), uneven, np.split(rows, n)]


def _relative(got: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


def _wrong_gradients(
    singles: np.ndarray, counts: np.ndarray, deal: Sequence[np.ndarray]
) -> dict[str, np.ndarray]:
    """What the rules give that are often written in place of the right one."""
    means = np.array([counts[s] @ singles[s] / max(counts[s].sum(), 1) for s in deal])
    rows = np.array([len(s) for s in deal])
    right = counts @ singles / counts.sum()
    return {
        "the shards' means are averaged, whatever their numbers of tokens": means.mean(0),
        "the shards are weighted by their rows, not by their tokens": rows @ means / rows.sum(),
        "the shards' means are added up": means.sum(0),
        "only the first shard's gradient is used": means[0],
        "only the last shard's gradient is used": means[-1],
        "the rows' means are averaged, whatever their numbers of tokens": singles.mean(0),
        "it is divided by the number of processes once more": right / len(deal),
        "it is multiplied by the number of processes": right * len(deal),
        "the sums are never divided by the tokens": counts @ singles,
    }
