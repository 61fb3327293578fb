"""Scaled dot-product attention: in the plain form that chapter 14 derives, and fused by torch."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from unrolled.models.masks import causal_mask, combine

IMPLEMENTATIONS = ("auto", "reference", "fused")


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    implementation: str = "auto",
    with_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(q kᵀ · scale + bias, over the keys the mask allows) v.

    q: (…, T, K). k: (…, S, K). v: (…, S, Kv). With four axes, q (B, H, T, K) and k, v
        (B, G, S, ·), G may divide H: then H/G heads in a row share keys and values.
    mask: boolean, True = may attend, broadcastable to the scores (…, T, S). A query that may attend
        to nothing gets zeros, and sends back no gradient.
    bias: finite, added to the scores, broadcastable to them: ALiBi, or a relative bias.
    causal: besides the mask, query i may attend to keys j ≤ i + S − T only (`causal_mask`).
    scale: 1/√K when left out.
    dropout: probability with which a weight is set to 0 (and the others are scaled up).
    implementation: "reference" follows the formula, "fused" is torch's kernel; "auto" takes the
        fused one, unless the weights are asked for.
    with_weights: return (output (…, T, Kv), weights (…, T, S)), the weights after dropout.

    Raises TypeError for a mask that is not boolean, ValueError for shapes that do not fit and for
    weights asked of the fused kernel, which never holds them.
    Source: Vaswani et al. (2017), equation 1. Grouped heads: Ainslie et al. (2023).
    """
    _check(q, k, v, mask, bias, causal)
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(f"implementation must be one of {IMPLEMENTATIONS}, got {implementation!r}")
    if with_weights and implementation == "fused":
        raise ValueError("the fused kernel never holds the weights: ask for 'reference' or 'auto'")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if implementation == "fused" or (implementation == "auto" and not with_weights):
        return _fused(q, k, v, mask, bias, causal, scale, dropout)
    if causal:
        mask = combine(mask, causal_mask(q.shape[-2], k.shape[-2], device=q.device))
    k, v = (_spread(x, q) for x in (k, v))
    scores = q @ k.transpose(-2, -1) * scale  # (…, T, S)
    if bias is not None:
        scores = scores + bias
    weights = masked_softmax(scores, mask)
    weights = nn.functional.dropout(weights, dropout)
    output = weights @ v  # (…, T, Kv)
    return (output, weights) if with_weights else output


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last axis where the mask is True, and exactly 0 elsewhere.

    scores: (…, T, S). mask: boolean, broadcastable to them, or None. A row without any True is all
    zeros and has the gradient zero, where −∞ alone would give NaN.
    """
    if mask is None:
        return scores.softmax(-1)
    alive = mask.any(-1, keepdim=True)  # a row of −∞ only has no softmax: let it be 0 … 0 instead
    scores = scores.masked_fill(~mask & alive, -math.inf)
    return scores.softmax(-1) * alive


def _fused(q, k, v, mask, bias, causal, scale, dropout) -> Tensor:
    """torch's kernel, which wants a mask or a bias or nothing but `is_causal`, and no empty row."""
    alive, T, S = None, q.shape[-2], k.shape[-2]
    # is_causal counts from the first key; with T = 1 the last query may see everything.
    square = causal and T == S and mask is None and bias is None
    if causal and not square and T > 1:
        mask = combine(mask, causal_mask(T, S, device=q.device))
    if mask is not None:
        alive = mask.any(-1, keepdim=True)
        mask = mask | ~alive
    if bias is not None:
        bias = bias.to(q.dtype)
        mask = bias if mask is None else torch.where(mask, bias, -math.inf)
    if mask is not None:
        mask = torch.atleast_2d(mask)  # the kernel insists
    grouped = q.ndim == 4 and k.shape[1] != q.shape[1]
    output = nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=square, scale=scale,
        enable_gqa=grouped,
    )  # fmt: skip
    return output if alive is None else output * alive


def _spread(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values (B, G, S, ·) repeated to the H heads of q: head h reads group h·G // H."""
    if x.ndim != 4 or x.shape[1] == q.shape[1]:
        return x
    return x.repeat_interleave(q.shape[1] // x.shape[1], dim=1)


def _check(q, k, v, mask, bias, causal) -> None:
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.ndim == k.ndim == v.ndim >= 2:
        raise ValueError(f"expected q (…, T, K), k (…, S, K), v (…, S, Kv), got {shapes}")
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"expected q (…, T, K), k (…, S, K), v (…, S, Kv), got {shapes}")
    heads = q.ndim == 4 and q.shape[1] != k.shape[1]
    if k.shape[:-2] != v.shape[:-2] or q.shape[:-2] != k.shape[:-2]:
        if not heads or k.shape[:2] != v.shape[:2] or q.shape[0] != k.shape[0]:
            raise ValueError(f"expected the same axes before the last two, got {shapes}")
        if q.shape[1] % k.shape[1]:
            raise ValueError(
                f"{k.shape[1]} heads of keys and values do not divide {q.shape[1]} heads of "
                f"queries: {shapes}"
            )
    if causal and q.shape[-2] > k.shape[-2]:
        raise ValueError(f"causal attention needs a key for every query, got {shapes}")
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(f"a mask is boolean, True = may attend; got {mask.dtype}")
    scores = (*q.shape[:-1], k.shape[-2])
    for name, x in (("mask", mask), ("bias", bias)):
        if x is not None and not _broadcasts(x.shape, scores):
            raise ValueError(
                f"{name} {tuple(x.shape)} does not broadcast to the scores {scores} of {shapes}"
            )


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether this shape fits into the other; torch.broadcast_shapes would first load sympy."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(n in (1, m) for n, m in pairs)
