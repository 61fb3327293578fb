"""Multi-head attention against torch's module and loops over heads; its cache against itself."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from unrolled.models.attention import attend
from unrolled.models.heads import MultiHeadAttention, attention_weights
from unrolled.models.kv_cache import LayerCache
from unrolled.models.masks import causal_mask, padding_mask, window_mask
from unrolled.models.positions import Rotary

B, T, S, D, H, K, SOURCE = 3, 7, 11, 10, 5, 2, 13
DTYPE = torch.float64
both = pytest.mark.parametrize("implementation", ["reference", "fused"])


def close(got, expected, tolerance=1e-12):
    assert_close(got, expected, rtol=0, atol=tolerance)


def randomised(module):
    """The module with biases that are not 0, so that a lost bias shows."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def torchs(bias=True, **options) -> nn.MultiheadAttention:
    return randomised(nn.MultiheadAttention(D, H, bias=bias, batch_first=True, **options))


def like(theirs: nn.MultiheadAttention, **options) -> MultiHeadAttention:
    """Ours with the weights of torch's module."""
    bias = theirs.in_proj_bias is not None
    ours = MultiHeadAttention(D, H, bias=bias, d_source=theirs.kdim, **options)
    if theirs.in_proj_weight is None:
        weights = theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight
    else:
        weights = theirs.in_proj_weight.chunk(3)
    state = {f"{name}_proj.weight": w for name, w in zip("qkv", weights, strict=True)}
    if bias:
        biases = zip("qkv", theirs.in_proj_bias.chunk(3), strict=True)
        state |= {f"{name}_proj.bias": b for name, b in biases}
    state |= {f"o_proj.{name}": x for name, x in theirs.out_proj.state_dict().items()}
    ours.load_state_dict(state)
    return ours


def gradients(module, output, *inputs):
    weights = torch.linspace(-1, 2, output.numel(), device=output.device).reshape(output.shape)
    return torch.autograd.grad((weights * output).sum(), [*inputs, *module.parameters()])


# --- against torch -------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [None, "causal", "padding", "both"])
def test_self_attention_is_torchs_forward_and_backward(implementation, bias, masked, device):
    theirs = torchs(bias).to(device)
    ours = like(theirs, implementation=implementation).to(device)
    x = torch.randn(B, T, D, device=device, requires_grad=True)
    may_not, real = None, None
    if masked in ("causal", "both"):
        may_not = ~causal_mask(T, device=device)  # torch: True = may not attend
    if masked in ("padding", "both"):
        real = torch.arange(T, device=device) < torch.tensor([[7], [4], [1]], device=device)
    expected, _ = theirs(
        x, x, x, attn_mask=may_not, key_padding_mask=None if real is None else ~real,
        need_weights=False,
    )  # fmt: skip
    mask = None if real is None else padding_mask(real)
    got = ours(x, mask=mask, causal=may_not is not None)
    close(got, expected)
    close(gradients(ours, got, x)[0], gradients(theirs, expected, x)[0])


@both
@pytest.mark.parametrize("d_source", [None, SOURCE])
def test_cross_attention_is_torchs(implementation, d_source, device):
    theirs = torchs(kdim=d_source, vdim=d_source).to(device)
    ours = like(theirs, implementation=implementation).to(device)
    x = torch.randn(B, T, D, device=device)
    source = torch.randn(B, S, d_source or D, device=device)
    real = torch.arange(S, device=device) < torch.tensor([[11], [3], [5]], device=device)
    expected, _ = theirs(x, source, source, key_padding_mask=~real)  # torch: True = may not
    close(ours(x, source, padding_mask(real)), expected)


def test_the_weights_shown_are_torchs(device):
    theirs = torchs().to(device)
    ours = like(theirs).to(device)
    x, mask = torch.randn(B, T, D, device=device), causal_mask(T, device=device)
    _, expected = theirs(x, x, x, attn_mask=~mask, average_attn_weights=False)
    output, weights = ours(x, causal=True, return_weights=True)
    close(weights, expected)
    close(output, ours(x, causal=True))


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


# --- heads and groups ----------------------------------------------------------------------------


