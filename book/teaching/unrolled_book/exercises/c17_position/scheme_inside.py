r"""Which scheme is inside?

You are handed a head of attention as a function: `scores(X)` takes rows `X` (T, d), any T from 2
to 32, and returns the scores (T, T) before the softmax, queries in rows. There is no mask. Inside
are a matrix $W = W_q W_k^\top$ of which you know nothing, and one of four things:

- `"none"`: no positions, $x_m W x_n^\top$;
- `"added"`: an encoding is added to the rows before, $(x_m + e_m) W (x_n + e_n)^\top$, waves or
  a learned table;
- `"bias"`: $x_m W x_n^\top + b_{m-n}$, where $b$ is ALiBi's or learned;
- `"rotary"`: query and key are turned by their positions, in either layout.

Write `scheme_inside(scores, d)` that returns the name. You may ask as often as you like, with any
`X`. Mind that for some $W$ waves that are added give the same score along each diagonal, too.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "experiment", 3, 4


# %% solution
def scheme_inside(scores, d):
    """The scheme inside scores: "none", "added", "bias" or "rotary"."""
    X = np.random.default_rng(0).normal(size=(16, d))
    if not np.allclose(scores(X), scores(-X)):
        return "added"  # its mixed terms, word with position, change sign
    if not np.allclose(scores(np.zeros((16, d))), 0):
        return "bias"  # what is left of the scores when the words are nothing
    alone = np.repeat(X[:1], 16, axis=0)  # one row everywhere
    S = scores(alone)
    return "none" if np.allclose(S, S[0, 0]) else "rotary"


# %% explanation
explanation = r"""
Three questions are enough. *What does the sign do?* All terms with two words in them keep their
value when $X$ becomes $-X$; only "added" has terms with one word, $x_m W e_n^\top + e_m W
x_n^\top$, and they change their sign. *What do empty rows give?* With "none" and "rotary" nothing
but zeros; with "bias" the bias itself. *What does the same row at all
positions give?* With "none" the same score everywhere; with "rotary" one for each distance.

To look whether the scores of empty rows are equal along diagonals is the obvious test for "bias",
and it is not enough: for $W = I$ waves pass it, since $PE(m) \cdot PE(n)$ depends on the distance
only. The sign is the safe test.
"""


# %% use
apart = True  # what it is called with tells the answer


def waves(T, d):
    angles = np.multiply.outer(np.arange(T), 10_000 ** (-np.arange(0, d, 2) / d))
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(T, d)


def turn(X, halves):
    T, d = X.shape
    a, b = np.split(X, 2, axis=1) if halves else (X[:, 0::2], X[:, 1::2])
    angles = np.multiply.outer(np.arange(T), 10_000 ** (-np.arange(0, d, 2) / d))
    z = (a + 1j * b) * np.exp(1j * angles)
    return np.concatenate([z.real, z.imag], axis=1)


def head(variant, seed, d):
    """scores(X) of a head with this inside."""
    rng = np.random.default_rng(seed)
    W_q, W_k = rng.normal(size=(2, d, d)) / d**0.5
    table, b = rng.normal(size=(32, d)), rng.normal(size=63)

    def scores(X):
        X = np.array(X, dtype=float)
        T = len(X)
        away = np.subtract.outer(np.arange(T), np.arange(T))
        if variant == "added, waves, W = I":
            X = X + waves(T, d)
            return X @ X.T / d**0.5
        if variant.startswith("added"):
            X = X + (waves(T, d) if "waves" in variant else table[:T])
        q, k = X @ W_q, X @ W_k
        if variant.startswith("rotary"):
            q, k = turn(q, "half" in variant), turn(k, "half" in variant)
        result = q @ k.T / d**0.5
        if variant.startswith("bias"):
            result = result + (-np.abs(away) / 16 if "ALiBi" in variant else b[away + 31])
        return result

    return scores


def use(answer, variant, seed, d):
    return answer(head(variant, seed, d), d)


# %% tests
def show(variant, seed, d):
    return f"scheme_inside(scores, {d})"


def tests(rng):
    variants = [
        "none", "added, table", "added, waves", "added, waves, W = I", "bias, ALiBi",
        "bias, learned", "rotary, interleaved", "rotary, half",
    ]  # fmt: skip
    cases = [(variant, 2 * int(rng.integers(3, 7))) for variant in variants]
    cases += [(variant, 2) for variant in ("bias, ALiBi", "rotary, half", "none", "added, waves")]
    for i in rng.permutation(len(cases)).tolist():
        variant, d = cases[i]
        yield call(variant, int(rng.integers(1000)), d, hint=f"{variant}, with d = {d}")


# %% oracle
def oracle(variant, seed, d):
    """What was built in."""
    return variant.split(",")[0]


# %% wrong
def by_diagonals(scores, d):
    empty = scores(np.zeros((16, d)))
    if np.allclose(empty, 0):
        return scheme_inside(scores, d)
    return "bias" if np.allclose(empty[1:, 1:], empty[:-1, :-1]) else "added"


def by_one_row(scores, d):
    X = np.repeat(np.random.default_rng(0).normal(size=(1, d)), 16, axis=0)
    S = scores(X)
    if np.allclose(S, S[0, 0]):
        return "none"
    if not np.allclose(S[1:, 1:], S[:-1, :-1]):
        return "added"
    return "bias" if np.allclose(S, S.T) else "rotary"


wrong = {
    "with W = I added waves are equal along diagonals, too, and pass for a bias": by_diagonals,
    "empty rows give 0 with rotary as without positions; look at other rows, too": (
        swap('else "rotary"', 'else "none"')
    ),
    "the same row everywhere shows a bias and a rotation alike": by_one_row,
    "reversing the rows does not show ALiBi, which is symmetric without a mask": (
        swap(
            "    if not",
            "    if np.allclose(scores(X[::-1]), scores(X)[::-1, ::-1]):\n"
            '        return "none"\n    if not',
            2,
        )
    ),
    "this says none, whatever is inside": lambda scores, d: "none",
    "the answer is one of the four names, in lower case": (
        lambda scores, d: scheme_inside(scores, d).upper()
    ),
}
