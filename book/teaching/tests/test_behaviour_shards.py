"""The check of shards accepts the one right gradient and names the wrong ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from unrolled_book.behaviour import BehaviourError, check_shards

N_TOKENS = np.array([7, 2, 5, 11, 3])
SUMS = np.random.default_rng(0).normal(size=(5, 13)) * N_TOKENS[:, None]  # Σ gradients of a row


def right(shards):
    rows = np.concatenate(shards)
    return SUMS[rows].sum(0) / N_TOKENS[rows].sum()


def mean(rows):
    return SUMS[rows].sum(0) / N_TOKENS[rows].sum()


def by_rows(shards):
    return np.average([mean(s) for s in shards], axis=0, weights=[len(s) for s in shards])


def row_means(shards):
    return np.mean([mean([i]) for s in shards for i in s], axis=0)


def test_the_ratio_of_sums_passes():
    check_shards(right, N_TOKENS)
    check_shards(lambda shards: torch.tensor(right(shards)).float(), torch.tensor(N_TOKENS))
    check_shards(lambda shards: right(shards).reshape(1, 13), N_TOKENS.tolist())


@given(
    st.lists(st.integers(1, 30), min_size=3, max_size=9).filter(lambda x: max(x) > 2 * min(x)),
    st.integers(0, 99),
)
def test_the_ratio_of_sums_passes_for_any_rows(n_tokens, seed):
    counts = np.array(n_tokens)
    sums = np.random.default_rng(seed).normal(size=(len(counts), 17)) * counts[:, None]

    def gradient(shards):
        rows = np.concatenate(shards)
        return sums[rows].sum(0) / counts[rows].sum()

    check_shards(gradient, counts)


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (lambda shards: np.mean([mean(s) for s in shards], 0), "shards' means are averaged, whate"),
        (by_rows, "weighted by their rows, not by their tokens"),
        (row_means, "rows' means are averaged, whatever"),
        (lambda shards: np.sum([mean(s) for s in shards], 0), "shards' means are added up"),
        (lambda shards: mean(shards[0]), "only the first shard's gradient is used"),
        (lambda shards: mean(shards[-1]), "only the last shard's gradient is used"),
        (lambda shards: right(shards) / len(shards), "divided by the number of processes once mor"),
        (lambda shards: right(shards) * len(shards), "multiplied by the number of processes"),
        (lambda shards: right(shards) + 0.1 * (len(shards) > 2), r"tokens the gradient is off b"),
        (lambda shards: right(shards) * np.where(len(shards) > 1, np.nan, 1), "is off by nan"),
        (lambda shards: right(shards)[: 13 - (len(shards) > 1)], "of 12 numbers, expected 13"),
        (lambda shards: np.ones(2 + shards[0][0]), "single rows differ in shape"),
    ],
)
def test_a_wrong_gradient_is_named(gradient, message):
    with pytest.raises(BehaviourError, match=message):
        check_shards(gradient, N_TOKENS)


def test_sums_that_are_never_divided_are_found_from_two_rows_on():
    """One row alone is divided; the whole batch is not."""

    def gradient(shards):
        rows = np.concatenate(shards)
        return SUMS[rows].sum(0) / (N_TOKENS[rows].sum() if len(rows) == 1 else 1)

    with pytest.raises(BehaviourError, match="never divided by the tokens"):
        check_shards(gradient, N_TOKENS)


def test_a_process_without_rows_changes_nothing():
    def gradient(shards):
        """Right, but 0/0 where a process has no row."""
        with np.errstate(invalid="ignore"):
            means = [SUMS[s].sum(0) / N_TOKENS[s].sum() for s in shards]
        return sum(m * N_TOKENS[s].sum() for m, s in zip(means, shards, strict=True)) / sum(
            N_TOKENS[s].sum() for s in shards
        )

    with pytest.raises(BehaviourError, match="with shards of 28, 0 tokens the gradient is off by"):
        check_shards(gradient, N_TOKENS)

    def skipped(shards):
        """Averages the processes that have rows only: right sums, divided by all processes."""
        return right(shards) * sum(len(s) > 0 for s in shards) / len(shards)

    with pytest.raises(BehaviourError, match=r"28, 0 tokens the gradient is off by 0\.5"):
        check_shards(skipped, N_TOKENS)


def test_the_message_has_the_tokens_of_the_shards():
    with pytest.raises(BehaviourError, match=r"with shards of 5, 23 tokens the gradient is off"):
        check_shards(lambda shards: np.mean([mean(s) for s in shards], 0), N_TOKENS)


@pytest.mark.parametrize(
    ("n_tokens", "error", "message"),
    [
        ([4, 5], ValueError, r"B ≥ 3 and numbers above 0, got \[4, 5\]"),
        ([4, 5, 0], ValueError, "above 0"),
        ([4, 4, 4], ValueError, "all rows have 4 tokens"),
        ([4.0, 5.0, 6.0], TypeError, "whole numbers, got float64"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(n_tokens, error, message):
    with pytest.raises(error, match=message):
        check_shards(right, n_tokens)


def test_gradients_that_cannot_tell_are_refused():
    with pytest.raises(ValueError, match="cannot tell: the gradient is right also where the sh"):
        check_shards(lambda shards: np.ones(3), N_TOKENS)
    with pytest.raises(ValueError, match="0 or not finite"):
        check_shards(lambda shards: np.zeros(3), N_TOKENS)
