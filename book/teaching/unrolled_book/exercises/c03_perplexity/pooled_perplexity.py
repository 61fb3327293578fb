r"""One perplexity from many batches

A training program reports, for each batch, the mean loss in nats and the number of tokens that it
was taken over. Write `pooled_perplexity(mean_nats, n_tokens)`, where both are arrays
`(n_batches,)`. Return the perplexity of the whole text. A batch without tokens (all padding) may
occur; its mean is then `nan` and must not matter. A `nan` in any other batch means that the
training has failed, and the result must be `nan` too.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def pooled_perplexity(mean_nats, n_tokens):
    """Perplexity of a text from the mean losses (n_batches,) of its batches."""
    filled = n_tokens > 0
    nats = (mean_nats[filled] * n_tokens[filled]).sum()
    return float(np.exp(nats / n_tokens.sum()))


# %% explanation
explanation = r"""
A mean times the number it was taken over is a sum again. Sums may be added; means of unequal
batches may not, and perplexities never. `np.nansum` would pass over the empty batch as well, since
`nan · 0` is `nan`; but it would also hide a loss that became `nan` in a batch *with* tokens, and
that you want to know.
"""


# %% tests
def tests(rng):
    yield call(np.log(np.array([2.0, 8.0])), np.array([3, 1]), visible=True)
    for n in (3, 7, 31):
        yield call(rng.uniform(1, 6, n), rng.integers(1, 60, n))
    mean_nats = rng.uniform(1, 6, 5)
    mean_nats[2] = np.nan
    yield call(mean_nats, np.array([9, 4, 0, 17, 1]), hint="the third batch is empty")
    failed = np.where(np.arange(5) == 1, np.nan, mean_nats)
    yield call(failed, np.array([9, 4, 0, 17, 1]), hint="a batch with tokens has the loss nan")


# %% oracle
def oracle(mean_nats, n_tokens):
    """Every token as often as it stands, in one long list."""
    losses = np.repeat(mean_nats, n_tokens).tolist()
    product = 1.0
    for loss in losses:
        product *= np.exp(loss / len(losses))
    return product


# %% wrong
wrong = {
    "the batches' means are averaged, whatever their lengths": (
        lambda mean_nats, n_tokens: float(np.exp(np.nanmean(mean_nats)))
    ),
    "the batches' perplexities are averaged": (
        lambda mean_nats, n_tokens: float(np.nanmean(np.exp(mean_nats)))
    ),
    "the batches' perplexities are averaged, weighted by their lengths; weigh the means instead, "
    "and exponentiate last": (
        lambda mean_nats, n_tokens: float(np.nansum(np.exp(mean_nats) * n_tokens) / n_tokens.sum())
    ),
    "an empty batch makes the result nan": swap("n_tokens > 0", "n_tokens >= 0"),
    "a loss that is nan in a batch with tokens is passed over; the training has failed there": swap(
        "(mean_nats[filled] * n_tokens[filled]).sum()", "np.nansum(mean_nats * n_tokens)"
    ),
    "this is the mean loss, not yet its exponential": swap(
        "np.exp(nats / n_tokens.sum())", "nats / n_tokens.sum()"
    ),
    "the losses are in nats, so the base is e, not two": swap("np.exp(nats", "np.exp2(nats"),
    "this divides by the number of batches, where the number of tokens is meant": swap(
        "n_tokens.sum()", "filled.sum()"
    ),
    "this is the perplexity of a typical batch (a median), not of the text": (
        lambda mean_nats, n_tokens: float(np.exp(np.nanmedian(mean_nats)))
    ),
}
