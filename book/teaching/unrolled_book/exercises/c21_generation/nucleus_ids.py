r"""The nucleus, to the letter

Write `nucleus_ids(probs, p)`: the ids of the nucleus of one distribution `probs`, $(V,)$, not
sorted, for $0 < p \le 1$. Return them as a list, the likeliest first; of equally likely tokens the
one with the smaller id comes first.

A token belongs to the nucleus if the probability of all tokens *before* it in this order is less
than $p$. Sums of floats are not exact: $0.6 + 0.3$ gives a number slightly *below* 0.9. Count a sum
that is within $10^{-9}$ of $p$ as equal to it.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def nucleus_ids(probs, p):
    """Ids of the nucleus of probs (V,), the likeliest first."""
    order = np.argsort(-probs, kind="stable")  # of equal ones the first
    before = np.cumsum(probs[order]) - probs[order]
    keep = before < p - 1e-9
    return order[keep].tolist()


# %% explanation
explanation = r"""
The probability *before* a token decides, so the token that crosses the mark is kept and the one
after it is not. Asking whether the sum *with* the token is at most $p$ loses the crossing token,
and at a place where one token has 0.95 it loses everything.

The margin answers for the floats: 0.6, 0.3, 0.1 with $p = 0.9$ must keep two tokens, but
`0.6 + 0.3 < 0.9` is true in floats, and the third would come along. `argsort` without
`kind="stable"` may put equal tokens in any order.
"""


# %% tests
def tests(rng):
    yield call(np.array([0.09, 0.5, 0.41]), 0.9, visible=True)
    order = rng.permutation(3)
    yield call(np.array([0.1, 0.6, 0.3])[order], 0.9, hint="0.6 + 0.3 is 0.9 but for rounding")
    yield call(rng.permutation([0.02, 0.95, 0.03]), 0.9, hint="one token is enough")
    yield call(np.array([0.2, 0.3, 0.5]), 0.75, hint="the likeliest stands last")
    yield call(np.full(50, 0.02), 0.5, hint="all are equally likely")
    yield call(
        rng.permutation(np.tile([0.012, 0.028], 25)), 0.6, hint="many equal ones in two groups"
    )
    yield call(np.array([0.9 - 5e-10, 0.06, 0.04])[order], 0.9, hint="5e-10 below p counts as p")
    yield call(np.array([0.9 - 1e-7, 0.06, 0.04])[order], 0.9, hint="1e-7 below p is below")
    yield call(np.array([0.25, 0.25, 0.25, 0.25]), 0.25, hint="the first alone has p")
    yield call(np.array([0.5, 0.0, 0.5]), 1.0, hint="p = 1, and a token that cannot come")
    yield call(np.array([1.0]), 0.3, hint="a vocabulary of one")
    for n in (7, 30):
        probs = rng.dirichlet(np.full(n, 0.4))
        yield call(probs, float(rng.uniform(0.2, 0.95)), hint="drawn at random")


# %% oracle
def oracle(probs, p):
    """In exact fractions of the printed decimals, token after token."""
    from fractions import Fraction

    exact = [Fraction(round(float(x) * 10**14), 10**14) for x in probs]
    ids = sorted(range(len(exact)), key=lambda i: (-float(probs[i]), i))
    mark, before, kept = Fraction(round(p * 10**14), 10**14) - Fraction(1, 10**9), Fraction(0), []
    for i in ids:
        if before < mark:
            kept.append(i)
        before += exact[i]
    return kept


# %% wrong
def until_it_is_full(probs, p):
    kept, total = [], 0.0
    for i in np.argsort(-probs, kind="stable").tolist():
        if total + probs[i] > p + 1e-9:
            break
        kept.append(i)
        total += probs[i]
    return kept


wrong = {
    "the token that crosses p is lost: what counts is the probability before it": (
        until_it_is_full
    ),
    "a token stays while the sum with it is below p; the crossing one is lost, one alone too": (
        swap("before < p - 1e-9", "before + probs[order] < p - 1e-9")
    ),
    "one token too many: a sum that has reached p is enough": swap("before < p - 1e-9",
        "before <= p + 1e-9"),
    "0.6 + 0.3 is a little below 0.9 in floats: the margin is missing": swap(" - 1e-9", ""),
    "the probabilities have to be sorted first, the largest in front": (
        swap('np.argsort(-probs, kind="stable")', "np.arange(len(probs))")
    ),
    "the least likely tokens come first": (
        swap('np.argsort(-probs, kind="stable")', 'np.argsort(probs, kind="stable")')
    ),
    "of equally likely tokens the one with the smaller id comes first": (
        swap('np.argsort(-probs, kind="stable")', 'np.argsort(probs, kind="stable")[::-1]')
    ),
    "these are places in the sorted list; the tokens' own ids are asked for": (
        swap("order[keep].tolist()", "np.flatnonzero(keep).tolist()")
    ),
    "the ids stand in the order of the vocabulary, not the likeliest first": (
        swap("order[keep].tolist()", "sorted(order[keep].tolist())")
    ),
}  # fmt: skip
