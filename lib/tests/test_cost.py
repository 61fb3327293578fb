"""How many numbers a model holds: by formulas, by hand, and as published files have them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.accounting.cost import MODELS, cache_bytes, parameters
from unrolled.models.layers import ACTIVATIONS, GATED
from unrolled.models.neural_lm import NeuralLMConfig
from unrolled.models.transformer_config import POSITIONS, PRESETS, TransformerConfig, preset


def by_formula(c, kind):
    """The parts from the widths D, K and F, H heads and G of keys and values."""

    def linear(inputs, outputs):
        return inputs * outputs + c.bias * outputs

    cross = kind == "encoder-decoder"
    stacks, D = 1 + cross, c.d_model
    heads, groups = c.n_heads * c.head_dim, c.n_kv_heads * c.head_dim
    attention = c.n_layers * (linear(D, heads) + linear(D, 2 * groups) + linear(heads, D))
    up = c.d_ff * (1 + (c.activation in GATED))
    tables = {"learned": c.context_length * D, "relative": c.n_buckets * c.n_heads}
    norms = c.n_layers * (2 * stacks + cross) + stacks * (c.embedding_norm + c.final_norm)
    parts = {
        "embedding": (c.vocab_size + (kind == "encoder") * c.n_token_types) * D,
        "position": stacks * tables.get(c.position, 0),
        "attention": stacks * attention,
        "cross_attention": cross * attention,
        "feed_forward": stacks * c.n_layers * (linear(D, up) + linear(c.d_ff, D)),
        "norms": norms * D * (1 + (c.norm == "layer" and c.bias)),
        "head": 0 if c.tie_embeddings or kind == "encoder" else D * c.vocab_size,
    }
    return parts | {"total": sum(parts.values())}


@st.composite
def configs(draw):
    kv_heads, share, width = (draw(st.integers(1, n)) for n in (3, 3, 5))
    heads, own_width = kv_heads * share, draw(st.booleans())
    d_model = 2 * draw(st.integers(1, 9)) if own_width else 2 * heads * width
    return TransformerConfig(
        vocab_size=draw(st.integers(1, 23)),
        d_model=d_model,
        n_layers=draw(st.integers(1, 3)),
        n_heads=heads,
        n_kv_heads=draw(st.sampled_from([None, kv_heads])),
        head_dim=2 * width if own_width else None,
        d_ff=draw(st.none() | st.integers(1, 29)),
        context_length=draw(st.integers(1, 31)),
        activation=draw(st.sampled_from([*ACTIVATIONS, *GATED])),
        n_token_types=draw(st.integers(0, 3)),
        norm=draw(st.sampled_from(["layer", "rms"])),
        norm_first=draw(st.booleans()),
        embedding_norm=draw(st.booleans()),
        position=draw(st.sampled_from(POSITIONS)),
        n_buckets=draw(st.sampled_from([4, 8, 22])),
        bias=draw(st.booleans()),
        tie_embeddings=draw(st.booleans()),
    )


@given(configs(), st.sampled_from([kind for kind in MODELS if kind != "feed-forward"]))
@settings(max_examples=25, deadline=None)
def test_every_part_is_that_of_the_formulas(config, kind):
    assert parameters(config, kind) == by_formula(config, kind)


@pytest.mark.parametrize("name", ["t5-small", "bert-base", "llama2-70b", "gpt3"])
def test_presets_of_full_size_are_those_of_the_formulas(name):
    kind = {"t5-small": "encoder-decoder", "bert-base": "encoder"}.get(name, "decoder")
    assert parameters(PRESETS[name], kind) == by_formula(PRESETS[name], kind)


@pytest.mark.parametrize(
    ("name", "kind", "total"),
    [
        ("bert-base", "encoder", 108_891_648),
        ("gpt2", "decoder", 124_439_808),
        ("llama-7b", "decoder", 6_738_415_616),
        ("llama2-70b", "decoder", 68_976_648_192),
        ("t5-small", "encoder-decoder", 60_506_624),
    ],
)
def test_published_weights_hold_so_many_numbers(name, kind, total):
    """Totals of the published files, as the transformers library loads them."""
    assert parameters(PRESETS[name], kind)["total"] == total


def test_a_case_for_the_hand():
    config = preset("gpt2", vocab_size=5, d_model=4, n_layers=2, n_heads=2, context_length=3)
    assert parameters(config) == {
        "embedding": 5 * 4,
        "position": 3 * 4,
        "attention": 2 * (4 * (4 * 4) + 4 * 4),
        "cross_attention": 0,
        "feed_forward": 2 * (2 * 4 * 16 + 16 + 4),
        "norms": (2 * 2 + 1) * 2 * 4,
        "head": 0,
        "total": 20 + 12 + 160 + 296 + 40,
    }


@given(*[st.integers(1, 30)] * 4, st.booleans())
@settings(max_examples=25, deadline=None)
def test_a_feed_forward_model_has_as_many_as_its_paper_says(V, n_words, m, h, has_direct):
    """Bengio et al. (2003), section 2: |V|(1 + nm + h) + h(1 + (n − 1)m), with W."""
    n = n_words + 1
    sizes = {"vocab_size": V, "context_length": n - 1, "embedding_dim": m, "hidden_size": h}
    config = NeuralLMConfig(**sizes, direct_connections=has_direct)
    count = parameters(config, "feed-forward")
    assert count["embedding"] == V * m
    assert count["feed_forward"] == h * (1 + (n - 1) * m)
    assert count["head"] == V * (1 + h) + has_direct * V * (n - 1) * m
    whole = V * (1 + n * m + h) + h * (1 + (n - 1) * m)
    assert count["total"] == whole - (not has_direct) * V * (n - 1) * m


def test_a_layer_of_width_d_has_about_twelve_d_squared():
    """The rule of thumb: 4·D² of attention and 8·D² of the feed-forward layer."""
    config = preset("gpt3")
    count = parameters(config)
    layers = count["attention"] + count["feed_forward"]
    assert layers / (12 * config.n_layers * config.d_model**2) == pytest.approx(1, abs=1e-3)
    assert count["total"] == pytest.approx(175e9, rel=0.01)


def test_another_kind_is_refused():
    with pytest.raises(ValueError, match=r"one of decoder, encoder, .*got 'both'"):
        parameters(preset("gpt2"), "both")


# The cache


def held(cache):
    """Bytes of the keys and values in a cache."""
    return sum(
        x.numel() * x.itemsize
        for layer in (*cache.layers, *cache.cross) if layer.length
        for x in (layer.keys, layer.values)
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n_kv_heads", [1, 2, 6])
def test_a_cache_holds_as_many_bytes_as_computed(dtype, n_kv_heads):
    config = TransformerConfig(
        vocab_size=13, d_model=30, n_heads=6, n_kv_heads=n_kv_heads, n_layers=3, head_dim=7
    )
    tokens, source = torch.zeros(5, 11, dtype=torch.long), torch.zeros(5, 17, dtype=torch.long)
    decoder, both = MODELS["decoder"](config).to(dtype), MODELS["encoder-decoder"](config).to(dtype)
    caches = decoder.new_cache(), both.new_cache()
    decoder(tokens, cache=caches[0])
    both(source, tokens, cache=caches[1])
    assert held(caches[0]) == cache_bytes(config, 11, batch=5, dtype=dtype)
    assert held(caches[1]) == cache_bytes(config, 11, batch=5, n_source=17, dtype=dtype)


def test_bytes_for_a_token_of_published_models():
    """In sixteen bits: 4.7 MB, 0.5 MiB, and 320 KiB where eight heads serve sixty-four."""
    sizes = {name: cache_bytes(preset(name), 1, dtype=torch.bfloat16) for name in PRESETS}
    assert sizes["gpt3"] == 2 * 96 * 12_288 * 2 == 4_718_592
    assert sizes["llama-7b"] == 2**19
    assert sizes["llama2-70b"] == 320 * 2**10


def test_counts_below_nothing_are_refused():
    config = preset("gpt2")
    for options in ({"n_tokens": -1}, {"n_tokens": 1, "n_source": -1}):
        with pytest.raises(ValueError, match="must be at least 0, got -1"):
            cache_bytes(config, **options)
    with pytest.raises(ValueError, match="batch must be at least 1, got 0"):
        cache_bytes(config, 1, batch=0)
