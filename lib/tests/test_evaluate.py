"""Metrics by hand, over any batches and windows, and the averages that are easy to get wrong."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.models.ngram import NGram
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import preset
from unrolled.training.evaluate import Evaluation, bits, bits_per_byte, evaluate, perplexity

TEXT = np.arange(900) % 7


def test_the_units_by_hand():
    """Ten equally likely digits; "ünd" has 3 characters and 4 bytes, however it is cut."""
    assert perplexity(-math.log(1 / 10)) == pytest.approx(10)
    assert bits(-math.log(1 / 10)) == pytest.approx(math.log2(10))
    for costs in ([4.0, 2.0, 2.0], [8.0]):  # in bits, of characters and of a word
        total = sum(costs) * math.log(2)
        assert bits_per_byte(total, len("ünd".encode())) == pytest.approx(2)
    lost, empty = (Evaluation(nats=x, n_tokens=n, n_bytes=2) for x, n in ((np.inf, 2), (0.0, 0)))
    assert lost.perplexity == np.inf  # without a warning
    unseen = NGram.fit(np.array([0, 1, 2]), 2, 4)
    assert evaluate(unseen, np.array([1, 3, 2, 0]), 4, start=0).bits_per_byte == np.inf
    with pytest.raises(ValueError, match="n_tokens must be at least 1, got 0"):
        _ = empty.perplexity
    with pytest.raises(ValueError, match="overlap must be at least 0 and at most 4"):
        evaluate(by_token, TEXT, 900, start=0, context_length=5, overlap=5)


@given(st.lists(st.lists(st.floats(0, 20), min_size=1, max_size=9), min_size=1, max_size=7))
@settings(max_examples=40, deadline=None)
def test_a_sum_of_evaluations_does_not_depend_on_the_batches(batches):
    tokens = [x for batch in batches for x in batch]
    total = Evaluation(nats=0.0, n_tokens=0, n_bytes=0)
    for batch in batches:
        total += Evaluation(nats=sum(batch), n_tokens=len(batch), n_bytes=2 * len(batch))
    assert total.perplexity == pytest.approx(math.exp(np.mean(tokens)))
    assert total.bits_per_byte == pytest.approx(np.mean(tokens) / math.log(2) / 2)


def by_token(tokens):
    """(B, T) → log-probabilities (B, T, 7): a token's successor is the least likely, 1 of 28."""
    return np.log((1 + (tokens[..., None] + np.arange(7)) % 7) / 28)


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 11), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_every_token_is_scored_once_however_the_windows_lie(n, context, overlap, batch_size):
    windows = dict(context_length=context, overlap=min(overlap, context - 1), batch_size=batch_size)
    found = evaluate(by_token, TEXT[:n], n, start=3, **windows)
    each = by_token(np.concatenate([[3], TEXT[: n - 1]]))[np.arange(n), TEXT[:n]]
    assert found.nats == pytest.approx(-each.sum())
    assert (found.n_tokens, found.n_bytes) == (n, n)


@pytest.mark.parametrize(
    ("own", "context", "overlap"), [(6, 6, 3), (300, 300, 128), (None, 256, 128)]
)
def test_what_is_left_out_is_the_models_context_and_half_of_it_or_128(own, context, overlap):
    widths = []

    def model(tokens):
        widths.append(tokens.shape[1])
        return by_token(tokens)

    if own is not None:
        sizes = {"vocab_size": 7, "d_model": 4, "n_layers": 1, "n_heads": 1, "context_length": own}
        model = TransformerLM(preset("gpt2", **sizes)).double()
    found = evaluate(model, TEXT, 900, start=0)
    given = evaluate(model, TEXT, 900, start=0, context_length=context, overlap=overlap)
    assert (found, set(widths) | {context}) == (given, {context})
    other = evaluate(model, TEXT, 900, start=0, context_length=context, overlap=overlap - 1)
    assert own is None or found != other, "the model tells windows apart"
