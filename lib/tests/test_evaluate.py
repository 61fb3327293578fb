"""Metrics: against torch, by hand, and the averages that are easy to get wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.training.evaluate import Evaluation, bits, bits_per_byte, nll, perplexity


@pytest.mark.parametrize("shape", [(), (3,), (2, 5)])
def test_nll_equals_torch_cross_entropy_for_arrays_and_tensors(shape):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(*shape, 7, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 7, shape, generator=generator)
    log_probs = logits.log_softmax(-1)
    expected = torch.nn.functional.cross_entropy(
        logits.reshape(-1, 7), targets.reshape(-1), reduction="none"
    ).reshape(shape)
    torch.testing.assert_close(nll(log_probs, targets), expected, rtol=0, atol=1e-14)
    ours = nll(log_probs.numpy(), targets.numpy())
    np.testing.assert_allclose(ours, expected.numpy(), rtol=0, atol=1e-14)


def test_ten_equally_likely_digits_have_perplexity_ten():
    log_probs = np.full((13, 10), math.log(1 / 10))
    nats = nll(log_probs, np.arange(13) % 10)
    assert perplexity(nats.mean()) == pytest.approx(10)
    assert bits(nats.mean()) == pytest.approx(math.log2(10))


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


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("target", [-1, 5])
def test_a_target_that_is_no_id_is_refused(make, target):
    with pytest.raises(ValueError, match=r"lie in 0 … 4, got -?\d … \d"):
        nll(make(np.zeros((3, 5))), make([2, target, 2]))


def test_refusals_name_what_was_given():
    with pytest.raises(ValueError, match=r"\(2, 3\), got \(3, 2\)"):
        nll(np.zeros((2, 3, 5)), np.zeros((3, 2), dtype=int))
    with pytest.raises(ValueError, match="at least 1, got 0"):
        bits_per_byte(1.0, 0)
    with pytest.raises(ValueError, match="n_tokens must be at least 1, got 0"):
        _ = Evaluation(nats=0.0, n_tokens=0, n_bytes=0).perplexity
