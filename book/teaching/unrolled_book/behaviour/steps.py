"""A check of small steps: a training must not lose them to rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from unrolled.validate import real, whole

from unrolled_book.behaviour.probe import BehaviourError, array

Walk = Callable[[float, int], Any]
ROUNDED = ". Are steps rounded away? Then keep a copy of the weights in float32"


def check_small_steps(
    walk: Walk, *, rate: float = 0.125, n_steps: int = 1000, tolerance: float = 0.1
) -> None:
    """Check that many small steps lead as far as a large one.

    With a gradient that stays the same, n steps at rate / n end where one step at the whole rate
    does. Weights that are kept in few bits do not: a step below half the distance to the next
    number is rounded away, and one above it is rounded up. The check compares both ends, for 10,
    100, … steps up to n_steps. No loss tells it as long as the rate is large.

    walk: (rate, n) to the weights, an array of any shape, after n steps from the same start. The
          optimiser's step is proportional to the rate (gradient descent or Adam, no weight decay),
          and the gradient is the same in every step, for every call.
    rate: of the one large step, above 0. n_steps: at least 10.
    tolerance: |end − expected| / |way|, at most so much, above 0.

    Raises BehaviourError with the first number of steps that ends elsewhere, the share of the way
    and how many weights stayed where they began; ValueError or TypeError for walks that the check
    cannot use: another shape at the end, numbers that are not finite, a large step that moves
    nothing, or no steps that move something.
    """
    real("rate", rate, above=0)
    real("tolerance", tolerance, above=0)
    whole("n_steps", n_steps, 10)
    start, once = _weights(walk(rate, 0)), _weights(walk(rate, 1))
    if start.shape != once.shape:
        raise ValueError(
            f"the weights have shape {start.shape} first and {once.shape} after a step"
        )
    if not np.array_equal(start, _weights(walk(rate, 0))):
        raise ValueError("two walks of no steps end in different weights: start from the same ones")
    way = once - start
    if not np.linalg.norm(way) > 0:
        raise ValueError(f"one step at rate {rate:g} moves no weight: the check compares with it")
    for n in _numbers(n_steps):
        gone = _weights(walk(rate / n, n)) - start
        if np.linalg.norm(gone - way) > tolerance * np.linalg.norm(way):
            share = 100 * (gone * way).sum() / (way**2).sum()
            still = np.count_nonzero((gone == 0) & (way != 0))
            raise BehaviourError(
                f"{n:,} steps at rate {rate / n:.3g} go {share:.2g} % of the way of one step at "
                f"{rate:g}, and {still:,} of {np.count_nonzero(way):,} weights stay where they "
                f"were{ROUNDED if still else ''}"
            )


def _weights(found: Any) -> np.ndarray:
    weights = array(found)
    if weights.dtype.kind != "f":
        raise TypeError(f"walk needs to give floats, got {weights.dtype}")
    if not weights.size or not np.isfinite(weights).all():
        raise ValueError(f"walk gives {weights.size} weights, of which not all are finite")
    return weights.astype(np.float64)


def _numbers(n_steps: int) -> list[int]:
    tens = [10**k for k in range(1, len(str(n_steps)))]
    return [*tens, n_steps] if n_steps not in tens else tens
