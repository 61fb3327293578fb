"""Weights for our models: published ones, a folder of them, torch's own Transformer's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.models.block import Block
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.pretrained.config import FAMILIES, config_from
from unrolled.models.pretrained.layouts import LAYOUTS
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.validate import checked, one_of

_MODELS = {"t5": EncoderDecoder, "bert": Encoder}  # the others: TransformerLM
_ACTIVATIONS = {F.relu: "relu", F.gelu: "gelu"}  # of torch's Transformer
_HEAD = "lm_head.weight"
# Constants that older files carry along: masks, angles, a bias that cross-attention never used; and
# the heads of BERT's two tasks, which are no part of an `Encoder`.
_LEFT_OUT = re.compile(
    r"\.attn\.(masked_)?bias$|rotary_emb\.inv_freq$|^(embeddings\.)?position_ids$"
    r"|EncDecAttention\.relative_attention_bias\.weight$|^pooler\.|^cls\."
)


@torch.no_grad()
@checked
def load(
    model: TransformerLM | Encoder | EncoderDecoder | Block,
    state_dict: Mapping[str, Tensor],
    family: str,
) -> None:
    """Copy a state dict that has the names of `transformers` into a model of ours, or into a block.

    model: built as `config_from` says: weights do not show the number of heads, the activation,
    a norm's ε. A `Block` takes the weights of one block, of the first's names without "h.0.".
    A model with position "rotary-interleaved" takes LLaMA's weights, too, and gives their logits.
    state_dict: with or without the leading prefix ("transformer.", "model."), of any dtype and on
    any device. family: one of FAMILIES.

    Raises TypeError for a model of another kind than the family's; ValueError for a configuration
    that is not the family's, for names that are missing or have no place in the model, and for
    shapes that do not fit. Then nothing has been copied.
    """
    _check_model(model, family)
    layout, own = LAYOUTS[family], model.state_dict()
    given, copies = _short_names(state_dict, layout.prefixes), set(layout.copies)
    if isinstance(model, Block):
        layout = layout.of_block(model.cross is not None)
    if "head.weight" in own and model.config.tie_embeddings:
        del own["head.weight"]
        copies.add(_HEAD)
    sources = {}
    for ours in own:
        module, _, kind = ours.rpartition(".")
        modules, make = layout.source(module, model.config)
        sources[ours] = [f"{name}.{kind}" for name in modules], make
    _check_names({name for names, _ in sources.values() for name in names}, given.keys(), copies)
    for name in copies & given.keys():
        (embedding,), _ = sources["embedding.weight"]
        if not torch.equal(given[name], given[embedding]):
            hint = ": build the model with tie_embeddings=False" if name == _HEAD else ""
            raise ValueError(f"{name} is another matrix than {embedding}{hint}")
    made = {
        ours: _convert(ours, own[ours], {name: given[name] for name in names}, make, model.config)
        for ours, (names, make) in sources.items()
    }
    for ours, tensor in made.items():
        own[ours].copy_(tensor)


def _convert(ours: str, weight: Tensor, theirs: dict[str, Tensor], make, config) -> Tensor:
    """Our weight from theirs, or ValueError with the shapes."""
    parts = list(theirs.values())
    try:
        made = make(torch.cat(parts) if len(parts) > 1 else parts[0], config)
    except (RuntimeError, IndexError):  # they cannot be put together or cut
        made = None
    if made is None or made.shape != weight.shape:
        shapes = " and ".join(f"{name} {tuple(x.shape)}" for name, x in theirs.items())
        raise ValueError(f"{shapes} cannot fill {ours} {tuple(weight.shape)}")
    return made


def _short_names(state_dict: Mapping[str, Tensor], prefixes: tuple[str, ...]) -> dict[str, Tensor]:
    """The weights by their names without a prefix, and without what is left out."""
    given = {}
    for name, tensor in state_dict.items():
        prefix = next((p for p in prefixes if name.startswith(p)), "")
        short = name.removeprefix(prefix)
        if short in given:
            raise ValueError(f"{short} is there twice, with the prefix {prefix!r} and without")
        if not _LEFT_OUT.search(short):
            given[short] = tensor
    return given


def _check_model(model, family: str) -> None:
    expected = _MODELS.get(one_of("family", family, FAMILIES), TransformerLM)
    if not isinstance(model, (expected, Block)):
        raise TypeError(f"{family} goes into {expected.__name__}, got {type(model).__name__}")
    form, config = dict(FAMILIES[family]), model.config
    if config.has_rotary and family == "llama" and config.rotary_dim == config.head_dim:
        del form["position"]  # in either layout
    if wrong := {k: v for k, v in form.items() if getattr(config, k) != v}:
        listed = ", ".join(f"{k}={v!r}, not {getattr(config, k)!r}" for k, v in wrong.items())
        raise ValueError(f"{family} has {listed}")


def _check_names(needed: Set[str], given: Set[str], copies: Set[str]) -> None:
    said = []
    if missing := sorted(needed - given):
        said.append(f"{_listed(missing)} missing")
    if unused := sorted(given - needed - copies):
        said.append(f"the model has no place for {_listed(unused)}")
    if _HEAD in missing:
        said.append("a reference without a head is tied: build the model with tie_embeddings=True")
    if said:
        raise ValueError(f"these are not the weights of this model: {'; '.join(said)}")


def _listed(names: list[str], at_most: int = 8) -> str:
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more


@checked
def load_pretrained(folder: str | Path) -> nn.Module:
    """The model of a folder with `config.json` and its weights, in evaluation mode.

    folder: as it was downloaded: the weights in *.safetensors (which need the package safetensors)
    or pytorch_model*.bin, in one file or several. The model is a `TransformerLM`, for BERT an
    `Encoder`, for T5 an `EncoderDecoder`. Raises FileNotFoundError for a missing file, ValueError
    for a family that ours are not (see FAMILIES), and as `config_from` and `load` do.
    """
    folder = Path(folder)
    reference = json.loads((folder / "config.json").read_text("utf8"))
    family = reference.get("model_type", "of no model_type")
    config = config_from(reference, family)
    model = _MODELS.get(family, TransformerLM)(config)
    load(model, _weights(folder), family)
    return model.eval()


def _weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of the folder's files by their names."""
    if files := sorted(folder.glob("*.safetensors")):
        from safetensors.torch import load_file as read
    elif files := sorted(folder.glob("pytorch_model*.bin")):

        def read(path: Path) -> dict[str, Tensor]:
            return torch.load(path, map_location="cpu", weights_only=True)
    else:
        raise FileNotFoundError(f"{folder} has neither *.safetensors nor pytorch_model*.bin")
    return {name: x for path in files for name, x in read(path).items()}


