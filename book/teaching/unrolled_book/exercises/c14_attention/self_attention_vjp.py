r"""Self-attention, backwards

In self-attention queries, keys and values are made from one $X$,

$$
Y = \mathrm{softmax}\!\left(\frac{(X W_q)(X W_k)^\top}{\sqrt{d_k}}\right) X W_v ,
$$

and $X$ is used three times. Write `self_attention_vjp(X, W_q, W_k, W_v, Y_bar)` for `X` `(T, D)`,
`W_q` and `W_k` `(D, K)`, `W_v` `(D, Kv)` and the gradient `Y_bar` `(T, Kv)` that arrives. Return
the four gradients $(\bar X, \bar W_q, \bar W_k, \bar W_v)$. No loop is needed, and numpy is enough.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4
outputs = ("X_bar", "W_q_bar", "W_k_bar", "W_v_bar")


# %% solution
def self_attention_vjp(X, W_q, W_k, W_v, Y_bar):
    """Gradients of X, W_q, W_k and W_v, in their shapes, from Y_bar (T, Kv)."""
    Q, K, V = X @ W_q, X @ W_k, X @ W_v
    scale = 1 / np.sqrt(Q.shape[-1])
    S = scale * Q @ K.T  # (T, T): queries in rows, keys in columns
    A = np.exp(S - S.max(axis=-1, keepdims=True))
    A = A / A.sum(axis=-1, keepdims=True)
    inner = (Y_bar * (A @ V)).sum(axis=-1, keepdims=True)  # (T, 1)
    S_bar = scale * A * (Y_bar @ V.T - inner)
    Q_bar, K_bar, V_bar = S_bar @ K, S_bar.T @ Q, A.T @ Y_bar
    X_bar = Q_bar @ W_q.T + K_bar @ W_k.T + V_bar @ W_v.T
    return X_bar, X.T @ Q_bar, X.T @ K_bar, X.T @ V_bar


# %% explanation
explanation = r"""
The chapter's derivation leads from $\bar Y$ to $\bar Q, \bar K, \bar V$. Each of $Q = X W_q$,
$K = X W_k$, $V = X W_v$ is a matrix product: $\bar W_q = X^\top \bar Q$, and $\bar Q W_q^\top$ is
the share that the queries send to $\bar X$. The three shares add, as always where a value is used
more than once.

Here $S$ is square, so a transpose in the wrong place raises no error: $\bar S K$ and
$\bar S^\top K$ have the same shape. The gradient of the keys needs $\bar S^\top Q$: a key collects
from all queries that read it, down its column.
"""


# %% tests
def layer(rng, T, D, K, Kv, size=1.0):
    X = size * rng.normal(size=(T, D))
    W_q, W_k = rng.normal(size=(2, D, K)) / np.sqrt(D)
    return X, W_q, W_k, rng.normal(size=(D, Kv)) / np.sqrt(D), rng.normal(size=(T, Kv))


def tests(rng):
    identity = np.eye(2)
    one = np.array([[1.0, 0], [0, 0]])
    yield call(identity, identity, 0 * identity, identity, one, visible=True)
    yield call(*layer(rng, 5, 3, 2, 7))
    yield call(*layer(rng, 2, 5, 3, 4))
    yield call(*layer(rng, 4, 4, 4, 4), hint="all widths are 4: is something transposed?")
    yield call(*layer(rng, 1, 3, 2, 5), hint="a single token: its weight is always 1")
    *large, W_v, Y_bar = layer(rng, 3, 2, 5, 2, size=40.0)
    large = [1 + np.abs(array) for array in large]
    yield call(*large, W_v, Y_bar, hint="scores in the thousands")


# %% oracle
def oracle(X, W_q, W_k, W_v, Y_bar):
    """torch differentiates its own fused attention."""
    import torch

    X, W_q, W_k, W_v = parts = [torch.tensor(a, requires_grad=True) for a in (X, W_q, W_k, W_v)]
    attention = torch.nn.functional.scaled_dot_product_attention
    Y = attention(*((X @ W)[None, None] for W in (W_q, W_k, W_v)))[0, 0]
    return tuple(g.numpy() for g in torch.autograd.grad(Y, parts, torch.tensor(Y_bar)))


# %% wrong
wrong = {
    "X is used three times: the gradient through the queries is missing": (
        swap("Q_bar @ W_q.T + ", "")
    ),
    "X is used three times: the gradient through the keys is missing": (
        swap(" + K_bar @ W_k.T", "")
    ),
    "X is used three times: the gradient through the values is missing": (
        swap(" + V_bar @ W_v.T", "")
    ),
    "the softmax sends back more than its diagonal: subtract the mean under the weights": (
        swap(" - inner", "")
    ),
    "the mean under the weights is taken down the columns; each query has its own": swap(
        "(Y_bar * (A @ V)).sum(axis=-1, keepdims=True)",
        "(A * (Y_bar @ V.T)).sum(axis=0, keepdims=True)",
    ),
    "the root of the width is divided by on the way forward, but not on the way back": (
        swap("S_bar = scale * A", "S_bar = A")
    ),
    "the scores are never divided by the root of the width": (
        swap("1 / np.sqrt(Q.shape[-1])", "1.0")
    ),
    "a query collects along its row: the gradient of the scores is transposed there": (
        swap("S_bar @ K", "S_bar.T @ K")
    ),
    "a key collects down its column: there the gradient of the scores must be transposed": (
        swap("S_bar.T @ Q", "S_bar @ Q")
    ),
    "a value collects from all queries that read it: transpose the weights there": (
        swap("A.T @ Y_bar", "A @ Y_bar")
    ),
    "the maximum of each row is not subtracted: large scores overflow": (
        swap(" - S.max(axis=-1, keepdims=True)", "")
    ),
}
