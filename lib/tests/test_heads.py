"""Multi-head attention against a loop over heads; `test_from_torch` has torch's own, in a whole."""

import math

import pytest
import torch
from comparing import close, randomised, refuses
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from unrolled.models.attention import attend
from unrolled.models.heads import MultiHeadAttention, attention_weights
from unrolled.models.kv_cache import LayerCache
from unrolled.models.masks import causal_mask
from unrolled.models.positions import Rotary

B, T, S, D, H, K, SOURCE = 3, 7, 11, 10, 5, 2, 13
DTYPE = torch.float64
both = pytest.mark.parametrize("implementation", ["reference", "fused"])


def test_a_seed_means_what_it_meant_for_one_matrix_of_keys_and_values():
    """Keys and values were drawn as one matrix (2·G·K, D) once; recorded runs depend on it."""
    module = MultiHeadAttention(D, H, d_source=SOURCE, n_kv_heads=1)
    torch.manual_seed(0)
    linears = nn.Linear(D, D), nn.Linear(SOURCE, 2 * K), nn.Linear(D, D)
    for kind in ("weight", "bias"):
        q, kv, o = (getattr(linear, kind) for linear in linears)
        parts = (q, *kv.chunk(2), o)
        for name, expected in zip("qkvo", parts, strict=True):
            close(getattr(getattr(module, f"{name}_proj"), kind), expected, 0)


def head_by_head(module, x, source, mask):
    """The same and its weights, one head after the other, with plain matrices."""
    n, width, group = module.n_heads, module.head_dim, module.n_heads // module.n_kv_heads
    k_all, v_all = module.k_proj(source), module.v_proj(source)
    result, all_weights = module.o_proj.bias.expand(*x.shape[:2], -1), []
    for h in range(n):
        rows, shared = slice(h * width, (h + 1) * width), h // group
        columns = slice(shared * width, (shared + 1) * width)
        q = x @ module.q_proj.weight[rows].T + module.q_proj.bias[rows]
        scores = q @ k_all[..., columns].transpose(1, 2) / math.sqrt(width)
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
        all_weights.append(weights)
        result = result + weights @ v_all[..., columns] @ module.o_proj.weight[:, rows].T
    return result, torch.stack(all_weights, 1)


@both
@pytest.mark.parametrize("n_kv_heads", [1, 3, 6])
@pytest.mark.parametrize(("head_dim", "causal"), [(None, False), (5, True)])
def test_groups_share_keys_and_values_as_a_loop_over_heads_does(
    implementation, n_kv_heads, head_dim, causal, device
):
    options = {"n_kv_heads": n_kv_heads, "head_dim": head_dim, "implementation": implementation}
    module = randomised(MultiHeadAttention(12, 6, d_source=SOURCE, **options)).to(device)
    x, source = torch.randn(B, T, 12, device=device), torch.randn(B, S, SOURCE, device=device)
    mask = torch.rand(T, S, device=device) < 0.7
    mask[:, 0] = True
    allowed = mask & causal_mask(T, S, device=device) if causal else mask
    expected = head_by_head(module, x, source, allowed)
    close(module(x, source, mask[None, None], causal=causal), expected[0])
    if implementation == "reference":
        shown = module(x, source, mask[None, None], causal=causal, return_weights=True)
        close(shown, expected)


