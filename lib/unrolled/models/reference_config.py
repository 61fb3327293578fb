"""What a published model is made of: from a configuration of the library `transformers` to ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unrolled.models.layers import GATED
from unrolled.models.transformer_config import TransformerConfig

_GPT2 = {
    "norm": "layer", "norm_place": "pre", "position": "learned", "embedding_norm": False,
    "parallel": False, "scale_embedding": False, "scale_scores": True,
}  # fmt: skip
# What each family is, whatever its size.
FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": _GPT2,
    "openai-gpt": _GPT2 | {"norm_place": "post"},
    "opt": _GPT2,
    "bloom": _GPT2 | {"position": "alibi", "embedding_norm": True},
    "llama": _GPT2 | {"norm": "rms", "position": "rotary"},
    "t5": _GPT2 | {"norm": "rms", "position": "relative", "scale_scores": False},
}


def config_from(reference: Mapping[str, Any] | Any, family: str) -> TransformerConfig:
    """Our configuration of the model that a configuration of `transformers` describes.

    reference: the contents of a config.json, or an object with `to_dict`. family: one of FAMILIES;
    "t5" is for `EncoderDecoder`, the others are for `TransformerLM`. Their dropout of each f(x)
    becomes ours, which is one for all places.

    Raises ValueError for an unknown family, another `model_type`, a field that is missing, and a
    setting that our models do not have, with its name and value.
    """
    form = family_form(family)
    values = dict(reference if isinstance(reference, Mapping) else reference.to_dict())
    if (kind := values.get("model_type", family)) != family:
        raise ValueError(f"expected a configuration of {family}, got one of {kind}")
    for name, expected in _ONLY.get(family, {}).items():
        if values.get(name, expected) != expected:
            raise ValueError(f"our {family} has {name}={expected} only, got {values[name]!r}")

    def field(*names: str, default: Any = None) -> Any:
        """The first of the names that has a value."""
        found = [values[name] for name in names if values.get(name) is not None]
        if not found and default is None:
            raise ValueError(f"this configuration of {family} has no {' or '.join(names)}")
        return found[0] if found else default

    return TransformerConfig(**form, **_SIZES[family](field))


def family_form(family: str) -> dict[str, Any]:
    """What is fixed in a family; ValueError for an unknown one."""
    if family not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}, got {family!r}")
    return FAMILIES[family]


# Settings that change what is computed, in a way our models do not have.
_ONLY = {
    "gpt2": {
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
    },
    "opt": {
        "do_layer_norm_before": True,
        "enable_bias": True,
        "layer_norm_elementwise_affine": True,
        "_remove_final_layer_norm": False,
    },
    "bloom": {"apply_residual_connection_post_layernorm": False},
}
_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "silu": "silu",
    "swish": "silu",
}
Field = Callable[..., Any]


def _activation(name: str, *, gated: bool = False) -> str:
    if name not in _ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(_ACTIVATIONS)}, got {name!r}")
    plain = _ACTIVATIONS[name]
    return next(k for k, v in GATED.items() if v == plain) if gated else plain


def _common(field: Field) -> dict[str, Any]:
    """What several families share, though not always by one name."""
    return {
        "vocab_size": field("vocab_size"),
        "d_model": field("hidden_size", "n_embd", "n_embed", "d_model"),
        "n_layers": field("num_hidden_layers", "n_layer", "num_layers"),
        "n_heads": field("num_attention_heads", "n_head", "num_heads"),
        "init_std": field("initializer_range", "init_std", default=0.02),
    }


def _gpt2(field: Field) -> dict[str, Any]:
    return _common(field) | {
        "context_length": field("n_positions", "max_position_embeddings"),
        "d_ff": field("n_inner", default=4 * field("n_embd", "hidden_size")),
        "activation": _activation(field("activation_function", default="gelu_new")),
        "norm_eps": field("layer_norm_epsilon", default=1e-5),
        "tied": field("tie_word_embeddings", default=True),
        "dropout": field("resid_pdrop", default=0.1),
    }


def _openai_gpt(field: Field) -> dict[str, Any]:
    # its "gelu" is the approximation by tanh
    activation = {"gelu": "gelu_new"}.get(name := field("afn", default="gelu"), name)
    return _gpt2(field) | {"activation": _activation(activation)}


def _opt(field: Field) -> dict[str, Any]:
    width = field("hidden_size")
    if (projected := field("word_embed_proj_dim", default=width)) != width:
        raise ValueError(f"our opt has word_embed_proj_dim={width} only, got {projected}")
    return _common(field) | {
        "context_length": field("max_position_embeddings"),
        "d_ff": field("ffn_dim"),
        "activation": _activation(field("activation_function", default="relu")),
        "tied": field("tie_word_embeddings", default=True),
        "dropout": field("dropout", default=0.1),
    }


def _bloom(field: Field) -> dict[str, Any]:
    return _common(field) | {
        "context_length": field("seq_length", default=2048),
        "norm_eps": field("layer_norm_epsilon", default=1e-5),
        "tied": field("tie_word_embeddings", default=True),
        "dropout": field("hidden_dropout", default=0.0),
    }


def _llama(field: Field) -> dict[str, Any]:
    rope = field("rope_parameters", default={}) or {}
    scaling = field("rope_scaling", default={}) or rope
    if (kind := scaling.get("rope_type", scaling.get("type", "default"))) != "default":
        raise ValueError(f"our llama has the rope_type 'default' only, got {kind!r}")
    bias = field("attention_bias", default=False)
    if field("mlp_bias", default=False) != bias:
        raise ValueError(f"our llama has biases everywhere or nowhere, got attention_bias={bias}")
    heads = field("num_attention_heads")
    return _common(field) | {
        "context_length": field("max_position_embeddings"),
        "n_kv_heads": field("num_key_value_heads", default=heads),
        "head_dim": field("head_dim", default=field("hidden_size") // heads),
        "d_ff": field("intermediate_size"),
        "activation": _activation(field("hidden_act", default="silu"), gated=True),
        "norm_eps": field("rms_norm_eps", default=1e-6),
        "rotary_base": rope.get("rope_theta", field("rope_theta", default=10_000.0)),
        "bias": bias,
        "tied": field("tie_word_embeddings", default=False),
        "dropout": 0.0,
    }


def _t5(field: Field) -> dict[str, Any]:
    layers = field("num_layers", "num_hidden_layers")
    if (decoder := field("num_decoder_layers", default=layers)) != layers:
        raise ValueError(f"our t5 has as many layers on both sides, got {layers} and {decoder}")
    *gated, name = field("feed_forward_proj", default="relu").split("-")
    name = "gelu_new" if gated and name == "gelu" else name
    # the library's own objects always say they are tied; whether logits are scaled tells the truth
    tied = field("scale_decoder_outputs", "tie_word_embeddings", default=True)
    return _common(field) | {
        "context_length": field("n_positions", default=512),
        "head_dim": field("d_kv"),
        "d_ff": field("d_ff"),
        "activation": _activation(name, gated=bool(gated)),
        "norm_eps": field("layer_norm_epsilon", default=1e-6),
        "n_buckets": field("relative_attention_num_buckets", default=32),
        "max_distance": field("relative_attention_max_distance", default=128),
        "bias": False,
        "tied": tied,
        "scale_logits": tied,
        "dropout": field("dropout_rate", default=0.1),
    }


_SIZES: dict[str, Callable[[Field], dict[str, Any]]] = {
    "gpt2": _gpt2,
    "openai-gpt": _openai_gpt,
    "opt": _opt,
    "bloom": _bloom,
    "llama": _llama,
    "t5": _t5,
}
