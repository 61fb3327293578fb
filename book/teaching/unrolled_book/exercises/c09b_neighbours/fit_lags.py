r"""Fit the lags

Write `fit_lags(x, n_lags)`: the linear autoregression

$$
\hat x_t = c + \sum_{k=1}^{m} a_k\, x_{t-k}
$$

with $m$ = `n_lags`, fitted by least squares to all N series of `x`, `(N, T)`, together. Every value
with $m$ values of its *own* series before it is a target. Return the pair `(a, c)`: `a` is `(m,)`
with $a_1$, the weight of the latest value, first; `c` is a number. There is always one best answer.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def fit_lags(x, n_lags):
    """Weights (m,) of the last m values, the latest first, and the constant."""
    length = x.shape[1]
    past = [x[:, n_lags - k : length - k] for k in range(1, n_lags + 1)]
    X = np.stack([*past, np.ones_like(past[0])], axis=-1)  # (N, T − m, m + 1)
    y = x[:, n_lags:]
    solved, *_ = np.linalg.lstsq(X.reshape(-1, n_lags + 1), y.ravel(), rcond=None)
    return solved[:-1], solved[-1]


# %% explanation
explanation = r"""
For the lag $k$ the inputs are the same array, cut $k$ steps earlier: `x[:, m - k : T - k]` stands
beside `x[:, m : T]`. A column of ones gives the constant. Cutting before flattening keeps the
series apart; one long row of all of them would let the end of one series forecast the start of the
next.

No loop, no learning rate, no seed: where a weighted sum of the last values is the truth, this is
the forecast to beat.
"""


# %% tests
def series(rng, n, length, weights, constant):
    p = len(weights)
    x = rng.normal(size=(n, length))
    for t in range(p, length):
        x[:, t] += constant + x[:, t - p : t][:, ::-1] @ weights
    return x


def tests(rng):
    yield call(np.array([[1.0, 3.0, 7.0, 15.0]]), 1, visible=True, tolerance=1e-6)
    yield call(series(rng, 3, 23, [0.9, -0.5], 0.0), 2, tolerance=1e-6)
    yield call(
        series(rng, 5, 17, [0.2, 0.1, -0.7], 3.0), 3, hint="the mean is not 0", tolerance=1e-6
    )
    short = np.round(rng.normal(size=(29, 4)) * 9) + 20 * np.arange(29)[:, None]
    yield call(short, 2, hint="each of the 29 series has its own level", tolerance=1e-6)
    yield call(series(rng, 1, 31, [0.5], 1.0), 1, hint="a single series", tolerance=1e-6)


# %% oracle
def oracle(x, n_lags):
    """Every equation written down by itself, and the normal equations solved."""
    rows, targets = [], []
    for one in x.tolist():
        for t in range(n_lags, len(one)):
            rows.append([one[t - k] for k in range(1, n_lags + 1)] + [1.0])
            targets.append(one[t])
    R, y = np.array(rows), np.array(targets)
    solved = np.linalg.solve(R.T @ R, R.T @ y)
    return solved[:n_lags], solved[n_lags]


# %% wrong
def straddling(x, n_lags):
    flat = x.ravel()
    past = [flat[n_lags - k : flat.size - k] for k in range(1, n_lags + 1)]
    X = np.stack([*past, np.ones_like(past[0])], axis=-1)
    solved, *_ = np.linalg.lstsq(X, flat[n_lags:], rcond=None)
    return solved[:-1], solved[-1]


wrong = {
    "the weights are in the opposite order: the latest value comes first": swap(
        "return solved[:-1]", "return solved[-2::-1]"
    ),
    "the constant is missing": swap("np.ones_like(past[0])", "np.zeros_like(past[0])"),
    "the constant and the weights are not told apart: the column of ones is the last": swap(
        "return solved[:-1], solved[-1]", "return solved[1:], solved[0]"
    ),
    "the end of one series is used to forecast the start of the next": straddling,
    "only the first series is used": swap("    length", "    x = x[:1]\n    length"),
    "the lags count from 0, so the target itself is among the inputs": swap(
        "range(1, n_lags + 1)", "range(n_lags)"
    ),
    "the target is one step too late: x[t − 1] is left out of the inputs": swap(
        "n_lags - k : length - k]", "n_lags - k : length - k - 1]"
    ).swap("y = x[:, n_lags:]", "y = x[:, n_lags + 1 :]"),
    "one lag too many is fitted, and the oldest weight thrown away": swap(
        "    length", "    wanted, n_lags = n_lags, n_lags + 1\n    length"
    ).swap("solved[:-1], solved", "solved[:wanted], solved"),
}
