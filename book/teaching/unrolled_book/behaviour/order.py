"""Checks of what outputs must follow: the order of their inputs, and the source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unrolled_book.behaviour.probe import (
    EXCHANGED,
    BehaviourError,
    Probe,
    array,
    changed,
    check_rows,
    differ,
    first,
    how_much,
    refuse_nan,
    vocabulary,
)

ROUNDING = 64  # units of precision by which sums in another order may differ
DROWNED = 50  # a change above 1/50 of what other inputs cause is not rounding, however small


def check_permutation(
    model: Callable[[Any], Any], x: Any, *, tolerance: float | None = None
) -> None:
    """Check permutation equivariance, f(πx) = πf(x): outputs move with their inputs.

    The check swaps each pair of neighbours in turn, in all sequences at once, then the first and
    the last input, then reverses the order. Sums in another order round differently, so an output y
    may change by tolerance · (1 + |y|); the default tolerance is its dtype's precision to the power
    2/3 (float64: 3.7e-11, float32: 2.4e-5). A model with positions or a causal mask fails.

    model: x → outputs, one for each token or vector: (B, T, …), or (T, …) for vectors (T, D).
    x: tokens, integers (B, T), or vectors, floats (…, T, D); T ≥ 2, not all equal along T.

    Raises BehaviourError with the first pair whose outputs do not move along, where and by how
    much, and a guess (added positions, or a mask or relative positions); also when outputs have
    another shape, hold NaN, or differ between two calls.
    """
    row = _Row(model, x, 2)
    tolerance = row.probe.tolerance ** (4 / 3) if tolerance is None else tolerance
    last = row.length - 1
    for i, j in [*((i, i + 1) for i in range(last)), (0, last)]:
        if change := row.change(_exchanged(row.length, i, j), tolerance):
            why = _why_not_moved(row, tolerance)
            raise BehaviourError(f"when {row.thing}s {i} and {j} change places, {change}{why}")
    if change := row.change(np.arange(row.length)[::-1], tolerance):
        raise BehaviourError(f"when the {row.thing}s are reversed, {change}")


def check_order(model: Callable[[Any], Any], x: Any, *, tolerance: float | None = None) -> None:
    """Check that an output depends on the order of the inputs before it.

    The check swaps each pair of neighbours except the last input, then the first and the last but
    one. Some later output must change by more than rounding can: by tolerance · (1 + |y|), where
    the default tolerance is 64 units of its dtype's precision (float32: 7.6e-6), or by 1/50 of what
    other inputs change. Attention without positions, or with one position for all tokens, sees a
    set and fails. In two or more layers a causal mask alone makes the order matter: check a single
    layer, or an encoder.

    model, x: as for `check_permutation`, T ≥ 3.

    Raises BehaviourError that says whether the model sees a set or reads nothing there; also when
    outputs have another shape, hold NaN, or differ between two calls.
    """
    row = _Row(model, x, 3)
    tolerance = ROUNDING * row.probe.tolerance**2 if tolerance is None else tolerance
    last, largest = row.length - 1, 0.0
    for i, j in [*((i, i + 1) for i in range(last - 1)), (0, last - 1)]:
        after, later = row.answer(_exchanged(row.length, i, j)), np.s_[..., j + 1 :, :]
        if differ(row.before[later], after[later], tolerance).any():
            return
        largest = max(largest, how_much(row.before[later], after[later], np.s_[:]))
    end, before_it = row.before[..., last, :], np.broadcast_to(np.arange(last + 1) < last, row.lead)
    answers = [row.outputs(other)[..., last, :] for other in changed(row.x, before_it)]
    by = max(how_much(end, answer, np.s_[:]) for answer in answers)
    if largest > by / DROWNED > 0:
        return
    order = f"the order of the {row.thing}s before it changes no output by more than {largest:.2g}"
    if not any(differ(end, answer, tolerance).any() for answer in answers):
        raise BehaviourError(f"{order}, and other {row.thing}s there do not either: are they read?")
    raise BehaviourError(
        f"{order}, other {row.thing}s there change the last one by {by:.2g}: the model sees a set. "
        "Are there positions, and has each place its own?"
    )


class _Row:
    """A model's outputs for tokens or vectors, and for the same ones in another order."""

    def __init__(self, model: Callable[[Any], Any], x: Any, at_least: int) -> None:
        self.x, self.probe = array(x), Probe(model, x)
        vectors = self.x.dtype.kind == "f"
        if not vectors and self.x.dtype.kind not in "iu":
            raise TypeError(f"x needs integers or floats, got {self.x.dtype}")
        self.thing = "vector" if vectors else "token"
        self.lead = self.x.shape[:-1] if vectors else self.x.shape
        if (not self.lead if vectors else len(self.lead) != 2) or 0 in self.x.shape:
            raise ValueError(f"x needs tokens (B, T) or vectors (…, T, D), got {self.x.shape}")
        self.axis, self.length = len(self.lead) - 1, self.lead[-1]
        if self.length < at_least:
            raise ValueError(f"x needs T ≥ {at_least}, got {self.x.shape}")
        exchanged = self.x.take(np.arange(self.length + 2 - at_least), self.axis)
        if (exchanged == exchanged.take([0], self.axis)).all():
            raise ValueError(f"the {self.thing}s are all the same: their order cannot be seen")
        self.before = self._by_place(self.probe.twice(self.x))
        refuse_nan(self.before)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """(*lead, n): the outputs at each position."""
        return self._by_place(self.probe(x))

    def _by_place(self, y: np.ndarray) -> np.ndarray:
        if y.shape[: len(self.lead)] != self.lead:
            exchanged = y.shape[: len(self.lead)] == (*self.lead[:-2], *self.lead[:-3:-1])
            guess = EXCHANGED if exchanged else ""
            expected = f"expected ({', '.join(map(str, self.lead))}, …){guess}"
            raise BehaviourError(f"x {self.x.shape} gave outputs {y.shape}, {expected}")
        return y.reshape(*self.lead, -1)

    def answer(self, order: np.ndarray) -> np.ndarray:
        """The outputs for x in another order."""
        return self.outputs(self.x.take(order, self.axis))

    def change(self, order: np.ndarray, tolerance: float) -> str:
        """How the first output that did not move with its input differs; empty if all moved."""
        moved, after = self.before.take(order, self.axis), self.answer(order)
        if not (off := differ(moved, after, tolerance)).any():
            return ""
        *sequence, place, _ = first(off)
        where = f" of sequence {', '.join(map(str, sequence))}" if sequence else ""
        by = how_much(moved, after, off)
        return (
            f"the output of {self.thing} {order[place]}{where}, now at place {place}, is another "
            f"than before (outputs differ by up to {by:.3g})"
        )


