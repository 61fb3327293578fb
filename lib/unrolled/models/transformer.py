"""The Transformer: blocks in a stack, and the models made of a stack, which chapter 20 derives."""

from __future__ import annotations

import math
from types import NoneType

import torch
from torch import Tensor, nn

from unrolled.models.block import Block, make_norm, make_rotary
from unrolled.models.kv_cache import KVCache
from unrolled.models.masks import Reach, combine, padding_mask, prepare
from unrolled.models.positions import RelativeBias, alibi_slopes, sinusoidal
from unrolled.models.tensors import check_floats, check_ids
from unrolled.models.transformer_config import TransformerConfig
from unrolled.validate import checked, instance, whole


class Stack(nn.Module):
    """All that lies between embedding and head: positions, blocks, and a last norm if there is one.

    A token's position is the number of tokens before it: padding takes none, on whichever side it
    stands.
    """

    @checked
    def __init__(self, config: TransformerConfig, *, causal: bool, cross: bool = False):
        super().__init__()
        self.config, self.causal = config, causal
        self.embedding_norm = make_norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(config.embedding_dropout)
        rotary = make_rotary(config)
        self.blocks = nn.ModuleList(
            Block(config, causal=causal, cross=cross, rotary=rotary) for _ in range(config.n_layers)
        )
        self.final_norm = make_norm(config) if config.final_norm else nn.Identity()
        if config.position == "learned":
            self.position = nn.Embedding(config.context_length, config.d_model)
        elif config.position == "relative":
            self.position = RelativeBias(
                config.n_heads, n_buckets=config.n_buckets, max_distance=config.max_distance,
                bidirectional=not causal,
            )  # fmt: skip
        elif config.position == "alibi":
            slopes = alibi_slopes(config.n_heads)[:, None, None]  # (H, 1, 1)
            self.register_buffer("slopes", slopes, persistent=False)

    def _apply(self, fn, recurse=True):
        """To another device or dtype; slopes are made anew, since no state dict holds them."""
        super()._apply(fn, recurse)
        if self.config.position == "alibi":
            with torch.device("cpu"):
                slopes = alibi_slopes(self.config.n_heads)[:, None, None]
            self.slopes = slopes.to(self.slopes)
        return self

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D) from embeddings (B, T, D).

        mask, positions, cache: as in `TransformerLM`. source, source_mask: (B, S, D), (B, S) or
        four axes, of the cross-attention. Raises ValueError for more positions than the context
        has and for another shape of a mask.
        """
        check_floats(x=x)
        if instance("cache", cache, KVCache, NoneType) is not None:
            cache.check(len(x), len(self.blocks))
        reach, queries = self._reach(x, mask, positions, cache)
        if self.config.position == "learned":
            x = x + self.position(queries)
        elif self.config.position == "sinusoidal":
            x = x + sinusoidal(queries, x.shape[-1]).to(x.dtype)
        x = self.dropout(self.embedding_norm(x))
        if source is not None:
            real, source_mask = _split(source_mask, source)
            source_mask = source_mask if real is None else padding_mask(real)
            source_mask = prepare(source_mask, None, x.shape[1], source.shape[1], device=x.device)
        for i, block in enumerate(self.blocks):
            x = block(
                x, reach, cache=cache.layers[i] if cache else None,
                source=source, source_mask=source_mask,
                source_cache=cache.cross[i] if cache and cache.cross else None,
            )  # fmt: skip
        return self.final_norm(x)

    def _reach(self, x, mask, positions, cache) -> tuple[Reach, Tensor]:
        """Which keys each query reaches, once for all blocks; the positions of the queries."""
        start, T = 0 if cache is None else cache.length, x.shape[1]
        S = start + T
        if (limit := self.config.context_length) < S:
            raise ValueError(f"{S} tokens do not fit into the context of {limit}")
        tokens, mask = _split(mask, x)  # (B, T), and four axes
        if cache is not None:
            cache.crop(start)  # a read that was interrupted has left some layers longer
            if tokens is not None:
                padding_mask(tokens)  # what it refuses, the cache must not keep
            tokens = cache.extend_mask(tokens, x)  # (B, S)
        mask = mask if tokens is None else combine(mask, padding_mask(tokens))
        queries, keys = self._positions(x, tokens, positions, cache)
        mask, bias = self._with_distances(mask, queries, keys)
        given = {"positions": queries} if self.config.has_rotary else {}
        return prepare(mask, bias, T, S, causal=self.causal, device=x.device, **given), queries

    def _positions(self, x, tokens, positions, cache) -> tuple[Tensor, Tensor]:
        """The positions of the queries, (T,) or (B, T), and of all keys, (S,) or (B, S)."""
        if positions is not None:
            if cache is not None:
                raise ValueError("with a cache positions are counted: leave them out")
            instance("positions", positions, Tensor)
            if positions.shape not in (x.shape[1:2], x.shape[:2]) or positions.dtype != torch.int64:
                expected = f"int64 ({x.shape[1]},) or {tuple(x.shape[:2])}"
                got = f"{positions.dtype} {tuple(positions.shape)}"
                raise ValueError(f"positions must be {expected}, got {got}")
            check_ids("positions", positions, self.config.context_length)
            if self.config.position == "none" and self.config.window is None:
                raise ValueError("positions given, but the configuration has position='none'")
            return positions, positions
        start = 0 if cache is None else cache.length
        keys = torch.arange(start + x.shape[1], device=x.device)
        if tokens is not None:
            keys = (tokens.cumsum(1) - 1).clamp(min=0)  # padding takes no position
        return keys[..., start:], keys

    def _with_distances(self, mask, queries: Tensor, keys: Tensor) -> tuple[Tensor | None, ...]:
        """The mask with the window in it, and the bias of the distances, if there are any."""
        position, window = self.config.position, self.config.window if self.causal else None
        if window is None and position not in ("alibi", "relative"):
            return mask, None
        behind = queries[..., :, None] - keys[..., None, :]
        behind = behind if behind.ndim == 2 else behind[:, None]  # (T, S) or (B, 1, T, S)
        if window is not None:
            mask = combine(mask, behind < window)
        if position == "alibi":
            return mask, -self.slopes * behind.abs()
        return mask, self.position(behind) if position == "relative" else None


class Embedded(nn.Module):
    """A model that begins with an `embedding` (V, D). TypeError for a missing vocab_size."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(whole("vocab_size", config.vocab_size), config.d_model)

    def embed(self, tokens: Tensor) -> Tensor:
        """(B, T, D) from tokens (B, T), int64, without positions, which the stack adds.

        Raises ValueError for another shape, IndexError for an unknown id.
        """
        of_ids = isinstance(self.embedding, nn.Embedding)  # else something was put in its place
        check_ids("tokens", tokens, self.embedding.num_embeddings if of_ids else None, 2)
        x = self.embedding(tokens)
        return x * math.sqrt(self.config.d_model) if self.config.scale_embedding else x


