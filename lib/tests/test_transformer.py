"""Transformers against torch's layers and published sizes, and by how every one must behave."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, asdict, fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.nn import functional as F
from torch.testing import assert_close
from unrolled.models import attention as attention_module
from unrolled.models import masks
from unrolled.models import transformer as transformer_module
from unrolled.models.block import Block
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.heads import attention_weights
from unrolled.models.kv_cache import KVCache
from unrolled.models.masks import causal_mask, padding_mask
from unrolled.models.positions import sinusoidal
from unrolled.models.pretrained.from_torch import copy_block
from unrolled.models.transformer import Encoder, Stack, TransformerLM
from unrolled.models.transformer_config import POSITIONS, PRESETS, TransformerConfig, preset
from unrolled_book.behaviour import (
    BehaviourError,
    check_batch,
    check_cache,
    check_causal,
    check_order,
    check_padding,
    check_permutation,
    check_source,
)

V, D, H, HIDDEN, LAYERS, B, T, S, CONTEXT = 23, 12, 3, 19, 2, 5, 7, 11, 17
DTYPE = torch.float64
every_position = pytest.mark.parametrize("position", POSITIONS)
both_places = pytest.mark.parametrize("norm_first", [True, False])
# Besides the seven kinds of position: what else changes who reads whom.
VARIANTS = {
    "window": {"window": 3, "position": "rotary"},
    "grouped": {"n_kv_heads": 1, "position": "alibi"},
    "gated": {"bias": False, "activation": "swiglu", "window": 2, "position": "alibi"},
    "embedding norm": {"embedding_norm": True, "norm": "rms", "tie_embeddings": False},
    "narrow heads": {"head_dim": 10, "position": "rotary", "rotary_dim": 6},
    "parallel": {"parallel": True, "position": "rotary-interleaved", "n_kv_heads": 1},
    "2017": {"norm_first": False, "position": "sinusoidal", "scale_embedding": True},
    "t5": {"norm": "rms", "position": "relative", "scale_scores": False, "scale_logits": True,
           "n_buckets": 8, "max_distance": 6},
}  # fmt: skip
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def config(**changes) -> TransformerConfig:
    """A small configuration with large weights, so that whatever is wrong shows."""
    sizes = {"vocab_size": V, "d_model": D, "n_layers": LAYERS, "n_heads": H, "d_ff": HIDDEN}
    return TransformerConfig(**(sizes | {"context_length": CONTEXT, "init_std": 0.5} | changes))


def close(got, expected, tolerance=1e-12):
    assert_close(got, expected, rtol=0, atol=tolerance)


def randomised(module):
    """The module with random biases and norms as well."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)
    return module


def language_model(**changes) -> TransformerLM:
    return randomised(TransformerLM(config(**changes))).eval()


def tokens(*shape) -> torch.Tensor:
    return torch.randint(V, shape or (B, T))


def lengths_mask(*lengths, width=T):
    return torch.arange(width) < torch.tensor(lengths)[:, None]


# --- configuration -------------------------------------------------------------------------------


def test_a_configuration_fills_in_what_follows():
    c = config(d_ff=None, position="rotary", dropout=0.1, residual_dropout=0.0)
    assert (c.n_kv_heads, c.head_dim, c.d_ff, c.rotary_dim) == (3, 4, 48, 4)
    assert (c.attention_dropout, c.residual_dropout, c.embedding_dropout) == (0.1, 0.0, 0.1)
    c = config(head_dim=10, d_ff=19, rotary_dim=6, position="rotary")
    assert (c.head_dim, c.d_ff, c.rotary_dim) == (10, 19, 6)


