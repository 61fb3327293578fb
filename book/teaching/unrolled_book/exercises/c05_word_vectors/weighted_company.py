r"""Near company counts more

A neighbour at distance 1 tells more about a word than one at distance 5. GloVe therefore adds $1 /
d$ for a pair of words that stand $d$ positions apart.

Write `weighted_company(tokens, vocab_size, window)`. `tokens` is one text as an integer array
`(n,)`. Return the table `(vocab_size, vocab_size)` in which the pair $(w, c)$ has the sum of $1/d$
over all pairs of positions at a distance $d$ from 1 to `window`, with token $w$ at one position and
$c$ at the other. A text may be shorter than the window, or empty.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def weighted_company(tokens, vocab_size, window):
    """(V, V): the sum of 1/d over pairs of positions at distance d ≤ window."""
    table = np.zeros((vocab_size, vocab_size))
    for d in range(1, window + 1):
        left, right = tokens[:-d], tokens[d:]
        near = 1 / d
        np.add.at(table, (left, right), near)
        np.add.at(table, (right, left), near)
    return table


# %% explanation
explanation = r"""
Shift the text against itself by $d$: `tokens[:-d]` and `tokens[d:]` are all pairs at that distance,
and one loop over distances replaces two over positions. For a text shorter than $d$ both are empty.

`np.add.at` adds once for each pair. `table[left, right] += 1 / d` looks the same and adds only
once for pairs that occur several times. Each pair of positions stands in two cells, since each
word is the other's context.
"""


# %% tests
def tests(rng):
    yield call(np.array([0, 1, 0, 2]), 3, 2, visible=True)
    yield call(np.array([1, 1, 1, 1]), 2, 3, hint="a word beside itself")
    yield call(np.array([2, 0]), 3, 5, hint="a text shorter than the window")
    yield call(np.array([], dtype=int), 2, 1, hint="an empty text")
    yield call(rng.integers(0, 5, 40), 7, 4)


# %% oracle
def oracle(tokens, vocab_size, window):
    """All pairs of positions, one after the other."""
    table = [[0.0] * vocab_size for _ in range(vocab_size)]
    for i, word in enumerate(tokens):
        for j, context in enumerate(tokens):
            if i != j and abs(i - j) <= window:
                table[word][context] += 1 / abs(i - j)
    return np.array(table)


# %% wrong
wrong = {
    "pairs that occur several times were added once; use np.add.at": (
        swap(
            "        np.add.at(table, (left, right), near)\n"
            "        np.add.at(table, (right, left), near)",
            "        table[left, right] += near\n        table[right, left] += near",
        )
    ),
    "only the words to the right are counted as company": (
        swap("        np.add.at(table, (right, left), near)\n", "")
    ),
    "every neighbour counts 1, whatever its distance": swap("near = 1 / d", "near = 1"),
    "far neighbours count more than near ones": swap("near = 1 / d", "near = d"),
    "the last distance is missing": swap("range(1, window + 1)", "range(1, window)"),
    "1 / d² was added": swap("near = 1 / d", "near = 1 / d**2"),
}
