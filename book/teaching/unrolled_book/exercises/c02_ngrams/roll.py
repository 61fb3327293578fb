r"""Roll the die

Write `roll(probs, r)`. `probs` is a distribution over V words, an array `(V,)`, and `r` holds
uniform random numbers with $0 \le r < 1$, an array `(N,)`. Return the words they select, integers
`(N,)`: word $k$ where $r$ falls into the $k$-th piece when the unit interval is cut, from the left,
into pieces as long as the probabilities.

A piece contains its left end and not its right one, so a word of probability zero is never
selected. The chapter's `np.searchsorted(np.cumsum(probs), r, side="right")` is almost the answer.
But `np.cumsum([0.1] * 10)` ends below 1, and an $r$ above its end selects word 10, which is not
there. Your function must be right for every $r$ below 1.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def roll(probs, r):
    """Words (N,) that numbers r (N,) select by the probabilities probs (V,)."""
    edges = np.cumsum(probs)
    found = np.searchsorted(edges, r, side="right")
    return np.minimum(found, np.flatnonzero(probs)[-1])


# %% explanation
explanation = r"""
`edges[k]` is where piece $k$ ends. `searchsorted(..., side="right")` counts the ends that are at or
below $r$, which is the index of the piece that holds $r$. With `side="left"` an $r$ that falls
exactly on an end selects the piece before it: harmless for a random $r$, until $r = 0$ meets a
first word of probability zero. A sum of rounded numbers may end below 1; what it lacks belongs to
the last word that has a probability, not to the last word. To divide by the last end would make
it exactly 1, but it would also move the other ends by a rounding error.
"""


# %% tests
def tests(rng):
    yield call(np.array([0.5, 0.25, 0.25]), np.array([0.1, 0.6, 0.8]), visible=True)
    yield call(np.array([0.1, 0.6, 0.3]), rng.random(11), hint="the pieces stand in word order")
    for n_words in (2, 7, 13):
        yield call(rng.dirichlet(np.ones(n_words)), rng.random(17))
    exact = np.array([0.0, 0.25, 0.25, 0.0, 0.5])
    yield call(exact, np.array([0.0, 0.25, 0.5]), hint="which piece holds its left end?")
    ends = np.array([0.1, 0.2])
    yield call(np.full(10, 0.1), ends, hint="do the inner ends stay where they are?")
    tiny = 2.0**-45
    yield call(np.array([tiny, 1 - 2 * tiny, tiny]), np.array([0.0, 0.5, np.nextafter(1.0, 0.0)]),
               hint="words of tiny probability")  # fmt: skip
    almost_one = np.array([np.nextafter(1.0, 0.0)])
    yield call(np.full(10, 0.1), almost_one, hint="what does np.cumsum([0.1] * 10) end with?")
    probs = np.array([0.1] * 10 + [0.0])
    yield call(probs, almost_one, hint="the last word has probability 0, whatever r is")


# %% oracle
def oracle(probs, r):
    """For each r a walk over the pieces, in fractions, which are not rounded."""
    from fractions import Fraction

    pieces = [Fraction(p) for p in probs.tolist()]
    words = []
    for number in r.tolist():
        word, way = 0, Fraction(number) * sum(pieces)
        while way >= pieces[word]:
            word, way = word + 1, way - pieces[word]
        words.append(word)
    return np.array(words)


# %% wrong
def sorted_first(probs, r):
    order = np.argsort(probs)[::-1]
    return order[roll(probs[order], r)]


wrong = {
    "the sum of rounded numbers ends below 1, and a large r selects a word that is not there": (
        swap("np.minimum(found, np.flatnonzero(probs)[-1])", "found")
    ),
    "what the rounded sum lacks is given to the last word, even where that has probability 0": (
        swap("np.flatnonzero(probs)[-1]", "len(probs) - 1")
    ),
    "the ends are divided by the last one, which moves the inner ones by a rounding error": (
        swap("searchsorted(edges", "searchsorted(edges / edges[-1]")
    ),
    "an r on an edge selects the piece before it; at r = 0 that may be a word of probability 0": (
        swap("right", "left")
    ),
    "r is looked up among the probabilities, not among their running sums": (
        swap("searchsorted(edges", "searchsorted(probs")
    ),
    "the most probable word is returned every time; that is no die": (
        lambda probs, r: np.full(len(r), np.argmax(probs))
    ),
    "every word is given a piece of the same length": (
        lambda probs, r: (r * len(probs)).astype(int)
    ),
    "the first piece is lost: the index counts from one": swap("return ", "return 1 + "),
    "the pieces are laid from the right": (
        swap("cumsum(probs)", "cumsum(probs[::-1])").swap("return ", "return len(probs) - 1 - ")
    ),
    "the words are sorted by probability first; the pieces stand in word order": sorted_first,
    "the answer holds the probabilities of the words, not the words": (
        lambda probs, r: probs[roll(probs, r)]
    ),
}