def test_a_configuration_cannot_be_changed_but_replaced():
    with pytest.raises(FrozenInstanceError):
        config().d_model = 24
    c = config(d_ff=None).replace(d_model=24)
    assert (c.head_dim, c.d_ff, c.replace(n_heads=2).head_dim) == (8, 96, 12)
    assert TransformerConfig(**asdict(c)) == c


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_heads": 5}, "n_heads=5 does not divide d_model=12"),
        ({"parallel": True, "norm_first": False}, "parallel=True needs norm_first=True"),
        ({"n_kv_heads": 2}, "n_kv_heads=2 does not divide n_heads=3"),
        ({"norm_first": "post"}, "norm_first must be one of True, False, got 'post'"),
        ({"norm": "batch"}, "norm must be one of layer, rms, got 'batch'"),
        ({"position": "absolute"}, "position must be one of .* got 'absolute'"),
        ({"activation": "tanh"}, "activation must be one of .* got 'tanh'"),
        ({"implementation": "fast"}, "implementation must be one of .* got 'fast'"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"attention_dropout": -0.1}, "attention_dropout must be at least 0 and below 1"),
        ({"init_std": -1.0}, "init_std must be at least 0, got -1.0"),
        ({"norm_eps": math.nan}, "norm_eps must be finite, got nan"),
        ({"rope_theta": 0}, "rope_theta must be above 0, got 0"),
        ({"d_model": 15, "position": "sinusoidal"}, "an even d_model, got 15"),
        ({"head_dim": 5, "position": "rotary"}, "even and at most head_dim=5, got 5"),
        ({"rotary_dim": 6, "position": "rotary"}, "at most head_dim=4, got 6"),
        ({"rotary_dim": 3, "position": "rotary-interleaved"}, "head_dim=4, got 3"),
        *(({name: 0}, f"{name} must be at least 1, got 0") for name in (
            "n_layers", "window", "vocab_size", "context_length", "d_ff", "head_dim",
            "n_kv_heads", "n_buckets")),
    ],
)  # fmt: skip
def test_settings_that_exclude_each_other_are_refused_with_the_numbers(changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)


@pytest.mark.parametrize("name", ["n_layers", "window", "d_ff", "n_token_types", "max_distance"])
@pytest.mark.parametrize("value", [2.5, math.nan, "3"])
def test_sizes_are_whole_numbers(name, value):
    with pytest.raises(TypeError, match=f"{name} must be an integer, got"):
        config(**{name: value})


def test_presets_are_found_by_name_and_may_be_changed():
    assert preset("gpt2") == PRESETS["gpt2"]
    small = preset("gpt2", n_layers=2, d_model=24)
    assert (small.n_layers, small.d_model, small.n_heads, small.d_ff) == (2, 24, 12, 96)
    with pytest.raises(KeyError, match="no preset 'gpt5'; there are transformer-2017, bert-base,"):
        preset("gpt5")
    with pytest.raises(ValueError, match="n_heads=12 does not divide d_model=25"):
        preset("gpt2", d_model=25)
    with pytest.raises(TypeError, match="width"):
        preset("gpt2", width=3)


# Counted as the published weights are, position tables included, BERT's without its two heads.
PUBLISHED = {
    "bert-base": (Encoder, 109_482_240 - 590_592),
    "gpt2": (TransformerLM, 124_439_808),
    "gpt3": (TransformerLM, pytest.approx(175.0e9, rel=3e-3)),
    "llama-7b": (TransformerLM, 6_738_415_616),
    "llama2-70b": (TransformerLM, 68_976_648_192),
    "t5-small": (EncoderDecoder, 60_506_624),
    # its vocabulary is "about 37 000"
    "transformer-2017": (EncoderDecoder, pytest.approx(65e6, rel=0.04)),
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_as_many_parameters_as_published(name):
    kind, expected = PUBLISHED[name]
    with torch.device("meta"):  # shapes without numbers
        model = kind(PRESETS[name])
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


# --- initialisation ------------------------------------------------------------------------------


def test_matrices_begin_with_the_spread_asked_for_and_the_last_of_each_layer_smaller():
    model = TransformerLM(
        config(d_model=120, d_ff=480, init_std=0.3, n_layers=8, tie_embeddings=False)
    )
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        elif "norm" in name:
            assert (parameter == 1).all()
        else:
            last = name.endswith(("o_proj.weight", "down.weight"))
            expected = 0.3 / math.sqrt(16) if last else 0.3
            error = 5 * expected / math.sqrt(2 * parameter.numel())
            assert abs(parameter.std().item() - expected) < error, name
            assert abs(parameter.mean().item()) < 5 * expected / math.sqrt(parameter.numel()), name


def test_one_seed_gives_one_model():
    models = []
    for _ in range(2):
        torch.manual_seed(7)
        models.append(TransformerLM(config(position="relative")))
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        close(one, other, 0)


def test_a_fresh_model_knows_nothing():
    model = TransformerLM(config(init_std=0.02))
    x = tokens(B, T + 1)
    loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    assert abs(loss.item() - math.log(V)) < 0.02


# --- blocks and stacks are torch's ---------------------------------------------------------------


def torchs_layer(kind, norm_first, activation, bias=True):
    """In training mode, where torch takes no shortcut; without dropout it computes the same."""
    return kind(
        D, H, HIDDEN, dropout=0.0, activation=activation, batch_first=True,
        norm_first=norm_first, bias=bias,
    )  # fmt: skip


def equal_with_gradients(ours, theirs, inputs, tolerance=1e-12):
    results = []
    for f in (ours, theirs):
        output = f()
        weights = torch.linspace(-1, 2, output.numel(), device=output.device).view(output.shape)
        results.append((output, *torch.autograd.grad((weights * output).sum(), inputs)))
    for got, expected in zip(*results, strict=True):
        close(got, expected, tolerance)


@both_places
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [False, True])
def test_a_block_is_torchs_encoder_layer(norm_first, activation, bias, masked, device):
    theirs = torchs_layer(nn.TransformerEncoderLayer, norm_first, activation, bias)
    theirs = randomised(theirs).to(device)
    block = Block(
        config(norm_first=norm_first, activation=activation, bias=bias), causal=masked
    ).to(device)
    copy_block(theirs, block)
    x = torch.randn(B, T, D, device=device, requires_grad=True)
    real = lengths_mask(7, 4, 1, 6, 2).to(device) if masked else None
    may_not = ~causal_mask(T, device=device) if masked else None  # torch: True = may not attend
    equal_with_gradients(
        lambda: block(x, None if real is None else padding_mask(real)),
        lambda: theirs(
            x, src_mask=may_not, src_key_padding_mask=None if real is None else ~real
        ),
        [x],
    )  # fmt: skip


