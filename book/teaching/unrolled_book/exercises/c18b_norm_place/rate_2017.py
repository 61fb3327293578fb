r"""The learning rate of 2017

The Transformer of [Vaswani et al. (2017)](cite:vaswani2017) was trained with a warm-up and then a
decay with the root of the step. With $t = 1, 2, 3, \dots$ (the paper counts from 1), width $D$ and
$w$ steps of warm-up,

$$
\eta_t = \frac{1}{\sqrt D} \min\!\Big( \frac{1}{\sqrt t},\; \frac{t}{w^{3/2}} \Big) .
$$

Write `rate_2017(t, D, w)`: the rates, `(N,)`, of an array `t` of whole numbers from 1 on. The
arguments stay as they are.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def rate_2017(t, D, w):
    """The learning rates (N,) of the steps t (N,), counted from 1."""
    return D**-0.5 * np.minimum(t**-0.5, t * w**-1.5)


# %% explanation
explanation = r"""
The two terms are equal at $t = w$, where the rate is at its peak of $1/\sqrt{D w}$: with the
paper's $D = 512$ and $w = 4000$ it is 0.0007. Before that the second term is the smaller one, a
straight line up; after it the first one, a slow fall.

One formula couples peak, warm-up and width. Half as long a warm-up gives a peak $\sqrt2$ times as
high, so this schedule cannot tell whether a run failed because its warm-up was too short or its
peak too high. Today's code has the peak as a number of its own, as this chapter does.
"""


# %% tests
def tests(rng):
    yield call(np.array([1, 2, 4, 16]), 4, 4, visible=True)
    yield call(np.array([1, 3999, 4000, 4001, 100_000]), 512, 4000, hint="the paper's numbers")
    D, w = int(rng.integers(8, 99)), int(rng.integers(5, 50))
    yield call(np.arange(1, 3 * w), D, w)
    yield call(np.array([1, 2, 9]), D, 1, hint="a warm-up of one step")
    yield call(rng.integers(3, 29, size=1), 9, 30, hint="a single step")


# %% oracle
def oracle(t, D, w):
    """Step by step: a share of the peak on the way up, the peak times √(w/t) after it."""
    import math

    peak = 1 / math.sqrt(D * w)
    return np.array([peak * n / w if n <= w else peak * math.sqrt(w / n) for n in t.tolist()])


# %% wrong
wrong = {
    "the smaller of the two terms counts, not the larger one": swap("np.minimum", "np.maximum"),
    "the width's root is missing": swap("D**-0.5 * ", ""),
    "the rate is divided by the width's root; here it is multiplied by it": (
        swap("D**-0.5", "D**0.5")
    ),
    "the rate is divided by the root of the width, not by the width": swap("D**-0.5", "D**-1.0"),
    "the warm-up is divided by w to the power 3/2, so that both terms meet at t = w": (
        swap("w**-1.5", "w**-1.0")
    ),
    "the warm-up's power is −3/2; here it is −1/2": swap("w**-1.5", "w**-0.5"),
    "after the warm-up the rate falls with the root of t; here it stays at its peak": (
        swap("t**-0.5", "w**-0.5")
    ),
    "the rate falls with the root of t; here it falls with t": swap("t**-0.5", "1 / t"),
    "t counts from 1 already; here a step was added": (
        swap("np.minimum(t**-0.5, t *", "np.minimum((t + 1) ** -0.5, (t + 1) *")
    ),
    "the warm-up is missing: the rate falls from the first step on": (
        swap("np.minimum(t**-0.5, t * w**-1.5)", "t**-0.5")
    ),
}
