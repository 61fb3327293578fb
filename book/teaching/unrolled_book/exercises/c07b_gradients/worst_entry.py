r"""A gradient check of your own

Write `worst_entry(f, x, grad)`. `f` takes a float64 array of the shape of `x` and returns a
number; `grad` claims to be the gradient of `f` at `x`, in the shape of `x`. Differentiate by
two-sided differences with the step $10^{-5}$ and compare each entry $a$ of `grad` with the
measured $b$:

$$
\text{error} = \frac{|a - b|}{\max(|a|, |b|, 10^{-4})} .
$$

The $10^{-4}$ keeps entries that are nearly zero from being judged by their rounding. Return the
flat index of the entry with the largest error, counted as numpy counts (`x.flat`), and that
error rounded to two decimals. Leave `x` as it was.
"""

import numpy as np

from unrolled_book.exercises.engine import call

kind, level, points = "code", 2, 3


# %% solution
def worst_entry(f, x, grad):
    """Flat index of the worst entry of grad, and its error, to two decimals."""
    errors = []
    for i in range(x.size):
        above, below = x.copy(), x.copy()
        above.flat[i] += 1e-5
        below.flat[i] -= 1e-5
        b = (f(above) - f(below)) / 2e-5
        a = grad.flat[i]
        errors.append(abs(a - b) / max(abs(a), abs(b), 1e-4))
    worst = int(np.argmax(errors))
    return worst, round(float(errors[worst]), 2)


# %% explanation
explanation = r"""
Each entry takes two calls of `f`, each on a copy with one number moved. Copies matter: a nudge
that is not taken back moves all entries after it, and one that is taken back in floating-point
numbers may leave a rounding behind.

The error is relative, since gradients come in all sizes; a wrong factor of two has the error 0.5
whether the entry is 1,000 or 0.01. Where both are tiny, the quotient would compare rounding with
rounding. The floor in the denominator makes such an entry pass.
"""


# %% use
def cubes(x):
    return (x**3).sum()


def crossed(x):
    return np.sin(x[0, 0] * x[1, 2]) + x[1, 0] ** 2 * x[0, 1]


def bent(x):
    return (1e4 * x**3 + 100 * x**2).sum()


FUNCTIONS = {"cubes": cubes, "crossed": crossed, "bent": bent}
SHOWN = {
    "cubes": "(x**3).sum()",
    "crossed": "np.sin(x[0, 0] * x[1, 2]) + x[1, 0]**2 * x[0, 1]",
    "bent": "(1e4 * x**3 + 100 * x**2).sum()",
}


def use(answer, name, x, grad):
    return answer(FUNCTIONS[name], x, grad)


# %% tests
def show(name, x, grad):
    return (
        f"worst_entry(lambda x: {SHOWN[name]}, np.array({x.tolist()}), np.array({grad.tolist()}))"
    )


def crossed_gradient(x):
    grad = np.zeros_like(x)
    slope = np.cos(x[0, 0] * x[1, 2])
    grad[0, 0], grad[1, 2] = slope * x[1, 2], slope * x[0, 0]
    grad[1, 0], grad[0, 1] = 2 * x[1, 0] * x[0, 1], x[1, 0] ** 2
    return grad


def tests(rng):
    x = np.array([1.0, 2.0, -1.0])
    yield call("cubes", x, np.array([3.0, 6.0, 3.0]), visible=True)
    x = rng.uniform(1, 2, size=(2, 3))
    places = rng.permutation([(0, 0), (0, 1), (1, 0), (1, 2)])[:3]
    factors = [rng.uniform(1.5, 3), rng.uniform(0.6, 0.9), -rng.uniform(0.7, 1.3)]
    for at, factor in zip(places, rng.permutation(factors), strict=True):
        grad = crossed_gradient(x)
        grad[tuple(at)] *= factor
        yield call("crossed", x, grad)
    x = rng.uniform(1, 4, size=4)
    tiny, wrong, *_ = rng.permutation(4)
    x[tiny] = 1e-6
    grad = 3 * x**2
    grad[tiny] = 1e-8
    grad[wrong] *= rng.uniform(1.05, 1.4)
    yield call("cubes", x, grad, hint="the tiniest entry is too small to be judged")
    large = rng.uniform(20, 50, size=4)
    small, wrong, *_ = rng.permutation(4)
    large[small] = 0.5
    grad = 3 * large**2
    grad[small] *= rng.uniform(1.3, 2)
    grad[wrong] += 1.0
    yield call("cubes", large, grad, hint="a large error of a large entry is a small share of it")
    at, grad = np.array([0.0, 1.0]), np.array([0.0, 33_000.0])
    yield call("bent", at, grad, hint="two-sided, with a step of 1e-5")


