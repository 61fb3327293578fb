r"""Which inputs are read?

A stack of causal convolutions: in a layer with dilation $d$ and kernel size $s$, the unit at step
$t$ reads the units of the layer below at the steps $t,\; t - d,\; t - 2d, \dots, t - (s - 1)\,d$.
Steps before the first, 0, are padding and do not count.

Write `inputs_read(step, kernel_size, dilations)`: the steps of the input that the top unit at
`step` reads through all layers, as a sorted array of integers without repetition. `dilations` lists
the layers from the input upwards; all have the same kernel size, at least 1.

**Predict** before you run it: with kernels of size 2, which dilations of three layers read the most
inputs without a gap?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def inputs_read(step, kernel_size, dilations):
    """Sorted steps of the input that reach the top unit at this step."""
    steps = {step}
    for dilation in dilations:
        steps = {t - i * dilation for t in steps for i in range(kernel_size)}
    return np.array(sorted(t for t in steps if t >= 0), dtype=int)


# %% explanation
explanation = r"""
Walk down from the top. Each layer turns every step $t$ of the set into $s$ of them. How far back
the set reaches is a sum, $(s - 1)(d_1 + d_2 + \dots)$, so the order of the layers does not matter.
But how far is not how many: dilations 1 and 4 with kernels of size 2 read the steps $t, t - 1, t -
4, t - 5$ and nothing between.

With $d = 1, 2, 4$ the distances are all sums of some of these numbers, 0 to 7, each exactly once:
binary numbers. No other three dilations reach farther without a gap, since three layers of size 2
have $2^3$ paths. That is why the dilation doubles.
"""


# %% tests
def tests(rng):
    yield call(9, 2, [1, 4], visible=True)
    yield call(int(rng.integers(20, 40)), 2, [1, 2, 4, 8], hint="doubling dilations")
    yield call(int(rng.integers(3, 8)), 2, [1, 2, 4, 8], hint="steps before 0 are padding")
    yield call(4, 2, [3, 3], hint="steps before 0 are padding")
    yield call(int(rng.integers(30, 50)), 3, [1, 3], hint="kernels of size 3")
    yield call(int(rng.integers(13, 20)), 4, [2, 2], hint="two ways to one step count once")
    yield call(int(rng.integers(3, 10)), 1, [1, 2], hint="a kernel of size 1 reads one step")
    yield call(int(rng.integers(4, 12)), 3, [], hint="without layers a step reads itself")
    yield call(0, 2, [1, 2], hint="the first step")
    dilations = rng.integers(1, 6, size=3).tolist()
    yield call(int(rng.integers(20, 50)), int(rng.integers(2, 5)), dilations)


# %% oracle
def oracle(step, kernel_size, dilations):
    """torch's convolutions with weights of 1; an input is read if its gradient is not zero."""
    import torch

    x = torch.zeros(1, 1, step + 1, dtype=torch.float64, requires_grad=True)
    h = x
    for d in dilations:
        padded = torch.nn.functional.pad(h, ((kernel_size - 1) * d, 0))
        h = torch.nn.functional.conv1d(padded, torch.ones(1, 1, kernel_size).double(), dilation=d)
    h[0, 0, step].backward()
    return x.grad[0, 0].nonzero().flatten().numpy()


# %% wrong
def in_one_piece(step, kernel_size, dilations):
    first = step - (kernel_size - 1) * sum(dilations)
    return np.arange(max(0, first), step + 1)


wrong = {
    "all steps back to the earliest one are listed; dilations can leave gaps": in_one_piece,
    "steps before 0 are padding and do not count": swap(" if t >= 0", ""),
    "the dilation is left out: neighbours are read in every layer": swap("i * dilation", "i"),
    "each layer reads one step too far": swap("range(kernel_size)", "range(kernel_size + 1)"),
    "the unit's own step is left out": swap("range(kernel_size)", "range(1, kernel_size)"),
    "a unit reads the last step of its kernel only": swap(
        "i * dilation for t in steps for i in range(kernel_size)",
        "(kernel_size - 1) * dilation for t in steps",
    ),
    "the future is read: the steps go back, t − d": swap("t - i", "t + i"),
    "only the lowest layer is followed": swap("in dilations:", "in dilations[:1]:"),
    "a step that is read in two ways is listed twice": (
        swap("{step}", "[step]").swap(
            "{t - i * dilation for t in steps for i in range(kernel_size)}",
            "[t - i * dilation for t in steps for i in range(kernel_size)]",
        )
    ),
    "the steps come from the latest to the earliest; sort them upwards": swap(
        "if t >= 0)", "if t >= 0)[::-1]"
    ),
}
