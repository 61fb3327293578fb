r"""Shared keys, without copies

The chapter checked grouped-query attention against a full layer in which keys and values are
repeated. Grouped attention itself needs no such copies.

Write `grouped_heads(Q, K, V)`: queries `Q` of shape `(H, T, d)`, keys `K` of shape `(G, S, d)` and
values `V` of shape `(G, S, d_v)`, where `G` divides `H`. Head $r$ (from 0) uses the keys and values
of group $\lfloor r\,G / H \rfloor$. Return the outputs of all heads, `(H, T, d_v)`. The scores are
divided by $\sqrt d$; there is no mask. Do not make an array as large as `H` copies of the keys
or values, and leave the arguments as they are.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def grouped_heads(Q, K, V):
    """Attention of H heads on G sets of keys and values: (H, T, d_v)."""
    (H, T, d), G = Q.shape, len(K)
    rows = Q.reshape(G, H // G * T, d)  # a group's heads, stacked
    scores = rows @ K.transpose(0, 2, 1) / np.sqrt(d)  # (G, H/G·T, S)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ V).reshape(H, T, -1)


# %% explanation
explanation = r"""
Heads of one group ask the same keys. To the keys it makes no difference whether two questions come
from two heads or from two positions: each question is a row. So the heads of a group are written
one below the other, $H/G \cdot T$ rows, and one product serves them all. Because the heads of a
group are neighbours, `reshape` moves nothing in memory, and it gives the heads back in their order.

With $G = H$ this is multi-head attention, with $G = 1$ multi-query attention, where all heads of
all positions are rows of one matrix.
"""


# %% use
memory_mb = 256  # 512 copies of 1,300 keys have 341


def use(answer, Q, K, V):
    """The output; an error where an array is as large as copies of the keys for all heads.

    Where memory is limited, they cannot be made. Elsewhere a few of the keys show it, and spare the
    reader's machine.
    """
    import tracemalloc

    too_large = MemoryError("an array is as large as copies of the keys or values for every head")
    if K.size > 10_000:  # in small calls an import takes more
        few = Q.copy(), K[:, :50].copy(), V[:, :50].copy()
        tracemalloc.start()
        try:
            answer(*few)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        if most > len(Q) * few[1][0].nbytes / 2:
            raise too_large
    try:
        return answer(Q, K, V)
    except MemoryError:
        raise too_large from None


# %% tests
show = True


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
    hint = "512 heads share one set of 1,300 keys: what is written 512 times into memory?"
    yield call(*example(rng, 512, 1, 1, 1300, 64, 64), hint=hint)
    Q, K, V = example(rng, 4, 2, 3, 5, 2, 3)
    yield call(4000 * Q, K, V, hint="large scores: is the maximum subtracted?")


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
def by_head(Q, K, V, groups, axis=-1):
    """One head after the other, on the keys of its group; the softmax runs over the axis."""
    scores = np.stack([q @ K[g].T for q, g in zip(Q, groups, strict=True)]) / np.sqrt(Q.shape[-1])
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True) @ V[groups]


wrong = {
    "heads are dealt out in turn, r mod G; a group is H/G neighbouring heads": (
        lambda Q, K, V: by_head(Q, K, V, np.arange(len(Q)) % len(K))
    ),
    "all heads use the first group": swap("K.transpose", "K[:1].transpose").swap("@ V", "@ V[:1]"),
    "the groups are counted from the wrong end": (
        swap("K.transpose", "K[::-1].transpose").swap("@ V", "@ V[::-1]")
    ),
    "the scores are not divided by √d": swap(" / np.sqrt(d)", ""),
    "the scores are divided by d, not by its root": swap("np.sqrt(d)", "d"),
    "the softmax runs over the queries; each query distributes its weight over the keys": (
        lambda Q, K, V: by_head(Q, K, V, np.arange(len(Q)) * len(K) // len(Q), axis=1)
    ),
    "the maximum is not subtracted before exp": swap(" - scores.max(axis=-1, keepdims=True)", ""),
    "rows of heads and rows of positions are mixed up when the heads come back": (
        swap("H // G * T, d)", "H // G, T, d).swapaxes(1, 2).reshape(G, -1, d)")
    ),
    "`/=` writes into the queries that were handed in": (
        swap("/ np.sqrt(d)", "").swap("    rows", "    Q /= np.sqrt(d)\n    rows")
    ),
    "`repeat` makes a copy of the keys for every head; one product serves a whole group": (
        lambda Q, K, V: grouped_heads(Q, *(a.repeat(len(Q) // len(K), axis=0) for a in (K, V)))
    ),
}