@both_places
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_block_with_a_source_is_torchs_decoder_layer(norm_first, activation, device):
    theirs = torchs_layer(nn.TransformerDecoderLayer, norm_first, activation)
    theirs = randomised(theirs).to(device)
    block = Block(config(norm_first=norm_first, activation=activation), causal=True, cross=True)
    copy_block(theirs, block.to(device))
    x = torch.randn(B, T, D, device=device, requires_grad=True)
    source = torch.randn(B, S, D, device=device, requires_grad=True)
    real, read = lengths_mask(7, 4, 1, 6, 2), lengths_mask(11, 1, 5, 3, 2, width=S)
    real, read = real.to(device), read.to(device)
    equal_with_gradients(
        lambda: block(x, padding_mask(real), source=source, source_mask=padding_mask(read)),
        lambda: theirs(
            x, source, tgt_mask=~causal_mask(T, device=device), tgt_key_padding_mask=~real,
            memory_key_padding_mask=~read,
        ),
        [x, source],
    )  # fmt: skip


@both_places
def test_stacks_are_torchs_encoder_and_decoder(norm_first, device):
    c = config(norm_first=norm_first, activation="relu", position="none", n_layers=3)
    pre = norm_first  # torch leaves it to its user to add the last norm
    lasts = [nn.LayerNorm(D) if pre else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        torchs_layer(nn.TransformerEncoderLayer, norm_first, "relu"), 3, lasts[0],
        enable_nested_tensor=False,
    )  # fmt: skip
    layer = torchs_layer(nn.TransformerDecoderLayer, norm_first, "relu")
    decoder = nn.TransformerDecoder(layer, 3, lasts[1])
    ours = Stack(c, causal=False).to(device), Stack(c, causal=True, cross=True).to(device)
    for theirs, stack in zip((encoder, decoder), ours, strict=True):
        randomised(theirs).to(device)
        for a, b in zip(theirs.layers, stack.blocks, strict=True):
            copy_block(a, b)
        if pre:
            stack.final_norm.load_state_dict(theirs.norm.state_dict())
    x = torch.randn(B, S, D, device=device, requires_grad=True)
    y = torch.randn(B, T, D, device=device, requires_grad=True)
    equal_with_gradients(
        lambda: ours[1](y, source=ours[0](x)),
        lambda: decoder(y, encoder(x), tgt_mask=~causal_mask(T, device=device)),
        [x, y],
    )


