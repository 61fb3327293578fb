"""Stacks and starts: equal to torch, a size that is kept, a skip that is the input itself."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from unrolled_book.depth import MODES, NONLINEARITIES, SCHEMES, Stack, spread, start, start_std

SHAPE = (7, 13)  # outputs, inputs
TORCH = {
    ("lecun", "normal"): lambda w: nn.init.kaiming_normal_(w, nonlinearity="linear"),
    ("lecun", "uniform"): lambda w: nn.init.kaiming_uniform_(w, nonlinearity="linear"),
    ("xavier", "normal"): nn.init.xavier_normal_,
    ("xavier", "uniform"): nn.init.xavier_uniform_,
    ("he", "normal"): lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"),
    ("he", "uniform"): lambda w: nn.init.kaiming_uniform_(w, nonlinearity="relu"),
}


@pytest.mark.parametrize(("scheme", "distribution"), TORCH)
def test_a_start_has_torchs_numbers(scheme, distribution):
    torch.manual_seed(3)
    expected = TORCH[scheme, distribution](torch.empty(SHAPE, dtype=torch.float64))
    torch.manual_seed(3)
    found = start(torch.empty(SHAPE, dtype=torch.float64), scheme, distribution=distribution)
    assert_close(found, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("mode", ["fan_in", "fan_out"])
def test_a_mode_means_what_it_means_in_torch(mode):
    generator = torch.Generator().manual_seed(5)
    found = start(torch.empty(SHAPE), "he", mode=mode, generator=generator)
    torch.manual_seed(5)
    assert_close(found, nn.init.kaiming_normal_(torch.empty(SHAPE), mode=mode, nonlinearity="relu"))


def test_the_standard_deviations_by_hand():
    assert start_std((3, 5), "lecun") == math.sqrt(1 / 5)
    assert start_std((3, 5), "xavier") == math.sqrt(2 / (3 + 5))
    assert start_std((3, 5), "he") == math.sqrt(2 / 5)
    assert start_std((3, 5), "he", mode="fan_out") == math.sqrt(2 / 3)
    assert start_std((3, 5), "lecun", mode="fan_avg") == start_std((3, 5), "xavier")


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([*SCHEMES]), st.sampled_from(MODES))
def test_exchanging_inputs_and_outputs_exchanges_the_fans(out, inside, scheme, mode):
    other = {"fan_in": "fan_out", "fan_out": "fan_in", "fan_avg": "fan_avg"}[mode]
    expected = start_std((inside, out), scheme, mode=other)
    assert start_std((out, inside), scheme, mode=mode) == expected


@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_both_distributions_have_the_stated_deviation(distribution):
    generator = torch.Generator().manual_seed(0)
    weight = start(torch.empty(211, 307), "he", distribution=distribution, generator=generator)
    assert_close(weight.std().item(), start_std(weight.shape, "he"), rtol=0.02, atol=0)
    assert abs(weight.mean().item()) < 1e-3


def test_he_keeps_the_mean_square_through_relu_layers():
    torch.manual_seed(0)
    stack = Stack(512, 10)
    for layer in stack.layers:
        start(layer.weight, "he")
        nn.init.zeros_(layer.bias)
    sizes = [h.square().mean().item() for h in stack.states(torch.randn(64, 512))]
    assert 0.5 < sizes[-1] / sizes[0] < 2


@pytest.mark.parametrize("activation", NONLINEARITIES)
@pytest.mark.parametrize("residual", [False, True])
def test_a_stack_is_its_layers_one_after_the_other(activation, residual):
    torch.manual_seed(1)
    stack, x = Stack(5, 3, activation=activation, residual=residual), torch.randn(2, 7, 5)
    expected = x
    for layer in stack.layers:
        branch = NONLINEARITIES[activation](expected @ layer.weight.T + layer.bias)
        expected = expected + branch if residual else branch
    assert_close(stack(x), expected)
    states = stack.states(x)
    assert len(states) == 4
    assert torch.equal(states[0], x)
    assert torch.equal(states[-1], stack(x))


def test_a_residual_stack_with_empty_branches_gives_its_input():
    stack, x = Stack(5, 11, residual=True), torch.randn(3, 5)
    for p in stack.parameters():
        nn.init.zeros_(p)
    assert torch.equal(stack(x), x)


def test_a_stacks_gradient_is_that_of_finite_differences():
    torch.manual_seed(2)
    stack = Stack(3, 2, activation="gelu", residual=True).double()
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(stack, (x,))


def test_what_is_not_there_is_named():
    with pytest.raises(ValueError, match="activation must be one of sigmoid"):
        Stack(3, 1, activation="step")
    with pytest.raises(ValueError, match="n_layers must be at least 1"):
        Stack(3, 0)
    with pytest.raises(ValueError, match="scheme must be one of lecun, xavier, he, got 'glorot'"):
        start_std((3, 5), "glorot")
    with pytest.raises(ValueError, match="mode must be one of"):
        start_std((3, 5), "he", mode="fan")
    with pytest.raises(ValueError, match=r"\(3,\)"):
        start(torch.empty(3), "he")
    with pytest.raises(ValueError, match="distribution must be one of normal, uniform"):
        start(torch.empty(3, 5), "he", distribution="cauchy")
    with pytest.raises(ValueError, match="mode must be one of"):
        start_std((3, 5), "he", mode="")
    with pytest.raises(ValueError, match="inputs must be at least 1, got 0"):
        start_std((3, 0), "he")
    with pytest.raises(TypeError, match="outputs must be an integer, got '3'"):
        start_std(("3", "5"), "he")
    with pytest.raises(TypeError, match="residual must be True or False, got 'no'"):
        Stack(3, 1, residual="no")


def test_the_spread_by_hand():
    # Mean 4, so what is not common is (−4, 0, 4), of length √32; the whole has the length √80.
    assert_close(spread(torch.tensor([[0.0], [4.0], [8.0]])), math.sqrt(32 / 80))


def test_the_spread_is_1_around_zero_and_0_for_equal_tokens():
    x = torch.randn(3, 7, 5, dtype=torch.float64)
    assert_close(spread(x - x.mean(-2, keepdim=True)), 1.0)
    assert spread(x[:, :1].expand(3, 7, 5)) < 1e-15


@given(st.floats(0.1, 10), st.integers(2, 7), st.integers(1, 5))
def test_the_spread_ignores_scale_and_the_order_of_the_tokens(scale, n_tokens, width):
    x = torch.linspace(-1, 2, n_tokens * width, dtype=torch.float64).view(n_tokens, width)
    assert_close(spread(scale * x.flip(0)), spread(x))


def test_a_spread_needs_tokens_and_something_in_them():
    with pytest.raises(ValueError, match=r"got \(5,\)"):
        spread(torch.ones(5))
    with pytest.raises(ValueError, match="all vectors are zero"):
        spread(torch.zeros(2, 3))
