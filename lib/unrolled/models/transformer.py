"""The Transformer: one block, a stack of them, and the models made of a stack."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from unrolled.models.heads import KeyValueCache, MultiHeadAttention, Rotate
from unrolled.models.layers import FeedForward, LayerNorm, RMSNorm
from unrolled.models.masks import combine, padding_mask, window_mask
from unrolled.models.positions import RelativeBias, Rotary, alibi_bias, sinusoidal
from unrolled.models.transformer_config import TransformerConfig

State = list[KeyValueCache]


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
        cache: KeyValueCache | None = None,
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


class Stack(nn.Module):
    """Blocks one after the other, with what tells them of positions, and a last norm after pre-LN.

    Positions that are added to the embeddings (learned, sinusoidal) are added here as well, so that
    a stack is all that lies between embedding and head.
    """

    def __init__(self, config: TransformerConfig, *, causal: bool, cross: bool = False):
        super().__init__()
        self.config, self.causal = config, causal
        self.embedding_norm = make_norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            Block(config, causal=causal, cross=cross) for _ in range(config.n_layers)
        )
        self.final_norm = make_norm(config) if config.norm_place == "pre" else nn.Identity()
        if config.position == "learned":
            self.position = nn.Embedding(config.context_length, config.d_model)
        elif config.position == "relative":
            self.position = RelativeBias(
                config.n_heads, n_buckets=config.n_buckets, max_distance=config.max_distance,
                bidirectional=not causal,
            )  # fmt: skip
        elif config.position.startswith("rotary"):
            layout = "half" if config.position == "rotary" else "interleaved"
            self.position = Rotary(
                config.width, base=config.rotary_base, layout=layout, width=config.turned
            )

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        state: State | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """(B, T, D) from embeddings (B, T, D); the other arguments as in `Block`.

        state: one cache for each block, whose positions come before those of x.
        """
        start, T = (state[0].length if state else 0), x.shape[1]
        S = start + T
        if start + T > self.config.context_length:
            raise ValueError(
                f"{S} tokens do not fit into the context of {self.config.context_length}"
            )
        x = self.dropout(self.embedding_norm(self._with_positions(x, start)))
        if self.config.window is not None and self.causal:
            near = window_mask(T, S, window=self.config.window, device=x.device)
            mask = combine(mask, near)
        bias, rotary = self._bias(T, S, x), None
        if self.config.position.startswith("rotary"):
            rotary = self.position
        for block, cache in zip(self.blocks, state or [None] * len(self.blocks), strict=True):
            x = block(x, mask, source=source, source_mask=source_mask, bias=bias, rotary=rotary,
                      cache=cache, maps=maps)  # fmt: skip
        return self.final_norm(x)

    def _with_positions(self, x: Tensor, start: int) -> Tensor:
        n = x.shape[1]
        if self.config.position == "learned":
            return x + self.position.weight[start : start + n]
        if self.config.position == "sinusoidal":
            return x + sinusoidal(n, x.shape[-1], start=start, device=x.device).to(x.dtype)
        return x

    def _bias(self, T: int, S: int, x: Tensor) -> Tensor | None:
        if self.config.position == "alibi":
            return alibi_bias(self.config.n_heads, T, S, device=x.device).to(x.dtype)
        return self.position(T, S) if self.config.position == "relative" else None

    def new_state(self) -> State:
        """Empty caches, one for each block, with room for the whole context."""
        return [KeyValueCache(self.config.context_length) for _ in self.blocks]


class TransformerLM(nn.Module):
    """P(x_{t+1} | x_1 … x_t) = softmax(head(stack(embedding(x_1 … x_t)))): a GPT.

    `embedding` (V, D), `stack` of causal blocks, `head` (V, D), the embedding's own matrix if tied.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.stack = Stack(config, causal=True)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tied:
            self.head.weight = self.embedding.weight
        initialise(self, config)

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, *, maps: list[Tensor] | None = None
    ) -> Tensor:
        """Logits (B, T, V) of the token after each of tokens (B, T), int64, T ≤ context_length.

        mask: (B, T), True where a token stands, all on the left. Attention looks back only, so
        padding on the right changes nothing before it with or without a mask. maps: a list to which
        every block's weights of attention (B, H, T, S) are appended.
        Raises ValueError for another shape or too many tokens, IndexError for an unknown id.
        """
        return self.logits(self.stack(self.embed(tokens), padding_of(tokens, mask), maps=maps))

    def read(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """(logits (B, T, V), the state after the last token), going on from `state`.

        Reading a text in pieces gives the logits of reading it at once; what was read before stands
        in a cache of keys and values, through which no gradient flows. `state` itself stays as it
        is. Raises ValueError when text and state together exceed the context.
        """
        state = self.stack.new_state() if state is None else [cache.fork() for cache in state]
        return self.logits(self.stack(self.embed(tokens), state=state)), state

    def embed(self, tokens: Tensor) -> Tensor:
        """(B, T, D), without positions, which are the stack's affair."""
        return embed(self.embedding, tokens, self.config)

    def logits(self, x: Tensor) -> Tensor:
        """(B, T, V) from what the stack gives, (B, T, D)."""
        return self.head(x / math.sqrt(x.shape[-1]) if self.config.scale_logits else x)


class Encoder(nn.Module):
    """A vector for each token, which depends on all tokens of its sequence: a BERT's body."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.stack = Stack(config, causal=False)
        initialise(self, config)

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, *, maps: list[Tensor] | None = None
    ) -> Tensor:
        """(B, T, D) from tokens (B, T), int64; mask (B, T), True where a token stands."""
        x = embed(self.embedding, tokens, self.config)
        return self.stack(x, padding_of(tokens, mask), maps=maps)


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


def embed(embedding: nn.Embedding, tokens: Tensor, config: TransformerConfig) -> Tensor:
    """(B, T, D) from tokens (B, T), int64. Raises ValueError for another shape."""
    if tokens.ndim != 2:
        raise ValueError(f"tokens must be (B, T), got shape {tuple(tokens.shape)}")
    x = embedding(tokens)
    return x * math.sqrt(config.d_model) if config.scale_embedding else x


@torch.no_grad()
def initialise(model: nn.Module, config: TransformerConfig) -> None:
    """Matrices from N(0, init_std²), the last one of each sub-layer smaller; biases 0.

    The smaller ones, by 1/√(2·n_layers), keep the sum of all sub-layers at one size: Radford et al.
    (2019), section 2.3.
    """
    for name, parameter in model.named_parameters():
        if parameter.ndim < 2:
            if name.endswith("bias"):
                parameter.zero_()
            continue
        last = name.endswith(("o_proj.weight", "down.weight"))
        std = config.init_std / math.sqrt(2 * config.n_layers) if last else config.init_std
        parameter.normal_(std=std)


def padding_of(tokens: Tensor, mask: Tensor | None) -> Tensor | None:
    """The mask of attention from mask (B, T), which must have the tokens' shape, or None."""
    if mask is not None and mask.shape != tokens.shape:
        raise ValueError(
            f"expected a mask of the tokens' shape {tuple(tokens.shape)}, got {tuple(mask.shape)}"
        )
    return None if mask is None else padding_mask(mask)


def _mapped(maps: list[Tensor] | None, attention: nn.Module, *arguments, **options) -> Tensor:
    """What attention gives; its weights are appended to maps if there is such a list."""
    if maps is None:
        return attention(*arguments, **options)
    output, weights = attention(*arguments, with_weights=True, **options)
    maps.append(weights)
    return output
