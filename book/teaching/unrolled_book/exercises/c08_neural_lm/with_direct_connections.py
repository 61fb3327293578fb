r"""Backwards with direct connections

Bengio's paper has an option, *direct connections*: the vectors $e$ also reach the scores, through a
matrix $M$ of their own. Then the scores of a single context are

$$
\begin{aligned}
e &= [E_{w_1}, E_{w_2}, \dots], \\
h &= \tanh(e\,W), \\
z &= h\,U + e\,M ,
\end{aligned}
$$

with $W$ of shape `(n * D, H)`, $U$ `(H, V)` and $M$ `(n * D, V)` (no biases), and the loss is
$-\ln \mathrm{softmax}(z)$ of the target.

Write `with_direct_connections(E, W, U, M, context, target)`, where `context` is a list of $n$ ids.
Return the gradients of $E$, $W$, $U$ and $M$, in this order, each in the shape of its matrix.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4
outputs = ("gradient of E", "gradient of W", "gradient of U", "gradient of M")


# %% solution
def with_direct_connections(E, W, U, M, context, target):
    """Gradients of E (V, D), W (nD, H), U (H, V) and M (nD, V)."""
    e = E[context].reshape(-1)  # (nD,)
    h = np.tanh(e @ W)  # (H,)
    z = h @ U + e @ M  # (V,)
    power = np.exp(z - z.max())
    z_bar = power / power.sum()
    z_bar[target] -= 1
    a_bar = (U @ z_bar) * (1 - h**2)  # (H,)
    e_bar = W @ a_bar + M @ z_bar  # (nD,)
    E_bar = np.zeros_like(E)
    np.add.at(E_bar, context, e_bar.reshape(len(context), -1))
    return E_bar, np.outer(e, a_bar), np.outer(h, z_bar), np.outer(e, z_bar)


# %% explanation
explanation = r"""
$e$ is used twice: by the hidden layer and by the direct connections. So its gradient is a sum of
two, $\bar e = \bar a\, W^\top + \bar z\, M^\top$. The rest is the chapter's chain, and $\bar M =
e^\top \bar z$ has the form of every linear map's gradient: what went in times what comes back.

The maximum of $z$ is subtracted before the exponential, so that large scores do not overflow.
"""


# %% tests
def tests(rng):
    def arguments(V, D, H, context, target, scale=1.0):
        n = len(context)
        shapes = (V, D), (n * D, H), (H, V), (n * D, V)
        return *(scale * rng.normal(size=shape) for shape in shapes), context, target

    yield call(*arguments(5, 2, 3, [0, 3, 1], 4))
    yield call(*arguments(7, 3, 2, [6, 2], 2))
    yield call(*arguments(4, 2, 5, [1, 3, 1], 0), hint="a word that stands twice")
    yield call(*arguments(3, 1, 1, [2], 2), hint="one word of context, and it comes again")
    *weights, context, target = arguments(5, 2, 3, [4, 4], 1, scale=60.0)
    weights = [30 + np.abs(array) for array in weights]
    yield call(*weights, context, target, hint="large scores", tolerance=1e-7)


# %% oracle
def oracle(E, W, U, M, context, target):
    """torch."""
    import torch

    leaves = [torch.tensor(x, requires_grad=True) for x in (E, W, U, M)]
    e = leaves[0][torch.tensor(context)].flatten()
    z = torch.tanh(e @ leaves[1]) @ leaves[2] + e @ leaves[3]
    loss = torch.nn.functional.cross_entropy(z, torch.tensor(target))
    return tuple(x.numpy() for x in torch.autograd.grad(loss, leaves))


# %% wrong
wrong = {
    "the gradient of e lacks what comes back through M": swap(" + M @ z_bar", ""),
    "the gradient of e lacks what comes back through W": swap("W @ a_bar + ", ""),
    "the slope of tanh is missing": swap(" * (1 - h**2)", ""),
    "the slope of tanh is 1 − h², not h(1 − h)": swap("(1 - h**2)", "(h - h**2)"),
    "of two shares for one word only the last is kept": swap(
        "np.add.at(E_bar, context, e_bar.reshape(len(context), -1))",
        "E_bar[context] = e_bar.reshape(len(context), -1)",
    ),
    "the scores were computed without e M": swap(" + e @ M", ""),
    "the 1 of the target was not subtracted": swap("    z_bar[target] -= 1\n", ""),
    "the sign: it is ŷ − y": swap("z_bar[target] -= 1", "z_bar = -z_bar\n    z_bar[target] += 1"),
    "the gradient of M was computed from h's side: what went into M is e": (
        swap("np.outer(e, z_bar)", "np.outer(W @ h, z_bar)")
    ),
    "the exponential overflows for large scores": swap("z - z.max()", "z"),
}
