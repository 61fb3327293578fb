r"""Adagrad, the ancestor

Before RMSprop there was Adagrad ([Duchi et al.,
2011](https://jmlr.org/papers/v12/duchi11a.html)). It divides each coordinate by the root of the
*sum* of all squared gradients so far, the present one included:

$$
v_t = v_{t-1} + g_t^2, \qquad w_t = w_{t-1} - \frac{\eta\, g_t}{\sqrt{v_t} + \varepsilon} .
$$

Write `adagrad(w, gradients, lr, eps)` for `w` of shape `(D,)` and `gradients` of shape `(T, D)`,
the gradient of each of $T$ steps. Return $w$ after the last step, `(D,)`, and leave the arguments
as they are. $v_0 = 0$.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def adagrad(w, gradients, lr, eps):
    """w (D,) after a step for each row of gradients (T, D)."""
    v = np.zeros_like(w)
    for g in gradients:
        v = v + g**2
        w = w - lr * g / (np.sqrt(v) + eps)
    return w


# %% explanation
explanation = r"""
The sum never shrinks, so the steps get shorter and shorter: a coordinate with gradients of
constant size takes steps of $\eta / \sqrt{t}$. For rare words that is welcome, since their sum
stays small and their few steps long. In long trainings the rate ends too low; RMSprop replaced
the sum by a running mean, which forgets.

`w = w - …` makes a new array at each step; `w -= …` would change the array of the caller.
"""


# %% tests
def tests(rng):
    yield call(np.array([1.0, 2.0]), np.array([[1.0, 0.0], [1.0, 3.0]]), 0.1, 0.5, visible=True)
    for D, T in ((3, 5), (7, 11)):
        yield call(rng.normal(size=D), rng.normal(size=(T, D)) * rng.uniform(0.01, 5, D), 0.3, 1e-2)
    yield call(rng.normal(size=2), np.zeros((0, 2)), 0.1, 1e-8, hint="no steps at all")
    yield call(np.zeros(3), np.zeros((2, 3)), 0.1, 1e-8, hint="gradients of zero")


# %% oracle
def oracle(w, gradients, lr, eps):
    """torch's Adagrad."""
    import torch

    parameter = torch.nn.Parameter(torch.tensor(w))
    optimizer = torch.optim.Adagrad([parameter], lr=lr, eps=eps)
    for g in gradients:
        parameter.grad = torch.tensor(g)
        optimizer.step()
    return parameter.detach().numpy()


# %% wrong
wrong = {
    "v forgets the earlier gradients: they are not added up": swap("v = v + g**2", "v = g**2"),
    "this is RMSprop's running mean, not a sum": (
        swap("v = v + g**2", "v = 0.99 * v + 0.01 * g**2")
    ),
    "the present gradient is missing in v: it is added after the step": swap(
        "        v = v + g**2\n        w = w - lr * g / (np.sqrt(v) + eps)",
        "        w = w - lr * g / (np.sqrt(v) + eps)\n        v = v + g**2",
    ),
    "the square root is missing": swap("np.sqrt(v)", "v"),
    "ε stands inside the root": swap("(np.sqrt(v) + eps)", "np.sqrt(v + eps)"),
    "the gradients' sizes are added up, not their squares": (
        swap("v = v + g**2", "v = (np.sqrt(v) + np.abs(g)) ** 2")
    ),
    "the steps go uphill": swap("w - lr", "w + lr"),
    "one v for all coordinates: their squares are added together": (
        swap("v = v + g**2", "v = v + (g**2).sum()")
    ),
}
