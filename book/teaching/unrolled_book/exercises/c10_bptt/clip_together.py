r"""One factor for all

Write `clip_together(gradients, limit)`: clip a list of arrays of any shapes by their *global* norm.
Return the pair of the clipped list and the norm before clipping. Gradients whose norm is within the
limit come back unchanged, zeros included, and the arrays that were handed in stay as they are.

These gradients may have exploded: entries reach $10^{200}$, and the square of that is infinity in
floating-point numbers. The norm itself is not.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def clip_together(gradients, limit):
    """The gradients, scaled to a global norm of at most limit; their norm."""
    largest = max(np.abs(g).max() for g in gradients)
    if largest == 0:
        return gradients, 0.0
    norm = largest * np.sqrt(sum(((g / largest) ** 2).sum() for g in gradients))
    factor = min(1.0, limit / norm)
    return [g * factor for g in gradients], norm


# %% explanation
explanation = r"""
All gradients together are one long vector, so the squares of *all* entries are added before the
root is taken, and one factor scales everything: the direction stays. The factor is at most 1,
since clipping shortens and never lengthens. Dividing by the largest entry first keeps every
square at most 1; it is taken off the norm and put back, as the maximum is in a log-softmax. If
all entries are 0, there is nothing to divide by and nothing to clip.
"""


# %% tests
outputs = ("clipped", "norm")


def tests(rng):
    yield call([np.array([3.0]), np.array([[0.0, 4.0]]), np.array([12.0])], 6.5, visible=True)
    yield call([rng.normal(size=(3, 5)), rng.normal(size=7), rng.normal(size=(2, 2))], 0.5)
    s = rng.uniform(0.5, 1.5, size=5)
    yield call(
        [s[0] * np.array([0.3]), s[0] * np.array([0.4])], 1.0, hint="already within the limit"
    )
    yield call([np.zeros((2, 3)), np.zeros(5)], 1.0, hint="all gradients are zero")
    yield call([s[1] * np.array([100.0, 1.0])], 1.0, hint="one large entry, one small")
    arrays = [s[2] * np.array([3.0, 0.0]), s[2] * np.array([0.0, 4.0])]
    yield call(arrays, 1.0, hint="a zero in each array")
    hint = "entries of 1e200, whose squares overflow"
    yield call([s[3] * np.array([3e200, 0.0]), s[3] * np.array([[4e200]])], 10.0, hint=hint)
    arrays = [s[4] * np.array([1.0, -1.0]), s[4] * np.array([0.0, 1.0, 1.0])]
    yield call(arrays, 2 * float(s[4]), hint="exactly the limit")
    arrays = [np.zeros(2), -s[0] * np.ones((2, 1, 2))]
    yield call(arrays, 1.0, hint="the first array is all zeros, and no entry is above 0")


# %% oracle
def oracle(gradients, limit):
    """Python's hypot over all entries one by one, which neither overflows nor knows arrays."""
    from math import hypot

    norm = hypot(*(float(entry) for g in gradients for entry in g.ravel()))
    clipped = [np.array(g) if norm <= limit else g / (norm / limit) for g in gradients]
    return clipped, norm


# %% wrong
def each_by_itself(gradients, limit):
    _, norm = clip_together(gradients, limit)
    return [clip_together([g], limit)[0][0] for g in gradients], norm


wrong = {
    "a square overflows on the way to a norm that does not": (
        swap("largest * np.sqrt(sum(((g / largest) ** 2)", "np.sqrt(sum((g**2)")
    ),
    "each array is clipped by its own norm; one factor belongs to all": each_by_itself,
    "every entry is cut off by itself, which turns the direction": (
        swap("g * factor", "np.clip(g, -limit, limit)")
    ),
    "small gradients are lengthened to the limit; clipping only shortens": (
        swap("min(1.0, limit / norm)", "limit / norm")
    ),
    "the norm after clipping is returned; the norm before tells of explosions": (
        swap("gradients], norm", "gradients], min(norm, limit)")
    ),
    "norms are added where squares must be added before the root is taken": (
        swap(
            "np.sqrt(sum(((g / largest) ** 2).sum()", "sum(np.sqrt(((g / largest) ** 2).sum())"
        ).swap("for g in gradients))", "for g in gradients)")
    ),
    "the arrays that were handed in are changed": (
        swap(
            "return [g * factor for g in gradients]",
            "for g in gradients:\n        g *= factor\n    return gradients",
        )
    ),
    "where all gradients are zero, 0 / 0 is not a number": (
        swap("    if largest == 0:\n        return gradients, 0.0\n", "").swap(
            "min(", "np.minimum("
        )
    ),
    "this is the largest entry, not the norm": swap("norm = largest * ", "norm = largest  # "),
    "the gradient is divided by its norm twice": (
        swap("min(1.0, limit / norm)", "1.0 if norm <= limit else limit / norm / norm")
    ),
}