@checked
def from_torch(theirs: nn.Transformer, vocab_size: int, **others: object) -> EncoderDecoder:
    """Our model with the blocks of torch's, in its dtype, on its device, and in its mode.

    torch's has neither embedding nor positions nor head. They are ours, from `others`, which are
    fields of `TransformerConfig`: context_length, position, tie_embeddings, …, and have fresh
    weights. With position="none" and s, t our embeddings of source and target, model.hidden is
    torch's output for s, t and a causal tgt_mask. Its other masks are True where one may *not*
    attend.

    torch's norm after each stack is there even where norms come last, unlike in the paper:
    final_norm=True. Raises ValueError for stacks that differ in depth, for a norm after one stack
    only, and for an activation other than relu and gelu.
    """
    layer, stacks = theirs.encoder.layers[0], (theirs.encoder, theirs.decoder)
    depths, norms = [len(s.layers) for s in stacks], [s.norm is not None for s in stacks]
    if len(set(depths)) > 1 or len(set(norms)) > 1:
        raise ValueError(f"expected stacks alike, got layers {depths} and last norms {norms}")
    if layer.activation not in _ACTIVATIONS:
        raise ValueError(f"activation must be relu or gelu, got {layer.activation}")
    config = TransformerConfig(**{
        "vocab_size": vocab_size, "d_model": theirs.d_model, "n_layers": depths[0],
        "n_heads": theirs.nhead, "d_ff": layer.linear1.out_features, "final_norm": norms[0],
        "activation": _ACTIVATIONS[layer.activation], "norm_first": layer.norm_first,
        "norm_eps": layer.norm1.eps, "bias": layer.linear1.bias is not None,
        "dropout": layer.dropout.p,
    } | others)  # fmt: skip
    model = EncoderDecoder(config).to(layer.linear1.weight).train(theirs.training)
    for ours, stack in zip((model.encoder, model.decoder), stacks, strict=True):
        for block, layer in zip(ours.blocks, stack.layers, strict=True):
            copy_block(layer, block)
        if stack.norm is not None:
            ours.final_norm.load_state_dict(stack.norm.state_dict())
    return model


@torch.no_grad()
def copy_block(theirs: nn.Module, ours: Block) -> None:
    """Copy the weights of torch's encoder layer, or of its decoder layer, into a block of ours."""
    attentions, norms = [(theirs.self_attn, ours.attention)], [ours.norm_attention]
    if ours.cross is not None:
        attentions.append((theirs.multihead_attn, ours.cross))
        norms.append(ours.norm_cross)
    for a, b in attentions:
        projections = b.q_proj, b.k_proj, b.v_proj
        for kind in b.q_proj.state_dict():
            parts: tuple[Tensor, ...] = getattr(a, f"in_proj_{kind}").chunk(3)
            for part, linear in zip(parts, projections, strict=True):
                getattr(linear, kind).copy_(part)
        b.o_proj.load_state_dict(a.out_proj.state_dict())
    for n, norm in enumerate([*norms, ours.norm_feed_forward], 1):
        norm.load_state_dict(getattr(theirs, f"norm{n}").state_dict())
    ours.feed_forward.up.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.down.load_state_dict(theirs.linear2.state_dict())
