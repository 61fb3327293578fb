"""Where the weights of published families stand, by the names of the library `transformers`.

What is laid out otherwise than ours: GPT and GPT-2 store matrices as (inputs, outputs). BLOOM
stores queries, keys and values side by side for each head. OPT's table of positions begins with two
rows that no position reads. T5 keeps the relative bias of all blocks in the first one. LLaMA's
heads are in the order of the rotary layout "half".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unrolled.models.layers import GATED
from unrolled.models.transformer_config import TransformerConfig

Make = Callable[..., Tensor]
# Our module: theirs as it is, or several of theirs and how ours is made of them.
Rules = dict[str, str | tuple[tuple[str, ...], Make]]

HEAD = "lm_head"
# Constants that older files carry along: masks, angles, a bias that cross-attention never used; and
# the heads of BERT's two tasks, which are no part of an `Encoder`.
LEFT_OUT = re.compile(
    r"\.attn\.(masked_)?bias$|rotary_emb\.inv_freq$|^(embeddings\.)?position_ids$"
    r"|EncDecAttention\.relative_attention_bias\.weight$|^pooler\.|^cls\."
)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The names of one family."""

    prefixes: tuple[str, ...] = ()  # what names begin with, or do not
    outside: Rules  # of what lies outside the blocks, the embedding first
    blocks: dict[str, tuple[str, Rules]]  # our stack: their list of blocks, and what is in a block
    copies: tuple[str, ...] = ()  # other names under which the embedding's matrix is stored

    def rules(self, n_layers: int) -> Iterator[tuple[str, tuple[str, ...], Make]]:
        """(our module, their modules, how to make our weights of theirs), but for the head."""
        yield from self._rules(self.outside)
        for stack, (their_stack, block) in self.blocks.items():
            for i in range(n_layers):
                yield from self._rules(block, f"{stack}.blocks.{i}.", f"{their_stack}.{i}.")

    def block_rules(self, cross: bool) -> Iterator[tuple[str, tuple[str, ...], Make]]:
        """The same for one block alone, whose names then have no prefix."""
        yield from self._rules(list(self.blocks.values())[-1 if cross else 0][1])

    def _rules(self, rules: Rules, ours: str = "", theirs: str = ""):
        for name, rule in rules.items():
            names, make = ((rule,), lambda x: x) if isinstance(rule, str) else rule
            yield ours + name, tuple(theirs + name for name in names), make

    def weights(self, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights by their names without a prefix, and without what is left out."""
        given = {}
        for name, tensor in state_dict.items():
            prefix = next((p for p in self.prefixes if name.startswith(p)), "")
            short = name.removeprefix(prefix)
            if short in given:
                raise ValueError(f"{short} is there twice, with the prefix {prefix!r} and without")
            if not LEFT_OUT.search(short):
                given[short] = tensor
        return given


def _block(names: str) -> Rules:
    """A block whose modules are as ours; names: theirs of _MODULES, in this order."""
    return dict(zip(_MODULES, names.split(), strict=True))


_MODULES = (
    "norm_attention", "attention.q_proj", "attention.k_proj", "attention.v_proj",
    "attention.o_proj", "norm_feed_forward", "feed_forward.up", "feed_forward.down",
)  # fmt: skip


def _parts(ours: str, theirs: str, cut: Callable[[Tensor], Sequence[Tensor]]) -> Rules:
    """Queries, keys and values that theirs keep in one matrix."""
    return {
        f"{ours}.{name}_proj": ((theirs,), lambda x, i=i: cut(x)[i]) for i, name in enumerate("qkv")
    }


def _stacked(*parts: Tensor) -> Tensor:
    return torch.cat(parts)


def gpt2(config: TransformerConfig) -> Layout:
    """GPT-2, whose matrices are (inputs, outputs), queries, keys and values in one."""
    block = _parts("attention", "attn.c_attn", lambda x: x.t().chunk(3)) | {
        "attention.o_proj": (("attn.c_proj",), Tensor.t),
        "norm_attention": "ln_1",
        "norm_feed_forward": "ln_2",
        "feed_forward.up": (("mlp.c_fc",), Tensor.t),
        "feed_forward.down": (("mlp.c_proj",), Tensor.t),
    }
    outside = {"embedding": "wte", "stack.position": "wpe", "stack.final_norm": "ln_f"}
    return Layout(prefixes=("transformer.",), outside=outside, blocks={"stack": ("h", block)})


def openai_gpt(config: TransformerConfig) -> Layout:
    """The first GPT: GPT-2's blocks, with their norms after, so without a last one."""
    outside = {"embedding": "tokens_embed", "stack.position": "positions_embed"}
    return Layout(prefixes=("transformer.",), outside=outside, blocks=gpt2(config).blocks)


def bert(config: TransformerConfig) -> Layout:
    """BERT, for an `Encoder`."""
    block = _block(
        "attention.output.LayerNorm attention.self.query attention.self.key attention.self.value "
        "attention.output.dense output.LayerNorm intermediate.dense output.dense"
    )
    outside = {
        "embedding": "embeddings.word_embeddings",
        "token_types": "embeddings.token_type_embeddings",
        "stack.position": "embeddings.position_embeddings",
        "stack.embedding_norm": "embeddings.LayerNorm",
    }
    blocks = {"stack": ("encoder.layer", block)}
    return Layout(prefixes=("bert.",), outside=outside, blocks=blocks)


def opt(config: TransformerConfig) -> Layout:
    """OPT, whose position p reads row p + 2."""
    block = _block(
        "self_attn_layer_norm self_attn.q_proj self_attn.k_proj self_attn.v_proj "
        "self_attn.out_proj final_layer_norm fc1 fc2"
    )
    outside = {
        "embedding": "embed_tokens",
        "stack.position": (("embed_positions",), lambda x: x[2:]),
        "stack.final_norm": "final_layer_norm",
    }
    blocks = {"stack": ("layers", block)}
    return Layout(prefixes=("model.decoder.", "decoder."), outside=outside, blocks=blocks)


def bloom(config: TransformerConfig) -> Layout:
    """BLOOM, whose query_key_value holds for each head its queries, then keys, then values."""

    def cut(x: Tensor) -> list[Tensor]:  # (H·3·K, …) → three of (H·K, …)
        return [part.flatten(0, 1) for part in x.unflatten(0, (config.n_heads, 3, -1)).unbind(1)]

    block = _parts("attention", "self_attention.query_key_value", cut) | {
        "norm_attention": "input_layernorm",
        "attention.o_proj": "self_attention.dense",
        "norm_feed_forward": "post_attention_layernorm",
        "feed_forward.up": "mlp.dense_h_to_4h",
        "feed_forward.down": "mlp.dense_4h_to_h",
    }
    outside = {
        "embedding": "word_embeddings",
        "stack.embedding_norm": "word_embeddings_layernorm",
        "stack.final_norm": "ln_f",
    }
    return Layout(prefixes=("transformer.",), outside=outside, blocks={"stack": ("h", block)})


def llama(config: TransformerConfig) -> Layout:
    """LLaMA, whose gate and up stand in two matrices, and whose heads turn in halves."""

    def turned(x: Tensor) -> Tensor:  # rows (H·K, …), in the order of our layout
        if config.position == "rotary":
            return x
        heads = x.unflatten(0, (-1, 2, config.head_dim // 2))  # (H, 2, K/2, …): pairs (i, i + K/2)
        return heads.transpose(1, 2).flatten(0, 2)  # pairs (2i, 2i + 1)

    block = _block(
        "input_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj "
        "post_attention_layernorm mlp.up_proj mlp.down_proj"
    )
    for name in ("attention.q_proj", "attention.k_proj"):
        block[name] = (block[name],), turned
    block["feed_forward.up"] = ("mlp.gate_proj", "mlp.up_proj"), _stacked
    outside = {"embedding": "embed_tokens", "stack.final_norm": "norm"}
    return Layout(prefixes=("model.",), outside=outside, blocks={"stack": ("layers", block)})


def t5(config: TransformerConfig) -> Layout:
    """T5, plain or gated, whose sub-layers are numbered and each begin with their norm."""

    def attention(ours: str, theirs: str) -> Rules:
        projections = {f"{ours}.{name}_proj": f"{theirs}.{name}" for name in "qkvo"}
        return projections | {f"norm_{ours}": theirs.rsplit(".", 1)[0] + ".layer_norm"}

    def feed_forward(layer: str) -> Rules:
        up = ("wi_0", "wi_1") if config.activation in GATED else ("wi",)
        names = tuple(f"{layer}.DenseReluDense.{name}" for name in up)
        return {
            "norm_feed_forward": f"{layer}.layer_norm",
            "feed_forward.up": (names, _stacked),
            "feed_forward.down": f"{layer}.DenseReluDense.wo",
        }

    outside = {"embedding": "shared"}
    for side in ("encoder", "decoder"):
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias"
        outside |= {
            f"{side}.position.table": bias,
            f"{side}.final_norm": f"{side}.final_layer_norm",
        }
    own = attention("attention", "layer.0.SelfAttention")
    cross = attention("cross", "layer.1.EncDecAttention")
    blocks = {
        "encoder": ("encoder.block", own | feed_forward("layer.1")),
        "decoder": ("decoder.block", own | cross | feed_forward("layer.2")),
    }
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    return Layout(outside=outside, blocks=blocks, copies=copies)


LAYOUTS: dict[str, Callable[[TransformerConfig], Layout]] = {
    "bert": bert, "gpt2": gpt2, "openai-gpt": openai_gpt, "opt": opt, "bloom": bloom,
    "llama": llama, "t5": t5,
}  # fmt: skip
