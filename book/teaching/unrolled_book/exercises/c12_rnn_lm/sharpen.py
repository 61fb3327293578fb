r"""A temperature that goes down to zero

Write `sharpen(logits, temperature)`: $\mathrm{softmax}(z / \tau)$ over the last axis of `logits`,
an array of shape (…, V).

It must hold for every $\tau \ge 0$. At $\tau = 0$ return the limit: the largest logit takes all,
and logits that are equally large share. A small $\tau$ must not overflow, and a logit of $-\infty$
has probability 0 at every temperature. At least one logit of each row is finite.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def sharpen(logits, temperature):
    """softmax(logits / temperature) over the last axis; at 0 its limit."""
    below = logits - logits.max(axis=-1, keepdims=True)  # ≤ 0
    at_zero = temperature == 0
    weights = 1.0 * (below == 0) if at_zero else np.exp(below / temperature)
    return weights / weights.sum(axis=-1, keepdims=True)


# %% explanation
explanation = r"""
Subtracting the row's maximum changes no softmax, and leaves only numbers that are at most zero.
Divided by a tiny $\tau$ they run towards $-\infty$, where the exponential is harmlessly 0. The
other order, divide and then subtract, computes $\infty - \infty$ once $z / \tau$ overflows.

The limit is not "one-hot at the argmax": if two logits are equal, their ratio is 1 at every
temperature, so it is 1 in the limit.
"""


# %% tests
def tests(rng):
    yield call(np.log(np.array([0.5, 0.25, 0.25])), 0.5, visible=True)
    yield call(rng.normal(size=(2, 3, 5)), 1.7, hint="the vocabulary is the last axis")
    yield call(rng.normal(size=(3, 3)), 0.6, hint="a square array: which axis is the last?")
    yield call(np.array([1.0, 3.0, 3.0, -2.0]), 0.0, hint="two logits are equally large")
    masked = rng.normal(size=(2, 7))
    masked[0, :3], masked[1, 5] = -np.inf, -np.inf
    yield call(masked, 0.9, hint="some logits are −∞")
    yield call(masked, 0.0, hint="some logits are −∞, at temperature 0")
    yield call(rng.normal(size=(2, 4)) + 9.0, 1e-3, hint="a small temperature")
    yield call(np.array([1.0, 1.0 + 1e-9, 0.0]), 0.0, hint="nearly equal is not equal")
    yield call(np.array([0.0, 1e-11]), 1e-11, hint="a tiny temperature is not 0")
    yield call(np.array([-np.inf, 0.0, 1.0]), 1e9, hint="a logit of −∞, at a high temperature")
    yield call(np.array([-8.0, -7.0]), 1e-310, hint="a temperature so small that 1/τ overflows")
    yield call(np.array([-9000.0, -9001.0]), 1.0, hint="logits far below 0")
    yield call(np.array([[0.0, 1.0], [-2000.0, -2001.0]]), 1.0, hint="rows lie far apart")


# %% oracle
def oracle(logits, temperature):
    """Row by row in decimal numbers; at 0 by a temperature so small that nothing else is left."""
    from decimal import Decimal

    temperature = Decimal(temperature) or Decimal("1e-400")
    out = np.zeros(logits.shape)
    for at in np.ndindex(logits.shape[:-1]):
        row = [Decimal(z) for z in logits[at].tolist()]
        top = max(row)
        weights = [((z - top) / temperature).exp() for z in row]
        out[at] = [float(w / sum(weights)) for w in weights]
    return out


# %% wrong
wrong = {
    "at temperature 0 equally large logits share; argmax takes the first of them": (
        swap("1.0 * (below == 0)", "np.eye(logits.shape[-1])[logits.argmax(axis=-1)]")
    ),
    "a temperature of 0 divides by zero": swap("1.0 * (below == 0) if at_zero else ", ""),
    "the maximum is not subtracted: exp overflows, or is 0 everywhere": (
        swap("np.exp(below /", "np.exp(logits /")
    ),
    "z/τ overflows before the maximum is subtracted": swap(
        "np.exp(below / temperature)",
        "np.exp(logits / temperature - (logits / temperature).max(axis=-1, keepdims=True))",
    ),
    "the logits are multiplied by the temperature, not divided by it": (
        swap("below / temperature", "below * temperature")
    ),
    "the probabilities are divided by the temperature: normalising takes that out again": (
        swap("np.exp(below / temperature)", "np.exp(below) / temperature")
    ),
    "the softmax runs over the first axis; the vocabulary is the last": (
        swap("axis=-1", "axis=0", 2)
    ),
    "temperature 0 is treated as temperature 1": (
        swap("at_zero = temperature == 0", "at_zero, temperature = False, temperature or 1")
    ),
    "these are weights that do not sum to one": (
        swap(" / weights.sum(axis=-1, keepdims=True)", "")
    ),
    "`-=` writes into the logits that were handed in": (
        swap("logits - logits.max", "logits\n    below -= logits.max")
    ),
}
