"""Language models with a state of one size: embed a token, update the state, predict the next.

Chapter 12 builds the recurrent one, chapter 24d the one of selective layers, a small Mamba.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType

import torch
from torch import Tensor, nn

from unrolled.models.layers import NORM_EPS, RMSNorm
from unrolled.models.recurrent import Recurrent, detach, select
from unrolled.models.recurrent_cells import Cell, State
from unrolled.models.ssm import Mamba, SelectiveState
from unrolled.models.tensors import check_ids
from unrolled.validate import checked, instance, real, whole


@dataclass(eq=False)
class RecurrentCache:
    """What a model remembers of a text. A forward pass updates it in place."""

    state: State | None = None  # of all layers; None: nothing read yet
    length: int = 0  # tokens read

    def fork(self) -> RecurrentCache:
        """An independent continuation; it shares the tensors, which nothing ever overwrites."""
        return RecurrentCache(self.state, self.length)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows of the batch, int64 (B',), in this order; one may come twice."""
        if self.state is not None:
            self.state = select(self.state, rows)

    def detach(self) -> None:
        """Cut the graph here, in place: gradients of later losses stop at this state."""
        if self.state is not None:
            self.state = detach(self.state)


class _Recursive(nn.Module):
    """A language model whose state keeps one size: `hidden` reads tokens, `head` predicts."""

    def forward(self, tokens: Tensor, *, cache: RecurrentCache | None = None) -> Tensor:
        """Logits (B, T, V) of the token after each of tokens (B, T), int64.

        cache: from `new_cache`; the tokens continue those it has read. Reading a text in pieces
        gives the logits of reading it at once, and the cache does not grow. Without one the state
        begins at zero. Raises ValueError for another shape of tokens, and on a CPU IndexError for
        an unknown id.
        """
        return self.logits(self.hidden(tokens, cache=cache))

    def logits(self, x: Tensor) -> Tensor:
        """(…, V) from what `hidden` gives."""
        return self.head(x)

    def new_cache(self) -> RecurrentCache:
        """A cache that has read nothing yet, for `forward`."""
        return RecurrentCache()


class RecurrentLM(_Recursive):
    """P(x_{t+1} | x_1 … x_t) = softmax(h_t W + b), h_t being the output of a `Recurrent` stack.

    `embedding` is (V, D); `recurrent` reads it from left to right; `head` maps its output (…, H)
    to logits (…, V). With `tie_embeddings` the head's matrix is the embedding's, after a linear
    map from H to D (`project`) where H and D differ: Press & Wolf (2017); Inan et al. (2017).
    """

    @checked
    def __init__(
        self,
        vocab_size: int,
        cell: str | type[Cell] = "lstm",
        *,
        embedding_dim: int,
        hidden_size: int,
        n_layers: int = 1,
        dropout: float = 0.0,
        tie_embeddings: bool = False,
        implementation: str = "auto",
        **options,
    ):
        """vocab_size: V. embedding_dim: D. hidden_size: H, of each layer. dropout: in [0, 1); in
        training, on the embeddings, between layers and before the head. Others: as in `Recurrent`.

        Embeddings begin with N(0, 0.1²), the rest as torch has it. Raises as `Recurrent` does.
        """
        super().__init__()
        whole("vocab_size", vocab_size), real("dropout", dropout, 0, below=1)
        self.arguments = {
            "vocab_size": vocab_size, "cell": cell, "embedding_dim": embedding_dim,
            "hidden_size": hidden_size, "n_layers": n_layers, "dropout": dropout,
            "tie_embeddings": tie_embeddings, "implementation": implementation, **options,
        }  # fmt: skip
        self.embedding = nn.Embedding(vocab_size, whole("embedding_dim", embedding_dim))
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.recurrent = Recurrent(
            embedding_dim, hidden_size, cell, n_layers, dropout=dropout if n_layers > 1 else 0.0,
            implementation=implementation, **options,
        )  # fmt: skip
        self.dropout = nn.Dropout(dropout)
        needs_map = tie_embeddings and hidden_size != embedding_dim
        self.project = nn.Linear(hidden_size, embedding_dim) if needs_map else nn.Identity()
        self.head = nn.Linear(embedding_dim if tie_embeddings else hidden_size, vocab_size)
        if tie_embeddings:
            self.head.weight = self.embedding.weight

    def hidden(self, tokens: Tensor, *, cache: RecurrentCache | None = None) -> Tensor:
        """What the head reads, (B, T, ·): model(tokens) is model.logits(model.hidden(tokens))."""
        check_ids("tokens", tokens, self.embedding.num_embeddings, 2)
        instance("cache", cache, RecurrentCache, NoneType)
        x = self.dropout(self.embedding(tokens))  # (B, T, D)
        outputs, state = self.recurrent(x, None if cache is None else cache.state)  # (B, T, H)
        if cache is not None:
            cache.state, cache.length = state, cache.length + tokens.shape[1]
        return self.project(self.dropout(outputs))


class SelectiveLM(_Recursive):
    """P(x_{t+1} | x_1 … x_t) = softmax(head(norm(x + mamba(norm(x)) + …))), one sum over layers.

    `embedding` (V, D); n_layers times `norms` and `layers`, x ← x + layer(norm(x)); `final_norm`;
    `head` (V, D), the embedding's own matrix if tied. There are no positions: a recurrence knows
    the order. Source: Gu & Dao (2023), section 3.4.
    """

    @checked
    def __init__(
        self,
        vocab_size: int,
        *,
        d_model: int,
        n_layers: int = 1,
        tie_embeddings: bool = True,
        norm_eps: float = NORM_EPS,
        **options,
    ):
        """vocab_size: V. d_model: D. norm_eps: of all norms. options: of each `Mamba`.

        Embeddings begin with N(0, 0.02²), out_proj smaller by 1/√n_layers than torch has it.
        Raises as `Mamba` does.
        """
        super().__init__()
        self.embedding = nn.Embedding(whole("vocab_size", vocab_size), whole("d_model", d_model))
        nn.init.normal_(self.embedding.weight, std=0.02)
        n_layers = whole("n_layers", n_layers)
        self.norms = nn.ModuleList(RMSNorm(d_model, eps=norm_eps) for _ in range(n_layers))
        self.layers = nn.ModuleList(Mamba(d_model, **options) for _ in range(n_layers))
        for layer in self.layers:
            layer.out_proj.weight.data /= n_layers**0.5
        self.final_norm = RMSNorm(d_model, eps=norm_eps)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        if tie_embeddings:
            self.head.weight = self.embedding.weight

    def hidden(self, tokens: Tensor, *, cache: RecurrentCache | None = None) -> Tensor:
        """What the head reads, (B, T, D): model(tokens) is model.logits(model.hidden(tokens))."""
        check_ids("tokens", tokens, self.embedding.num_embeddings, 2)
        instance("cache", cache, RecurrentCache, NoneType)
        x, before, after = self.embedding(tokens), [None] * len(self.layers), []
        if cache is not None and cache.state is not None:
            before = [SelectiveState(*parts) for parts in zip(*cache.state, strict=True)]
        for norm, layer, state in zip(self.norms, self.layers, before, strict=True):
            y, state = layer(norm(x), state)
            x = x + y
            after.append(state)
        if cache is not None:  # (layers, B, F, width − 1) and (layers, B, F, N)
            cache.state = tuple(torch.stack(parts) for parts in zip(*after, strict=True))
            cache.length += tokens.shape[1]
        return self.final_norm(x)
