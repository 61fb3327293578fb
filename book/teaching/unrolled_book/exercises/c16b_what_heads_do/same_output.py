r"""Other weights, the same output

One query has the weights `a` of shape `(S,)`, positive and of sum one, on `S` values `V` of shape
`(S, K)`. Its output is `a @ V`. If $S > K + 1$, other weights give exactly the same output.

Write `same_output(a, V)`: weights of shape `(S,)`, none negative, of sum one, with the same output,
with at least one of them exactly 0. Then some position that was read is no longer read at all, and
nothing behind the head can tell. (`a` has no zeros, and $S > K + 1$.)

There are many answers. Any of them is right whose output and sum agree to nine digits and in which
a weight is below $10^{-12}$.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4


# %% solution
def same_output(a, V):
    """Weights (S,) with the output of a on V, at least one of them 0."""
    conditions = np.column_stack([V, np.ones(len(a))])  # (S, K + 1)
    d = np.linalg.svd(conditions)[0][:, -1]  # d @ V = 0 and d.sum() = 0
    falls = d < 0
    steps = a[falls] / -d[falls]
    new = a + steps.min() * d
    new[np.flatnonzero(falls)[steps.argmin()]] = 0.0
    return new


# %% explanation
explanation = r"""
A change $d$ of the weights leaves the output as it is if $d V = 0$, and their sum if
$\sum_j d_j = 0$: $K + 1$ linear conditions on $S$ numbers. If $S > K + 1$ they have a solution
other than 0, a direction in which one can walk unseen. Its entries sum to zero, so some are
negative; walk until the first weight is used up. The last left singular vector of the
$S \times (K + 1)$ matrix of the conditions is such a direction.

In a head of width 32 that looks back at a hundred letters there are at least 67 independent
directions of this kind. [Brunner et al. (2020)](cite:brunner2020) made the point for trained
Transformers. That one can step off says nothing about how far one can walk: the chapter measures
that, and in its model's upper layers it is not far. Nor would the model choose such weights: they
are not the softmax of its scores.
"""


# %% tests
def example(rng, S, K):
    a = rng.exponential(size=S) + 0.05
    return a / a.sum(), rng.normal(size=(S, K))


def tests(rng):
    yield call(np.array([0.25, 0.5, 0.25]), np.array([[0.0], [1.0], [2.0]]), visible=True)
    yield call(*example(rng, 7, 3), hint="7 positions, values of 3 numbers")
    yield call(*example(rng, 5, 3), hint="S = K + 2: there is only one direction")
    yield call(*example(rng, 40, 8), hint="40 positions, values of 8 numbers")
    a, V = example(rng, 9, 4)
    yield call(a, V @ np.diag([1, 1, 1e-3, 0]), hint="a column of the values is all zeros")
    a, V = example(rng, 11, 2)
    yield call(a, V + 100, hint="values far from 0")


def judge(output, a, V):
    new = np.asarray(output, dtype=float)
    if new.shape != a.shape:
        return f"expected weights of shape {a.shape}, got {new.shape}"
    if not np.isfinite(new).all():
        return "a weight is not a finite number"
    if new.min() < -1e-12:
        return f"a weight is negative, {new.min():.3g}"
    if abs(new.sum() - 1) > 1e-9:
        return f"the sum of the weights is off by {new.sum() - 1:.3g}"
    gap = np.abs((new - a) @ V).max()
    if gap > 1e-9 * (1 + np.abs(V).max()):
        return f"the output has moved by {gap:.3g}"
    if new.min() > 1e-12:
        return f"no weight is 0; the smallest is {new.min():.3g}"
    return None


# %% oracle
def oracle(a, V):
    """A linear program: of all weights with this output, those with the least on some position."""
    from scipy.optimize import linprog

    conditions = np.vstack([V.T, np.ones(len(a))])
    for goal in np.eye(len(a)):
        found = linprog(goal, A_eq=conditions, b_eq=conditions @ a, method="highs-ds")
        if found.success and found.fun < 1e-13:
            return np.clip(found.x, 0, None)
    return None


# %% wrong
def drop_and_share(a, V):
    new = a.copy()
    new[new.argmin()] = 0
    return new / new.sum()


def least_squares(a, V):
    conditions = np.column_stack([V, np.ones(len(a))])
    return np.linalg.lstsq(conditions.T, conditions.T @ a, rcond=None)[0]


wrong = {
    "a weight was dropped and the rest scaled up: the sum is right, and the output has moved": (
        drop_and_share
    ),
    "these are the weights that were given; one of them must become 0": lambda a, V: a.copy(),
    "the walk stops half way, before a weight has reached 0": (
        swap("steps.min() * d", "steps.min() / 2 * d").swap("] = 0.0", "] += 0.0")
    ),
    "the walk goes on after the first weight has reached 0, and others become negative": (
        swap("steps.min() * d", "1.5 * steps.min() * d")
    ),
    "the direction keeps the output, but not the sum of the weights": (
        swap("np.linalg.svd(conditions)", "np.linalg.svd(V)")
    ),
    "negative weights were cut off at 0, which moves the sum and the output": (
        swap("return new", "return np.clip(a + 5 * d, 0, None)")
    ),
    "these weights of least length keep output and sum, and some may be negative or none 0": (
        least_squares
    ),
}