class Casts(TorchDispatchMode):
    """Within, the shapes of all tensors that are cast to another dtype."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._to_copy.default:
            self.shapes.append(tuple(args[0].shape))
        return func(*args, **(kwargs or {}))


def cast_apart(module, x, source):
    """The same attention where q, k and v each begin from the tensor in single precision."""
    q, k, v = module.q_proj(x), module.k_proj(source), module.v_proj(source)
    heads = (y.unflatten(-1, (-1, K)).transpose(1, 2) for y in (q, k, v))
    return module.o_proj(attend(*heads).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("is_cross", [False, True])
def test_autocast_casts_what_attention_reads_once(is_cross, device):
    module = MultiHeadAttention(D, H, d_source=SOURCE if is_cross else None).float().to(device)
    x = torch.randn(B, T, D, device=device, dtype=torch.float32, requires_grad=True)
    source = torch.randn(B, S, SOURCE, device=device, dtype=torch.float32, requires_grad=True)
    given = (x, source) if is_cross else (x,)
    with torch.autocast(device, torch.bfloat16):
        expected = cast_apart(module, *(given if is_cross else (x, x)))
        with Casts() as casts:
            output = module(*given)
    assert [casts.shapes.count(tuple(g.shape)) for g in given] == [1] * len(given)
    assert output.dtype == torch.bfloat16
    close(output, expected, 0)
    wanted = [*given, *module.parameters()]
    ours, theirs = (torch.autograd.grad(y.sum(), wanted) for y in (output, expected))
    assert {gradient.dtype for gradient in ours} == {torch.float32}
    assert_close(ours, theirs, rtol=0.05, atol=0.05)  # their sum is rounded to eight bits


def test_autocast_leaves_attention_in_double_precision_alone(device):
    module, x = MultiHeadAttention(D, H).to(device), torch.randn(B, T, D, device=device)
    with torch.autocast(device, torch.bfloat16):
        inside = module(x)
    close(inside, module(x), 0)
    meta = module.to("meta")(torch.empty(B, T, D, device="meta"))  # a device without autocast
    assert meta.shape == (B, T, D)


@pytest.mark.parametrize("n_kv_heads", [1, 5])
def test_alone_it_reads_in_pieces_and_turns_by_the_caches_length(n_kv_heads):
    module = MultiHeadAttention(D, H, n_kv_heads=n_kv_heads, rotary=Rotary(K))
    x, cache = torch.randn(B, T, D), LayerCache()
    pieces = [module(piece, cache=cache, causal=True) for piece in x.tensor_split([1, 4], dim=1)]
    close(torch.cat(pieces, 1), module(x, causal=True))


def asked(*shapes):
    return MultiHeadAttention(D, H, d_source=SOURCE)(*(torch.zeros(shape) for shape in shapes))


test_what_does_not_fit_is_refused = refuses(
    (lambda: MultiHeadAttention(D, 3), "n_heads=3 does not divide d_model=10"),
    (lambda: MultiHeadAttention(D, 5, n_kv_heads=2), "n_kv_heads=2 does not divide n_heads=5"),
    (lambda: asked((B, T, 7)), r"x \(B, length, 10\), B = 3, got \(3, 7, 7\)"),
    (lambda: asked((B, T, D), (B, S, D)), r"source \(B, length, 13\), B = 3, got \(3, 11, 10"),
    (lambda: asked((B, T, D), (2, S, SOURCE)), r"source .*, B = 3, got \(2, 11, 13\)"),
    (lambda: asked((B, T, D)), r"source \(B, length, 13\), B = 3, got \(3, 7, 10\)"),
)


@pytest.mark.parametrize("shape", [(T,), (T, T), (1, T, T), (H, T, T), (B, T, T), (B, T)])
def test_a_mask_that_could_be_taken_for_another_is_refused(shape):
    """(B, T, S) would be read as (H, T, S) where B = H, and (B, S) as (T, S) where B = T."""
    module, x = MultiHeadAttention(D, H), torch.randn(B, T, D)
    with pytest.raises(ValueError, match=r"four axes, .* \[None, None\]|four axes, .*None, None"):
        module(x, mask=torch.ones(shape, dtype=torch.bool))
    module(x, mask=torch.ones(B, 1, T, 1, dtype=torch.bool))


def test_weights_of_all_attentions_are_collected_in_order_and_only_within():
    both = nn.Sequential(MultiHeadAttention(D, H), MultiHeadAttention(D, 2))
    x = torch.randn(B, T, D)
    with attention_weights(both) as weights:
        output = both(x)
    assert [w.shape for w in weights] == [(B, H, T, T), (B, 2, T, T)]
    close(weights[0], both[0](x, return_weights=True)[1], 0)
    close(both(x), output)
    assert len(weights) == 2
