"""The Transformer of 2017 as a whole: an encoder reads the source, a decoder writes the target."""

from __future__ import annotations

import math
from types import NoneType

from torch import Tensor

from unrolled.models.kv_cache import KVCache
from unrolled.models.transformer import Embedded, Stack, initialise, make_head
from unrolled.models.transformer_config import TransformerConfig
from unrolled.validate import checked, instance


class EncoderDecoder(Embedded):
    """P(y_{t+1} | y_1 … y_t, x): the decoder's cross-attention reads what the encoder made of x.

    One `embedding` (V, D) serves both sides, and the `head` as well if tied. `encoder` and
    `decoder` are stacks of n_layers blocks each. Source: Vaswani et al. (2017), figure 1; with RMS
    norms and relative biases, Raffel et al. (2020).
    """

    @checked
    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        self.encoder = Stack(config, causal=False)
        self.decoder = Stack(config, causal=True, cross=True)
        self.head = make_head(config, self.embedding)
        initialise(self, config)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        *,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Logits (B, T, V) of the token after each of target (B, T), given source (B, S); int64.

        Masks have their tokens' shapes, True where a token stands. cache: made by `new_cache`; the
        target goes on from what it holds. The source is encoded at the first call, and later calls
        read what the cache keeps of it, whatever source and source_mask they are given.
        """
        return self.logits(self.hidden(source, target, source_mask, target_mask, cache=cache))

    def hidden(self, source, target, source_mask=None, target_mask=None, *, cache=None) -> Tensor:
        """What the head reads, (B, T, D), from what `forward` takes, which gives its `logits`."""
        if instance("cache", cache, KVCache, NoneType) is not None and cache.length:
            encoded, source_mask = cache.source, cache.source_mask
        else:
            encoded = self.encode(source, source_mask)
            if cache is not None:
                cache.begin(encoded, source_mask)
        return self.decoder(
            self.embed(target), target_mask, cache=cache, source=encoded, source_mask=source_mask
        )

    def logits(self, x: Tensor) -> Tensor:
        """(…, V) from what the decoder gives, (…, D)."""
        return self.head(x / math.sqrt(x.shape[-1]) if self.config.scale_logits else x)

    def new_cache(self) -> KVCache:
        """An empty cache, with which a target is read in pieces and its source once."""
        return KVCache(self.config.n_layers, cross=True)

    def encode(self, source: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, S, D) from source (B, S), int64; mask (B, S), True where a token stands."""
        return self.encoder(self.embed(source), mask)