class TransformerLM(Embedded):
    """P(x_{t+1} | x_1 … x_t) = softmax(head(stack(embedding(x_1 … x_t)))): a GPT.

    `embedding` (V, D), `stack` of causal blocks, `head` (V, D), the embedding's own matrix if tied.
    """

    @checked
    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        self.stack = Stack(config, causal=True)
        self.head = make_head(config, self.embedding)
        initialise(self, config)

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Logits (B, T, V) of the token after each of tokens (B, T), int64, T ≤ context_length.

        mask: (B, T), True where a token stands. Padding takes no position and is not attended to,
            so it may stand on either side; a cache keeps the mask of what was read. Or four axes,
            broadcastable to (B, H, T, S), True = may attend.
        positions: (T,) or (B, T), int64, where they are not the number of tokens before: each
            document of a packed row begins at 0.
        cache: made by `new_cache`; the tokens go on from what it holds, and it holds them
            afterwards. Reading a text in pieces gives the logits of reading it at once.

        Raises ValueError for another shape or too many tokens, IndexError for an unknown id (on a
        GPU torch reports it later, in words of its own).
        """
        return self.logits(self.hidden(tokens, mask, positions=positions, cache=cache))

    def new_cache(self) -> KVCache:
        """An empty cache, with which a text is read in pieces."""
        return KVCache(self.config.n_layers)

    def hidden(self, tokens: Tensor, mask: Tensor | None = None, **options) -> Tensor:
        """What the head reads, (B, T, D): model(tokens) is model.logits(model.hidden(tokens))."""
        return self.stack(self.embed(tokens), mask, **options)

    def logits(self, x: Tensor) -> Tensor:
        """(B, T, V) from what the stack gives, (B, T, D)."""
        return self.head(x / math.sqrt(x.shape[-1]) if self.config.scale_logits else x)


class Encoder(Embedded):
    """A vector for each token, which depends on all tokens of its sequence: a BERT's body.

    Source: Devlin et al. (2019), without the head ("pooler") of their second task.
    """

    @checked
    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        if config.n_token_types:
            self.token_types = nn.Embedding(config.n_token_types, config.d_model)
        self.stack = Stack(config, causal=False)
        initialise(self, config)

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, token_types: Tensor | None = None
    ) -> Tensor:
        """(B, T, D) from tokens (B, T), int64; mask as in `TransformerLM`.

        token_types: (B, T), int64, below n_token_types; 0 when left out. Raises ValueError for
        types where the configuration has none, and as a `TransformerLM` does.
        """
        x = self.embed(tokens)
        if n_types := self.config.n_token_types:
            types = torch.zeros_like(tokens) if token_types is None else token_types
            check_ids("token_types", types, n_types, 2)
            if types.shape != tokens.shape:
                shapes = f"{tuple(tokens.shape)}, got {tuple(types.shape)}"
                raise ValueError(f"token_types must have the tokens' shape {shapes}")
            x = x + self.token_types(types)
        elif token_types is not None:
            raise ValueError("token_types given, but the configuration has n_token_types=0")
        return self.stack(x, mask)


def make_head(config: TransformerConfig, embedding: nn.Embedding) -> nn.Linear:
    """The map from D to V, with the embedding's matrix if tied."""
    head = nn.Linear(config.d_model, config.vocab_size, bias=False)
    if config.tie_embeddings:
        head.weight = embedding.weight
    return head


@torch.no_grad()
def initialise(model: nn.Module, config: TransformerConfig) -> None:
    """Matrices from N(0, init_std²), biases 0.

    The last matrix of each sub-layer is smaller by 1/√(2·n_layers), which keeps the sum of all
    sub-layers at one size: Radford et al. (2019), section 2.3. On "meta" nothing is drawn.
    """
    last = config.init_std / math.sqrt(2 * config.n_layers)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif parameter.ndim > 1 and not parameter.is_meta:
            is_last = name.endswith(("o_proj.weight", "down.weight"))
            parameter.normal_(std=last if is_last else config.init_std)


def _split(mask: Tensor | None, x: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """(the mask of the tokens of x (B, T, D), the mask with four axes): which of them it is."""
    if instance("mask", mask, Tensor, NoneType) is None or mask.ndim == 4:
        return None, mask
    if mask.shape != (shape := x.shape[:2]):
        expected = f"a mask of the tokens' shape {tuple(shape)} or with four axes"
        raise ValueError(f"expected {expected}, got {tuple(mask.shape)}")
    return mask, None
