r"""The additive score for all pairs at once

Write `additive_scores(Q, H, W, U, v)` for states `Q` `(T, D)` and a memory `H` `(S, M)`, with `W`
`(A, D)`, `U` `(A, M)` and `v` `(A,)`. Return the scores `(T, S)`,

$$
e_{tj} = v^\top \tanh(W q_t + U h_j) .
$$

Do not loop. Then count: how often is $U h_j$ computed in your version, and how often would it be
if you put $q_t$ and $h_j$ side by side and multiplied by one matrix?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def additive_scores(Q, H, W, U, v):
    """Scores (T, S) of states Q (T, D) and a memory H (S, M)."""
    return np.tanh((Q @ W.T)[:, None] + (H @ U.T)[None]) @ v


# %% explanation
explanation = r"""
$W q_t$ is `(T, A)` and $U h_j$ is `(S, A)`. With an axis of length 1 each, `(T, 1, A)` and `(1,
S, A)`, their sum is a table `(T, S, A)` of all pairs, and the product with $v$ takes the last
axis away.

$U h_j$ is computed once for each row, $S$ times. Side by side it would be computed for every
pair, $T \cdot S$ times. The table of $T \cdot S \cdot A$
numbers remains, and with it the price of this score: a dot product never holds such a table.
"""


# %% tests
def tests(rng):
    yield call(
        np.array([[0.0], [1.0]]), np.array([[0.0], [1.0], [-1.0]]), np.array([[1.0]]),
        np.array([[1.0]]), np.array([2.0]), visible=True,
    )  # fmt: skip
    for T, S, D, M, A in [(2, 3, 5, 7, 11), (5, 2, 3, 3, 3), (3, 3, 3, 3, 3), (1, 4, 2, 5, 1)]:
        yield call(
            rng.normal(size=(T, D)), rng.normal(size=(S, M)), rng.normal(size=(A, D)),
            rng.normal(size=(A, M)), rng.normal(size=A),
        )  # fmt: skip


# %% oracle
def oracle(Q, H, W, U, v):
    """Pair by pair, unit by unit."""
    scores = np.zeros((len(Q), len(H)))
    for t, q in enumerate(Q):
        for j, h in enumerate(H):
            for a in range(len(v)):
                inner = sum(W[a, d] * q[d] for d in range(len(q)))
                inner += sum(U[a, m] * h[m] for m in range(len(h)))
                scores[t, j] += v[a] * np.tanh(inner)
    return scores


# %% wrong
wrong = {
    "the tanh is missing: without it the state adds the same to every row's score": (
        lambda Q, H, W, U, v: ((Q @ W.T)[:, None] + (H @ U.T)[None]) @ v
    ),
    "queries stand in rows, keys in columns: the table is transposed": (
        lambda Q, H, W, U, v: np.tanh((H @ U.T)[:, None] + (Q @ W.T)[None]) @ v
    ),
    "the state is not used: these weights never look at the query": swap(
        "(Q @ W.T)[:, None] + ", "0 * (Q @ W.T)[:, None] + "
    ),
    "the memory is not used: these weights never look at the source": swap(
        "(H @ U.T)[None]", "0 * (H @ U.T)[None]"
    ),
    "v is applied before the tanh; the formula weighs the units after it": (
        lambda Q, H, W, U, v: np.tanh(((Q @ W.T)[:, None] + (H @ U.T)[None]) * v).sum(-1)
    ),
    "W and U are exchanged: W belongs to the states, U to the memory": (
        lambda Q, H, W, U, v: np.tanh((Q @ U.T)[:, None] + (H @ W.T)[None]) @ v
    ),
    "a matrix is turned: row a of W belongs to unit a, so it is q @ W.T": (
        lambda Q, H, W, U, v: np.tanh((Q @ W)[:, None] + (H @ U)[None]) @ v
    ),
    "each part has a tanh of its own; the formula takes it of the sum": (
        lambda Q, H, W, U, v: (np.tanh(Q @ W.T)[:, None] + np.tanh(H @ U.T)[None]) @ v
    ),
    "the units are averaged; the formula weighs them with v": (
        lambda Q, H, W, U, v: np.tanh((Q @ W.T)[:, None] + (H @ U.T)[None]).mean(-1)
    ),
    "this is a softmax of the scores; only the scores are asked for": (
        lambda Q, H, W, U, v: _softmax(np.tanh((Q @ W.T)[:, None] + (H @ U.T)[None]) @ v)
    ),
}


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
