r"""Positions for a larger picture

A Vision Transformer has learned `positions` `(1 + h·w, D)`: the class token's in front, then those
of a grid of h × w patches in reading order. Now its pictures have H × W patches. Write
`positions_for_size(positions, grid, new)` for `grid` = (h, w) and `new` = (H, W): it returns
`(1 + H·W, D)`. The class token's vector stays as it is. Row r of the new grid lies at
$r\,(h - 1)/(H - 1)$ among the old rows, so that corners lie on corners (with H = 1 at 0); columns
likewise. Between two old rows, and between two old columns, mix their vectors linearly. Do not
change `positions`.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4


# %% solution
def positions_for_size(positions, grid, new):
    """(1 + H·W, D): the positions of a picture with other sides."""
    (h, w), (H, W) = grid, new
    table = positions[1:].reshape(h, w, -1)
    table = between(table, H)  # (H, w, D)
    table = between(table.transpose(1, 0, 2), W).transpose(1, 0, 2)  # (H, W, D)
    return np.concatenate([positions[:1], table.reshape(H * W, -1)])


def between(table, n):
    """n rows in place of those of the table, mixed linearly."""
    at = np.arange(n) * ((len(table) - 1) / max(n - 1, 1))
    low = np.minimum(np.floor(at + 1e-9).astype(int), len(table) - 1)
    high = np.minimum(low + 1, len(table) - 1)
    share = (at - low)[:, None, None]
    return (1 - share) * table[low] + share * table[high]


# %% explanation
explanation = r"""
The table of positions is the only part of the model that knows how many patches there are. Patches
keep their size, so a larger picture has more of them, and the model has no vector for the new ones.
The vectors of the grid's neighbours are mixed: first down the columns, then along the rows. Linear
mixing along one axis does not touch the other, so the two steps may change places.

The class token has no place in the grid. Whoever forgets to take it off shifts every patch by one.

A program often mixes in another way (bicubic, or with pixels' centres in place of corners); then
the model is trained a little longer at the new size.
"""


# %% tests
def tests(rng):
    yield call(np.array([[9.0], [0.0], [2.0], [4.0], [6.0]]), (2, 2), (3, 3), visible=True)
    yield call(rng.normal(size=(7, 3)), (2, 3), (2, 3), hint="the same size")
    yield call(rng.normal(size=(7, 2)), (2, 3), (1, 1), hint="one patch: the first corner")
    yield call(rng.normal(size=(2, 4)), (1, 1), (3, 2), hint="from one patch")
    yield call(rng.normal(size=(13, 2)), (3, 4), (2, 3), hint="a smaller picture")
    for (h, w), new, D in [((2, 3), (5, 4), 3), ((4, 2), (7, 5), 1), ((3, 5), (3, 9), 2)]:
        yield call(rng.normal(size=(1 + h * w, D)), (h, w), new)


# %% oracle
def oracle(positions, grid, new):
    """torch's bilinear resizing with aligned corners."""
    import torch
    from torch.nn import functional as F

    first, rest = positions[:1], torch.from_numpy(positions[1:])
    table = rest.T.reshape(1, -1, *grid)
    table = F.interpolate(table, size=new, mode="bilinear", align_corners=True)
    return np.concatenate([first, table[0].flatten(1).T.numpy()])


# %% wrong
wrong = {
    "the class token's vector has no place in the grid and stands in front": swap(
        "np.concatenate([positions[:1], table.reshape(H * W, -1)])", "table.reshape(H * W, -1)"
    ),
    "the class token's vector stays as it is": swap(
        "[positions[:1], ", "[positions[1:].mean(0, keepdims=True), "
    ),
    "the class token comes first, the patches after it": swap(
        "[positions[:1], table.reshape(H * W, -1)]", "[table.reshape(H * W, -1), positions[:1]]"
    ),
    "the grid is h rows of w patches": swap("reshape(h, w, -1)", "reshape(w, h, -1)"),
    "the patches are in reading order, row by row": swap(
        "table.reshape(H * W, -1)", "table.transpose(1, 0, 2).reshape(H * W, -1)"
    ),
    "vectors are mixed, not taken from the nearest patch": swap(
        "share = (at - low)[:, None, None]", "share = np.round(at - low)[:, None, None]"
    ),
    "vectors are mixed, not taken from the patch before": swap(
        "share = (at - low)[:, None, None]", "share = 0 * at[:, None, None]"
    ),
    "the shares of the two neighbours are exchanged": swap(
        "(1 - share) * table[low] + share * table[high]",
        "share * table[low] + (1 - share) * table[high]",
    ),
    "corners lie on corners": swap("(len(table) - 1) / max(n - 1, 1)", "len(table) / n").swap(
        "(at - low)[:, None, None]", "np.minimum(at - low, 1)[:, None, None]"
    ),
    "columns are mixed as well as rows": swap(
        "between(table.transpose(1, 0, 2), W).transpose(1, 0, 2)",
        "table[:, np.arange(W) * w // W]",
    ),
}
