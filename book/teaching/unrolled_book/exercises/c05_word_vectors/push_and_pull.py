r"""Push and pull

One step of skip-gram for one pair: the word's vector `e` of shape `(D,)`, the true context's `u` of
shape `(D,)`, and `k` drawn contexts, perhaps none, the rows of `N` of shape `(k, D)`.

Write `push_and_pull(e, u, N, lr)`. Return the three after one step of gradient descent, `(e, u,
N)`. All gradients are taken at the old values. A drawn context may be drawn twice: then it is two
rows of `N`, and each moves by itself. Do not change the arrays that you are given.

Scores may be as large as $\pm 1{,}000$: the answer must not hold NaN.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("e", "u", "N")


# %% solution
def push_and_pull(e, u, N, lr):
    """(e, u, N) after one step; e, u (D,), N (k, D)."""

    def sigmoid(x):
        return (1 + np.tanh(x / 2)) / 2

    pull = sigmoid(e @ u) - 1  # (): the error of the true context
    push = sigmoid(N @ e)  # (k,): the errors of the drawn ones
    e_new = e - lr * (pull * u + push @ N)
    return e_new, u - lr * pull * e, N - lr * push[:, None] * e


# %% explanation
explanation = r"""
Each context has an error: the probability given minus the one wanted, $\sigma - 1$ for the true one
and $\sigma$ for the drawn ones. A context moves along $e$ by its error. The word moves along each
context by that context's error.

Who updates `e` first and then uses the new `e` for the contexts computes something else: a gradient
belongs to one point. $\sigma(x) = \frac12 (1 + \tanh \frac x2)$ is exact and never overflows, while
`np.exp(1000)` does: `np.exp(x) / (1 + np.exp(x))` is then ∞ / ∞, which is NaN.
"""


# %% tests
def tests(rng):
    e, u = np.array([1.0, 0.5]), np.array([0.5, 0.0])
    yield call(e, u, np.array([[1.0, 1.0], [-1.0, 0.0]]), 0.5, visible=True)
    D = 5
    yield call(*rng.normal(size=(2, D)), rng.normal(size=(3, D)), 0.1)
    yield call(*rng.normal(size=(2, D)), rng.normal(size=(1, D)), 1.0)
    yield call(*rng.normal(size=(2, D)), np.empty((0, D)), 0.3, hint="no drawn context")
    twice = np.repeat(rng.normal(size=(1, D)), 2, axis=0)
    yield call(*rng.normal(size=(2, D)), twice, 0.3, hint="one context drawn twice")
    yield call(np.array([100.0]), np.array([-10.0]), np.array([[-10.0]]), 0.1, hint="large scores")
    many = np.array([[10.0], [-10.0]])
    yield call(np.array([100.0]), np.array([10.0]), many, 0.1, hint="scores of 1,000")


# %% oracle
def oracle(e, u, N, lr):
    """Automatic differentiation of the loss."""
    import torch
    from torch.nn.functional import logsigmoid

    parts = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (e, u, N)]
    loss = -logsigmoid(parts[0] @ parts[1]) - logsigmoid(-(parts[2] @ parts[0])).sum()
    slopes = torch.autograd.grad(loss, parts)
    return tuple((x - lr * g).detach().numpy() for x, g in zip(parts, slopes, strict=True))


# %% wrong
wrong = {
    "the step goes uphill": (
        swap(
            "    e_new = e - lr * (pull * u + push @ N)\n"
            "    return e_new, u - lr * pull * e, N - lr * push[:, None] * e",
            "    e_new = e + lr * (pull * u + push @ N)\n"
            "    return e_new, u + lr * pull * e, N + lr * push[:, None] * e",
        )
    ),
    "the drawn contexts were pulled, not pushed": (
        swap("push = sigmoid(N @ e)", "push = sigmoid(N @ e) - 1")
    ),
    "the true context's error is σ − 1, not σ": swap("sigmoid(e @ u) - 1", "sigmoid(e @ u)"),
    "the contexts were moved along the new e": (
        swap("u - lr * pull * e, N - lr * push[:, None] * e",
             "u - lr * pull * e_new, N - lr * push[:, None] * e_new")
    ),
    "the word does not feel the drawn contexts": swap("(pull * u + push @ N)", "(pull * u)"),
    "the drawn contexts stay where they are": swap("N - lr * push[:, None] * e", "N + 0 * e"),
    "exp(1000) is infinite, and infinity over infinity is NaN": (
        swap("(1 + np.tanh(x / 2)) / 2", "np.exp(x) / (1 + np.exp(x))")
    ),
    "the other half of the fraction overflows: exp(−x) at −1,000": (
        swap("(1 + np.tanh(x / 2)) / 2", "1 - np.exp(-x) / (1 + np.exp(-x))")
    ),
    "the learning rate is missing for the contexts": (
        swap("u - lr * pull * e, N - lr * push", "u - pull * e, N - push")
    ),
    "the learning rate is missing for the word": swap("e - lr * (pull", "e - (pull"),
}  # fmt: skip
