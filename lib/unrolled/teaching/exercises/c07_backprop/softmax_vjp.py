r"""Softmax backwards, without its Jacobian

The Jacobian of $\hat y = \mathrm{softmax}(z)$ is
$J = \mathrm{diag}(\hat y) - \hat y \hat y^\top$: $V^2$ numbers for every row of a batch. The
backward pass never needs them, only the product $\bar z = \bar y J$ for the gradient $\bar y$
that arrives from above.

Write `softmax_vjp(y, y_bar)` for `y` and `y_bar` of shape `(B, V)`, where each row of `y` is
already a softmax. Return $\bar z$, `(B, V)`, without building any `(V, V)` matrix.
"""

import numpy as np

from unrolled.teaching.exercise import call

kind, level, points = "code", 2, 3


# %% solution
def softmax_vjp(y, y_bar):
    """Gradient (B, V) for the logits; y and its gradient y_bar are (B, V)."""
    inner = (y * y_bar).sum(axis=-1, keepdims=True)  # (B, 1)
    return y * (y_bar - inner)


# %% explanation
explanation = r"""
Row by row, $\bar z = \bar y\,\mathrm{diag}(\hat y) - (\bar y \cdot \hat y)\,\hat y
= \hat y \odot (\bar y - \bar y \cdot \hat y)$. The inner product is one number a row, so the work
is $O(V)$ and not $O(V^2)$. The entries of $\bar z$ sum to zero: adding a constant to all logits
changes nothing, so no gradient points that way.
"""


# %% tests
def tests(rng):
    yield call(np.array([[0.5, 0.25, 0.25]]), np.array([[1.0, 0.0, 0.0]]), visible=True)
    for shape in [(2, 3), (5, 7), (1, 11)]:
        z = rng.normal(size=shape)
        y = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)
        yield call(y, rng.normal(size=shape))
    square = np.full((3, 3), 1 / 3)
    yield call(square, rng.normal(size=(3, 3)), hint="B = V here: which axis do you sum over?")


# %% wrong
def in_place(y, y_bar):
    y_bar -= (y * y_bar).sum(axis=-1, keepdims=True)
    return y * y_bar


def jacobian_of_the_sum(y, y_bar):
    y, y_bar = y.sum(axis=0), y_bar.sum(axis=0)
    return y * (y_bar - y @ y_bar)


wrong = {
    "only the diagonal of the Jacobian is used": lambda y, y_bar: y * y_bar,
    "the diagonal is ŷ(1 − ŷ), as for a sigmoid; the other entries of the Jacobian are lost": (
        lambda y, y_bar: y * (1 - y) * y_bar
    ),
    "the inner product is summed over the batch, not over the vocabulary": (
        lambda y, y_bar: y * (y_bar - (y * y_bar).sum(axis=0, keepdims=True))
    ),
    "the inner product is summed over the whole array; each row has its own": (
        lambda y, y_bar: y * (y_bar - (y * y_bar).sum())
    ),
    "the sign is turned round": (
        lambda y, y_bar: y * ((y * y_bar).sum(axis=-1, keepdims=True) - y_bar)
    ),
    "the inner product is averaged where it must be summed": (
        lambda y, y_bar: y * (y_bar - (y * y_bar).mean(axis=-1, keepdims=True))
    ),
    "the last factor ŷ is missing": (
        lambda y, y_bar: y_bar - (y * y_bar).sum(axis=-1, keepdims=True)
    ),
    "the rows of the batch are added up; the answer keeps one row for each": jacobian_of_the_sum,
    "`-=` writes into the gradient that was handed in": in_place,
}
