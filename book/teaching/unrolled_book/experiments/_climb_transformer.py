"""The recipe of the ladder's Transformer rows."""

from __future__ import annotations

from dataclasses import dataclass

from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

from unrolled_book.experiments._climb import Recipe


@dataclass(frozen=True, kw_only=True)
class TransformerRecipe(Recipe):
    """A `TransformerLM` with LLaMA's choices: RMS norms, SwiGLU, rotary positions, no biases.

    Unlike LLaMA's, its head shares the embedding's matrix.
    """

    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    context_length: int = 256

    def model(self, vocab_size: int) -> TransformerLM:
        config = TransformerConfig(
            vocab_size=vocab_size, d_model=self.d_model, n_layers=self.n_layers,
            n_heads=self.n_heads, d_ff=self.d_ff, context_length=self.context_length,
            activation="swiglu", norm="rms", norm_eps=1e-6, position="rotary", bias=False,
        )  # fmt: skip
        return TransformerLM(config)
