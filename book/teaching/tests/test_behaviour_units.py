"""The check of hidden units passes different ones, and names the dead, the stuck and the equal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from unrolled_book.behaviour import BehaviourError, check_units
from unrolled_book.depth import Stack

N, H = 11, 5
HIDDEN = np.random.default_rng(0).normal(size=(N, H))


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_different_units_pass(make):
    assert check_units(make(HIDDEN)) is None
    assert check_units(make(HIDDEN.astype("float32"))) is None


def test_a_dead_relu_is_named():
    hidden = np.maximum(HIDDEN, 0) * [1, 1, 0, 1, 0]
    with pytest.raises(BehaviourError, match=r"unit 2 gives 0 for all 11 inputs \(2 of 5.*Dead"):
        check_units(hidden)


def test_a_saturated_unit_is_told_from_one_without_weights():
    hidden = HIDDEN.copy()
    hidden[:, 3] = 1 - 1e-12
    with pytest.raises(BehaviourError, match=r"unit 3 gives 1 .*Saturated"):
        check_units(hidden)
    hidden[:, 3] = 0.5
    with pytest.raises(BehaviourError, match=r"unit 3 gives 0.5 .*all zero"):
        check_units(hidden)


def test_equal_units_are_counted_once():
    hidden = HIDDEN[:, [0, 1, 0, 1, 0]]
    with pytest.raises(BehaviourError, match=r"units 0 and 2 .* 5 units do the work of 2\b"):
        check_units(hidden)


def test_units_that_are_almost_equal_are_different():
    hidden = HIDDEN.copy()
    hidden[:, 1] = hidden[:, 0] + 1e-3 * (np.arange(N) == 4)
    check_units(hidden)
    with pytest.raises(BehaviourError, match="units 0 and 1"):
        check_units(hidden, tolerance=1e-2)


def test_a_stack_whose_weights_start_equal_is_refused_after_training_too():
    stack = Stack(H, 2, activation="tanh")
    for layer in stack.layers:
        torch.nn.init.constant_(layer.weight, 0.1)
        torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(stack.parameters(), lr=1e-2)
    x = torch.tensor(HIDDEN, dtype=torch.float32)
    for _ in range(5):
        optimizer.zero_grad()
        stack(x).square().mean().backward()
        optimizer.step()
    with pytest.raises(BehaviourError, match="do the work of 1"):
        check_units(stack.states(x)[1])


def test_a_small_share_of_dead_units_can_be_allowed():
    hidden = np.maximum(HIDDEN, 0) * [1, 1, 0, 1, 0]
    check_units(hidden, dead=0.4)
    with pytest.raises(BehaviourError, match=r"unit 2 gives 0 .*\(2 of 5"):
        check_units(hidden, dead=0.39)
    hidden[:, 3] = 0.5
    with pytest.raises(BehaviourError, match=r"unit 3 gives 0.5 .*\(1 of 5"):
        check_units(hidden, dead=0.4)
    hidden[:, 3] = hidden[:, 1]
    with pytest.raises(BehaviourError, match=r"units 1 and 3 .* 3 units do the work of 2\b"):
        check_units(hidden, dead=0.4)
    with pytest.raises(ValueError, match="dead must be at least 0 and at most 1"):
        check_units(hidden, dead=2)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_the_size_of_the_layer_does_not_matter(size):
    hidden = size * np.random.default_rng(1).normal(size=(300, 64))
    check_units(hidden.astype("float32"))
    check_units(hidden.astype("float16") if size < 1e4 else hidden)
    hidden[:, 7] = 0.3 * size
    with pytest.raises(BehaviourError, match=r"unit 7 .*\(1 of 64.*zero"):
        check_units(hidden.astype("float32"))
    hidden[:, 7] = hidden[:, 40] * (1 + 1e-6)
    with pytest.raises(BehaviourError, match=r"units 7 and 40 .* 64 units do the work of 63"):
        check_units(hidden.astype("float32"))


def test_the_reason_given_is_that_of_the_unit_named():
    hidden = np.maximum(HIDDEN, 0)
    hidden[:, 2], hidden[:, 4] = 0, 0.3
    with pytest.raises(BehaviourError, match=r"unit 2 .*Dead"):
        check_units(hidden)


def test_thousands_of_units_are_compared_in_seconds():
    hidden = np.random.default_rng(2).normal(size=(50, 3000))
    hidden[:, 2999] = hidden[:, 1000]
    with pytest.raises(BehaviourError, match="units 1000 and 2999"):
        check_units(hidden)


def test_nan_and_what_cannot_be_judged_are_refused():
    hidden = HIDDEN.copy()
    hidden[4, 3] = np.nan
    with pytest.raises(BehaviourError, match="unit 3 holds NaN"):
        check_units(hidden)
    hidden[4, 3] = -np.inf
    with pytest.raises(BehaviourError, match="unit 3 holds inf"):
        check_units(hidden)
    with pytest.raises(ValueError, match=r"\(1, 5\)"):
        check_units(HIDDEN[:1])
    with pytest.raises(ValueError, match=r"\(11,\)"):
        check_units(HIDDEN[:, 0])
    with pytest.raises(TypeError, match="floats"):
        check_units(np.ones((3, 2), dtype=int))
