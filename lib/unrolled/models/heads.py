"""Multi-head attention, over oneself or over a source, which chapter 16 derives."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from unrolled.models.attention import attend
from unrolled.models.kv_cache import LayerCache

Rotate = Callable[[Tensor, int], Tensor]


class MultiHeadAttention(nn.Module):
    """softmax(Q_h K_hᵀ/√K) V_h for H heads side by side, then one linear map over all of them.

    Weights as torch's Linear stores them: q_proj (H·K, D); kv_proj (2·G·K, D_source), keys in its
    first half; o_proj (D, H·K). Head h owns rows h·K … (h+1)·K − 1 of q_proj, and the same columns
    of o_proj. G = H is multi-head attention, G = 1 multi-query, in between grouped-query.
    Source: Vaswani et al. (2017), section 3.2.2; Shazeer (2019); Ainslie et al. (2023).
    """

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
    ):
        """d_model: D. n_heads: H. n_kv_heads: G, H when left out. head_dim: K, D/H when left out.

        d_source: width of what keys and values are made from, D when left out. dropout: of the
        weights, in training. scale: of the scores, 1/√K when left out. Raises ValueError when H
        does not divide D (and head_dim is left out), G does not divide H, a size is below 1, or
        dropout is out of [0, 1).
        """
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        d_source = d_model if d_source is None else d_source
        sizes = {"d_model": d_model, "n_heads": n_heads, "n_kv_heads": n_kv_heads,
                 "head_dim": 1 if head_dim is None else head_dim, "d_source": d_source}  # fmt: skip
        if min(sizes.values()) < 1:
            raise ValueError(f"sizes must be at least 1, got {sizes}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {dropout}")
        if head_dim is None and d_model % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide d_model={d_model}")
        if n_heads % n_kv_heads:
            raise ValueError(f"n_kv_heads={n_kv_heads} does not divide n_heads={n_heads}")
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.head_dim = d_model // n_heads if head_dim is None else head_dim
        self.dropout, self.scale = dropout, scale
        inner, groups = n_heads * self.head_dim, n_kv_heads * self.head_dim
        self.q_proj = nn.Linear(d_model, inner, bias=bias)
        self.kv_proj = nn.Linear(d_source, 2 * groups, bias=bias)
        self.o_proj = nn.Linear(inner, d_model, bias=bias)

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        bias: Tensor | None = None,
        rotary: Rotate | None = None,
        cache: LayerCache | None = None,
        with_weights: bool = False,
        implementation: str = "auto",
    ) -> Tensor | tuple[Tensor, Tensor]:
        """(B, T, D) from x (B, T, D), which asks, and source (B, S, D_source), which answers.

        source: x itself when left out. mask, bias, causal, implementation: as in `attend`, over all
        keys, those of the cache included. rotary: turns queries and keys by their positions, which
        go on from the cache's length. with_weights: also return the weights (B, H, T, S).
        Raises ValueError for another shape of x or source.
        """
        self._check(x, source)
        start = 0 if cache is None else cache.length
        q = self._split(self.q_proj(x), self.n_heads)  # (B, H, T, K)
        k, v = self.kv_proj(x if source is None else source).chunk(2, -1)
        k, v = self._split(k, self.n_kv_heads), self._split(v, self.n_kv_heads)  # (B, G, S, K)
        if rotary is not None:
            q, k = rotary(q, start), rotary(k, start)
        if cache is not None:
            k, v = cache.append(k, v)
        result = attend(
            q, k, v, mask, bias=bias, causal=causal, scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
            implementation=implementation, with_weights=with_weights,
        )  # fmt: skip
        output, weights = result if with_weights else (result, None)
        output = self.o_proj(output.transpose(1, 2).flatten(2))  # (B, T, D)
        return (output, weights) if with_weights else output

    def _check(self, x: Tensor, source: Tensor | None) -> None:
        D, D_source = self.q_proj.in_features, self.kv_proj.in_features
        if x.ndim != 3 or x.shape[2] != D:
            raise ValueError(f"expected x (B, T, {D}), got {tuple(x.shape)}")
        source = x if source is None else source
        if source.ndim != 3 or source.shape[2] != D_source or len(source) != len(x):
            raise ValueError(
                f"expected source ({len(x)}, S, {D_source}), got {tuple(source.shape)}"
            )

    def _split(self, x: Tensor, n: int) -> Tensor:
        """(B, T, n·K) → (B, n, T, K)."""
        return x.view(*x.shape[:2], n, self.head_dim).transpose(1, 2)

    @torch.no_grad()
    def load(
        self,
        *,
        o: Tensor,
        q: Tensor | None = None,
        k: Tensor | None = None,
        v: Tensor | None = None,
        qkv: Tensor | None = None,
        biases: dict[str, Tensor] | None = None,
    ) -> None:
        """Take over weights stored as torch's Linear does, (outputs, inputs).

        q (H·K, D), k and v (G·K, D_source), o (D, H·K); or qkv, the first three one below the
        other, as torch's MultiheadAttention has them. biases: by the same names, each (outputs,);
        those that are left out become 0. Raises ValueError for shapes that do not fit, and for
        biases where there are none to load; then nothing has changed.
        """
        separate = [x is not None for x in (q, k, v)]
        if any(separate) != all(separate) or all(separate) == (qkv is not None):
            raise ValueError("expected either q, k and v, or qkv")
        weights, biases = {"q": q, "k": k, "v": v, "o": o}, dict(biases or {})
        if qkv is not None:
            weights |= self._cut(qkv)
        if "qkv" in biases:
            biases |= self._cut(biases.pop("qkv"))
        if unknown := set(biases) - set("qkvo"):
            raise ValueError(f"biases are named q, k, v, o (or qkv), got {sorted(unknown)}")
        if biases and self.q_proj.bias is None:
            raise ValueError("this attention has no biases to load")
        pairs = [(name, weights[name], part) for name, part in self._parts("weight").items()]
        if self.q_proj.bias is not None:
            for name, part in self._parts("bias").items():
                pairs.append((f"bias {name}", biases.get(name, torch.zeros_like(part)), part))
        for name, tensor, part in pairs:
            if tensor.shape != part.shape:
                raise ValueError(f"expected {name} {tuple(part.shape)}, got {tuple(tensor.shape)}")
        for _, tensor, part in pairs:
            part.copy_(tensor)

    def _parts(self, kind: str) -> dict[str, Tensor]:
        """Views of the weights, or of the biases, of queries, keys, values and outputs."""
        k, v = getattr(self.kv_proj, kind).chunk(2)
        return {"q": getattr(self.q_proj, kind), "k": k, "v": v, "o": getattr(self.o_proj, kind)}

    def _cut(self, qkv: Tensor) -> dict[str, Tensor]:
        """q, k and v that stand one below the other."""
        sizes = [self.q_proj.out_features, *[self.kv_proj.out_features // 2] * 2]
        if qkv.shape[0] != sum(sizes):
            raise ValueError(f"expected qkv ({sum(sizes)}, …), got {tuple(qkv.shape)}")
        return dict(zip("qkv", qkv.split(sizes), strict=True))
