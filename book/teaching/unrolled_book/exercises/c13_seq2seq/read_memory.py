r"""Read a memory, padding left out

Write `read_memory(s, H, mask)` for a batch: states `s` `(B, D)`, memories `H` `(B, S, D)` and
`mask` `(B, S)`, True where a token stands. Return the pair of contexts `(B, D)` and weights `(B,
S)` of attention by the dot product. Padding must get a weight of exactly 0, scores may be large,
and a memory that is nothing but padding gives a context and weights of zeros. Do not change the
arguments.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("contexts", "weights")


# %% solution
def read_memory(s, H, mask):
    """Contexts (B, D), weights (B, S) of s (B, D) and H (B, S, D)."""
    scores = (H @ s[:, :, None])[:, :, 0]  # (B, S)
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=1, keepdims=True, initial=-1e300)
    weights = np.exp(scores - top)
    weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    return (weights[:, None] @ H)[:, 0], weights


# %% explanation
explanation = r"""
Each state meets the rows of its own memory, so the product is batched: `(B, S, D)` times `(B, D,
1)`. The mask comes *before* the softmax. Masked afterwards, the other weights would no longer sum
to 1; and a score of 0 in place of $-\infty$ would still have the exponential 1.

Where everything is masked, the largest score is $-\infty$, and $-\infty - (-\infty)$ is not a
number. The finite floor in `top` leaves exponentials of 0, and the floor in the sum leaves
weights of 0.
"""


# %% tests
def tests(rng):
    yield call(
        np.array([[1.0, 0.0]]), np.array([[[0.0, 2.0], [0.0, 4.0], [9.0, 9.0]]]),
        np.array([[True, True, False]]), visible=True,
    )  # fmt: skip
    for B, S, D in [(2, 3, 5), (5, 2, 3), (3, 3, 3)]:
        mask = rng.random((B, S)) < 0.6
        mask[:, 0] = True
        yield call(rng.normal(size=(B, D)), rng.normal(size=(B, S, D)), mask)
    yield call(
        900 + 900 * rng.random(size=(2, 3)), 1 + rng.random(size=(2, 4, 3)),
        np.ones((2, 4), dtype=bool), hint="large scores",
    )  # fmt: skip
    yield call(
        -90_000 - 90_000 * rng.random(size=(2, 3)), 1 + rng.random(size=(2, 4, 3)),
        np.array([[True, False, True, True], [True, True, False, False]]),
        hint="all scores far below zero",
    )  # fmt: skip
    yield call(
        rng.normal(size=(3, 2)), rng.normal(size=(3, 1, 2)), np.ones((3, 1), dtype=bool),
        hint="one row, which gets the weight 1",
    )  # fmt: skip
    yield call(
        rng.normal(size=(2, 3)), rng.normal(size=(2, 4, 3)),
        np.array([[True, False, True, True], [False] * 4]),
        hint="one memory is nothing but padding",
    )  # fmt: skip
    yield call(
        0.5 + rng.random(size=(1, 3)), np.concatenate([rng.normal(size=(1, 2, 3)),
        1000 * np.ones((1, 1, 3))], axis=1), np.array([[True, True, False]]),
        hint="padding holds large numbers",
    )  # fmt: skip


# %% oracle
def oracle(s, H, mask):
    """One memory at a time, over the rows that are there."""
    contexts, weights = np.zeros(s.shape), np.zeros(mask.shape)
    for b in range(len(s)):
        there = np.flatnonzero(mask[b])
        if len(there):
            scores = np.array(
                [sum(x * y for x, y in zip(s[b], H[b, j], strict=True)) for j in there]
            )
            exps = [float(np.exp(score - max(scores))) for score in scores]
            for j, e in zip(there, exps, strict=True):
                weights[b, j] = e / sum(exps)
                contexts[b] += weights[b, j] * H[b, j]
    return contexts, weights


# %% wrong
wrong = {
    "padding still gets a weight: the mask is not used": swap(
        "scores = np.where(mask, scores, -np.inf)", "scores = scores"
    ),
    "a score of 0 is not a mask: its exponential is 1": swap("-np.inf", "0.0"),
    "the mask is upside down: True is where a token stands": swap(
        "np.where(mask, scores, -np.inf)", "np.where(mask, -np.inf, scores)"
    ),
    "masked after the softmax, the other weights no longer sum to one": (
        lambda s, H, mask: _late(s, H, mask)
    ),
    "the weights of a memory must sum to one: the sum runs over its rows": swap(
        "weights.sum(axis=1, keepdims=True)", "weights.sum(axis=0, keepdims=True)"
    ),
    "exponentials of large scores overflow: subtract the largest score first": swap(
        "np.exp(scores - top)", "np.exp(scores)"
    ),
    "a memory of nothing but padding gives NaN: its largest score is −∞": swap(
        ", initial=-1e300", ""
    ),
    "scores far below zero all vanish: subtract the largest score, whatever its sign": swap(
        "initial=-1e300", "initial=0.0"
    ),
    "this is the row with the largest weight; attention mixes all rows": swap(
        "(weights[:, None] @ H)[:, 0]", "H[np.arange(len(H)), weights.argmax(axis=1)]"
    ),
    "this is the plain mean of the memory: the weights are not used": swap(
        "(weights[:, None] @ H)[:, 0]", "H.mean(axis=1)"
    ),
    "a divisor is no part of this attention": swap(
        "[:, :, 0]  #", "[:, :, 0] / np.sqrt(s.shape[1])  #"
    ),
}


def _late(s, H, mask):
    scores = (H @ s[:, :, None])[:, :, 0]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = weights / weights.sum(axis=1, keepdims=True) * mask
    return (weights[:, None] @ H)[:, 0], weights
