"""Where the weights of published families stand, by the names of the library `transformers`.

What is laid out otherwise than ours: GPT and GPT-2 store matrices as (inputs, outputs). BLOOM
stores queries, keys and values side by side for each head. OPT's table of positions begins with two
rows that no position reads. T5 keeps the relative bias of all blocks in the first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from unrolled.models.layers import GATED
from unrolled.models.transformer_config import TransformerConfig

Make = Callable[..., Tensor]
Rules = dict[str, tuple[tuple[str, ...], Make]]  # our module: their modules, how to make ours

HEAD = "lm_head"
# Constants that older files carry along: masks, angles, a bias that cross-attention never used.
CONSTANTS = re.compile(
    r"\.attn\.(masked_)?bias$|rotary_emb\.inv_freq$|^position_ids$"
    r"|EncDecAttention\.relative_attention_bias\.weight$"
)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The names of one family."""

    prefixes: tuple[str, ...] = ()  # what names begin with, or do not
    outside: Rules  # of what lies outside the blocks, the embedding first
    blocks: dict[str, tuple[str, Rules]]  # our stack: their list of blocks, and what is in a block
    copies: tuple[str, ...] = ()  # other names under which the embedding's matrix is stored

    @property
    def embedding(self) -> str:
        """The name of the embedding's matrix."""
        return self.outside["embedding"][0][0] + ".weight"

    def rules(self, n_layers: int) -> Iterator[tuple[str, tuple[str, ...], Make]]:
        """(our module, their modules, how to make our weights of theirs), but for the head."""
        for ours, (theirs, make) in self.outside.items():
            yield ours, theirs, make
        for stack, (their_stack, block) in self.blocks.items():
            for layer in range(n_layers):
                for ours, (theirs, make) in block.items():
                    names = tuple(f"{their_stack}.{layer}.{name}" for name in theirs)
                    yield f"{stack}.blocks.{layer}.{ours}", names, make

    def weights(self, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights by their names without a prefix, without the constants of older files."""
        given = {}
        for name, tensor in state_dict.items():
            prefix = next((p for p in self.prefixes if name.startswith(p)), "")
            short = name.removeprefix(prefix)
            if short in given:
                raise ValueError(f"{short} is there twice, with the prefix {prefix!r} and without")
            if not CONSTANTS.search(short):
                given[short] = tensor
        return given


def _from(*names: str, by: Make | None = None) -> tuple[tuple[str, ...], Make]:
    """Ours is theirs as it is; several of theirs stand one below the other; or made by a map."""
    return names, by or (lambda *parts: torch.cat(parts) if len(parts) > 1 else parts[0])


def gpt2(config: TransformerConfig) -> Layout:
    """GPT-2, whose matrices are (inputs, outputs), queries, keys and values in one."""
    D = config.d_model
    block = {
        "norm_attention": _from("ln_1"),
        "attention.q_proj": _from("attn.c_attn", by=lambda x: x.t()[:D]),
        "attention.kv_proj": _from("attn.c_attn", by=lambda x: x.t()[D:]),
        "attention.o_proj": _from("attn.c_proj", by=Tensor.t),
        "norm_feed_forward": _from("ln_2"),
        "feed_forward.up": _from("mlp.c_fc", by=Tensor.t),
        "feed_forward.down": _from("mlp.c_proj", by=Tensor.t),
    }
    outside = {
        "embedding": _from("wte"),
        "stack.position": _from("wpe"),
        "stack.final_norm": _from("ln_f"),
    }
    return Layout(prefixes=("transformer.",), outside=outside, blocks={"stack": ("h", block)})


def openai_gpt(config: TransformerConfig) -> Layout:
    """The first GPT: GPT-2's blocks, with their norms after, so without a last one."""
    outside = {"embedding": _from("tokens_embed"), "stack.position": _from("positions_embed")}
    later = gpt2(config)
    return Layout(prefixes=later.prefixes, outside=outside, blocks=later.blocks)


def opt(config: TransformerConfig) -> Layout:
    """OPT, whose position p reads row p + 2."""
    block = {
        "norm_attention": _from("self_attn_layer_norm"),
        "attention.q_proj": _from("self_attn.q_proj"),
        "attention.kv_proj": _from("self_attn.k_proj", "self_attn.v_proj"),
        "attention.o_proj": _from("self_attn.out_proj"),
        "norm_feed_forward": _from("final_layer_norm"),
        "feed_forward.up": _from("fc1"),
        "feed_forward.down": _from("fc2"),
    }
    outside = {
        "embedding": _from("embed_tokens"),
        "stack.position": _from("embed_positions", by=lambda x: x[2:]),
        "stack.final_norm": _from("final_layer_norm"),
    }
    blocks = {"stack": ("layers", block)}
    return Layout(prefixes=("model.decoder.", "decoder."), outside=outside, blocks=blocks)


def bloom(config: TransformerConfig) -> Layout:
    """BLOOM, whose query_key_value holds for each head its queries, then keys, then values."""

    def parts(x: Tensor) -> Tensor:  # (H·3·K, …) → (3, H, K, …)
        return x.unflatten(0, (config.n_heads, 3, -1)).transpose(0, 1)

    fused = "self_attention.query_key_value"
    block = {
        "norm_attention": _from("input_layernorm"),
        "attention.q_proj": _from(fused, by=lambda x: parts(x)[0].flatten(0, 1)),
        "attention.kv_proj": _from(fused, by=lambda x: parts(x)[1:].flatten(0, 2)),
        "attention.o_proj": _from("self_attention.dense"),
        "norm_feed_forward": _from("post_attention_layernorm"),
        "feed_forward.up": _from("mlp.dense_h_to_4h"),
        "feed_forward.down": _from("mlp.dense_4h_to_h"),
    }
    outside = {
        "embedding": _from("word_embeddings"),
        "stack.embedding_norm": _from("word_embeddings_layernorm"),
        "stack.final_norm": _from("ln_f"),
    }
    return Layout(prefixes=("transformer.",), outside=outside, blocks={"stack": ("h", block)})


def llama(config: TransformerConfig) -> Layout:
    """LLaMA, whose gate and up stand in two matrices."""
    block = {
        "norm_attention": _from("input_layernorm"),
        "attention.q_proj": _from("self_attn.q_proj"),
        "attention.kv_proj": _from("self_attn.k_proj", "self_attn.v_proj"),
        "attention.o_proj": _from("self_attn.o_proj"),
        "norm_feed_forward": _from("post_attention_layernorm"),
        "feed_forward.up": _from("mlp.gate_proj", "mlp.up_proj"),
        "feed_forward.down": _from("mlp.down_proj"),
    }
    outside = {"embedding": _from("embed_tokens"), "stack.final_norm": _from("norm")}
    return Layout(prefixes=("model.",), outside=outside, blocks={"stack": ("layers", block)})


def t5(config: TransformerConfig) -> Layout:
    """T5, plain or gated, whose sub-layers are numbered and each begin with their norm."""

    def attention(ours: str, theirs: str) -> Rules:
        layer, _ = theirs.rsplit(".", 1)
        return {
            f"{ours}.q_proj": _from(f"{theirs}.q"),
            f"{ours}.kv_proj": _from(f"{theirs}.k", f"{theirs}.v"),
            f"{ours}.o_proj": _from(f"{theirs}.o"),
            f"norm_{ours}": _from(f"{layer}.layer_norm"),
        }

    def feed_forward(layer: str) -> Rules:
        up = ("wi_0", "wi_1") if config.activation in GATED else ("wi",)
        return {
            "norm_feed_forward": _from(f"{layer}.layer_norm"),
            "feed_forward.up": _from(*(f"{layer}.DenseReluDense.{name}" for name in up)),
            "feed_forward.down": _from(f"{layer}.DenseReluDense.wo"),
        }

    outside = {"embedding": _from("shared")}
    for side in ("encoder", "decoder"):
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias"
        outside[f"{side}.position.table"] = _from(bias)
        outside[f"{side}.final_norm"] = _from(f"{side}.final_layer_norm")
    oneself = attention("attention", "layer.0.SelfAttention")
    source = attention("cross", "layer.1.EncDecAttention")
    blocks = {
        "encoder": ("encoder.block", oneself | feed_forward("layer.1")),
        "decoder": ("decoder.block", oneself | source | feed_forward("layer.2")),
    }
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    return Layout(outside=outside, blocks=blocks, copies=copies)


LAYOUTS: dict[str, Callable[[TransformerConfig], Layout]] = {
    "gpt2": gpt2,
    "openai-gpt": openai_gpt,
    "opt": opt,
    "bloom": bloom,
    "llama": llama,
    "t5": t5,
}
