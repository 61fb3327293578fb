r"""Buckets in two directions

An encoder looks both ways, so T5 gives each direction half of the buckets. Let $r$ say how many
positions the key lies *before* the query; a negative $r$ means after. With $N$ buckets in all:

- keys before the query, and the query's own position, have the buckets $0$ to $N/2 - 1$;
- keys after it have the same, by their distance $|r|$, plus $N/2$;
- in each direction the first $N/4$ buckets hold one distance each, $|r| = 0, \dots, N/4 - 1$, and
  the others share what lies from $N/4$ to `max_distance`, evenly on a logarithmic scale, as in
  the chapter. The last one takes all that is farther.

Write `two_way_bucket(r, n_buckets, max_distance)` for an integer `r`; `n_buckets` is a multiple
of four. A distance that lies exactly on a boundary belongs to the bucket that begins there,
whatever rounding says: the logarithms of floats may come out a hair too small.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def two_way_bucket(r, n_buckets, max_distance):
    """T5's bucket, an int, of a key r positions before the query."""
    one_way = n_buckets // 2
    exact = one_way // 2
    first = one_way if r < 0 else 0
    distance = abs(r)
    if distance < exact:
        return first + distance
    share = np.log(distance / exact) / np.log(max_distance / exact)
    # What rounding takes away must not move a distance below its boundary.
    step = int(share * (one_way - exact) + 1e-9)
    return first + min(one_way - 1, exact + step)


# %% explanation
explanation = r"""
Halve twice: once for the direction, once for exact and shared buckets. With 32 buckets and 128
that leaves 8 exact ones and 8 shared ones each way, and the boundaries lie at $8 \cdot 16^{j/8} =
8, 11.3, 16, 22.6, 32, \dots$: every second one is a whole number. There $\ln(r/8)/\ln 16$ should
give a whole number of eighths, and floats may give a little less; hence the small addition.

Bucket $N/2$, "after, at distance 0", is never used: distance 0 is the query itself, and counts as
before. T5's code has that empty bucket, too.
"""


# %% tests
def tests(rng):
    yield call(3, 32, 128, visible=True)
    yield call(-20, 32, 128, visible=True)
    for r in (0, 7, 8, -7, -8, 1, -1):
        yield call(r, 32, 128, hint="near distances")
    for r in (16, 32, 64, -16, -64, 128, -128):
        yield call(r, 32, 128, hint="distances on a boundary")
    for r, n_buckets, max_distance in ((80, 20, 160), (20, 20, 160), (-160, 40, 320)):
        yield call(r, n_buckets, max_distance, hint="on a boundary, whatever rounding says")
    for r in (500, -500):
        yield call(r, 32, 128, hint="beyond the last boundary")
    for _ in range(8):
        n_buckets, r = 4 * int(rng.integers(1, 9)), int(rng.integers(-90, 91))
        max_distance = int(rng.integers(n_buckets, 80))
        yield call(r, n_buckets, max_distance, hint="other numbers of buckets")


# %% oracle
def oracle(r, n_buckets, max_distance):
    """Whole numbers only: bucket e + j begins where distance^m ≥ e^m (max/e)^j, m = e."""
    e = n_buckets // 4
    d, bucket = abs(r), 0
    if d < e:
        bucket = d
    else:
        bucket = max(e + j for j in range(e) if d**e * e**j >= e**e * max_distance**j)
    return bucket + (2 * e if r < 0 else 0)


# %% wrong
wrong = {
    "keys before and after are exchanged: r > 0 means before": swap(
        "if r < 0 else", "if r > 0 else"
    ),
    "distance 0 counts as before, so its bucket is 0": swap("if r < 0 else", "if r <= 0 else"),
    "each direction has only half of the buckets, and a quarter are exact": (
        swap("n_buckets // 2", "n_buckets").swap("one_way if r < 0 else 0", "0")
    ),
    "keys after the query need buckets of their own, + N/2": swap("one_way if r < 0 else 0", "0"),
    "the last bucket of a direction takes all that is farther; here they run on": (
        swap("min(one_way - 1, exact + step)", "exact + step")
    ),
    "the shared buckets are even on a logarithmic scale, not on a linear one": swap(
        "np.log(distance / exact) / np.log(max_distance / exact)",
        "(distance - exact) / (max_distance - exact)",
    ),
    "a share is rounded down, not up": (
        swap("int(share * (one_way - exact) + 1e-9)", "int(np.ceil(share * (one_way - exact)))")
    ),
    "on a boundary the logarithms came out a hair too small, and the distance fell below it": (
        swap(" + 1e-9", "")
    ),
}
