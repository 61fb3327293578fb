"""The recipe of the ladder's feed-forward row."""

from __future__ import annotations

from dataclasses import dataclass

from unrolled.models.neural_lm import NeuralLM, NeuralLMConfig

from unrolled_book.experiments._climb import Recipe


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the network reads, and how."""

    context_length: int  # characters
    width: int  # of each embedding
    direct_connections: bool = False


@dataclass(frozen=True, kw_only=True)
class FeedforwardRecipe(Recipe):
    """A `NeuralLM`. shape None leaves it to a search."""

    hidden_size: int
    shape: Shape | None = None

    def model(self, vocab_size: int) -> NeuralLM:
        config = NeuralLMConfig(
            vocab_size=vocab_size, context_length=self.shape.context_length,
            embedding_dim=self.shape.width, hidden_size=self.hidden_size,
            direct_connections=self.shape.direct_connections,
        )  # fmt: skip
        return NeuralLM(config)
