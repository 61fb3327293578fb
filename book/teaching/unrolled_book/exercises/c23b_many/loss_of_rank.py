r"""The loss that each process must take

`DistributedDataParallel` *averages* the gradients of $R$ processes. You cannot change that, but you
choose the number from which each process starts its backward pass. Write
`loss_of_rank(nats, real, counts)`, the loss of one process, such that the average over the
processes is the gradient of the mean loss of **all** real tokens:

- `nats` `(B, T)`: the losses of this process's tokens, padding included;
- `real` `(B, T)`: True where a token counts;
- `counts` `(R,)`: how many real tokens each of the processes has, this one among them.

Return a number. A process whose tokens are all padding is possible; at padding `nats` may hold
anything, even NaN. In the whole batch at least one token is real.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def loss_of_rank(nats, real, counts):
    """What this process differentiates; gradients will be averaged."""
    return len(counts) * nats[real].sum() / counts.sum()


# %% explanation
explanation = r"""
The average over the processes is $\frac1R \sum_r \nabla L_r$, and it is to be
$\sum_r \nabla S_r / \sum_r n_r$ with $S_r$ the sum of the nats of process $r$. So
$L_r = R\, S_r / \sum_r n_r$.

The factor $R$ cancels the averaging. It is easily forgotten: then the gradient is $R$ times too
small, which Adam and gradient clipping may hide completely. With the process's own count in the
denominator, and without $R$, it is the mean of means of the chapter.

`nats[real]` leaves the padding out; `(nats * real).sum()` would turn a NaN at padding into a NaN
of the sum.
"""


# %% tests
def tests(rng):
    yield call(
        np.array([[1.0, 2.0, 9.0], [3.0, 9.0, 9.0]]),
        np.array([[True, True, False], [True, False, False]]),
        np.array([3, 5]),
        visible=True,
    )
    for shape, others in (((2, 5), [4, 1, 9]), ((3, 4), [30]), ((1, 7), []), ((5, 2), [3] * 7)):
        real = rng.random(shape) < 0.7
        real[0, 0] = True
        yield call(
            rng.exponential(2, size=shape), real, np.array([real.sum(), *others]),
            hint=f"{1 + len(others)} processes",
        )  # fmt: skip
    real = np.array([[True, True, True, False], [True, False, False, False]])
    for own in (1, 2):  # this process stands in the middle, then last
        yield call(
            rng.exponential(2, size=(2, 4)), real, np.insert([9, 0], own, 4),
            hint=f"this process is number {own} of 0 to 2",
        )  # fmt: skip
    real = np.zeros((2, 3), dtype=bool)
    yield call(rng.exponential(2, size=(2, 3)), real, np.array([7, 0]), hint="all is padding here")
    yield call(
        np.array([[0.5, np.nan], [np.nan, np.nan]]), np.array([[True, False], [False, False]]),
        np.array([1, 3]), hint="NaN at padding",
    )  # fmt: skip


# %% oracle
def oracle(nats, real, counts):
    """The slope of the wanted mean with respect to a factor on this process's nats, undone."""
    total = 0.0
    for row, mask in zip(nats.tolist(), real.tolist(), strict=True):
        for value, counted in zip(row, mask, strict=True):
            if counted:
                total += value
    wanted = total / sum(counts.tolist())  # this process's part of the mean over all tokens
    averaged = 1 / len(counts.tolist())  # what becomes of a gradient of 1
    return wanted / averaged


# %% wrong
def own_mean(nats, real, counts):
    return nats[real].mean() if real.any() else 0.0


def of_the_first(nats, real, counts):
    if not real.any():
        return 0.0
    return len(counts) * nats[real].mean() * counts[0] / counts.sum()


wrong = {
    "`counts[0]` is the first process's count, which need not be this one's": of_the_first,
    "this is the mean over one's own tokens: averaged, it becomes a mean of means": own_mean,
    "the averaging divides by the number of processes: multiply by it before": (
        swap("len(counts) * ", "")
    ),
    "the sum is averaged over the processes, but never divided by all tokens": (
        swap(" / counts.sum()", "")
    ),
    "the average divides by the number of processes already; here it is divided twice": (
        swap("len(counts) * nats[real].sum() / counts.sum()",
             "nats[real].sum() / counts.sum() / len(counts)")
    ),
    "padding is counted as well": swap("nats[real]", "nats"),
    "a NaN at padding times 0 is NaN: choose the real tokens instead": (
        swap("nats[real].sum()", "(nats * real).sum()")
    ),
    "each process's share is by tokens, not by rows": (
        swap("len(counts) * nats[real].sum() / counts.sum()",
             "nats[real].sum() / max(real.sum(), 1) * len(nats) / len(counts)")
    ),
    "all tokens of all processes are counted, padding is not one of them": (
        swap("counts.sum()", "(nats.size * len(counts))")
    ),
    "a process without tokens divides 0 by 0": (
        swap("len(counts) * nats[real].sum() / counts.sum()",
             "len(counts) * nats[real].mean() * real.sum() / counts.sum()")
    ),
    "the real tokens are left out and the padding kept": swap("nats[real]", "nats[~real]"),
    "the largest count is not the sum of the counts": swap("counts.sum()", "counts.max()"),
}  # fmt: skip
