r"""The loss of a causal model

Write `causal_loss(logits, tokens, real)`: the mean cross-entropy in nats per predicted token.

`logits` (B, T, V) is what a causal model gives for `tokens` (B, T): row $t$ of a sequence is its
opinion on token $t + 1$. `real` (B, T) is True where a token stands; padding stands on the right
only. A token is predicted if it is real and another token stands before it in its row. So the first
token of a row is not predicted, padding is not, and the last row of logits is not used. Every
predicted token counts the same, in a long sequence as in a short one. At least one token is
predicted. Use numpy; logits may be as large as 1,000.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def causal_loss(logits, tokens, real):
    """Mean nats per predicted token; logits (B, T, V), tokens, real (B, T)."""
    z = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    log_probs = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    found = np.take_along_axis(log_probs, tokens[:, 1:, None], axis=-1)[..., 0]
    return -found[real[:, 1:]].mean()


# %% explanation
explanation = r"""
Row $t$ of the logits belongs to token $t + 1$, so the last row and the first token have no partner:
`logits[:, :-1]` against `tokens[:, 1:]`. Whether a prediction counts is decided by its *target*, so
the mask is shifted in the same way: the last real token of a short row is in the input, but what
comes after it is padding and is not predicted.

The mean runs over all tokens at once. A mean of the sequences' means would count a token of a short
sequence more than one of a long sequence, and a mean over all $B \cdot (T - 1)$ positions would
make the loss smaller, the more padding there is.
"""


# %% tests
def tests(rng):
    small = np.log([[[2.0, 1.0, 1.0], [1.0, 1.0, 2.0], [1.0, 1.0, 1.0]]]).round(4)
    yield call(small, np.array([[1, 0, 2]]), np.ones((1, 3), dtype=bool), visible=True)
    for B, T, V in ((2, 5, 3), (5, 7, 11), (3, 2, 4)):
        logits, tokens = rng.normal(size=(B, T, V)) * 2, rng.integers(V, size=(B, T))
        yield call(logits, tokens, np.ones((B, T), dtype=bool), hint="no padding at all")
        lengths = np.append(T, rng.integers(1, T + 1, size=B - 1))
        real = np.arange(T) < lengths[:, None]
        yield call(logits, tokens, real, hint="rows of several lengths")
    logits = 1000 * rng.normal(size=(2, 3, 5))
    yield call(
        logits, rng.integers(5, size=(2, 3)), np.ones((2, 3), dtype=bool), hint="large logits"
    )
    logits = rng.normal(size=(2, 3, 5)) + np.array([[0.0], [2000.0]])[..., None]
    yield call(
        logits,
        rng.integers(5, size=(2, 3)),
        np.ones((2, 3), dtype=bool),
        hint="the logits of one text are far above those of the other",
    )


# %% oracle
def oracle(logits, tokens, real):
    """One prediction after the other, by torch."""
    import torch

    nats = []
    for b in range(len(tokens)):
        for t in range(1, tokens.shape[1]):
            if real[b, t]:
                row = torch.tensor(logits[b, t - 1]).log_softmax(-1)
                nats.append(-row[int(tokens[b, t])].item())
    return sum(nats) / len(nats)


# %% wrong
wrong = {
    "row t is compared with token t, which stands in the input; it answers token t + 1": (
        swap("[:, :-1]", "", 2)
        .swap("tokens[:, 1:, None]", "tokens[..., None]")
        .swap("real[:, 1:]", "real")
    ),
    "row t is compared with the token before it": (
        swap("[:, :-1]", "[:, 1:]", 2)
        .swap("tokens[:, 1:, None]", "tokens[:, :-1, None]")
        .swap("real[:, 1:]", "real[:, :-1]")
    ),
    "the mask of the input is used; a prediction counts when its target is real": (
        swap("real[:, 1:]", "real[:, :-1]")
    ),
    "a mean of the rows' means counts tokens of short rows more": swap(
        "-found[real[:, 1:]].mean()",
        "-np.mean([n[r].mean() for n, r in zip(found, real[:, 1:]) if r.any()])",
    ),
    "positions with padding cost nothing, and must not be divided by either": (
        swap("found[real[:, 1:]]", "(found * real[:, 1:])")
    ),
    "exp of a large logit overflows: subtract the maximum first": (
        swap(" - logits[:, :-1].max(axis=-1, keepdims=True)", "")
    ),
    "the maximum of all logits is subtracted; each row has its own": (
        swap("logits[:, :-1].max(axis=-1, keepdims=True)", "logits[:, :-1].max()")
    ),
    "this is the sum; give the mean per token": swap(".mean()", ".sum()"),
    "padding counts here; only real targets count": swap("found[real[:, 1:]]", "found"),
    "this is in bits; give nats instead": swap(".mean()", ".mean() / np.log(2)"),
}
