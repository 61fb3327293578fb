r"""The step of one, its momentum dealt out

$R$ processes train one model of $P$ weights by gradient descent with momentum. At ZeRO's first
stage each process keeps the momentum of its own part alone: process $r$ that of the $r$-th of $R$
equal runs of the $P$ weights. Write `zero_step(weights, sums, counts, means)`, all processes in one
function:

- `weights` `(P,)`: the same in all processes;
- `sums` `(R, P)`: each process's gradients, added up over the tokens of its own shard;
- `counts` `(R,)`: how many tokens each shard has; one may be 0, not all;
- `means` `(R, P / R)`: each process's momentum, of its part alone.

With $g$ the gradient of the mean loss over **all** tokens, a part's momentum becomes $0.9\, m +
0.1\, g$, and its weights become $w - 0.5\, m$ with the new $m$. Return the new weights `(P,)`, put
together from the parts, and the new momenta `(R, P / R)`. Change no argument.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("weights", "means")


# %% solution
def zero_step(weights, sums, counts, means):
    """New weights (P,) and momenta (R, P / R): the step of one process."""
    gradient = sums.sum(axis=0) / counts.sum()
    parts = gradient.reshape(means.shape)  # process r needs row r
    means = 0.9 * means + 0.1 * parts
    return weights - 0.5 * means.reshape(-1), means


# %% explanation
explanation = r"""
Each process needs the *summed* gradient of its part, and of no other: that is what a process holds
after the first half of the ring. It makes the step of its part, and the second half of the ring
hands out the new weights. So the sum is shared, the momentum is not, and nothing is computed twice.

The step is the one that a single process would make, since no weight's momentum depends on another
weight. Adam is dealt out in the same way. Clipping by the norm of the *whole* gradient needs one
more sum over all processes.
"""


# %% tests
def tests(rng):
    yield call(
        np.array([1.0, 1.0, 1.0, 1.0]),
        np.array([[8.0, 0.0, 4.0, 0.0], [4.0, 0.0, 0.0, 8.0]]),
        np.array([1, 3]),
        np.zeros((2, 2)),
        visible=True,
    )
    for R, size in ((3, 2), (2, 5), (4, 4), (1, 6)):
        yield call(
            rng.normal(size=R * size), 10 * rng.normal(size=(R, R * size)),
            rng.integers(1, 20, size=R), rng.normal(size=(R, size)),
            hint=f"{R} processes, {R * size} weights",
        )  # fmt: skip
    sums = rng.normal(size=(2, 6))
    sums[1] = 0
    yield call(
        rng.normal(size=6), sums, np.array([7, 0]), rng.normal(size=(2, 3)),
        hint="a process whose shard is empty",
    )  # fmt: skip


# %% oracle
def oracle(weights, sums, counts, means):
    """One process, weight after weight, its momentum in one long list."""
    momentum = [m for part in means.tolist() for m in part]
    after = []
    for i, weight in enumerate(weights.tolist()):
        total = 0.0
        for row in sums.tolist():
            total += row[i]
        momentum[i] = momentum[i] - 0.1 * momentum[i] + total / (10 * int(sum(counts)))
        after.append(weight - momentum[i] / 2)
    return np.array(after), np.array(momentum).reshape(means.shape)


# %% wrong
def mean_of_means(weights, sums, counts, means):
    gradient = (sums / np.maximum(counts, 1)[:, None]).mean(axis=0)
    means = 0.9 * means + 0.1 * gradient.reshape(means.shape)
    return weights - 0.5 * means.reshape(-1), means


def own_sums(weights, sums, counts, means):
    own = sums.reshape(len(means), *means.shape)[range(len(means)), range(len(means))]
    means = 0.9 * means + 0.1 * own / counts.sum()
    return weights - 0.5 * means.reshape(-1), means


def own_sums_and_counts(weights, sums, counts, means):
    own = sums.reshape(len(means), *means.shape)[range(len(means)), range(len(means))]
    means = 0.9 * means + 0.1 * own / np.maximum(counts, 1)[:, None]
    return weights - 0.5 * means.reshape(-1), means


wrong = {
    "the shards' means are averaged, whatever their numbers of tokens": mean_of_means,
    "each process takes its own sum alone: the sums of its part go over all processes": own_sums,
    "a process's own sum over its own count is the gradient of its shard": own_sums_and_counts,
    "the sum is never divided by the tokens": swap(" / counts.sum()", ""),
    "it is divided by the number of processes, not by the tokens": (
        swap("counts.sum()", "len(counts)")
    ),
    "it is divided by the processes once more": (
        swap("counts.sum()", "counts.sum() / len(counts)")
    ),
    "a process's part is a run of neighbours, not every R-th weight": (
        swap("reshape(means.shape)  # process r needs row r",
             "reshape(means.shape[::-1]).T")
    ),
    "the step uses the momentum from before the update": (
        swap("    means = 0.9 * means + 0.1 * parts\n"
             "    return weights - 0.5 * means.reshape(-1), means",
             "    return weights - 0.5 * means.reshape(-1), 0.9 * means + 0.1 * parts")
    ),
    "the weights go against the momentum, not along it": swap("weights - ", "weights + "),
    "0.9 belongs to the old momentum and 0.1 to the gradient": (
        swap("0.9 * means + 0.1 * parts", "0.1 * means + 0.9 * parts")
    ),
    "the old momentum is forgotten": swap("0.9 * means + 0.1 * parts", "parts"),
    "the learning rate is left out": swap("0.5 * ", ""),
    "the step is made with the gradient, not with the momentum": (
        swap("0.5 * means.reshape(-1)", "0.5 * gradient")
    ),
    "only the first process's gradient is used": swap("sums.sum(axis=0)", "sums[0]"),
}  # fmt: skip
