"""Blocks whose sub-layers stand side by side: by hand, and as published models compute them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from unrolled.accounting.cost import parameters
from unrolled.models.block import Block
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

DTYPE = torch.float64
V, D, H, HIDDEN, LAYERS, B, T, CONTEXT = 23, 24, 3, 19, 2, 5, 7, 11
TOLERANCE = 1e-5  # theirs turn by angles in single precision
ENDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
SIZES = {"vocab_size": V, "d_model": D, "n_layers": LAYERS, "n_heads": H, "d_ff": HIDDEN}


def config(**changes) -> TransformerConfig:
    sizes = SIZES | {"context_length": CONTEXT, "position": "rotary-interleaved", "parallel": True}
    return TransformerConfig(**sizes | changes)


def randomised(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.eval()


def test_both_sub_layers_read_one_norm_and_add_to_one_stream():
    block, x = randomised(Block(config(), causal=True)), torch.randn(B, T, D)
    read = block.norm_attention(x)
    expected = x + block.attention(read, causal=True) + block.feed_forward(read)
    assert_close(block(x), expected, rtol=0, atol=1e-14)
    in_turn = x + block.attention(read, causal=True)
    in_turn = in_turn + block.feed_forward(block.norm_attention(in_turn))
    assert (block(x) - in_turn).abs().max() > 0.1


def test_with_a_source_cross_attention_stands_beside_them():
    block = randomised(Block(config(position="none"), causal=True, cross=True))
    x, source = torch.randn(B, T, D), torch.randn(B, 13, D)
    read = block.norm_attention(x)
    expected = x + block.attention(read, causal=True) + block.cross(read, source)
    assert_close(block(x, source=source), expected + block.feed_forward(read), rtol=0, atol=1e-14)
    model = EncoderDecoder(config())
    assert model(torch.randint(V, (B, 3)), torch.randint(V, (B, T))).shape == (B, T, V)


def test_a_block_has_one_norm_less():
    both = parameters(config()), parameters(config(parallel=False))
    assert both[1]["norms"] - both[0]["norms"] == LAYERS * 2 * D
    assert {k for k in both[0] if both[0][k] != both[1][k]} == {"norms", "total"}


def test_gradients_agree_with_finite_differences():
    block = randomised(Block(config(d_model=6, n_kv_heads=1, head_dim=2, d_ff=3), causal=True))
    names = [name for name, _ in block.named_parameters()]

    def f(x, *values):
        named = dict(zip(names, values, strict=True))
        return torch.func.functional_call(block, named, (x,))

    inputs = [torch.randn(1, 3, 6), *(p.detach().clone() for p in block.parameters())]
    assert torch.autograd.gradcheck(f, [x.requires_grad_() for x in inputs], fast_mode=True)


def test_dropout_acts_on_each_sub_layer_alone():
    block, x = (
        randomised(Block(config(residual_dropout=0.5), causal=True)).train(),
        torch.ones(B, T, D),
    )
    calls = []
    block.dropout.register_forward_hook(lambda *_: calls.append(1))
    block(x)
    assert len(calls) == 2


# --- published models ----------------------------------------------------------------------------


def gptj(transformers):
    """GPT-J: biases in the feed-forward layer and the head only, part of each head turns."""
    theirs = transformers.GPTJForCausalLM(transformers.GPTJConfig(
        vocab_size=V, n_embd=D, n_layer=LAYERS, n_head=H, n_positions=CONTEXT, rotary_dim=4,
        n_inner=HIDDEN, **ENDS,
    ))  # fmt: skip
    ours = TransformerLM(config(rotary_dim=4, tie_embeddings=False))
    places = {
        "norm_attention": "ln_1", "attention.q_proj": "attn.q_proj",
        "attention.k_proj": "attn.k_proj", "attention.v_proj": "attn.v_proj",
        "attention.o_proj": "attn.out_proj", "feed_forward.up": "mlp.fc_in",
        "feed_forward.down": "mlp.fc_out",
    }  # fmt: skip
    outside = {"embedding": "wte", "stack.final_norm": "ln_f"}
    return theirs, ours, theirs.transformer, theirs.transformer.h, places, outside


def cohere(transformers):
    """Command R: like PaLM without biases, with a gated layer and keys shared by all heads."""
    theirs = transformers.CohereForCausalLM(transformers.CohereConfig(
        vocab_size=V, hidden_size=D, intermediate_size=HIDDEN, num_hidden_layers=LAYERS,
        num_attention_heads=H, num_key_value_heads=1, max_position_embeddings=CONTEXT,
        logit_scale=1.0,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0}, **ENDS,
    ))  # fmt: skip
    ours = TransformerLM(config(n_kv_heads=1, bias=False, activation="swiglu"))
    places = {
        "norm_attention": "input_layernorm", "feed_forward.up": "mlp.gate_proj+mlp.up_proj",
        "feed_forward.down": "mlp.down_proj",
    } | {f"attention.{c}_proj": f"self_attn.{c}_proj" for c in "qkvo"}  # fmt: skip
    outside = {"embedding": "embed_tokens", "stack.final_norm": "norm"}
    return theirs, ours, theirs.model, theirs.model.layers, places, outside


@torch.no_grad()
def copied(theirs, ours, body, layers, places, outside):
    """Ours with theirs' random weights; a bias that they do not have is 0."""
    randomised(theirs.double())
    pairs = [(f"stack.blocks.{i}.{a}", layer, b)
             for i, layer in enumerate(layers) for a, b in places.items()]  # fmt: skip
    pairs += [(a, body, b) for a, b in outside.items()]
    for name, owner, names in pairs:
        mine = ours.get_submodule(name)
        parts = [owner.get_submodule(part) for part in names.split("+")]
        mine.weight.copy_(torch.cat([part.weight for part in parts]))
        if getattr(mine, "bias", None) is not None:
            bias = getattr(parts[0], "bias", None)
            mine.bias.copy_(torch.zeros_like(mine.bias) if bias is None else bias)
    if not ours.config.tie_embeddings:
        ours.head.weight.copy_(theirs.lm_head.weight)
        theirs.lm_head.bias.zero_()
    return theirs, ours.eval()


