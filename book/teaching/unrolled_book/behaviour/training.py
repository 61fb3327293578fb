"""Checks of a network as it begins and learns: its loss, units, experts and gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from unrolled.models.gradcheck import gradcheck
from unrolled.validate import real, whole

from unrolled_book.behaviour.probe import BehaviourError, array, first, maker, precision


def check_initial_loss(logits: Any, targets: Any, *, tolerance: float = 0.1) -> None:
    """Check that an untrained model's mean loss is ln V nats, what an even guess among V costs.

    The mean loss may differ from ln V by `tolerance` · ln V, and by three of its standard errors
    more (at most the same again), because a few targets may happen to be the likely ones. Above
    that, the model is sure before it has seen anything, and the first steps of training only undo
    that. Below it, the model knows targets that it cannot know yet.

    logits: floats (…, V), V ≥ 2, of a model as it starts: scores or log-probabilities. −∞ (a masked
    answer) may stand where no target is.
    targets: integers (…), the right answers, at least one, in 0 … V − 1.
    tolerance: at least 0.

    Raises BehaviourError with both losses and a guess at the mistake; ValueError or TypeError for
    shapes, types and targets that cannot be.
    """
    scores, right = array(logits), array(targets)
    if scores.dtype.kind != "f" or right.dtype.kind not in "iu":
        raise TypeError(f"expected float logits and integer targets, got {scores.dtype} and "
                        f"{right.dtype}")  # fmt: skip
    if scores.ndim < 1 or scores.shape[:-1] != right.shape or right.size == 0:
        raise ValueError(f"logits need shape (…, V) and targets (…), got {scores.shape} and "
                         f"{right.shape}")  # fmt: skip
    n = scores.shape[-1]
    if n < 2 or right.min() < 0 or right.max() >= n:
        raise ValueError(f"targets lie in {right.min()} … {right.max()}, and there are {n} logits")
    if not 0 <= tolerance < math.inf:
        raise ValueError(f"tolerance must be at least 0 and finite, got {tolerance}")
    scores = scores.astype(np.float64).reshape(-1, n)
    chosen = scores[np.arange(len(scores)), right.ravel()]
    if not np.isfinite(chosen).all() or np.isnan(scores).any() or np.isposinf(scores).any():
        raise BehaviourError("the logits hold NaN or an infinite number before the first step")
    shifted = scores - scores.max(axis=1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    losses = -log_probs[np.arange(len(scores)), right.ravel()]
    loss, even = losses.mean(), math.log(n)
    slack = tolerance * even
    chance = 3 * losses.std(ddof=1) / math.sqrt(len(losses)) if len(losses) > 1 else 0.0
    if abs(loss - even) <= slack + min(chance, slack):
        return
    found = f"the loss before training is {loss:.3g} nats, an even guess costs ln {n} = {even:.3g}"
    if loss < even:
        raise BehaviourError(f"{found}. Does the model see its targets, or is it trained?")
    spread = np.mean([row[np.isfinite(row)].std() for row in scores])
    raise BehaviourError(
        f"{found}. The logits of an example spread by {spread:.3g}: are the weights into them "
        "too large?"
    )


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


def check_experts(experts: Any, n_experts: int, *, share: float = 0.1) -> None:
    """Check that each of E experts gets at least `share` of what an even router gives it.

    An even router gives each 1/E of the N·k choices. The loss of a model does not tell: it also
    falls while a few experts do the work of all, and the others' weights stay as they began.
    Experts that starve are looked for, not one that is too busy while the others get their share.

    experts: integers (N, k), the k different experts of each of N tokens; those of one layer, since
             two layers that lean to opposite sides look even together. There must be enough choices
             for an even router to pass: N·k·share/E ≥ 3.
    n_experts: E, at least 2. share: above 0, at most 1.

    Raises BehaviourError with the expert that is chosen least, how many are below the share, and
    how many experts the load amounts to (e to the power of its entropy); ValueError or TypeError
    for choices that cannot be.
    """
    chosen, n = array(experts), whole("n_experts", n_experts, 2)
    real("share", share, above=0, at_most=1)
    if chosen.dtype.kind not in "iu":
        raise TypeError(f"experts needs integers, got {chosen.dtype}")
    if chosen.ndim != 2 or not chosen.size:
        raise ValueError(f"experts needs shape (N, k), none of them 0, got {chosen.shape}")
    if chosen.min() < 0 or chosen.max() >= n:
        raise ValueError(f"experts lie in {chosen.min()} … {chosen.max()}, and there are {n}")
    if (np.diff(np.sort(chosen, axis=1), axis=1) == 0).any():
        raise ValueError("a token takes one expert twice; its k choices must differ")
    if chosen.size * share / n < 3:
        needed = math.ceil(3 * n / share)
        raise ValueError(f"{chosen.size} choices are too few to judge {n} experts: take {needed}")
    load = np.bincount(chosen.ravel(), minlength=n) / chosen.size
    low = load < share / n
    if low.any():
        least, used = int(load.argmin()), load[load > 0]
        worth = math.exp(-(used * np.log(used)).sum())
        raise BehaviourError(
            f"expert {least} gets {100 * load[least]:.2g} % of the choices, an even router gives "
            f"each {100 / n:.3g} %: {low.sum()} of {n} experts get less than {share:.2g} of that, "
            f"and the load is worth {worth:.2g} experts. Is the balance loss missing, or does no "
            "gradient flow through it?"
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
