"""One block of a Transformer, which chapter 18 derives."""

from __future__ import annotations

from torch import Tensor, nn

from unrolled.models.heads import MultiHeadAttention, Rotate
from unrolled.models.kv_cache import LayerCache
from unrolled.models.layers import FeedForward, LayerNorm, RMSNorm
from unrolled.models.transformer_config import TransformerConfig


class Block(nn.Module):
    """Attention, then (in a decoder with a source) cross-attention, then the feed-forward layer.

    Each of them is a sub-layer f with a residual connection and a norm: x + f(norm(x)) with the
    norm before, norm(x + f(x)) with the norm after. Parallel: x + attention(n) + feed_forward(n),
    n = norm(x).
    Source: Vaswani et al. (2017), section 3.1; Xiong et al. (2020); Wang & Komatsuzaki (2021).
    """

    def __init__(self, config: TransformerConfig, *, causal: bool, cross: bool = False):
        """causal: attention looks back only. cross: there is a source to attend to."""
        super().__init__()
        self.causal, self.config = causal, config
        self.norm_attention = make_norm(config)
        self.attention = make_attention(config)
        if cross:
            self.norm_cross = make_norm(config)
            self.cross = make_attention(config)
        if not config.parallel:
            self.norm_feed_forward = make_norm(config)
        self.feed_forward = FeedForward(
            config.d_model, config.inner, activation=config.activation, bias=config.bias
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        bias: Tensor | None = None,
        rotary: Rotate | None = None,
        cache: LayerCache | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """(B, T, D) → (B, T, D).

        mask, source_mask: boolean, True = may attend, broadcastable to (B, H, T, S). source:
        (B, S, D), in a block made with cross. bias: added to the scores. rotary, cache: of the
        attention; see there. maps: a list to which the weights (B, H, T, S) of attention are
        appended, then those of cross-attention.
        """

        def attention(x: Tensor) -> Tensor:
            return _mapped(
                maps, self.attention, x, None, mask,
                causal=self.causal, bias=bias, rotary=rotary, cache=cache,
            )  # fmt: skip

        def cross(x: Tensor) -> Tensor:
            return _mapped(maps, self.cross, x, source, source_mask)

        if self.config.parallel:
            n = self.norm_attention(x)
            x = x + self.dropout(attention(n))
            if hasattr(self, "cross"):
                x = self._residual(x, cross, self.norm_cross)
            return x + self.dropout(self.feed_forward(n))
        x = self._residual(x, attention, self.norm_attention)
        if hasattr(self, "cross"):
            x = self._residual(x, cross, self.norm_cross)
        return self._residual(x, self.feed_forward, self.norm_feed_forward)

    def _residual(self, x: Tensor, f, norm: nn.Module) -> Tensor:
        if self.config.norm_place == "post":
            return norm(x + self.dropout(f(x)))
        return x + self.dropout(f(norm(x)))


def make_norm(config: TransformerConfig) -> nn.Module:
    """The norm of the configuration."""
    if config.norm == "rms":
        return RMSNorm(config.d_model, eps=config.norm_eps)
    return LayerNorm(config.d_model, eps=config.norm_eps, bias=config.bias)


def make_attention(config: TransformerConfig) -> MultiHeadAttention:
    """The attention of the configuration, over oneself or over a source."""
    return MultiHeadAttention(
        config.d_model, config.n_heads, n_kv_heads=config.n_kv_heads, head_dim=config.head_dim,
        bias=config.bias, dropout=config.dropout, scale=None if config.scale_scores else 1.0,
    )  # fmt: skip


def _mapped(maps: list[Tensor] | None, attention: nn.Module, *arguments, **options) -> Tensor:
    """What attention gives; its weights are appended to maps if there is such a list."""
    if maps is None:
        return attention(*arguments, **options)
    output, weights = attention(*arguments, with_weights=True, **options)
    maps.append(weights)
    return output
