r"""Weights for the other layout

A model with rotary embeddings in the layout "interleaved" (pairs $(0, 1), (2, 3), \dots$ in each
head) has the query weights `W` of shape `(D, H * K)`: queries are $q = xW$, and head $h$ owns the
columns $hK, \dots, hK + K - 1$. You have code for the layout "half" only, with pairs $(i, i +
K/2)$ in each head.

Write `half_from_interleaved(W, n_heads)`: the weights `(D, H * K)` with which your code computes
the same scores (the key weights are converted in the same way). Pair $i$ must turn at its own
speed in both layouts, and the first entry of a pair must stay the first.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def half_from_interleaved(W, n_heads):
    """W (D, H·K), the columns of each head reordered for the layout "half"."""
    heads = W.reshape(len(W), n_heads, -1)  # (D, H, K)
    evens, odds = heads[:, :, 0::2], heads[:, :, 1::2]  # each (D, H, K/2)
    return np.concatenate([evens, odds], axis=-1).reshape(W.shape)


# %% explanation
explanation = r"""
Pair $i$ is $(2i, 2i + 1)$ in one layout and $(i, i + K/2)$ in the other. So the even entries of a
head go to its first half, in their order, and the odd ones to its second. Both layouts turn pair
$i$ by $m \omega_i$; after the reordering the same two numbers meet under the same angle, and a
product of query and key is a sum over pairs that does not mind where they stand.

The heads must be taken apart first. Reordering all $HK$ columns at once would send half of each
head to another head, and with $H = 1$ nobody would notice.

Values and the output projection stay as they are: they are not turned. In weights stored as
torch's `Linear` does, (outputs, inputs), the *rows* are reordered, and a bias with them.
Converters of LLaMA's published weights contain this permutation.
"""


# %% tests
def tests(rng):
    yield call(np.array([[0.0, 1, 2, 3, 4, 5]]), 1, visible=True)
    yield call(rng.normal(size=(3, 8)), 1, hint="one head")
    yield call(rng.normal(size=(5, 12)), 2, hint="two heads of six")
    yield call(rng.normal(size=(4, 12)), 3, hint="three heads of four")
    yield call(rng.normal(size=(12, 12)), 2, hint="a square matrix")
    yield call(rng.normal(size=(2, 14)), 7, hint="heads of one pair")


# %% oracle
def oracle(W, n_heads):
    """The only order of each head's columns in which the library's two layouts score alike."""
    import torch
    from unrolled.models.positions import Rotary

    K = W.shape[1] // n_heads
    half, interleaved = (Rotary(K, layout=layout) for layout in ("half", "interleaved"))
    eye, fifth = torch.eye(K, dtype=torch.float64), torch.full((K,), 5)
    new, old = half(eye, fifth), interleaved(eye, fifth)
    result = np.empty_like(W)
    for h in range(n_heads):
        for i in range(K):  # column i goes where a unit vector turns in the same way
            for j in range(K):
                same = torch.isclose(old[i, i], new[j, j])  # cos of the angle, and ± its sin
                if same and torch.isclose(old[i].sum(), new[j].sum()):
                    result[:, h * K + j] = W[:, h * K + i]
    return result


# %% wrong
wrong = {
    "the heads are mixed: reorder within each head": swap("n_heads, -1", "1, -1"),
    "this is the way back, from half to interleaved": (
        lambda W, n: W.reshape(len(W), n, 2, -1).swapaxes(2, 3).reshape(W.shape)
    ),
    "the first entry of a pair must stay first: evens, then odds": (
        swap("[evens, odds]", "[odds, evens]")
    ),
    "this reorders the rows; reorder the columns": (
        lambda W, n: np.concatenate([W[0::2], W[1::2]])
    ),
    "the columns are still in their old order": lambda W, n: W.copy(),
    "the result is transposed; keep the shape (D, H·K)": swap("(W.shape)", "(W.shape).T"),
    "a head's columns stand together, hK to hK + K − 1; here every H-th was taken": (
        swap("n_heads, -1)", "-1, n_heads).swapaxes(1, 2)")
    ),
}
