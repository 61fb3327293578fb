r"""The right first weights for any activation

He's start asks that the mean square of the sums, $\mathbb{E}[z^2]$, be the same in every layer. If
it is 1, and the sums are normally distributed, then the outputs of the layer before have the mean
square $\mathbb{E}[\phi(Z)^2]$ with a standard normal $Z$, and $n\, \mathrm{Var}(w)\,
\mathbb{E}[\phi(Z)^2] = 1$ must hold.

Write `start_variance(phi, n)`, where `phi` is a function that maps an array to an array of the same
shape, element by element, and `n` is the number of inputs. Return $\mathrm{Var}(w)$, a number.
Compute
the expectation as an integral over the normal density, for example as a sum over a fine grid from
$-8$ to 8; an error of one in a thousand is allowed.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% use
def use(answer, name, n, a):
    """n times the answer, whose size does not depend on n. phi has a name and a number a, since
    functions do not cross as JSON.
    """
    phis = {
        "line": lambda z: a * z,
        "relu": lambda z: np.maximum(z, 0),
        "tanh": lambda z: np.tanh(a * z),
        "sigmoid": lambda z: 1 / (1 + np.exp(-a * z)),
        "leaky relu": lambda z: np.where(z > 0, z, a * z),
        "shifted": lambda z: z + a,
    }
    return n * float(answer(phis[name], n))


# %% solution
def start_variance(phi, n):
    """Var(w) with which layers of n inputs keep E[z²] = 1."""
    z = np.linspace(-8, 8, 16001)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    mean_square = np.sum(phi(z) ** 2 * density) * (z[1] - z[0])
    return 1 / (n * mean_square)


# %% explanation
explanation = r"""
For the identity $\mathbb{E}[Z^2] = 1$ and the answer is LeCun's $1/n$; for ReLU it is $\frac12$,
and the answer is He's $2/n$. A leaky ReLU with slope $a$ on the left has $\frac{1 + a^2}{2}$, so
$\frac{2}{(1 + a^2)\, n}$. For tanh $\mathbb{E}[\tanh(Z)^2] = 0.394$, which asks for a standard
deviation of $1.59 / \sqrt n$: near the $\frac53$ that PyTorch recommends, and not equal to it.

What counts is the mean *square*, not the variance: the sigmoid's outputs have a mean of $\frac12$,
and the weights multiply that mean as well.
"""


# %% tests
def show(name, n, a):
    phi = {
        "line": f"{a} * z",
        "relu": "np.maximum(z, 0)",
        "tanh": f"np.tanh({a} * z)",
        "sigmoid": f"1 / (1 + np.exp(-{a} * z))",
        "leaky relu": f"np.where(z > 0, z, {a} * z)",
        "shifted": f"z + {a}",
    }
    return f"{n} * start_variance(lambda z: {phi[name]}, {n})"


def tests(rng):
    yield call("relu", 8, 0, visible=True, tolerance=1e-3)
    for name in rng.permutation(["line", "tanh", "sigmoid", "leaky relu", "shifted"]).tolist():
        lowest, highest = (0.1, 0.5) if name == "leaky relu" else (1.1, 2.5)
        a = round(float(rng.uniform(lowest, highest)), 3)
        hint = "outputs whose mean is not 0" if name in ("sigmoid", "shifted") else ""
        yield call(name, int(rng.integers(3, 200)), a, hint=hint, tolerance=1e-3)


# %% oracle
def oracle(name, n, a):
    """Adaptive integration of the square, for functions written a second time."""
    import math

    from scipy.integrate import quad

    phi = {
        "line": lambda z: z * a,
        "relu": lambda z: z if z > 0 else 0.0,
        "tanh": lambda z: math.tanh(z * a),
        "sigmoid": lambda z: 0.5 * (1 + math.tanh(a * z / 2)),
        "leaky relu": lambda z: max(z, 0.0) + a * min(z, 0.0),
        "shifted": lambda z: a + z,
    }[name]
    square = sum(
        quad(lambda z: phi(z) ** 2 * math.exp(-z * z / 2), *ends)[0] for ends in ((-9, 0), (0, 9))
    )
    return math.sqrt(2 * math.pi) / square


oracle_tolerance = 1e-4  # two integrals by different rules

# %% wrong
wrong = {
    "this is the standard deviation, not the variance": (
        swap("return 1 / (n * mean_square)", "return np.sqrt(1 / (n * mean_square))")
    ),
    "the mean of φ(Z) was taken, not that of its square": (
        swap("phi(z) ** 2 * density", "np.abs(phi(z)) * density")
    ),
    "the variance of φ(Z) was taken; a mean that is not 0 passes through the weights as well": (
        swap(
            "    return 1 / (n * mean_square)",
            "    mean = np.sum(phi(z) * density) * (z[1] - z[0])\n"
            "    return 1 / (n * (mean_square - mean**2))",
        )
    ),
    "the grid is treated as if all its points were equally likely": (
        swap("np.sum(phi(z) ** 2 * density) * (z[1] - z[0])", "np.mean(phi(z) ** 2)")
    ),
    "a larger mean square needs smaller weights: it belongs below the line": (
        swap("1 / (n * mean_square)", "mean_square / n")
    ),
    "n is the number of inputs; the bias is 0 and is not counted": (
        swap("1 / (n * mean_square)", "1 / ((n + 1) * mean_square)")
    ),
    "the number of inputs is missing": swap("1 / (n * mean_square)", "1 / mean_square"),
}