@both_places
def test_gradients_of_a_block_agree_with_finite_differences(norm_first):
    c = config(d_model=4, n_heads=2, n_kv_heads=1, d_ff=3, norm_first=norm_first)
    block = randomised(Block(c, causal=True, cross=True))
    names = [name for name, _ in block.named_parameters()]

    def f(x, source, *parameters):
        named = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(block, named, (x,), {"source": source})

    inputs = torch.randn(1, 3, 4), torch.randn(1, 2, 4)
    inputs = [*inputs, *(p.detach().clone() for p in block.parameters())]
    assert torch.autograd.gradcheck(f, [x.requires_grad_() for x in inputs], fast_mode=True)


# --- the language model --------------------------------------------------------------------------


@every_position
@both_places
def test_no_output_reads_a_later_token(position, norm_first, device):
    model = language_model(position=position, norm_first=norm_first).to(device)
    check_causal(model, tokens().to(device))
    x = model.embed(tokens().to(device)).detach().requires_grad_()
    for i in range(T):
        (gradient,) = torch.autograd.grad(model.logits(model.stack(x))[:, i].sum(), x)
        assert not gradient[:, i + 1 :].any()
        assert gradient[:, : i + 1].any(-1).all() or position == "none"


@every_variant
def test_variants_read_no_later_token_either(variant):
    check_causal(language_model(**VARIANTS[variant]), tokens())


@every_position
@both_places
def test_reading_in_pieces_is_reading_at_once(position, norm_first, device):
    model = language_model(position=position, norm_first=norm_first).to(device)
    check_cache(model, tokens().to(device), tolerance=1e-10)


@every_variant
def test_variants_read_in_pieces_as_well(variant):
    check_cache(language_model(**VARIANTS[variant]), tokens(), tolerance=1e-10)


@every_position
def test_padding_changes_nothing(position, device):
    model = language_model(position=position).to(device)
    check_padding(model, tokens().to(device), lengths_mask(7, 4, 1, 6, 2).to(device))


@every_position
def test_sequences_of_a_batch_do_not_see_each_other(position):
    check_batch(language_model(position=position), tokens())


@every_position
def test_the_order_of_tokens_matters_where_there_are_positions(position):
    encoder = randomised(Encoder(config(position=position))).eval()
    if position == "none":
        check_permutation(encoder, tokens())
    else:
        check_order(encoder, tokens())
        with pytest.raises(BehaviourError):
            check_permutation(encoder, tokens())


@settings(max_examples=25, deadline=None)
@given(
    groups=st.integers(1, 2),
    per_group=st.integers(1, 3),
    half=st.integers(1, 3),
    position=st.sampled_from(POSITIONS),
    norm_first=st.booleans(),
    norm=st.sampled_from(["layer", "rms"]),
    activation=st.sampled_from(["relu", "gelu", "swiglu"]),
    window=st.sampled_from([None, 1, 3]),
    bias=st.booleans(),
    cut=st.integers(1, 6),
    seed=st.integers(0, 99),
)
def test_any_model_is_causal_and_reads_in_pieces(
    groups, per_group, half, position, norm_first, norm, activation, window, bias, cut, seed
):
    torch.manual_seed(seed)
    heads = groups * per_group
    model = language_model(
        n_heads=heads, n_kv_heads=groups, d_model=2 * half * heads, position=position,
        norm_first=norm_first, norm=norm, activation=activation, window=window, bias=bias,
    )  # fmt: skip
    x = tokens(2, T)
    logits = model(x)
    assert logits.shape == (2, T, V)
    cache = model.new_cache()
    close(
        torch.cat([model(part, cache=cache) for part in x.tensor_split([cut], 1)], 1), logits, 1e-9
    )
    assert cache.length == T
    other = x.clone()
    other[:, cut:] = tokens(2, T - cut)
    close(model(other)[:, :cut], logits[:, :cut], 0)


def test_a_window_reaches_so_far_per_layer_and_no_further():
    model = language_model(window=3, position="none", n_layers=2)
    x = model.embed(tokens()).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model.stack(x)[:, 6].sum(), x)
    assert not gradient[:, :2].any()  # two layers look back twice two positions
    assert gradient[:, 2:].any(-1).all()


def test_the_weights_collected_are_those_of_every_layer():
    model, x, mask = language_model(n_kv_heads=1), tokens(), lengths_mask(7, 4, 1, 6, 2)
    with attention_weights(model) as found:
        shown = model(x, mask)
    close(shown, model(x, mask))
    assert [w.shape for w in found] == [(B, H, T, T)] * LAYERS
    for weights in found:
        allowed = causal_mask(T) & padding_mask(mask)
        assert not weights[~allowed.expand_as(weights)].any()
        close(weights.sum(-1), torch.ones(B, H, T))


