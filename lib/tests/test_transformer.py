"""Transformers by their parts; `test_models` has what all models do."""

import math
from dataclasses import asdict, fields

import pytest
import torch
from comparing import close, randomised, refuses, up_to
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.nn import functional as F
from unrolled.models import attention as attention_module
from unrolled.models import masks
from unrolled.models import transformer as transformer_module
from unrolled.models.block import Block
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.heads import attention_weights
from unrolled.models.positions import sinusoidal
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import POSITIONS, PRESETS, TransformerConfig, preset

V, D, H, HIDDEN, LAYERS, B, T, S, CONTEXT = 23, 12, 3, 19, 2, 5, 7, 11, 17
DTYPE = torch.float64


def config(**changes) -> TransformerConfig:
    """A small configuration with large weights, so that whatever is wrong shows."""
    sizes = {"vocab_size": V, "d_model": D, "n_layers": LAYERS, "n_heads": H, "d_ff": HIDDEN}
    return TransformerConfig(**(sizes | {"context_length": CONTEXT, "init_std": 0.5} | changes))


def language_model(**changes) -> TransformerLM:
    return randomised(TransformerLM(config(**changes)), 0.4).eval()


def tokens(*shape) -> torch.Tensor:
    return torch.randint(V, shape or (B, T))


def test_a_configuration_fills_in_what_follows_and_can_be_replaced():
    c = config(d_ff=None, position="rotary", dropout=0.1, residual_dropout=0.0)
    assert (c.n_kv_heads, c.head_dim, c.d_ff, c.rotary_dim) == (3, 4, 48, 4)
    assert (c.attention_dropout, c.residual_dropout, c.embedding_dropout) == (0.1, 0.0, 0.1)
    c = c.replace(d_model=24)
    assert (c.head_dim, c.d_ff, c.replace(n_heads=2).head_dim) == (8, 96, 12)
    assert TransformerConfig(**asdict(c)) == c
    small = preset("gpt2", n_layers=2, d_model=24)
    assert (small.n_layers, small.d_model, small.n_heads, small.d_ff) == (2, 24, 12, 96)
    assert preset("gpt2") == PRESETS["gpt2"]


def test_matrices_begin_with_the_spread_asked_for_and_the_last_of_each_layer_smaller():
    c = config(d_model=120, d_ff=480, init_std=0.3, n_layers=8, tie_embeddings=False)
    for name, parameter in TransformerLM(c).named_parameters():
        if name.endswith("bias") or "norm" in name:
            assert (parameter == ("weight" in name)).all()
        else:
            last = name.endswith(("o_proj.weight", "down.weight"))
            expected = 0.3 / math.sqrt(16) if last else 0.3
            error = 5 * expected / math.sqrt(parameter.numel())
            assert abs(parameter.std().item() - expected) < error / math.sqrt(2), name
            assert abs(parameter.mean().item()) < error, name


