r"""A matrix used twice

A tied language model uses one matrix $E \in \mathbb{R}^{V \times D}$ at both ends. To see what that
does to the gradient, leave the recurrence out: for $N$ pairs of an input $x_i$ and a target $y_i$,

$$
\begin{aligned}
h_i &= E_{x_i}, \qquad z_i = h_i E^\top, \\
L &= \frac1N \sum_i -\ln \mathrm{softmax}(z_i)_{y_i} .
\end{aligned}
$$

Write `tied_gradient(E, inputs, targets)` with `E` of shape (V, D), `inputs` and `targets` integer
arrays (N,). Return $\partial L / \partial E$, (V, D), with numpy and without finite differences. A
token may occur several times.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4


# %% solution
def tied_gradient(E, inputs, targets):
    """Gradient (V, D) of the loss for the matrix that embeds and classifies."""
    h = E[inputs]  # (N, D)
    z = h @ E.T  # (N, V)
    error = np.exp(z - z.max(axis=1, keepdims=True))
    error /= error.sum(axis=1, keepdims=True)
    error[np.arange(len(targets)), targets] -= 1
    error /= len(targets)  # ∂L/∂z
    gradient = error.T @ h  # as the head
    np.add.at(gradient, inputs, error @ E)  # as the embedding, row by row
    return gradient


# %% explanation
explanation = r"""
$E$ is used twice, so two gradients arrive and add. As a head it multiplies $h_i$, and chapter 7's
outer product gives $\bar z^\top h$: every row gets something, since every word is in the softmax.
As an embedding it is looked up: row $x_i$ receives $\bar h_i = \bar z_i E$, and a token that occurs
twice receives twice. `gradient[inputs] += …` would add once for each different token;
`np.add.at` adds as often as it occurs.

So in a tied model even a word that was never an input learns at every step, through the head.
"""


# %% tests
def tests(rng):
    E = np.array([[0.0, 1.0], [np.log(2), 0.0], [0.0, 0.0]])
    yield call(E, np.array([1]), np.array([0]), visible=True)
    yield call(rng.normal(size=(5, 3)), rng.permutation(5)[:4], rng.integers(5, size=4))
    yield call(rng.normal(size=(4, 2)), np.array([1, 1, 3, 1]), np.array([0, 2, 2, 1]),
               hint="a token occurs several times as an input")  # fmt: skip
    yield call(rng.normal(size=(6, 6)), rng.integers(6, size=6), rng.integers(6, size=6),
               hint="V = D = N here: which axis is which?")  # fmt: skip
    yield call(30 * rng.normal(size=(5, 7)), rng.integers(5, size=3), rng.integers(5, size=3),
               hint="large logits")  # fmt: skip
    rows = np.array([[40.0, 0.0], [0.0, 1.0], [1.0, 0.5]])  # logits of 1600 beside those of 1
    yield call(rows, np.array([0, 1, 2]), np.array([1, 0, 2]),
               hint="one row of logits is far above the others")  # fmt: skip


# %% oracle
def oracle(E, inputs, targets):
    """torch differentiates the loss as it is written."""
    import torch

    matrix = torch.tensor(E, requires_grad=True)
    logits = matrix[torch.tensor(inputs)] @ matrix.T
    torch.nn.functional.cross_entropy(logits, torch.tensor(targets)).backward()
    return matrix.grad.numpy()


# %% wrong
wrong = {
    "only the head's use of E is counted; it is used as an embedding, too": (
        swap("error @ E)", "0 * h)")
    ),
    "only the embedding's use of E is counted; it is used as the head, too": (
        swap("error.T @ h", "np.zeros_like(E)")
    ),
    "`gradient[inputs] +=` adds once for a token that occurs several times": (
        swap("np.add.at(gradient, inputs, error @ E)", "gradient[inputs] += error @ E")
    ),
    "the embedding's gradient overwrites the head's; where a value is used twice they add": (
        swap("np.add.at(gradient, inputs, error @ E)", "gradient[inputs] = error @ E")
    ),
    "the embedding's gradient goes to the rows of the targets; it belongs to those of the inputs": (
        swap("gradient, inputs", "gradient, targets")
    ),
    "the loss is a mean over the pairs; this is the gradient of the sum": (
        swap("error /= len(targets)", "error /= 1")
    ),
    "every sign is reversed: the error is softmax minus one-hot": (
        swap("return gradient", "return -gradient")
    ),
    "the softmax overflows: subtract the row's maximum": (
        swap(" - z.max(axis=1, keepdims=True)", "")
    ),
    "the maximum of all logits is subtracted; each row has its own": (
        swap("z.max(axis=1, keepdims=True)", "z.max()")
    ),
    "the two gradients are averaged; they add": swap("return gradient", "return gradient / 2"),
}
