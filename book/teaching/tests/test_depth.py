"""Stacks and starts: equal to torch, a size that is kept, a skip that is the input itself."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from unrolled_book.depth import NONLINEARITIES, Stack, spread, start, start_std

from lib.tests.comparing import refuses


@pytest.mark.parametrize("distribution", ["normal", "uniform"])
@pytest.mark.parametrize("mode", [None, "fan_in", "fan_out"])
@pytest.mark.parametrize("scheme", ["lecun", "xavier", "he"])
def test_a_start_has_torchs_numbers(scheme, mode, distribution):
    name, options = "xavier", {}
    if scheme != "xavier" or mode:
        gain = "relu" if scheme == "he" else "linear"
        name, options = "kaiming", {"mode": mode or "fan_in", "nonlinearity": gain}
    torch.manual_seed(3)
    empty = torch.empty(7, 13, dtype=torch.float64)
    expected = getattr(nn.init, f"{name}_{distribution}_")(empty, **options)
    generator = torch.Generator().manual_seed(3)
    weight, form = torch.empty(7, 13, dtype=torch.float64), {"distribution": distribution}
    found = start(weight, scheme, mode=mode, **form, generator=generator)
    assert found is weight
    assert_close(found, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("activation", NONLINEARITIES)
@pytest.mark.parametrize("residual", [False, True])
def test_a_stack_is_its_layers_one_after_the_other(activation, residual):
    torch.manual_seed(1)
    stack, x = Stack(5, 3, activation=activation, residual=residual), torch.randn(2, 7, 5)
    expected = [x]
    for layer in stack.layers:
        branch = NONLINEARITIES[activation](expected[-1] @ layer.weight.T + layer.bias)
        expected.append(expected[-1] + branch if residual else branch)
    assert_close(stack.states(x), expected)
    assert torch.equal(stack(x), stack.states(x)[-1])


test_what_does_not_fit_is_refused = refuses(
    (lambda: start_std((3, 0), "he"), "inputs must be at least 1, got 0"),
    (lambda: start_std(("3", "5"), "he"), TypeError, "outputs must be an integer, got '3'"),
    (lambda: start(torch.empty(3), "he"), r"\(3,\)"),
    (lambda: spread(torch.ones(5)), r"got \(5,\)"),
    (lambda: spread(torch.zeros(2, 3)), "all vectors are zero"),
)


def test_the_spread_is_1_around_zero_0_for_equal_tokens_and_by_hand_between():
    # Mean 4, so what is not common is (−4, 0, 4), of length √32; the whole has the length √80.
    assert_close(spread(torch.tensor([[0.0], [4.0], [8.0]])), math.sqrt(32 / 80))
    x = torch.randn(3, 7, 5, dtype=torch.float64)
    assert_close(spread(x - x.mean(-2, keepdim=True)), 1.0)
    assert spread(x[:, :1].expand(3, 7, 5)) < 1e-15
