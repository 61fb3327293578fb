"""Checks of arrays: log-probabilities, targets, a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from unrolled.models.gradcheck import gradcheck

from unrolled_book.behaviour.arrays import BehaviourError, array, first, maker, precision


def check_distribution(log_probs: Any, *, tolerance: float | None = None) -> None:
    """Check that every row of log-probabilities, shape (…, V) in nats, is a distribution.

    Each row along the last axis must hold no NaN and satisfy |Σ_v exp(log p_v) − 1| ≤ tolerance;
    −∞ (probability 0) is allowed. The default tolerance is the square root of the dtype's
    precision: 1.5e-8 in float64, 3.5e-4 in float32, 0.09 in bfloat16.

    Raises BehaviourError with the first bad row and its sum, and a guess (probabilities without a
    log, a softmax over another axis); ValueError if there is no row or no column.
    """
    values = array(log_probs)
    if values.ndim == 0 or values.size == 0:
        raise ValueError(f"log_probs need shape (…, V) and at least one entry, got {values.shape}")
    if tolerance is None:
        tolerance = precision(log_probs) ** 0.5
    values = values.astype(np.float64)
    if np.isnan(values).any():
        row = first(np.isnan(values).any(axis=-1))
        raise BehaviourError(f"row {row} of the log-probabilities holds NaN")
    with np.errstate(over="ignore"):
        probs = np.exp(values)
    off = _is_off(probs.sum(axis=-1), tolerance)
    if off.any():
        row = first(off)
        total = probs.sum(axis=-1)[row]
        raise BehaviourError(
            f"the probabilities of row {row} sum to {total:.6g}, not to 1 "
            f"({off.sum()} of {off.size} rows are off by more than {tolerance:.1e})"
            + _why_not_a_distribution(values, probs, tolerance)
        )


def _is_off(sums: np.ndarray, tolerance: float) -> np.ndarray:
    return ~(np.abs(sums - 1) <= tolerance)


def _why_not_a_distribution(values: np.ndarray, probs: np.ndarray, tolerance: float) -> str:
    if (values >= 0).all() and not _is_off(values.sum(axis=-1), tolerance).any():
        return ". These rows sum to 1 as they stand: probabilities where logs are expected?"
    for axis in range(values.ndim - 1):
        if not _is_off(probs.sum(axis=axis), tolerance).any():
            return f". The sums over axis {axis} are 1: a softmax over the wrong axis?"
    return ""


def check_shift(inputs: Any, targets: Any, *, pad: int | None = None) -> None:
    """Check that targets are the inputs' next tokens: targets[…, i] = inputs[…, i + 1].

    inputs, targets: integer tokens of one shape (T,) or (B, T), T ≥ 2: the text without its last
                     token and without its first. The last target is in no input: not checked.
    pad: the padding's id; a target whose next input is pad is not checked either.

    Raises BehaviourError with the first position that differs; it says when the targets are the
    inputs themselves (the model would see the answer) or the previous tokens.
    """
    inputs, targets = array(inputs), array(targets)
    if inputs.shape != targets.shape:
        raise BehaviourError(f"inputs have shape {inputs.shape}, targets {targets.shape}")
    if inputs.ndim not in (1, 2) or inputs.shape[-1] < 2:
        raise ValueError(f"tokens need shape (T,) or (B, T) with T ≥ 2, got {inputs.shape}")
    wrong = targets[..., :-1] != inputs[..., 1:]
    if pad is not None:
        wrong &= inputs[..., 1:] != pad
    if not wrong.any():
        return
    if (targets == inputs).all():
        raise BehaviourError("the targets are the inputs: every answer stands in the question")
    if (targets[..., 1:] == inputs[..., :-1]).all():
        raise BehaviourError("the targets are the previous tokens, one position behind the inputs")
    at = first(wrong)
    after = (*at[:-1], at[-1] + 1)
    raise BehaviourError(
        f"the target at {at} is {targets[at]}, but the next input, at {after}, is {inputs[after]}"
    )


def check_gradient(
    f: Callable[[Any], Any], x: Any, grad: Any, *, eps: float = 1e-6, tolerance: float = 1e-6
) -> None:
    """Check that grad is ∂f/∂x: first its shape, then every entry against finite differences.

    f: a function of an array of x's kind. It returns a number, shape (), else ValueError; None
       raises TypeError.
    x: float64 of any shape (numpy, torch or the Tensor of `models.autograd`); another dtype raises
       TypeError.
    grad: the gradient to check, real, in exactly x's shape: broadcasting would hide a (3, 1) for a
          (3,). eps, tolerance: see `unrolled.models.gradcheck`.

    Raises BehaviourError with both shapes, or with the worst entry and its expected value and a
    guess (a wrong sign, a constant factor, a transpose).
    """
    if grad is None:
        raise BehaviourError("there is no gradient (None): has backward been called?")
    point, gradient, make = array(x), array(grad), maker(x)
    if gradient.shape != point.shape:
        raise BehaviourError(
            f"the gradient has shape {gradient.shape}, but x has shape {point.shape}: a gradient "
            "has the shape of what it belongs to; has something been broadcast?"
        )
    value = f(make(point.copy()))
    if value is None:
        raise TypeError("f(x) is None: is a `return` missing?")
    if (shape := array(value).shape) != ():
        raise ValueError(f"a gradient belongs to a number, but f(x) has shape {shape}")
    report = gradcheck(lambda a: array(f(make(a))), point, gradient, eps=eps, tolerance=tolerance)
    if not report:
        raise BehaviourError(
            f"the gradient at {report.index} is {report.got:.6g}, finite differences give "
            f"{report.expected:.6g}" + _why_not_the_gradient(gradient, report.numerical)
        )


def _why_not_the_gradient(gradient: np.ndarray, expected: np.ndarray) -> str:
    def same(a: np.ndarray, b: np.ndarray) -> bool:
        return bool(np.allclose(a, b, rtol=1e-5, atol=1e-6 * np.abs(expected).max()))

    if not np.isfinite(gradient).all() or not expected.any():
        return ""
    factor = (gradient * expected).sum() / (expected**2).sum()
    if same(gradient, -expected):
        return ". Every entry has the opposite sign"
    if same(gradient, factor * expected):
        return f". Every entry is {factor:.6g} times what it should be"
    if gradient.ndim == 2 and gradient.shape == gradient.T.shape and same(gradient.T, expected):
        return ". Its transpose would be right"
    return ""
