r"""A layer, backwards

A layer takes a batch $X$, a row for each example, to $H = \tanh(X W)$. From above arrives
$G = \bar H$, the gradient of $H$.

Write `tanh_layer_vjp(X, W, G)` for `X` of shape `(B, d)`, `W` of shape `(d, m)` and `G` of shape
`(B, m)`. Return the pair $(\bar X, \bar W)$. No Jacobian, no loop.
"""

import numpy as np

from unrolled.teaching.exercises.engine import call

kind, level, points = "code", 2, 3


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
def slope(X, W):
    return 1 - np.tanh(X @ W) ** 2


def in_place(X, W, G):
    G *= slope(X, W)
    return G @ W.T, X.T @ G


wrong = {
    "the slope of tanh is missing": lambda X, W, G: (G @ W.T, X.T @ G),
    "tanh itself stands where its slope 1 − tanh² belongs": lambda X, W, G: (
        (G * np.tanh(X @ W)) @ W.T,
        X.T @ (G * np.tanh(X @ W)),
    ),
    "the slope of the logistic function, h(1 − h), stands where that of tanh belongs": (
        lambda X, W, G: (
            (G * np.tanh(X @ W) * (1 - np.tanh(X @ W))) @ W.T,
            X.T @ (G * np.tanh(X @ W) * (1 - np.tanh(X @ W))),
        )
    ),
    "the slope of tanh is 1 − h², not 1 − h": lambda X, W, G: (
        (G * (1 - np.tanh(X @ W))) @ W.T,
        X.T @ (G * (1 - np.tanh(X @ W))),
    ),
    "the slope is taken at G and not at X W": lambda X, W, G: (
        (G * (1 - np.tanh(G) ** 2)) @ W.T,
        X.T @ (G * (1 - np.tanh(G) ** 2)),
    ),
    "W is not transposed on the way back to X": lambda X, W, G: (
        (G * slope(X, W)) @ W,
        X.T @ (G * slope(X, W)),
    ),
    "X is not transposed in the gradient of W": lambda X, W, G: (
        (G * slope(X, W)) @ W.T,
        X @ (G * slope(X, W)),
    ),
    "the gradient of W is turned round: its shape must be W's": lambda X, W, G: (
        (G * slope(X, W)) @ W.T,
        (G * slope(X, W)).T @ X,
    ),
    "the gradient of W is averaged over the batch, but G already holds the loss's own scale": (
        lambda X, W, G: ((G * slope(X, W)) @ W.T, X.T @ (G * slope(X, W)) / len(X))
    ),
    "only the last example's gradient reaches W; all examples use it, so theirs add up": (
        lambda X, W, G: ((G * slope(X, W)) @ W.T, np.outer(X[-1], (G * slope(X, W))[-1]))
    ),
    "the two gradients are returned in the wrong order": lambda X, W, G: (
        X.T @ (G * slope(X, W)),
        (G * slope(X, W)) @ W.T,
    ),
    "only the gradient of X is returned; a pair is asked for": lambda X, W, G: (
        (G * slope(X, W)) @ W.T
    ),
    "only the gradient of W is returned; a pair is asked for": lambda X, W, G: (
        X.T @ (G * slope(X, W))
    ),
    "`*=` writes into the gradient that was handed in": in_place,
}
