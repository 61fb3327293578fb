r"""Additive smoothing of a whole table

Write `additive_rows(counts, alpha)` for bigrams. `counts[u, w]` is $\#(u\,w)$, an integer array
`(V, V)`, and `alpha` is $\alpha > 0$. Return the matrix `(V, V)` of

$$
P_\alpha(w \mid u) = \frac{\#(u\,w) + \alpha}{\#(u\,\bullet) + \alpha V}.
$$

Every row sums to one, also that of a word that nothing has ever followed.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def additive_rows(counts, alpha):
    """P(w | u) in row u, (V, V), from counts (V, V) and alpha > 0."""
    imagined = counts + alpha  # alpha imaginary visits of each word
    return imagined / imagined.sum(axis=1, keepdims=True)  # (V, V) / (V, 1)


# %% explanation
explanation = r"""
After `counts + alpha` the rest is maximum likelihood: divide each row by its sum, which is now
$\#(u\,\bullet) + \alpha V$, because $\alpha$ was added once for each of the $V$ words. An empty row
holds $V$ times $\alpha$ and becomes the uniform distribution $1/V$; nothing is divided by zero.
"""


# %% tests
def tests(rng):
    yield call(np.array([[0, 3, 1], [0, 0, 0], [1, 0, 0]]), 0.5, visible=True)
    for n_words, alpha in [(3, 1.0), (7, 0.1), (11, 2.5)]:
        counts = rng.poisson(0.8, size=(n_words, n_words))
        counts[0, :2] = (3, 1)
        yield call(counts, alpha)
    counts = rng.poisson(1.5, size=(5, 5))
    counts[3] = 0
    yield call(counts, 0.01, hint="nothing ever followed word 3")
    yield call(np.zeros((4, 4), dtype=int), 1.0, hint="no pair was counted at all")


# %% oracle
def oracle(counts, alpha):
    """The posterior mean: every word's share, from the formula, entry by entry."""
    from fractions import Fraction

    rows, added = counts.tolist(), Fraction(alpha)
    return np.array(
        [[float((c + added) / (sum(row) + added * len(row))) for c in row] for row in rows]
    )


# %% wrong
wrong = {
    "α was added to the numerator only, so rows sum to more than one": lambda counts, alpha: (
        (counts + alpha) / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ),
    "the denominator got α once; each of the V words was given α": lambda counts, alpha: (
        (counts + alpha) / (counts.sum(axis=1, keepdims=True) + alpha)
    ),
    "the denominator got V, without α": lambda counts, alpha: (
        (counts + alpha) / (counts.sum(axis=1, keepdims=True) + len(counts))
    ),
    "this is add-one smoothing; α was not used": swap("counts + alpha", "counts + 1"),
    "α was given to the words that were seen; those not seen need it": (
        lambda counts, alpha: np.nan_to_num(
            (counts + alpha) * (counts > 0)
            / np.maximum(((counts + alpha) * (counts > 0)).sum(axis=1, keepdims=True), alpha)
        )
    ),
    "α was given to the words not seen only; every count gets it": (
        swap("counts + alpha", "np.where(counts > 0, counts, alpha)")
    ),
    "each column sums to one; it must be each row": swap("axis=1", "axis=0"),
    "totals of shape (V,) divide the columns; each row has its own total, so (V, 1)": (
        swap(", keepdims=True", "")
    ),
    "the whole table sums to one; it must be each row": swap("axis=1, keepdims=True", ""),
    "these are smoothed counts, not probabilities": (
        swap(" / imagined.sum(axis=1, keepdims=True)", "")
    ),
    "an empty row stayed empty; it becomes the uniform distribution": lambda counts, alpha: (
        additive_rows(counts, alpha) * (counts.sum(axis=1, keepdims=True) > 0)
    ),
    "rows and columns are exchanged: row u holds what comes before u": (
        lambda counts, alpha: additive_rows(counts.T, alpha)
    ),
    "the matrix was smoothed twice": (
        lambda counts, alpha: additive_rows(additive_rows(counts, alpha), alpha)
    ),
}  # fmt: skip
