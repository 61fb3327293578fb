"""Norms and feed-forward layers against torch, plain formulas and finite differences."""

import math

import pytest
import torch
from comparing import close, passes_gradcheck, randomised, refuses, with_gradients
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


test_what_cannot_be_is_refused = refuses(
    (lambda: RMSNorm(7)(torch.zeros(3, 1)), r"expected \(…, 7\), got \(3, 1\)"),
)
