"""What a model costs: its parameters, part by part. Chapters 8, 16 and 20 count them by hand."""

from __future__ import annotations

import torch

from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.neural_lm import NeuralLM, NeuralLMConfig
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.validate import one_of, whole

MODELS = {
    "decoder": TransformerLM, "encoder": Encoder, "encoder-decoder": EncoderDecoder,
    "feed-forward": NeuralLM,
}  # fmt: skip
# The part of a parameter is the first whose mark is in its name.
MARKS = {
    ".position": "position", ".cross.": "cross_attention", ".attention.": "attention",
    ".feed_forward.": "feed_forward", "norm": "norms", "embedding.": "embedding",
    "token_types.": "embedding", "head.": "head", "hidden_layer.": "feed_forward",
    "project.": "head", "direct.": "head",
}  # fmt: skip
PARTS = ("embedding", "position", "attention", "cross_attention", "feed_forward", "norms", "head")


def parameters(config: TransformerConfig | NeuralLMConfig, kind: str = "decoder") -> dict[str, int]:
    """How many parameters each of PARTS has, and the total, counted on a model without memory.

    kind: "decoder" for a `TransformerLM`, "encoder" for an `Encoder`, "encoder-decoder" for an
        `EncoderDecoder`; "feed-forward" for a `NeuralLM`, from a NeuralLMConfig, whose head has all
        that leads to the logits. A matrix that is used twice counts once. ValueError for another
        kind.
    """
    with torch.device("meta"):
        model = MODELS[one_of("kind", kind, MODELS)](config)
    counts = dict.fromkeys(PARTS, 0)
    for name, parameter in model.named_parameters():
        counts[next(MARKS[mark] for mark in MARKS if mark in name)] += parameter.numel()
    return counts | {"total": sum(counts.values())}


def cache_bytes(
    config: TransformerConfig,
    n_tokens: int,
    *,
    batch: int = 1,
    n_source: int = 0,
    dtype: torch.dtype = torch.float32,
) -> int:
    """Bytes of the keys and values that a `KVCache` holds: 2 · layers · G · K for each token.

    G heads of keys and values, not the H of queries, each K wide. n_tokens: of each of the batch's
    texts. n_source: tokens of an encoder–decoder's source, which each layer holds once more. What
    the encoder gave, and room kept for tokens to come, do not count. ValueError for counts below
    0 and a batch below 1.
    """
    positions = whole("n_tokens", n_tokens, 0) + whole("n_source", n_source, 0)
    numbers = 2 * config.n_layers * config.n_kv_heads * config.head_dim
    return whole("batch", batch) * positions * numbers * dtype.itemsize
