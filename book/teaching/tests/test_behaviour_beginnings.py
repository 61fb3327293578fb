"""The check of the first loss passes an even guess and names what is too sure or knows too much."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from unrolled_book.behaviour import BehaviourError, check_initial_loss

B, T, V = 7, 5, 11
TARGETS = np.random.default_rng(0).integers(0, V, (B, T))
NOISE = np.random.default_rng(1).normal(size=(B, T, V))


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("std", [0.0, 0.1, 0.3])
def test_small_logits_pass(make, std):
    assert check_initial_loss(make(std * NOISE), make(TARGETS)) is None


def test_log_probabilities_and_a_single_row_pass():
    assert check_initial_loss(np.full(V, -math.log(V)), np.array(3)) is None


def test_large_logits_are_refused_with_both_losses():
    logits = torch.tensor(20.0 * NOISE)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(TARGETS).flatten())
    spread = logits.std(-1, correction=0).mean()
    says = rf"ln 11 = 2\.4.* of an example spread by {spread:.3g}: .* too large"
    with pytest.raises(BehaviourError, match=says) as e:
        check_initial_loss(logits, TARGETS)
    assert f"training is {loss.item():.3g} nats" in str(e.value)


def test_a_model_that_sees_its_targets_is_refused():
    with pytest.raises(BehaviourError, match="Does the model see its targets"):
        check_initial_loss(3.0 * np.eye(V)[TARGETS], TARGETS)


def test_the_tolerance_is_a_share_of_the_even_loss():
    logits = np.array([[-1.0, 0.0]])  # loss of the first: ln(1 + e) = 1.31 against ln 2 = 0.69
    check_initial_loss(logits, [0], tolerance=0.9)
    with pytest.raises(BehaviourError):
        check_initial_loss(logits, [0], tolerance=0.8)


@given(st.floats(-1e300, 1e300))
def test_a_constant_added_to_the_logits_changes_nothing(constant):
    check_initial_loss(np.full((1, V), constant), [0])


def test_few_targets_of_a_sound_model_pass():
    rng = np.random.default_rng(1)
    for _ in range(200):
        check_initial_loss(0.3 * rng.normal(size=(32, 2)), rng.integers(0, 2, 32))


def test_a_masked_answer_that_no_target_needs_passes():
    logits = np.zeros((2, V))
    logits[:, 4] = -np.inf
    check_initial_loss(logits, [0, 1])


@pytest.mark.parametrize("tolerance", [np.nan, -0.1, np.inf])
def test_a_tolerance_that_is_no_share_is_refused(tolerance):
    with pytest.raises(ValueError, match="tolerance must be at least 0"):
        check_initial_loss(np.zeros((2, V)), [0, 1], tolerance=tolerance)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(bad):
    logits = np.zeros((2, V))
    logits[1, 4] = bad
    with pytest.raises(BehaviourError, match="NaN or an infinite"):
        check_initial_loss(logits, [0, 4])


@pytest.mark.parametrize(
    ("logits", "targets", "error", "says"),
    [
        (np.zeros((3, V), int), [0, 1, 2], TypeError, "int64"),
        (np.zeros((3, V)), [0.0, 1.0, 2.0], TypeError, "float64"),
        (np.zeros((3, V)), [0, 1], ValueError, r"\(3, 11\) and \(2,\)"),
        (np.zeros((3, V)), [[0], [1], [2]], ValueError, r"\(3, 1\)"),
        (np.zeros((0, V)), np.zeros(0, int), ValueError, r"\(0, 11\)"),
        (np.zeros((2, 1)), [0, 0], ValueError, "there are 1 logits"),
        (np.zeros((2, V)), [0, V], ValueError, "0 … 11"),
        (np.zeros((2, V)), [-1, 0], ValueError, "-1 … 0"),
    ],
)  # fmt: skip
def test_impossible_arguments_are_refused(logits, targets, error, says):
    with pytest.raises(error, match=says):
        check_initial_loss(logits, targets)
