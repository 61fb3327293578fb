"""A check of shards: the gradient of a batch does not depend on how the batch is dealt out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unrolled_book.behaviour.arrays import BehaviourError, array

Rows = np.ndarray  # (n,) indices of the rows of one shard


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
    _refuse_rows_that_hide(singles, counts, deals, expected, 2 * tolerance)
    nobody = np.array([], dtype=int)
    for deal in [*deals, [np.arange(len(counts)), nobody]]:
        got = _vector(gradient([order[shard] for shard in deal]))
        if got.shape != expected.shape:
            raise BehaviourError(f"a gradient of {len(got)} numbers, expected {len(expected)}")
        if not (error := _relative(got, expected)) <= tolerance:
            tokens = ", ".join([str(counts[s].sum()) for s in deal[:4]] + ["…"][: len(deal) > 4])
            raise BehaviourError(
                f"with shards of {tokens} tokens the gradient is off by {error:.2g} of its length "
                f"from that of Σ nats / Σ tokens{_why(got, singles, counts, deal, tolerance)}"
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


def _mistakes(
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


def _refuse_rows_that_hide(
    singles: np.ndarray,
    counts: np.ndarray,
    deals: list[list[np.ndarray]],
    expected: np.ndarray,
    tolerance: float,
) -> None:
    """ValueError where a wrong rule comes out right in all deals."""
    if not np.linalg.norm(expected) > 0 or not np.isfinite(singles).all():
        raise ValueError("the gradient of the batch is 0 or not finite: nothing can be compared")
    found = [_mistakes(singles, counts, deal) for deal in deals]
    for mistake in found[0]:
        if all(_relative(each[mistake], expected) <= tolerance for each in found):
            raise ValueError(f"these rows cannot tell: the gradient is right also where {mistake}")


def _why(
    got: np.ndarray,
    singles: np.ndarray,
    counts: np.ndarray,
    deal: Sequence[np.ndarray],
    tolerance: float,
) -> str:
    """A guess at the mistake: the rule, among those often written, that gives `got`."""
    for mistake, gradient in _mistakes(singles, counts, deal).items():
        if _relative(got, gradient) <= tolerance:
            return f". It looks as if {mistake}"
    return ""
