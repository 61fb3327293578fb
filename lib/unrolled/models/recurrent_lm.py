"""The recurrent language model: embed a token, update the state, classify the next token."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from unrolled.models.recurrent import Recurrent, detach
from unrolled.models.recurrent_cells import Cell, State


@dataclass
class RecurrentCache:
    """What a `RecurrentLM` remembers of the tokens it has read. A forward pass updates it in place.

    state: the state of all layers as `Recurrent` returns it, None before the first token.
    length: the number of tokens read.
    """

    state: State | None = None
    length: int = 0

    def fork(self) -> RecurrentCache:
        """An independent continuation; it shares the tensors, which nothing ever overwrites."""
        return RecurrentCache(self.state, self.length)

    def detach(self) -> None:
        """Cut the graph here, in place: gradients of later losses stop at this state."""
        if self.state is not None:
            self.state = detach(self.state)


class RecurrentLM(nn.Module):
    """P(x_{t+1} | x_1 … x_t) = softmax(h_t W + b), h_t being what a `Recurrent` made of the past.

    `embedding` is (V, D); `recurrent` reads it from left to right; `head` maps its output (…, H)
    to logits (…, V). Tied, the head's matrix is the embedding's, after a linear map from H to D
    (`project`) where H and D differ: Press & Wolf (2017); Inan, Khosravi & Socher (2017).
    """

    def __init__(
        self,
        vocab_size: int,
        cell: str | type[Cell] = "lstm",
        *,
        width: int,
        hidden_size: int,
        n_layers: int = 1,
        dropout: float = 0.0,
        tied: bool = False,
        implementation: str = "auto",
        **options,
    ):
        """A model with fresh parameters: embeddings from N(0, 0.1²), the rest as torch has it.

        vocab_size: V. width: D, of the embeddings. hidden_size: H, of each layer. cell, n_layers,
        implementation and options go to `Recurrent`. dropout: in [0, 1); in training, on the
        embeddings, between layers and before the head. Raises ValueError for a size below 1 or
        what `Recurrent` refuses.
        """
        super().__init__()
        if vocab_size < 1 or width < 1:
            raise ValueError(f"vocab_size and width must be at least 1, got {vocab_size}, {width}")
        between = dropout if n_layers > 1 else 0.0
        self.embedding = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.recurrent = Recurrent(
            cell, width, hidden_size, n_layers,
            dropout=between, implementation=implementation, **options,
        )  # fmt: skip
        self.dropout = nn.Dropout(dropout)
        needs_map = tied and hidden_size != width
        self.project = nn.Linear(hidden_size, width) if needs_map else nn.Identity()
        self.head = nn.Linear(width if tied else hidden_size, vocab_size)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor, *, cache: RecurrentCache | None = None) -> Tensor:
        """Logits (B, T, V) of the token after each of tokens (B, T), int64.

        cache: from `new_cache`; the tokens continue those it has read. Reading a text in pieces
        gives the logits of reading it at once. Without one the state begins at zero.
        Raises ValueError for another shape of tokens, IndexError for an id outside the vocabulary.
        """
        logits, state = self.read(tokens, None if cache is None else cache.state)
        if cache is not None:
            cache.state, cache.length = state, cache.length + tokens.shape[1]
        return logits

    def new_cache(self) -> RecurrentCache:
        """A cache that has read nothing yet, for `forward`."""
        return RecurrentCache()

    def read(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """(logits (B, T, V), the state after the last token), going on from `state`.

        tokens: int64 (B, T). state: as returned, or None for zeros. Reading a text in pieces gives
        the logits of reading it at once. Raises ValueError for another shape of tokens, IndexError
        for an id outside the vocabulary.
        """
        if tokens.ndim != 2:
            raise ValueError(f"tokens must be (B, T), got shape {tuple(tokens.shape)}")
        lowest, highest = (tokens.min(), tokens.max()) if tokens.numel() else (0, 0)
        if lowest < 0 or highest >= self.embedding.num_embeddings:
            raise IndexError(
                f"tokens must lie between 0 and {self.embedding.num_embeddings - 1}, "
                f"got {int(lowest)} to {int(highest)}"
            )
        outputs, state = self.recurrent(self.dropout(self.embedding(tokens)), state)  # (B, T, H)
        return self.head(self.project(self.dropout(outputs))), state
