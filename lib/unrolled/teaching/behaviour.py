"""Checks of behaviour: what a language model must do whatever is inside it.

A check returns nothing when all is well and raises BehaviourError, an AssertionError, whose message
names the first place and, where it can, the famous mistake. Called with something it cannot judge
(a wrong rank, too few positions) it raises ValueError or TypeError instead. Arrays may be numpy's
or torch's throughout; check_gradient takes the engine's Tensor as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unrolled.models.autograd import Tensor
from unrolled.models.gradcheck import gradcheck


class BehaviourError(AssertionError):
    """A model, a data set or a gradient does not behave as it must; the message says where."""


def check_distribution(log_probs: Any, *, tolerance: float | None = None) -> None:
    """Check that every row of log-probabilities, shape (…, V) in nats, is a distribution.

    Each row along the last axis must hold no NaN and satisfy |Σ_v exp(log p_v) − 1| ≤ tolerance;
    −∞ (probability 0) is allowed. tolerance defaults to the square root of the dtype's precision:
    1.5e-8 in float64, 3.5e-4 in float32, 0.09 in bfloat16.

    Raises BehaviourError naming the first bad row and its sum, and guessing at probabilities
    without a log or a softmax over another axis; ValueError if there is no row or no column.
    """
    values = _array(log_probs)
    if values.ndim == 0 or values.size == 0:
        raise ValueError(f"log_probs need shape (…, V) and at least one entry, got {values.shape}")
    if tolerance is None:
        tolerance = _precision(log_probs) ** 0.5
    values = values.astype(np.float64)
    if np.isnan(values).any():
        row = _first(np.isnan(values).any(axis=-1))
        raise BehaviourError(f"row {row} of the log-probabilities holds NaN")
    with np.errstate(over="ignore"):
        probs = np.exp(values)
    off = _is_off(probs.sum(axis=-1), tolerance)
    if off.any():
        row = _first(off)
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
                     token and without its first. The last target stands in no input: not checked.
    pad: an id that only fills up; a target whose next input is pad is not checked either.

    Raises BehaviourError at the first position that differs, saying so when the targets are the
    inputs themselves (the model would see its answer) or lag one behind (it would tell the past).
    """
    inputs, targets = _array(inputs), _array(targets)
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
        raise BehaviourError("the targets lag one behind the inputs: they ask for the past")
    at = _first(wrong)
    after = (*at[:-1], at[-1] + 1)
    raise BehaviourError(
        f"the target at {at} is {targets[at]}, but the next input, at {after}, is {inputs[after]}"
    )


