"""Batches: windows of one long text for language models, and padding for separate sequences.

Everything here is numpy int64, which `torch.from_numpy` takes as it is. Inputs and targets have one
shape (B, T): targets[b, t] is the token that follows inputs[b, t] in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

# A target that is not asked for: torch's cross_entropy leaves it out (its ignore_index).
IGNORE = -100

Batch = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Contiguous:
    """A text read by B readers at once, T tokens at a time, so that state can be carried.

    The N − 1 pairs (token, next token) are cut into B rows of L = ⌊(N − 1) / B⌋ pairs; row b is the
    text from token b·L on. Iterating gives ⌈L / T⌉ batches (inputs, targets); row b of a batch goes
    on where row b of the batch before it ended. Of each row nothing is lost: the last batch is
    narrower, (B, L mod T), when T does not divide L. The last `remainder` = (N − 1) mod B pairs of
    the text are in no row.

    tokens: integers (N,), N ≥ B·T + 1, so that each row fills one window. They are copied.
    batch_size, window: B and T, at least 1.

    Iterating again starts again at the same place; there is nothing random in it. Raises TypeError
    for tokens that are no integers or not one row, ValueError for a text that is too short.
    """

    tokens: NDArray[np.int64]
    batch_size: int
    window: int

    def __post_init__(self) -> None:
        tokens = _stream(self.tokens, self.batch_size, self.window, self.batch_size)
        object.__setattr__(self, "tokens", tokens.copy())

    @property
    def row_length(self) -> int:
        """L, the number of pairs in a row."""
        return (len(self.tokens) - 1) // self.batch_size

    @property
    def remainder(self) -> int:
        """How many pairs at the end of the text are left out: fewer than batch_size."""
        return (len(self.tokens) - 1) % self.batch_size

    def __len__(self) -> int:
        return -(-self.row_length // self.window)

    def __iter__(self) -> Iterator[Batch]:
        n_pairs = self.batch_size * self.row_length
        inputs = self.tokens[:n_pairs].reshape(self.batch_size, -1)  # (B, L)
        targets = self.tokens[1 : n_pairs + 1].reshape(self.batch_size, -1)  # (B, L)
        for start in range(0, self.row_length, self.window):
            here = slice(start, start + self.window)
            yield inputs[:, here].copy(), targets[:, here].copy()

    def __repr__(self) -> str:
        return (
            f"Contiguous({len(self.tokens):,} tokens: {len(self):,} batches of "
            f"({self.batch_size}, {self.window}), {self.remainder} pairs left out)"
        )


def random_windows(
    rng: np.random.Generator, tokens: ArrayLike, *, batch_size: int, window: int
) -> Batch:
    """One batch of windows that start anywhere: inputs and targets (B, T).

    Each of the N − T places where a window and its last target fit is equally likely, drawn with
    replacement. All that is random comes from `rng`: its state before a call decides the batch.

    tokens: integers (N,), N ≥ T + 1. Raises TypeError and ValueError as `Contiguous` does.
    """
    tokens = _stream(tokens, batch_size, window, 1)
    starts = rng.integers(len(tokens) - window, size=batch_size)
    text = tokens[starts[:, None] + np.arange(window + 1)]  # (B, T + 1)
    return text[:, :-1].copy(), text[:, 1:].copy()


@dataclass(frozen=True, kw_only=True, eq=False)
class Padded:
    """Sequences of several lengths as one rectangle.

    tokens (B, T) int64, T the longest length; mask (B, T), True where a token stands, False where
    padding does; lengths (B,) int64. Row b is tokens[b, : lengths[b]].
    """

    tokens: NDArray[np.int64]
    mask: NDArray[np.bool_]
    lengths: NDArray[np.int64]


def pad(sequences: Sequence[ArrayLike], pad_id: int) -> Padded:
    """Sequences (n_b,) of integers filled up on the right with pad_id; their order is kept.

    Targets are padded by the same call with `IGNORE`. An empty sequence gives a row of padding.
    Raises ValueError for no sequence at all, TypeError for one that is not integers (n,).
    """
    rows = [_integers(sequence) for sequence in sequences]
    if not rows:
        raise ValueError("there is no sequence to pad")
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    mask = np.arange(lengths.max()) < lengths[:, None]  # (B, T)
    tokens = np.full(mask.shape, pad_id, dtype=np.int64)
    tokens[mask] = np.concatenate(rows)
    return Padded(tokens=tokens, mask=mask, lengths=lengths)


def targets_at_end(mask: NDArray[np.bool_], labels: ArrayLike) -> NDArray[np.int64]:
    """One label per sequence, asked for at its last token: targets (B, T), elsewhere `IGNORE`.

    mask: (B, T) as in `Padded`; labels: integers (B,). Raises ValueError when their B differ or a
    row is empty: it has no last token.
    """
    labels, mask = _integers(labels), np.asarray(mask)
    if mask.ndim != 2 or mask.dtype != bool or mask.shape[:1] != labels.shape:
        raise ValueError(
            f"expected a boolean mask (B, T) and labels (B,), got {mask.dtype} of shape "
            f"{mask.shape} and {labels.shape}"
        )
    lengths = mask.sum(axis=1)
    if len(lengths) and lengths.min() < 1:
        raise ValueError(f"sequence {int(lengths.argmin())} is empty: it has no last token")
    targets = np.full(mask.shape, IGNORE, dtype=np.int64)
    targets[np.arange(len(labels)), lengths - 1] = labels
    return targets


def shuffled(rng: np.random.Generator, n: int, batch_size: int) -> Iterator[NDArray[np.int64]]:
    """One pass over n examples: rows (≤ batch_size,) that hold each of 0 … n − 1 once, in rng's
    order; only the last may be smaller. The order is drawn at the call. ValueError if a size is
    below 1."""
    _positive(n=n, batch_size=batch_size)
    order = rng.permutation(n)
    return (order[start : start + batch_size] for start in range(0, n, batch_size))


def _stream(tokens: ArrayLike, batch_size: int, window: int, n_rows: int) -> NDArray[np.int64]:
    """tokens (N,) as int64, long enough for one window in each of n_rows rows, or an error."""
    _positive(batch_size=batch_size, window=window)
    array = _integers(tokens)
    needed = n_rows * window + 1
    if len(array) < needed:
        rows = f"{n_rows} rows of {window} tokens" if n_rows > 1 else f"a window of {window} tokens"
        raise ValueError(f"{rows} and a last target need {needed} tokens, got {len(array)}")
    return array


def _positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int | np.integer):
            raise TypeError(f"expected {name} to be an integer, got {size!r}")
        if size < 1:
            raise ValueError(f"expected {name} >= 1, got {size}")


def _integers(values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.shape == (0,):
        array = array.astype(np.int64)  # an empty list is float64 for numpy
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"expected integers (n,), got {array.dtype} of shape {array.shape}")
    return array.astype(np.int64, copy=False)
