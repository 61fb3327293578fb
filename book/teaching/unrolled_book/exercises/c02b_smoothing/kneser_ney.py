r"""Kneser–Ney from a matrix of counts

Write `kneser_ney(counts, discount)` for bigrams. `counts[u, w]` is $\#(u\,w)$, an integer array
`(V, V)`, and `discount` is $D$ with $0 < D < 1$. Return the matrix `(V, V)` of

$$
\begin{aligned}
P(w \mid u) ={} & \frac{\max(\#(u\,w) - D,\, 0)}{\#(u\,\bullet)} \\
  & + \frac{D\,N_{1+}(u\,\bullet)}{\#(u\,\bullet)}\, P_{\mathrm{cont}}(w),
\end{aligned}
$$

$$
P_{\mathrm{cont}}(w) = \frac{N_{1+}(\bullet\,w)}{N_{1+}(\bullet\,\bullet)}.
$$

A context that was never seen gets $P_{\mathrm{cont}}$ itself. Every row sums to one.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4


# %% solution
def kneser_ney(counts, discount):
    """Interpolated Kneser–Ney P(w | u) in row u, (V, V), from counts (V, V)."""
    seen = counts > 0
    continuation = seen.sum(axis=0) / seen.sum()  # (V,), by different contexts
    totals = counts.sum(axis=1, keepdims=True)  # (V, 1)
    freed = discount * seen.sum(axis=1, keepdims=True)  # (V, 1), in counts
    share = np.maximum(counts - discount, 0) + freed * continuation
    return np.where(totals > 0, share / np.maximum(totals, 1), continuation)


# %% explanation
explanation = r"""
The whole model needs two things of the matrix: the counts, and where they are positive. Summing
`counts > 0` down a column counts the contexts before a word; along a row, the words after a
context. Row by row the discounts take $D\,N_{1+}(u\,\bullet)$ counts away and
`freed * continuation` hands exactly as many out again, since `continuation` sums to one.
`np.maximum(totals, 1)` only keeps the division quiet in the rows that `np.where` replaces.
"""


# %% tests
def tests(rng):
    yield call(np.array([[0, 3, 0], [1, 0, 1], [0, 1, 0]]), 0.75, visible=True)
    for n_words, discount in [(3, 0.5), (7, 0.75), (11, 0.9)]:
        counts = rng.poisson(0.8, size=(n_words, n_words))
        counts[0, :2] = (3, 1)  # one context is certainly there
        yield call(counts, discount)
    counts = rng.poisson(1.5, size=(5, 5))
    counts[0, 0], counts[3], counts[:, 4] = 2, 0, 0
    yield call(counts, 0.7, hint="the context 3 was never seen")


# %% oracle
def oracle(counts, discount):
    """Each different bigram pays D, and what it pays is dealt to all different bigrams alike."""
    kinds = np.argwhere(counts > 0).tolist()
    matrix = np.zeros(counts.shape)
    for u, row in enumerate(counts.tolist()):
        paid = [discount for first, _ in kinds if first == u] or [1.0]  # nothing seen: deal it all
        for _, end in kinds:
            matrix[u, end] += sum(paid) / len(kinds)
        for w, count in enumerate(row):
            matrix[u, w] += count - discount if count else 0
        matrix[u] /= sum(row) or 1
    return matrix


# %% wrong
wrong = {
    "the lower distribution is the raw unigram count; this is absolute discounting": (
        swap("seen.sum(axis=0) / seen.sum()", "counts.sum(axis=0) / counts.sum()")
    ),
    "the lower distribution counts the successors of w, not its predecessors": (
        swap("seen.sum(axis=0) /", "seen.sum(axis=1) /")
    ),
    "the lower distribution is uniform": (
        swap("seen.sum(axis=0) / seen.sum()", "np.full(len(counts), 1 / len(counts))")
    ),
    "γ forgets how many different words were discounted, so rows sum to less than one": (
        swap("discount * seen.sum(axis=1, keepdims=True)", "discount")
    ),
    "the counts are not discounted, so rows sum to more than one": (
        swap("np.maximum(counts - discount, 0)", "counts")
    ),
    "D is taken from the counts of zero as well; they become negative": (
        swap("np.maximum(counts - discount, 0)", "counts - discount")
    ),
    "the lower distribution reaches only the unseen words; interpolation gives it to all": (
        swap("freed * continuation", "freed * continuation * ~seen")
    ),
    "a context never seen got a row of zeros": swap("1), continuation)", "1), 0.0)"),
    "a context never seen got the uniform distribution, not the continuation distribution": (
        swap("1), continuation)", "1), 1 / len(counts))")
    ),
    "a context never seen gives 0/0": swap("1), continuation)", "1), np.nan)"),
    "rows and columns are exchanged": (lambda counts, discount: kneser_ney(counts.T, discount).T),
}