def check_causal(model: Callable[[Any], Any], tokens: Any) -> None:
    """Check that the output at position i depends on the tokens 0 … i only, bit for bit.

    The output at i predicts token i + 1. Each token t ≥ 1 is changed in turn to up to three other
    ids, in all sequences at once; outputs at positions before t must not change in a single bit.

    model: tokens (B, T) → outputs (B, T, V), V being the vocabulary. It is called up to 3T − 1
           times on inputs of one shape, so no change of batch shape can change the rounding.
    tokens: integers (B, T), T ≥ 2, ids below V; left unchanged.

    Raises BehaviourError naming the first position that leaks and the token it reads; also when
    outputs have another shape, hold NaN, or differ between two calls on the same tokens.
    """
    ids = _array(tokens)
    if ids.ndim != 2 or ids.shape[0] < 1 or ids.shape[1] < 2:
        raise ValueError(f"tokens need shape (B, T) with T ≥ 2, got {ids.shape}")
    before, make = _outputs(model, tokens), _maker(tokens)
    vocab_size = before.shape[-1]
    if vocab_size < 2:
        raise ValueError(f"outputs of shape {before.shape}: with one word nothing can be changed")
    if (before != _outputs(model, tokens)).any():
        raise BehaviourError(
            "two calls on the same tokens differ: is dropout still on (model.eval())?"
        )
    reads = {}  # position: the first later token that it reads
    for t in range(1, ids.shape[1]):
        column = ids[:, t].astype(np.int64)  # uint8 would wrap around at 256
        for shift in sorted({1, vocab_size // 2, vocab_size - 1}):
            changed = _copy(tokens)
            changed[:, t] = make((column + shift) % vocab_size)
            leaks = (before != _outputs(model, changed)).any(axis=(0, 2))[:t]  # (t,)
            for position in np.flatnonzero(leaks):
                reads.setdefault(int(position), t)
    if reads:
        first = min(reads)
        raise BehaviourError(
            f"the output at position {first} changes with token {reads[first]}; "
            f"it predicts token {first + 1} and may read tokens 0 to {first} only"
        )


def check_gradient(
    f: Callable[[Any], Any], x: Any, grad: Any, *, eps: float = 1e-6, tolerance: float = 1e-6
) -> None:
    """Check that grad is ∂f/∂x: first its shape, then every entry against finite differences.

    f: takes x's kind of array, returns a number: shape (), else ValueError; None raises TypeError.
    x: float64 of any shape (numpy, torch or the engine's Tensor); another dtype raises TypeError.
    grad: the gradient to check, real, in exactly x's shape: (3, 1) for a (3,) is a mistake that
          broadcasting would hide. eps and tolerance are those of `unrolled.models.gradcheck`.

    Raises BehaviourError naming both shapes, or the worst entry, what it is and what it should be,
    and guessing at a wrong sign, a constant factor or a transpose.
    """
    if grad is None:
        raise BehaviourError("there is no gradient (None): has backward been called?")
    point, gradient, make = _array(x), _array(grad), _maker(x)
    if gradient.shape != point.shape:
        raise BehaviourError(
            f"the gradient has shape {gradient.shape}, but x has shape {point.shape}: a gradient "
            "has the shape of what it belongs to; has something been broadcast?"
        )
    value = f(make(point.copy()))
    if value is None:
        raise TypeError("f(x) is None: is a `return` missing?")
    if (shape := _array(value).shape) != ():
        raise ValueError(f"a gradient belongs to a number, but f(x) has shape {shape}")
    report = gradcheck(lambda a: _array(f(make(a))), point, gradient, eps=eps, tolerance=tolerance)
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
        return ". Every sign is turned"
    if same(gradient, factor * expected):
        return f". Every entry is {factor:.6g} times what it should be"
    if gradient.ndim == 2 and gradient.shape == gradient.T.shape and same(gradient.T, expected):
        return ". Its transpose would be right"
    return ""


def _outputs(model: Callable[[Any], Any], tokens: Any) -> np.ndarray:
    """model(tokens) as a numpy array of our own, (B, T, V), or BehaviourError."""
    outputs = np.array(_array(model(_copy(tokens))))
    if outputs.ndim != 3 or outputs.shape[:2] != tuple(tokens.shape):
        raise BehaviourError(
            f"tokens {tuple(tokens.shape)} gave outputs {outputs.shape}, expected (B, T, V)"
        )
    if np.isnan(outputs).any():
        raise BehaviourError(f"the output at {_first(np.isnan(outputs))} is NaN")
    return outputs


def _first(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])


def _is_torch(a: Any) -> bool:
    return hasattr(a, "detach")


def _array(a: Any) -> np.ndarray:
    """What a holds, as a numpy array; numpy knows no bfloat16, so that becomes float32."""
    if isinstance(a, Tensor):
        return a.value
    if _is_torch(a):
        a = a.detach().cpu()
        return (a.float() if str(a.dtype) == "torch.bfloat16" else a).numpy()
    return np.asarray(a)


def _precision(a: Any) -> float:
    """The distance from 1 to the next number of a's dtype; what is no float counts as float64."""
    if str(getattr(a, "dtype", "")) == "torch.bfloat16":
        return 2.0**-7
    dtype = _array(a).dtype
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def _copy(tokens: Any) -> Any:
    return tokens.clone() if _is_torch(tokens) else np.array(tokens)


def _maker(x: Any) -> Callable[[np.ndarray], Any]:
    """The function that turns a numpy array into x's kind."""
    if isinstance(x, Tensor):
        return Tensor
    if _is_torch(x):
        import torch

        return lambda a: torch.as_tensor(a, device=x.device)
    return lambda a: a