def _exchanged(n: int, i: int, j: int) -> np.ndarray:
    """0 … n − 1 with i and j swapped."""
    order = np.arange(n)
    order[[i, j]] = j, i
    return order


def _why_not_moved(row: _Row, tolerance: float) -> str:
    """A guess at the reason: positions that are added, or which inputs an output may read."""
    equal = np.broadcast_to(row.x.take([0], row.axis), row.x.shape)
    outputs = row.outputs(equal)
    same = np.broadcast_to(outputs.take([0], row.axis), outputs.shape)
    if differ(same, outputs, tolerance).any():
        return (
            f". Even where all {row.thing}s are equal the outputs differ by place: are positions "
            "added, does a state run along, or does a reshape mix places?"
        )
    return (
        f". Where all {row.thing}s are equal so are the outputs, so the order decides who reads "
        "whom: a causal mask, a window, or relative positions?"
    )


def check_source(
    model: Callable[[Any, Any], Any], source: Any, target: Any, *, tolerance: float = 0.0
) -> None:
    """Check that every output reads the source, and every position of the source is read.

    The check replaces each position of the source in turn, in all sequences at once and in up to
    three ways, by other ids that occur or by vectors from N(0, 1). In each sequence every position
    must change some output, and some position must change every output, by more than
    tolerance · (1 + |y|).

    model: (source, target) → outputs (B, T, …). Wrap a model that also takes a mask into a function
           of these two.
    source: integers (B, S), at least two different ids, or floats (B, S, D); without padding.
    target: integers (B, T), or floats (B, T, D).

    Raises BehaviourError if no output reads the source, with the first position that none reads,
    or with the first output that reads nothing; also when outputs have another shape, hold NaN, or
    differ between two calls.
    """
    x, y = array(source), array(target)
    for name, a in (("source", x), ("target", y)):
        if a.dtype.kind not in "iuf":
            raise TypeError(f"{name} needs integers or floats, got {a.dtype}")
        if a.ndim != (3 if a.dtype.kind == "f" else 2) or 0 in a.shape:
            raise ValueError(f"{name} needs integers (B, n) or floats (B, n, D), got {a.shape}")
    if len(x) != len(y):
        raise ValueError(f"source and target need one B, got {x.shape} and {y.shape}")
    if x.dtype.kind != "f":
        vocabulary(x)
    probe = Probe(model, source)
    before = probe.twice(x, y)
    check_rows(y, before)
    if before.shape[:2] != y.shape[:2]:
        raise BehaviourError(
            f"source {x.shape} and target {y.shape} gave outputs {before.shape}, "
            f"expected ({len(y)}, {y.shape[1]}, …)"
        )
    refuse_nan(before)
    reads, largest = _reads(probe, x, y, before, tolerance)
    if not reads.any():
        by = f" by more than {largest:.2g}" if tolerance else ""
        raise BehaviourError(
            f"no output changes{by} when the source does: do keys and values come from the "
            "target, or does the source get lost on the way?"
        )
    used = reads.any(axis=2)  # (B, S)
    if not used.all():
        b, s = first(~used)
        raise BehaviourError(
            f"no output of sequence {b} changes with position {s} of its source; "
            f"it reads {_listed(used[b])} of {x.shape[1]}"
        )
    if not (reading := reads.any(axis=1)).all():  # (B, T)
        b, t = first(~reading)
        raise BehaviourError(
            f"the output at position {t} of sequence {b} changes with no position of the source; "
            f"those that change: {_listed(reading[b])} of {y.shape[1]}"
        )


def _reads(probe, x, y, before, tolerance) -> tuple[np.ndarray, float]:
    """(which outputs change with which position of the source, (B, S, T); the largest change)."""
    reads, largest = np.zeros((len(x), x.shape[1], y.shape[1]), dtype=bool), 0.0
    columns = np.broadcast_to(np.arange(x.shape[1]), x.shape[:2])
    for s in range(x.shape[1]):
        for other in changed(x, columns == s):
            after = probe(other, y)
            off = differ(before, after, tolerance).reshape(*y.shape[:2], -1)
            reads[:, s] |= off.any(axis=2)
            largest = max(largest, how_much(before, after, np.s_[:]))
    return reads, largest


def _listed(which: np.ndarray) -> str:
    """The positions that are True, at most eight of them."""
    positions = [str(i) for i in np.flatnonzero(which)]
    if not positions:
        return "none"
    return ("position " if len(positions) == 1 else "positions ") + ", ".join(
        [*positions[:8], *(["…"] if len(positions) > 8 else [])]
    )
