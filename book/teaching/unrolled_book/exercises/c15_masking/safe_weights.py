r"""Weights that nothing can spoil

Write `safe_weights(scores, mask)`: the softmax of `scores` over the last axis, among the keys
where `mask` is True, and 0 elsewhere. `scores` is a float array (…, T, S); `mask` is boolean and
broadcasts to it. In detail:

- hidden scores must not matter, even if they are enormous, `inf` or `nan`;
- visible scores are finite, but may be large, positive or negative;
- a row in which nothing is visible must give zeros;
- `scores` must stay unchanged.

You need numpy only, and no loop over rows.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def safe_weights(scores, mask):
    """Masked softmax over the last axis: (…, T, S) → weights (…, T, S)."""
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(top > -np.inf, top, 0))  # empty row: 0
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total > 0, total, 1)


# %% explanation
explanation = r"""
Take the maximum *after* the hidden scores have become $-\infty$: otherwise a large hidden score
makes all visible exponentials underflow. Subtracting the maximum prevents overflow. One case
remains: an empty row has the maximum $-\infty$, and $-\infty - (-\infty)$ is NaN. So we subtract 0
there, every exponential is 0, and the sum 0 is replaced by 1 before the division.

`np.where` chooses between two arrays. A product with the mask would fail, because
$0 \cdot \mathrm{NaN}$ is NaN.
"""


# %% tests
def tests(rng):
    yield call(np.log([[1.0, 2.0, 1.0, 4.0]]), np.array([[True, True, True, False]]), visible=True)
    for shape in [(3, 5), (2, 3, 4, 4)]:
        mask = rng.random(shape) < 0.6
        mask[..., 0] = True
        yield call(rng.normal(size=shape), mask)
    yield call(rng.normal(size=(2, 5, 5)), np.tri(5, dtype=bool), hint="the mask broadcasts")
    scores, mask = rng.normal(size=(3, 4)), np.ones((3, 4), dtype=bool)
    mask[1] = False
    yield call(scores, mask, hint="in row 1 nothing is visible")
    scores = rng.normal(size=(2, 4)) + np.array([[900.0], [-900_000.0]])
    yield call(scores, np.arange(4) < 3, hint="the visible scores are large")
    scores = rng.normal(size=(3, 4))
    scores[:, 3] = [np.nan, np.inf, 1e6]
    yield call(scores, np.arange(4) < 3, hint="nan, inf and 1e6 stand at hidden positions")
    hint = "the visible scores lie far below −1e9"
    yield call(rng.normal(size=(5, 5)) - 2e10, np.eye(5, dtype=bool) == 0, hint=hint)
    hint = "the visible scores are near −1e300: no number replaces −∞"
    yield call(np.full((4, 4), -1e300), np.eye(4, dtype=bool) == 0, hint=hint)


# %% oracle
def oracle(scores, mask):
    """Row by row, torch's softmax of what is visible."""
    import torch

    mask, weights = np.broadcast_to(mask, scores.shape), np.zeros(scores.shape)
    for place in np.ndindex(scores.shape[:-1]):
        if mask[place].any():
            row = torch.from_numpy(scores[place][mask[place]])
            weights[place][mask[place]] = row.softmax(-1).numpy()
    return weights


# %% wrong
wrong = {
    "a row of −∞ only gives nan: −∞ − (−∞) in the exponent": (
        swap("np.where(top > -np.inf, top, 0)", "top")
    ),
    "with −1e9 for −∞ an empty row is spread evenly, and −2e10 is lower still": (
        swap("scores, -np.inf)", "scores, -1e9)")
    ),
    "with −1e12 for −∞ and zeros after the softmax, visible scores may still be lower": (
        swap("scores, -np.inf)", "scores, -1e12)").swap(
            "e / np.where(total > 0, total, 1)",
            "np.where(mask, e / np.where(total > 0, total, 1), 0)",
        )
    ),
    "the weights are set to 0 after the softmax and not divided by their new sum": (
        swap("    scores = np.where(mask, scores, -np.inf)\n", "").swap(
            "e / np.where(total > 0, total, 1)", "np.where(mask, e / total, 0)"
        )
    ),
    "the hidden scores are set to 0, and exp(0) is 1": swap("scores, -np.inf)", "scores, 0)"),
    "the mask is multiplied in: 0 times nan is nan, and a score of 0 is not hidden": (
        swap("np.where(mask, scores, -np.inf)", "scores * mask")
    ),
    "True means visible; here it means hidden": swap("np.where(mask,", "np.where(~mask,"),
    "the maximum is not subtracted, so exp overflows or underflows": (
        swap("scores - np.where(top > -np.inf, top, 0)", "scores")
    ),
    "the maximum is taken over hidden scores too, and visible ones underflow beside it": (
        swap(
            "    scores = np.where(mask",
            "    top = np.nanmax(scores, axis=-1, keepdims=True)\n    scores = np.where(mask",
        ).swap("    top = scores.max(axis=-1, keepdims=True)\n", "")
    ),
    "the logarithm of the sum has few digits beside scores of 1e10: subtract the maximum, divide": (
        swap(
            "e / np.where(total > 0, total, 1)",
            "np.exp(scores - (np.where(top > -np.inf, top, 0) + np.log(total + (total == 0))))",
        )
    ),
    "the softmax runs over the queries, not over the keys": swap("axis=-1", "axis=-2", 2),
    "the hidden scores are overwritten in the array that was handed in": (
        swap(
            "scores = np.where(mask, scores, -np.inf)",
            "scores[~np.broadcast_to(mask, scores.shape)] = -np.inf",
        )
    ),
}
