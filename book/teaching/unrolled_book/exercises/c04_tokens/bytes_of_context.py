r"""How much context is inside of tokens?

A model with no context ($n = 1$) still predicts the bytes of a token from those that stand before
them in the *same* token. `lengths` holds the lengths in bytes of the tokens of a text, positive
integers. Write `bytes_of_context(lengths)`. Return the mean, over all *bytes* of the text, of how
many bytes of its own token stand before a byte.

Guess before you compute, on paper: with tokens of 1 and 5 bytes in turn, is it nearer to 1.0, 1.7
or 2.5? When the check is content, take `tok` from the chapter and compute it for the validation
plays with 0, 250, 1,000 and 4,000 merges; the solution has the four numbers.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "experiment", 2, 3


# %% solution
def bytes_of_context(lengths):
    """Mean number of bytes before a byte in its own token."""
    lengths = np.asarray(lengths)
    before = lengths * (lengths - 1) / 2
    return float(before.sum() / lengths.sum())


# %% explanation
explanation = r"""
In a token of $\ell$ bytes the bytes have $0, 1, \dots, \ell - 1$ before them, together
$\ell (\ell - 1) / 2$. The sum over tokens is divided by the number of bytes. With 1 and 5 in turn
that is $10 / 6 \approx 1.67$: long tokens hold more of the bytes, so the mean is above 1,
what tokens of 3 bytes would give. On the validation plays it is 0, 0.82, 1.24 and 1.62. Bits per
byte at $n = 1$ fall in the same order, from 4.58 to 2.88.
"""


# %% tests
def tests(rng):
    yield call(np.array([3, 1]), visible=True)
    yield call(np.array([1, 1, 1]), hint="single bytes have nothing before them")
    yield call(np.array([5]), hint="one token")
    yield call(np.array([1, 5, 1, 5]), hint="the mean is over bytes, not over tokens")
    for _ in range(4):
        yield call(rng.integers(1, 9, int(rng.integers(3, 30))))


# %% oracle
def oracle(lengths):
    """List every byte."""
    each = [i for n in lengths for i in range(int(n))]
    return sum(each) / len(each)


# %% wrong
wrong = {
    "the mean is taken over tokens, not over bytes": swap("lengths.sum()", "len(lengths)"),
    "the mean length less one, halved: it forgets that long tokens hold more of the bytes": (
        lambda lengths: float((np.mean(lengths) - 1) / 2)
    ),
    "this is the mean length of a token": lambda lengths: float(np.mean(lengths)),
    "a byte counts itself: every entry is one too large": swap("(lengths - 1)", "(lengths + 1)"),
    "the sum 0 + 1 + … is l (l − 1) / 2; the half is missing": swap(" / 2", ""),
}
