"""Weights in four bits each: sixteen levels where a normal distribution has its mass.

Each block of 64 weights is divided by its largest magnitude, and what remains is rounded to the
nearest level. Chapter 24 measures what that costs, and trains low-rank adapters on top.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.validate import checked

BLOCK, SCALES_BLOCK = 64, 256  # weights with one scale; scales with one scale of their own


def nf4_levels() -> Tensor:
    """The sixteen levels in ascending order, float32 (16,), from −1 over 0 to 1.

    Seven are negative and eight positive: each half has the quantiles Φ⁻¹(p) of evenly spaced p
    between 1/2 and p₁, divided by the largest. p₁ is the mean of 1 − 1/32 and 1 − 1/30, so that
    neither end is infinite, with the digits of their code. Source: Dettmers et al. (2023), section
    3 and appendix E.
    """
    top = 0.9677083
    positive = torch.special.ndtri(torch.linspace(0.5, top, 9, dtype=torch.float64)[1:])
    negative = -torch.special.ndtri(torch.linspace(0.5, top, 8, dtype=torch.float64)[1:])
    levels = torch.cat([negative.flip(0), torch.zeros(1, dtype=torch.float64), positive])
    return (levels / positive[-1]).float()


class Quantised(NamedTuple):
    """A tensor in four bits an entry, as `quantise` makes it."""

    codes: Tensor  # uint8, two levels' numbers in each byte, the first in the upper half
    scales: Tensor  # of each block of 64: float32, or uint8 where they are quantised too
    scales_scales: Tensor  # float32: of each 256 scales; after them the mean of all; or empty
    shape: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        """Bytes of codes and scales."""
        return sum(x.numel() * x.element_size() for x in self[:3])


@checked
def quantise(weights: Tensor, *, double: bool = False) -> Quantised:
    """Four bits for each weight, and a float32 for the largest magnitude of each block of 64.

    4 + 32/64 = 4.5 bits a weight. double: the scales have 8 bits each, as the difference from their
    mean, in 255 even steps between ± the largest of 256; 4 + 8/64 + 32/(64·256) = 4.127 bits. (The
    paper has an 8-bit float there.) Blocks run through the flattened tensor; a last one may be
    shorter. Raises TypeError for what is no float, ValueError for no entry or one not finite.
    """
    if not weights.is_floating_point():
        raise TypeError(f"weights must be floats, got {weights.dtype}")
    if not weights.numel() or not weights.isfinite().all():
        raise ValueError(f"weights {tuple(weights.shape)} must have entries, all of them finite")
    flat = weights.detach().float().flatten()
    blocks = F.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
    scales = blocks.abs().amax(-1)
    stored, of_scales = _quantise_scales(scales) if double else (scales, scales[:0])
    divisor = _scales(stored, of_scales)[:, None]  # what will multiply the levels
    divided = torch.where(divisor > 0, blocks / divisor, 0.0).flatten()[: len(flat)]
    levels = nf4_levels().to(flat.device)
    codes = torch.bucketize(divided, (levels[1:] + levels[:-1]) / 2).to(torch.uint8)
    codes = F.pad(codes, (0, len(codes) % 2)).view(-1, 2)
    return Quantised(codes[:, 0] << 4 | codes[:, 1], stored, of_scales, tuple(weights.shape))


@checked
def dequantise(quantised: Quantised, levels: Tensor | None = None) -> Tensor:
    """float32, the levels times their blocks' scales, in the shape of what was quantised.

    levels: `nf4_levels()` on the device of the codes, for a caller that keeps them there.
    """
    codes, stored, of_scales, shape = quantised
    n = math.prod(shape)
    codes = torch.stack([codes >> 4, codes & 15], -1).flatten()[:n].long()
    scales = _scales(stored, of_scales).repeat_interleave(BLOCK)[:n]
    levels = nf4_levels().to(codes.device) if levels is None else levels
    return (levels[codes] * scales).view(shape)


def _quantise_scales(scales: Tensor) -> tuple[Tensor, Tensor]:
    """(uint8, the scale of each 256 of them, and after those their mean)."""
    mean = scales.mean()
    blocks = F.pad(scales - mean, (0, -len(scales) % SCALES_BLOCK)).view(-1, SCALES_BLOCK)
    largest = blocks.abs().amax(-1, keepdim=True)
    steps = torch.where(largest > 0, blocks / largest * 127, 0.0).round() + 128
    stored = steps.flatten()[: len(scales)].to(torch.uint8)
    return stored, torch.cat([largest[:, 0], mean[None]])


def _scales(stored: Tensor, of_scales: Tensor) -> Tensor:
    """The scales as float32."""
    if not len(of_scales):
        return stored
    largest, mean = of_scales[:-1].repeat_interleave(SCALES_BLOCK)[: len(stored)], of_scales[-1]
    return (stored.float() - 128) / 127 * largest + mean


class QuantisedLinear(nn.Module):
    """x · Wᵀ + b with W in four bits, which every forward pass makes floats of again.

    W is not trained; a gradient reaches x through it. The floats live as long as the graph of the
    pass does. The bias is a parameter as it was. Source: Dettmers et al. (2023), equation 5.
    """

    @checked
    def __init__(self, linear: nn.Linear, *, double: bool = False):
        """linear: what it takes the place of; its weight is rounded and not kept."""
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        codes, scales, of_scales, self.shape = quantise(linear.weight, double=double)
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)
        self.register_buffer("scales_scales", of_scales)
        self.register_buffer("levels", nf4_levels().to(codes.device), persistent=False)
        self.bias = linear.bias

    @property
    def quantised(self) -> Quantised:
        """The weight as it is stored."""
        return Quantised(self.codes, self.scales, self.scales_scales, self.shape)

    @property
    def weight(self) -> Tensor:
        """The weight as floats, float32 (out_features, in_features)."""
        return dequantise(self.quantised, self.levels)

    def forward(self, x: Tensor) -> Tensor:
        """(…, in_features) → (…, out_features), in the dtype of x."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), bias)
