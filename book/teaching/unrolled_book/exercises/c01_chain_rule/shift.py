r"""Inputs and targets for a batch

Write `shift(texts, start, end, pad)`. `texts` is a list of lists of token ids, of different
lengths. Return two integer arrays `inputs, targets` of shape $(B, T)$, where $T$ is one more than
the longest text's length: each row of `inputs` is the start symbol and the text, each row of
`targets` is the text and the end symbol, and both are filled up on the right with `pad`.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2
outputs = ("inputs", "targets")


# %% solution
def shift(texts, start, end, pad):
    """Inputs and targets (B, T) of the next tokens, padded on the right."""
    T = max(len(text) for text in texts) + 1
    inputs = np.full((len(texts), T), pad)
    targets = np.full((len(texts), T), pad)
    for b, text in enumerate(texts):
        inputs[b, : len(text) + 1] = [start, *text]
        targets[b, : len(text) + 1] = [*text, end]
    return inputs, targets


# %% explanation
explanation = r"""
At position $i$ the input ends with $x_{i-1}$ and the target is $x_i$, so that the answer never
stands in the input at its own position. Each text brings one question more than it has tokens:
the last one is *does it end here?* The padding comes after the text, where a left-to-right model
has already answered everything that counts.
"""


# %% tests
def tests(rng):
    yield call([[5, 6, 7], [8]], 1, 2, 0, visible=True)
    for lengths in [(4,), (2, 5, 3), (1, 1, 7, 2)]:
        yield call([rng.integers(10, 90, n).tolist() for n in lengths], 3, 5, 7)
    yield call([[], [11]], 1, 2, 0, hint="an empty text is still asked whether it ends")
    yield call([[0, 4], [0]], 1, 2, 9, hint="a token may have the number 0")


# %% oracle
def oracle(texts, start, end, pad):
    """Each text closed on both sides, without its last and without its first; torch pads."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    closed = [torch.tensor([start, *text, end]) for text in texts]
    pair = [row[:-1] for row in closed], [row[1:] for row in closed]
    return tuple(pad_sequence(rows, batch_first=True, padding_value=pad).numpy() for rows in pair)


# %% wrong
wrong = {
    "the targets are the inputs, so that each token is asked to predict itself": (
        swap("[*text, end]", "[start, *text]")
    ),
    "the start symbol is missing and the inputs are the targets": (
        swap("[start, *text]", "[*text, end]")
    ),
    "inputs and targets are exchanged": swap("return inputs, targets", "return targets, inputs"),
    "there is no end symbol, so the model never learns where a text ends": (
        swap("targets[b, : len(text) + 1] = [*text, end]", "targets[b, : len(text)] = text")
    ),
    "there is no start symbol, so nothing asks for the first token": (
        swap("inputs[b, : len(text) + 1] = [start, *text]", "inputs[b, : len(text)] = text")
    ),
    "the targets are shifted by two tokens": swap(
        "targets[b, : len(text) + 1] = [*text, end]",
        "targets[b, : len(text) or 1] = [*text[1:], end]",
    ),
    "the padding stands on the left": swap(": len(text) + 1]", "T - len(text) - 1 :]", 2),
    "T is the longest text's length, which cuts off its last question": (
        swap("texts) + 1", "texts)").swap("*text]", "*text][:T]").swap("end]", "end][:T]")
    ),
    "the inputs hold the end symbol as well": (
        swap("texts) + 1", "texts) + 2")
        .swap("inputs[b, : len(text) + 1]", "inputs[b, : len(text) + 2]")
        .swap("[start, *text]", "[start, *text, end]")
    ),
    "the pad id is taken to be 0; use the one that is passed": swap("T), pad)", "T), 0)", 2),
    "the end symbol stands in the last column, after the padding; it follows the text": (
        swap(
            "    return", "    targets[targets == end] = pad\n    targets[:, -1] = end\n    return"
        )
    ),
    "start and end are exchanged": (
        swap("[start, *text]", "[end, *text]").swap("[*text, end]", "[*text, start]")
    ),
}
