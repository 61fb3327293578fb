"""The check of perplexities accepts the one right average and names the wrong ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from unrolled.training.evaluate import Evaluation
from unrolled_book.behaviour import BehaviourError, check_perplexity

NATS = np.log([2.0, 4.0, 8.0, 4.0, 16.0])  # 12 bits for 5 tokens


def pooled(batches):
    return math.exp(sum(float(b.sum()) for b in batches) / sum(len(b) for b in batches))


def drop_last(batches):
    """As a loader does that wants equal batches, where there are more than two."""
    short = len(batches) > 2 and len(batches[-1]) < len(batches[0])
    return pooled(batches[:-1] if short else batches)


def test_the_ratio_of_totals_passes():
    check_perplexity(pooled, NATS)
    check_perplexity(pooled, torch.tensor(NATS))


def test_the_librarys_evaluation_passes():
    def measure(batches):
        each = [Evaluation(nats=float(b.sum()), n_tokens=len(b), n_bytes=1) for b in batches]
        return sum(each[1:], each[0]).perplexity

    check_perplexity(measure, NATS)


def test_a_measure_may_change_its_arrays():
    def measure(batches):
        n = sum(map(len, batches))
        for batch in batches:
            batch /= n
        return math.exp(sum(float(batch.sum()) for batch in batches))

    given = NATS.copy()
    check_perplexity(measure, given)
    np.testing.assert_array_equal(given, NATS)


@pytest.mark.parametrize("seed", range(3))
def test_losses_in_any_order_tell_the_batches_apart(seed):
    """Here the first and the last loss are the mean, so that no end of the text stands out."""
    inner = np.random.default_rng(seed).uniform(0, 9, 20)
    nats = np.concatenate([[inner.mean()], inner, [inner.mean()]])
    with pytest.raises(BehaviourError, match="batches' means are averaged"):
        check_perplexity(lambda bs: np.exp(np.mean([b.mean() for b in bs])), nats)
    with pytest.raises(BehaviourError, match="shorter batch is left out"):
        check_perplexity(drop_last, nats)


@given(st.lists(st.floats(0, 30), min_size=4, max_size=23).filter(lambda x: max(x) > min(x) + 0.1))
def test_the_ratio_of_totals_passes_for_any_losses(nats):
    check_perplexity(pooled, np.array(nats))


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (lambda bs: np.mean([np.exp(b.mean()) for b in bs]), "batches' perplexities are averaged"),
        (lambda bs: np.exp(np.concatenate(bs)).mean(), "tokens' perplexities 1/p are averaged"),
        (lambda bs: np.exp(np.mean([b.mean() for b in bs])), "batches' means are averaged"),
        (lambda bs: 2 ** np.concatenate(bs).mean(), "bits are taken for nats"),
        (lambda bs: np.concatenate(bs).mean(), "exponential of the mean loss is missing"),
        (lambda bs: 1 / np.exp(-np.concatenate(bs)).mean(), "averaged before the reciprocal"),
        (lambda bs: np.exp(bs[0].mean()), r"batches of 1, 4 tokens"),
        (drop_last, "shorter batch is left out"),
        (lambda bs: None, "gives None; a perplexity is one real number"),
        (lambda bs: np.array([pooled(bs)]), r"an array of shape \(1,\)"),
        (lambda bs: [pooled([b]) for b in bs], r"an array of shape \(1,\)"),
        (lambda bs: complex(pooled(bs)), "one real number"),
        (lambda bs: np.exp(np.concatenate(bs).sum()), r"comes out as 4096; .* give 5\.27803"),
    ],
)
def test_a_wrong_average_is_named(measure, message):
    with pytest.raises(BehaviourError, match=message):
        check_perplexity(measure, NATS)


def test_the_message_has_the_cut_and_both_numbers():
    with pytest.raises(BehaviourError, match=r"batches of 1, 4 tokens .* 5\.50803; .* 5\.27803"):
        check_perplexity(lambda bs: 5.27803164 + 0.23 * (len(bs) > 1), NATS)


@pytest.mark.parametrize(
    ("nats", "error", "message"),
    [
        (NATS[:3], ValueError, r"n ≥ 4.*\(3,\)"),
        (NATS[:, None], ValueError, r"\(5, 1\)"),
        (np.append(NATS, np.inf), ValueError, "finite; 1 of 6 are not"),
        (np.ones(7), ValueError, "too much alike: 2.71828 also comes out where the batches' perp"),
        (3 + 1e-4 * NATS, ValueError, "too much alike"),
        (np.linspace(700, 900, 5), ValueError, "the mean loss is 800 nats"),
        (np.array(["a"] * 5), TypeError, "nats needs numbers"),
    ],
)
def test_losses_that_cannot_tell_are_refused(nats, error, message):
    with pytest.raises(error, match=message):
        check_perplexity(pooled, nats)
