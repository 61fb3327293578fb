r"""Stop at the end

A batch of sequences is padded to one length. Write `final_states(x, lengths, W_xh, W_hh, b_h)`: run
an Elman network with tanh over it and return each sequence's state after its *own* last item,
`(B, H)`. The states begin at zero, and a sequence of length 0 keeps that state.

`x` is `(B, T, D)`, `lengths` holds B integers from 0 to T, and the items of a sequence stand on the
left. Behind its end `x` may hold anything, even not a number. Numpy, no torch.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def final_states(x, lengths, W_xh, W_hh, b_h):
    """The state (B, H) of each sequence after its own last item."""
    h = np.zeros((len(x), len(b_h)))
    for t in range(x.shape[1]):
        new = np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h)
        h = np.where(t < lengths[:, None], new, h)
    return h


# %% explanation
explanation = r"""
The whole batch takes every step. A sequence that has ended throws the new state away and keeps the
old one. `np.where` chooses; a product such as `mask * new + (1 - mask) * h` would not do, since 0
times "not a number" is not a number.

It is the same to run all steps, keep all states, and pick for each sequence the one at
`lengths - 1`; then length 0 needs a case of its own. What never works is the last column: by then
the shorter sequences have read padding.
"""


# %% tests
def batch(rng, lengths, width, D, H, padding):
    x = rng.normal(size=(len(lengths), width, D))
    x[np.arange(width) >= np.array(lengths)[:, None]] = padding
    weights = rng.normal(size=(D, H)), rng.normal(size=(H, H)), rng.normal(size=H)
    return x, np.array(lengths), *weights


def tests(rng):
    one = np.array([[1.0]])
    x = np.array([[[1.0], [0.0]], [[1.0], [9.0]]])
    yield call(x, np.array([2, 1]), one, one, np.array([0.0]), visible=True)
    yield call(*batch(rng, [4, 2, 3], 4, 2, 3, 0.0), hint="the second sequence has two items")
    yield call(*batch(rng, [2, 5, 3], 7, 3, 5, 7.0), hint="no sequence reaches the last column")
    yield call(*batch(rng, [1, 3], 3, 2, 3, np.nan), hint="the padding holds nan here")
    yield call(*batch(rng, [0, 2], 2, 3, 2, 1.0), hint="the first sequence is empty")


# %% oracle
def oracle(x, lengths, W_xh, W_hh, b_h):
    """Each sequence alone, cut to its length, number by number."""
    import math

    D, H = len(W_xh), len(b_h)
    states = []
    for sequence, length in zip(x, lengths, strict=True):
        h = [0.0] * H
        for item in sequence[: int(length)]:
            a = [
                b_h[j]
                + sum(item[i] * W_xh[i][j] for i in range(D))
                + sum(h[i] * W_hh[i][j] for i in range(H))
                for j in range(H)
            ]
            h = [math.tanh(value) for value in a]
        states.append(h)
    return np.array(states)


# %% wrong
def multiplied(x, lengths, W_xh, W_hh, b_h):
    h = np.zeros((len(x), len(b_h)))
    for t in range(x.shape[1]):
        mask = (t < lengths)[:, None].astype(float)
        h = mask * np.tanh(x[:, t] @ W_xh + h @ W_hh + b_h) + (1 - mask) * h
    return h


wrong = {
    "every sequence runs on to the last column, over its padding": swap(
        "h = np.where(t < lengths[:, None], new, h)", "h = new"
    ),
    "each sequence takes one step too many, into its padding": swap("t < len", "t <= len"),
    "each sequence stops one step too early": swap("t < len", "t + 1 < len"),
    "all sequences stop at the end of the shortest": swap(
        "t < lengths[:, None]", "t < min(lengths)"
    ),
    "a state is set to zero at the end of its sequence; it has to be kept": swap(
        "new, h)", "new, 0)"
    ),
    "the old state and the new one are mixed by a product, and 0 · nan is nan": multiplied,
    "the bias b_h is left out": swap(" + b_h", ""),
    "the state before is left out: each step begins at zero": swap(" + h @ W_hh", ""),
    "W_hh is transposed: the state is a row, on the left": swap("W_hh +", "W_hh.T +"),
    "the activation is missing: the state is the tanh of the sum": swap("np.tanh(", "("),
}
