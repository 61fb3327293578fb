"""Scaled dot-product attention: in the plain form that chapter 14 derives, and fused by torch."""

from __future__ import annotations

import math
from types import NoneType

import torch
from torch import Tensor
from torch.nn import functional as F

from unrolled.models.masks import Reach, causal_mask, prepare
from unrolled.models.tensors import check_floats
from unrolled.validate import flag, instance, one_of, real

IMPLEMENTATIONS = ("auto", "reference", "fused")


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | Reach | None = None,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    implementation: str = "auto",
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(q kᵀ · scale + bias, over the keys the mask allows) v.

    q: (…, T, K). k: (…, S, K). v: (…, S, Kv). With four axes, q (B, H, T, K) and k, v
        (B, G, S, ·), G may divide H: then H/G consecutive heads share keys and values.
    mask: boolean, True = may attend, broadcastable to the scores (…, T, S). A query that may attend
        to nothing gets zeros, and sends back no gradient. Or what `prepare` makes once for several
        layers, which holds the bias and causality as well.
    bias: finite, added to the scores, broadcastable to them: ALiBi, or a relative bias.
    causal: besides the mask, query i may attend to keys j ≤ i + S − T only (`causal_mask`).
    scale: above 0; 1/√K when left out.
    dropout: in [0, 1), the probability with which a weight is set to 0 (others are scaled up).
    implementation: "reference" follows the formula, "fused" is torch's kernel; "auto" takes the
        fused one, unless the weights are to be returned.
    return_weights: return (output (…, T, Kv), weights (…, T, S)), the weights after dropout.

    A query that reads NaN (its own, or in a key, value or bias) or a score of ∞ gets NaN from every
    implementation, as the formula has it. (On a CPU "fused" then follows the formula, since the
    kernel may give numbers; in a compiled program nothing is looked at.) Where finite numbers
    overflow to scores of −∞ alone, it gets NaN or 0.

    Raises TypeError for a mask that is not boolean or a bias that is, ValueError for shapes that do
    not fit and for weights from the fused kernel, which never holds them.
    Source: Vaswani et al. (2017), equation 1. Grouped heads: Ainslie et al. (2023).
    """
    one_of("implementation", implementation, IMPLEMENTATIONS)
    real("dropout", dropout, at_least=0, below=1)
    flag("causal", causal), flag("return_weights", return_weights)
    if return_weights and implementation == "fused":
        raise ValueError("the fused kernel never holds the weights: use 'reference' or 'auto'")
    _check(q, k, v)
    instance("mask", mask, Tensor, Reach, NoneType), instance("bias", bias, Tensor, NoneType)
    T, S = q.shape[-2], k.shape[-2]
    if not isinstance(mask, Reach):
        _check_broadcast((*q.shape[:-1], S), mask=mask, bias=bias)
        mask = prepare(mask, bias, T, S, causal=causal, device=q.device)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else real("scale", scale, above=0)
    fused = implementation == "fused" or (implementation == "auto" and not return_weights)
    if fused and _is_finite(q, k, mask):
        return _fused(q, k, v, mask, scale, dropout)
    k, v = _spread(k, q), _spread(v, q)
    scores = q @ k.transpose(-2, -1) * scale  # (…, T, S)
    added = causal_mask(T, S, device=q.device) if mask.causal else mask.added
    if added is not None:
        masked = added.dtype == torch.bool
        scores = scores.masked_fill(~added, -math.inf) if masked else scores + added.to(q.dtype)
    weights = scores.softmax(-1)
    if mask.alive is not None:
        weights = weights * mask.alive
    weights = F.dropout(weights, dropout)
    output = weights @ v  # (…, T, Kv)
    return (output, weights) if return_weights else output


def _fused(q: Tensor, k: Tensor, v: Tensor, mask: Reach, scale: float, dropout: float):
    """torch's kernel; with a mask its grouped form would hold all scores, so heads are spread."""
    added, grouped = mask.added, k.shape[:-2] != q.shape[:-2]
    if added is not None:
        added = added if added.dtype == torch.bool else added.to(q.dtype)
        k, v, grouped = _spread(k, q), _spread(v, q), False
    output = F.scaled_dot_product_attention(
        q, k, v, attn_mask=added, dropout_p=dropout, is_causal=mask.causal, scale=scale,
        enable_gqa=grouped,
    )  # fmt: skip
    return output if mask.alive is None else output * mask.alive


def _is_finite(q: Tensor, k: Tensor, mask: Reach) -> bool:
    """Whether the CPU's kernel gives what the formula does; it gives NaN for a NaN in v by itself.

    Elsewhere the host would wait for the answer, and kernels give NaN.
    """
    if q.device.type != "cpu" or torch.compiler.is_compiling():
        return True
    return mask.finite and math.isfinite((q.detach().sum() + k.detach().sum()).item())


def _spread(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values (B, G, S, ·) repeated to the H heads of q: head h reads group h·G // H."""
    if x.shape[:-2] == q.shape[:-2]:
        return x
    return x.repeat_interleave(q.shape[1] // x.shape[1], dim=1)


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    check_floats(q=q, k=k, v=v)
    lead, groups = q.shape[:-2], k.shape[:-2]
    shared = q.ndim == 4 and k.ndim == 4 and lead[0] == groups[0] and lead[1] % groups[1] == 0
    alike = q.ndim >= 2 and q.shape[-1:] == k.shape[-1:] and k.shape[:-1] == v.shape[:-1]
    if not alike or not (lead == groups or shared):
        raise ValueError(
            "expected q (…, T, K), k (…, S, K), v (…, S, Kv), the leading axes equal, or q of H "
            "heads, k and v of G heads that divide H; "
            f"got q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
        )
    if not q.dtype == k.dtype == v.dtype and not torch.is_autocast_enabled(q.device.type):
        raise TypeError(f"q, k, v must be of one dtype, got {q.dtype}, {k.dtype}, {v.dtype}")


def _check_broadcast(scores: tuple[int, ...], **given: Tensor | None) -> None:
    for name, x in given.items():
        shape = () if x is None else tuple(x.shape)
        pairs = zip(reversed(shape), reversed(scores), strict=False)
        if len(shape) > len(scores) or any(n not in (1, m) for n, m in pairs):
            raise ValueError(f"{name} {shape} does not broadcast to the scores {scores}")
    if given["bias"] is not None and given["bias"].dtype == torch.bool:
        raise TypeError("a bias is added to the scores; booleans are a mask")
