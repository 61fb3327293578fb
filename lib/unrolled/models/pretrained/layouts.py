"""Where the weights of published families stand, by the names of the library `transformers`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from unrolled.models.layers import GATED
from unrolled.models.transformer_config import TransformerConfig

Make = Callable[[Tensor, TransformerConfig], Tensor]

_MODULES = (  # of one of our blocks
    "norm_attention attention.q_proj attention.k_proj attention.v_proj attention.o_proj "
    "norm_feed_forward feed_forward.up feed_forward.down "
    "norm_cross cross.q_proj cross.k_proj cross.v_proj cross.o_proj"
).split()
_GPT2 = "ln_1 attn.c_attn attn.c_attn attn.c_attn attn.c_proj ln_2 mlp.c_fc mlp.c_proj"
_BERT = (
    "attention.output.LayerNorm attention.self.query attention.self.key attention.self.value "
    "attention.output.dense output.LayerNorm intermediate.dense output.dense"
)
_OPT = (
    "self_attn_layer_norm self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.out_proj "
    "final_layer_norm fc1 fc2"
)
_BLOOM = (
    f"input_layernorm {3 * 'self_attention.query_key_value '} self_attention.dense "
    "post_attention_layernorm mlp.dense_h_to_4h mlp.dense_4h_to_h"
)
_LLAMA = (
    "input_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj "
    "post_attention_layernorm mlp.gate_proj+mlp.up_proj mlp.down_proj"
)
_T5 = (  # {0}: the number of the last sub-layer, 1, or 2 after cross-attention
    "layer.0.layer_norm layer.0.SelfAttention.q layer.0.SelfAttention.k layer.0.SelfAttention.v "
    "layer.0.SelfAttention.o layer.{0}.layer_norm layer.{0}.DenseReluDense.wi"
    "|layer.{0}.DenseReluDense.wi_0+layer.{0}.DenseReluDense.wi_1 layer.{0}.DenseReluDense.wo "
)
_T5_BIAS = "block.0.layer.0.SelfAttention.relative_attention_bias"
_T5_CROSS = "layer.1.layer_norm " + " ".join(f"layer.1.EncDecAttention.{name}" for name in "qkvo")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Their name of each of our modules.

    "a+b": ours is a, stacked on b. "a|b": a in a plain feed-forward layer, b in a gated one.
    """

    prefixes: tuple[str, ...] = ()  # what names begin with, or do not
    outside: dict[str, str]  # the modules outside the blocks
    blocks: dict[str, tuple[str, str]]  # our stack: their list of blocks, their names of _MODULES
    make: dict[str, Make] = field(default_factory=dict)  # our weights from theirs, where no copies
    copies: tuple[str, ...] = ()  # other names under which the embedding's matrix is stored

    def source(self, module: str, config: TransformerConfig) -> tuple[list[str], Make]:
        """Their modules from which ours is made, and how; ValueError where they have none."""
        names, name, prefix = self.outside | {"head": "lm_head"}, module, ""
        if match := re.fullmatch(r"(\w+)\.blocks\.(\d+)\.(.+)", module):
            stack, i, name = match.groups()
            theirs, block = self.blocks[stack]
            names, prefix = _block(block), f"{theirs}.{i}."
        if name not in names:
            raise ValueError(f"this family has no {module}")
        forms = names[name].split("|")
        parts = forms[-1 if config.activation in GATED else 0].split("+")
        return [prefix + part for part in parts], self.make.get(name, lambda x, config: x)

    def of_block(self, cross: bool) -> Layout:
        """The layout of one block alone, whose names have no prefix."""
        _, block = list(self.blocks.values())[-1 if cross else 0]
        return replace(self, outside=_block(block), blocks={})


def _block(names: str) -> dict[str, str]:
    return dict(zip(_MODULES, names.split(), strict=False))


def _transposed(x: Tensor, config: TransformerConfig) -> Tensor:
    return x.t()


def _parts(cut: Callable[[Tensor, TransformerConfig], Sequence[Tensor]]) -> dict[str, Make]:
    """Queries, keys and values that theirs keep in one matrix."""
    return {f"attention.{c}_proj": lambda x, config, i=i: cut(x, config)[i]
            for i, c in enumerate("qkv")}  # fmt: skip


def _cut_by_head(x: Tensor, config: TransformerConfig) -> list[Tensor]:
    """(H·3·K, …) → three of (H·K, …)."""
    return [part.flatten(0, 1) for part in x.unflatten(0, (config.n_heads, 3, -1)).unbind(1)]


def _rotary_order(x: Tensor, config: TransformerConfig) -> Tensor:
    """Rows (H·K, …) of heads in the rotary layout "half", in the order of the model's layout."""
    if config.position == "rotary":
        return x
    heads = x.unflatten(0, (-1, 2, config.head_dim // 2))  # (H, 2, K/2, …): pairs (i, i + K/2)
    return heads.transpose(1, 2).flatten(0, 2)  # pairs (2i, 2i + 1)


LAYOUTS = {
    "bert": Layout(
        prefixes=("bert.",),
        outside={
            "embedding": "embeddings.word_embeddings",
            "token_types": "embeddings.token_type_embeddings",
            "stack.position": "embeddings.position_embeddings",
            "stack.embedding_norm": "embeddings.LayerNorm",
        },
        blocks={"stack": ("encoder.layer", _BERT)},
    ),
    "gpt2": Layout(  # matrices are (inputs, outputs)
        prefixes=("transformer.",),
        outside={"embedding": "wte", "stack.position": "wpe", "stack.final_norm": "ln_f"},
        blocks={"stack": ("h", _GPT2)},
        make=_parts(lambda x, config: x.t().chunk(3))
        | dict.fromkeys(("attention.o_proj", "feed_forward.up", "feed_forward.down"), _transposed),
    ),
    "opt": Layout(
        prefixes=("model.decoder.", "decoder."),
        outside={
            "embedding": "embed_tokens",
            "stack.position": "embed_positions",
            "stack.final_norm": "final_layer_norm",
        },
        blocks={"stack": ("layers", _OPT)},
        make={"stack.position": lambda x, config: x[2:]},  # two rows that no position reads
    ),
    "bloom": Layout(
        prefixes=("transformer.",),
        outside={
            "embedding": "word_embeddings",
            "stack.embedding_norm": "word_embeddings_layernorm",
            "stack.final_norm": "ln_f",
        },
        blocks={"stack": ("h", _BLOOM)},
        make=_parts(_cut_by_head),
    ),
    "llama": Layout(
        prefixes=("model.",),
        outside={"embedding": "embed_tokens", "stack.final_norm": "norm"},
        blocks={"stack": ("layers", _LLAMA)},
        make=dict.fromkeys(("attention.q_proj", "attention.k_proj"), _rotary_order),
    ),
    "t5": Layout(  # the relative bias of all blocks is kept in the first
        outside={
            "embedding": "shared",
            "encoder.position.table": f"encoder.{_T5_BIAS}",
            "encoder.final_norm": "encoder.final_layer_norm",
            "decoder.position.table": f"decoder.{_T5_BIAS}",
            "decoder.final_norm": "decoder.final_layer_norm",
        },
        blocks={
            "encoder": ("encoder.block", _T5.format(1)),
            "decoder": ("decoder.block", _T5.format(2) + _T5_CROSS),
        },
        copies=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
    ),
}
LAYOUTS["openai-gpt"] = replace(  # norms stand after the sub-layers, so there is no last one
    LAYOUTS["gpt2"], outside={"embedding": "tokens_embed", "stack.position": "positions_embed"}
)
