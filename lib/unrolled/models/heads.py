"""Multi-head attention, within a sequence or over a source, which chapter 16 derives."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from types import NoneType

import torch
from torch import Tensor, nn

from unrolled.models.attention import IMPLEMENTATIONS, attend
from unrolled.models.kv_cache import LayerCache
from unrolled.models.layers import cast_for_products, recording
from unrolled.models.masks import Reach
from unrolled.models.positions import Rotary
from unrolled.models.tensors import check_floats
from unrolled.validate import checked, flag, instance, one_of, real, whole


class MultiHeadAttention(nn.Module):
    """softmax(Q_h K_hᵀ/√K) V_h for H heads side by side, then one linear map over all of them.

    Weights as torch's Linear stores them: q_proj (H·K, D); k_proj and v_proj (G·K, D_source);
    o_proj (D, H·K). Head h owns rows h·K … (h+1)·K − 1 of q_proj, and the same columns of o_proj.
    G = H is multi-head attention, G = 1 multi-query, in between grouped-query.
    Source: Vaswani et al. (2017), section 3.2.2; Shazeer (2019); Ainslie et al. (2023).
    """

    @checked
    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        head_dim: int | None = None,
        d_source: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        scale: float | None = None,
        rotary: Rotary | None = None,
        implementation: str = "auto",
    ):
        """d_model: D. n_heads: H. n_kv_heads: G, H when left out. head_dim: K, D/H when left out.

        d_source: width of what keys and values are made from, D when left out. dropout: of the
        weights, in training. scale: of the scores, 1/√K when left out. rotary: turns queries and
        keys by their positions. implementation: of `attend`. Raises ValueError when H does not
        divide D (and head_dim is left out) or G does not divide H; ValueError or TypeError for a
        size that is no integer from 1 on and a dropout outside [0, 1).
        """
        super().__init__()
        self.n_heads = whole("n_heads", n_heads)
        self.n_kv_heads = whole("n_kv_heads", n_heads if n_kv_heads is None else n_kv_heads)
        whole("d_model", d_model)
        d_source = whole("d_source", d_model if d_source is None else d_source)
        if head_dim is None and d_model % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide d_model={d_model}")
        if n_heads % self.n_kv_heads:
            raise ValueError(f"n_kv_heads={n_kv_heads} does not divide n_heads={n_heads}")
        self.head_dim = whole("head_dim", d_model // n_heads if head_dim is None else head_dim)
        self.dropout, self.scale = real("dropout", dropout, at_least=0, below=1), scale
        if scale is not None:
            real("scale", scale, above=0)
        self.implementation = one_of("implementation", implementation, IMPLEMENTATIONS)
        self.rotary, self.recorded = rotary, None
        inner, groups = n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        self.q_proj = nn.Linear(d_model, inner, bias=bias)
        self.k_proj = nn.Linear(d_source, groups, bias=False)
        self.v_proj = nn.Linear(d_source, groups, bias=False)
        if bias:  # drawn after both matrices, as for one matrix (2·G·K, D_source)
            for linear in (self.k_proj, self.v_proj):
                bound = 1 / math.sqrt(d_source)
                linear.bias = nn.Parameter(torch.empty(groups).uniform_(-bound, bound))
        self.o_proj = nn.Linear(inner, d_model, bias=bias)

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        mask: Tensor | Reach | None = None,
        *,
        causal: bool = False,
        bias: Tensor | None = None,
        positions: Tensor | None = None,
        cache: LayerCache | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """(B, T, D): what the queries of x (B, T, D) read from source (B, S, D_source).

        source: x itself when left out. mask: four axes that broadcast to (B, H, T, S), or made by
        `prepare`; causal, bias: as in `attend`; all of them over the keys of the cache as well.
        positions: (T,) or (B, T), what `rotary` turns by; from the cache's length on when left out.
        cache: keys and values of earlier positions, to which those of x are added; with a source,
        its keys and values, computed at the first call. return_weights: also return the weights
        (B, H, T, S). Raises ValueError for another shape of x, source or mask.
        """
        if positions is not None and self.rotary is None:
            raise ValueError("positions turn queries and keys by `rotary`; this attention has none")
        instance("cache", cache, LayerCache, NoneType), flag("return_weights", return_weights)
        is_cross = source is not None
        if is_cross and self.rotary is not None:
            raise ValueError("rotary turns within one sequence: with a source make it without")
        source = source if is_cross else x
        self._check(x, source, mask)
        x = cast_for_products(x)  # once, not for each of q, k and v
        source = cast_for_products(source) if is_cross else x
        q = self._split(self.q_proj(x), self.n_heads)  # (B, H, T, K)
        if is_cross and cache is not None and cache.length:
            k, v = cache.keys, cache.values
        else:
            k = self._split(self.k_proj(source), self.n_kv_heads)  # (B, G, S, K)
            v = self._split(self.v_proj(source), self.n_kv_heads)
            if self.rotary is not None:
                if positions is None and isinstance(mask, Reach):
                    positions = mask.positions
                if positions is None and cache is not None:
                    positions = torch.arange(x.shape[1], device=x.device) + cache.length
                q, k = self.rotary(q, positions), self.rotary(k, positions)
            if cache is not None:
                k, v = cache.append(k, v)
        result = attend(
            q, k, v, mask, bias=bias, causal=causal, scale=self.scale,
            dropout=self.dropout if self.training else 0.0, implementation=self.implementation,
            return_weights=return_weights or self.recorded is not None,
        )  # fmt: skip
        output, weights = result if isinstance(result, tuple) else (result, None)
        if self.recorded is not None:
            self.recorded.append(weights)
        output = self.o_proj(output.transpose(1, 2).flatten(2))  # (B, T, D)
        return (output, weights) if return_weights else output

    def _check(self, x: Tensor, source: Tensor, mask) -> None:
        check_floats(x=x, source=source)
        instance("mask", mask, Tensor, Reach, NoneType)
        for name, given, linear in (("x", x, self.q_proj), ("source", source, self.k_proj)):
            B, width = len(x), linear.in_features
            if given.ndim != 3 or given.shape[::2] != (B, width):
                shape = tuple(given.shape)
                raise ValueError(f"expected {name} (B, length, {width}), B = {B}, got {shape}")
        if isinstance(mask, Tensor) and mask.ndim != 4:
            raise ValueError(
                f"a mask has four axes, (B, H, T, S) or 1 in their place, got {tuple(mask.shape)}: "
                "write mask[None, None] for one of (T, S), mask[:, None] for one of (B, T, S), "
                "padding_mask(mask) for one of (B, S)"
            )

    def _split(self, x: Tensor, n: int) -> Tensor:
        """(B, T, n·K) → (B, n, T, K)."""
        return x.view(*x.shape[:2], n, self.head_dim).transpose(1, 2)


@checked
def attention_weights(model: nn.Module) -> AbstractContextManager[list[Tensor]]:
    """A list that takes the weights (B, H, T, S) of every attention computed within the context.

    They come in the order of computation: block by block, cross-attention after self-attention.

        with attention_weights(model) as weights:
            logits = model(tokens)
    """
    return recording(model, MultiHeadAttention)
