r"""Switched off, but gently

To zero a head also takes away what it sends *always*, to every position of every text. A gentler
way to switch it off replaces its output by its mean: what it says about *this* text is lost, what
it says on average stays.

A layer's output map has the weight `W_o` of shape `(D, H·K)` and the bias `b_o` of shape `(D,)`, as
torch stores them: out = z `W_o`ᵀ + `b_o`. Head $r$ (from 0) owns the columns $rK$ to $(r+1)K - 1$.
Its input was recorded on a text: `Z` of shape `(N, H·K)`, a row for each position.

Write `mean_ablation(W_o, b_o, Z, head, n_heads)`: a new pair `(W, b)` with which the layer, for
whatever input, behaves as if this head always sent its mean over the rows of `Z`. The arguments
stay as they are.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("W", "b")


# %% solution
def mean_ablation(W_o, b_o, Z, head, n_heads):
    """Weight (D, H·K) and bias (D,) for which this head sends its mean."""
    width = W_o.shape[1] // n_heads
    mine = slice(head * width, (head + 1) * width)
    W, b = W_o.copy(), b_o + W_o[:, mine] @ Z[:, mine].mean(axis=0)
    W[:, mine] = 0
    return W, b


# %% explanation
explanation = r"""
The output is a sum over the heads, $\sum_r z_r {W_o^{(r)}}^\top + b_o$. Replace $z_r$ of one head
by a constant $m$, and its term is the constant vector $W_o^{(r)} m$, which belongs to the bias. So
the columns become zero and the bias takes up the mean: the model runs as before, without a hook.

With $m = 0$ this is the chapter's `silenced`. How much the two differ depends on how much of a
head's output is a constant; for the chapter's line-end head the two lose nearly the same.
"""


# %% tests
def example(rng, D, H, K, N):
    shapes = (D, H * K), (D,), (N, H * K)
    return [rng.normal(size=shape) + 0.5 for shape in shapes]


def tests(rng):
    Z = np.array([[1.0, 2.0], [3.0, 6.0]])
    yield call(np.array([[1.0, 10.0]]), np.array([100.0]), Z, 1, 2, visible=True)
    yield call(*example(rng, 5, 3, 2, 7), 0, 3, hint="the first of 3 heads")
    yield call(*example(rng, 5, 3, 2, 7), 2, 3, hint="the last of 3 heads")
    yield call(*example(rng, 6, 3, 2, 5), 1, 3, hint="D = H·K: rows or columns?")
    yield call(*example(rng, 3, 1, 5, 2), 0, 1, hint="one head only")
    yield call(*example(rng, 2, 5, 3, 1), 3, 5, hint="a single row was recorded")


# %% oracle
def oracle(W_o, b_o, Z, head, n_heads):
    """W and b are read off the changed layer itself: its answer to zero and to each unit vector."""
    n = W_o.shape[1]
    split = np.array_split(np.arange(n), n_heads)[head]

    def layer(z):
        z = z.copy()
        z[split] = [np.mean([row[i] for row in Z]) for i in split]
        return np.array([sum(w * x for w, x in zip(row, z, strict=True)) for row in W_o]) + b_o

    b = layer(np.zeros(n))
    return np.stack([layer(unit) - b for unit in np.eye(n)], axis=1), b


# %% wrong
wrong = {
    "the head's mean does not come back in the bias": (
        swap(" + W_o[:, mine] @ Z[:, mine].mean(axis=0)", "")
    ),
    "the mean is added to the bias, but the head still sends its own output": (
        swap("    W[:, mine] = 0\n", "")
    ),
    "the mean is subtracted from the bias": swap("b_o + W_o", "b_o - W_o"),
    "the rows are summed, not averaged": swap(".mean(axis=0)", ".sum(axis=0)"),
    "one mean over everything the head sends, where each of its K numbers has its own": (
        swap("Z[:, mine].mean(axis=0)", "np.full(width, Z[:, mine].mean())")
    ),
    "a head owns columns of W_o as torch stores it, not rows": (
        swap("W[:, mine] = 0", "W[mine] = 0")
    ),
    "the heads are dealt out in turn; a head's columns are neighbours": (
        swap("slice(head * width, (head + 1) * width)", "np.arange(W_o.shape[1]) % n_heads == head")
    ),
    "all the other heads were switched off, and this one was kept": (
        swap("slice(head * width, (head + 1) * width)", "np.arange(W_o.shape[1]) // width != head")
    ),
    "`+=` and the zeros write into the arrays that were handed in": (
        swap("W_o.copy(), b_o + W_o", "W_o, b_o\n    b += W_o")
    ),
}
