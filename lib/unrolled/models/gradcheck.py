"""Finite differences: the derivative by its definition, against which every other is checked.

A central difference, (f(x + εe) − f(x − εe)) / 2ε, is off by about ε²|f‴|/6 (what the Taylor series
drops) and by about 10⁻¹⁶|f|/ε (rounding). With ε = 1e-6 and values near 1 that is about 1e-10.
Chapter 7b derives both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from unrolled.validate import array, checked, real


@dataclass(frozen=True)
class Report:
    """What `gradcheck` found at the worst entry of a gradient; true where even that one agrees.

    got, expected: the given and the numerical derivative at index. numerical: all numerical
    derivatives, in the shape of the gradient.
    """

    agrees: bool
    index: tuple[int, ...]
    got: float
    expected: float
    numerical: np.ndarray = field(repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.agrees


@checked
def numerical_jacobian(
    f: Callable[[np.ndarray], np.ndarray | float], x: ArrayLike, eps: float = 1e-6
) -> np.ndarray:
    """Jacobian of f at x by central differences: J[o, i] = (f(x + εeᵢ)[o] − f(x − εeᵢ)[o]) / 2ε.

    f: takes a copy of x, returns a number or an array of shape `out`; called 1 + 2·x.size times.
    x: float64 array of shape `in`; a step of 1e-6 is lost on integers and in float32's rounding.
    eps: step ε > 0. At a kink (relu at 0) the difference straddles both slopes.
    Returns a float64 array of shape (*out, *in). Raises TypeError for another dtype of x and for
    None or complex numbers from f, ValueError for a step that is lost in the rounding of x.
    """
    x = np.asarray(x)
    if x.dtype != np.float64:
        raise TypeError(f"finite differences need a float64 array, got {x.dtype}")
    real("eps", eps, above=0)
    jacobian = np.empty((*_real(f(x.copy()), "f(x)").shape, *x.shape))
    for index in np.ndindex(x.shape):
        above, below = x.copy(), x.copy()
        above[index] += eps
        below[index] -= eps
        step = above[index] - below[index]  # 2ε as it really came out after rounding
        if not step > 0:
            raise ValueError(f"x is {x[index]:g} at {index}: a step of {eps:g} is lost in rounding")
        jacobian[(..., *index)] = (_real(f(above), "f(x)") - _real(f(below), "f(x)")) / step
    return jacobian


@checked
def gradcheck(
    f: Callable[[np.ndarray], np.ndarray | float],
    x: ArrayLike,
    grad: ArrayLike,
    *,
    eps: float = 1e-6,
    tolerance: float = 1e-6,
) -> Report:
    """Compare a derivative of f at x with finite differences and report the worst entry.

    f, x, eps: as for `numerical_jacobian`. grad: the derivative to check, of shape (*out, *in):
    x's own shape when f returns a number. tolerance: relative to the larger of the two values, for
    each entry by itself. The differences' own rounding noise, 100 · 2.2e-16 · max(1, |f|) / ε, is
    allowed besides, so an entry below about 2e-8 cannot be told from zero. NaN never agrees.
    Raises ValueError for another shape of grad or an empty one.
    """
    real("tolerance", tolerance, at_least=0)
    numerical = numerical_jacobian(f, x, eps)
    grad = _real(grad, "the derivative")
    if grad.shape != numerical.shape:
        raise ValueError(f"the derivative has shape {grad.shape}, expected {numerical.shape}")
    if grad.size == 0:
        raise ValueError(f"nothing to check: the derivative has shape {grad.shape}")
    size = max(1.0, np.abs(_real(f(np.array(x)), "f(x)")).max())
    noise = 100 * np.finfo(np.float64).eps * size / eps
    with np.errstate(invalid="ignore"):  # inf − inf and NaN count as the worst of all, below
        allowed = tolerance * np.maximum(np.abs(grad), np.abs(numerical)) + noise
        badness = np.abs(grad - numerical) / allowed
    badness = np.where(np.isnan(badness) | ~np.isfinite(noise), np.inf, badness)
    index = tuple(int(i) for i in np.unravel_index(badness.argmax(), badness.shape))
    agrees = bool(badness[index] <= 1)
    return Report(agrees, index, float(grad[index]), float(numerical[index]), numerical)


def _real(values: np.ndarray | float, what: str) -> np.ndarray:
    """A float64 copy, since f may return one buffer again and again."""
    if values is None:
        raise TypeError(f"{what} is None: is a `return` missing?")
    if np.iscomplexobj(values):
        raise TypeError(f"{what} must hold real numbers, got complex ones")
    return np.array(array(what, values))
