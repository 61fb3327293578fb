r"""The mean in place of the class token

Pictures of several sizes stand in one batch, filled up with empty patches. `hidden` `(B, 1 + N, D)`
is what the stack made of them: the class token first, then N patches. `real` `(B, N)` is True where
a patch belongs to the picture. A classifier may read the mean of the patches in place of the class
token. Write `mean_of_patches(hidden, real)`: for each picture the mean over its real patches,
`(B, D)`. A picture without a real patch gives zeros. What stands in an empty patch must not matter,
not even where it is NaN. Do not change the arguments.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def mean_of_patches(hidden, real):
    """(B, D): the mean over each picture's real patches."""
    kept = np.where(real[:, :, None], hidden[:, 1:], 0)
    count = np.maximum(real.sum(1, keepdims=True), 1)
    return kept.sum(1) / count


# %% explanation
explanation = r"""
The class token belongs to no patch, so it is no part of the mean; and the mean is over as many
patches as the picture has, not over N. `np.where` takes the empty ones out; a product with 0 would
keep a NaN, since $0 \cdot \text{NaN}$ is NaN.

A mean needs no vector of its own and cannot choose; the class token's attention can weigh the
patches. Dosovitskiy et al. (2021, appendix D.3) tried both and found that they do equally well,
each with its own learning rate; with the rate of the other, the mean had looked far worse.
"""


# %% tests
def tests(rng):
    yield call(np.array([[[9.0, 9.0], [1.0, 2.0], [3.0, 4.0], [5.0, 5.0]]]),
               np.array([[True, True, False]]), visible=True)  # fmt: skip
    yield call(rng.normal(size=(2, 4, 3)), np.array([[True] * 3, [False] * 3]),
               hint="a picture without a patch")  # fmt: skip
    broken = rng.normal(size=(1, 5, 2))
    broken[0, 3] = np.nan
    yield call(broken, np.array([[True, False, False, True]]), hint="NaN in an empty patch")
    yield call(rng.normal(size=(3, 2, 5)), np.ones((3, 1), dtype=bool), hint="one patch")
    for B, n, D in [(3, 7, 5), (2, 11, 3), (5, 3, 2)]:
        yield call(rng.normal(size=(B, 1 + n, D)), rng.random((B, n)) < 0.6)


# %% oracle
def oracle(hidden, real):
    """Picture by picture, patch by patch."""
    found = []
    for rows, keep in zip(hidden.tolist(), real.tolist(), strict=True):
        inside = [row for row, yes in zip(rows[1:], keep, strict=True) if yes]
        columns = zip(*inside, strict=True) if inside else [[0.0]] * len(rows[0])
        found.append([sum(column) / len(column) for column in map(list, columns)])
    return np.array(found)


# %% wrong
wrong = {
    "the class token is no patch": (
        lambda hidden, real: _mean(hidden, np.concatenate([real[:, :1] | True, real], 1))
    ),
    "the class token stands first, so the last patch is missing": swap(
        "hidden[:, 1:]", "hidden[:, :-1]"
    ),
    "only the picture's own patches count: empty ones are in the mean": (
        lambda hidden, real: hidden[:, 1:].mean(1)
    ),
    "the sum is divided by the number of real patches, not by all": swap(
        "np.maximum(real.sum(1, keepdims=True), 1)", "real.shape[1]"
    ),
    "the mean is asked for, not the sum": swap("kept.sum(1) / count", "kept.sum(1)"),
    "the mean is asked for, not the largest": swap(
        "kept.sum(1) / count", "kept.max(1) + 0 * count"
    ),
    "the class token alone is not the mean": (lambda hidden, real: hidden[:, 0]),
    "0 times NaN is NaN: take empty patches out": swap(
        "np.where(real[:, :, None], hidden[:, 1:], 0)", "real[:, :, None] * hidden[:, 1:]"
    ),
    "a picture without a patch gives zeros, not NaN": (
        lambda hidden, real: np.where(
            real.any(1, keepdims=True), _mean(hidden[:, 1:], real), np.nan
        )
    ),
    "each picture has its own number of patches": swap(
        "np.maximum(real.sum(1, keepdims=True), 1)", "np.maximum(real.sum(1).max(), 1)"
    ),
}


def _mean(rows, real):
    kept = np.where(real[:, :, None], rows, 0)
    return kept.sum(1) / np.maximum(real.sum(1, keepdims=True), 1)
