r"""Shared keys, without copies

The chapter checked grouped-query attention against a full layer in which keys and values are
repeated. Grouped attention itself needs no such copies.

Write `grouped_heads(Q, K, V)`: queries `Q` of shape `(H, T, d)`, keys `K` of shape `(G, S, d)` and
values `V` of shape `(G, S, d_v)`, where `G` divides `H`. Head $r$ (from 0) uses the keys and values
of group $\lfloor r\,G / H \rfloor$. Return the outputs of all heads, `(H, T, d_v)`. The scores are
divided by $\sqrt d$; there is no mask. Do not make an array with `H` copies of keys or values, and
leave the arguments as they are.
"""

import numpy as np

from unrolled.teaching.exercises.engine import call

kind, level, points = "code", 2, 3


# %% solution
def grouped_heads(Q, K, V):
    """Attention of H heads on G sets of keys and values: (H, T, d_v)."""
    (H, T, d), G = Q.shape, len(K)
    rows = Q.reshape(G, H // G * T, d)  # the heads of a group, one below the other
    scores = rows @ K.transpose(0, 2, 1) / np.sqrt(d)  # (G, H/G·T, S)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ V).reshape(H, T, -1)


# %% explanation
explanation = r"""
Heads of one group ask the same keys. To the keys it makes no difference whether two questions come
from two heads or from two places: each question is a row. So the heads of a group are written one
below the other, $H/G \cdot T$ rows, and one product serves them all. Because the heads of a group
are neighbours, `reshape` moves nothing in memory, and it gives the heads back in their order.

With $G = H$ this is multi-head attention, with $G = 1$ multi-query attention, where all heads of
all places are rows of one matrix.
"""


# %% tests
def example(rng, H, G, T, S, d, d_v):
    return rng.normal(size=(H, T, d)), rng.normal(size=(G, S, d)), rng.normal(size=(G, S, d_v))


def tests(rng):
    Q = np.array([[[0.0]], [[2.0]]])
    yield call(Q, np.array([[[0.0], [1.0]]]), np.array([[[0.0], [8.0]]]), visible=True)
    yield call(*example(rng, 4, 2, 3, 5, 2, 7), hint="4 heads, 2 groups")
    yield call(*example(rng, 6, 2, 5, 3, 7, 2), hint="6 heads, 2 groups")
    yield call(*example(rng, 6, 3, 1, 5, 2, 3), hint="6 heads, 3 groups, one query")
    yield call(*example(rng, 5, 1, 2, 3, 7, 2), hint="one group for all")
    yield call(*example(rng, 3, 3, 5, 2, 2, 7), hint="a group for each head")
    Q, K, V = example(rng, 4, 2, 3, 5, 2, 3)
    yield call(400 * Q, K, V, hint="large scores: is the maximum subtracted?")


# %% oracle
def oracle(Q, K, V):
    """torch's attention, head by head."""
    import torch

    H, G = len(Q), len(K)
    outputs = []
    for r in range(H):
        q, k, v = (torch.tensor(a)[None] for a in (Q[r], K[r * G // H], V[r * G // H]))
        outputs.append(torch.nn.functional.scaled_dot_product_attention(q, k, v)[0])
    return torch.stack(outputs).numpy()


# %% wrong
def softmax(scores, axis=-1):
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def by_head(Q, K, V, group, scale=None, axis=-1):
    scale = np.sqrt(Q.shape[-1]) if scale is None else scale
    return np.stack(
        [softmax(Q[r] @ K[group(r)].T / scale, axis) @ V[group(r)] for r in range(len(Q))]
    )


def usual(Q, K):
    return lambda r: r * len(K) // len(Q)


def not_stable(Q, K, V):
    H, T, d = Q.shape
    with np.errstate(all="ignore"):
        e = np.exp(Q.reshape(len(K), -1, d) @ K.transpose(0, 2, 1) / np.sqrt(d))
        return (e / e.sum(axis=-1, keepdims=True) @ V).reshape(H, T, -1)


def scrambled(Q, K, V):
    (H, T, d), G = Q.shape, len(K)
    rows = Q.reshape(G, H // G, T, d).transpose(0, 2, 1, 3).reshape(G, -1, d)
    scores = rows @ K.transpose(0, 2, 1) / np.sqrt(d)
    return (softmax(scores) @ V).reshape(H, T, -1)


def in_place(Q, K, V):
    Q /= np.sqrt(Q.shape[-1])
    return by_head(Q, K, V, usual(Q, K), scale=1.0)


wrong = {
    "heads are dealt out in turn, r mod G; a group is H/G neighbouring heads": (
        lambda Q, K, V: by_head(Q, K, V, lambda r: r % len(K))
    ),
    "all heads use the first group": lambda Q, K, V: by_head(Q, K, V, lambda r: 0),
    "the groups are counted from the wrong end": lambda Q, K, V: by_head(
        Q, K, V, lambda r: len(K) - 1 - r * len(K) // len(Q)
    ),
    "the scores are not divided by √d": lambda Q, K, V: by_head(Q, K, V, usual(Q, K), scale=1.0),
    "the scores are divided by d, not by its root": lambda Q, K, V: by_head(
        Q, K, V, usual(Q, K), scale=Q.shape[-1]
    ),
    "the softmax runs over the queries; each query distributes its weight over the keys": (
        lambda Q, K, V: by_head(Q, K, V, usual(Q, K), axis=0)
    ),
    "the maximum is not subtracted before exp": not_stable,
    "rows of heads and rows of places are mixed up when the heads come back": scrambled,
    "`/=` writes into the queries that were handed in": in_place,
}
