r"""RMSNorm, backwards

RMSNorm divides a position's features by the root of their mean square,

$$
\rho = \sqrt{\tfrac1D \textstyle\sum_k x_k^2 + \varepsilon}, \qquad \hat x = x / \rho, \qquad
y = \gamma \odot \hat x .
$$

Write `rms_norm_vjp(x, gain, y_bar, eps)` with `x` and `y_bar` of shape `(B, T, D)` and `gain` of
shape `(D,)`. Return the pair `(x_bar, gain_bar)`, of the shapes of `x` and of `gain`.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("x_bar", "gain_bar")


# %% solution
def rms_norm_vjp(x, gain, y_bar, eps):
    """Gradients of x (B, T, D) and gain (D,) from y_bar (B, T, D)."""
    rho = np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    x_hat, g = x / rho, gain * y_bar
    x_bar = (g - x_hat * (g * x_hat).mean(-1, keepdims=True)) / rho
    return x_bar, (y_bar * x_hat).sum((0, 1))


# %% explanation
explanation = r"""
$\partial \rho / \partial x_k = x_k / (D \rho) = \hat x_k / D$, with or without $\varepsilon$, so

$$
\frac{\partial \hat x_i}{\partial x_k} = \frac{\delta_{ik}}{\rho} - \frac{x_i}{\rho^2} \cdot
\frac{\hat x_k}{D}
= \frac1\rho \Big( \delta_{ik} - \frac{\hat x_i \hat x_k}{D} \Big) .
$$

It is the layer norm's Jacobian without the term of the mean. What is taken from the gradient is its
part along $\hat x$: to make the vector longer changes nothing. The gain is shared by all positions,
so its gradient is a sum over them.
"""


# %% tests
def tests(rng):
    three_four = np.array([[[3.0, 4.0]]])
    yield call(three_four, np.ones(2), np.array([[[5.0, 0.0]]]), 0.0, visible=True)
    for B, T, D in ((2, 3, 5), (3, 2, 4)):
        x, y_bar = rng.normal(size=(2, B, T, D))
        yield call(x, rng.normal(size=D), y_bar, 1e-6)
    x, y_bar = rng.normal(size=(2, 2, 2, 3))
    yield call(0.1 * x, rng.normal(size=3), y_bar, 0.5, hint="ε is large here")


# %% oracle
def oracle(x, gain, y_bar, eps):
    """torch differentiates its own rms_norm."""
    import torch

    x, gain = (torch.tensor(a, requires_grad=True) for a in (x, gain))
    y = torch.nn.functional.rms_norm(x, gain.shape, gain, eps)
    (y * torch.tensor(y_bar)).sum().backward()
    return x.grad.numpy(), gain.grad.numpy()


# %% wrong
wrong = {
    "ρ depends on x, too; here it was treated as a constant": (
        swap("(g - x_hat * (g * x_hat).mean(-1, keepdims=True))", "g")
    ),
    "the mean of the gradient is subtracted, as in layer norm; RMSNorm has no mean": (
        swap("(g - x_hat", "(g - g.mean(-1, keepdims=True) - x_hat")
    ),
    "the part along x̂ is a mean over the features; here it is a sum": (
        swap("(g * x_hat).mean", "(g * x_hat).sum")
    ),
    "the gain is missing on the way to x": swap("gain * y_bar", "y_bar"),
    "the gain multiplies x̂, so its gradient has x̂ in it, not x": swap("y_bar * x_hat", "y_bar * x"),
    "the gain's gradient is a sum over the positions; here it is a mean": (
        swap(".sum((0, 1))", ".mean((0, 1))")
    ),
    "the gradient of x is not divided by ρ": swap("keepdims=True)) / rho", "keepdims=True))"),
    "with ε the vector x̂/√D is a little shorter than 1; here it has length 1": (
        swap("x / rho, gain", "x / np.sqrt((x**2).mean(-1, keepdims=True)), gain").swap(
            "y_bar * x_hat", "y_bar * x / rho"
        )
    ),
}
