r"""No state from another text

Several texts stand one after another in one row. `starts` is boolean `(T,)`, True at the first
position of each text; `starts[0]` is True. Each text begins with the state 0. Write
`states_of_packed_texts(keep, add, starts)` for `keep` and `add` `(T, F)`; it returns all
$h_t = a_t h_{t-1} + b_t$, `(T, F)`, such that no text sees another one's state. T may be 0. Do not
change the arguments.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def states_of_packed_texts(keep, add, starts):
    """All states (T, F); each text begins with 0."""
    h, states = np.zeros(keep.shape[1]), np.zeros(keep.shape)
    for t in range(len(keep)):
        if starts[t]:
            h = np.zeros(keep.shape[1])
        h = keep[t] * h + add[t]
        states[t] = h
    return states


# %% explanation
explanation = r"""
At a start nothing is kept, and the position's own input is added all the same. So a start is the
same as a keep of 0 there: `keep * ~starts[:, None]`, and then any scan does the rest, the parallel
one too. That is how many short texts share one row of a batch.

Attention needs a mask for the same purpose, and a state needs one zero. It is easily
forgotten: nothing fails, and the state of the text before is only one more input.
"""


# %% tests
def tests(rng):
    yield call(np.array([[0.5], [0.5], [0.5], [1.0]]), np.array([[4.0], [2.0], [1.0], [3.0]]),
               np.array([True, False, True, False]), visible=True)  # fmt: skip
    yield call(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0, dtype=bool), hint="no position")
    yield call(np.ones((3, 2)), rng.normal(size=(3, 2)), np.ones(3, dtype=bool),
               hint="each text has one position")  # fmt: skip
    yield call(np.full((9, 1), 0.9), rng.normal(size=(9, 1)), np.arange(9) == 0, hint="one text")
    for T, width in [(7, 3), (11, 2), (5, 5), (13, 1)]:
        starts = rng.random(T) < 0.4
        starts[0], starts[1] = True, False
        starts[3] = True
        keep, add = rng.normal(size=(2, T, width))
        keep[1] = 0
        yield call(keep, add, starts)


# %% oracle
def oracle(keep, add, starts):
    """Cut the row into its texts, and give each to the library's scan."""
    import itertools

    import torch
    from unrolled.models.ssm import scan

    cuts = [*np.flatnonzero(starts).tolist(), len(keep)]
    parts = [
        scan(torch.tensor(keep[None, a:b]), torch.tensor(add[None, a:b]))[0].numpy()
        for a, b in itertools.pairwise(cuts)
    ]
    return np.concatenate(parts) if parts else np.zeros(keep.shape)


# %% wrong
wrong = {
    "a text sees the state of the one before: nothing is set to 0": swap(
        "if starts[t]:", "if False:"
    ),
    "the state is set to 0 before the first input is added, not after": swap(
        "        h = keep[t] * h + add[t]\n        states[t] = h\n",
        "        h = keep[t] * h + add[t]\n        h = 0 * h if starts[t] else h\n"
        "        states[t] = h\n",
    ),
    "the state is set to 0 at the start, not one position later": swap(
        "if starts[t]:", "if t and starts[t - 1]:"
    ),
    "the state is set to 0 at the start, not one position earlier": swap(
        "if starts[t]:", "if starts[(t + 1) % len(starts)]:"
    ),
    "only the first position of a text forgets": swap("if starts[t]:", "if not starts[t]:"),
    "each position forgets what stands before its text, not all before it": swap(
        "if starts[t]:", "if True:"
    ),
    "keep multiplies the state before, not the input": swap(
        "keep[t] * h + add[t]", "h + keep[t] * add[t]"
    ),
    "keep multiplies the state alone": swap("keep[t] * h + add[t]", "keep[t] * (h + add[t])"),
    "all states are asked for, not the last of each text": swap(
        "return states", "return states * np.append(starts[1:], True)[:, None]"
    ),
}
