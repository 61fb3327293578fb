"""The Transformer of 2017 as a whole: an encoder reads the source, a decoder writes the target."""

from __future__ import annotations

import math

from torch import Tensor, nn

from unrolled.models.transformer import Stack, embed, initialise, padding_of
from unrolled.models.transformer_config import TransformerConfig


class EncoderDecoder(nn.Module):
    """P(y_{t+1} | y_1 … y_t, x): the decoder's cross-attention reads what the encoder made of x.

    One `embedding` (V, D) serves both sides, and the `head` as well if tied. `encoder` and
    `decoder` are stacks of n_layers blocks each. Source: Vaswani et al. (2017), figure 1; with RMS
    norms and relative biases, Raffel et al. (2020).
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = Stack(config, causal=False)
        self.decoder = Stack(config, causal=True, cross=True)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tied:
            self.head.weight = self.embedding.weight
        initialise(self, config)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        *,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """Logits (B, T, V) of the token after each of target (B, T), given source (B, S); int64.

        Masks have their tokens' shapes, True where a token stands. maps: a list to which the
        decoder's weights are appended, for each block (B, H, T, T) and then (B, H, T, S).
        """
        read = self.encode(source, source_mask)
        x = self.decoder(
            embed(self.embedding, target, self.config), padding_of(target, target_mask),
            source=read, source_mask=padding_of(source, source_mask), maps=maps,
        )  # fmt: skip
        return self.head(x / math.sqrt(x.shape[-1]) if self.config.scale_logits else x)

    def encode(self, source: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, S, D) from source (B, S), int64; mask (B, S), True where a token stands."""
        return self.encoder(embed(self.embedding, source, self.config), padding_of(source, mask))
