"""Four-bit weights against the published table, scipy's quantiles and counts of bits."""

import pytest
import torch
from comparing import close, refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from torch import nn
from unrolled.models.nf4 import QuantisedLinear, dequantise, nf4_levels, quantise

# Dettmers et al. (2023), appendix E.
PUBLISHED = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
]  # fmt: skip
both = pytest.mark.parametrize("double", [False, True])


def test_the_levels_are_the_published_ones_and_scipys_quantiles():
    levels = nf4_levels()
    close(levels, torch.tensor(PUBLISHED), 1.3e-7)  # two roundings to float32
    assert ((levels < 0).sum(), (levels > 0).sum()) == (7, 8)
    top = 1 - (1 / 32 + 1 / 30) / 2
    quantiles = norm.ppf([0.5 + (top - 0.5) * i / 8 for i in range(1, 9)])
    close(levels[8:], torch.tensor(quantiles / quantiles[-1]).float(), 3e-7)  # p₁ has 7 digits


@both
@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 9), columns=st.integers(1, 99), seed=st.integers(0, 99))
def test_each_weight_takes_its_nearest_level(double, rows, columns, seed):
    torch.manual_seed(seed)
    w = torch.randn(rows, columns)
    w[0] = 0  # zeros stay zeros
    back = dequantise(quantise(w, double=double))
    assert (back.shape, back.dtype) == (w.shape, torch.float32)
    assert not back[0].any()
    for block, got in zip(w.flatten().split(64), back.flatten().split(64), strict=True):
        scale = block.abs().max()
        if double:  # it is stored with a small error; the level of the largest is 1 or -1
            scale = got[block.abs().argmax()].abs()
        nearest = (block[:, None] - scale * nf4_levels()).abs().amin(-1)
        close((got - block).abs(), nearest, 1e-5)
    if not double:
        close(dequantise(quantise(back)), back, 0)


def test_bytes_are_four_and_a_half_bits_a_weight_or_four_and_an_eighth():
    w = torch.randn(256, 1024)
    assert quantise(w).n_bytes * 8 / w.numel() == 4.5
    # 16 scales of scales, and one mean for all
    assert quantise(w, double=True).n_bytes * 8 == w.numel() * (4 + 8 / 64 + 32 / 64 / 256) + 32


@both
@pytest.mark.parametrize("bias", [False, True])
def test_a_quantised_map_is_that_of_its_rounded_matrix_with_gradients(double, bias, device):
    linear = nn.Linear(13, 7, bias=bias).double().to(device)
    ours, loaded = (QuantisedLinear(map_, double=double) for map_ in (linear, nn.Linear(13, 7)))
    rounded = dequantise(quantise(linear.weight, double=double)).double()
    assert (rounded - linear.weight).abs().max() > 1e-3
    linear.weight.data = rounded
    x = torch.randn(2, 3, 13, dtype=torch.float64).to(device).requires_grad_()
    close(ours(x), linear(x), 1e-12)
    assert torch.autograd.gradcheck(ours, x)
    assert [name for name, _ in ours.named_parameters()] == ["bias"] * bias
    loaded.load_state_dict(ours.state_dict(), strict=bias)
    assert torch.equal(loaded.to(device).weight, ours.weight.float())


test_what_cannot_be_quantised_is_refused = refuses(
    (torch.tensor([1.0, torch.nan]), r"weights \(2,\) .* all of them finite"),
    of=quantise,
)
