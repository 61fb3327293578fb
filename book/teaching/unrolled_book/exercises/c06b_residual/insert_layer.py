r"""Insert layers without changing the answer

A stack of layers with leaky ReLUs computes $h \leftarrow \phi(h W + b)$ layer after layer, where
$\phi(z) = z$ for $z > 0$ and $\phi(z) = \alpha z$ otherwise, with $0 < \alpha < 1$. With ReLU
($\alpha
= 0$) a layer with $W = I$ and $b = 0$ could be inserted anywhere after the first, and nothing
changed. With a leaky ReLU it does change something: negative numbers are multiplied by $\alpha$
once more.

Write `insert_layer(W, b, alpha)` for a last layer with `W` of shape `(D, D)` and `b` of shape
`(D,)`. Return `(W_1, b_1, W_2, b_2)`: two layers that together compute *exactly* what the one layer
computed, $\phi(\phi(x W_1 + b_1) W_2 + b_2) = \phi(x W + b)$ for every $x$. The layer between them
may be wider: give it the width $2D$.

Use that $z$ can be rebuilt from $\phi(z)$ and $\phi(-z)$.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4


# %% use
apart = True  # x, and what is computed with it, tell the answer


def use(answer, W, b, alpha, x):
    """What the two layers compute, and their shapes."""
    W_1, b_1, W_2, b_2 = (np.asarray(part, dtype=float) for part in answer(W, b, alpha))

    def phi(z):
        return np.where(z > 0, z, alpha * z)

    return phi(phi(x @ W_1 + b_1) @ W_2 + b_2), W_1.shape[1]


# %% solution
def insert_layer(W, b, alpha):
    """W_1 (D, 2D), b_1 (2D,), W_2 (2D, D), b_2 (D,) of two layers for one."""
    W_1, b_1 = np.hstack([W, -W]), np.concatenate([b, -b])
    eye = np.eye(len(b)) / (1 + alpha)
    return W_1, b_1, np.vstack([eye, -eye]), np.zeros(len(b))


# %% explanation
explanation = r"""
For $z > 0$ the two numbers are $\phi(z) = z$ and $\phi(-z) = -\alpha z$, for $z < 0$ they are
$\alpha z$ and $-z$. Their difference is $(1 + \alpha)\, z$ in both cases. So the first layer
computes $z = xW + b$ and $-z$ side by side, and the second subtracts and divides by $1 + \alpha$.
What it has before its own $\phi$ is $z$, and what it puts out is $\phi(z)$.

With $\alpha = 0$ this is the well-known way to write a line with two ReLUs, $z = \mathrm{ReLU}(z) -
\mathrm{ReLU}(-z)$. It shows that the solution exists for other bends too. It also shows the price:
twice the width, and weights that nobody would draw at random.
"""


# %% tests
def show(W, b, alpha, x):
    if W.size > 1:
        return f"insert_layer(W, b, {alpha}) for W of shape {W.shape}, with x of shape {x.shape}"
    return (
        "W_1, b_1, W_2, b_2 = insert_layer(np.array([[2.]]), np.array([-1.]), 0.5)\n"
        "x = np.array([[0.], [3.]])\n"
        "# the outputs for x, and the width of the first layer"
    )


def tests(rng):
    yield call(np.array([[2.0]]), np.array([-1.0]), 0.5, np.array([[0.0], [3.0]]), visible=True)
    for D, alpha in ((2, 0.1), (3, 0.01), (5, 0.9)):
        W, b, x = rng.normal(size=(D, D)), rng.normal(size=D), rng.normal(size=(11, D))
        yield call(W, b, alpha, x)
    for size in (1e4, 1e7):
        x = size * rng.normal(size=(11, 3))
        yield call(rng.normal(size=(3, 3)), rng.normal(size=3), 0.2, x, hint="large inputs")


# %% oracle
def oracle(W, b, alpha, x):
    """The one layer, computed by torch."""
    import torch
    from torch.nn import functional as F

    z = torch.from_numpy(x) @ torch.from_numpy(W) + torch.from_numpy(b)
    return F.leaky_relu(z, alpha).numpy(), 2 * len(b)


# %% wrong
wrong = {
    "the difference was not divided by 1 + α": swap(" / (1 + alpha)", ""),
    "divided by 1 − α; φ(z) − φ(−z) is (1 + α) z": swap("(1 + alpha)", "(1 - alpha)"),
    "φ(z) and φ(−z) were added: that gives (1 − α)|z|": (
        swap("np.vstack([eye, -eye])", "np.vstack([eye, eye])")
    ),
    "the second half of the bias has to be turned around, like the weights": (
        swap("np.concatenate([b, -b])", "np.concatenate([b, b])")
    ),
    "an identity layer: negative numbers are multiplied by α a second time": (
        swap("    return W_1, b_1, np.vstack([eye, -eye]), np.zeros(len(b))",
             "    return np.hstack([W, 0 * W]), np.concatenate([b, 0 * b]), "
             "np.vstack([np.eye(len(b)), 0 * eye]), np.zeros(len(b))")
    ),
    "shifted to where the bend is not: it fails where z lies below the shift": (
        swap("    return W_1, b_1, np.vstack([eye, -eye]), np.zeros(len(b))",
             "    one, far = np.eye(len(b)), 1000.0\n"
             "    return np.hstack([W, 0 * W]), np.concatenate([b + far, 0 * b]), "
             "np.vstack([one, 0 * one]), 0 * b - far")
    ),
    "the bias was added in both layers": swap("np.zeros(len(b))", "b"),
}  # fmt: skip
