r"""A layer, backwards

A layer takes a batch $X$, a row for each example, to $H = \tanh(X W)$. From above arrives
$G = \bar H$, the gradient of $H$.

Write `tanh_layer_vjp(X, W, G)` for `X` of shape `(B, d)`, `W` of shape `(d, m)` and `G` of shape
`(B, m)`. Return the pair $(\bar X, \bar W)$. It needs no Jacobian and no loop.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("X_bar", "W_bar")


# %% solution
def tanh_layer_vjp(X, W, G):
    """Gradients of X (B, d) and W (d, m), from G (B, m)."""
    G_scores = G * (1 - np.tanh(X @ W) ** 2)  # (B, m)
    return G_scores @ W.T, X.T @ G_scores


# %% explanation
explanation = r"""
Backwards through two operations. The Jacobian of $\tanh$ is diagonal, so its VJP multiplies entry
by entry: $\bar A = G \odot (1 - H^2)$ for the scores $A = X W$. Then the two VJPs of a matrix
product: $\bar X = \bar A\, W^\top$ and $\bar W = X^\top \bar A$. The shapes admit nothing else when
$B$, $d$ and $m$ differ. All examples use the same $W$, and $X^\top \bar A$ adds what they send it:
accumulation, done by a matrix product.
"""


# %% tests
def tests(rng):
    X, W = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.0], [1.0]])
    yield call(X, W, np.array([[1.0], [1.0]]), visible=True)
    for B, d, m in [(2, 3, 5), (7, 2, 3), (1, 5, 2)]:
        yield call(rng.normal(size=(B, d)), rng.normal(size=(d, m)), rng.normal(size=(B, m)))
    square = rng.normal(size=(3, 3, 3))
    yield call(*square, hint="all shapes are (3, 3) here: which transposes do you need?")


# %% oracle
def oracle(X, W, G):
    """torch goes backwards through the layer."""
    import torch

    X, W = (torch.tensor(array, requires_grad=True) for array in (X, W))
    torch.tanh(X @ W).backward(torch.tensor(G))
    return X.grad.numpy(), W.grad.numpy()


# %% wrong
wrong = {
    "the slope of tanh is missing": swap(" * (1 - np.tanh(X @ W) ** 2)", ""),
    "tanh itself is used instead of its slope 1 − tanh²": (
        swap("(1 - np.tanh(X @ W) ** 2)", "np.tanh(X @ W)")
    ),
    "this uses h(1 − h), the slope of the logistic function; that of tanh is 1 − h²": (
        swap("(1 - np.tanh(X @ W) ** 2)", "np.tanh(X @ W) * (1 - np.tanh(X @ W))")
    ),
    "the slope of tanh is 1 − h², not 1 − h": swap(" ** 2", ""),
    "the slope is taken at G and not at X W": swap("np.tanh(X @ W)", "np.tanh(G)"),
    "W is not transposed on the way back to X": swap("W.T", "W"),
    "X is not transposed in the gradient of W": swap("X.T", "X"),
    "the gradient of W is transposed: it must have the shape of W": (
        swap("X.T @ G_scores", "G_scores.T @ X")
    ),
    "the gradient of W is averaged over the batch, but G already holds the loss's own scale": (
        swap("X.T @ G_scores", "X.T @ G_scores / len(X)")
    ),
    "only the last example's gradient reaches W; all examples use it, so theirs add up": (
        swap("X.T @ G_scores", "np.outer(X[-1], G_scores[-1])")
    ),
    "the two gradients are returned in the wrong order": (
        swap("G_scores @ W.T, X.T @ G_scores", "X.T @ G_scores, G_scores @ W.T")
    ),
    "only the gradient of X is returned; return the pair": swap(", X.T @ G_scores", ""),
    "only the gradient of W is returned; return the pair": swap("G_scores @ W.T, ", ""),
    "`*=` writes into the gradient that was handed in": (
        swap("G_scores = G * (1", "G_scores = G\n    G_scores *= (1")
    ),
}
