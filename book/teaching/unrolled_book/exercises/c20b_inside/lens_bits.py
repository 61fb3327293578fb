r"""What would it say after each layer?

Write `lens_bits(streams, gain, E, targets)`, the logit lens for one text: the mean cost in *bits*
of the next token, read after the embedding and after each block.

`streams` (L + 1, T, D) holds the vectors after the embedding and after each block. The model's
last norm is an RMS norm, $x / \sqrt{\overline{x^2} + 10^{-5}}$ over a row's D entries, times the
gain `gain` (D,). The head is `E` (V, D), without a bias. `targets` (T,) are the tokens that
follow: row $t$ of a stream answers `targets[t]`. Return an array (L + 1,). Use numpy; logits may
be as large as 1,000.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def lens_bits(streams, gain, E, targets):
    """Mean bits of the targets after the embedding and each block, (L + 1,)."""
    size = np.sqrt((streams**2).mean(axis=-1, keepdims=True) + 1e-5)
    logits = (streams / size * gain) @ E.T  # (L + 1, T, V)
    z = logits - logits.max(axis=-1, keepdims=True)
    log_probs = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    found = log_probs[:, np.arange(len(targets)), targets]  # (L + 1, T)
    return -found.mean(axis=1) / np.log(2)


# %% explanation
explanation = r"""
Norm and head treat each vector alone, so they can be put to any stream. The norm is needed: between
the blocks the vectors grow, and without it the same direction would give other probabilities.

The lens reads with the *last* layer's eyes. A high cost after the first block says that the vectors
do not point to the answer in the head's directions, not that the model knows nothing yet.
"""


# %% tests
def tests(rng):
    streams = np.array([[[2.0, -2.0]], [[3.0, 3.0]]])
    yield call(streams, np.ones(2), np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0]), visible=True)
    for n, T, D, V in ((3, 5, 7, 11), (2, 1, 3, 2), (5, 13, 2, 3)):
        streams = rng.normal(size=(n, T, D)) * np.array([0.3, 2.0, 5.0, 1.0, 4.0])[:n, None, None]
        gain, E = rng.uniform(0.5, 2, size=D), rng.normal(size=(V, D))
        yield call(streams, gain, E, rng.integers(V, size=T), hint=f"{n} streams, T = {T}")
    streams, E = rng.normal(size=(2, 3, 5)) + 1, 1000 * rng.normal(size=(7, 5))
    yield call(streams, np.ones(5), E, rng.integers(7, size=3), hint="large logits")
    small = 1e-3 * rng.normal(size=(2, 3, 5))
    yield call(small, np.ones(5), rng.normal(size=(7, 5)), rng.integers(7, size=3),
               hint="vectors near zero")  # fmt: skip


# %% oracle
def oracle(streams, gain, E, targets):
    """Stream by stream, by torch."""
    import torch
    from torch.nn import functional as F

    costs = []
    for stream in np.asarray(streams):
        x = torch.tensor(stream)
        x = F.rms_norm(x, (x.shape[1],), torch.tensor(np.asarray(gain)), eps=1e-5)
        logits = F.linear(x, torch.tensor(np.asarray(E)))
        costs.append(F.cross_entropy(logits, torch.tensor(np.asarray(targets))).item())
    return np.array(costs) / np.log(2)


# %% wrong
wrong = {
    "the last norm is left out": swap("(streams / size * gain)", "(streams * gain)"),
    "the norm's gain is left out": swap(" * gain", ""),
    "the mean is subtracted first; an RMS norm does not": swap(
        "    size = ", "    streams = streams - streams.mean(axis=-1, keepdims=True)\n    size = "
    ),
    "the mean square runs over the positions; each row has its own": swap(
        "(streams**2).mean(axis=-1", "(streams**2).mean(axis=1"
    ),
    "the sum of squares is taken, not their mean": swap(
        "(streams**2).mean(", "(streams**2).sum("
    ),
    "the square root is missing": swap("np.sqrt((streams", "((streams"),
    "the small number 1e-5 is left out of the root": swap(" + 1e-5", ""),
    "exp of a large logit overflows: subtract the maximum first": swap(
        " - logits.max(axis=-1, keepdims=True)", ""
    ),
    "this is in nats; give bits instead": swap(" / np.log(2)", ""),
    "give one number for each stream, not one for all": swap("found.mean(axis=1)", "found.mean()"),
    "this is the sum over the positions; give the mean": swap(
        "found.mean(axis=1)", "found.sum(axis=1)"
    ),
    "the targets are shifted already: row t answers targets[t]": swap(
        "log_probs[:, np.arange(len(targets)), targets]",
        "log_probs[:, np.arange(len(targets)), np.roll(targets, -1)]",
    ),
    "this is the best token's cost, not the target's": swap(
        "log_probs[:, np.arange(len(targets)), targets]", "log_probs.max(axis=-1)"
    ),
}  # fmt: skip
