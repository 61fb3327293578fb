r"""Who really contributes?

A position asks. One head gives it the weights `a` of shape `(S,)` on the values `V` of shape
`(S, K)`, and its block of the output matrix, `W_o` of shape `(K, D)`, maps the mixture to the
output. So position $j$ adds the vector $a_j\, v_j W_o$.

Write `contributions(a, V, W_o)`: the share of each position, `(S,)`, by the *length* of what it
adds, so that the shares sum to one. No weight is negative, and at least one vector is not zero.
The arguments stay as they are.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def contributions(a, V, W_o):
    """The share of each position in the output, by length: (S,), of sum one."""
    lengths = a * np.linalg.norm(V @ W_o, axis=1)
    return lengths / lengths.sum()


# %% explanation
explanation = r"""
$\lVert a_j\, v_j W_o \rVert = a_j \lVert v_j W_o \rVert$ because $a_j \ge 0$: the weight times the
length of what the head makes of the value. A position with weight 0.9 whose value is nearly zero
contributes nearly nothing.

Lengths are not the last word either. Two positions may add long vectors that cancel each other, and
a long vector may point to where nothing behind the head looks.
"""


# %% tests
def tests(rng):
    V = np.array([[0.0, 1.0], [3.0, 4.0], [0.0, 0.0]])
    yield call(np.array([0.5, 0.1, 0.4]), V, np.eye(2), visible=True)
    for S, K, D in ((5, 2, 3), (7, 3, 2), (3, 5, 7)):
        a = rng.dirichlet(np.ones(S))
        yield call(a, rng.normal(size=(S, K)), rng.normal(size=(K, D)), hint=f"S = {S}, K = {K}")
    a, V = rng.dirichlet(np.ones(3)), rng.normal(size=(3, 3))
    yield call(a, V, rng.normal(size=(3, 3)), hint="S = K = D: which axis is which?")
    a = np.array([0.0, 1.0, 0.0])
    yield call(a, rng.normal(size=(3, 2)), rng.normal(size=(2, 5)), hint="all weight on one")


# %% oracle
def oracle(a, V, W_o):
    """Each position's vector by a loop, its length by math.hypot."""
    import math

    lengths = []
    for weight, v in zip(a, V, strict=True):
        added = [weight * sum(v[k] * W_o[k, d] for k in range(len(v))) for d in range(W_o.shape[1])]
        lengths.append(math.hypot(*added))
    return np.array(lengths) / math.fsum(lengths)


# %% wrong
wrong = {
    "these are the weights themselves; a position with a short value adds little": (
        lambda a, V, W_o: a.copy()
    ),
    "the weights are left out": swap("a * np.linalg", "np.linalg"),
    "the lengths are those of the values, before W_o": swap("V @ W_o, axis", "V, axis"),
    "the shares do not sum to one": swap("lengths / lengths.sum()", "lengths"),
    "squared lengths are compared": swap("axis=1)", "axis=1) ** 2"),
    "the length is the root of the sum of squares, not the sum of the amounts": (
        swap("np.linalg.norm(V @ W_o, axis=1)", "np.abs(V @ W_o).sum(axis=1)")
    ),
    "the shares are divided by their largest, not by their sum": (
        swap("lengths.sum()", "lengths.max()")
    ),
    "the numbers of a vector are added up with their signs, which is not its length": (
        swap("np.linalg.norm(V @ W_o, axis=1)", "(V @ W_o).sum(axis=1)")
    ),
}
