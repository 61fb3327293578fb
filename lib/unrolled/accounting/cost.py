"""What a model costs, from its configuration alone: parameters, operations, the cache's bytes.

Chapters 8, 16, 20 and 22 count them by hand. `memory` has the bytes of training.
"""

from __future__ import annotations

import torch

from unrolled.models.architectures import Architecture
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.layers import GATED
from unrolled.models.neural_lm import NeuralLM, NeuralLMConfig
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.validate import checked, one_of, whole

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


@checked
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


@checked
def counted(architecture: Architecture) -> int:
    """The parameters of its configuration that the published number counts."""
    counts = parameters(architecture.config, architecture.kind)
    return counts["total"] - sum(counts[part] for part in architecture.uncounted)


@checked
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


@checked
def flops(
    config: TransformerConfig,
    n_tokens: int,
    *,
    batch: int = 1,
    kind: str = "decoder",
    n_source: int = 0,
    n_cached: int = 0,
    pairs: str = "all",
    training: bool = False,
    checkpointing: bool = False,
) -> dict[str, int]:
    """Floating-point operations of a pass over `batch` texts of n_tokens, by part, and the total.

    Counted are products of matrices alone, as `torch.utils.flop_counter` counts them, two
    operations for each multiplication with its addition; a look-up in a table costs none, the head
    costs even where it is tied. "attention" and "cross_attention" are the projections, "scores" and
    "cross_scores" are Q Kᵀ and A V.

    kind: of `parameters`, besides "feed-forward". n_source: tokens of an encoder–decoder's source.
    n_cached: tokens before these whose keys and values, and whose source, a cache holds.
    pairs: which scores of self-attention count. "all": every query with every key, as without a
        kernel that skips what is masked. "allowed": what causality and the window let through; with
        causality alone T(T + 1)/2 of T².
    training: forward and backward pass, three times the forward pass: for each product the backward
        pass has two. A kernel that computes the scores again in its backward pass does more.
    checkpointing: in training, each block's forward pass is done a second time.

    Raises ValueError for another kind or pairs, counts below their least, a source or a cache
    where the model or the training has none.
    """
    one_of("kind", kind, ("decoder", "encoder", "encoder-decoder"))
    one_of("pairs", pairs, ("all", "allowed"))
    has_source = kind == "encoder-decoder"
    T, V = whole("n_tokens", n_tokens), whole("vocab_size", config.vocab_size)
    S = whole("n_source", n_source, int(has_source), None if has_source else 0)
    whole("n_cached", n_cached, 0, 0 if training or kind == "encoder" else None)
    read = 0 if n_cached else S  # by the encoder
    seen = T * (n_cached + T)
    if pairs == "allowed" and kind != "encoder":
        reach = config.window or n_cached + T
        seen = sum(min(i, reach) for i in range(n_cached + 1, n_cached + T + 1))
    D, F = config.d_model, config.d_ff
    heads, groups = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    of_a_layer = {
        "attention": (T + read) * D * 2 * (heads + groups),
        "scores": (seen + read**2) * 2 * heads,
        "cross_attention": has_source * D * 2 * (T * heads + read * groups),
        "cross_scores": T * S * 2 * heads,
        "feed_forward": (T + read) * D * F * (3 if config.activation in GATED else 2),
    }
    passes = (3 + checkpointing if training else 1) * 2 * whole("batch", batch)
    counts = {part: passes * config.n_layers * n for part, n in of_a_layer.items()}
    head = 0 if kind == "encoder" else T * D * V
    counts["head"] = (3 if training else 1) * 2 * batch * head
    return counts | {"total": sum(counts.values())}
