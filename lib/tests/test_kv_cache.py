"""Caches of keys and values: forks that do not touch each other, gradients, and how they grow."""

import pytest
import torch
from comparing import close, refuses, up_to
from hypothesis import given, settings
from hypothesis import strategies as st
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


def model(**changes) -> EncoderDecoder:
    sizes = {"vocab_size": 13, "d_model": 8, "n_heads": 2, "n_layers": 2, "init_std": 0.5}
    return EncoderDecoder(TransformerConfig(**sizes | changes)).eval()


@settings(max_examples=40, deadline=None)
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


def test_chosen_rows_go_on_as_if_they_had_been_read_alone():
    ours, rows = model(position="rotary"), torch.tensor([2, 0, 2, 2])
    source, target = torch.randint(13, (3, 5)), torch.randint(13, (3, T))
    source_mask, mask = up_to(5, 3, 4, width=5), up_to(T, 2, T - 1, width=T)
    cache = ours.new_cache()
    ours(source, target[:, :3], source_mask, mask[:, :3], cache=cache)
    whole = ours(source[rows], target[rows], source_mask[rows], mask[rows])
    fork = cache.fork()
    fork.select(rows)
    pieces = [slice(3, 5), slice(5, T)]
    got = [ours(None, target[rows, i], None, mask[rows, i], cache=fork) for i in pieces]
    close(torch.cat(got, 1), whole[:, 3:])
    assert (cache.length, cache.layers[0].keys.shape[0]) == (3, 3)  # the other is as it was


def test_gradients_flow_through_chosen_rows():
    module, cache = MultiHeadAttention(D, H), LayerCache()
    first, second = torch.randn(B, 3, D, requires_grad=True), torch.randn(3, 2, D)
    rows = torch.tensor([1, 0, 1])
    module(first, cache=cache, causal=True)
    cache.select(rows)
    got = torch.autograd.grad(module(second, cache=cache, causal=True).square().sum(), first)
    whole = module(torch.cat([first[rows], second], 1), causal=True)[:, 3:]
    close(got, torch.autograd.grad(whole.square().sum(), first))


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


def test_a_source_of_a_read_that_failed_is_forgotten():
    ours = model(context_length=5)
    (a, b), target, cache = (
        torch.randint(13, (2, 2, 4)), torch.randint(13, (2, 3)), ours.new_cache(),
    )  # fmt: skip
    with pytest.raises(ValueError, match="do not fit into the context"):
        ours(a, torch.zeros(2, 6, dtype=torch.long), cache=cache)
    close(ours(b, target, cache=cache), ours(b, target))


test_what_does_not_fit_is_refused = refuses(
    (lambda: KVCache(1).crop(-2), "length must be at least 0, got -2"),
    (lambda: [cache.append(torch.zeros(b, 1, 2, 5), torch.zeros(b, 1, 2, 5))
              for cache in [LayerCache()] for b in (2, 3)],
     r"holds \(B, G\) = \(2, 1\), got \(3, 1\)"),
)  # fmt: skip
