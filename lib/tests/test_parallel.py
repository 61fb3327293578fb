"""Blocks whose sub-layers stand side by side: by hand, and as a published model computes them."""

import pytest
import torch
from comparing import close, randomised, up_to
from unrolled.models.block import Block
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

DTYPE = torch.float64
V, D, H, HIDDEN, LAYERS, B, T, CONTEXT = 23, 24, 3, 19, 2, 5, 7, 11
TOLERANCE = 1e-5  # theirs turn by angles in single precision


def config(**changes) -> TransformerConfig:
    sizes = dict(vocab_size=V, d_model=D, n_layers=LAYERS, n_heads=H, d_ff=HIDDEN)
    kind = dict(context_length=CONTEXT, position="rotary-interleaved", parallel=True)
    return TransformerConfig(**sizes | kind | changes)


@pytest.mark.parametrize("cross", [False, True])
def test_all_sub_layers_read_one_norm_and_add_to_one_stream(cross):
    position = "none" if cross else "rotary-interleaved"
    block = randomised(Block(config(position=position), causal=True, cross=cross))
    x, source = torch.randn(B, T, D), torch.randn(B, 13, D) if cross else None
    read = block.norm_attention(x)
    parts = [block.attention(read, causal=True), block.feed_forward(read)]
    parts += [block.cross(read, source)] if cross else []
    close(block(x, source=source), x + sum(parts), 1e-13)


def test_dropout_acts_on_each_sub_layer_alone():
    block, calls = Block(config(residual_dropout=0.5), causal=True), []
    block.dropout.register_forward_hook(lambda *_: calls.append(1))
    block(torch.ones(B, T, D))
    assert len(calls) == 2


def gptj(transformers):
    """(GPT-J, ours with its random weights): biases in the feed-forward layer only, untied."""
    theirs = transformers.GPTJForCausalLM(transformers.GPTJConfig(
        vocab_size=V, n_embd=D, n_layer=LAYERS, n_head=H, n_positions=CONTEXT, rotary_dim=4,
        n_inner=HIDDEN, bos_token_id=0, eos_token_id=0, pad_token_id=0,
    ))  # fmt: skip
    ours, state = TransformerLM(config(rotary_dim=4, tie_embeddings=False)), {}
    names = {
        "norm_attention": "ln_1", "attention.q_proj": "attn.q_proj",
        "attention.k_proj": "attn.k_proj", "attention.v_proj": "attn.v_proj",
        "attention.o_proj": "attn.out_proj", "feed_forward.up": "mlp.fc_in",
        "feed_forward.down": "mlp.fc_out",
    }  # fmt: skip
    places = {f"stack.blocks.{i}.{a}": f"transformer.h.{i}.{b}"
              for i in range(LAYERS) for a, b in names.items()}  # fmt: skip
    places |= {"embedding": "transformer.wte", "stack.final_norm": "transformer.ln_f"}
    randomised(theirs.double(), 0.3).eval().lm_head.bias.data.zero_()
    given = theirs.state_dict()
    for name, x in ours.state_dict().items():
        place, _, kind = name.rpartition(".")
        state[name] = given.get(f"{places.get(place, 'lm_head')}.{kind}", torch.zeros_like(x))
    ours.load_state_dict(state)
    return theirs, ours.eval()


def test_logits_under_padding_pieces_and_gradients_are_those_of_gpt_j(transformers):
    theirs, ours = gptj(transformers)
    tokens, mask = torch.randint(1, V, (B, T)), up_to(7, 4, 1, 6, 2, width=T)
    got, expected = ours(tokens, mask)[mask], theirs(tokens, attention_mask=mask).logits[mask]
    assert expected.std() > 0.1
    close(got, expected, TOLERANCE)
    weights = torch.linspace(-1, 2, got.numel()).view_as(got)
    (weights * got).sum().backward()
    (weights * expected).sum().backward()
    gradient = theirs.get_input_embeddings().weight.grad
    torch.testing.assert_close(ours.embedding.weight.grad, gradient, rtol=1e-5, atol=1e-4)
    cache, past = ours.new_cache(), None
    with torch.no_grad():
        for part in tokens.tensor_split([3, 4], 1):
            result = theirs(part, past_key_values=past, use_cache=True)
            past = result.past_key_values
            close(ours(part, cache=cache), result.logits, TOLERANCE)
