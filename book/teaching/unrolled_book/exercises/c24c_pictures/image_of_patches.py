r"""The image of its patches

`patches` `(B, N, C·size²)` are the squares of B images, in reading order: left to right, then down.
Each square holds its first channel row by row, then the next channel. Write
`image_of_patches(patches, size, height, width)`; it returns the images `(B, C, height, width)`.
`size` divides both, and the images need not be square.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def image_of_patches(patches, size, height, width):
    """Images (B, C, height, width)."""
    down, across = height // size, width // size
    x = patches.reshape(len(patches), down, across, -1, size, size)
    x = x.transpose(0, 3, 1, 4, 2, 5)  # (B, C, down, size, across, size)
    return x.reshape(len(patches), -1, height, width)


# %% explanation
explanation = r"""
First give every axis a name: B, row of squares, column of squares, channel, row in the square,
column in the square. Then bring side by side what belongs together, row of squares and row in the
square, column of squares and column in the square; then join them.

A `reshape` alone never moves a number. It would give an image of the right shape whose rows are
squares unrolled. Nothing complains: the shapes are right.
"""


# %% tests
def tests(rng):
    yield call(np.arange(16.0).reshape(1, 4, 4), 2, 4, 4, visible=True)
    yield call(np.arange(12.0).reshape(1, 1, 12), 2, 2, 2, hint="one patch, three channels")
    yield call(np.arange(6.0).reshape(1, 6, 1), 1, 2, 3, hint="patches of one pixel")
    yield call(rng.normal(size=(2, 6, 8)), 2, 4, 6, hint="two channels")
    for b, c, size, down, across in [(2, 3, 2, 3, 5), (1, 2, 3, 4, 2), (3, 1, 5, 1, 2)]:
        yield call(rng.normal(size=(b, down * across, c * size**2)), size, down * size,
                   across * size)  # fmt: skip


# %% oracle
def oracle(patches, size, height, width):
    """Pixel by pixel."""
    B, _, wide = patches.shape
    C, across = wide // size**2, width // size
    image = np.zeros((B, C, height, width), dtype=patches.dtype)
    for c in range(C):
        for i in range(height):
            for j in range(width):
                n = i // size * across + j // size
                image[:, c, i, j] = patches[:, n, c * size**2 + i % size * size + j % size]
    return image


# %% wrong
wrong = {
    "a reshape alone moves no number: pixels of one square stay in one line": (
        lambda patches, size, height, width: patches.reshape(len(patches), -1, height, width)
    ),
    "squares come in reading order: left to right, then down": swap(
        "down, across, -1, size, size)", "across, down, -1, size, size)"
    ).swap("transpose(0, 3, 1, 4, 2, 5)", "transpose(0, 3, 2, 4, 1, 5)"),
    "rows and columns within a square are exchanged": swap(
        "transpose(0, 3, 1, 4, 2, 5)", "transpose(0, 3, 1, 5, 2, 4)"
    ),
    "a square holds one channel after the other, not pixel by pixel": swap(
        "down, across, -1, size, size)", "down, across, size, size, -1)"
    ).swap("transpose(0, 3, 1, 4, 2, 5)", "transpose(0, 5, 1, 3, 2, 4)"),
    "the channels stand before height and width": swap(
        "transpose(0, 3, 1, 4, 2, 5)", "transpose(0, 1, 4, 2, 5, 3)"
    ).swap("-1, height, width)", "height, width, x.shape[-1])"),
    "images have a batch axis": swap(
        "return x.reshape(len(patches), -1, height, width)",
        "return x.reshape(-1, height, width)",
    ),
    "images have a channel axis, even with one channel": swap(
        "return x.reshape(len(patches), -1, height, width)",
        "return x.reshape(len(patches), -1, height, width).squeeze(1) "
        "if x.shape[1] == 1 else x.reshape(len(patches), -1, height, width)",
    ),
    "height and width are exchanged": swap("-1, height, width)", "-1, width, height)"),
    "the image is mirrored": swap(
        "return x.reshape(len(patches), -1, height, width)",
        "return x.reshape(len(patches), -1, height, width)[..., ::-1]",
    ),
}
