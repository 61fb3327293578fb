"""What a Transformer costs, from its configuration alone: its parameters, part by part."""

from __future__ import annotations

from unrolled.models.layers import GATED
from unrolled.models.transformer_config import TransformerConfig

KINDS = ("decoder", "encoder", "encoder-decoder")


def parameters(config: TransformerConfig, kind: str = "decoder") -> dict[str, int]:
    """How many parameters each part has, and the total.

    kind: "decoder" for a `TransformerLM`, "encoder" for an `Encoder`, "encoder-decoder" for an
        `EncoderDecoder`, whose n_layers stand on either side.

    With widths D, K of a head and F, H heads and G of keys and values, without biases:
    `embedding` V·D, in an encoder with a row more for each type of token; `position`
    context_length·D for learned ones, n_buckets·H for relative ones, in each stack; `attention`
    2·D·K·(H + G) in a layer; `cross_attention` the same in a decoder's layer that has a source;
    `feed_forward` 2·D·F, gated 3·D·F; `norms` D each; `head` D·V unless
    tied. Biases count with their parts. Raises ValueError for another kind.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
    cross = kind == "encoder-decoder"
    stacks = 2 if cross else 1
    n_layers, width = config.n_layers, config.d_model
    a_norm = width * (2 if config.norm == "layer" and config.bias else 1)
    in_layers = stacks * 2 + cross
    outside = stacks * (config.embedding_norm + config.norm_first)
    parts = {
        "embedding": (config.vocab_size + (kind == "encoder") * config.n_token_types) * width,
        "position": stacks * _position(config),
        "attention": stacks * n_layers * _attention(config),
        "cross_attention": cross * n_layers * _attention(config),
        "feed_forward": stacks * n_layers * _feed_forward(config),
        "norms": (n_layers * in_layers + outside) * a_norm,
        "head": 0 if config.tie_embeddings or kind == "encoder" else width * config.vocab_size,
    }
    return parts | {"total": sum(parts.values())}


def _position(config: TransformerConfig) -> int:
    """A table of learned vectors, or of one number for each bucket and head."""
    tables = {
        "learned": config.context_length * config.d_model,
        "relative": config.n_buckets * config.n_heads,
    }
    return tables.get(config.position, 0)


def _attention(config: TransformerConfig) -> int:
    """Maps to queries, to keys and values, and back."""
    queries = config.n_heads * config.head_dim
    keys_and_values = 2 * config.n_kv_heads * config.head_dim
    return (
        _linear(config, config.d_model, queries)
        + _linear(config, config.d_model, keys_and_values)
        + _linear(config, queries, config.d_model)
    )


def _feed_forward(config: TransformerConfig) -> int:
    """Maps up, twice where gated, and down."""
    up = config.d_ff * (2 if config.activation in GATED else 1)
    return _linear(config, config.d_model, up) + _linear(config, config.d_ff, config.d_model)


def _linear(config: TransformerConfig, inputs: int, outputs: int) -> int:
    return inputs * outputs + (outputs if config.bias else 0)
