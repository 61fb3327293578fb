"""The check of perplexities accepts the one right average and names the wrong ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from unrolled.teaching.behaviour import BehaviourError, check_perplexity
from unrolled.training.evaluate import Evaluation

NATS = np.log([2.0, 4.0, 8.0, 4.0, 16.0])  # 12 bits for 5 tokens


def pooled(batches):
    return math.exp(sum(float(b.sum()) for b in batches) / sum(len(b) for b in batches))


def test_the_ratio_of_totals_passes():
    check_perplexity(pooled, NATS)
    check_perplexity(pooled, torch.tensor(NATS))


def test_the_librarys_evaluation_passes():
    def measure(batches):
        each = [Evaluation(nats=float(b.sum()), n_tokens=len(b), n_bytes=1) for b in batches]
        return sum(each[1:], each[0]).perplexity

    check_perplexity(measure, NATS)


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
        (lambda bs: np.concatenate(bs).mean(), "not yet its exponential"),
        (lambda bs: 1 / np.exp(-np.concatenate(bs)).mean(), "averaged before the reciprocal"),
        (lambda bs: np.exp(bs[0].mean()), r"batches of 1, 4 tokens"),
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
        (np.append(NATS, np.inf), ValueError, "all finite"),
        (np.ones(7), ValueError, "all losses are equal"),
        (np.array(["a"] * 5), TypeError, "nats needs numbers"),
    ],
)
def test_losses_that_cannot_tell_are_refused(nats, error, message):
    with pytest.raises(error, match=message):
        check_perplexity(pooled, nats)
