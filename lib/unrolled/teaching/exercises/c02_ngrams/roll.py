r"""Roll the die

Write `roll(probs, u)`. `probs` is a distribution over V words, an array `(V,)`, and `u` holds
uniform random numbers with $0 \le u < 1$, an array `(N,)`. Return the words they select, integers
`(N,)`: word $k$ where $u$ falls into the $k$-th piece when the unit interval is cut, from the left,
into pieces as long as the probabilities.

A piece contains its left end and not its right one, so a word of probability zero is never
selected. And mind what the computer does to `np.cumsum([0.1] * 10)`: no $u$ below one may select a
word that is not there.
"""

import numpy as np

from unrolled.teaching.exercise import call

kind, level, points = "code", 1, 2


# %% solution
def roll(probs, u):
    """Words (N,) that the uniform numbers u (N,) select by the probabilities probs (V,)."""
    edges = np.cumsum(probs)
    return np.searchsorted(edges / edges[-1], u, side="right")


# %% explanation
explanation = r"""
`edges[k]` is where piece $k$ ends. `searchsorted(..., side="right")` counts the ends that are at or
below $u$, which is the index of the piece that holds $u$. With `side="left"` a $u$ that falls
exactly on an end selects the piece before it: harmless for a random $u$, until $u = 0$ meets a
first word of probability zero. The division makes the last end exactly 1, which a sum of rounded
numbers need not be.
"""


# %% tests
def tests(rng):
    yield call(np.array([0.5, 0.25, 0.25]), np.array([0.1, 0.6, 0.8]), visible=True)
    yield call(np.array([0.1, 0.6, 0.3]), rng.random(11), hint="the pieces stand in word order")
    for n_words in (2, 7, 13):
        yield call(rng.dirichlet(np.ones(n_words)), rng.random(17))
    exact = np.array([0.0, 0.25, 0.25, 0.0, 0.5])
    yield call(exact, np.array([0.0, 0.25, 0.5]), hint="which piece holds its left end?")
    almost_one = np.array([np.nextafter(1.0, 0.0)])
    yield call(np.full(10, 0.1), almost_one, hint="what does np.cumsum([0.1] * 10) end with?")


# %% wrong
def from_the_right(probs, u):
    edges = np.cumsum(probs[::-1])
    return len(probs) - 1 - np.searchsorted(edges / edges[-1], u, side="right")


def sorted_first(probs, u):
    order = np.argsort(probs)[::-1]
    return order[roll(probs[order], u)]


wrong = {
    "the sum of rounded numbers ends below 1, and a large u selects a word that is not there": (
        lambda probs, u: np.searchsorted(np.cumsum(probs), u, side="right")
    ),
    "a u on the border selects the piece before it; at u = 0 that may be a word of probability 0": (
        lambda probs, u: np.searchsorted(np.cumsum(probs) / probs.sum(), u, side="left")
    ),
    "u is looked up among the probabilities, not among their running sums": (
        lambda probs, u: np.searchsorted(probs, u, side="right")
    ),
    "the most probable word is returned every time; that is no die": (
        lambda probs, u: np.full(len(u), np.argmax(probs))
    ),
    "every word is given a piece of the same length": (
        lambda probs, u: (u * len(probs)).astype(int)
    ),
    "the first piece is lost: the index counts from one": (lambda probs, u: roll(probs, u) + 1),
    "the pieces are laid from the right": from_the_right,
    "the words are sorted by probability first; the pieces stand in word order": sorted_first,
    "the answer holds the probabilities of the words, not the words": (
        lambda probs, u: probs[roll(probs, u)]
    ),
}
