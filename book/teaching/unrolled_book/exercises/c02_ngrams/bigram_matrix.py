r"""Bigrams that stay within their lines

The chapter ran all lines into one stream, so that the last token of one line was followed by the
first of the next. Poems in a collection, or answers to a survey, have no such order. Write
`bigram_matrix(lines, vocab_size, end)` for texts that are independent.

`lines` is a list of integer arrays of token numbers below `vocab_size`, some of them perhaps empty;
each is closed by the token `end`, which is among the `vocab_size` and does not occur within a line.
Return the matrix `(V, V)` whose row $u$ holds the maximum likelihood estimate
$P(w \mid u) = \#(u\,w) / \#(u\,\bullet)$, counted within lines only. The row of a token that
nothing follows, such as `end`, is all zeros.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def bigram_matrix(lines, vocab_size, end):
    """P(w | u) in row u, column w, (V, V), from lines of ids, each (n,)."""
    counts = np.zeros((vocab_size, vocab_size))
    for line in lines:
        closed = np.append(line, end).astype(int)
        np.add.at(counts, (closed[:-1], closed[1:]), 1)
    total = counts.sum(axis=1, keepdims=True)  # (V, 1)
    return np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)


# %% explanation
explanation = r"""
`closed[:-1]` are the contexts and `closed[1:]` what follows them: inputs and targets shifted by
one, as in chapter 1. `counts[closed[:-1], closed[1:]] += 1` looks right and is wrong: numpy reads
all the cells, adds one to each, and writes them back, so a pair that occurs five times in the line
gets 1. `np.add.at` adds once for each occurrence. An empty line holds no pair; without a start
symbol it leaves no trace, which is one reason why models of lines are usually given one.
"""


# %% tests
def tests(rng):
    yield call([np.array([0, 1, 0, 1]), np.array([1, 1])], 3, 2, visible=True)
    for n_lines, vocab_size in [(5, 3), (11, 7), (2, 13)]:
        lines = [rng.integers(vocab_size - 1, size=rng.integers(1, 17)) for _ in range(n_lines)]
        yield call(lines, vocab_size, vocab_size - 1)
    repeated = np.array([1, 1, 1, 1, 1, 2])
    yield call([repeated], 3, 0, hint="how often does the pair 1, 1 occur?")
    yield call([np.array([2, 4, 2]), np.array([], dtype=int)], 5, 0, hint="one line is empty")
    yield call([np.array([0, 1])], 5, 2, hint="the tokens 3 and 4 do not occur")
    short = [np.array([1]), np.array([2]), np.array([1, 2])]
    yield call(short, 4, 3, hint="no pair reaches from one line into the next")


# %% oracle
def oracle(lines, vocab_size, end):
    """Row by row: list what follows u, then count w in the list."""
    from itertools import pairwise

    pairs = [pair for line in lines for pair in pairwise([*line.tolist(), end])]
    matrix = np.zeros((vocab_size, vocab_size))
    for u in range(vocab_size):
        after = [w for before, w in pairs if before == u]
        for w in after:
            matrix[u, w] = after.count(w) / len(after)
    return matrix


# %% wrong
def mean_of_lines(lines, vocab_size, end):
    return np.mean([bigram_matrix([line], vocab_size, end) for line in lines], axis=0)


wrong = {
    "`+=` at repeated cells adds only once, so a pair repeated in a line counts once": swap(
        "np.add.at(counts, (closed[:-1], closed[1:]), 1)", "counts[closed[:-1], closed[1:]] += 1"
    ),
    "the end of one line is followed by the first token of the next": swap(
        "in lines:", "in [np.concatenate([np.append(line, end) for line in lines])[:-1]]:"
    ),
    "the lines are not closed by `end`, so that nothing says where a line may stop": (
        swap("np.append(line, end)", "line")
    ),
    "the denominator counts all tokens, but the pairs with `end` are left out; rows leak": (
        swap("    return", "    counts[:, end] = 0\n    return")
    ),
    "a start symbol was put in front of each line, so that the row of `end` is filled": (
        swap("np.append(line, end)", "np.concatenate([[end], line, [end]])")
    ),
    "each column sums to one; it must be each row": swap("axis=1", "axis=0"),
    "totals of shape (V,) divide the columns; each row has its own total, so (V, 1)": (
        swap(", keepdims=True", "")
    ),
    "each line was normalised alone and the tables averaged; a short line counts no more than its "
    "pairs": mean_of_lines,
    "rows and columns are exchanged: row u holds what comes before u": (
        swap("(closed[:-1], closed[1:])", "(closed[1:], closed[:-1])")
    ),
    "these are counts, not probabilities": swap("    return", "    return counts\n    return"),
    "a token without a successor gives 0/0": (
        swap(", out=np.zeros_like(counts), where=total > 0", "")
    ),
    "a token without a successor got the uniform distribution; zeros were asked for": (
        swap("np.zeros_like(counts)", "np.full_like(counts, 1 / vocab_size)")
    ),
}