def test_logits_are_the_parts_in_a_row():
    model, x = language_model(norm_first=False, n_layers=1), tokens()
    hidden = model.embedding.weight[x] + model.stack.position.weight[:T]
    hidden = model.stack.blocks[0](hidden)
    close(model(x), hidden @ model.embedding.weight.T)
    assert model.head.weight is model.embedding.weight


def test_scales_of_embeddings_scores_and_logits():
    base = {"position": "none", "n_layers": 1, "tie_embeddings": False}
    x = tokens()
    plain = language_model(**base)
    for changes, expected in (
        (
            {"scale_embedding": True},
            lambda m: m.logits(m.stack(m.embedding(x) * math.sqrt(D))),
        ),
        ({"scale_logits": True}, lambda m: m.head(m.stack(m.embedding(x)) / math.sqrt(D))),
    ):
        model = language_model(**base, **changes)
        close(model(x), expected(model))
    raw = TransformerLM(config(**base, scale_scores=False)).eval()
    raw.load_state_dict(plain.state_dict())
    with torch.no_grad():  # a query that is √K times as long takes the scale back
        raw.stack.blocks[0].attention.q_proj.weight.div_(2)
        raw.stack.blocks[0].attention.q_proj.bias.div_(2)
    close(raw(x), plain(x))


def test_sinusoidal_positions_are_added():
    model, x = language_model(position="sinusoidal", n_layers=1), tokens()
    hidden = model.embed(x) + sinusoidal(T, D)
    expected = model.stack.final_norm(model.stack.blocks[0](hidden))
    close(model(x), model.logits(expected))


@pytest.mark.parametrize(
    ("position", "layout"), [("rotary", "half"), ("rotary-interleaved", "interleaved")]
)
def test_rotary_positions_turn_what_the_configuration_says(position, layout):
    c = config(position=position, rope_theta=7.0, head_dim=10, rotary_dim=6, n_layers=1)
    model, x = randomised(TransformerLM(c)).eval(), tokens()
    rotary = model.stack.blocks[0].attention.rotary
    assert (rotary.base, rotary.layout, rotary.rotary_dim) == (7.0, layout, 6)
    hidden = model.stack.blocks[0](model.embed(x))  # alone it turns as well
    close(model(x), model.logits(model.stack.final_norm(hidden)), 0)


def test_embeddings_are_normed_before_the_first_block():
    model, x = language_model(embedding_norm=True, position="none", n_layers=1), tokens()
    hidden = model.stack.embedding_norm(model.embed(x))
    close(model(x), model.logits(model.stack.final_norm(model.stack.blocks[0](hidden))))


def test_dropout_acts_in_training_only_and_follows_the_seed():
    model, x = language_model(dropout=0.3), tokens()
    close(model(x), model(x), 0)
    model.train()
    torch.manual_seed(1)
    first = model(x)
    assert (model(x) != first).any()
    torch.manual_seed(1)
    close(model(x), first, 0)


def test_a_text_may_be_read_on_in_two_ways():
    model, x, cache = language_model(), tokens(), KVCache(LAYERS)
    model(x[:, :3], cache=cache)
    one, other = tokens(B, 4), tokens(B, 4)
    for ending in (one, other, one):
        got = model(ending, cache=cache.fork())
        close(got, model(torch.cat([x[:, :3], ending], 1))[:, 3:], 1e-10)
    assert cache.length == 3


def test_reading_in_pieces_trains_as_reading_at_once_does():
    model, x = language_model(position="rotary"), tokens()
    model(x).square().sum().backward()
    whole = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    cache = model.new_cache()
    losses = [model(part, cache=cache).square().sum() for part in x.tensor_split([3, 5], 1)]
    sum(losses).backward()
    for name, p in model.named_parameters():
        assert_close(p.grad, whole[name], rtol=1e-9, atol=1e-9, msg=name)
    cache.detach()
    assert not model.new_cache().length
    model(x[:, :1], cache=cache).sum().backward()  # the graph of the reads before is gone


