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

from unrolled.teaching.exercises.engine import call

kind, level, points = "code", 2, 3


# %% solution
def rms_norm_vjp(x, gain, y_bar, eps):
    """Gradients of x (B, T, D) and gain (D,) from that of the output (B, T, D)."""
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
def parts(x, gain, y_bar, eps):
    rho = np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    return rho, x / rho, gain * y_bar


def rho_constant(*a):
    rho, x_hat, g = parts(*a)
    return g / rho, (a[2] * x_hat).sum((0, 1))


def like_layer_norm(*a):
    rho, x_hat, g = parts(*a)
    x_bar = g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)
    return x_bar / rho, (a[2] * x_hat).sum((0, 1))


def a_sum_along(*a):
    rho, x_hat, g = parts(*a)
    return (g - x_hat * (g * x_hat).sum(-1, keepdims=True)) / rho, (a[2] * x_hat).sum((0, 1))


def gain_forgotten(*a):
    rho, x_hat, g = parts(*a)
    g = a[2]
    x_bar = (g - x_hat * (g * x_hat).mean(-1, keepdims=True)) / rho
    return x_bar, (a[2] * x_hat).sum((0, 1))


def gain_before_norm(*a):
    rho, x_hat, g = parts(*a)
    x_bar = (g - x_hat * (g * x_hat).mean(-1, keepdims=True)) / rho
    return x_bar, (a[2] * a[0]).sum((0, 1))


def gain_mean(*a):
    rho, x_hat, g = parts(*a)
    x_bar = (g - x_hat * (g * x_hat).mean(-1, keepdims=True)) / rho
    return x_bar, (a[2] * x_hat).mean((0, 1))


def not_divided(*a):
    _, x_hat, g = parts(*a)
    return g - x_hat * (g * x_hat).mean(-1, keepdims=True), (a[2] * x_hat).sum((0, 1))


def unit_length(*a):
    rho, x_hat, g = parts(*a)
    unit = a[0] / np.linalg.norm(a[0], axis=-1, keepdims=True)
    x_bar = (g - unit * (g * unit).sum(-1, keepdims=True)) / rho
    return x_bar, (a[2] * x_hat).sum((0, 1))


wrong = {
    "ρ depends on x, too; here it was taken for a constant": rho_constant,
    "the mean of the gradient is subtracted, as in layer norm; RMSNorm has no mean": (
        like_layer_norm
    ),
    "the part along x̂ is a mean over the features; here it is a sum": a_sum_along,
    "the gain is missing on the way to x": gain_forgotten,
    "the gain multiplies x̂, so its gradient has x̂ in it, not x": gain_before_norm,
    "the gain's gradient is a sum over the positions; here it is a mean": gain_mean,
    "the gradient of x is not divided by ρ": not_divided,
    "with ε the vector x̂/√D is a little shorter than 1; here it has length 1": unit_length,
}
