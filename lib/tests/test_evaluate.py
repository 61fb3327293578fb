"""Metrics: against torch, by hand, and the averages that are easy to get wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import preset
from unrolled.training.evaluate import Evaluation, bits, bits_per_byte, evaluate, perplexity


def test_ten_equally_likely_digits_have_perplexity_ten():
    assert perplexity(-math.log(1 / 10)) == pytest.approx(10)
    assert bits(-math.log(1 / 10)) == pytest.approx(math.log2(10))


def test_bits_per_byte_does_not_depend_on_how_a_text_is_cut_into_tokens():
    """ "ünd" is 3 characters and 4 bytes; 8 bits spread over either are 2 bits per byte."""
    n_bytes = len("ünd".encode())
    by_character = np.array([4.0, 2.0, 2.0]) * math.log(2)
    by_word = np.array([8.0]) * math.log(2)
    assert bits_per_byte(by_character.sum(), n_bytes) == pytest.approx(2)
    assert bits_per_byte(by_word.sum(), n_bytes) == pytest.approx(2)


def test_a_uniform_model_over_all_bytes_needs_eight_bits_per_byte():
    assert bits_per_byte(1000 * math.log(256), 1000) == pytest.approx(8)


@given(st.lists(st.lists(st.floats(0, 20), min_size=1, max_size=9), min_size=1, max_size=7))
@settings(max_examples=60, deadline=None)
def test_a_sum_of_evaluations_does_not_depend_on_the_batches(batches):
    tokens = [x for batch in batches for x in batch]
    total = Evaluation(nats=0.0, n_tokens=0, n_bytes=0)
    for batch in batches:
        total += Evaluation(nats=sum(batch), n_tokens=len(batch), n_bytes=2 * len(batch))
    assert total.perplexity == pytest.approx(math.exp(np.mean(tokens)))
    assert total.bits_per_byte == pytest.approx(np.mean(tokens) / math.log(2) / 2)


def test_a_sum_is_neither_the_mean_of_means_nor_of_perplexities():
    """Nine easy tokens and a batch with a single hard one."""
    easy = Evaluation(nats=9 * math.log(2), n_tokens=9, n_bytes=9)
    hard = Evaluation(nats=math.log(512), n_tokens=1, n_bytes=1)
    assert (easy + hard).perplexity == pytest.approx(2 ** ((9 * 1 + 9) / 10))  # 3.48
    assert (easy + hard).bits_per_byte == pytest.approx(1.8)
    per_batch = np.mean([easy.perplexity, hard.perplexity])
    assert per_batch == pytest.approx(257)  # the wrong turn


def test_a_token_of_probability_zero_makes_perplexity_infinite_without_a_warning():
    assert Evaluation(nats=np.inf, n_tokens=2, n_bytes=2).perplexity == np.inf


def test_refusals_name_what_was_given():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        bits_per_byte(1.0, 0)
    with pytest.raises(ValueError, match="n_tokens must be at least 1, got 0"):
        _ = Evaluation(nats=0.0, n_tokens=0, n_bytes=0).perplexity


@pytest.mark.parametrize(
    ("own", "context", "overlap"), [(6, 6, 3), (300, 300, 128), (None, 256, 128)]
)
def test_what_is_left_out_is_the_models_context_and_half_of_it_or_128(own, context, overlap):
    text, widths = np.arange(900) % 7, []

    def by_count(tokens):
        widths.append(tokens.shape[1])
        return np.log((1 + (tokens[..., None] + np.arange(7)) % 7) / 28)

    model = by_count
    if own is not None:
        sizes = {"vocab_size": 7, "d_model": 4, "n_layers": 1, "n_heads": 1, "context_length": own}
        model = TransformerLM(preset("gpt2", **sizes)).double()
    found = evaluate(model, text, 900, start=0)
    given = evaluate(model, text, 900, start=0, context_length=context, overlap=overlap)
    assert (found, set(widths) | {context}) == (given, {context})
    other = evaluate(model, text, 900, start=0, context_length=context, overlap=overlap - 1)
    assert own is None or found != other, "the model tells windows apart"


def test_a_text_that_is_not_encoded_is_refused():
    with pytest.raises(
        TypeError, match="tokens must be an array or a list of numbers, got 'To be'"
    ):
        evaluate(lambda tokens: tokens, "To be", 5, start=0)
