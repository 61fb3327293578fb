r"""What the decoder is given

Write `shift_right(targets, start, pad)` for targets `(B, T)`, integers: the words of each sentence,
the end mark, and after it −100 (what the loss ignores). Return what the decoder is given, `(B, T)`:
the start mark, then the words; every later position gets `pad`, since the end mark itself is never
given. Sentences have different lengths. The end mark is the last id before the −100; it is not
always 2. Do not change `targets`.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def shift_right(targets, start, pad):
    """The decoder's inputs (B, T) for its targets (B, T)."""
    inputs = np.full_like(targets, pad)
    inputs[:, 0] = start
    going_on = targets[:, 1:] != -100  # the word before is not the end mark
    inputs[:, 1:] = np.where(going_on, targets[:, :-1], pad)
    return inputs


# %% explanation
explanation = r"""
Position $t$ is given the word that position $t - 1$ had to say. Two kinds of entries need care.
−100 is no token, and an embedding would fail on it or, worse, read the table from behind. And the
end mark is said but never read: after it nothing is to be predicted. The last column's target
never becomes an input. In a full row it is the end mark.
"""


# %% tests
def tests(rng):
    yield call(np.array([[7, 8, 2], [9, 2, -100]]), 1, 0, visible=True)
    yield call(np.array([[2]]), 1, 0, hint="an empty sentence")
    yield call(np.array([[5, 2, -100, -100]]), 1, 0, hint="much padding")
    yield call(np.array([[5, 6, 7, 2], [2, -100, -100, -100]]), 3, 4, hint="other marks")
    yield call(np.array([[5, 5, 2]]), 1, 0, hint="a word twice")
    yield call(np.array([[5, 2, 9], [2, 9, -100]]), 1, 0, hint="another end mark")
    yield call(np.array([[9, -100, -100], [5, 6, 9]]), 1, 0, hint="the first sentence is shorter")
    for B, T in [(3, 5), (2, 7)]:
        rows = np.full((B, T), -100)
        for b in range(B):
            n = int(rng.integers(1, T)) if b else T - 1
            rows[b, : n + 1] = [*rng.integers(5, 40, size=n), 2]
        yield call(rows, 1, 0)


# %% oracle
def oracle(targets, start, pad):
    """Sentence by sentence."""
    rows = []
    for row in targets.tolist():
        words = [x for x in row if x != -100][:-1]
        given = [start, *words]
        rows.append(given + [pad] * (len(row) - len(given)))
    return np.array(rows)


# %% wrong
wrong = {
    "the end mark is the last id before the −100; it is not always 2": (
        lambda targets, start, pad: np.where(
            ((x := np.concatenate([np.full((len(targets), 1), start), targets[:, :-1]], 1)) == -100)
            | ((x == 2) & (np.arange(x.shape[1]) > 0)),
            pad,
            x,
        )
    ),
    "sentences have lengths of their own, not that of the first": (
        lambda targets, start, pad: np.concatenate(
            [
                np.full((len(targets), 1), start),
                np.where(
                    (targets[:1, 1:] != -100) & (targets[:, :-1] != -100), targets[:, :-1], pad
                ),
            ],
            axis=1,
        )
    ),
    "the targets are returned unchanged: the decoder would be given the answer": (
        lambda targets, start, pad: np.where(targets == -100, pad, targets)
    ),
    "−100 is left among the inputs; no embedding has such a row": (
        lambda targets, start, pad: np.concatenate(
            [np.full((len(targets), 1), start), targets[:, :-1]], axis=1
        )
    ),
    "the end mark is given to the decoder; nothing is to be said after it": (
        lambda targets, start, pad: np.where(
            (x := np.concatenate([np.full((len(targets), 1), start), targets[:, :-1]], 1)) == -100,
            pad,
            x,
        )
    ),
    "this shifts to the left: each position is given the word after its own": (
        lambda targets, start, pad: np.where(
            (x := np.concatenate([targets[:, 1:], np.full((len(targets), 1), start)], 1)) == -100,
            pad,
            x,
        )
    ),
    "the start mark is missing": swap("inputs[:, 0] = start", "inputs[:, 0] = targets[:, 0]"),
    "the start mark's id is an argument, it is not always 1": swap(
        "inputs[:, 0] = start", "inputs[:, 0] = 1"
    ),
    "the padding's id is an argument, it is not always 0": (
        lambda targets, start, pad: np.concatenate(
            [
                np.full((len(targets), 1), start),
                np.where(targets[:, 1:] != -100, targets[:, :-1], 0),
            ],
            axis=1,
        )
    ),
    "the last row of a column must not come first: `roll` brings the end round": (
        lambda targets, start, pad: np.where(
            np.roll(targets, 1, axis=1) == -100, pad, np.roll(targets, 1, axis=1)
        )
    ),
}
