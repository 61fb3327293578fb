"""What a published model is made of: from a configuration of the library `transformers` to ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unrolled.models.layers import GATED
from unrolled.models.transformer_config import TransformerConfig
from unrolled.validate import checked, one_of

_GPT2 = {
    "norm": "layer", "norm_first": True, "position": "learned", "embedding_norm": False,
    "scale_embedding": False, "scale_scores": True, "parallel": False,
}  # fmt: skip
# What each family is, whatever its size.
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": _GPT2 | {"norm_first": False, "embedding_norm": True},
    "gpt2": _GPT2,
    "openai-gpt": _GPT2 | {"norm_first": False},
    "opt": _GPT2,
    "bloom": _GPT2 | {"position": "alibi", "embedding_norm": True},
    "llama": _GPT2 | {"norm": "rms", "position": "rotary"},
    "t5": _GPT2 | {"norm": "rms", "position": "relative", "scale_scores": False},
}
# What theirs leave out.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "bert": {"activation": "gelu", "norm_eps": 1e-12, "n_token_types": 2, "dropout": 0.1},
    "gpt2": {"activation": "gelu_new", "dropout": 0.1},
    "openai-gpt": {"activation": "gelu", "dropout": 0.1},
    "opt": {"activation": "relu", "dropout": 0.1, "attention_dropout": 0.0},
    "bloom": {"activation": "gelu_new", "context_length": 2048},
    "llama": {"activation": "silu", "norm_eps": 1e-6, "tie_embeddings": False},
    "t5": {"context_length": 512, "norm_eps": 1e-6, "dropout": 0.1, "bias": False},
}
# Our setting: what theirs call it, the first that has a value.
_NAMES = {
    "vocab_size": ("vocab_size",),
    "d_model": ("hidden_size", "n_embd", "n_embed", "d_model"),
    "n_layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "n_heads": ("num_attention_heads", "n_head", "num_heads"),
    "context_length": ("n_positions", "max_position_embeddings", "seq_length"),
    "n_kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim", "d_kv"),
    "d_ff": ("n_inner", "intermediate_size", "ffn_dim", "d_ff"),
    "activation": ("activation_function", "hidden_act", "afn"),
    "norm_eps": ("layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps"),
    "rope_theta": ("rope_theta",),
    "n_buckets": ("relative_attention_num_buckets",),
    "max_distance": ("relative_attention_max_distance",),
    "n_token_types": ("type_vocab_size",),
    "bias": ("attention_bias",),
    "tie_embeddings": ("tie_word_embeddings",),
    "dropout": ("resid_pdrop", "hidden_dropout_prob", "hidden_dropout", "dropout_rate", "dropout"),
    "attention_dropout": ("attn_pdrop", "attention_probs_dropout_prob", "attention_dropout"),
    "embedding_dropout": ("embd_pdrop",),
    "init_std": ("initializer_range", "init_std"),
}
_REQUIRED = ("vocab_size", "d_model", "n_layers", "n_heads", "context_length")
# Settings that change what is computed, in a way our models do not have.
_ONLY: dict[str, dict[str, Any]] = {
    "bert": {"position_embedding_type": "absolute", "is_decoder": False},
    "gpt2": {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False,
             "add_cross_attention": False},
    "opt": {"do_layer_norm_before": True, "enable_bias": True,
            "layer_norm_elementwise_affine": True, "_remove_final_layer_norm": False},
    "bloom": {"apply_residual_connection_post_layernorm": False},
}  # fmt: skip
_ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh",
    "silu": "silu", "swish": "silu",
}  # fmt: skip


@checked
def config_from(reference: Mapping[str, Any] | Any, family: str) -> TransformerConfig:
    """Our configuration of the model that a configuration of `transformers` describes.

    reference: the contents of a config.json, or an object with `to_dict`. family: one of FAMILIES;
    "t5" is for `EncoderDecoder`, "bert" for `Encoder`, the others are for `TransformerLM`.

    Raises ValueError for an unknown family, another `model_type`, a field that is missing, and a
    setting that our models do not have, with its name and value.
    """
    one_of("family", family, FAMILIES)
    if not isinstance(reference, Mapping) and not hasattr(reference, "to_dict"):
        raise TypeError(f"reference must be a dict or have `to_dict`, got {reference!r:.60}")
    theirs = dict(reference if isinstance(reference, Mapping) else reference.to_dict())
    if (kind := theirs.get("model_type", family)) != family:
        raise ValueError(f"expected a configuration of {family}, got one of {kind}")
    ours = dict(_DEFAULTS[family])
    for setting, names in _NAMES.items():
        found = [theirs[name] for name in names if theirs.get(name) is not None]
        if found:
            ours[setting] = found[0]
        elif setting in _REQUIRED and setting not in ours:
            raise ValueError(f"this configuration of {family} has no {' or '.join(names)}")
    only = dict(_ONLY.get(family, {}))
    gated = family == "llama"
    if family == "opt":
        only["word_embed_proj_dim"] = ours["d_model"]
    elif family == "openai-gpt" and ours["activation"] == "gelu":
        ours["activation"] = "gelu_new"  # the first GPT's "gelu" is the approximation by tanh
    elif family == "llama":
        ours |= {"bias": ours.get("bias", False), "dropout": 0.0}
        theirs.setdefault("mlp_bias", False)
        only["mlp_bias"] = ours["bias"]
        rope = theirs.get("rope_parameters") or {}
        ours["rope_theta"] = rope.get("rope_theta", ours.get("rope_theta", 10_000.0))
        scaling = theirs.get("rope_scaling") or rope
        one_of("rope_type", scaling.get("rope_type", scaling.get("type", "default")), ["default"])
    elif family == "t5":
        only["num_decoder_layers"] = ours["n_layers"]
        *gated, name = theirs.get("feed_forward_proj", "relu").split("-")
        ours["activation"] = "gelu_new" if gated and name == "gelu" else name
        # their objects always say they are tied; whether logits are scaled tells the truth
        tied = theirs.get("scale_decoder_outputs", ours.get("tie_embeddings", True))
        ours |= {"tie_embeddings": tied, "scale_logits": tied}
    for name, expected in only.items():
        if theirs.get(name, expected) not in (expected, None):
            raise ValueError(f"our {family} has {name}={expected} only, got {theirs[name]!r}")
    one_of("activation", ours["activation"], _ACTIVATIONS)
    plain = _ACTIVATIONS[ours["activation"]]
    ours["activation"] = next(k for k, v in GATED.items() if v == plain) if gated else plain
    return TransformerConfig(**FAMILIES[family], **ours)
