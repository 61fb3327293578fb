"""Checks of what an output must not depend on: later tokens, and the rest of the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unrolled_book.behaviour.arrays import BehaviourError, array, first
from unrolled_book.behaviour.probe import (
    EXCHANGED,
    Probe,
    check_rows,
    differ,
    how_much,
    refuse_nan,
    replaced,
    vocabulary,
)


def check_causal(model: Callable[[Any], Any], tokens: Any) -> None:
    """Check that the output at position i depends on the tokens 0 … i only, bit for bit.

    The output at i predicts token i + 1. The check changes each token t ≥ 1 in turn to up to three
    other ids, in all sequences at once. No bit of an output before t may change.

    model: tokens (B, T) → outputs (B, T, V) for a vocabulary of V. It is called up to 3T − 1 times,
           always with the same shape, so that rounding stays the same.
    tokens: integers (B, T), T ≥ 2, ids below V; left unchanged.

    Raises BehaviourError with the first position that leaks and the token it reads; also when
    outputs have another shape, hold NaN, or differ between two calls on the same tokens.
    """
    ids, probe = array(tokens), Probe(model, tokens)
    if ids.ndim != 2 or ids.shape[0] < 1 or ids.shape[1] < 2:
        raise ValueError(f"tokens need shape (B, T) with T ≥ 2, got {ids.shape}")
    before = probe.twice(ids)
    if before.ndim != 3 or before.shape[:2] != ids.shape:
        raise BehaviourError(f"tokens {ids.shape} gave outputs {before.shape}, expected (B, T, V)")
    refuse_nan(before)
    vocab_size = before.shape[-1]
    if vocab_size < 2:
        raise ValueError(f"outputs of shape {before.shape}: with one word nothing can be changed")
    columns, reads = np.arange(ids.shape[1]), {}  # position: the first later token that it reads
    for t in columns[1:]:
        for other in replaced(ids, columns == t, np.arange(vocab_size)):
            leaks = differ(before, probe(other)).any(axis=(0, 2))[:t]  # (t,)
            for position in np.flatnonzero(leaks):
                reads.setdefault(int(position), t)
    if reads:
        place = min(reads)
        raise BehaviourError(
            f"the output at position {place} changes with token {reads[place]}; "
            f"it predicts token {place + 1} and may read tokens 0 to {place} only"
        )


def check_batch(
    model: Callable[[Any], Any], tokens: Any, *, tolerance: float | None = None
) -> None:
    """Check that a sequence's output depends neither on the rest of the batch nor on its row.

    First the check replaces all tokens of one sequence, in up to three ways, by other ids that
    occur in `tokens`: no bit of another sequence's output may change. Then it moves every sequence
    down by one row, and the output must move along. Torch's kernels round differently in different
    rows, so here an output x may change by tolerance · (1 + |x|); the default tolerance is the
    square root of its dtype's precision.

    model: tokens (B, T) → outputs (B, …), called up to 3B + 4 times. Wrap a model with more
           arguments into a function of its tokens.
    tokens: integers (B, T), B ≥ 2, at least two different ids; left unchanged.

    Raises BehaviourError with the first sequence that reads another one, and a guess (exchanged
    axes, a statistic over the batch); also when outputs have another shape, hold NaN, or differ
    between two calls on the same tokens.
    """
    ids, probe = array(tokens), Probe(model, tokens)
    words, n = vocabulary(ids), len(ids)
    if n < 2:
        raise ValueError(f"tokens need shape (B, T) with B ≥ 2, got {ids.shape}")
    before = probe.twice(ids)
    tolerance = probe.tolerance if tolerance is None else tolerance
    check_rows(ids, before)
    reads = np.zeros((n, n), dtype=bool)  # row reads column
    for j in range(n):
        for other in replaced(ids, np.arange(n)[:, None] == j, words):
            reads[:, j] |= differ(before, probe(other)).reshape(n, -1).any(axis=1)
    np.fill_diagonal(reads, False)
    if reads.any():
        i, j = first(reads)
        other = next(replaced(ids, np.arange(ids.shape[1]) == 0, words))
        raise BehaviourError(
            f"the output of sequence {i} changes with the tokens of sequence {j}"
            + _why_they_read(reads, differ(before, probe(other)), ids.shape)
        )
    moved = np.roll(probe(np.roll(ids, 1, axis=0)), -1, axis=0)
    if (off := differ(before, moved, tolerance)).any():
        i = first(off)[0]
        by = how_much(before[i], moved[i], off[i])
        raise BehaviourError(
            f"the output of sequence {i} changes by {by:.3g} at place {(i + 1) % n} of the batch"
        )
    refuse_nan(before)


def _why_they_read(reads: np.ndarray, by_first_column: np.ndarray, shape: tuple) -> str:
    """A guess at the mistake, from what changes with the first token of every sequence."""
    others = by_first_column[:, 1:] if by_first_column.shape[:2] == shape else by_first_column
    if not np.triu(reads).any() or (shape[1] > 1 and not others.any()):
        return ". Along the batch the model acts as along time" + EXCHANGED
    if reads.sum() == reads.size - len(reads):
        return (
            ". Every sequence reads every other: a mean or a softmax over the batch axis, or batch "
            "norm in training (model.eval())?"
        )
    return ""
