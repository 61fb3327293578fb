r"""Softplus and its slope, for large numbers too

Write `softplus_and_slope(z, beta)` for `z` of shape `(N,)` and a number `beta > 0`. Return the pair
of $\frac1\beta \ln(1 + e^{\beta z})$ and of its slope in $z$, both of shape `(N,)`.

Both must be right for every $z$, also for $\beta z = 1000$ or $-1000$: $e^{1000}$ is infinite in
floating point, and so is every formula that needs it. Small values count as well:
$\ln(1 + e^{-60})$ is about $10^{-26}$, not 0.

Two hints. For large $a$ take $e^a$ out of the logarithm: $\ln(1 + e^a) = a + \ln(1 + e^{-a})$. And
`np.log1p(t)` is $\ln(1 + t)$, right also for a $t$ so small that $1 + t$ rounds to 1.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 2
outputs = ("value", "slope")


# %% use
def use(answer, z, beta, unit):
    """Both times unit, so that small values can be compared as well as large ones."""
    return tuple(unit * np.asarray(part) for part in answer(z, beta))


# %% solution
def softplus_and_slope(z, beta):
    """(softplus of z, its slope), each (N,)."""
    a = beta * z
    small = np.exp(-np.abs(a))  # never above 1
    value = (np.maximum(a, 0) + np.log1p(small)) / beta
    slope = np.where(a >= 0, 1, small) / (1 + small)
    return value, slope


# %% explanation
explanation = r"""
For $a = \beta z \ge 0$ take $e^{a}$ out of the logarithm: $\ln(1 + e^{a}) = a + \ln(1 + e^{-a})$.
For
$a < 0$ nothing need be taken out. Both cases are $\max(a, 0) + \ln(1 + e^{-|a|})$, and $e^{-|a|}$
never exceeds 1.

The slope is $\frac1\beta \cdot \beta\, \sigma(\beta z) = \sigma(\beta z)$: the $\beta$ of the inner
derivative cancels the one in front. Softplus is the function whose slope is the sigmoid.

`log1p` keeps what is left of $e^{-|a|}$ where $1 + e^{-|a|}$ would round to 1.
"""


# %% tests
def show(z, beta, unit):
    times = f"  # times {unit:g}" if unit != 1 else ""
    return f"softplus_and_slope(np.array({z.tolist()}), {beta}){times}"


def tests(rng):
    yield call(np.array([0.0, 1.0, -1.0]), 1.0, 1.0, visible=True)
    for beta in (1.0, 4.0, 0.3):
        yield call(rng.normal(size=7) * 3, beta, 1.0)
    yield call(np.array([1000.0, -1000.0, 60.0, -60.0]), 1.0, 1.0, hint="large numbers")
    yield call(np.array([-5.0, 300.0]), 4.0, 1.0, hint="large β z")
    yield call(np.array([10.0, -10.0]), 100.0, 1.0, hint="large β z")
    yield call(np.array([-60.0, -58.0]), 1.0, 1e26, hint="small values: times 1e26")
    yield call(np.array([-8.0]), 4.0, 1e14, hint="small values: times 1e14")


# %% oracle
def oracle(z, beta, unit):
    """Ninety digits of decimal arithmetic; the slope as a central difference in them."""
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 90

        def value(x):
            return (1 + (Decimal(beta) * x).exp()).ln() / Decimal(beta)

        eps, found = Decimal("1e-15"), []
        for number in z.tolist():
            x = Decimal(number)
            found.append((value(x), (value(x + eps) - value(x - eps)) / (2 * eps)))
        return tuple(unit * np.array([[float(a), float(b)] for a, b in found]).T)


# %% wrong
wrong = {
    "β stands inside the exponential only: the logarithm was not divided by β": (
        swap("np.log1p(small)) / beta", "np.log1p(small))")
    ),
    "the slope was multiplied by β; the inner derivative cancels the β in front": (
        swap("/ (1 + small)", "/ (1 + small) * beta")
    ),
    "this is softplus for β = 1": swap("a = beta * z", "a, beta = z, 1.0"),
    "for negative numbers the slope is the one at −z": (
        swap("np.where(a >= 0, 1, small)", "np.ones_like(a)")
    ),
    "the part max(βz, 0) is missing: for positive z the value falls": (
        swap("np.maximum(a, 0) + ", "")
    ),
    "1 + e^(−60) is rounded to 1 and its logarithm to 0; np.log1p keeps the small value": (
        swap("np.log1p(small)", "np.log(1 + small)")
    ),
    "this is the slope of a ReLU": (
        swap("np.where(a >= 0, 1, small) / (1 + small)", "np.where(a > 0, 1.0, 0.0)")
    ),
}
