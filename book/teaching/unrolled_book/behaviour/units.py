"""The check of a hidden layer: units that say nothing, and units that say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from unrolled.validate import real

from unrolled_book.behaviour.arrays import BehaviourError, array, first, precision


def check_units(hidden: Any, *, dead: float = 0.0, tolerance: float | None = None) -> None:
    """Check that every hidden unit answers to the input, and no two of them in the same way.

    A unit that gives one number for all inputs is of no more use than a bias; a ReLU that gives 0
    for all of them has no gradient and stays as it is. Two units with one answer are one unit: if
    the weights into them and out of them are equal, their gradients are equal too. (A unit that
    gives −h or 2h beside h adds nothing either; that is not looked for.)

    hidden: floats (N, H), the outputs of H units for N ≥ 2 different inputs, all finite. Of few
            inputs or coarse numbers (half precision) two units may be equal by chance.
    dead: the share of the units, from 0 to 1, that may give 0 for all inputs. In a deep stack of
            ReLUs a few are normal.
    tolerance: numbers x and y are equal where |x − y| ≤ tolerance · (size + |x|), with the size of
            the layer's usual unit; the default is the square root of the dtype's precision.

    Raises BehaviourError with the first unit that is constant and how many are, or with the first
    two that are equal and how many different units there are.
    """
    values = array(hidden)
    if values.dtype.kind != "f":
        raise TypeError(f"hidden needs floats, got {values.dtype}")
    if values.ndim != 2 or values.shape[0] < 2 or values.shape[1] < 1:
        raise ValueError(f"hidden needs shape (N, H) with N ≥ 2 and H ≥ 1, got {values.shape}")
    real("dead", dead, at_least=0, at_most=1)
    if not np.isfinite(values).all():
        row, unit = first(~np.isfinite(values))
        raise BehaviourError(f"unit {unit} holds {'NaN' if np.isnan(values[row, unit]) else 'inf'}")
    tolerance = precision(hidden) ** 0.5 if tolerance is None else tolerance
    values = values.astype(np.float64)
    n, size, alive = values.shape[1], _size(values), values.any(axis=0)
    numbers = np.flatnonzero(alive | (n - alive.sum() > dead * n))  # of the units that are judged
    values = values[:, numbers]
    still = _equal(values, values[:1], tolerance, size)
    if still.any():
        unit = first(still)[0]
        raise BehaviourError(
            f"unit {numbers[unit]} gives {values[0, unit]:.3g} for all {len(values)} inputs "
            f"({still.sum()} of {n} units are constant)" + _why_constant(values[0, unit], size)
        )
    pair, n_different = _twins(values, tolerance, size)
    if pair:
        a, b = numbers[list(pair)]
        raise BehaviourError(
            f"units {a} and {b} give the same for all {len(values)} inputs: {len(numbers)} units "
            f"do the work of {n_different}. Did their weights start equal?"
        )


def _size(values: np.ndarray) -> float:
    """The median, over the units that are not 0, of the root of their mean square."""
    sizes = np.sqrt(np.square(values).mean(axis=0))
    return float(np.median(sizes[sizes > 0])) if sizes.any() else 0.0


def _equal(values: np.ndarray, others: np.ndarray, tolerance: float, size: float) -> np.ndarray:
    """(H,): which columns are equal to the others in every row."""
    return (np.abs(values - others) <= tolerance * (size + np.abs(others))).all(axis=0)


def _twins(values: np.ndarray, tolerance: float, size: float) -> tuple[tuple[int, int] | None, int]:
    """The first two equal columns, and how many different ones there are.

    Equal columns have nearly equal means, so each is compared with its neighbours by mean only.
    """
    means, near = values.mean(axis=0), 1.01 * tolerance * (size + np.abs(values).mean(axis=0))
    order = np.argsort(means, kind="stable")
    low = np.searchsorted(means[order], means - near)
    high = np.searchsorted(means[order], means + near, side="right")
    pair, repeated = None, 0
    for unit in range(values.shape[1]):
        others = order[low[unit] : high[unit]]
        others = others[others != unit]
        equal = others[_equal(values[:, others], values[:, [unit]], tolerance, size)]
        if equal.size:
            pair = pair or (unit, int(equal.min()))
            repeated += bool(equal.min() < unit)
    return pair, values.shape[1] - repeated


def _why_constant(value: float, size: float) -> str:
    if value == 0:
        return ". Dead ReLUs? Then no gradient reaches their weights"
    if abs(abs(value) - 1) < 1e-3 or abs(value) < 1e-3 * size:
        return ". Saturated? Then almost no gradient reaches their weights"
    return ". Are their weights all zero?"
