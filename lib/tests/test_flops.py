"""Floating-point operations: what torch counts on a model without memory, and cases by hand."""

import functools

import pytest
import torch
from comparing import refuses
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode
from unrolled.accounting.cost import MODELS, flops
from unrolled.models.architectures import tiny
from unrolled.models.masks import causal_mask, window_mask
from unrolled.models.transformer_config import PRESETS, TransformerConfig, preset

V, B, T, S, CONTEXT = 23, 5, 7, 11, 31
KINDS = ("decoder", "encoder", "encoder-decoder")


def config(**changes) -> TransformerConfig:
    sizes = {"vocab_size": V, "d_model": 12, "n_layers": 2, "n_heads": 3, "d_ff": 19}
    return TransformerConfig(**sizes | {"context_length": CONTEXT} | changes)


def counted(config, kind, T=T, *, training=False, checkpointing=False) -> int:
    """What torch counts on the meta device, where attention is two plain products."""
    with torch.device("meta"):
        model = MODELS[kind](config)
        target, source = (torch.zeros(B, n, dtype=torch.long) for n in (T, S))
    if checkpointing:
        for block in model.stack.blocks:
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    given = (source, target) if kind == "encoder-decoder" else (target,)
    with FlopCounterMode(display=False) as counter, set_checkpoint_early_stop(False):
        output = model(*given)
        if training:
            output.sum().backward()
    return counter.get_total_flops()


VARIANTS = {name: tiny(PRESETS[name]) for name in ("gpt2", "llama2-70b", "t5-small")} | {
    "parallel": config(parallel=True, position="rotary-interleaved", n_kv_heads=1),
    "window": config(window=3, position="alibi", activation="reglu", bias=False),
    "wide heads": config(head_dim=6, norm="rms", tie_embeddings=False, n_layers=3),
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [False, True])
def test_the_total_is_what_torch_counts(name, kind, training):
    c, n_source = VARIANTS[name], S if kind == "encoder-decoder" else 0
    total = flops(c, T, batch=B, kind=kind, n_source=n_source, training=training)["total"]
    assert total == counted(c, kind, training=training)


def test_checkpointing_computes_each_block_twice_and_the_head_once():
    c = config()
    got = flops(c, T, batch=B, training=True, checkpointing=True)
    assert got["total"] == counted(c, "decoder", training=True, checkpointing=True)
    plain = flops(c, T, batch=B)
    assert got == {**{k: 4 * n for k, n in plain.items()}, "head": 3 * plain["head"],
                   "total": got["total"]}  # fmt: skip


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
def test_with_a_cache_only_new_tokens_count(kind):
    c = config(implementation="reference")
    model, cached = MODELS[kind](c), 13
    first, new = (torch.zeros(B, n, dtype=torch.long) for n in (cached, T))
    source = [torch.zeros(B, S, dtype=torch.long)] if kind == "encoder-decoder" else []
    cache = model.new_cache()
    model(*source, first, cache=cache)
    with FlopCounterMode(display=False) as counter:
        model(*source, new, cache=cache)
    n_source = S if source else 0
    count = flops(c, T, batch=B, kind=kind, n_source=n_source, n_cached=cached)
    assert count["total"] == counter.get_total_flops()


def test_a_case_for_the_hand():
    c = preset("gpt2", vocab_size=5, d_model=4, n_layers=2, n_heads=2, context_length=3)
    assert flops(c, 3) == {
        "attention": 2 * 2 * 3 * (4 * 4 * 4), "scores": 2 * 2 * (3 * 3 * 4 + 3 * 3 * 4),
        "cross_attention": 0, "cross_scores": 0, "feed_forward": 2 * 2 * 3 * (2 * 4 * 16),
        "head": 2 * 3 * 4 * 5, "total": 768 + 288 + 1536 + 120,
    }  # fmt: skip
    assert flops(c, 3, pairs="allowed")["scores"] == 288 * 6 // 9


@pytest.mark.parametrize("window", [None, 1, 4, 50])
@pytest.mark.parametrize(("T", "cached"), [(1, 0), (1, 9), (7, 0), (7, 5), (20, 2)])
def test_allowed_pairs_are_those_of_the_masks(T, cached, window):
    whole = T + cached
    mask = window_mask(T, whole, window=window) if window else causal_mask(T, whole)
    c = config(window=window)
    all_of_them, allowed = (
        flops(c, T, n_cached=cached, pairs=pairs)["scores"] for pairs in ("all", "allowed")
    )
    assert allowed * T * whole == all_of_them * int(mask.sum())


def test_both_directions_allow_every_pair():
    c = config(window=2)
    both = [flops(c, T, kind="encoder", pairs=pairs) for pairs in ("all", "allowed")]
    assert both[0] == both[1]
    one = flops(c, T, kind="encoder-decoder", n_source=S, pairs="allowed")["scores"]
    assert one == 2 * 2 * 2 * 12 * (S * S + 1 + 2 * (T - 1))


test_what_cannot_be_is_refused = refuses(
    ({"n_source": 3}, "n_source must be at least 0 and at most 0, got 3"),
    ({"kind": "encoder-decoder"}, "n_source must be at least 1, got 0"),
    ({"n_cached": 3, "training": True}, "n_cached must be at least 0 and at most 0, got 3"),
    ({"n_cached": 3, "kind": "encoder"}, "n_cached must be at least 0 and at most 0, got 3"),
    of=lambda options: flops(config(), T, **options),
)