def head_by_head(module, x, source, mask):
    """The same, one head after the other, with plain matrices."""
    n, width, group = module.n_heads, module.head_dim, module.n_heads // module.n_kv_heads
    k_all, v_all = module.k_proj(source), module.v_proj(source)
    result = module.o_proj.bias.expand(*x.shape[:2], -1)
    for h in range(n):
        rows, shared = slice(h * width, (h + 1) * width), h // group
        columns = slice(shared * width, (shared + 1) * width)
        q = x @ module.q_proj.weight[rows].T + module.q_proj.bias[rows]
        scores = q @ k_all[..., columns].transpose(1, 2) / math.sqrt(width)
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
        result = result + weights @ v_all[..., columns] @ module.o_proj.weight[:, rows].T
    return result


@both
@pytest.mark.parametrize("n_kv_heads", [1, 2, 3, 6])
@pytest.mark.parametrize("head_dim", [None, 5])
def test_groups_share_keys_and_values_as_a_loop_over_heads_does(
    implementation, n_kv_heads, head_dim, device
):
    module = MultiHeadAttention(
        12, 6, n_kv_heads=n_kv_heads, head_dim=head_dim, d_source=SOURCE,
        implementation=implementation,
    )  # fmt: skip
    module = randomised(module).to(device)
    x, source = torch.randn(B, T, 12, device=device), torch.randn(B, S, SOURCE, device=device)
    mask = torch.rand(T, S, device=device) < 0.7
    mask[:, 0] = True
    got = module(x, source, mask[None, None])
    close(got, head_by_head(module, x, source, mask))


def test_attention_of_two_heads_by_hand():
    """Head 0 compares entry 0 and returns it, head 1 entry 1; the output exchanges the two.

    x = (0, 1), (ln 3, 0), scale 1, the second query: head 0 scores 0 and (ln 3)², head 1 only 0s.
    """
    module = MultiHeadAttention(2, 2, bias=False, scale=1.0)
    module.load_state_dict({f"{name}_proj.weight": torch.eye(2) for name in "qkv"}
                           | {"o_proj.weight": torch.tensor([[0.0, 1.0], [1.0, 0.0]])})  # fmt: skip
    log3 = math.log(3)
    x = torch.tensor([[[0.0, 1.0], [log3, 0.0]]])
    output, weights = module(x, return_weights=True)
    first = 1 / (1 + math.exp(log3**2))
    close(weights[0, :, 1], torch.tensor([[first, 1 - first], [0.5, 0.5]]), 1e-15)
    close(output[0, 1], torch.tensor([0.5, (1 - first) * log3]), 1e-15)


def test_gradients_agree_with_finite_differences():
    module = randomised(MultiHeadAttention(4, 2, n_kv_heads=1, d_source=3))
    names = [name for name, _ in module.named_parameters()]
    mask = torch.tensor([[True, False, True], [False, False, False]])[None, None]

    def f(x, source, *parameters):
        named = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(module, named, (x, source, mask))

    inputs = torch.randn(2, 2, 4), torch.randn(2, 3, 3)
    inputs = [*inputs, *(p.detach().clone() for p in module.parameters())]
    assert torch.autograd.gradcheck(f, [x.requires_grad_() for x in inputs])


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 4)] * 4),
    groups=st.integers(1, 3),
    per_group=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_a_new_order_of_positions_and_of_heads_only_moves_the_output(
    sizes, groups, per_group, seed
):
    torch.manual_seed(seed)
    batch, n, width, d_model = sizes
    heads = groups * per_group
    module = MultiHeadAttention(d_model, heads, n_kv_heads=groups, head_dim=width)
    x = torch.randn(batch, n, d_model)
    output, order = module(x), torch.randperm(n)
    close(module(x[:, order]), output[:, order])
    within = torch.arange(heads).view(groups, per_group)[:, torch.randperm(per_group)].flatten()
    rows = (within[:, None] * width + torch.arange(width)).flatten()
    with torch.no_grad():
        module.q_proj.weight.copy_(module.q_proj.weight[rows])
        module.q_proj.bias.copy_(module.q_proj.bias[rows])
        module.o_proj.weight.copy_(module.o_proj.weight[:, rows])
    close(module(x), output)


