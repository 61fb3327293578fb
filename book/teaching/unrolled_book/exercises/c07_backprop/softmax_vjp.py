r"""Softmax backwards, without its Jacobian

The Jacobian of $\hat y = \mathrm{softmax}(z)$ is
$\mathrm{diag}(\hat y) - \hat y \hat y^\top$: $V^2$ numbers for every row of a batch. The
backward pass never needs them, only its product $\bar z$ with the gradient $g$ that
arrives at $\hat y$.

Write `softmax_vjp(y_hat, g)` for two arrays of shape `(B, V)`; each row of `y_hat` is already
a softmax. Return $\bar z$, `(B, V)`; neither a loop nor a `(V, V)` matrix is needed.

Some classes may be *masked*: their logit is $-\infty$ and their entry of `y_hat` is exactly 0. What
`g` holds there may be anything, even infinity (the derivative of a logarithm at 0). It must not
matter: the gradient of a masked logit is 0, and all other entries are finite.
"""

import numpy as np

from unrolled_book.exercises.engine import call

kind, level, points = "code", 2, 3


# %% solution
def softmax_vjp(y_hat, g):
    """Gradient (B, V) of the logits, from y_hat and g, both (B, V)."""
    g = np.where(y_hat > 0, g, 0)  # 0 times infinity would be nan
    inner = (y_hat * g).sum(axis=-1, keepdims=True)  # (B, 1)
    return y_hat * (g - inner)


# %% explanation
explanation = r"""
The Jacobian is symmetric, so for each row

$$
\bar z = \mathrm{diag}(\hat y)\,g - \hat y\,(\hat y \cdot g)
= \hat y \odot (g - \hat y \cdot g) .
$$

The dot product is one number a row, so the work is $O(V)$ and not $O(V^2)$. The entries of $\bar
z$ sum to zero: adding a constant to all logits changes nothing, so no gradient points that way.

A masked class has $\hat y_i = 0$, so its row and its column of the Jacobian are zero, and in the
algebra $g_i$ plays no part. In floating-point numbers $0 \cdot \infty$ is not a number, and
through the dot product it would reach the whole row. So what stands there is set to 0 first.
"""


# %% use
memory_mb = 256  # a matrix of all pairs of 6,500 classes has 338


def use(answer, y_hat, g):
    """The output; an error where there was a matrix of all pairs of classes.

    Where memory is limited, it cannot be made. Elsewhere a thousand classes show it, and spare the
    reader's machine.
    """
    import tracemalloc

    too_large = MemoryError("there was a matrix of the shape (V, V)")
    V = min(y_hat.shape[-1], 1000)
    if V > 100:  # small calls tell nothing: an import takes more
        tracemalloc.start()
        try:
            answer(y_hat[:, :V].copy(), g[:, :V].copy())
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        if most > 8 * V**2 / 2:
            raise too_large
    try:
        return answer(y_hat, g)
    except MemoryError:
        raise too_large from None


# %% tests
show = True


def softmax_rows(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def tests(rng):
    yield call(np.array([[0.5, 0.25, 0.25]]), np.array([[1.0, 0.0, 0.0]]), visible=True)
    for shape in [(2, 3), (5, 7)]:
        yield call(softmax_rows(rng.normal(size=shape)), rng.normal(size=shape))
    z, g = rng.normal(size=(2, 3, 11))
    z[0, 2:5], g[0, 2:5] = -np.inf, (np.inf, -np.inf, np.nan)
    yield call(softmax_rows(z), g, hint="three classes of the first row are masked")
    square = np.full((3, 3), 1 / 3)
    yield call(square, rng.normal(size=(3, 3)), hint="B = V here: which axis do you sum over?")
    many = softmax_rows(rng.normal(size=(1, 6500)))
    yield call(many, rng.normal(size=many.shape), hint="6,500 classes: a (V, V) matrix is 338 MB")


# %% oracle
def oracle(y_hat, g):
    """Row by row and without the masked classes, torch differentiates the softmax."""
    import torch

    z_bar = np.zeros_like(y_hat)
    for row, (y, grad) in enumerate(zip(y_hat, g, strict=True)):
        z = torch.tensor(np.log(y[y > 0]), requires_grad=True)  # softmax(log y) is y
        torch.softmax(z, dim=0).backward(torch.tensor(grad[y > 0]))
        z_bar[row, y > 0] = z.grad.numpy()
    return z_bar


# %% wrong
def in_place(y, g):
    g -= (y * g).sum(axis=-1, keepdims=True)
    return y * g


def jacobian_of_the_sum(y, g):
    y, g = y.sum(axis=0), g.sum(axis=0)
    return y * (g - y @ g)


def whole_jacobian(y, g):
    jacobian = np.einsum("bi,ij->bij", y, np.eye(y.shape[-1])) - np.einsum("bi,bj->bij", y, y)
    return np.einsum("bij,bj->bi", jacobian, np.where(y > 0, g, 0))


wrong = {
    "the whole Jacobian is built, V² numbers for each row; only its product is needed": (
        whole_jacobian
    ),
    "0 times infinity is not a number: set g to 0 at masked classes before the product": (
        lambda y, g: y * (g - (y * g).sum(axis=-1, keepdims=True))
    ),
    "`y` is a softmax already; here it went through a softmax again": (
        lambda y, g: softmax_vjp(softmax_rows(y), g)
    ),
    "only the diagonal of the Jacobian is used": lambda y, g: y * g,
    "the diagonal is ŷ(1 − ŷ), as for a sigmoid; the other entries of the Jacobian are lost": (
        lambda y, g: y * (1 - y) * g
    ),
    "the inner product is summed over the batch, not over the vocabulary": (
        lambda y, g: y * (g - (y * g).sum(axis=0, keepdims=True))
    ),
    "the inner product is summed over the whole array; each row has its own": (
        lambda y, g: y * (g - (y * g).sum())
    ),
    "the sign is reversed": lambda y, g: y * ((y * g).sum(axis=-1, keepdims=True) - g),
    "the inner product is averaged where it must be summed": (
        lambda y, g: y * (g - (y * g).mean(axis=-1, keepdims=True))
    ),
    "the last factor ŷ is missing": lambda y, g: g - (y * g).sum(axis=-1, keepdims=True),
    "the rows of the batch are added up; the answer keeps one row for each": jacobian_of_the_sum,
    "`-=` writes into the gradient that was handed in": in_place,
}
