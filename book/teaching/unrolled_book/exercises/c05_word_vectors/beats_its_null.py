r"""Does it beat its null?

For $n$ words you have the cosine to the nearest neighbour in a text, `real` of shape `(n,)`, and
the same in $s$ shuffled copies of the text, `shuffled` of shape `(s, n)`. If the order did not
matter, the real number would be as likely as each of the $s$ others to be the largest. So each
word gets the **p-value**

$$
p = \frac{1 + \text{number of shuffled cosines} \ge \text{real}}{1 + s} .
$$

Write `beats_its_null(real, shuffled)`. Return a pair: the p-values `(n,)`, and the share of words
with $p \le 0.05$ as a float. A $p$ of exactly $1/20$ counts. Compute it as written: in floating
point $1 - 19/20$ is a little more than 0.05.

How many shuffles do you need at least before *any* word can reach $p \le 0.05$? And if no neighbour
means anything, which share of the words do you still expect?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "experiment", 2, 3
outputs = ("p-values", "share")


# %% solution
def beats_its_null(real, shuffled):
    """p-values (n,) of real (n,), shuffled (s, n); share of p ≤ 0.05."""
    at_least = (shuffled >= real).sum(axis=0)  # (n,)
    p = (1 + at_least) / (1 + len(shuffled))
    return p, float(np.mean(p <= 0.05))


# %% explanation
explanation = r"""
Each word is compared with its *own* shuffled cosines: a common word has a high null, a rare one a
low one, and one threshold for all would judge frequency.

The real text counts itself, which gives the 1 above and below the line: no p-value is 0. The
smallest is $1 / (1 + s)$, so 19 shuffles are needed. And under the null up to 5% of the words
pass by luck. A share near 5% says nothing, whatever the words are called.
"""


# %% tests
def tests(rng):
    yield call(np.array([0.9, 0.5]), np.array([[0.6, 0.7], [0.8, 0.5], [0.7, 0.4]]), visible=True)
    for s, m in ((17, 13), (18, 23), (19, 30), (39, 11), (99, 7)):
        null = np.round(rng.uniform(0.3, 0.8, (s, m)), 2)
        yield call(np.round(rng.uniform(0.5, 0.95, m), 2), null)
    ties = np.full((19, 3), 0.5)
    yield call(np.array([0.4, 0.5, 0.6]), ties, hint="ties")
    yield call(np.array([0.9]), np.array([[0.1]]), hint="one shuffle is too few")


# %% oracle
def oracle(real, shuffled):
    """One word and one shuffle at a time, with fractions."""
    from fractions import Fraction

    found = []
    for j, value in enumerate(real.tolist()):
        column = [row[j] for row in shuffled.tolist()]
        found.append(Fraction(1 + sum(not x < value for x in column), 1 + len(column)))
    passed = sum(p <= Fraction(1, 20) for p in found)
    return np.array([float(p) for p in found]), passed / len(found)


# %% wrong
wrong = {
    "the real text does not count itself: a p-value of 0 claims too much": (
        swap("(1 + at_least) / (1 + len(shuffled))", "at_least / len(shuffled)")
    ),
    "the 1 is missing below the line": swap("(1 + len(shuffled))", "len(shuffled)"),
    "a shuffled cosine that is equal is not beaten": swap("shuffled >= real", "shuffled > real"),
    "the smaller ones were counted": swap("shuffled >= real", "shuffled <= real"),
    "the sum runs over the words, not over the shuffles": (
        swap("    at_least = (shuffled >= real).sum(axis=0)  # (n,)",
             "    at_least = (shuffled >= real).sum() / len(real)\n"
             "    at_least = at_least + 0 * real")
    ),
    "all words are held against one null, that of all words together": (
        swap("(shuffled >= real).sum(axis=0)",
             "(shuffled[:, :, None] >= real).sum(axis=(0, 1)) / shuffled.shape[1]")
    ),
    "this is the share of words that fail": swap("np.mean(p <= 0.05)", "np.mean(p > 0.05)"),
    "the bound is 0.05, not 0.06": swap("p <= 0.05", "p < 0.06"),
    "p = 0.05 still passes": swap("p <= 0.05", "p < 0.05"),
}  # fmt: skip
