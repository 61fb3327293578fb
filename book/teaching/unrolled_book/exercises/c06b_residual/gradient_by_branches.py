r"""Which ways the gradient takes

In a residual stack of one-unit layers the gradient that reaches the input is a product of factors
$1 + w_\ell$, where $w_\ell$ is the slope of layer $\ell$'s branch. Multiply out:

$$
(1 + w_1)(1 + w_2) = 1 + w_1 + w_2 + w_1 w_2 .
$$

Each term is one way through the stack: through no branch, through one of them, through both. $L$
layers have $2^L$ ways.

Write `gradient_by_branches(slopes)` for the slopes of $L$ branches, an array of shape `(L,)`, $L$
at least 1. Return an array of shape `(L + 1,)`: entry $k$ is the sum over all ways through exactly
$k$ branches. All entries together are the whole product.

Forty layers have $10^{12}$ ways, too many to list. Extend the answer layer by layer: what does one
more layer do with a way through $k$ branches?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def gradient_by_branches(slopes):
    """(L,) → (L + 1,): the gradient through exactly k branches."""
    ways = np.array([1.0])  # no layer: one way, through no branch
    for w in slopes:
        around, through = np.append(ways, 0), np.append(0, w * ways)
        ways = around + through
    return ways


# %% explanation
explanation = r"""
One more layer gives each way two continuations: around the branch, with the factor 1 and as many
branches as before, or through it, with the factor $w$ and one branch more. So the list is added to
itself, shifted by one and multiplied by $w$. These are the coefficients of the polynomial
$\prod_\ell (1 + w_\ell x)$.

The first entry is always 1: the way around everything. In a plain stack only the last entry exists,
the product of all slopes. With forty slopes of 0.1 that entry is $10^{-40}$, while the ways
through 2 to 5 branches carry almost three quarters of the gradient: many short ways.
"""


# %% tests
show = True


def tests(rng):
    yield call(np.array([0.5, -0.2, 1.0]), visible=True)
    yield call(np.array([0.3]), hint="a single layer")
    yield call(np.zeros(4), hint="empty branches")
    for n in (2, 5, 9):
        yield call(rng.normal(size=n))
    yield call(0.3 * rng.random(40), hint="forty layers: the ways cannot be listed")


# %% oracle
def oracle(slopes):
    """By listing the ways of a few layers; of many, by the polynomial's values at roots of one."""
    import itertools

    n = len(slopes)
    if n < 12:
        return np.array([
            sum(np.prod(some) for some in itertools.combinations(slopes, k)) for k in range(n + 1)
        ])  # fmt: skip
    points = np.exp(-2j * np.pi * np.arange(n + 1) / (n + 1))
    values = np.prod(1 + np.multiply.outer(points, slopes), axis=1)
    return np.fft.ifft(values).real


# %% wrong
wrong = {
    "the way around was forgotten: only the way through all branches is left": (
        swap("ways = around + through", "ways = through")
    ),
    "each layer was entered: a way around keeps its number of branches": (
        swap("np.append(ways, 0)", "np.append(0, ways)")
    ),
    "the slope of the branch is missing: the ways were only counted": swap("w * ways", "ways"),
    "nothing was there to begin with: without layers there is one way": swap("[1.0]", "[0.0]"),
    "in the wrong order: entry 0 is the way around everything; w belongs to the way through": (
        swap("return ways", "return ways[::-1]")
    ),
    "the sizes of the terms were added; slopes may be negative": (
        swap("w * ways", "abs(w) * ways")
    ),
}  # fmt: skip
