r"""A bigram model in two lines of numpy

Write `bigram_matrix(ids, vocab_size)`. `ids` is a text of token numbers, an integer array `(N,)`
with every entry below `vocab_size`. Return the matrix `(V, V)` whose row $u$ is the maximum
likelihood estimate

$$
P(w \mid u) = \frac{\#(u\,w)}{\#(u\,\bullet)}.
$$

The row of a token that nothing follows in this text is all zeros, without a warning. Do not write
a loop over the text.
"""

import numpy as np

from unrolled.teaching.exercise import call

kind, level, points = "code", 2, 3


# %% solution
def bigram_matrix(ids, vocab_size):
    """P(w | u) in row u, column w, (V, V), counted from the text ids (N,)."""
    counts = np.zeros((vocab_size, vocab_size))
    np.add.at(counts, (ids[:-1], ids[1:]), 1)  # += would count a repeated pair once
    totals = counts.sum(axis=1, keepdims=True)  # (V, 1), the number of successors
    return np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)


# %% explanation
explanation = r"""
`ids[:-1]` are the contexts and `ids[1:]` what follows them: inputs and targets shifted by one, as
in chapter 1. `counts[ids[:-1], ids[1:]] += 1` looks right and is wrong: numpy reads all the cells,
adds one to each, and writes them back, so a pair that occurs five times gets 1. `np.add.at` adds
once for each occurrence. (So does `np.bincount(ids[:-1] * V + ids[1:], minlength=V * V)`.) The row
sum counts successors, and therefore leaves out the last token of the text, as it must.
"""


# %% tests
def tests(rng):
    yield call(np.array([0, 1, 0, 1, 0, 2]), 3, visible=True)
    for n, vocab_size in [(50, 3), (200, 7), (31, 11)]:
        yield call(rng.integers(vocab_size, size=n), vocab_size)
    yield call(np.array([0, 0, 0, 0, 1]), 2, hint="how often does the pair 0, 0 occur?")
    yield call(np.array([0, 1, 2, 1, 0]), 3, hint="the last token of the text has no successor")
    yield call(np.array([2, 4, 2]), 5, hint="tokens 0, 1 and 3 do not occur")


# %% wrong
def counted(ids, vocab_size):
    counts = np.zeros((vocab_size, vocab_size))
    np.add.at(counts, (ids[:-1], ids[1:]), 1)
    return counts


def normalised(counts, totals):
    return np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)


def added_once(ids, vocab_size):
    counts = np.zeros((vocab_size, vocab_size))
    counts[ids[:-1], ids[1:]] += 1
    return normalised(counts, counts.sum(axis=1, keepdims=True))


def by_occurrences(ids, vocab_size):
    occurrences = np.bincount(ids, minlength=vocab_size)[:, None].astype(float)
    return normalised(counted(ids, vocab_size), occurrences)


def by_column(ids, vocab_size):
    counts = counted(ids, vocab_size)
    return normalised(counts, counts.sum(axis=0, keepdims=True))


def by_word_total(ids, vocab_size):
    counts = counted(ids, vocab_size)
    return normalised(counts, counts.sum(axis=1))


def wrapped(ids, vocab_size):
    counts = np.zeros((vocab_size, vocab_size))
    np.add.at(counts, (ids, np.roll(ids, -1)), 1)
    return normalised(counts, counts.sum(axis=1, keepdims=True))


def uniform_rows(ids, vocab_size):
    matrix = bigram_matrix(ids, vocab_size)
    matrix[matrix.sum(axis=1) == 0] = 1 / vocab_size
    return matrix


def nan_rows(ids, vocab_size):
    counts = counted(ids, vocab_size)
    return counts / counts.sum(axis=1, keepdims=True)


wrong = {
    "`+=` at repeated positions adds only once, so every pair seen counts as 1": added_once,
    "the denominator is #(u), which also counts the last token of the text": by_occurrences,
    "each column sums to one; it must be each row": by_column,
    "totals of shape (V,) divide the columns; each row has its own total, so (V, 1)": by_word_total,
    "the first token is counted as the successor of the last": wrapped,
    "rows and columns are exchanged: row u holds what comes before u": (
        lambda ids, vocab_size: bigram_matrix(ids[::-1], vocab_size)
    ),
    "these are joint probabilities: the whole matrix sums to one, not each row": (
        lambda ids, vocab_size: counted(ids, vocab_size) / (len(ids) - 1)
    ),
    "these are counts, not probabilities": counted,
    "a token without a successor gives 0/0": nan_rows,
    "a token without a successor got the uniform distribution; zeros were asked for": uniform_rows,
}
