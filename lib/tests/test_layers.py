"""Norms and feed-forward layers against torch, plain formulas and finite differences."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from unrolled.models.layers import ACTIVATIONS, GATED, FeedForward, LayerNorm, RMSNorm

B, T, D, HIDDEN = 3, 5, 7, 11
DTYPE = torch.float64
both = pytest.mark.parametrize("implementation", ["reference", "fused"])
every_activation = pytest.mark.parametrize("activation", [*ACTIVATIONS, *GATED])


def close(got, expected, tolerance=1e-12):
    assert_close(got, expected, rtol=0, atol=tolerance)


def randomised(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module


# --- norms ---------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("kind", ["layer", "layer without bias", "rms"])
def test_norms_are_torchs_forward_and_backward(implementation, kind, device):
    if kind == "rms":
        theirs, ours = nn.RMSNorm(D, eps=1e-3), RMSNorm(D, eps=1e-3, implementation=implementation)
    else:
        bias = kind == "layer"
        theirs = nn.LayerNorm(D, eps=1e-3, bias=bias)
        ours = LayerNorm(D, eps=1e-3, bias=bias, implementation=implementation)
    ours.load_state_dict(randomised(theirs).state_dict())
    ours, theirs = ours.to(device), theirs.to(device)
    x = (3 * torch.randn(B, T, D) + 2).to(device).requires_grad_()
    results = []
    for module in (ours, theirs):
        output = module(x)
        weights = torch.linspace(-1, 2, output.numel(), device=device).reshape(output.shape)
        loss = (weights * output).sum()
        results.append((output, *torch.autograd.grad(loss, [x, *module.parameters()])))
    for got, expected in zip(*results, strict=True):
        close(got, expected)


@both
def test_norms_by_hand(implementation):
    """1, 3, 5, 7: mean 4, variance 5, mean square 21; ε = 4 makes the roots 3 and 5."""
    x = torch.tensor([[1.0, 3, 5, 7]])
    layer = LayerNorm(4, eps=4.0, implementation=implementation)
    close(layer(x), (x - 4) / 3, 1e-15)
    close(RMSNorm(4, eps=4.0, implementation=implementation)(x), x / 5, 1e-15)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([1.0, 2, 3, 4]))
        layer.bias.fill_(0.5)
    close(layer(x), torch.tensor([[-0.5, -1 / 6, 1.5, 4.5]]), 1e-15)


@both
@settings(max_examples=20, deadline=None)
@given(
    width=st.integers(2, 9), shift=st.floats(-5, 5), scale=st.floats(0.1, 9), seed=st.integers(0, 9)
)
def test_a_norm_forgets_scale_and_a_layer_norm_also_shift(
    implementation, width, shift, scale, seed
):
    torch.manual_seed(seed)
    x = torch.randn(3, width)
    layer = LayerNorm(width, eps=0.0, implementation=implementation)
    rms = RMSNorm(width, eps=0.0, implementation=implementation)
    close(layer(scale * x + shift), layer(x), 1e-9)
    close(rms(scale * x), rms(x), 1e-9)
    close(layer(x).mean(-1), torch.zeros(3), 1e-9)
    close(layer(x).square().mean(-1), torch.ones(3), 1e-9)
    close(rms(x).square().mean(-1), torch.ones(3), 1e-9)


@both
def test_a_row_of_equal_numbers_has_a_norm_and_gradients(implementation):
    x = torch.full((2, 4), 3.0, requires_grad=True)
    output = LayerNorm(4, implementation=implementation)(x)
    assert not output.any()
    output.sum().backward()
    assert x.grad.isfinite().all()
    assert not RMSNorm(4, implementation=implementation)(torch.zeros(2, 4)).any()


@both
@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_gradients_of_a_norm_agree_with_finite_differences(kind, implementation):
    module = randomised(kind(4, eps=1e-3, implementation=implementation))
    names = [name for name, _ in module.named_parameters()]

    def f(x, *parameters):
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (x,))

    inputs = [torch.randn(2, 3, 4), *(p.detach().clone() for p in module.parameters())]
    assert torch.autograd.gradcheck(f, [x.requires_grad_() for x in inputs])


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_impossible_norms_are_refused(kind):
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        kind(0)
    with pytest.raises(ValueError, match="eps must be at least 0, got -1"):
        kind(7, eps=-1)
    with pytest.raises(ValueError, match="eps must be finite, got nan"):
        kind(7, eps=math.nan)
    with pytest.raises(ValueError, match="one of auto, reference, fused, got 'apex'"):
        kind(7, implementation="apex")
    for implementation in ("reference", "fused"):
        with pytest.raises(ValueError, match=r"expected \(…, 7\), got \(3, 1\)"):
            kind(7, implementation=implementation)(torch.zeros(3, 1))


# --- feed-forward --------------------------------------------------------------------------------

FORMULAS = {
    "relu": lambda x: x * (x > 0),
    "gelu": lambda x: x / 2 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu-tanh": lambda x: x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_their_formulas(name, device):
    x = torch.linspace(-6, 6, 101, device=device)
    close(ACTIVATIONS[name](x), FORMULAS[name](x))


@every_activation
@pytest.mark.parametrize("bias", [True, False])
def test_the_feed_forward_layer_is_the_plain_formula(activation, bias, device):
    module = randomised(FeedForward(D, HIDDEN, activation=activation, bias=bias)).to(device)
    x = torch.randn(B, T, D, device=device)
    up = x @ module.up.weight.T + (module.up.bias if bias else 0)
    if activation in GATED:
        gate, up = up[..., :HIDDEN], up[..., HIDDEN:]
        inner = FORMULAS[GATED[activation]](gate) * up
    else:
        inner = FORMULAS[activation](up)
    expected = inner @ module.down.weight.T + (module.down.bias if bias else 0)
    close(module(x), expected, 1e-11)


def test_the_feed_forward_layer_is_torchs_layers_in_a_row(device):
    module = FeedForward(D, HIDDEN, activation="relu").to(device)
    theirs = nn.Sequential(module.up, nn.ReLU(), module.down)
    x = torch.randn(B, T, D, device=device)
    close(module(x), theirs(x), 0)


def test_swiglu_by_hand():
    """gate = 0 and ln 3 give silu 0 and 3/4 · ln 3; times up = 5 and 8; summed by down."""
    module = FeedForward(1, 2, activation="swiglu", bias=False)
    with torch.no_grad():
        module.up.weight.copy_(torch.tensor([[0.0], [math.log(3)], [5], [8]]))
        module.down.weight.fill_(1)
    close(module(torch.ones(1, 1)), torch.tensor([[6 * math.log(3)]]), 1e-14)


@every_activation
def test_gradients_of_a_feed_forward_layer_agree_with_finite_differences(activation):
    module = randomised(FeedForward(3, 4, activation=activation))
    names = [name for name, _ in module.named_parameters()]

    def f(x, *parameters):
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (x,))

    inputs = [torch.randn(2, 3), *(p.detach().clone() for p in module.parameters())]
    assert torch.autograd.gradcheck(f, [x.requires_grad_() for x in inputs])


@every_activation
def test_each_position_is_on_its_own(activation):
    module, x = FeedForward(D, HIDDEN, activation=activation), torch.randn(B, T, D)
    close(module(x)[1, 2], module(x[1, 2]), 1e-14)


def test_parameters_are_as_many_as_the_formula_says():
    count = sum(p.numel() for p in FeedForward(D, HIDDEN).parameters())
    assert count == 2 * D * HIDDEN + HIDDEN + D
    gated = FeedForward(D, HIDDEN, activation="swiglu", bias=False)
    assert sum(p.numel() for p in gated.parameters()) == 3 * D * HIDDEN


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((D, HIDDEN), {"activation": "tanh"}, "one of relu, .*swiglu, got 'tanh'"),
        ((0, HIDDEN), {}, "d_model must be at least 1, got 0"),
        ((D, 0), {}, "d_ff must be at least 1, got 0"),
    ],
)
def test_impossible_feed_forward_layers_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        FeedForward(*arguments, **options)


def test_fused_activations_are_torchs_own():
    x = torch.randn(B, T, D)
    close(ACTIVATIONS["gelu"](x), F.gelu(x), 0)
    close(ACTIVATIONS["gelu-tanh"](x), F.gelu(x, approximate="tanh"), 0)
