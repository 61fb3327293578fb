"""One block of a Transformer, which chapter 18 derives."""

from __future__ import annotations

from torch import Tensor, nn

from unrolled.models.heads import MultiHeadAttention
from unrolled.models.kv_cache import LayerCache
from unrolled.models.layers import FeedForward, LayerNorm, RMSNorm
from unrolled.models.masks import Reach
from unrolled.models.positions import Rotary
from unrolled.models.transformer_config import TransformerConfig
from unrolled.validate import checked


class Block(nn.Module):
    """Attention, then cross-attention if there is a source, then the feed-forward layer.

    Each sub-layer f becomes x + f(norm(x)) with the norm first, norm(x + f(x)) otherwise. Where
    they are parallel, all read the same norm(x), `norm_attention`, and x gets their sum.
    Source: Vaswani et al. (2017), section 3.1; Xiong et al. (2020). Parallel: Wang & Komatsuzaki
    (2021), GPT-J; Chowdhery et al. (2022), section 2.
    """

    @checked
    def __init__(
        self,
        config: TransformerConfig,
        *,
        causal: bool,
        cross: bool = False,
        rotary: Rotary | None = None,
    ):
        """causal: attention looks back only. cross: there is a source to attend to. rotary: shared
        with other blocks; the configuration's own when left out.
        """
        super().__init__()
        self.config, self.causal = config, causal
        self.norm_attention = make_norm(config)
        self.attention = make_attention(config, rotary or make_rotary(config))
        self.norm_cross = make_norm(config) if cross and not config.parallel else None
        self.cross = make_attention(config) if cross else None
        self.norm_feed_forward = None if config.parallel else make_norm(config)
        self.feed_forward = FeedForward(
            config.d_model, config.d_ff, activation=config.activation, bias=config.bias
        )
        self.dropout = nn.Dropout(config.residual_dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | Reach | None = None,
        *,
        cache: LayerCache | None = None,
        source: Tensor | None = None,
        source_mask: Tensor | Reach | None = None,
        source_cache: LayerCache | None = None,
    ) -> Tensor:
        """(B, T, D) → (B, T, D).

        mask, cache: of the attention. source (B, S, D), source_mask, source_cache: of the
        cross-attention; masks have four axes, or come from `prepare`. Raises ValueError where the
        source is missing, or the bias of "alibi" or "relative", which a `Stack` puts into the mask.
        """
        if (source is None) != (self.cross is None):
            raise ValueError("a source belongs to a block made with cross=True, and to no other")
        if source is None and not (source_mask is None and source_cache is None):
            raise ValueError("source_mask and source_cache belong to a source, and there is none")
        if self.config.position in ("alibi", "relative") and not isinstance(mask, Reach):
            raise ValueError(f"positions are {self.config.position!r}: the block needs their bias")

        def attend(x: Tensor) -> Tensor:
            return self.dropout(self.attention(x, mask=mask, causal=self.causal, cache=cache))

        def look_up(x: Tensor) -> Tensor:
            return self.dropout(self.cross(x, source, source_mask, cache=source_cache))

        def feed(x: Tensor) -> Tensor:
            return self.dropout(self.feed_forward(x))

        has_source = self.cross is not None
        if self.config.parallel:
            read = self.norm_attention(x)
            both = attend(read) + look_up(read) if has_source else attend(read)
            return x + (both + feed(read))
        if self.config.norm_first:
            x = x + attend(self.norm_attention(x))
            x = x + look_up(self.norm_cross(x)) if has_source else x
            return x + feed(self.norm_feed_forward(x))
        x = self.norm_attention(x + attend(x))
        x = self.norm_cross(x + look_up(x)) if has_source else x
        return self.norm_feed_forward(x + feed(x))


def make_norm(config: TransformerConfig) -> nn.Module:
    """The norm of the configuration."""
    options = {"eps": config.norm_eps, "implementation": config.implementation}
    if config.norm == "rms":
        return RMSNorm(config.d_model, **options)
    return LayerNorm(config.d_model, bias=config.bias, **options)


def make_rotary(config: TransformerConfig) -> Rotary | None:
    """The rotary embedding of the configuration, None where it has another kind of position."""
    if not config.has_rotary:
        return None
    return Rotary(
        config.head_dim, context_length=config.context_length, base=config.rope_theta,
        layout="half" if config.position == "rotary" else "interleaved",
        rotary_dim=config.rotary_dim,
    )  # fmt: skip


def make_attention(config: TransformerConfig, rotary: Rotary | None = None) -> MultiHeadAttention:
    """The attention of the configuration, within a sequence or over a source."""
    return MultiHeadAttention(
        config.d_model, config.n_heads, n_kv_heads=config.n_kv_heads, head_dim=config.head_dim,
        bias=config.bias, dropout=config.attention_dropout, rotary=rotary,
        scale=None if config.scale_scores else 1.0, implementation=config.implementation,
    )  # fmt: skip
