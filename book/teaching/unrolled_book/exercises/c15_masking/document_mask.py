r"""Many documents in one row

To waste less on padding, we pack several short texts into one row of a batch, one after the other.
`documents`, integers (B, T), says for each token which text it belongs to; -1 marks the padding
that remains. A token must not read another text, nor the future, nor padding.

Write `document_mask(documents)`: a boolean array (B, 1, T, T), True = may attend, in which a query
may attend to the keys of its own text up to its own position. Padding attends to nothing, and
nothing attends to it. The texts are numbered in no particular order. You need no loop.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def document_mask(documents):
    """Texts (B, T), −1 = padding → mask (B, 1, T, T), True = may attend."""
    query, key = documents[:, None, :, None], documents[:, None, None, :]
    causal = np.tri(documents.shape[1], dtype=bool)
    return (query == key) & causal & (query >= 0)


# %% explanation
explanation = r"""
Each condition is a comparison that broadcasts, and "and" combines the conditions. A column of
queries, (B, 1, T, 1), compared with a row of keys, (B, 1, 1, T), gives every pair. The mask is
block-diagonal, with one triangle for each text. The causal mask is the same for all rows of the
batch. The condition on padding is easy to forget: since $-1 = -1$, padding would be a text of its
own. With it the rows of padding are empty, and attention must give zeros there.

Packing needs two more things: count a token's position from the start of its own text, and leave
out of the loss each target that is the next text's first token.
"""


# %% tests
def tests(rng):
    yield call(np.array([[0, 0, 1, -1]]), visible=True)
    for batch, length in [(2, 6), (3, 10)]:
        rows = []
        for _ in range(batch):
            ends = np.sort(rng.choice(np.arange(1, length), size=2, replace=False))
            lengths = np.diff([0, *ends, length])  # of three texts
            rows.append(np.repeat(rng.permutation(9)[:3], lengths))
        yield call(np.stack(rows))
    first, second = np.sort(rng.choice(9, size=2, replace=False))
    lengths = rng.integers(1, 5, size=3)
    row = np.repeat([first, second, -1], lengths)
    rows = np.stack([row, np.roll(row, lengths[2])])
    yield call(rows, hint="there is padding, also in front")
    one = np.full((1, int(rng.integers(4, 9))), int(rng.integers(9)))
    yield call(one, hint="one text: an ordinary causal mask")


# %% oracle
def oracle(documents):
    """Pair by pair."""
    n_rows, length = documents.shape
    mask = np.zeros((n_rows, 1, length, length), dtype=bool)
    for b, text in enumerate(documents.tolist()):
        for i in range(length):
            for j in range(i + 1):
                mask[b, 0, i, j] = text[i] == text[j] != -1
    return mask


# %% wrong
wrong = {
    "the future is not hidden: within its text a query sees all keys": swap(" & causal", ""),
    "queries and keys are exchanged: a token sees what comes after it": (
        swap("& causal", "& causal.T")
    ),
    "padding counts as a text: −1 equals −1": swap(" & (query >= 0)", ""),
    "a query may see its own position; here the diagonal is hidden": (
        swap("dtype=bool", "k=-1, dtype=bool")
    ),
    "True means may attend; here it means hidden": lambda d: ~document_mask(d),
    "the axis of the heads is missing: the shape is (B, 1, T, T)": (
        lambda d: document_mask(d)[:, 0]
    ),
    "the texts are not told apart: this is a causal mask with padding": (
        swap("query == key", "key >= 0")
    ),
    "numbers of texts are in no order: `<=` lets a text read those with smaller numbers": (
        swap("query == key", "key <= query").swap("query >= 0", "key >= 0")
    ),
}