def test_a_window_reaches_so_far_per_layer_and_no_further():
    model = language_model(window=3, position="none", n_layers=2)
    x = model.embed(tokens()).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model.stack(x)[:, 6].sum(), x)
    assert not gradient[:, :2].any()  # two layers look back twice two positions
    assert gradient[:, 2:].any(-1).all()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"norm_first": False, "position": "learned"},
         lambda m, x: m.stack.blocks[0](m.embedding(x) + m.stack.position.weight[:T])),
        ({"position": "sinusoidal", "norm_first": False},
         lambda m, x: m.stack.blocks[0](m.embedding(x) + sinusoidal(T, D))),
        ({"scale_embedding": True}, lambda m, x: m.stack(m.embedding(x) * math.sqrt(D))),
        ({"scale_logits": True}, lambda m, x: m.stack(m.embedding(x)) / math.sqrt(D)),
    ],
)  # fmt: skip
def test_logits_are_the_parts_in_a_row(changes, expected):
    base, x = {"position": "none", "n_layers": 1}, tokens()
    for tied in (False, True):
        model = language_model(**base | changes, tie_embeddings=tied)
        close(model(x), model.head(expected(model, x)))
        assert (model.head.weight is model.embedding.weight) == tied


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("variant", [{}, {"window": 3}])
def test_padding_on_the_left_gives_the_logits_of_each_text_alone(position, variant):
    model, lengths = language_model(position=position, **variant), (7, 4, 1, 6, 2)
    x, mask = tokens(), up_to(*lengths, width=T).flip(1)
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
    model, x = language_model(), tokens()
    cache = model.new_cache()
    model(x[:, :3], cache=cache)
    cache.layers[0].append(*(torch.randn(B, H, 2, D // H) for _ in "kv"))  # the first layer's part
    assert cache.length == 3
    close(model(x[:, 3:], cache=cache), model(x)[:, 3:], 1e-10)


def encoder_decoder(**changes) -> EncoderDecoder:
    return randomised(EncoderDecoder(config(**changes)), 0.4).eval()


def test_an_encoder_decoder_is_its_two_stacks():
    model = encoder_decoder(position="none", scale_logits=True, scale_embedding=True)
    source, target = tokens(B, S), tokens(B, T)
    with attention_weights(model) as found:
        logits = model(source, target)
    read = model.encoder(model.embedding(source) * math.sqrt(D))
    x = model.decoder(model.embedding(target) * math.sqrt(D), source=read)
    close(logits, x / math.sqrt(D) @ model.embedding.weight.T)
    sizes = [(B, H, S, S)] * LAYERS + [(B, H, T, T), (B, H, T, S)] * LAYERS
    assert [w.shape for w in found] == sizes
    assert all(weights.all() for weights in found[:LAYERS])  # the encoder looks both ways


def test_a_target_read_in_pieces_encodes_and_reads_its_source_once():
    model, calls = encoder_decoder(), []
    source, target, mask = tokens(B, S), tokens(B, T), up_to(11, 4, 1, 6, 2, width=S)
    expected, cache = model(source, target, mask), model.new_cache()
    for linear in (model.decoder.blocks[0].cross.k_proj, model.encoder.blocks[0].attention.q_proj):
        linear.register_forward_hook(lambda *_: calls.append(1))
    read = [model(source, target[:, :3], mask, cache=cache)]
    read += [model(None, part, cache=cache) for part in target[:, 3:].tensor_split([1, 2], 1)]
    close(torch.cat(read, 1), expected, 1e-10)
    assert len(calls) == 2


def test_a_mask_is_prepared_once_for_all_layers(monkeypatch):
    made, real = [], masks.prepare
    for module in (attention_module, transformer_module):
        monkeypatch.setattr(module, "prepare", lambda *a, **o: made.append(1) or real(*a, **o))
    language_model(position="alibi")(tokens(), up_to(7, 4, 1, 6, 2, width=T))
    encoder_decoder()(tokens(B, S), tokens(B, T), up_to(11, 4, 1, 6, 2, width=S))
    assert len(made) == 1 + 3


def test_a_block_alone_may_get_what_a_stack_gives_it():
    x = torch.randn(B, T, D)
    for position in ("alibi", "relative"):
        block = Block(config(position=position), causal=True)
        block(x, masks.prepare(None, torch.zeros(H, T, T), T, T, causal=True))
    block = Block(config(position="rotary", window=None), causal=False)
    order = torch.randperm(T)
    assert (block(x)[:, order] - block(x[:, order])).abs().max() > 1e-3  # it turns by itself
    assert Block(NO_WORDS, causal=True)(x).shape == (B, T, D)


@pytest.mark.parametrize("implementation", ["reference", "fused"])
def test_the_implementation_reaches_every_part(implementation, monkeypatch):
    model, x = language_model(implementation=implementation, norm="rms"), tokens()
    other = language_model(implementation="auto", norm="rms")
    other.load_state_dict(model.state_dict())
    close(model(x), other(x), 1e-10)
    called, kernel, norm = [], F.scaled_dot_product_attention, F.rms_norm
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **o: called.append("a") or kernel(*a, **o)
    )
    monkeypatch.setattr(F, "rms_norm", lambda *a: called.append("n") or norm(*a))
    model(x)
    n = LAYERS * (implementation == "fused")
    assert (called.count("a"), called.count("n")) == (n, 2 * n + bool(n))


def test_each_dropout_has_its_own_rate():
    layers = {"attention_dropout": 0, "residual_dropout": 2 * LAYERS, "embedding_dropout": 1}
    for name, n in layers.items():
        model, used, x = language_model(**{name: 0.5}).train(), [], tokens()
        for module in model.modules():
            if isinstance(module, nn.Dropout) and module.p:
                module.register_forward_hook(lambda *_, used=used: used.append(1))
        assert (model(x) != model(x)).any(), name
        assert len(used) == 2 * n


@pytest.mark.parametrize("position", ["learned", "rotary", "relative"])
def test_compiled_it_reads_every_length_without_compiling_again(position):
    model, frames = language_model(position=position, n_layers=1), CompileCounter()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=frames, dynamic=True)
    for n in (5, 17):
        x = tokens(2, n)
        close(compiled(x), model(x), 1e-10)
    assert frames.frame_count == 1


NO_WORDS = TransformerConfig(d_model=D, n_heads=H)


def placed(positions, position="none"):
    return language_model(position=position)(tokens(2, 3), positions=positions)


def block(cross=False, **changes):
    return Block(config(**changes), causal=True, cross=cross)(torch.randn(B, T, D))


test_what_does_not_fit_is_refused_with_the_numbers = refuses(
    *((lambda _, changes=changes: config(**changes), message)
      for changes, message in (
        ({"n_heads": 5}, "n_heads=5 does not divide d_model=12"),
        ({"parallel": True, "norm_first": False}, "parallel=True needs norm_first=True"),
        ({"n_kv_heads": 2}, "n_kv_heads=2 does not divide n_heads=3"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"d_model": 15, "position": "sinusoidal"}, "an even d_model, got 15"),
        ({"head_dim": 5, "position": "rotary"}, "even and at most head_dim=5, got 5"),
        ({"rotary_dim": 6, "position": "rotary"}, "at most head_dim=4, got 6"),
        ({"rotary_dim": 3, "position": "rotary-interleaved"}, "head_dim=4, got 3"))),
    (lambda _: preset("gpt5"), KeyError, "no preset 'gpt5'; there are transformer-2017, bert-"),
    (lambda _: preset("gpt2", width=3), TypeError, "width"),
    (lambda _: TransformerLM(NO_WORDS), TypeError, "vocab_size must be an integer, got None"),
    (lambda m: m(tokens(1, 18)), "18 tokens do not fit into the context of 17"),
    (lambda m: m(tokens(), up_to(7, 4, width=T)),
     r"shape \(5, 7\) or with four axes, got \(2, 7\)"),
    (lambda m: [m(tokens(1, n), cache=c) for c in [m.new_cache()] for n in (10, 8)],
     "18 tokens do not fit into the context of 17"),
    (lambda m: placed(torch.tensor([0])), r"positions must be int64 \(3,\) or \(2"),
    (lambda m: placed(torch.arange(3)), "the configuration has position='none'"),
    (lambda m: placed(torch.arange(15, 18), "learned"), IndexError, "between 0 and 16, got"),
    (lambda m: m(tokens(), positions=torch.arange(T), cache=m.new_cache()),
     "with a cache positions are counted"),
    (lambda m: Encoder(config())(tokens(), token_types=tokens()), "n_token_types=0"),
    (lambda m: Encoder(config(n_token_types=3))(tokens(), None, tokens().clamp(min=3)),
     IndexError, "token_types must lie between 0 and 2, got 3"),
    (lambda _: block(position="alibi"), "'alibi': the block needs their bias"),
    (lambda _: block(cross=True), "belongs to a block made with cross=True"),
    (lambda m: m.stack(torch.randn(B, T, D), source=torch.randn(B, S, D)),
     "belongs to a block made with cross=True"),
    of=lambda call: call(language_model()),
)  # fmt: skip


def test_every_setting_changes_the_model():
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
