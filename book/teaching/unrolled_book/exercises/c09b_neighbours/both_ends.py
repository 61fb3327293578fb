r"""What each direction has read

A bidirectional network has read a padded batch. Its outputs, an array `(B, T, 2H)`, hold at each
position the forward state in the first H numbers and the backward state in the last H.

To classify whole sequences we want, for each of them, the state of each direction *when it has
read everything*, side by side. Write `both_ends(outputs, mask)`, which returns them, `(B, 2H)`.
`mask` is boolean, `(B, T)`, True where a token stands; all tokens of a sequence stand on its
left, and there is at least one. At padded positions `outputs` may hold anything, even not a number.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def both_ends(outputs, mask):
    """States (B, 2H) of both directions at the end of their reading."""
    half = outputs.shape[-1] // 2
    last = mask.sum(axis=1) - 1  # (B,), the last token
    forward = outputs[np.arange(len(outputs)), last, :half]  # (B, H)
    backward = outputs[:, 0, half:]  # (B, H)
    return np.concatenate([forward, backward], axis=1)


# %% explanation
explanation = r"""
The forward direction has read everything at the *last token*, whose position differs from sequence
to sequence: the number of tokens less one. The backward direction reads from the end to the
beginning and has read everything at position 0. At the last token it has seen a single item.
Averages are no way round: multiplying by the mask leaves "not a number" what it was.
"""


# %% tests
def batch(rng, lengths, width, half, padding):
    outputs = rng.normal(size=(len(lengths), width, 2 * half))
    mask = np.arange(width) < np.array(lengths)[:, None]
    outputs[~mask] = padding
    return outputs, mask


def tests(rng):
    small = np.arange(12.0).reshape(2, 3, 2)
    yield call(small, np.array([[True, True, False], [True, True, True]]), visible=True)
    yield call(*batch(rng, [5, 2, 3, 1], 5, 3, 0.0), hint="the second sequence has two tokens")
    yield call(*batch(rng, [2, 4, 3], 7, 2, 9.0), hint="no sequence reaches the last column")
    yield call(*batch(rng, [1, 6, 4], 6, 5, np.nan), hint="the padding holds nan here")


# %% oracle
def oracle(outputs, mask):
    """One sequence at a time, its padding cut off."""
    rows = []
    for sequence, real in zip(outputs, mask, strict=True):
        tokens = [state for state, stands in zip(sequence, real, strict=True) if stands]
        forward, _ = np.split(tokens[-1], 2)
        _, backward = np.split(tokens[0], 2)
        rows.append([*forward, *backward])
    return np.array(rows)


# %% wrong
wrong = {
    "the forward state is read in the last column, behind the padding": swap(
        "last, :half", "-1, :half"
    ),
    "both states are read at the last token, where the backward direction has seen one item": (
        swap("outputs[:, 0, half:]", "outputs[np.arange(len(outputs)), last, half:]")
    ),
    "both states are read in the last column": lambda outputs, mask: outputs[:, -1],
    "both states are read at the first token": lambda outputs, mask: outputs[:, 0],
    "the two directions are exchanged: forward is read at its first token, backward at its last": (
        swap("[np.arange(len(outputs)), last, :half]", "[:, 0, :half]").swap(
            "[:, 0, half:]", "[np.arange(len(outputs)), last, half:]"
        )
    ),
    "the backward half comes first; put the forward half first, as in the outputs": (
        swap("[forward, backward]", "[backward, forward]")
    ),
    "the forward state is read one position too far to the left": (
        swap("mask.sum(axis=1) - 1", "np.maximum(mask.sum(axis=1) - 2, 0)")
    ),
    "the states are averaged over the tokens; take one position for each direction": (
        lambda outputs, mask: (outputs * mask[..., None]).sum(axis=1) / mask.sum(axis=1)[:, None]
    ),
    "the length of the longest sequence is used for all of them": (
        swap("mask.sum(axis=1) - 1", "mask.sum(axis=1).max() - 1")
    ),
}
