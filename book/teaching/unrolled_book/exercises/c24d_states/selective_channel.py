r"""One channel, step by step

One channel of a selective state has M numbers. At each position t it gets an input $x_t$, a step
$\Delta_t$, and M numbers each to write and to read. With the decays
$\lambda_1, \dots, \lambda_M$ it does

$$
h_t = e^{-\Delta_t \lambda} \odot h_{t-1} + \Delta_t\, x_t\, \text{write}_t, \qquad
y_t = \text{read}_t \cdot h_t .
$$

Write `selective_channel(x, step, decay, write, read, h)` for `x` and `step` `(T,)`, `decay` `(M,)`,
`write` and `read` `(T, M)`, and the state `h` `(M,)` before the first position. It returns the
pair of all outputs `(T,)` and the last state `(M,)`. T may be 0. Do not change the arguments.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("y", "h")


# %% solution
def selective_channel(x, step, decay, write, read, h):
    """All outputs (T,) and the last state (M,) of one channel."""
    y = np.zeros(len(x))
    for t in range(len(x)):
        h = np.exp(-step[t] * decay) * h + step[t] * x[t] * write[t]
        y[t] = read[t] @ h
    return y, h


# %% explanation
explanation = r"""
Each of the M numbers is kept by its own share, because each has its own decay, and the step is the
same for all. The input is written into all of them at once, weighted by `write`; `read` weights
them again, and the sum is one number. The output is read from the state *after* the input was
written.

Whoever begins with $h = 0$ and then with the state that came out of the first half of a text gets
the same outputs as in one go: the state is all that the past can say. That is why a long text can
be fed in pieces, and also why the past says no more than M numbers for each channel.
"""


# %% tests
def tests(rng):
    yield call(np.array([2.0, 1.0]), np.array([1.0, 2.0]), np.array([0.0, 1.0]),
               np.array([[1.0, 3.0], [0.0, 1.0]]), np.array([[1.0, -1.0], [2.0, 0.0]]),
               np.array([4.0, 0.0]), visible=True)  # fmt: skip
    yield call(np.zeros(0), np.zeros(0), np.ones(2), np.zeros((0, 2)), np.zeros((0, 2)),
               np.array([1.0, 2.0]), hint="no position")  # fmt: skip
    yield call(np.array([5.0]), np.array([0.0]), np.ones(3), np.ones((1, 3)), np.ones((1, 3)),
               rng.normal(size=3), hint="a step of 0 keeps the state")  # fmt: skip
    yield call(rng.normal(size=8), np.full(8, 100.0), np.ones(2), *rng.normal(size=(2, 8, 2)),
               np.ones(2), hint="large steps")  # fmt: skip
    for T, M in [(7, 3), (11, 5), (3, 1), (2, 2)]:
        x, step, decay = rng.normal(size=T), rng.random(T) + 0.1, rng.random(M) + 0.2
        yield call(x, step, decay, *rng.normal(size=(2, T, M)), rng.normal(size=M))


# %% oracle
def oracle(x, step, decay, write, read, h):
    """Without a recurrence: each state as a sum over all inputs before it."""
    clock = np.cumsum(np.concatenate([[0.0], step]))
    states = []
    for t in range(len(x) + 1):
        total = np.exp(-clock[t] * decay) * h
        for s in range(t):
            left = np.exp(-(clock[t] - clock[s + 1]) * decay)
            total = total + left * step[s] * x[s] * write[s]
        states.append(total)
    return np.array([(read[t] * states[t + 1]).sum() for t in range(len(x))]), states[-1]


# %% wrong
wrong = {
    "the output is read after the input was written, not before": swap(
        "        h = np.exp(-step[t] * decay) * h + step[t] * x[t] * write[t]\n"
        "        y[t] = read[t] @ h\n",
        "        y[t] = read[t] @ h\n"
        "        h = np.exp(-step[t] * decay) * h + step[t] * x[t] * write[t]\n",
    ),
    "the state before the first position counts": swap(
        "    y = np.zeros(len(x))\n", "    y, h = np.zeros(len(x)), np.zeros(len(decay))\n"
    ),
    "the step also weights what is written": swap("step[t] * x[t] * write[t]", "x[t] * write[t]"),
    "the state decays: the exponent is negative": swap("np.exp(-step", "np.exp(step"),
    "the step also sets how much is kept": swap("np.exp(-step[t] * decay)", "np.exp(-decay)"),
    "each number of the state has its own decay": swap(
        "np.exp(-step[t] * decay)", "np.exp(-step[t] * decay.mean())"
    ),
    "what is kept is e to the power of −Δλ, not 1 − Δλ": swap(
        "np.exp(-step[t] * decay)", "(1 - step[t] * decay)"
    ),
    "the input itself is written, weighted": swap(
        "step[t] * x[t] * write[t]", "step[t] * write[t]"
    ),
    "write and read have changed places": swap("x[t] * write[t]", "x[t] * read[t]").swap(
        "read[t] @ h", "write[t] @ h"
    ),
    "the state is weighted by read, not summed": swap("read[t] @ h", "h.sum()"),
    "for what is added, the formula has Δ, not 1 − e^−Δ": swap(
        "step[t] * x[t] * write[t]", "(1 - np.exp(-step[t])) * x[t] * write[t]"
    ),
}
