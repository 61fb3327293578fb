r"""A lookup by nearness

A dot product does not measure nearness: in the chapter's figure the query that points straight at
key b reads key c. Kernel regression weighs the entries by their distance instead,

$$
y = \sum_j \alpha_j v_j, \qquad
\alpha_j \propto \exp\!\left( -\frac{|q - k_j|^2}{2 w^2} \right),
$$

with a width $w > 0$. Write `lookup_by_distance(Q, K, V, width)` for `Q` `(n, d)`, `K` `(m, d)` and
`V` `(m, d_v)`; return $Y$, `(n, d_v)`. A query may be so far from all keys that every exponential
is 0 in floating-point numbers. It must still get the right answer: the quotients $\alpha_j$ are
well defined, however small numerator and denominator are.

Then look at your formula and answer on paper: for which keys is this the same as dot-product
attention, and with which scale?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def lookup_by_distance(Q, K, V, width):
    """Means (n, d_v) of V (m, d_v), weighted by the nearness of Q and K."""
    squares = ((Q[:, None, :] - K[None, :, :]) ** 2).sum(axis=-1)  # (n, m)
    scores = -squares / (2 * width**2)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ V


# %% explanation
explanation = r"""
The weights are a softmax of scores, and adding a constant to all scores of a row leaves the softmax
unchanged. So we subtract the maximum first: then the nearest key has the exponential 1, however far
away it is.

Multiply out:

$$
-\frac{|q - k_j|^2}{2 w^2} = \frac{q \cdot k_j}{w^2} - \frac{|k_j|^2}{2 w^2} - \frac{|q|^2}{2 w^2} .
$$

The last term is the same for all keys, so it does not change the softmax. If all keys have the same
length, the second term does not either, and what is left is dot-product attention with the scale
$1/w^2$. In general the second term is a bias for each key: it takes back the advantage that a dot
product gives to long keys. The divisor $\sqrt{d_k}$ corresponds to a kernel of width
$w = d_k^{1/4}$.
"""


# %% tests
def tests(rng):
    yield call(
        np.array([[0.0], [1.0]]), np.array([[0.0], [2.0]]), np.array([[1.0], [3.0]]), 1.0,
        visible=True,
    )  # fmt: skip
    for n, m, d, d_v in [(2, 3, 5, 7), (5, 2, 3, 1), (4, 4, 4, 4)]:
        tables = rng.normal(size=(n, d)), rng.normal(size=(m, d)), rng.normal(size=(m, d_v))
        yield call(*tables, float(rng.uniform(0.4, 0.9)))
        yield call(*tables, float(rng.uniform(1.5, 2.5)))
    keys = rng.normal(size=(5, 2)) * np.array([[3.0], [1], [1], [1], [1]])
    yield call(keys[1:3], keys, rng.normal(size=(5, 3)), 0.7, hint="the first key is long")
    far = 100 + rng.normal(size=(3, 2))
    yield call(
        far, rng.normal(size=(4, 2)), rng.normal(size=(4, 2)), 1.3,
        hint="the queries are far from all keys",
    )  # fmt: skip
    yield call(
        np.array([[0.0], [100.0]]), rng.normal(size=(3, 1)), rng.normal(size=(3, 2)), 1.0,
        hint="one query is near the keys, one is far from them",
    )  # fmt: skip


# %% oracle
def oracle(Q, K, V, width):
    """In exact arithmetic's stead, fifty decimal digits: nothing underflows."""
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 50
        Y = np.zeros((len(Q), V.shape[1]))
        for i, q in enumerate(Q):
            squares = [
                sum((Decimal(float(a)) - Decimal(float(b))) ** 2 for a, b in zip(q, k, strict=True))
                for k in K
            ]
            kernel = [(-s / (2 * Decimal(float(width)) ** 2)).exp() for s in squares]
            for c in range(V.shape[1]):
                top = sum(w * Decimal(float(v)) for w, v in zip(kernel, V[:, c], strict=True))
                Y[i, c] = float(top / sum(kernel))
    return Y


# %% wrong
wrong = {
    "far from all keys every exponential is 0, and 0/0 is not a number: shift the scores first": (
        swap(" - scores.max(axis=1, keepdims=True)", "")
    ),
    "each query needs its own shift: with one maximum for all, a far query still gets 0/0": (
        swap("scores.max(axis=1, keepdims=True)", "scores.max()")
    ),
    "the weights of a query must sum to one: the sum runs over the keys, not over the queries": (
        swap("weights.sum(axis=1", "weights.sum(axis=0")
    ),
    "the distance is squared in the kernel": swap("-squares", "-np.sqrt(squares)"),
    "the width is squared in the kernel": swap("width**2", "width"),
    "the factor 2 under the square is missing": swap("2 * width**2", "width**2"),
    "the sign is wrong: here the farthest key gets the most weight": swap("-squares", "squares"),
    "this is dot-product attention: the term with the length of the key is missing": (
        swap("-squares / (2 * width**2)", "Q @ K.T / width**2")
    ),
    "the width is not used": swap("2 * width**2", "2"),
}
