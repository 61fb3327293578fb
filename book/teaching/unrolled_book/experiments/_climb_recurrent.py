"""The recipe of the ladder's recurrent rows."""

from __future__ import annotations

from dataclasses import dataclass

from unrolled.models.recurrent_lm import RecurrentLM

from unrolled_book.experiments._climb import Recipe


@dataclass(frozen=True, kw_only=True)
class RecurrentRecipe(Recipe):
    """A `RecurrentLM`; an LSTM's forget gates begin with a bias of 1."""

    cell: str
    hidden_size: int
    width: int = 64

    def model(self, vocab_size: int) -> RecurrentLM:
        options = {"forget_bias": 1.0} if self.cell == "lstm" else {}
        return RecurrentLM(
            vocab_size, self.cell, embedding_dim=self.width, hidden_size=self.hidden_size, **options
        )
