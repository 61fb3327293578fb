"""The check of a hidden layer: units that say nothing, and units that say the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from unrolled.teaching.behaviour.arrays import BehaviourError, array, first, precision


def check_units(hidden: Any, *, tolerance: float | None = None) -> None:
    """Check that every hidden unit answers to the input, and no two of them in the same way.

    A unit that gives one number for all inputs is of no more use than a bias; a ReLU that gives 0
    for all of them has no gradient and stays as it is. Two units with one answer are one unit: if
    the weights into them and out of them are equal, their gradients are equal too.

    hidden: floats (N, H), the outputs of H units for N ≥ 2 different inputs, no NaN. Numbers x and
            y are equal where |x − y| ≤ tolerance · (1 + |x|); the default is the square root of the
            dtype's precision.

    Raises BehaviourError with the first unit that is constant and how many are, or with the first
    two that are equal and how many different units there are.
    """
    values = array(hidden)
    if values.dtype.kind != "f":
        raise TypeError(f"hidden needs floats, got {values.dtype}")
    if values.ndim != 2 or values.shape[0] < 2 or values.shape[1] < 1:
        raise ValueError(f"hidden needs shape (N, H) with N ≥ 2 and H ≥ 1, got {values.shape}")
    if np.isnan(values).any():
        raise BehaviourError(f"unit {first(np.isnan(values).any(axis=0))[0]} holds NaN")
    tolerance = precision(hidden) ** 0.5 if tolerance is None else tolerance
    values = values.astype(np.float64)
    n, still = values.shape[1], _equal(values, values[:1], tolerance)
    if still.any():
        unit = first(still)[0]
        raise BehaviourError(
            f"unit {unit} gives {values[0, unit]:.3g} for all {len(values)} inputs "
            f"({still.sum()} of {n} units are constant)" + _why_constant(values[:, still])
        )
    twins = np.array([_equal(values, values[:, [h]], tolerance) for h in range(n)])  # (H, H)
    np.fill_diagonal(twins, False)
    if twins.any():
        a, b = first(twins)
        different = n - np.triu(twins).any(axis=0).sum()
        raise BehaviourError(
            f"units {a} and {b} give the same for all {len(values)} inputs: {n} units do the work "
            f"of {different}. Did their weights start equal?"
        )


def _equal(values: np.ndarray, others: np.ndarray, tolerance: float) -> np.ndarray:
    """(H,): which columns are equal to the others in every row."""
    return (np.abs(values - others) <= tolerance * (1 + np.abs(values))).all(axis=0)


def _why_constant(still: np.ndarray) -> str:
    if not still.any():
        return ". Dead ReLUs? Then no gradient reaches their weights"
    if np.isin(np.abs(still).round(3), (0, 1)).all():
        return ". Saturated? Then almost no gradient reaches their weights"
    return ". Are their weights all zero?"
