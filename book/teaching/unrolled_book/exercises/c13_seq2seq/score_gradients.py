r"""Which scores rise?

A decoder has the weights `alpha` `(S,)`, a softmax of its scores, over the rows of a memory `H`
`(S, D)`; its context is their weighted mean. The gradient of the loss with respect to the *context*
is `g` `(D,)`. Write `score_gradients(alpha, H, g)`, the gradient of the loss with respect to the
*scores*, `(S,)`.

Then look at your numbers: what do they add up to, and what does a row get whose weight is 0?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def score_gradients(alpha, H, g):
    """Gradient (S,) of the scores, from weights (S,), H (S, D), g (D,)."""
    context = alpha @ H  # (D,)
    return alpha * ((H - context) @ g)


# %% explanation
explanation = r"""
The gradient of a *weight* is $g \cdot h_j$. Through the softmax, $\partial\alpha_k / \partial e_j =
\alpha_k(\delta_{jk} - \alpha_j)$, it becomes $\alpha_j\,(g \cdot h_j - \sum_k \alpha_k\, g \cdot
h_k) = \alpha_j\; g \cdot (h_j - c)$. Only the difference from the context counts: a direction that
all rows share moves no weight.

The sum is $g \cdot \sum_j \alpha_j (h_j - c) = g \cdot (c - c) = 0$. A row without weight gets
nothing, however much it would help, and a row with all the weight gets nothing either, since then
it *is* the context: a softmax that has made up its mind learns slowly.
"""


# %% tests
def tests(rng):
    yield call(
        np.array([0.1, 0.1, 0.8]), np.array([[2.0, -2.0], [0.0, 0.0], [1.0, 2.0]]),
        np.array([-1.0, 3.4]), visible=True,
    )  # fmt: skip
    for S, D in [(4, 3), (3, 5), (3, 3), (7, 2)]:
        yield call(rng.dirichlet(np.ones(S)), rng.normal(size=(S, D)), rng.normal(size=D))
    yield call(np.array([0.0, 0.3, 0.7]), rng.normal(size=(3, 2)), rng.normal(size=2),
               hint="a row without weight")  # fmt: skip
    yield call(np.array([1.0]), rng.normal(size=(1, 3)), rng.normal(size=3), hint="one row")
    yield call(rng.dirichlet(np.ones(4)), 5 + rng.normal(size=(4, 3)), np.ones(3),
               hint="all rows far to one side")  # fmt: skip


# %% oracle
def oracle(alpha, H, g):
    """The full Jacobian of the softmax, entry by entry."""
    S, found = len(alpha), np.zeros(len(alpha))
    for j in range(S):
        for k in range(S):
            slope = alpha[k] * ((j == k) - alpha[j])
            found[j] += slope * sum(x * y for x, y in zip(g, H[k], strict=True))
    return found


# %% wrong
wrong = {
    "this is the gradient of the weights; the scores lie one softmax earlier": (
        lambda alpha, H, g: H @ g
    ),
    "the context is not subtracted: when one weight grows, the others shrink": swap(
        "(H - context)", "H"
    ),
    "the factor α is missing: a row without weight learns nothing": swap("alpha * (", "1 * ("),
    "the sign is turned: this is the step down, not the gradient": swap("alpha * (", "-alpha * ("),
    "the plain mean of the rows is subtracted; the context is the weighted mean": swap(
        "alpha @ H", "H.mean(axis=0)"
    ),
    "the softmax's diagonal alone, α(1 − α), leaves out what one score takes from the others": (
        lambda alpha, H, g: alpha * (1 - alpha) * (H @ g)
    ),
    "the weights stand inside the difference: the rows are weighed once, outside": swap(
        "(H - context)", "(alpha[:, None] * H - context)"
    ),
}