@every_position
@pytest.mark.parametrize("variant", [{}, {"window": 3}, {"norm_first": False}])
def test_padding_on_the_left_gives_the_logits_of_each_text_alone(position, variant):
    """Also read in pieces, as prompts of different lengths are."""
    model, lengths = language_model(position=position, **variant), (7, 4, 1, 6, 2)
    x, mask = tokens(), lengths_mask(*lengths).flip(1)
    logits, cache = model(x, mask), model.new_cache()
    cuts = [slice(0, 3), slice(3, 4), slice(4, None)]
    pieces = [model(x[:, cut], mask[:, cut], cache=cache) for cut in cuts]
    more = tokens(B, 2)
    pieces.append(model(more, cache=cache))
    for b, n in enumerate(lengths):
        alone = model(torch.cat([x[b : b + 1, T - n :], more[b : b + 1]], 1))[0]
        close(logits[b, T - n :], alone[:n], 1e-10)
        close(torch.cat(pieces, 1)[b, T - n :], alone, 1e-10)
    close(model(x.masked_fill(~mask, 1), mask)[mask], logits[mask], 0)


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary", "alibi", "relative"])
def test_documents_packed_into_a_row_are_read_as_each_alone(position):
    model = language_model(position=position)
    x, document = tokens(2, 9), torch.tensor([[0, 0, 0, 0, 1, 1, 2, 2, 2], [0] * 5 + [1] * 4])
    together = document[:, :, None] == document[:, None, :]
    starts = torch.tensor([[0, 0, 0, 0, 4, 4, 6, 6, 6], [0] * 5 + [5] * 4])
    got = model(x, together[:, None], positions=torch.arange(9) - starts)
    for b in range(2):
        for d in document[b].unique():
            here = document[b] == d
            close(got[b, here], model(x[b : b + 1, here])[0], 1e-10)