# %% oracle
def oracle(name, x, grad):
    """torch differentiates, where the measured gradient has an error of about 1e-10."""
    import torch

    t = torch.tensor(x, requires_grad=True)
    if name == "crossed":
        value = torch.sin(t[0, 0] * t[1, 2]) + t[1, 0] ** 2 * t[0, 1]
    else:
        value = (t**3).sum() if name == "cubes" else (1e4 * t**3 + 100 * t**2).sum()
    value.backward()
    a, b = np.abs(grad).ravel(), np.abs(t.grad.numpy()).ravel()
    apart = np.abs(grad - t.grad.numpy()).ravel()
    error = apart / np.maximum(np.maximum(a, b), 1e-4)
    return int(error.argmax()), round(float(error.max()), 2)


# %% wrong
def measured(f, x, eps=1e-5):
    columns = []
    for i in range(x.size):
        above, below = x.copy(), x.copy()
        above.flat[i] += eps
        below.flat[i] -= eps
        columns.append((f(above) - f(below)) / (2 * eps))
    return np.array(columns).reshape(x.shape)


def judged(a, b, scale):
    error = np.abs(a - b) / scale(np.abs(a), np.abs(b))
    return int(error.argmax()), round(float(error.max()), 2)


def scale(a, b):
    return np.maximum(np.maximum(a, b), 1e-4)


def in_place(f, x, grad):
    b = np.zeros_like(x)
    for i in range(x.size):
        x.flat[i] += 1e-5
        high = f(x)
        x.flat[i] -= 2e-5
        b.flat[i] = (high - f(x)) / 2e-5
    return judged(grad, b, scale)


def tuple_index(f, x, grad):
    error = np.abs(grad - measured(f, x)) / scale(np.abs(grad), np.abs(measured(f, x)))
    at = np.unravel_index(error.argmax(), error.shape)
    return tuple(map(int, at)), round(float(error.max()), 2)


wrong = {
    "the error is absolute: divide by the larger of the two": (
        lambda f, x, grad: judged(grad, measured(f, x), lambda a, b: np.ones_like(a))
    ),
    "there is no floor: two tiny numbers are compared by their rounding": (
        lambda f, x, grad: judged(grad, measured(f, x), lambda a, b: np.maximum(a, b) + 1e-300)
    ),
    "the difference is not divided by 2ε but by ε": (
        lambda f, x, grad: judged(grad, 2 * measured(f, x), scale)
    ),
    "the error is divided by the measured derivative alone": (
        lambda f, x, grad: judged(grad, measured(f, x), lambda a, b: np.maximum(b, 1e-4))
    ),
    "the error is divided by the sum of both; the larger one was asked for": (
        lambda f, x, grad: judged(grad, measured(f, x), lambda a, b: np.maximum(a + b, 1e-4))
    ),
    "the sign is lost: the absolute values are compared": (
        lambda f, x, grad: judged(np.abs(grad), np.abs(measured(f, x)), scale)
    ),
    "the index has two parts; the flat index was asked for": tuple_index,
    "`x` was moved and not put back": in_place,
    "the best entry is returned, not the worst": (
        lambda f, x, grad: (
            int((np.abs(grad - measured(f, x))).argmin()),
            judged(grad, measured(f, x), scale)[1],
        )
    ),
    "all entries are moved at once": (
        lambda f, x, grad: judged(grad, np.full_like(x, (f(x + 1e-5) - f(x - 1e-5)) / 2e-5), scale)
    ),
}
