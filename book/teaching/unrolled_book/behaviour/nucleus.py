"""A check of top-p: kept is the smallest set of likeliest tokens with enough probability."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unrolled_book.behaviour.arrays import BehaviourError, array, maker

# Four distributions, read as one batch: their nuclei differ in size. Not sorted, as in a model.
PROBS = np.array(
    [
        (0.03, 0.02, 0.91, 0.01, 0.005, 0.01, 0.01, 0.005),
        (0.055, 0.5, 0.02, 0.395, 0.01, 0.005, 0.01, 0.005),
        (0.25, 0.05, 0.145, 0.3, 0.01, 0.2, 0.015, 0.03),
        (0.12, 0.09, 0.16, 0.11, 0.14, 0.1, 0.15, 0.13),
    ]
)
SHIFTS = np.array([[0.0], [3], [-2], [10]])  # of the logits, which a softmax does not feel
MARKS = (0.9, 0.54, 0.305)  # some sums are within 0.01 of them, and none is nearer than 0.004


def check_top_p(cut: Callable[[Any, float], Any], like: Any = None) -> None:
    """Check that `cut` keeps the nucleus, the smallest set of likeliest tokens with Σ P ≥ p.

    cut: logits (B, V) and p to logits with −∞ for all that is cut off; the others as they were, or
        moved by a constant in each row. It is asked for four rows at once and three values of p.
    like: an array of the kind that `cut` takes, numpy's by default.

    Raises BehaviourError with the first distribution that is cut elsewhere, and a guess: the token
    that crosses p is lost, one too many is kept, the mask was not sorted back.
    """
    make = maker(np.zeros(1) if like is None else like)
    logits = np.log(PROBS) + SHIFTS
    for p in MARKS:
        got = np.array(array(cut(make(logits.copy()), p)), dtype=np.float64)
        if got.shape != logits.shape:
            raise BehaviourError(f"logits {logits.shape} came back as {got.shape}")
        for row, given, kept in zip(PROBS, logits, got, strict=True):
            _check_row(row, given, kept, p)


def nucleus(probs: np.ndarray, p: float, *, crossing: bool = True) -> np.ndarray:
    """Which tokens (V,) the nucleus holds, boolean; crossing: with the one that crosses p."""
    order = np.argsort(-probs, kind="stable")
    mass = np.cumsum(probs[order])
    keep = mass - probs[order] < p if crossing else mass <= p
    return keep[np.argsort(order)]


def _check_row(probs: np.ndarray, logits: np.ndarray, got: np.ndarray, p: float) -> None:
    keep, want = got > -np.inf, nucleus(probs, p)
    if np.isnan(got).any():
        raise BehaviourError(f"cutting {_listed(probs)} at p = {p} gives NaN")
    if (keep != want).any():
        raise BehaviourError(
            f"with the probabilities {_listed(probs)} and p = {p} the tokens {_ids(keep)} were "
            f"kept, which have {probs[keep].sum():.3g}; expected {_ids(want)}"
            + _why(probs, keep, want, p)
        )
    moved = got[keep] - logits[keep]
    if not np.allclose(moved, moved[0], atol=1e-4):
        raise BehaviourError(f"the logits of the kept tokens have changed their distances: {got}")


def _why(probs: np.ndarray, keep: np.ndarray, want: np.ndarray, p: float) -> str:
    lost = nucleus(probs, p, crossing=False)
    if not keep.any():
        return ". Nothing is left: is the token that crosses p lost?"
    # Who loses the crossing token may still keep the likeliest one.
    if np.array_equal(keep, lost | (probs == probs.max())):
        return ". Is the token that crosses p lost?"
    if keep.sum() == want.sum() + 1 and keep[want].all():
        return ". Is one too many kept?"
    if keep.sum() == want.sum():
        return ". Was the mask of the sorted tokens not put back into their order?"
    return ""


def _ids(keep: np.ndarray) -> list[int]:
    return np.flatnonzero(keep).tolist()


def _listed(probs: np.ndarray) -> str:
    return "(" + ", ".join(f"{x:g}" for x in probs) + ")"