def test_a_read_that_was_interrupted_is_forgotten():
    model, x, cache = language_model(), tokens(), KVCache(LAYERS)
    model(x[:, :3], cache=cache)
    cache.layers[0].append(*(torch.randn(B, H, 2, D // H) for _ in "kv"))  # the first layer's part
    assert cache.length == 3
    close(model(x[:, 3:], cache=cache), model(x)[:, 3:], 1e-10)


def test_training_learns_a_sequence_by_heart(device):
    model = TransformerLM(config(init_std=0.05, position="rotary")).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02)
    x = tokens(1, CONTEXT + 1).to(device)
    for _ in range(40):
        loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    assert loss < 0.1


# --- encoder and encoder–decoder -----------------------------------------------------------------


@every_position
def test_an_encoder_reads_both_ways_but_no_padding(position):
    encoder = randomised(Encoder(config(position=position))).eval()
    x, mask = tokens(), lengths_mask(7, 4, 1, 6, 2)
    check_padding(encoder, x, mask)
    check_batch(encoder, x)
    inputs = encoder.embedding(x).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(encoder.stack(inputs)[:, 0].sum(), inputs)
    assert gradient.any(-1).all()


def encoder_decoder(**changes) -> EncoderDecoder:
    return randomised(EncoderDecoder(config(**changes))).eval()


@every_position
@both_places
def test_a_decoder_reads_its_source_and_its_own_past(position, norm_first):
    model = encoder_decoder(position=position, norm_first=norm_first)
    source, target = tokens(B, S), tokens(B, T)
    check_source(model, source, target)
    check_causal(lambda y: model(source, y), target)
    one = target[:1]
    check_padding(
        lambda x, mask: model(x, one.expand(len(x), T), mask)[:, 0],
        source,
        lengths_mask(11, 4, 1, 6, 2, width=S),
    )
    check_padding(
        lambda y, mask: model(source[:1].expand(len(y), S), y, None, mask),
        target,
        lengths_mask(7, 4, 1, 6, 2),
    )


def test_only_the_decoder_looks_back_only():
    model = encoder_decoder(position="relative", n_layers=1)
    assert model.encoder.position.bidirectional
    assert not model.decoder.position.bidirectional
    with attention_weights(model) as weights:
        model.encode(tokens(B, S))
    assert (weights[0] > 0).all()


def test_an_encoder_decoder_is_its_two_stacks():
    model = encoder_decoder(position="none", scale_logits=True, scale_embedding=True)
    source, target = tokens(B, S), tokens(B, T)
    read = model.encoder(model.embedding(source) * math.sqrt(D))
    close(model.encode(source), read)
    x = model.decoder(model.embedding(target) * math.sqrt(D), source=read)
    with attention_weights(model.decoder) as found:
        logits = model(source, target)
    close(logits, x / math.sqrt(D) @ model.embedding.weight.T)
    assert [w.shape for w in found] == [(B, H, T, T), (B, H, T, S)] * LAYERS


@every_position
def test_a_target_read_in_pieces_encodes_and_reads_its_source_once(position, monkeypatch):
    model = encoder_decoder(position=position)
    source, target, mask = tokens(B, S), tokens(B, T), lengths_mask(11, 4, 1, 6, 2, width=S)
    expected, cache, calls = model(source, target, mask), model.new_cache(), []
    for linear in (model.decoder.blocks[0].cross.k_proj, model.encoder.blocks[0].attention.q_proj):
        linear.register_forward_hook(lambda *_: calls.append(1))
    read = [model(source, target[:, :3], mask, cache=cache)]
    fork = cache.fork()
    read += [model(None, part, cache=cache) for part in target[:, 3:].tensor_split([1, 2], 1)]
    close(torch.cat(read, 1), expected, 1e-10)
    assert len(calls) == 2
    close(model(None, target[:, 3:], cache=fork), expected[:, 3:], 1e-10)


def test_types_of_tokens_are_added_to_their_embeddings():
    model = randomised(Encoder(config(n_token_types=3, position="none"))).eval()
    x, types = tokens(), torch.randint(3, (B, T))
    embedded = model.embedding(x) + model.token_types(types)
    close(model(x, token_types=types), model.stack(embedded))
    close(model(x), model(x, token_types=torch.zeros_like(x)), 0)
    with pytest.raises(IndexError, match="token_types must lie between 0 and 2, got 0 to 3"):
        model(x, token_types=torch.arange(B * T).view(B, T) % 4)
    with pytest.raises(ValueError, match="n_token_types=0"):
        Encoder(config())(x, token_types=types)


# --- once for all layers -------------------------------------------------------------------------


def test_a_mask_is_prepared_once_for_all_layers(monkeypatch):
    made, real = [], masks.prepare
    for module in (attention_module, transformer_module):
        monkeypatch.setattr(module, "prepare", lambda *a, **o: made.append(1) or real(*a, **o))
    language_model(position="alibi")(tokens(), lengths_mask(7, 4, 1, 6, 2))
    encoder_decoder()(tokens(B, S), tokens(B, T), lengths_mask(11, 4, 1, 6, 2, width=S))
    assert len(made) == 1 + 3


def test_a_block_alone_needs_what_a_stack_gives_it():
    x, source = torch.randn(B, T, D), torch.randn(B, S, D)
    for position in ("alibi", "relative"):
        block = Block(config(position=position), causal=True)
        with pytest.raises(ValueError, match=f"'{position}': the block needs their bias"):
            block(x)
        block(x, masks.prepare(None, torch.zeros(H, T, T), T, T, causal=True))
    block = Block(config(position="rotary", window=None), causal=False)
    order = torch.randperm(T)
    assert (block(x)[:, order] - block(x[:, order])).abs().max() > 1e-3  # it turns by itself
    for cross, read in ((True, None), (False, source)):
        with pytest.raises(ValueError, match="a source belongs to a block made with cross=True"):
            Block(config(), causal=True, cross=cross)(x, source=read)
    assert Block(TransformerConfig(d_model=D, n_heads=H), causal=True)(x).shape == (B, T, D)
    with pytest.raises(TypeError, match="vocab_size must be an integer, got None"):
        TransformerLM(TransformerConfig(d_model=D, n_heads=H))


@pytest.mark.parametrize("implementation", ["reference", "fused"])
def test_the_implementation_reaches_every_part(implementation, monkeypatch):
    model, x = language_model(implementation=implementation, norm="rms"), tokens()
    close(model(x), language_model_like(model, "auto")(x), 1e-10)
    called, kernel, norm = [], F.scaled_dot_product_attention, F.rms_norm
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **o: called.append("a") or kernel(*a, **o)
    )
    monkeypatch.setattr(F, "rms_norm", lambda *a: called.append("n") or norm(*a))
    model(x)
    n = LAYERS * (implementation == "fused")
    assert (called.count("a"), called.count("n")) == (n, 2 * n + bool(n))


def language_model_like(model, implementation):
    other = TransformerLM(model.config.replace(implementation=implementation)).eval()
    other.load_state_dict(model.state_dict())
    return other


def test_each_dropout_has_its_own_rate():
    x = tokens()
    for name, layers in (
        ("attention_dropout", 0),
        ("residual_dropout", 2 * LAYERS),
        ("embedding_dropout", 1),
    ):
        model = language_model(**{name: 0.5}).train()
        acting = [m for m in model.modules() if isinstance(m, nn.Dropout) and m.p]
        used = []
        for module in acting:
            module.register_forward_hook(lambda *_, used=used: used.append(1))
        assert (model(x) != model(x)).any(), name
        assert len(used) == 2 * layers


@every_position
def test_compiled_it_reads_every_length_without_compiling_again(position):
    model = language_model(position=position, n_layers=1)
    frames = CompileCounter()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=frames, dynamic=True)
    for n in (5, 9, 14, 17):
        x = tokens(2, n)
        close(compiled(x), model(x), 1e-10)
    assert frames.frame_count == 1


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m(tokens(T)), ValueError, r"tokens must be \(B, T\), got shape \(7,\)"),
        (lambda m: m(tokens(1, 18)), ValueError, "18 tokens do not fit into the context of 17"),
        (lambda m: m(torch.full((1, 3), V)), IndexError, "tokens must lie between 0 and 22"),
        (
            lambda m: m(tokens(), lengths_mask(7, 4)),
            ValueError,
            r"shape \(5, 7\) or with four axes, got \(2, 7\)",
        ),
        (lambda m: m(tokens(), tokens()), TypeError, "got torch.int64"),
        (
            lambda m: [m(tokens(1, n), cache=c) for c in [m.new_cache()] for n in (10, 8)],
            ValueError,
            "18 tokens do not fit into the context of 17",
        ),
        (
            lambda m: [m(tokens(b, 3), cache=c) for c in [m.new_cache()] for b in (1, 2)],
            ValueError,
            r"holds \(B, G\) = \(1, 3\), got \(2, 3\)",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(language_model())


def test_every_setting_changes_the_model():
    """No field of the configuration is ignored: each changes what is computed, or is refused."""
    rotary = {"position": "rotary"}
    relative = {"position": "relative", "n_buckets": 8, "max_distance": 6}
    changes = {
        "vocab_size": ({}, 29), "d_model": ({}, 24), "n_layers": ({}, 3), "n_heads": ({}, 2),
        "n_kv_heads": ({}, 1), "head_dim": ({}, 6), "d_ff": ({}, 20), "activation": ({}, "relu"),
        "norm": ({}, "rms"), "norm_first": ({}, False), "norm_eps": ({}, 0.5),
        "parallel": ({}, True),
        "embedding_norm": ({}, True), "position": ({}, "none"),
        "rope_theta": (rotary, 7.0), "rotary_dim": (rotary, 2), "n_buckets": (relative, 6),
        "max_distance": (relative, 20), "window": ({}, 2), "bias": ({}, False),
        "scale_embedding": ({}, True), "scale_scores": ({}, False), "scale_logits": ({}, True),
        "dropout": ({}, 0.5), "init_std": ({}, 0.1), "context_length": ({}, 9),
        "tie_embeddings": ({}, False), "attention_dropout": ({}, 0.5),
        "residual_dropout": ({}, 0.5), "embedding_dropout": ({}, 0.5), "final_norm": ({}, False),
    }  # fmt: skip
    elsewhere = {"n_token_types", "implementation"}  # of an encoder; changes how, not what
    assert set(changes) | elsewhere == {field.name for field in fields(TransformerConfig)}
    x = tokens()
    for name, (base, value) in changes.items():
        logits = []
        for c in (config(**base), config(**(base | {name: value}))):
            torch.manual_seed(3)
            logits.append(TransformerLM(c)(x))
        same = logits[0].shape == logits[1].shape and torch.equal(*logits)
        assert not same, name


@pytest.mark.parametrize("positions", [torch.tensor([0]), torch.zeros(2, 3), torch.arange(4)])
def test_positions_of_another_shape_or_kind_are_refused(positions):
    sizes = dict(vocab_size=13, d_model=8, n_heads=2, context_length=9)
    for kind in ("learned", "none", "rotary"):
        model = TransformerLM(TransformerConfig(**sizes, position=kind))
        with pytest.raises(ValueError, match=r"positions must be int64 \(3,\) or \(2, 3\)"):
            model(torch.zeros(2, 3, dtype=torch.long), positions=positions)
