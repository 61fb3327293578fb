"""Batches: windows of one long text for language models, and padding for separate sequences.

Everything is numpy int64, which `torch.from_numpy` takes as it is. Inputs and targets have one
shape (B, T): targets[b, t] is the token that follows inputs[b, t]. Chapters 9, 10 and 12 use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unrolled.validate import checked, whole

# A target without a loss: torch's cross_entropy leaves it out (its ignore_index).
IGNORE = -100

Ids = NDArray[np.int64]
Pair = tuple[Ids, Ids]  # inputs, targets


class ContiguousBatches:
    """A text in B rows, read side by side, T tokens at a time, so that state can be carried.

    The N − 1 pairs (token, next token) are cut into B rows of L = ⌊(N − 1) / B⌋ pairs; row b is the
    text from token b·L on, and up to B − 1 pairs at the end of the text are left out. Iterating
    gives ⌈L / T⌉ batches (inputs, targets), the same each time; row b of a batch continues row b of
    the batch before. The last batch is narrower, (B, L mod T), when T does not divide L.

    tokens: integers (N,), N ≥ B·T + 1, so that each row fills one window. They are copied.
    batch_size, seq_len: B and T, at least 1. Raises TypeError for tokens that are not integers
    (N,), ValueError for a text that is too short.
    """

    @checked
    def __init__(self, tokens: ArrayLike, *, batch_size: int, seq_len: int) -> None:
        self.tokens = _long_enough(tokens, batch_size, seq_len, batch_size).copy()
        self.batch_size, self.seq_len = batch_size, seq_len

    @property
    def row_length(self) -> int:
        """L, the number of pairs in a row."""
        return (len(self.tokens) - 1) // self.batch_size

    def __len__(self) -> int:
        return -(-self.row_length // self.seq_len)

    def __iter__(self) -> Iterator[Pair]:
        n_pairs = self.batch_size * self.row_length
        inputs = self.tokens[:n_pairs].reshape(self.batch_size, -1)  # (B, L)
        targets = self.tokens[1 : n_pairs + 1].reshape(self.batch_size, -1)  # (B, L)
        for start in range(0, self.row_length, self.seq_len):
            here = slice(start, start + self.seq_len)
            yield inputs[:, here].copy(), targets[:, here].copy()


@checked
def random_batch(
    rng: np.random.Generator, tokens: ArrayLike, *, batch_size: int, seq_len: int
) -> Pair:
    """Inputs and targets (B, T): B windows of a text that start anywhere.

    Each of the N − T positions where a window and its last target fit is equally likely, drawn
    with replacement.

    tokens: integers (N,), N ≥ T + 1. Raises TypeError and ValueError as `ContiguousBatches` does.
    """
    tokens = _long_enough(tokens, batch_size, seq_len, 1)
    starts = rng.integers(len(tokens) - seq_len, size=batch_size)
    text = tokens[starts[:, None] + np.arange(seq_len + 1)]  # (B, T + 1)
    return text[:, :-1].copy(), text[:, 1:].copy()


@checked
def windows(
    tokens: ArrayLike, *, batch_size: int, seq_len: int, rng: np.random.Generator
) -> Iterator[Pair]:
    """Random windows of a text without end, for `fit`: one `random_batch` after the other."""
    tokens = _long_enough(tokens, batch_size, seq_len, 1)
    return iter(lambda: random_batch(rng, tokens, batch_size=batch_size, seq_len=seq_len), None)


class Padded(NamedTuple):
    """Sequences of several lengths as one rectangle, T the longest length."""

    tokens: Ids  # (B, T)
    mask: NDArray[np.bool_]  # (B, T), True at a token, False at padding


@checked
def pad(sequences: Sequence[ArrayLike], pad_id: int) -> Padded:
    """Sequences (n_b,) of integers, in order, filled up on the right with pad_id.

    Pad targets with `IGNORE`. An empty sequence gives a row of padding. Raises ValueError for no
    sequence at all, TypeError for one that is not integers (n,) and a pad_id that is no integer.
    """
    rows = [_integers(sequence) for sequence in sequences]
    if not rows:
        raise ValueError("there is no sequence to pad")
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max()) < lengths[:, None]  # (B, T)
    tokens = np.full(mask.shape, whole("pad_id", pad_id, None), dtype=np.int64)
    tokens[mask] = np.concatenate(rows)
    return Padded(tokens, mask)


@checked
def targets_at_end(mask: NDArray[np.bool_], labels: ArrayLike) -> Ids:
    """Targets (B, T) with one label per sequence, at its last token, and `IGNORE` elsewhere.

    mask: bool (B, T) as in `Padded`, no row empty; labels: integers (B,); else ValueError.
    """
    labels, mask = _integers(labels), np.asarray(mask)
    if mask.ndim != 2 or mask.dtype != bool or mask.shape[:1] != labels.shape:
        got = f"{mask.dtype} {mask.shape} and {labels.shape}"
        raise ValueError(f"expected a boolean mask (B, T) and labels (B,), got {got}")
    lengths = mask.sum(axis=1)
    if (mask[:, 1:] & ~mask[:, :-1]).any():
        raise ValueError("each row of mask must be True up to a sequence's end, False after it")
    if not lengths.all():
        raise ValueError(f"sequence {int(lengths.argmin())} is empty: it has no last token")
    targets = np.full(mask.shape, IGNORE, dtype=np.int64)
    targets[np.arange(len(labels)), lengths - 1] = labels
    return targets


@checked
def shuffled_batches(rng: np.random.Generator, n: int, batch_size: int) -> Iterator[Ids]:
    """One pass over n examples in random order: the indices (≤ batch_size,) of each batch.

    Each of 0 … n − 1 comes once; only the last batch may be smaller. The call draws the order.
    """
    order = rng.permutation(whole("n", n))
    whole("batch_size", batch_size)
    return (order[start : start + batch_size] for start in range(0, n, batch_size))


def _long_enough(tokens: ArrayLike, batch_size: int, seq_len: int, n_rows: int) -> Ids:
    """tokens (N,) as int64, long enough for one window in each of n_rows rows, or an error."""
    whole("batch_size", batch_size)
    whole("seq_len", seq_len)
    array, needed = _integers(tokens), n_rows * seq_len + 1
    if len(array) < needed:
        size = f"{n_rows} × {seq_len} tokens and a last target"
        raise ValueError(f"{size} need {needed} tokens, got {len(array)}")
    return array


def _integers(values: ArrayLike) -> Ids:
    array = np.asarray(values)
    if array.shape == (0,):
        array = array.astype(np.int64)  # an empty list is float64 for numpy
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"expected integers (n,), got {array.dtype} of shape {array.shape}")
    return array.astype(np.int64, copy=False)
