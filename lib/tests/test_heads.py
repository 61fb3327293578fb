"""Multi-head attention against torch's module and loops over heads; its cache against itself."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from unrolled.models.heads import MultiHeadAttention
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
    biases = {"qkv": theirs.in_proj_bias, "o": theirs.out_proj.bias} if bias else None
    if theirs.in_proj_weight is not None:
        ours.load(qkv=theirs.in_proj_weight, o=theirs.out_proj.weight, biases=biases)
    else:
        ours.load(
            q=theirs.q_proj_weight, k=theirs.k_proj_weight, v=theirs.v_proj_weight,
            o=theirs.out_proj.weight, biases=biases,
        )  # fmt: skip
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
    ours = like(theirs).to(device)
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
    got = ours(
        x, mask=None if real is None else padding_mask(real), causal=may_not is not None,
        implementation=implementation,
    )  # fmt: skip
    close(got, expected)
    close(gradients(ours, got, x)[0], gradients(theirs, expected, x)[0])


@both
@pytest.mark.parametrize("d_source", [None, SOURCE])
def test_cross_attention_is_torchs(implementation, d_source, device):
    theirs = torchs(kdim=d_source, vdim=d_source).to(device)
    ours = like(theirs).to(device)
    x = torch.randn(B, T, D, device=device)
    source = torch.randn(B, S, d_source or D, device=device)
    real = torch.arange(S, device=device) < torch.tensor([[11], [3], [5]], device=device)
    expected, _ = theirs(x, source, source, key_padding_mask=~real)  # torch: True = may not
    close(ours(x, source, padding_mask(real), implementation=implementation), expected)


def test_the_weights_shown_are_torchs(device):
    theirs = torchs().to(device)
    ours = like(theirs).to(device)
    x, mask = torch.randn(B, T, D, device=device), causal_mask(T, device=device)
    _, expected = theirs(x, x, x, attn_mask=~mask, average_attn_weights=False)
    output, weights = ours(x, causal=True, with_weights=True)
    close(weights, expected)
    close(output, ours(x, causal=True))


def test_weights_load_from_separate_and_from_fused_matrices_alike():
    theirs = torchs()
    q, k, v = theirs.in_proj_weight.chunk(3)
    bias_q, bias_k, bias_v = theirs.in_proj_bias.chunk(3)
    one, other = like(theirs), MultiHeadAttention(D, H)
    biases = {"q": bias_q, "k": bias_k, "v": bias_v, "o": theirs.out_proj.bias}
    other.load(q=q, k=k, v=v, o=theirs.out_proj.weight, biases=biases)
    for name, expected in one.state_dict().items():
        close(other.state_dict()[name], expected, 0)


def test_biases_that_are_not_given_become_zero():
    ours = randomised(MultiHeadAttention(D, H))
    ours.load(qkv=torch.randn(3 * D, D), o=torch.randn(D, D), biases={"v": torch.ones(D)})
    assert not ours.q_proj.bias.any()
    assert not ours.o_proj.bias.any()
    close(ours.kv_proj.bias, torch.tensor([0.0] * D + [1.0] * D), 0)


# --- heads and groups ----------------------------------------------------------------------------


def head_by_head(module, x, source, mask):
    """The same, one head after the other, with plain matrices."""
    n, width, group = module.n_heads, module.head_dim, module.n_heads // module.n_kv_heads
    k_all, v_all = module.kv_proj(source).chunk(2, -1)
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
    module = MultiHeadAttention(12, 6, n_kv_heads=n_kv_heads, head_dim=head_dim, d_source=SOURCE)
    module = randomised(module).to(device)
    x, source = torch.randn(B, T, 12, device=device), torch.randn(B, S, SOURCE, device=device)
    mask = torch.rand(T, S, device=device) < 0.7
    mask[:, 0] = True
    got = module(x, source, mask, implementation=implementation)
    close(got, head_by_head(module, x, source, mask))


def test_attention_of_two_heads_by_hand():
    """Head 0 compares entry 0 and returns it, head 1 entry 1; the output exchanges the two.

    x = (0, 1), (ln 3, 0), scale 1, the second query: head 0 scores 0 and (ln 3)², head 1 only 0s.
    """
    module = MultiHeadAttention(2, 2, bias=False, scale=1.0)
    module.load(qkv=torch.eye(2).repeat(3, 1), o=torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    log3 = math.log(3)
    x = torch.tensor([[[0.0, 1.0], [log3, 0.0]]])
    output, weights = module(x, with_weights=True)
    first = 1 / (1 + math.exp(log3**2))
    close(weights[0, :, 1], torch.tensor([[first, 1 - first], [0.5, 0.5]]), 1e-15)
    close(output[0, 1], torch.tensor([0.5, (1 - first) * log3]), 1e-15)


def test_gradients_agree_with_finite_differences():
    module = randomised(MultiHeadAttention(4, 2, n_kv_heads=1, d_source=3))
    names = [name for name, _ in module.named_parameters()]
    mask = torch.tensor([[True, False, True], [False, False, False]])

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
    assert (module(x, with_weights=True)[1] == 0).any()
    module.eval()
    close(module(x), module(x), 0)
    assert (module(x, with_weights=True)[1] > 0).all()


# --- the cache -----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("cuts", [list(range(1, T)), [3], [2, 5], [1, 6]])
@pytest.mark.parametrize("n_kv_heads", [1, 5])
@pytest.mark.parametrize("rotated", [False, True])
def test_reading_in_pieces_is_reading_at_once(implementation, cuts, n_kv_heads, rotated, device):
    module = MultiHeadAttention(D, H, n_kv_heads=n_kv_heads).to(device)
    rotary = Rotary(K) if rotated else None
    x = torch.randn(B, T, D, device=device)
    options = {"causal": True, "rotary": rotary, "implementation": implementation}
    cache = LayerCache()
    pieces = [module(piece, cache=cache, **options) for piece in x.tensor_split(cuts, dim=1)]
    assert cache.length == T
    close(torch.cat(pieces, 1), module(x, **options))


def test_a_window_reads_in_pieces_as_well():
    module, x = MultiHeadAttention(D, H), torch.randn(B, T, D)
    whole, cache, pieces = module(x, mask=window_mask(T, window=3)), LayerCache(), []
    for piece in x.tensor_split([2, 3], dim=1):
        mask = window_mask(piece.shape[1], cache.length + piece.shape[1], window=3)
        pieces.append(module(piece, mask=mask, cache=cache))
    close(torch.cat(pieces, 1), whole)


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_heads": 3}, "n_heads=3 does not divide d_model=10"),
        ({"n_heads": 5, "n_kv_heads": 2}, "n_kv_heads=2 does not divide n_heads=5"),
        ({"n_heads": 0}, "at least 1, got.*'n_heads': 0"),
        ({"n_heads": 5, "n_kv_heads": 0}, "'n_kv_heads': 0"),
        ({"n_heads": 5, "head_dim": 0}, "'head_dim': 0"),
        ({"n_heads": 5, "d_source": 0}, "'d_source': 0"),
        ({"n_heads": 5, "dropout": 1.0}, r"\[0, 1\), got 1.0"),
    ],
)
def test_impossible_sizes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(D, **options)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(T, D)], r"x \(B, T, 10\), got \(7, 10\)"),
        ([(B, T, 7)], r"x \(B, T, 10\), got \(3, 7, 7\)"),
        ([(B, T, D), (B, S, D)], r"source \(3, S, 13\), got \(3, 11, 10\)"),
        ([(B, T, D), (2, S, SOURCE)], r"source \(3, S, 13\), got \(2, 11, 13\)"),
        ([(B, T, D)], r"source \(3, S, 13\), got \(3, 7, 10\)"),
    ],
)
def test_inputs_of_other_shapes_are_refused(shapes, message):
    module = MultiHeadAttention(D, H, d_source=SOURCE)
    with pytest.raises(ValueError, match=message):
        module(*(torch.zeros(shape) for shape in shapes))


def zeros(**shapes):
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("weights", "biases", "message"),
    [
        (zeros(o=(10, 10)), {}, "either q, k and v, or qkv"),
        (zeros(o=(10, 10), q=(10, 10), k=(2, 10)), {}, "either q, k and v, or qkv"),
        (zeros(o=(10, 10), qkv=(14, 10), q=(10, 10)), {}, "either q, k and v, or qkv"),
        (zeros(o=(10, 10), qkv=(30, 10)), {}, r"qkv \(14, …\), got \(30, 10\)"),
        (zeros(o=(10, 7), qkv=(14, 10)), {}, r"o \(10, 10\), got \(10, 7\)"),
        (zeros(o=(10, 10), q=(10, 10), k=(2, 10), v=(4, 10)), {}, r"v \(2, 10\), got \(4, 10\)"),
        (zeros(o=(10, 10), qkv=(14, 10)), zeros(q=(1,)), r"bias q \(10,\), got \(1,\)"),
        (zeros(o=(10, 10), qkv=(14, 10)), zeros(qkv=(30,)), r"qkv \(14, …\), got \(30,\)"),
        (zeros(o=(10, 10), qkv=(14, 10)), zeros(w=(10,)), r"named q, k, v, o .*\['w'\]"),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_change_nothing(weights, biases, message):
    module = MultiHeadAttention(D, H, n_kv_heads=1)
    before = {name: x.clone() for name, x in module.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        module.load(**weights, biases=biases)
    for name, x in module.state_dict().items():
        close(x, before[name], 0)


def test_biases_need_a_place():
    module = MultiHeadAttention(D, H, bias=False)
    with pytest.raises(ValueError, match="no biases to load"):
        module.load(**zeros(qkv=(30, 10), o=(10, 10)), biases=zeros(q=(10,)))
