"""torch.nn.Transformer as an `EncoderDecoder`: the same settings, the same weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.models.block import Block
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.transformer_config import TransformerConfig
from unrolled.validate import checked

_ACTIVATIONS = {F.relu: "relu", F.gelu: "gelu"}


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
