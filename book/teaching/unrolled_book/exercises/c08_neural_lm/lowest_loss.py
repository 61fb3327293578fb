r"""The lowest loss that is possible

A network that reads `contexts`, integers of shape `(N, n)`, gives the same distribution to equal
contexts. So where the same context is followed by different targets, its loss cannot be zero,
however good the network is.

Write `lowest_loss(contexts, targets)`, with `targets` of shape `(N,)`: the lowest mean loss, in
nats per row, that any function of the context can reach on these $N$ rows.
"""

import math

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def lowest_loss(contexts, targets):
    """Mean loss in nats of the best distribution after each context."""
    from collections import Counter

    keys = [tuple(row) for row in contexts.tolist()]
    seen = Counter(keys)
    pairs = Counter(zip(keys, targets.tolist(), strict=True))
    total = sum(n * math.log(n / seen[key]) for (key, _), n in pairs.items())
    return -total / len(targets)


# %% explanation
explanation = r"""
After each context the best distribution is that of the counts, by chapter 2's derivation of
maximum likelihood: the rows with this context and this target, divided by all rows with this
context. The mean of $-\ln$ of that over all rows is the conditional entropy of this sample.

Every row counts once, so a context that stands ten times weighs ten times as much as one that
stands once. A network that is far above this number on a batch that it has seen a thousand times
has a bug, or too few parameters.
"""


# %% tests
def tests(rng):
    yield call(np.array([[1, 2], [1, 2], [1, 2], [3, 1]]), np.array([5, 5, 6, 5]), visible=True)
    for N, n, V in ((30, 2, 3), (50, 1, 4), (80, 3, 2)):
        yield call(rng.integers(0, V, (N, n)), rng.integers(0, V, N) ** 2 % V)
    yield call(np.array([[4, 4]]), np.array([4]), hint="a single row")
    yield call(np.array([[1, 2], [2, 1], [1, 2]]), np.array([0, 1, 0]), hint="the order of words")
    contexts = np.array([[1, 12], [11, 2], [2, 2]])
    yield call(contexts, np.array([0, 1, 1]), hint="each context comes once")


# %% oracle
def oracle(contexts, targets):
    """Row by row: how often do rows with this context have this target?"""
    total = 0.0
    for row, target in zip(contexts, targets, strict=True):
        same = (contexts == row).all(axis=1)
        total -= np.log(np.mean(targets[same] == target))
    return total / len(targets)


# %% wrong
wrong = {
    "this is the entropy of the targets alone: the context was not used": (
        swap("[tuple(row) for row in contexts.tolist()]", "[() for row in contexts.tolist()]")
    ),
    "each context counts the same here; but every row counts once": swap(
        "sum(n * math.log(n / seen[key]) for (key, _), n in pairs.items())\n"
        "    return -total / len(targets)",
        "sum(n / seen[key] * math.log(n / seen[key]) for (key, _), n in pairs.items())\n"
        "    return -total / len(seen)",
    ),
    "this is the sum over the rows; the mean was asked": swap(" / len(targets)", ""),
    "these are bits, not nats": swap("math.log(", "math.log2("),
    "each pair of context and target counts once, however often it stands": (
        swap("sum(n * math", "sum(math")
    ),
    "the words of a context were sorted: (1, 2) and (2, 1) are different contexts": (
        swap("tuple(row)", "tuple(sorted(row))")
    ),
    "only the last word of the context was used": swap("tuple(row)", "row[-1]"),
    "the commonest target gets the probability 1: then any other costs infinitely much": swap(
        "    return -total / len(targets)",
        "    return 0.0 if len(pairs) == len(seen) else math.inf",
    ),
    "the probability of the pair, not of the target after the context": (
        swap("n / seen[key]", "n / len(keys)")
    ),
}
