"""Checks of what must not matter in a batch: its other sequences, and its padding."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from unrolled_book.behaviour.probe import (
    EXCHANGED,
    BehaviourError,
    Probe,
    array,
    check_rows,
    differ,
    first,
    how_much,
    refuse_nan,
    replaced,
    vocabulary,
)

EXTRA = 3  # columns of padding that are added


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


def check_padding(
    model: Callable[[Any, Any], Any], tokens: Any, mask: Any, *, tolerance: float | None = None
) -> None:
    """Check that padding changes nothing, neither its ids nor its amount.

    First the check puts other ids that occur in `tokens` into the padding, in up to three ways: no
    bit of an output may change. Then it adds three columns of padding, and last it gives the model
    each padded sequence alone, cut to its length. Another shape rounds differently, so here an
    output x may change by tolerance · (1 + |x|); the default tolerance is the square root of its
    dtype's precision (float64: 1.5e-8, float32: 3.5e-4). Outputs at padded positions are ignored.

    model: (tokens (B, T), mask (B, T)) → outputs (B, T, …), one for each token, or (B, …).
    tokens: integers (B, T), at least two different ids; left unchanged.
    mask: booleans (B, T), True for a token: each sequence begins on the left and has at least one
          token, and at least one sequence has padding.

    Raises BehaviourError with the first sequence that changes, when and by how much, and a guess
    (the mask is not used or inverted, a state is read in the last column, a backward direction
    begins in the padding); also when outputs have another shape, hold NaN, or differ between two
    calls on the same tokens.
    """
    batch = _Padded(model, tokens, mask)
    ids, real = batch.ids, batch.real
    tolerance = batch.tolerance if tolerance is None else tolerance
    for other in replaced(ids, ~real, vocabulary(ids)):
        if change := batch.change(batch.own(other, real), 0.0):
            why = _why_padding(batch, other)
            raise BehaviourError(f"{change} when other ids stand in the padding{why}")
    more = ((0, 0), (0, EXTRA))
    wide = np.pad(ids, more, constant_values=ids[~real][0]), np.pad(real, more)
    if change := batch.change(batch.own(*wide), tolerance):
        why = _why_padding(batch, ids)
        raise BehaviourError(f"{change} when {EXTRA} columns of padding are added{why}")
    if change := batch.change(batch.alone(cut=True), tolerance):
        why = _why_padding(batch, ids)
        if batch.change(batch.alone(cut=False), tolerance):
            why = ", and alone with it: does it read other sequences (check_batch)"
            why += "?" if batch.per_token else ", or the last column of the longest one?"
        raise BehaviourError(f"{change} when it stands alone, without padding{why}")
    for i, output in batch.before.items():
        if np.isnan(output).any():
            raise BehaviourError(f"the output of sequence {i} holds NaN")


def _why_padding(batch: _Padded, other: np.ndarray) -> str:
    """A guess at the mistake, from outputs under other masks; `other`: ids with other padding."""
    if not batch.change(batch.own(batch.ids, np.ones_like(batch.real)), 0.0):
        return ". The mask changes nothing: is it used? " + (
            "Without it attention reaches into the padding, and a recurrent model's backward "
            "direction begins there"
            if batch.per_token
            else "A state is to be read at the last token, mask.sum(1) − 1, not in the last column"
        )
    if other is not batch.ids:
        with contextlib.suppress(Exception):  # a model may refuse an inverted mask
            turned = batch.own(batch.ids, ~batch.real), batch.own(other, ~batch.real)
            if not any(differ(turned[0][i], turned[1][i]).any() for i in turned[0]):
                return ". With ~mask it does not: True means that a token stands there, not padding"
    if batch.per_token:
        return ". Does a backward direction begin in the padding, or a mean reach into it?"
    return ". Is a state read in the last column, not at the last token, or padding averaged in?"


class _Padded:
    """A model's outputs for a padded batch and variations of it, as {sequence: output}."""

    def __init__(self, model: Callable[[Any, Any], Any], tokens: Any, mask: Any) -> None:
        self.ids, self.real, self.probe = array(tokens), array(mask), Probe(model, tokens)
        vocabulary(self.ids)
        self.lengths = _lengths(self.ids, self.real)
        outputs = self.probe.twice(self.ids, self.real)
        self.tolerance = self.probe.tolerance
        self.per_token = self._is_per_token(outputs)
        self.before = self._cut(outputs, range(len(outputs)))

    def _is_per_token(self, outputs: np.ndarray) -> bool:
        """Whether the outputs are (B, T, …), not (B, …); T may equal the number of classes."""
        check_rows(self.ids, outputs)
        i = int(np.argmin(self.lengths))
        n, width = self.lengths[i], self.ids.shape[1]
        alone = self.probe(self.ids[i : i + 1, :n], self.real[i : i + 1, :n])
        check_rows(self.ids[i : i + 1], alone)
        shape, rest = outputs.shape[1:], outputs.shape[2:]
        if alone.shape[1:] == shape:
            return False
        longest = max(self.lengths)  # where torch's pad_packed_sequence cuts a batch
        if shape in ((width, *rest), (longest, *rest)) and alone.shape[1:] == (n, *rest):
            return True
        raise BehaviourError(
            f"tokens {self.ids.shape} gave outputs {outputs.shape}, and sequence {i} alone, "
            f"(1, {n}), gave {alone.shape}: expected (B, T, …) or (B, …) both times"
        )

    def own(self, ids: np.ndarray, mask: np.ndarray) -> dict[int, np.ndarray]:
        """The outputs of each sequence, or of each of its tokens."""
        return self._cut(self.probe(ids, mask), range(len(ids)))

    def alone(self, cut: bool) -> dict[int, np.ndarray]:
        """The outputs of each padded sequence alone, cut to its length or not."""
        answers = {}
        for i, n in enumerate(self.lengths):
            if n < self.ids.shape[1]:
                place = np.s_[i : i + 1, : n if cut else None]
                answers |= self._cut(self.probe(self.ids[place], self.real[place]), [i])
        return answers

    def _cut(self, outputs: np.ndarray, sequences: Iterable[int]) -> dict[int, np.ndarray]:
        rows = dict(zip(sequences, outputs, strict=True))
        return {i: x[: self.lengths[i]] if self.per_token else x for i, x in rows.items()}

    def change(self, after: dict[int, np.ndarray], tolerance: float) -> str:
        """How the first sequence that changed has changed; empty if none has."""
        for i, y in after.items():
            x, place = self.before[i], ""
            if x.shape != y.shape:
                raise BehaviourError(f"the output of sequence {i} is {x.shape} and then {y.shape}")
            if (off := differ(x, y, tolerance)).any():
                if self.per_token:
                    place = f" at token {first(off)[0]}"
                return (
                    f"the output of sequence {i} ({self.lengths[i]} tokens in {self.ids.shape[1]} "
                    f"columns) changes by {how_much(x, y, off):.3g}{place}"
                )
        return ""


def _lengths(ids: np.ndarray, real: np.ndarray) -> list[int]:
    """The number of tokens of each sequence. Raises ValueError or TypeError for a wrong mask."""
    if real.dtype != bool:
        raise TypeError(f"mask needs booleans, True where a token stands, got {real.dtype}")
    if real.shape != ids.shape:
        raise ValueError(f"mask needs the tokens' shape {ids.shape}, got {real.shape}")
    lengths = real.sum(axis=1)
    for bad, message in (
        (lengths == 0, "has no token"),
        ((real != (np.arange(ids.shape[1]) < lengths[:, None])).any(axis=1),
         "has padding before a token: its tokens must stand on the left"),
    ):  # fmt: skip
        if bad.any():
            raise ValueError(f"sequence {first(bad)[0]} of the mask {message}")
    if real.all():
        raise ValueError("no sequence has padding: there is nothing to judge")
    return lengths.tolist()
