r"""Is this an induction head?

Write `induction_weight(weights, tokens)` for one head's attention: `weights` (T, T), rows are
queries, each row sums to one and looks back only; `tokens` (T,) integers.

A position $i$ counts if its token occurred before, $x_j = x_i$ for some $j < i$. What an
induction head looks at from there are the positions *after* those occurrences, $j + 1$ for every
such $j$. Return the mean, over the positions that count, of the weight on all of these
together; 0.0 if none counts.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def induction_weight(weights, tokens):
    """Mean weight on what followed earlier occurrences of the own token."""
    same = np.tril(tokens[:, None] == tokens[None, :], k=-1)  # x_j = x_i, j < i
    counted = same.any(axis=1)
    if not counted.any():
        return 0.0
    after = np.zeros_like(same)
    after[:, 1:] = same[:, :-1]  # j + 1 for every such j
    return (weights * after).sum(axis=1)[counted].mean()


# %% explanation
explanation = r"""
`same[i, j]` is True where the own token occurred before. One column to the right is the position
after each occurrence. If the token stands twice in a row, $j + 1$ is $i$ itself, which a causal
head may look at.

The mean is taken over positions that count: in a text without repetition every head would score
0 otherwise, however good it is. And a high score alone is no proof. In a text of two equal halves a
head that looks a fixed distance back scores as high; texts whose repetitions lie at several
distances tell the two apart.
"""


# %% tests
def causal_rows(rng, T):
    raw = np.tril(rng.random((T, T)) + 0.05)
    return raw / raw.sum(axis=1, keepdims=True)


def tests(rng):
    by_hand = np.array(
        [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.1, 0.7, 0.2, 0], [0.2, 0.3, 0.4, 0.1]], dtype=float
    )
    yield call(by_hand, np.array([5, 8, 5, 8]), visible=True)
    yield call(by_hand, np.array([3, 1, 4, 2]), hint="no token occurs twice")
    yield call(by_hand, np.array([7, 7, 7, 7]), hint="the same token throughout")
    for T, V in ((7, 3), (13, 5), (19, 11)):
        yield call(causal_rows(rng, T), rng.integers(V, size=T), hint="several occurrences")
    half = rng.permutation(23)[:6]
    yield call(causal_rows(rng, 12), np.concatenate([half, half]), hint="two equal halves")


# %% oracle
def oracle(weights, tokens):
    """Position by position, occurrence by occurrence."""
    scores = []
    for i in range(len(tokens)):
        positions = [j + 1 for j in range(i) if tokens[j] == tokens[i]]
        if positions:
            scores.append(sum(float(weights[i, position]) for position in positions))
    return sum(scores) / len(scores) if scores else 0.0


# %% wrong
wrong = {
    "this is the weight on the occurrences themselves; take the position after each": (
        swap("after[:, 1:] = same[:, :-1]", "after = same")
    ),
    "every earlier occurrence counts, not the last one only": swap(
        "    after = ",
        "    last = len(same) - 1 - same[:, ::-1].argmax(axis=1)\n"
        "    same = same & (np.arange(len(same)) == last[:, None])\n    after = ",
    ),
    "the mean runs over all positions; take those whose token occurred before": (
        swap("[counted].mean()", ".mean()")
    ),
    "rows are queries: the map is read transposed here": swap(
        "weights * after", "weights.T * after"
    ),
    "the position after an occurrence is one to its right, not one to its left": (
        swap("after[:, 1:] = same[:, :-1]", "after[:, :-1] = same[:, 1:]")
    ),
    "this is the weight on the position before, whatever stands there": (
        lambda weights, tokens: np.diagonal(weights, -1).mean()
    ),
    "without a repetition the answer is 0.0, not nan": swap("return 0.0", 'return float("nan")'),
}
