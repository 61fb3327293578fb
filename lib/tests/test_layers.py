"""Norms and feed-forward layers against torch, plain formulas and finite differences."""

import math

import pytest
import torch
from comparing import close, passes_gradcheck, randomised, with_gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from unrolled.models.layers import ACTIVATIONS, GATED, FeedForward, LayerNorm, RMSNorm

B, T, D, HIDDEN = 3, 5, 7, 11
DTYPE = torch.float64
both = pytest.mark.parametrize("implementation", ["reference", "fused"])
every_activation = pytest.mark.parametrize("activation", [*ACTIVATIONS, *GATED])


@both
@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        (LayerNorm, nn.LayerNorm, {}),
        (LayerNorm, nn.LayerNorm, {"bias": False}),
        (RMSNorm, nn.RMSNorm, {}),
    ],
)
def test_norms_are_torchs_forward_and_backward(implementation, ours, theirs, options, device):
    theirs = randomised(theirs(D, eps=1e-3, **options)).to(device)
    ours = ours(D, eps=1e-3, implementation=implementation, **options).to(device)
    ours.load_state_dict(theirs.state_dict())
    x = (3 * torch.randn(B, T, D) + 2).to(device).requires_grad_()
    close(with_gradients(ours, x), with_gradients(theirs, x))
    assert passes_gradcheck(ours, x[:1, :2])


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
@settings(max_examples=12, deadline=None)
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
    up = F.linear(x, module.up.weight, module.up.bias)
    if activation in GATED:
        inner = FORMULAS[GATED[activation]](up[..., :HIDDEN]) * up[..., HIDDEN:]
    else:
        inner = FORMULAS[activation](up)
    expected = F.linear(inner, module.down.weight, module.down.bias)
    close(module(x), expected, 1e-11)
    close(module(x[1, 2]), expected[1, 2], 1e-11)  # each position is on its own
    matrices = (3 if activation in GATED else 2) * D * HIDDEN
    biases = (len(module.up.weight) + D) * bias
    assert sum(p.numel() for p in module.parameters()) == matrices + biases
    assert passes_gradcheck(module, x[0, :2], fast_mode=True)


def test_swiglu_by_hand():
    """gate = 0 and ln 3 give silu 0 and 3/4 · ln 3; times up = 5 and 8; summed by down."""
    module = FeedForward(1, 2, activation="swiglu", bias=False)
    with torch.no_grad():
        module.up.weight.copy_(torch.tensor([[0.0], [math.log(3)], [5], [8]]))
        module.down.weight.fill_(1)
    close(module(torch.ones(1, 1)), torch.tensor([[6 * math.log(3)]]), 1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RMSNorm(7, eps=-1), "eps must be at least 0, got -1"),
        (lambda: LayerNorm(7, implementation="apex"), "one of auto, reference, fused, got 'apex'"),
        (lambda: RMSNorm(7)(torch.zeros(3, 1)), r"expected \(…, 7\), got \(3, 1\)"),
        (lambda: LayerNorm(7, implementation="reference")(torch.zeros(3, 1)), r"expected \(…, 7\)"),
        (lambda: FeedForward(D, HIDDEN, activation="tanh"), "one of relu, .*swiglu, got 'tanh'"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
