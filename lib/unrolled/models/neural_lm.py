"""The feed-forward language model (chapter 8): the last few words in, the next one out."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.models.tensors import check_ids
from unrolled.validate import checked, instance, one_of, real, whole


@dataclass(frozen=True, kw_only=True)
class NeuralLMConfig:
    """What a `NeuralLM` is made of, with the letters of the paper.

    Raises ValueError or TypeError for a size that is no integer from 1 on, and for an option that
    cannot be.
    """

    vocab_size: int  # V
    context_length: int  # n − 1: tokens read for each prediction
    embedding_dim: int  # m
    hidden_size: int  # h
    direct_connections: bool = False  # W, from embeddings to logits: the paper finds no gain
    tie_embeddings: bool = False  # the head is C: Press & Wolf (2017), not in the paper
    init_std: float | None = None  # of C; None: 1, which tanh needs to bend, but 0.1 where tied

    def __post_init__(self) -> None:
        for name in ("vocab_size", "context_length", "embedding_dim", "hidden_size"):
            whole(name, getattr(self, name))
        for name in ("direct_connections", "tie_embeddings"):
            one_of(name, getattr(self, name), (True, False))
        if self.init_std is None:  # a tied head with 1 would begin with logits far from uniform
            object.__setattr__(self, "init_std", 0.1 if self.tie_embeddings else 1.0)
        real("init_std", self.init_std, at_least=0)

    @property
    def order(self) -> int:
        """n: the order of the n-gram model that reads as many tokens."""
        return self.context_length + 1


@dataclass(eq=False)
class NeuralLMCache:
    """What a `NeuralLM` remembers of a text. A forward pass updates it in place."""

    tokens: Tensor | None = None  # (B, ≤ context_length − 1), the last ones; None: nothing read yet
    length: int = 0  # tokens read

    def fork(self) -> NeuralLMCache:
        """An independent continuation; it shares the tensor, which nothing ever overwrites."""
        return NeuralLMCache(self.tokens, self.length)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows of the batch, int64 (B',), in this order; one may come twice."""
        if self.tokens is not None:
            self.tokens = self.tokens.index_select(0, rows)

    def detach(self) -> None:
        """Nothing to cut: tokens have no gradient."""


class NeuralLM(nn.Module):
    """P(w_{t+1} | w_1 … w_t) = softmax(y), y = b + W x + U tanh(d + H x), with n − 1 words in x.

    x = (C(w_t), C(w_{t−1}), …, C(w_{t−n+2})), the latest token first. The paper's letters are also
    the sizes here: C is `embedding` (V, m); H and d are `hidden_layer`, (h, (n − 1)m) and (h,);
    U and b are `head`, (V, h) and (V,). W is `direct`, (V, (n − 1)m), without a bias of its own:
    the direct connections, or None. With `tie_embeddings` C is the head's matrix, after a linear
    map from h to m (`project`) where the two differ.

    Before the beginning of a text there are no tokens, and zeros stand for their embeddings, in
    training as in use (the paper does not say what does). So the first n − 2 predictions see fewer
    tokens than the rest: after the first token, that token and n − 2 vectors of zeros.

    Source: Bengio et al. (2003), equation 1.
    """

    context_length = None  # of a text that it reads: any; the configuration's is of one prediction

    @checked
    def __init__(self, config: NeuralLMConfig):
        """Embeddings begin with N(0, init_std²), the rest as torch has it."""
        super().__init__()
        self.config = config
        vocab_size, width = config.vocab_size, config.embedding_dim
        n_inputs = config.context_length * width
        self.embedding = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.embedding.weight, std=config.init_std)
        self.hidden_layer = nn.Linear(n_inputs, config.hidden_size)
        needs_map = config.tie_embeddings and config.hidden_size != width
        self.project = nn.Linear(config.hidden_size, width) if needs_map else nn.Identity()
        self.head = nn.Linear(width if needs_map else config.hidden_size, vocab_size)
        if config.tie_embeddings:
            self.head.weight = self.embedding.weight
        has_direct = config.direct_connections
        self.direct = nn.Linear(n_inputs, vocab_size, bias=False) if has_direct else None

    def forward(self, tokens: Tensor, *, cache: NeuralLMCache | None = None) -> Tensor:
        """Logits (B, T, V) of the token after each of tokens (B, T), int64, T of any length.

        cache: from `new_cache`; the tokens continue those it has read. Reading a text in pieces
        gives the logits of reading it at once.
        Raises ValueError for another shape of tokens, and on a CPU IndexError for an unknown id.
        """
        x = self.context(tokens, cache=cache)  # (B, T, (n − 1)m)
        hidden = torch.tanh(self.hidden_layer(x))  # (B, T, h)
        logits = self.head(self.project(hidden))  # (B, T, V)
        return logits if self.direct is None else logits + self.direct(x)

    def context(self, tokens: Tensor, *, cache: NeuralLMCache | None = None) -> Tensor:
        """x of every position, (B, T, (n − 1)m), from tokens (B, T). Raises as `forward` does."""
        check_ids("tokens", tokens, self.config.vocab_size, 2)
        instance("cache", cache, NeuralLMCache, NoneType)
        T, n_words = tokens.shape[1], self.config.context_length
        if cache is not None:
            tokens = self._continued(tokens, cache)  # (B, S), S ≥ T
        x = self.embedding(tokens)  # (B, S, m)
        x = F.pad(x, (0, 0, n_words - 1, 0))  # (B, n − 2 + S, m)
        end = x.shape[1]
        return torch.cat([x[:, end - T - k : end - k] for k in range(n_words)], -1)

    def _continued(self, tokens: Tensor, cache: NeuralLMCache) -> Tensor:
        """The tokens after those that the cache has kept; the cache then keeps the last of all."""
        before, length = cache.tokens, cache.length + tokens.shape[1]
        if before is not None:
            if len(before) != len(tokens):
                raise ValueError(f"the cache has read {len(before)} rows, got {len(tokens)}")
            tokens = torch.cat([before, tokens], 1)
        forgotten = max(0, tokens.shape[1] - (self.config.context_length - 1))
        cache.tokens, cache.length = tokens[:, forgotten:], length
        return tokens

    def new_cache(self) -> NeuralLMCache:
        """A cache that has read nothing yet, for `forward`."""
        return NeuralLMCache()