def test_dropout_acts_in_training_only():
    module, x = MultiHeadAttention(D, H, dropout=0.5), torch.randn(B, T, D)
    assert (module(x, return_weights=True)[1] == 0).any()
    module.eval()
    close(module(x), module(x), 0)
    assert (module(x, return_weights=True)[1] > 0).all()


# --- autocast ------------------------------------------------------------------------------------


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
    pairs = zip(gradients(module, output, *given), gradients(module, expected, *given), strict=True)
    for ours, theirs in pairs:
        assert ours.dtype == torch.float32
        assert_close(ours, theirs, rtol=0.05, atol=0.05)  # their sum is rounded to eight bits


def test_autocast_leaves_attention_in_double_precision_alone(device):
    module, x = MultiHeadAttention(D, H).to(device), torch.randn(B, T, D, device=device)
    with torch.autocast(device, torch.bfloat16):
        inside = module(x)
    close(inside, module(x), 0)


def test_attention_tells_its_shape_on_a_device_without_autocast():
    module, x = MultiHeadAttention(D, H).to("meta"), torch.empty(B, T, D, device="meta")
    assert module(x).shape == (B, T, D)


# --- the cache -----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("cuts", [list(range(1, T)), [3], [2, 5], [1, 6]])
@pytest.mark.parametrize("n_kv_heads", [1, 5])
@pytest.mark.parametrize("rotated", [False, True])
def test_reading_in_pieces_is_reading_at_once(implementation, cuts, n_kv_heads, rotated, device):
    rotary = Rotary(K) if rotated else None
    options = {"n_kv_heads": n_kv_heads, "rotary": rotary, "implementation": implementation}
    module = MultiHeadAttention(D, H, **options).to(device)
    x, cache = torch.randn(B, T, D, device=device), LayerCache()
    pieces = [module(piece, cache=cache, causal=True) for piece in x.tensor_split(cuts, dim=1)]
    assert cache.length == T
    close(torch.cat(pieces, 1), module(x, causal=True))


def test_a_window_reads_in_pieces_as_well():
    module, x = MultiHeadAttention(D, H), torch.randn(B, T, D)
    whole, cache, pieces = module(x, mask=window_mask(T, window=3)[None, None]), LayerCache(), []
    for piece in x.tensor_split([2, 3], dim=1):
        mask = window_mask(piece.shape[1], cache.length + piece.shape[1], window=3)
        pieces.append(module(piece, mask=mask[None, None], cache=cache))
    close(torch.cat(pieces, 1), whole)


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_heads": 3}, "n_heads=3 does not divide d_model=10"),
        ({"n_heads": 5, "n_kv_heads": 2}, "n_kv_heads=2 does not divide n_heads=5"),
        ({"n_heads": 0}, "n_heads must be at least 1, got 0"),
        ({"n_heads": 5, "n_kv_heads": 0}, "n_kv_heads must be at least 1"),
        ({"n_heads": 5, "head_dim": 0}, "head_dim must be at least 1"),
        ({"n_heads": 5, "d_source": 0}, "d_source must be at least 1"),
        ({"n_heads": 5, "dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"n_heads": 5, "dropout": math.nan}, "dropout must be finite"),
    ],
)
def test_impossible_sizes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(D, **options)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(T, D)], r"x \(B, length, 10\), B = 7, got \(7, 10\)"),
        ([(B, T, 7)], r"x \(B, length, 10\), B = 3, got \(3, 7, 7\)"),
        ([(B, T, D), (B, S, D)], r"source \(B, length, 13\), B = 3, got \(3, 11, 10\)"),
        ([(B, T, D), (2, S, SOURCE)], r"source \(B, length, 13\), B = 3, got \(2, 11, 13\)"),
        ([(B, T, D)], r"source \(B, length, 13\), B = 3, got \(3, 7, 10\)"),
    ],
)
def test_inputs_of_other_shapes_are_refused(shapes, message):
    module = MultiHeadAttention(D, H, d_source=SOURCE)
    with pytest.raises(ValueError, match=message):
        module(*(torch.zeros(shape) for shape in shapes))


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
