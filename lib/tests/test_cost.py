"""What the configuration says equals what the built model has, to the last parameter."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.layers import ACTIVATIONS, GATED
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import POSITIONS, PRESETS, TransformerConfig, preset
from unrolled.training.cost import KINDS, parameters

BUILD = {"decoder": TransformerLM, "encoder": Encoder, "encoder-decoder": EncoderDecoder}
PARTS = {
    "position": ".position",
    "cross_attention": ".cross.",
    "attention": ".attention.",
    "feed_forward": ".feed_forward.",
    "norms": "norm",
    "embedding": "embedding.",
    "head": "head.",
}


def counted(config, kind):
    """The same from a model without memory, each parameter by its name."""
    with torch.device("meta"):
        model = BUILD[kind](config)
    counts = Counter(dict.fromkeys(PARTS, 0))
    for name, parameter in model.named_parameters():  # shared ones come once
        name = name.replace("token_types.", "embedding.")
        counts[next(part for part, mark in PARTS.items() if mark in name)] += parameter.numel()
    return dict(counts) | {"total": sum(counts.values())}


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


@given(configs(), st.sampled_from(KINDS))
@settings(max_examples=25, deadline=None)
def test_every_part_is_that_of_the_built_model(config, kind):
    assert parameters(config, kind) == counted(config, kind)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_of_full_size_are_those_of_the_built_model(name):
    kind = {"t5-small": "encoder-decoder", "transformer-2017": "encoder-decoder",
            "bert-base": "encoder"}.get(name, "decoder")  # fmt: skip
    assert parameters(PRESETS[name], kind) == counted(PRESETS[name], kind)


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


def test_a_layer_of_width_d_has_about_twelve_d_squared():
    """The rule of thumb: 4·D² of attention and 8·D² of the feed-forward layer."""
    config = preset("gpt3")
    count = parameters(config)
    layers = count["attention"] + count["feed_forward"]
    assert layers / (12 * config.n_layers * config.d_model**2) == pytest.approx(1, abs=1e-3)
    assert count["total"] == pytest.approx(175e9, rel=0.01)


def test_another_kind_is_refused():
    with pytest.raises(ValueError, match=r"one of \('decoder', 'encoder', .*got 'both'"):
        parameters(preset("gpt2"), "both")
