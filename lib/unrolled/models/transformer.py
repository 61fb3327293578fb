"""The Transformer: blocks in a stack, and the models made of a stack, which chapter 20 derives."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from unrolled.models.block import Block, make_norm
from unrolled.models.kv_cache import KVCache
from unrolled.models.masks import combine, padding_mask, window_mask
from unrolled.models.positions import RelativeBias, Rotary, alibi_bias, sinusoidal
from unrolled.models.transformer_config import TransformerConfig


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
        cache: KVCache | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """(B, T, D) from embeddings (B, T, D); the other arguments as in `Block`.

        cache: of the positions before those of x; it takes them in.
        """
        start, T = (cache.length if cache else 0), x.shape[1]
        S = start + T
        if self.config.context_length < S:
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
        if cache is not None:
            cache.crop(start)  # a read that was interrupted has left some layers longer
        layers = [None] * len(self.blocks) if cache is None else cache.layers
        for block, layer in zip(self.blocks, layers, strict=True):
            x = block(x, mask, source=source, source_mask=source_mask, bias=bias, rotary=rotary,
                      cache=layer, maps=maps)  # fmt: skip
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
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        *,
        cache: KVCache | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """Logits (B, T, V) of the token after each of tokens (B, T), int64, T ≤ context_length.

        mask: (B, T), True where a token stands, all on the left. Attention looks back only, so
        padding on the right changes nothing before it with or without a mask. cache: made by
        `new_cache`; the tokens go on from what it holds, and it holds them afterwards. Reading a
        text in pieces gives the logits of reading it at once. maps: a list to which every block's
        weights of attention (B, H, T, S) are appended.
        Raises ValueError for another shape or too many tokens, IndexError for an unknown id.
        """
        return self.logits(self.hidden(tokens, mask, cache=cache, maps=maps))

    def new_cache(self) -> KVCache:
        """An empty cache, with which a text is read in pieces."""
        return KVCache(self.config.n_layers)

    def hidden(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        *,
        cache: KVCache | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """What the head reads, (B, T, D): model(tokens) is model.logits(model.hidden(tokens))."""
        return self.stack(self.embed(tokens), padding_of(tokens, mask), cache=cache, maps=maps)

    def read(self, tokens: Tensor, state: KVCache | None = None) -> tuple[Tensor, KVCache]:
        """(logits (B, T, V), the state after the last token), going on from a fork of `state`."""
        state = self.new_cache() if state is None else state.fork()
        return self(tokens, cache=state), state

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
