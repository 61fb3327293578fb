r"""How often do the arrows cross?

Two words of a translation *cross* if the one that is written first points to a later position of
the source. Write `crossings(weights)` for the weights `(T, S)` of one translation: each output
position points to its largest weight (of equal ones the first), and the result is the number of
pairs of output positions $t < u$ whose arrows cross, that is, where $t$ points behind $u$'s
position. Two arrows to one position do not cross. Return an `int`.

With *ein und zwanzig* → *twenty one* there is one crossing. How many have you to expect in a
number of nine digits, if each of its three groups has units and tens?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def crossings(weights):
    """The number of pairs of output positions whose arrows cross."""
    where = weights.argmax(axis=1)  # (T,)
    return int(np.triu(where[:, None] > where[None], k=1).sum())


# %% explanation
explanation = r"""
Row $t$, column $u$ of the comparison says whether $t$ points behind $u$; the part above the
diagonal holds the pairs $t < u$. In a number of nine digits each group swaps its units and tens
once: three crossings, if every word points to its own. Words without a counterpart, such as
*and*, may add some.
"""


# %% tests
def tests(rng):
    yield call(np.array([[0.1, 0.0, 0.9], [0.8, 0.1, 0.1]]), visible=True)
    yield call(np.eye(int(rng.integers(3, 7))), hint="nothing crosses")
    yield call(np.eye(int(rng.integers(3, 9)))[::-1].copy(), hint="everything crosses")
    yield call(np.array([[0.2, 0.8], [0.3, 0.7], [0.4, 0.6]]), hint="all point to one position")
    yield call(np.array([[1.0]]), hint="one word")
    yield call(np.array([[0.5, 0.5], [0.0, 1.0], [0.5, 0.5]]), hint="equal weights: the first")
    for T, S in [(7, 5), (5, 11), (6, 6), (9, 4)]:
        yield call(rng.dirichlet(np.ones(S), size=T))


# %% oracle
def oracle(weights):
    """Pair by pair."""
    where = [list(row).index(max(row)) for row in weights]
    return sum(where[t] > where[u] for t in range(len(where)) for u in range(t + 1, len(where)))


# %% wrong
wrong = {
    "all pairs with different positions are counted, in both orders: look at t < u only": (
        lambda weights: int((weights.argmax(1)[:, None] != weights.argmax(1)).sum())
    ),
    "the pairs t > u count too: the part below the diagonal has to go": swap(
        "np.triu(where[:, None] > where[None], k=1).sum()", "(where[:, None] > where[None]).sum()"
    ),
    "these are positions jumped over, not pairs of arrows": (
        lambda weights: int(np.maximum(0, -np.diff(weights.argmax(1))).sum())
    ),
    "this counts the pairs that do not cross": swap(
        "where[:, None] > where[None]", "where[:, None] < where[None]"
    ),
    "two arrows to one position do not cross": swap(
        "where[:, None] > where[None]", "where[:, None] >= where[None]"
    ),
    "rows are output positions: the largest weight of each row is asked for": swap(
        "argmax(axis=1)", "argmax(axis=0)"
    ),
    "only neighbouring words are compared; words far apart cross too": (
        lambda weights: int((np.diff(weights.argmax(1)) < 0).sum())
    ),
    "the arrow starts at the largest weight, not at the smallest": swap("argmax", "argmin"),
    "of equal weights take the first": (
        lambda weights: int(
            np.triu(
                (weights.shape[1] - 1 - weights[:, ::-1].argmax(1))[:, None]
                > (weights.shape[1] - 1 - weights[:, ::-1].argmax(1)),
                k=1,
            ).sum()
        )
    ),
}
