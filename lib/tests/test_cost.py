"""How many numbers a model holds: by formulas, by hand, and as published files have them."""

import pytest
import torch
from unrolled.accounting.cost import MODELS, cache_bytes, parameters
from unrolled.models.architectures import tiny
from unrolled.models.layers import GATED
from unrolled.models.neural_lm import NeuralLMConfig
from unrolled.models.transformer_config import PRESETS, TransformerConfig


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


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("changes", [{}, {"tie_embeddings": False, "n_layers": 3, "bias": True}])
def test_every_part_is_that_of_the_formulas(name, kind, changes):
    config = tiny(PRESETS[name]).replace(**changes)
    assert parameters(config, kind) == by_formula(config, kind)


# As the transformers library loads the published files, BERT's without its two heads.
PUBLISHED = {
    "bert-base": ("encoder", 109_482_240 - 590_592), "gpt2": ("decoder", 124_439_808),
    "gpt3": ("decoder", pytest.approx(175.0e9, rel=3e-3)), "llama-7b": ("decoder", 6_738_415_616),
    "llama2-70b": ("decoder", 68_976_648_192), "t5-small": ("encoder-decoder", 60_506_624),
    # its vocabulary is "about 37 000"
    "transformer-2017": ("encoder-decoder", pytest.approx(65e6, rel=0.04)),
}  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_published_weights_hold_so_many_numbers(name):
    """Each layer has as many as the next: from a model of one and a model of two."""
    (kind, expected), config = PUBLISHED[name], PRESETS[name]
    one, two = (parameters(config.replace(n_layers=n), kind) for n in (1, 2))
    assert one["total"] + (config.n_layers - 1) * (two["total"] - one["total"]) == expected
    if name == "gpt3":  # the rule of thumb: 4·D² of attention and 8·D² of the feed-forward layer
        layer = one["attention"] + one["feed_forward"]
        assert layer / (12 * config.d_model**2) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("V", "n_words", "m", "h", "has_direct"), [(7, 1, 2, 3, True), (5, 3, 11, 2, False)]
)
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
