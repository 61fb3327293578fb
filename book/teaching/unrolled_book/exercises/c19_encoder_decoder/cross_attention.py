r"""Cross-attention, one head

Write `cross_attention(Y, Z, real, W_q, W_k, W_v)` for the decoder's vectors `Y` `(T, D)`, the
memory `Z` `(S, D)` and `real` `(S,)`, True where a token of the source stands. `W_q` and `W_k` are
`(D, K)`, `W_v` is `(D, M)`. Return the pair of results `(T, M)` and weights `(T, S)`, with scores
divided by $\sqrt K$. At least one token is real. Scores may be large. Change no argument.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("results", "weights")


# %% solution
def cross_attention(Y, Z, real, W_q, W_k, W_v):
    """Results (T, M) and weights (T, S): Y asks, Z answers."""
    Q, K, V = Y @ W_q, Z @ W_k, Z @ W_v
    scores = Q @ K.T / np.sqrt(Q.shape[1])  # (T, S)
    scores = np.where(real, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = weights / weights.sum(axis=1, keepdims=True)
    return weights @ V, weights


# %% explanation
explanation = r"""
Only the queries come from the decoder. `real` has S entries and hides columns; it broadcasts over
the rows. No causal mask is needed, and none would even fit: the table is (T, S), and the third word
of the target has no reason to stop at the third word of the source.

In a decoder that writes word by word, `Z @ W_k` and `Z @ W_v` are the same in each step. They are
computed once and kept.
"""


# %% tests
def tests(rng):
    yield call(
        np.array([[0.0, 0.0]]), np.array([[1.0, 0.0], [3.0, 2.0], [9.0, 9.0]]),
        np.array([True, True, False]), np.eye(2), np.eye(2), np.eye(2), visible=True,
    )  # fmt: skip
    for T, S, D, K, M in [(3, 5, 7, 2, 11), (5, 3, 2, 3, 2), (3, 3, 3, 3, 3), (1, 1, 2, 3, 5)]:
        real = rng.random(S) < 0.7
        real[0] = True
        yield call(
            rng.normal(size=(T, D)), rng.normal(size=(S, D)), real,
            rng.normal(size=(D, K)), rng.normal(size=(D, K)), rng.normal(size=(D, M)),
        )  # fmt: skip
    yield call(
        60 + 60 * rng.random(size=(2, 3)), 60 * rng.random(size=(4, 3)),
        np.array([True, True, True, False]), np.eye(3), np.eye(3), np.eye(3), hint="large scores",
    )  # fmt: skip
    yield call(
        rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), np.array([False, True]),
        np.eye(3), np.eye(3), np.eye(3), hint="one real token",
    )  # fmt: skip
    yield call(
        np.array([[1.0], [3e4]]), np.array([[-2e2], [-2.1e2], [0.0], [2e3]]),
        np.array([True, True, False, False]), np.eye(1), np.eye(1), np.eye(1),
        hint="real scores far below 0, padding far above",
    )  # fmt: skip
    yield call(
        np.array([[-1.0], [1.0]]), np.array([[1e3], [1e3 + 1]]), np.array([True, True]),
        np.eye(1), np.eye(1), np.eye(1), hint="rows far apart",
    )  # fmt: skip


# %% oracle
def oracle(Y, Z, real, W_q, W_k, W_v):
    """torch's attention over the real tokens alone."""
    import torch
    from torch.nn import functional as F

    q, k, v = (torch.from_numpy(a) for a in (Y @ W_q, (Z @ W_k)[real], (Z @ W_v)[real]))
    result = F.scaled_dot_product_attention(q[None], k[None], v[None])[0].numpy()
    identity = torch.eye(int(real.sum()), dtype=torch.float64)
    weights = np.zeros((len(Y), len(Z)))
    weights[:, real] = F.scaled_dot_product_attention(q[None], k[None], identity[None])[0].numpy()
    return result, weights


# %% wrong
wrong = {
    "keys come from the memory, not from the decoder": (
        lambda Y, Z, real, W_q, W_k, W_v: (
            _from(Y, Y, np.ones(len(Y), bool), W_q, W_k, W_v)
            if len(Y) != len(Z)
            else _from(Y, Y, real, W_q, W_k, W_v)
        )
    ),
    "queries come from the decoder, not from the memory": (
        lambda Y, Z, real, W_q, W_k, W_v: _from(Z, Z, real, W_q, W_k, W_v)
    ),
    "queries and keys have changed places: rows of the table are queries": swap(
        "Y @ W_q, Z @ W_k", "Y @ W_k, Z @ W_q"
    ),
    "the mask is not used: padding gets a weight": swap(
        "np.where(real, scores, -np.inf)", "scores"
    ),
    "the mask is upside down: True is where a token stands": swap(
        "np.where(real, scores, -np.inf)", "np.where(real & ~real.all(), -np.inf, scores)"
    ),
    "a score of 0 is not a mask: its exponential is 1": swap("-np.inf", "0.0"),
    "−100 is a score like others: a real one may be lower; take −∞": swap("-np.inf", "-100.0"),
    "subtract the largest score of each row, not that of the whole table": swap(
        "scores - scores.max(axis=1, keepdims=True)", "scores - scores.max()"
    ),
    "the scores are not divided by the root of K": swap(" / np.sqrt(Q.shape[1])", ""),
    "the divisor is the root of K, the width of a key, not of D": swap("Q.shape[1]", "Y.shape[1]"),
    "the weights of a query must sum to one: the softmax runs over the keys": swap(
        "weights.sum(axis=1, keepdims=True)", "weights.sum(axis=0, keepdims=True)"
    ),
    "exponentials of large scores overflow: subtract the largest first": swap(
        "scores - scores.max(axis=1, keepdims=True)", "scores"
    ),
    "a causal mask has no place here: the whole source is there": swap(
        "np.where(real, scores, -np.inf)",
        "np.where(real & np.tri(*scores.shape, dtype=bool) | (np.arange(len(Z)) == real.argmax()), "
        "scores, -np.inf)",
    ),
}


def _from(Y, Z, real, W_q, W_k, W_v):
    Q, K, V = Y @ W_q, Z @ W_k, Z @ W_v
    scores = np.where(real, Q @ K.T / np.sqrt(Q.shape[1]), -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = weights / weights.sum(axis=1, keepdims=True)
    return weights @ V, weights
