"""The recipe of the ladder's Transformer rows."""

from __future__ import annotations

from dataclasses import dataclass

from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.teaching.experiments._climb import Recipe


@dataclass(frozen=True, kw_only=True)
class TransformerRecipe(Recipe):
    """A `TransformerLM` with its norms before, and rotary positions."""

    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    activation: str = "gelu"
    context_length: int = 256
    init_std: float = 0.02

    def model(self, vocab_size: int) -> TransformerLM:
        config = TransformerConfig(
            vocab_size=vocab_size, d_model=self.d_model, n_layers=self.n_layers,
            n_heads=self.n_heads, d_ff=self.d_ff, context_length=self.context_length,
            activation=self.activation, position="rotary", init_std=self.init_std,
        )  # fmt: skip
        return TransformerLM(config)
