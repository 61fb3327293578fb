r"""Which word does a row belong to?

`weights` `(H, T, S)` is one layer's cross-attention for one sentence. Row t computes the word that
is said at t, and in row t + 1 that word is read. `aligned` `(T,)` holds, for the word said at row
t, the position of the source that it translates, or −1 if there is none.

Write `named_rows(weights, aligned)`. Take the mean over the heads, and in each row the position
with the largest weight (of equal ones the first). Return two shares between 0 and 1:

- `said`: of all words with a position, for how many the row in which they are *said* points to it;
- `read`: the same for the row in which they are *read*; a word said in the last row is never read
  and does not count here.

A share of no words is 0.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("said", "read")


# %% solution
def named_rows(weights, aligned):
    """The shares (said, read) of rows that point to `aligned`."""
    points = weights.mean(axis=0).argmax(axis=1)  # (T,)
    known = aligned >= 0
    said = (points == aligned)[known]
    read = (points[1:] == aligned[:-1])[known[:-1]]
    return tuple(float(hit.mean()) if len(hit) else 0.0 for hit in (said, read))


# %% explanation
explanation = r"""
`points[t]` belongs to the word said at t, whose position is `aligned[t]`. That same word is read
at t + 1, so for the other naming `points[1:]` stands beside `aligned[:-1]`. If the first share is
high and the second is low, the map is sound; only with its labels one row off does it look broken.

The mean comes before the argmax. Positions cannot be averaged: between 0 and 4 lies 2, where no
head looks.
"""


# %% tests
def tests(rng):
    yield call(
        np.array([[[0.0, 0.9, 0.1], [0.8, 0.1, 0.1], [0.2, 0.2, 0.6]]]), np.array([1, 0, -1]),
        visible=True,
    )  # fmt: skip
    yield call(
        np.array([[[1.0, 0.0, 0.0]] * 2, [[0.0, 0.4, 0.6]] * 2, [[0.0, 0.7, 0.3]] * 2]),
        np.array([1, 1]), hint="heads disagree",
    )  # fmt: skip
    yield call(np.array([[[0.5, 0.5]]]), np.array([0]), hint="one row, equal weights")
    yield call(np.array([[[0.2, 0.8], [0.9, 0.1]]]), np.array([-1, -1]), hint="no word is known")
    yield call(
        np.array([[[0.2, 0.8], [0.2, 0.8], [0.2, 0.8]]]), np.array([-1, -1, 1]),
        hint="only the last word is known",
    )  # fmt: skip
    for H, T, S in [(2, 7, 5), (3, 5, 3), (4, 11, 2), (1, 6, 6)]:
        yield call(rng.dirichlet(np.ones(S), size=(H, T)), rng.integers(-1, S, size=T))


# %% oracle
def oracle(weights, aligned):
    """Row by row."""
    H, T, S = weights.shape
    points = []
    for t in range(T):
        row = [sum(weights[h, t, s] for h in range(H)) / H for s in range(S)]
        points.append(row.index(max(row)))
    said = [points[t] == aligned[t] for t in range(T) if aligned[t] >= 0]
    read = [points[t + 1] == aligned[t] for t in range(T - 1) if aligned[t] >= 0]
    return tuple(sum(hits) / len(hits) if hits else 0.0 for hits in (said, read))


# %% wrong
wrong = {
    "the two shares have changed places": (
        lambda weights, aligned: _shares(weights, aligned)[::-1]
    ),
    "a word is read one row after it is said, not one row before": swap(
        "(points[1:] == aligned[:-1])[known[:-1]]", "(points[:-1] == aligned[1:])[known[1:]]"
    ),
    "words without a position are no misses: leave them out": (
        lambda weights, aligned: (
            float((weights.mean(0).argmax(1) == aligned).mean()),
            float((weights.mean(0).argmax(1)[1:] == aligned[:-1]).mean())
            if len(aligned) > 1
            else 0.0,
        )
    ),
    "take the mean over the heads first, then the largest weight": swap(
        "weights.mean(axis=0).argmax(axis=1)",
        "np.round(weights.argmax(axis=2).mean(axis=0)).astype(int)",
    ),
    "this looks at the first head only": swap("weights.mean(axis=0)", "weights[0]"),
    "this takes the largest weight of any head, not the mean": swap(
        "weights.mean(axis=0)", "weights.max(axis=0)"
    ),
    "a row is a query: the largest weight of each row is asked for": (
        lambda weights, aligned: _shares(weights, aligned, column=True)
    ),
    "a share of no words is 0, not NaN": swap(" if len(hit) else 0.0", " if len(hit) else np.nan"),
}


def _shares(weights, aligned, column=False):
    points = weights.mean(axis=0).argmax(axis=0 if column else 1)
    points = np.resize(points, len(aligned)) if column else points
    known = aligned >= 0
    hits = (points == aligned)[known], (points[1:] == aligned[:-1])[known[:-1]]
    return tuple(float(hit.mean()) if len(hit) else 0.0 for hit in hits)
