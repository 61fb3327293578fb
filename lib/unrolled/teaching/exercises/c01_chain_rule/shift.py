r"""Inputs and targets for a batch

Write `shift(texts, start, end, pad)`. `texts` is a list of lists of token ids, of different
lengths. Return two integer arrays `inputs, targets` of shape $(B, T)$, where $T$ is one more than
the longest text's length: each row of `inputs` is the start symbol and the text, each row of
`targets` is the text and the end symbol, and both are filled up on the right with `pad`.
"""

import numpy as np

from unrolled.teaching.exercises.engine import call

kind, level, points = "code", 1, 2


# %% solution
def shift(texts, start, end, pad):
    """Inputs and targets (B, T) for next-token prediction, padded on the right."""
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


# %% oracle
def oracle(texts, start, end, pad):
    """Each text closed on both sides, without its last and without its first; torch pads."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    closed = [torch.tensor([start, *text, end]) for text in texts]
    pair = [row[:-1] for row in closed], [row[1:] for row in closed]
    return tuple(pad_sequence(rows, batch_first=True, padding_value=pad).numpy() for rows in pair)


# %% wrong
def built(row_of_inputs, row_of_targets, left=False, extra=1):
    """A wrong answer that fills its rows by the two functions of (text, start, end)."""

    def answer(texts, start, end, pad):
        T = max(len(text) for text in texts) + extra
        pair = []
        for make in (row_of_inputs, row_of_targets):
            rows = [make(text, start, end)[:T] for text in texts]
            fill = [[pad] * (T - len(row)) for row in rows]
            pair.append(
                np.array([f + r if left else r + f for f, r in zip(fill, rows, strict=True)])
            )
        return tuple(pair)

    return answer


def first(text, start, end):
    return [start, *text]


def second(text, start, end):
    return [*text, end]


def end_last(texts, start, end, pad):
    inputs, targets = shift(texts, start, end, pad)
    targets[targets == end] = pad
    targets[:, -1] = end
    return inputs, targets


wrong = {
    "the targets are the inputs, so that each token is asked to predict itself": built(
        first, first
    ),
    "the start symbol is missing and the inputs are the targets": built(second, second),
    "inputs and targets are exchanged": built(second, first),
    "there is no end symbol, so the model never learns where a text ends": (
        built(first, lambda text, start, end: list(text))
    ),
    "there is no start symbol, so nothing asks for the first token": (
        built(lambda text, start, end: list(text), second)
    ),
    "the targets are shifted by two tokens": (
        built(first, lambda text, start, end: [*text[1:], end])
    ),
    "the padding stands on the left": built(first, second, left=True),
    "T is the longest text's length, which cuts off its last question": built(
        first, second, extra=0
    ),
    "the inputs hold the end symbol as well": (
        built(lambda text, start, end: [start, *text, end], second, extra=2)
    ),
    "the pad id is taken to be 0; use the one that is passed": (
        lambda texts, start, end, pad: shift(texts, start, end, 0)
    ),
    "the end symbol stands in the last column, after the padding; it follows the text": end_last,
    "start and end are exchanged": (
        built(lambda text, start, end: [end, *text], lambda text, start, end: [*text, start])
    ),
}
