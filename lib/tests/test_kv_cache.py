"""Caches of keys and values: forks that do not touch each other, gradients, and how they grow."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.heads import MultiHeadAttention
from unrolled.models.kv_cache import KVCache, LayerCache
from unrolled.models.transformer_config import TransformerConfig

B, T, D, H = 2, 7, 10, 5
DTYPE = torch.float64


def put(cache: LayerCache, *numbers: float) -> list[float]:
    """What the cache holds after appending these keys, and their negatives as values."""
    x = torch.tensor(numbers).view(1, 1, -1, 1)
    k, v = cache.append(x, -x)
    assert torch.equal(k, -v)
    return k.flatten().tolist()


@pytest.fixture(params=[True, False], ids=["recording", "no_grad"])
def _grad_mode(request):
    with torch.set_grad_enabled(request.param):
        yield


@pytest.mark.usefixtures("_grad_mode")
def test_forks_go_on_without_changing_each_other():
    cache = LayerCache()
    put(cache, 1, 2)
    put(cache, 3)  # there is room for one more
    a, b = cache.fork(), cache.fork()
    k, _ = a.append(torch.full((1, 1, 1, 1), 4.0), torch.full((1, 1, 1, 1), -4.0))
    assert put(b, 5, 6) == [1, 2, 3, 5, 6]
    assert put(cache, 7) == [1, 2, 3, 7]
    assert put(a, 8) == [1, 2, 3, 4, 8]
    assert k.flatten().tolist() == [1, 2, 3, 4]
    assert put(b.fork(), 9) == [1, 2, 3, 5, 6, 9]
    assert b.keys.flatten().tolist() == [1, 2, 3, 5, 6]
    assert (cache.length, a.length, b.length) == (4, 5, 5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("fork crop add".split()),
                          st.booleans()), max_size=14))  # fmt: skip
def test_any_tree_of_forks_keeps_every_history(steps):
    caches = [(KVCache(1), [])]
    for n, (which, action, recording) in enumerate(steps):
        cache, history = caches[which % len(caches)]
        if action == "fork":
            cache, history = cache.fork(), list(history)
            caches.append((cache, history))
        if action == "crop":
            del history[n // 3 :]
            cache.crop(n // 3)
        history.append(float(n))
        with torch.set_grad_enabled(recording):
            assert put(cache.layers[0], n) == history
    for cache, history in caches:
        assert cache.length == len(history)
        if history:
            assert cache.layers[0].keys.flatten().tolist() == history


def test_gradients_flow_through_all_that_was_read_until_detached():
    module, cache = MultiHeadAttention(D, H), LayerCache()
    pieces = [torch.randn(B, n, D, requires_grad=True) for n in (3, 2, 2)]
    outputs = [module(piece, cache=cache, causal=True) for piece in pieces]
    got = torch.autograd.grad(sum(y.square().sum() for y in outputs), pieces)
    whole = torch.cat(pieces, 1).detach().requires_grad_()
    module(whole, causal=True).square().sum().backward()
    assert_close(torch.cat(got, 1), whole.grad, rtol=0, atol=1e-12)
    cache = LayerCache()
    module(pieces[0], cache=cache)
    cache.detach()
    first, second = torch.autograd.grad(
        module(pieces[1], cache=cache).sum(), pieces[:2], allow_unused=True
    )
    assert first is None
    assert second.any()


@pytest.mark.parametrize("forked", [False, True])
def test_a_cache_begun_in_inference_mode_may_be_read_on_outside_it(forked):
    module, cache, x = MultiHeadAttention(D, H), LayerCache(), torch.randn(B, T, D)
    with torch.inference_mode():
        module(x[:, :3], causal=True, cache=cache)
        if forked:
            module(x[:, 3:4], causal=True, cache=cache.fork())
    whole = module(x, causal=True)[:, 3:]
    with torch.no_grad():
        assert_close(module(x[:, 3:], causal=True, cache=cache.fork()), whole, rtol=0, atol=1e-12)
    got = module(x[:, 3:], causal=True, cache=cache)
    assert_close(got, whole, rtol=0, atol=1e-12)
    got.sum().backward()


@torch.no_grad()
def test_storage_doubles_and_is_copied_by_the_second_fork_only():
    cache, x, places = LayerCache(), torch.zeros(B, H, 1, 2), []
    for _ in range(100):
        places.append(cache.append(x, x)[0].data_ptr())
    assert len(set(places)) <= 8  # 1, 2, 4, …, 128: each position is copied about once
    assert cache._storage.keys.shape[2] == 128
    first, second = cache.fork(), cache.fork()
    assert first.keys.data_ptr() == second.keys.data_ptr() == places[-1]
    assert first.append(x, x)[0].data_ptr() == places[-1]
    assert second.append(x, x)[0].data_ptr() != places[-1]


@pytest.mark.usefixtures("_grad_mode")
def test_chosen_rows_go_on_as_if_they_had_been_read_alone():
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=13, d_model=8, n_heads=2, n_layers=2, position="rotary")
    model, rows = EncoderDecoder(config).eval(), torch.tensor([2, 0, 2, 2])
    source, target = torch.randint(13, (3, 5)), torch.randint(13, (3, T))
    source_mask = torch.arange(5) < torch.tensor([[5], [3], [4]])
    mask = torch.arange(T) < torch.tensor([[T], [2], [T - 1]])
    cache = model.new_cache()
    model(source, target[:, :3], source_mask, mask[:, :3], cache=cache)
    whole = model(source[rows], target[rows], source_mask[rows], mask[rows])
    fork = cache.fork()
    fork.select(rows)
    got = [
        model(None, target[rows, i : i + 2], None, mask[rows, i : i + 2], cache=fork)
        for i in (3, 5)
    ]
    assert_close(torch.cat(got, 1), whole[:, 3:], rtol=0, atol=1e-12)
    assert (cache.length, cache.layers[0].keys.shape[0]) == (3, 3)  # the other is as it was


def test_gradients_flow_through_chosen_rows():
    module, cache = MultiHeadAttention(D, H), LayerCache()
    first, second = torch.randn(B, 3, D, requires_grad=True), torch.randn(3, 2, D)
    rows = torch.tensor([1, 0, 1])
    module(first, cache=cache, causal=True)
    cache.select(rows)
    got = torch.autograd.grad(module(second, cache=cache, causal=True).square().sum(), first)
    whole = module(torch.cat([first[rows], second], 1), causal=True)[:, 3:]
    assert_close(got, torch.autograd.grad(whole.square().sum(), first), rtol=0, atol=1e-12)


@torch.no_grad()
def test_choosing_rows_keeps_the_room_and_may_be_read_on_outside_inference_mode():
    cache, x = LayerCache(), torch.zeros(B, H, 5, 2)
    cache.append(x, x)
    cache.append(x[:, :, :1], x[:, :, :1])
    with torch.inference_mode():
        cache.select(torch.tensor([0, 0, 1]))
    place = cache.keys.data_ptr()
    cache.append(torch.ones(3, H, 1, 2), torch.ones(3, H, 1, 2))
    assert cache.keys.data_ptr() == place
    LayerCache().select(torch.tensor([0]))  # nothing was read yet


def test_another_batch_is_refused():
    cache = LayerCache()
    cache.append(torch.zeros(2, 1, 2, 5), torch.zeros(2, 1, 2, 5))
    with pytest.raises(ValueError, match=r"holds \(B, G\) = \(2, 1\), got \(3, 1\)"):
        cache.append(torch.zeros(3, 1, 1, 5), torch.zeros(3, 1, 1, 5))
    assert cache.length == 2


def test_a_source_of_a_read_that_failed_is_forgotten():
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=13, d_model=8, n_heads=2, context_length=5, init_std=0.5)
    model, cache = EncoderDecoder(config).eval(), None
    (a, b), target = torch.randint(13, (2, 2, 4)), torch.randint(13, (2, 3))
    cache = model.new_cache()
    with pytest.raises(ValueError, match="do not fit into the context"):
        model(a, torch.zeros(2, 6, dtype=torch.long), cache=cache)
    torch.testing.assert_close(model(b, target, cache=cache), model(b, target))


def test_a_cache_is_not_cropped_to_less_than_nothing():
    with pytest.raises(ValueError, match="length must be at least 0, got -2"):
        KVCache(1).crop(-2)
