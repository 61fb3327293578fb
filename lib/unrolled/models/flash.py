"""Attention in blocks: the scores are made tile by tile and never stored. Chapter 23 derives it.

The softmax of a row is summed up as its tiles come in (online softmax); the backward pass makes
each tile again. torch's fused kernels do this inside the fast memory of a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unrolled.models.masks import combine
from unrolled.models.tensors import check_floats
from unrolled.validate import flag, real, whole


def flash_attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    block: int = 64,
) -> Tensor:
    """softmax(q kᵀ · scale, over the keys the mask allows) v, as `attend` gives it: (…, T, Kv).

    q: (…, T, K). k: (…, S, K). v: (…, S, Kv), with equal leading axes.
    mask, causal, scale: as in `attend`. A query that may attend to nothing gets zeros.
    block: a tile has so many queries and keys at most. With causality, tiles above the diagonal are
        left out.

    Memory beyond inputs and output: a tile, and a number for each query, where `attend` stores T·S
    weights. Numbers in 16 bits are summed up in 32. Raises TypeError for a mask that is not
    boolean, ValueError for shapes that do not fit, a block below 1, and causality with T > S.
    Source: Milakov & Gimelshein (2018); Dao et al. (2022), algorithms 1 and 4.
    """
    whole("block", block), flag("causal", causal)
    check_floats(q=q, k=k, v=v)
    alike = q.ndim >= 2 and q.shape[-1] == k.shape[-1] and k.shape[:-1] == v.shape[:-1]
    if not alike or q.shape[:-2] != k.shape[:-2]:
        shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
        raise ValueError(f"expected q (…, T, K), k (…, S, K), v (…, S, Kv), got {shapes}")
    T, S = q.shape[-2], k.shape[-2]
    if causal and T > S:
        raise ValueError(f"causal attention needs T ≤ S, got T = {T} queries and S = {S} keys")
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"q, k, v must be of one dtype, got {q.dtype}, {k.dtype}, {v.dtype}")
    if combine(mask) is not None:
        scores = (*q.shape[:-1], S)
        try:
            mask = mask.expand(scores)  # a view: nothing is stored
        except RuntimeError:
            given = tuple(mask.shape)
            raise ValueError(f"mask {given} does not broadcast to the scores {scores}") from None
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else real("scale", scale, above=0)
    return _Flash.apply(q, k, v, mask, _Tiles(T, S, block, causal, scale))


class _Tiles:
    """How the scores (T, S) are cut, and how a tile of them is made."""

    def __init__(self, T: int, S: int, block: int, causal: bool, scale: float):
        self.T, self.S, self.block, self.causal, self.scale = T, S, block, causal, scale

    def rows(self) -> Iterator[slice]:
        """The queries, block by block."""
        return (slice(i, min(i + self.block, self.T)) for i in range(0, self.T, self.block))

    def columns(self, rows: slice) -> Iterator[slice]:
        """The keys, block by block, as far as some query of the rows may attend to them."""
        end = rows.stop + self.S - self.T if self.causal else self.S
        return (slice(j, min(j + self.block, self.S)) for j in range(0, end, self.block))

    def scores(self, q: Tensor, k: Tensor, mask: Tensor | None, rows: slice, columns: slice):
        """The tile q_i k_jᵀ · scale, −∞ where a query may not attend, in 32 bits or more."""
        scores = _cut(q, rows) @ _cut(k, columns).transpose(-2, -1) * self.scale
        if mask is not None:
            scores = scores.masked_fill(~mask[..., rows, columns], -math.inf)
        if self.causal:
            i = torch.arange(rows.start, rows.stop, device=q.device) + self.S - self.T
            j = torch.arange(columns.start, columns.stop, device=q.device)
            scores = scores.masked_fill(i[:, None] < j, -math.inf)
        return scores


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, mask, tiles):
        wide = _wide(q)
        output = q.new_zeros(*q.shape[:-1], v.shape[-1])  # (…, T, Kv)
        log_sums = q.new_zeros(*q.shape[:-1], 1, dtype=wide)  # (…, T, 1): log Σ exp(score)
        for rows in tiles.rows():
            top = torch.full_like(log_sums[..., rows, :], -math.inf)  # the largest score so far
            total = torch.zeros_like(top)  # Σ exp(score − top)
            mixed = torch.zeros_like(output[..., rows, :], dtype=wide)  # Σ exp(score − top) · v
            for columns in tiles.columns(rows):
                scores = tiles.scores(q, k, mask, rows, columns)
                new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
                base = new_top.masked_fill(new_top == -math.inf, 0)  # nothing allowed so far
                shrink, weights = (top - base).exp(), (scores - base).exp()
                total = total * shrink + weights.sum(-1, keepdim=True)
                mixed = mixed * shrink + weights @ _cut(v, columns)
                top = new_top
            empty = top == -math.inf  # a query that may attend to nothing
            output[..., rows, :] = mixed / total.masked_fill(empty, 1)
            log_sums[..., rows, :] = (top + total.log()).masked_fill(empty, math.inf)
        ctx.save_for_backward(q, k, v, mask, output, log_sums)
        ctx.tiles = tiles
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, d_output):
        q, k, v, mask, output, log_sums = ctx.saved_tensors
        tiles = ctx.tiles
        d_q, d_k, d_v = (torch.zeros_like(x, dtype=_wide(x)) for x in (q, k, v))
        for rows in tiles.rows():
            d_out = _cut(d_output, rows)
            # Σ over keys of weight · its gradient: what the softmax subtracts from each of them
            mean = (d_out * _cut(output, rows)).sum(-1, keepdim=True)
            for columns in tiles.columns(rows):
                scores = tiles.scores(q, k, mask, rows, columns)
                weights = (scores - log_sums[..., rows, :]).exp()
                d_v[..., columns, :] += weights.transpose(-2, -1) @ d_out
                d_weights = d_out @ _cut(v, columns).transpose(-2, -1)
                d_scores = weights * (d_weights - mean) * tiles.scale
                d_q[..., rows, :] += d_scores @ _cut(k, columns)
                d_k[..., columns, :] += d_scores.transpose(-2, -1) @ _cut(q, rows)
        return *(d.to(x.dtype) for d, x in ((d_q, q), (d_k, k), (d_v, v))), None, None


def _cut(x: Tensor, part: slice) -> Tensor:
    return x[..., part, :].to(_wide(x))


def _wide(x: Tensor) -> torch.dtype:
    """The type that sums are kept in: single precision, or the tensor's own if it has more."""
    return torch.promote_types(x.dtype, torch.float32)