@pytest.fixture(params=[gptj, cohere])
def pair(transformers, request, monkeypatch):
    if request.param is cohere:
        from transformers.models.cohere.modeling_cohere import CohereLayerNorm

        def forward(self, x):  # theirs norms in single precision on purpose
            return F.layer_norm(x, x.shape[-1:], self.weight, None, self.variance_epsilon)

        monkeypatch.setattr(CohereLayerNorm, "forward", forward)
    return copied(*request.param(transformers))


def test_logits_are_the_references(pair):
    theirs, ours = pair
    tokens = torch.randint(V, (B, T))
    expected = theirs(tokens).logits
    assert expected.std() > 0.1
    assert_close(ours(tokens), expected, rtol=0, atol=TOLERANCE)


def test_logits_under_padding_are_the_references(pair):
    theirs, ours = pair
    tokens, lengths = torch.randint(V, (B, T)), torch.tensor([7, 4, 1, 6, 2])
    mask = torch.arange(T) < lengths[:, None]
    expected = theirs(tokens, attention_mask=mask.long()).logits
    assert_close(ours(tokens, mask)[mask], expected[mask], rtol=0, atol=TOLERANCE)


def test_the_gradient_of_the_embeddings_is_the_references(pair):
    theirs, ours = pair
    tokens = torch.randint(1, V, (B, T))  # theirs learns nothing of token 0, its padding
    weights = torch.linspace(-1, 2, B * T * V).view(B, T, V)
    (weights * ours(tokens)).sum().backward()
    (weights * theirs(tokens).logits).sum().backward()
    expected = theirs.get_input_embeddings().weight.grad
    assert_close(ours.embedding.weight.grad, expected, rtol=1e-5, atol=1e-4)


def test_reading_in_pieces_with_a_cache_is_the_references(pair):
    theirs, ours = pair
    tokens, cache, past, got, expected = torch.randint(V, (B, T)), ours.new_cache(), None, [], []
    with torch.no_grad():
        for part in tokens.tensor_split([3, 4], 1):
            result = theirs(part, past_key_values=past, use_cache=True)
            past = result.past_key_values
            expected.append(result.logits)
            got.append(ours(part, cache=cache))
    assert_close(torch.cat(got, 1), torch.cat(expected, 1), rtol=0, atol=TOLERANCE)
