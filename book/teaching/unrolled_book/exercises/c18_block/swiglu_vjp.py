r"""SwiGLU, backwards

A gated feed-forward layer without biases computes, for positions $X$ of shape `(N, D)`,

$$
\begin{aligned}
A &= X W_g, & U &= X W_u, \\
H &= A\, \sigma(A) \odot U, & Y &= H W_d ,
\end{aligned}
$$

with $W_g$ and $W_u$ of shape `(D, F)` and $W_d$ of shape `(F, D)`.

Write `swiglu_vjp(X, W_g, W_u, W_d, Y_bar)`: the gradients of `X`, `W_g`, `W_u` and `W_d`, in this
order, from the gradient `Y_bar`, `(N, D)`, of the output.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4
outputs = ("X_bar", "W_g_bar", "W_u_bar", "W_d_bar")


# %% solution
def swiglu_vjp(X, W_g, W_u, W_d, Y_bar):
    """Gradients of X (N, D), W_g (D, F), W_u (D, F) and W_d (F, D)."""
    A, U = X @ W_g, X @ W_u  # (N, F)
    s = 1 / (1 + np.exp(-A))
    H_bar = Y_bar @ W_d.T  # (N, F)
    U_bar = H_bar * A * s
    A_bar = H_bar * U * (s + A * s * (1 - s))
    X_bar = A_bar @ W_g.T + U_bar @ W_u.T
    return X_bar, X.T @ A_bar, X.T @ U_bar, (A * s * U).T @ Y_bar


# %% explanation
explanation = r"""
A matrix product sends back its gradient times the other factor, transposed: $\bar H = \bar Y
W_d^\top$, $\bar W_d = H^\top \bar Y$. An element-wise product sends each factor the gradient
times the other factor: $\bar U = \bar H \odot A \sigma(A)$, and to the activated gate $\bar H
\odot U$. The activation's slope is $\sigma + A \sigma (1 - \sigma)$, by the product rule. And $X$
was used twice, so its gradient is a sum.

Where $U$ is 0 the gate learns nothing, and where the gate is shut, $U$ learns nothing.
"""


# %% tests
def example(rng, N, D, F):
    return tuple(rng.normal(size=s) for s in ((N, D), (D, F), (D, F), (F, D), (N, D)))


def tests(rng):
    one = np.ones((1, 1))
    yield call(one, 0 * one, 2 * one, one, one, visible=True)
    yield call(*example(rng, 3, 2, 5))
    yield call(*example(rng, 4, 5, 3))
    yield call(*example(rng, 3, 3, 3), hint="all sizes are 3, so that no shape can warn")


# %% oracle
def oracle(X, W_g, W_u, W_d, Y_bar):
    """torch differentiates its own silu."""
    import torch

    leaves = [torch.tensor(a, requires_grad=True) for a in (X, W_g, W_u, W_d)]
    x, gate, up, down = leaves
    y = (torch.nn.functional.silu(x @ gate) * (x @ up)) @ down
    (y * torch.tensor(Y_bar)).sum().backward()
    return tuple(leaf.grad.numpy() for leaf in leaves)


# %% wrong
wrong = {
    "X goes into both products; the gradient through W_u is missing": swap(" + U_bar @ W_u.T", ""),
    "X goes into both products; the gradient through W_g is missing": swap("A_bar @ W_g.T + ", ""),
    "the slope of A σ(A) has two terms; here it is σ(A) alone": (
        swap("(s + A * s * (1 - s))", "s")
    ),
    "the slope of A σ(A) has two terms; here it is that of σ alone": (
        swap("(s + A * s * (1 - s))", "s * (1 - s)")
    ),
    "the activation's slope is missing": swap(" * (s + A * s * (1 - s))", ""),
    "the gradient of W_d uses H; here U was not multiplied in": swap("(A * s * U)", "(A * s)"),
    "the gradient of W_d uses H; here the activation is missing in it": (
        swap("(A * s * U)", "(A * U)")
    ),
    "the branches are exchanged: each gets what belongs to the other": (
        swap("    X_bar", "    A_bar, U_bar = U_bar, A_bar\n    X_bar")
    ),
}
