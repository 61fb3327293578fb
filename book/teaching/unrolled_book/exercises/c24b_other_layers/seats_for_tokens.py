r"""Who finds a seat?

`experts` `(N, k)` holds the k different experts that each of N tokens chose, the first choice
first. Each of `n_experts` has `seats` seats. All first choices are seated before any second choice,
and so on; within one rank the tokens come in their order. Write
`seats_for_tokens(experts, n_experts, seats)`; it returns a boolean array `(N, k)`, True where the
choice finds a seat. There may be no token, and no seat. Do not change `experts`.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def seats_for_tokens(experts, n_experts, seats):
    """bool (N, k): which choices find a seat."""
    taken = np.zeros(n_experts, dtype=int)
    kept = np.zeros(experts.shape, dtype=bool)
    for j in range(experts.shape[1]):
        for n in range(experts.shape[0]):
            i = experts[n, j]
            if taken[i] < seats:
                kept[n, j] = True
                taken[i] += 1
    return kept


# %% explanation
explanation = r"""
The outer loop runs over ranks, the inner one over tokens. With the loops exchanged, a second choice
of an early token could take the seat of a later token's first choice.

The library does the same without a loop: it writes the choices in turn, k·N of them, as rows of a
one-hot matrix. The cumulative sum down a column counts how many have asked for this expert before,
and a choice is kept where that number is below the capacity. (A choice that is turned away is
counted too, but behind it everybody is turned away as well.)
"""


# %% tests
def tests(rng):
    yield call(np.array([[1, 0], [1, 2], [1, 0], [2, 0]]), 3, 1, visible=True)
    yield call(np.array([[1, 0], [0, 1]]), 2, 1, hint="a second choice of token 0 comes too late")
    yield call(np.zeros((0, 2), dtype=int), 3, 2, hint="no token")
    yield call(np.array([[0, 1], [1, 0]]), 2, 0, hint="no seat")
    yield call(np.array([[3], [3], [3]]), 5, 2, hint="one choice, experts nobody wants")
    for n, k, e, seats in [(11, 2, 5, 3), (7, 3, 4, 4), (13, 1, 3, 4), (5, 5, 5, 2)]:
        yield call(np.argsort(rng.random((n, e)), axis=1)[:, :k], e, seats)


# %% oracle
def oracle(experts, n_experts, seats):
    """Counting, for each choice, those before it that want the same expert."""
    N, k = experts.shape
    turn = [(j, n) for j in range(k) for n in range(N)]
    kept = np.zeros((N, k), dtype=bool)
    for at, (j, n) in enumerate(turn):
        kept[n, j] = sum(experts[m, i] == experts[n, j] for i, m in turn[:at]) < seats
    return kept


# %% wrong
wrong = {
    "first choices of all tokens come before second ones": (
        lambda experts, n_experts, seats: _token_by_token(experts, n_experts, seats)
    ),
    "an expert takes as many as it has seats, not one more": swap(
        "taken[i] < seats", "taken[i] <= seats"
    ),
    "the seats of each expert are counted, not those of all together": swap(
        "taken[i] < seats", "taken.sum() < seats"
    ),
    "second choices take seats, too": swap("taken[i] += 1", "taken[i] += j == 0"),
    "second choices have no seats of their own": swap(
        "    for j in range(experts.shape[1]):\n",
        "    for j in range(experts.shape[1]):\n        taken[:] = 0\n",
    ),
    "within one rank the first tokens are seated, not the last": swap(
        "range(experts.shape[0])", "reversed(range(experts.shape[0]))"
    ),
    "True is where a choice finds a seat": swap("return kept", "return ~kept"),
    "a token may sit at all its experts, not only at the first one free": swap(
        "if taken[i] < seats", "if taken[i] < seats and not kept[n].any()"
    ),
    "the last choice is left out": swap("range(experts.shape[1])", "range(experts.shape[1] - 1)"),
}


def _token_by_token(experts, n_experts, seats):
    taken = np.zeros(n_experts, dtype=int)
    kept = np.zeros(experts.shape, dtype=bool)
    for n in range(experts.shape[0]):
        for j in range(experts.shape[1]):
            i = experts[n, j]
            kept[n, j] = taken[i] < seats
            taken[i] += kept[n, j]
    return kept
