r"""Hide words, and remember which

Write `hide_some(ids, first, second, other, mask)` for ids `(B, T)`; those below 4 are marks.
`first` and `second` are `(B, T)` numbers, uniform between 0 and 1; `other` `(B, T)` are ids of
words drawn at random; `mask` is the id of `[MASK]`. A word is *chosen* where `first` is below
0.15. Of the chosen words, those with `second` below 0.8 become `mask`; with `second` from 0.8 to
below 0.9 they become `other`; the rest stay. Marks are never chosen.

Return the pair of what the encoder reads `(B, T)` and what it must say `(B, T)`, −100 where the
loss does not look. Do not change the arguments.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("read", "say")


# %% solution
def hide_some(ids, first, second, other, mask):
    """What the encoder reads and what it must say, both (B, T)."""
    chosen = (first < 0.15) & (ids >= 4)
    read = np.where(chosen & (second < 0.8), mask, ids)
    read = np.where(chosen & (second >= 0.8) & (second < 0.9), other, read)
    return read, np.where(chosen, ids, -100)


# %% explanation
explanation = r"""
The 80/10/10 changes what is *read*. What must be *said* are all chosen words, also those that
stayed and those that were replaced: `say` depends on `chosen` alone. A loss over all words could
teach mostly to copy, because 85 % of the answers stand in the input.

Marks such as `[CLS]` and padding are no words: a model cannot be asked to guess them.
"""


# %% tests
def tests(rng):
    yield call(
        np.array([[1, 9, 8, 7, 6]]), np.array([[0.1, 0.1, 0.1, 0.1, 0.5]]),
        np.array([[0.5, 0.5, 0.85, 0.95, 0.5]]), np.array([[5, 5, 5, 5, 5]]), 2, visible=True,
    )  # fmt: skip
    yield call(
        np.array([[4, 3, 5]]), np.array([[0.0, 0.0, 0.15]]), np.array([[0.8, 0.0, 0.0]]),
        np.array([[7, 7, 7]]), 2, hint="at the borders",
    )  # fmt: skip
    yield call(
        np.array([[6, 6, 6, 6]]), np.full((1, 4), 0.1), np.array([[0.9, 0.79, 0.89, 0.8]]),
        np.array([[7, 7, 7, 8]]), 3, hint="at the borders of the second; another id of the mask",
    )  # fmt: skip
    yield call(np.array([[0, 1, 2, 3]]), np.zeros((1, 4)), np.zeros((1, 4)), np.full((1, 4), 9), 2,
               hint="nothing but marks")  # fmt: skip
    for B, T in [(3, 40), (2, 61), (5, 33)]:
        first = rng.random((B, T)) * 0.4
        yield call(
            rng.integers(0, 30, size=(B, T)), first, rng.random((B, T)),
            rng.integers(4, 30, size=(B, T)), 2,
        )  # fmt: skip


# %% oracle
def oracle(ids, first, second, other, mask):
    """Word by word."""
    read, say = ids.copy(), np.full(ids.shape, -100)
    for b in range(ids.shape[0]):
        for t in range(ids.shape[1]):
            if ids[b, t] < 4 or first[b, t] >= 0.15:
                continue
            say[b, t] = ids[b, t]
            if second[b, t] < 0.8:
                read[b, t] = mask
            elif second[b, t] < 0.9:
                read[b, t] = other[b, t]
    return read, say


# %% wrong
wrong = {
    "the loss looks at all chosen words, also at those that were replaced or stayed": swap(
        "np.where(chosen, ids, -100)", "np.where(chosen & (second < 0.8), ids, -100)"
    ),
    "words that stayed are chosen as well: the loss looks at them": swap(
        "np.where(chosen, ids, -100)", "np.where(chosen & (second < 0.9), ids, -100)"
    ),
    "the loss must not look at words that were not chosen": swap(
        "np.where(chosen, ids, -100)", "ids.copy()"
    ),
    "the encoder must say what stood there, not what it reads": swap(
        "np.where(chosen, ids, -100)", "np.where(chosen, read, -100)"
    ),
    "marks are never chosen": swap(" & (ids >= 4)", ""),
    "the first word has the id 4": swap("ids >= 4", "ids > 4"),
    "every chosen word becomes the mask; a fifth of them should not": (
        lambda ids, first, second, other, mask: (
            np.where((first < 0.15) & (ids >= 4), mask, ids),
            np.where((first < 0.15) & (ids >= 4), ids, -100),
        )
    ),
    "80 % and 10 % are shares of the chosen words, not of all": (
        lambda ids, first, second, other, mask: (
            np.where(
                (ids >= 4) & (second < 0.8),
                mask,
                np.where((ids >= 4) & (second >= 0.8) & (second < 0.9), other, ids),
            ),
            np.where((first < 0.15) & (ids >= 4), ids, -100),
        )
    ),
    "words that should stay were replaced, and the other way round": swap(
        "(second >= 0.8) & (second < 0.9)", "(second >= 0.9)"
    ),
    "with 0.9 and above a word stays; with less than 0.9 it is replaced": swap(
        "(second < 0.9), other", "(second <= 0.9), other"
    ),
    "the mask's id is an argument": swap("(second < 0.8), mask, ids", "(second < 0.8), 2, ids"),
}
