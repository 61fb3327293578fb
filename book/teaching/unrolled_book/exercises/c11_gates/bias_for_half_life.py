r"""The bias for a memory of k steps

A task needs a memory that has lost half of what it held after about $k$ steps. A fresh LSTM's
forget gate is near $\sigma(b)$.

Write `bias_for_half_life(k)`: the bias $b$ for which that gate's half-life is $k$ steps,
$k \ge \frac12$. It must be right to nine digits for a $k$ of a thousand million, too, where the
gate itself is rounded to something near 1.
"""

import math

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def bias_for_half_life(k):
    """The forget bias, a float, with which half is left after k steps."""
    return float(-np.log(np.expm1(np.log(2) / k)))


# %% explanation
explanation = r"""
Half is left after $k$ steps if $f^k = \frac12$, so $f = 2^{-1/k}$. The logistic function's
inverse is $b = \ln \frac{f}{1-f} = -\ln\!\big(\frac1f - 1\big) = -\ln\!\big(2^{1/k} - 1\big)$.

For a large $k$ the difference $2^{1/k} - 1$ cancels: of a $10^{-9}$ that stands behind a 1,
seven digits are left. `expm1(x)` computes $e^x - 1$ without that 1. For large $k$ it is about
$\ln 2 / k$, so $b \approx \ln k + 0.37$: the bias grows with the logarithm of the time. A bias
of 1 is good for two steps, 3 for fourteen, and 10 for fifteen thousand.
"""


# %% tests
def tests(rng):
    yield call(1.0, visible=True)
    yield call(2.0, visible=True)
    yield call(0.5, hint="half a step is allowed: the gate is below one half")
    for k in rng.uniform(3, 300, size=3):
        yield call(float(k))
    for k in (3e3, 3e6):
        yield call(float(k), hint="a long memory, and no approximation")
    yield call(1e9, hint="k is 1e9: is the gate rounded before the logarithm?")
    yield call(1e13, hint="k is 1e13: is the gate rounded before the logarithm?")


# %% oracle
def oracle(k):
    """Bisection: the half-life, ln 2 / ln(1 + e^−b), grows with b."""
    low, high = -50.0, 50.0
    for _ in range(200):
        middle = (low + high) / 2
        half_life = math.log(2) / math.log1p(math.exp(-middle))
        low, high = (middle, high) if half_life < k else (low, middle)
    return (low + high) / 2


# %% wrong
def rounded(k):
    f = 0.5 ** (1 / k)
    return math.log(f / (1 - f)) if f < 1 else math.inf


wrong = {
    "the gate is rounded near 1, and 1 − f has lost its digits; use expm1": rounded,
    "the sign is reversed: a gate that keeps needs a positive bias": swap("-np.log", "np.log"),
    "this is the gate, not the bias; the gate is σ of the bias": lambda k: 0.5 ** (1 / k),
    "this is the approximation for a long memory, ln(k / ln 2)": (
        lambda k: math.log(k / math.log(2))
    ),
    "this is the bias after which 1/e is left, not one half": swap("np.log(2) / k", "1 / k"),
    "the half-life was taken for 1/(1 − f)": (
        lambda k: math.log(k) if k < 1 else math.log(max(k - 1, 1e-300))
    ),
    "the logarithm is to base 2; the logistic function needs the natural one": (
        swap("-np.log(", "-np.log2(")
    ),
}
