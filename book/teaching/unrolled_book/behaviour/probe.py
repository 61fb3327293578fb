"""What the checks share: their error, one view of all arrays, and calls of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from unrolled.models.autograd import Tensor

EXCHANGED = ": are the two axes exchanged, does the module want (T, B, D)?"


class BehaviourError(AssertionError):
    """A model, a data set or a gradient is wrong; the message says where."""


def first(mask: np.ndarray) -> tuple[int, ...]:
    """The index of the first True."""
    return tuple(int(i) for i in np.argwhere(mask)[0])


def is_torch(a: Any) -> bool:
    """Whether a is torch's, without loading torch."""
    return hasattr(a, "detach")


def array(a: Any) -> np.ndarray:
    """a as a numpy array; bfloat16, which numpy does not have, becomes float32."""
    if isinstance(a, Tensor):
        return a.value
    if is_torch(a):
        a = a.detach().cpu()
        return (a.float() if str(a.dtype) == "torch.bfloat16" else a).numpy()
    return np.asarray(a)


def precision(a: Any) -> float:
    """The distance from 1 to the next number of a's dtype; integers count as float64."""
    if str(getattr(a, "dtype", "")) == "torch.bfloat16":
        return 2.0**-7
    dtype = array(a).dtype
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def maker(x: Any) -> Callable[[np.ndarray], Any]:
    """The function that turns a numpy array into an array of x's kind."""
    if isinstance(x, Tensor):
        return Tensor
    if is_torch(x):
        import torch

        return lambda a: torch.as_tensor(a, device=x.device)
    return lambda a: a


class Probe:
    """A model as a function of numpy arrays; it gets copies of the kind of `like`.

    tolerance: the square root of the precision of its last output's dtype.
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
        """The outputs. Raises BehaviourError if a second call gives others."""
        once, again = self(*arrays), self(*arrays)
        if once.shape != again.shape or differ(once, again).any():
            raise BehaviourError(
                "two calls on the same tokens differ: is dropout still on (model.eval()), or does "
                "a state go on from the call before?"
            )
        return once


def vocabulary(ids: np.ndarray) -> np.ndarray:
    """The ids that occur, sorted. Raises TypeError or ValueError for anything but (B, T) integers
    with two different ids."""
    if ids.dtype.kind not in "iu":
        raise TypeError(f"tokens need integers, got {ids.dtype}")
    if ids.ndim != 2 or ids.size == 0:
        raise ValueError(f"tokens need shape (B, T), none of them 0, got {ids.shape}")
    if len(words := np.unique(ids)) < 2:
        raise ValueError(f"all tokens are {words[0]}: there is no other id to replace them by")
    return words


def replaced(ids: np.ndarray, where: np.ndarray, words: np.ndarray) -> Iterator[np.ndarray]:
    """ids (B, T) with another word where `where` is True, in up to three ways."""
    rank = np.searchsorted(words, ids)
    for shift in sorted({1, len(words) // 2, len(words) - 1}):
        yield np.where(where, words[(rank + shift) % len(words)], ids).astype(ids.dtype)


def changed(x: np.ndarray, where: np.ndarray) -> Iterator[np.ndarray]:
    """x with other entries where `where` is True, in up to three ways.

    Tokens (B, T) become other ids that occur (see `vocabulary`), vectors (…, D) draws from N(0, 1).
    `where` has the shape of x, for vectors without the axis D.
    """
    if x.dtype.kind != "f":
        yield from replaced(x, where, vocabulary(x))
        return
    rng = np.random.default_rng(0)
    for _ in range(3):
        yield np.where(where[..., None], rng.normal(size=x.shape), x).astype(x.dtype)


def differ(x: np.ndarray, y: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
    """Where two arrays differ by more than tolerance · (1 + |x|); NaN equals NaN."""
    return ~np.isclose(y, x, rtol=tolerance, atol=tolerance, equal_nan=True)


def how_much(x: np.ndarray, y: np.ndarray, where: np.ndarray) -> float:
    """The largest |x − y| there."""
    return float(np.abs(x[where].astype(float) - y[where]).max())


def check_rows(ids: np.ndarray, outputs: np.ndarray) -> None:
    """Raise BehaviourError unless each sequence has an output."""
    if outputs.shape[:1] != ids.shape[:1]:
        guess = EXCHANGED if outputs.shape[:1] == ids.shape[1:] else ""
        raise BehaviourError(
            f"tokens {ids.shape} gave outputs {outputs.shape}, expected ({len(ids)}, …)" + guess
        )


def refuse_nan(outputs: np.ndarray) -> None:
    """Raise BehaviourError with the index of the first NaN."""
    if np.isnan(outputs).any():
        raise BehaviourError(f"the output at {first(np.isnan(outputs))} is NaN")


def guess(mistakes: dict[str, Any], fits: Callable[[Any], Any]) -> str:
    """A sentence with the first mistake whose result fits, to end a message; or nothing."""
    return next((f". It looks as if {mistake}" for mistake, x in mistakes.items() if fits(x)), "")
