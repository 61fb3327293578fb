r"""Two words from one average

One head reads two words with unequal weights: the left one with weight $a$, the right one with
$1 - a$. The values are one-hot vectors of width $V$, and the head returns their average
$y = a\,v_{\text{left}} + (1 - a)\,v_{\text{right}}$. The amounts mark the order.

Write `unmix(y, a)`, which takes the average apart: return the pair `(left, right)` of the words'
indices. `a` lies between 0.001 and 0.999, and differs from ½ by 0.01 or more. The two words may be
the same. Each entry of `y`, a zero too, may be off by a millionth.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("left", "right")


# %% solution
def unmix(y, a):
    """Indices (left, right) of the words with the weights a and 1 − a."""
    first, second = (int(i) for i in np.argsort(y)[::-1][:2])  # the largest first
    if y[first] > 1 - 1e-4:  # both words are the same
        return first, first
    if a > 0.5:
        return first, second
    return second, first


# %% explanation
explanation = r"""
Two words leave the amounts $a$ and $1 - a$. They differ, so the larger amount belongs to the word
that was read with the larger weight. If both words are the same, their amounts add up to 1.

The function compares, sorts and branches. A linear map can do none of these: with one set of
weights for all words, the score of a word is its amount times a constant, so the same word wins for
both questions. A small network with a hidden layer can learn what `unmix` does. And look at the
condition $a \neq \tfrac12$: with equal weights the two amounts are equal, and which word was on the
left is lost.
"""


# %% tests
def mixture(V, left, right, a):
    y = np.zeros(V)
    y[left] += a
    y[right] += 1 - a
    return y, a


def tests(rng):
    yield call(np.array([0.3, 0.0, 0.7]), 0.7, visible=True)
    yield call(np.array([0.0, 1.0, 0.0]), 0.7, visible=True)
    left, right = (int(i) for i in rng.choice(7, size=2, replace=False))
    yield call(*mixture(7, left, right, 0.7), hint="more weight on the left word")
    yield call(*mixture(7, left, right, 0.25), hint="more weight on the right word")
    yield call(*mixture(5, 4, 0, 0.45), hint="the right word has the larger weight")
    yield call(*mixture(5, 3, 3, 0.3), hint="the same word twice, and it stands at index 3")
    yield call(*mixture(5, 0, 0, 0.8), hint="the same word twice, and it stands at index 0")
    yield call(*mixture(11, 2, 9, 0.999), hint="very unequal weights, a = 0.999")
    yield call(*mixture(4, 3, 1, 0.001), hint="very unequal weights, a = 0.001")
    for left, right, a in ((1, 2, 0.6), (2, 2, 0.999), (0, 4, 0.999)):
        y, a = mixture(5, left, right, a)
        noise = 1e-6 * rng.uniform(0.1, 1, size=5) * (-1) ** np.arange(5)
        yield call(y - noise, a, hint="the entries are right to six digits")


# %% oracle
def oracle(y, a):
    """Of all pairs of words the one whose mixture is nearest."""
    pairs = [(i, j) for i in range(len(y)) for j in range(len(y))]
    one_hot = np.eye(len(y))
    return min(pairs, key=lambda p: np.abs(a * one_hot[p[0]] + (1 - a) * one_hot[p[1]] - y).max())


# %% wrong
wrong = {
    "the larger amount is always taken for the left word, also where a is below one half": (
        swap("if a > 0.5", "if a > 0")
    ),
    "left and right are exchanged": (lambda y, a: unmix(y, 1 - a)),
    "when both words are the same, one entry is 1 and there is no second word to find": (
        lambda y, a: tuple(int(i) for i in np.argsort(y)[::-1][:2][:: 1 if a > 0.5 else -1])
    ),
    "the words come in the order of their indices, not in the order of their positions": (
        lambda y, a: tuple(sorted(unmix(y, a)))
    ),
    "the word with the largest amount is named twice": (
        lambda y, a: (int(np.argmax(y)), int(np.argmax(y)))
    ),
    "a word is taken for both when its amount is exactly 1; the entries are right to six digits": (
        swap("y[first] > 1 - 1e-4", "y[first] == 1")
    ),
    "an amount of 0.99 is taken for 1; a may be as near to 1 as 0.999": (swap("1 - 1e-4", "0.985")),
    "an entry is compared with a exactly; the entries are right to six digits only": (
        lambda y, a: tuple(
            int(np.argmax(y == b)) if (y == b).any() else int(np.argmax(y == 1)) for b in (a, 1 - a)
        )
    ),
}
