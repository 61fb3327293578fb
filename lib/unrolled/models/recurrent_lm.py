"""The recurrent language model (chapter 12): embed a token, update the state, predict the next."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType

from torch import Tensor, nn

from unrolled.models.recurrent import Recurrent, detach, select
from unrolled.models.recurrent_cells import Cell, State
from unrolled.models.tensors import check_ids
from unrolled.validate import checked, instance, real, whole


@dataclass(eq=False)
class RecurrentCache:
    """What a `RecurrentLM` remembers of a text. A forward pass updates it in place."""

    state: State | None = None  # of all layers, as `Recurrent` returns it; None: nothing read yet
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


class RecurrentLM(nn.Module):
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

    def forward(self, tokens: Tensor, *, cache: RecurrentCache | None = None) -> Tensor:
        """Logits (B, T, V) of the token after each of tokens (B, T), int64.

        cache: from `new_cache`; the tokens continue those it has read. Reading a text in pieces
        gives the logits of reading it at once. Without a cache the state begins at zero.
        Raises ValueError for another shape of tokens, and on a CPU IndexError for an unknown id.
        """
        return self.logits(self.hidden(tokens, cache=cache))

    def hidden(self, tokens: Tensor, *, cache: RecurrentCache | None = None) -> Tensor:
        """What the head reads, (B, T, ·): model(tokens) is model.logits(model.hidden(tokens))."""
        check_ids("tokens", tokens, self.embedding.num_embeddings, 2)
        instance("cache", cache, RecurrentCache, NoneType)
        x = self.dropout(self.embedding(tokens))  # (B, T, D)
        outputs, state = self.recurrent(x, None if cache is None else cache.state)  # (B, T, H)
        if cache is not None:
            cache.state, cache.length = state, cache.length + tokens.shape[1]
        return self.project(self.dropout(outputs))

    def logits(self, x: Tensor) -> Tensor:
        """(…, V) from what `hidden` gives."""
        return self.head(x)

    def new_cache(self) -> RecurrentCache:
        """A cache that has read nothing yet, for `forward`."""
        return RecurrentCache()
