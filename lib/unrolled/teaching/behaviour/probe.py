"""Asking a model: the same tokens twice, other tokens in some places, and what has changed then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from unrolled.teaching.behaviour.arrays import BehaviourError, array, first, maker, precision

EXCHANGED = ": are the two axes exchanged, does the module want (T, B, D)?"


class Probe:
    """A model that is asked in numpy arrays, copied into the kind of `like`, and answers in them.

    tolerance: what rounding may do to the last answer, the square root of its dtype's precision.
    """

    def __init__(self, model: Callable[..., Any], like: Any) -> None:
        self.model, self.make, self.tolerance = model, maker(like), 0.0

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        outputs = self.model(*(self.make(a.copy()) for a in arrays))
        if isinstance(outputs, tuple):
            raise TypeError("the model returned a tuple: hand over a function to its outputs only")
        self.tolerance = precision(outputs) ** 0.5
        return np.array(array(outputs))  # a copy: a model may use one buffer again and again

    def twice(self, *arrays: np.ndarray) -> np.ndarray:
        """The outputs; BehaviourError if a second call gives others."""
        once, again = self(*arrays), self(*arrays)
        if once.shape != again.shape or differ(once, again).any():
            raise BehaviourError(
                "two calls on the same tokens differ: is dropout still on (model.eval())?"
            )
        return once


def vocabulary(ids: np.ndarray) -> np.ndarray:
    """The ids that occur, in order; TypeError or ValueError for no integers (B, T) or one id."""
    if ids.dtype.kind not in "iu":
        raise TypeError(f"tokens need integers, got {ids.dtype}")
    if ids.ndim != 2 or ids.size == 0:
        raise ValueError(f"tokens need shape (B, T), none of them 0, got {ids.shape}")
    if len(words := np.unique(ids)) < 2:
        raise ValueError(f"all tokens are {words[0]}: there is no other id to replace them by")
    return words


def replaced(ids: np.ndarray, places: np.ndarray, words: np.ndarray) -> Iterator[np.ndarray]:
    """ids with another one of words in each of the places, in up to three ways."""
    rank = np.searchsorted(words, ids)
    for shift in sorted({1, len(words) // 2, len(words) - 1}):
        yield np.where(places, words[(rank + shift) % len(words)], ids).astype(ids.dtype)


def changed(x: np.ndarray, places: np.ndarray) -> Iterator[np.ndarray]:
    """x with something else in each of the places, in up to three ways.

    Tokens (B, T) get other ids of those that occur (see `vocabulary`), vectors (…, D) fresh ones
    from N(0, 1); places are as for the tokens, without the axis D.
    """
    if x.dtype.kind != "f":
        yield from replaced(x, places, vocabulary(x))
        return
    rng = np.random.default_rng(0)
    for _ in range(3):
        yield np.where(places[..., None], rng.normal(size=x.shape), x).astype(x.dtype)


def differ(x: np.ndarray, y: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
    """Where two arrays are not the same, up to tolerance · (1 + |x|); NaN is the same as NaN."""
    return ~np.isclose(y, x, rtol=tolerance, atol=tolerance, equal_nan=True)


def how_much(x: np.ndarray, y: np.ndarray, where: np.ndarray) -> float:
    """The largest |x − y| in these places."""
    return float(np.abs(x[where].astype(float) - y[where]).max())


def check_rows(ids: np.ndarray, outputs: np.ndarray) -> None:
    """Raise BehaviourError unless there are outputs for each sequence."""
    if outputs.shape[:1] != ids.shape[:1]:
        guess = EXCHANGED if outputs.shape[:1] == ids.shape[1:] else ""
        raise BehaviourError(
            f"tokens {ids.shape} gave outputs {outputs.shape}, expected ({len(ids)}, …)" + guess
        )


def refuse_nan(outputs: np.ndarray) -> None:
    """Raise BehaviourError naming the first NaN."""
    if np.isnan(outputs).any():
        raise BehaviourError(f"the output at {first(np.isnan(outputs))} is NaN")
