"""Scaled dot-product attention against torch, numpy, cases by hand and finite differences."""

import math

import pytest
import torch
from comparing import close, refuses, up_to, with_gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close
from unrolled.models.attention import attend
from unrolled.models.masks import causal_mask, padding_mask, prepare, window_mask

B, H, G, T, S, K, KV = 2, 6, 3, 5, 7, 11, 13
DTYPE = torch.float64
both = pytest.mark.parametrize("implementation", ["reference", "fused"])


def qkv(*lead, n_queries=T, n_keys=S, groups=None, device="cpu"):
    """Random queries, keys and values that want a gradient."""
    keys = (*lead[:-1], groups) if groups else lead
    shapes = (*lead, n_queries, K), (*keys, n_keys, K), (*keys, n_keys, KV)
    return [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]


@both
@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 3, 5)])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention_is_torchs_forward_and_backward(implementation, lead, scale, device):
    inputs = qkv(*lead, device=device)
    options = {"scale": scale, "implementation": implementation}
    got = with_gradients(lambda *x: attend(*x, **options), *inputs)
    theirs = with_gradients(lambda *x: F.scaled_dot_product_attention(*x, scale=scale), *inputs)
    close(got, theirs)


@both
@pytest.mark.parametrize("shape", [(T, S), (S,), (T, 1), (H, 1, S), (B, 1, 1, S), (B, H, T, S)])
@pytest.mark.parametrize("kind", ["mask", "bias"])
@pytest.mark.parametrize("causal", [False, True])
def test_masks_and_biases_broadcast_as_torchs(implementation, shape, kind, causal, device):
    """What is prepared once is what each call would prepare."""
    inputs = qkv(B, H, device=device)
    x = torch.randn(shape, device=device)
    x = x > -0.5 if kind == "mask" else x
    if kind == "mask":
        x[..., 0] = True  # torch has no answer to an empty row
    options = {kind: x, "causal": causal, "implementation": implementation}
    got = with_gradients(lambda *a: attend(*a, **options), *inputs)
    added = x.expand(B, H, T, S)
    if causal:
        past = causal_mask(T, S, device=device)
        added = added & past if kind == "mask" else added.masked_fill(~past, -math.inf)
    close(got, with_gradients(lambda *a: F.scaled_dot_product_attention(*a, added), *inputs))
    masks = (x, None) if kind == "mask" else (None, x)
    ready = prepare(*masks, T, S, causal=causal, device=device)
    close(attend(*inputs, ready, implementation=implementation), got[0], 0)


@both
def test_a_bias_gets_its_gradient(implementation, device):
    inputs = [*qkv(B, H, device=device), torch.randn(H, T, S, device=device, requires_grad=True)]
    mask = window_mask(T, S, window=3, device=device)

    def ours(q, k, v, bias):
        return attend(q, k, v, mask, bias=bias, implementation=implementation)

    def plain(q, k, v, bias):
        scores = q @ k.transpose(-2, -1) / math.sqrt(K) + bias
        return scores.masked_fill(~mask, -math.inf).softmax(-1) @ v

    close(with_gradients(ours, *inputs), with_gradients(plain, *inputs))


@both
def test_grouped_queries_are_heads_whose_keys_and_values_are_repeated(implementation, device):
    inputs = qkv(B, H, groups=G, device=device)
    got = with_gradients(lambda *x: attend(*x, implementation=implementation), *inputs)

    def head_by_head(q, k, v):
        heads = [F.scaled_dot_product_attention(q[:, h], k[:, h // 2], v[:, h // 2])
                 for h in range(H)]  # fmt: skip
        return torch.stack(heads, 1)

    close(got, with_gradients(head_by_head, *inputs))


@both
def test_a_query_that_may_attend_to_nothing_gets_zeros_and_sends_back_none(implementation, device):
    q, k, v = qkv(B, H, device=device)
    mask = torch.rand(B, 1, T, S, device=device) < 0.5
    mask[0, :, 2], mask[1] = False, False  # one row of one sequence; all rows of the other
    mask[0, :, 3, 0] = True
    output = attend(q, k, v, mask, implementation=implementation)
    assert not output[0, :, 2].any()
    assert not output[1].any()
    assert output[0, :, 3].all()
    output.sum().backward()
    for x in (q, k, v):
        assert x.grad.isfinite().all()
        assert not x.grad[1].any()
    assert not q.grad[0, :, 2].any()
    assert q.grad[0, :, 3].any()


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 5)] * 6), per_group=st.integers(1, 3), density=st.floats(0, 1),
    causal=st.booleans(), bias=st.booleans(), seed=st.integers(0, 999),
)  # fmt: skip
def test_fused_and_reference_agree_at_any_shape(sizes, per_group, density, causal, bias, seed):
    torch.manual_seed(seed)
    batch, groups, t, more, width, value_width = sizes
    heads, s = groups * per_group, t + more - 1
    q = torch.randn(batch, heads, t, width, requires_grad=True)
    k = torch.randn(batch, groups, s, width, requires_grad=True)
    v = torch.randn(batch, groups, s, value_width, requires_grad=True)
    mask = torch.rand(batch, 1, t, s) < density if density < 0.9 else None
    options = {"causal": causal, "bias": torch.randn(heads, t, s) if bias else None}
    got, expected = (
        with_gradients(lambda *a, i=i: attend(*a, mask, **options, implementation=i), q, k, v)
        for i in ("fused", "reference")
    )
    close(got, expected)


def test_dropout_zeroes_its_share_of_weights_and_scales_the_others_up():
    q, k = torch.zeros(40, 50, K), torch.zeros(40, 101, K)
    v = torch.randn(40, 101, KV)
    output, weights = attend(q, k, v, dropout=0.3, return_weights=True)
    close(weights.unique(), torch.tensor([0, 1 / 101 / 0.7]))
    share = (weights == 0).double().mean().item()
    assert abs(share - 0.3) < 5 * math.sqrt(0.3 * 0.7 / weights.numel())
    close(output, weights @ v)  # the weights shown are those that were used


@both
def test_dropout_keeps_the_mean_and_follows_the_seed(implementation):
    q, k, v = (x.detach() for x in qkv(1, 1, n_queries=1))
    many = [x.expand(20_000, *x.shape[1:]) for x in (q, k, v)]
    outputs = attend(*many, dropout=0.4, implementation=implementation)
    error = outputs.std(0) / math.sqrt(len(outputs))
    assert ((outputs.mean(0) - attend(q, k, v)[0]).abs() < 5 * error).all()
    torch.manual_seed(3)
    first = attend(q, k, v, dropout=0.4, implementation=implementation)
    torch.manual_seed(3)
    close(attend(q, k, v, dropout=0.4, implementation=implementation), first, 0)


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_output_has_the_dtype_of_the_inputs(implementation, dtype, device):
    inputs = [x.detach().to(dtype) for x in qkv(B, H, device=device)]
    mask, bias = causal_mask(T, S, device=device), torch.randn(H, T, S, device=device)
    output = attend(*inputs, mask, bias=bias.to(dtype), implementation=implementation)
    assert output.dtype == dtype
    exact = attend(*(x.double() for x in inputs), mask, bias=bias.to(dtype).double())
    close(output.double(), exact, 20 * torch.finfo(dtype).eps)


@pytest.fixture
def kernels(monkeypatch):
    """The options of each call of torch's kernel."""
    seen, real = [], F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **o: seen.append(o) or real(*a, **o)
    )
    return seen


def test_auto_takes_the_fused_kernel_unless_weights_are_asked_for(kernels):
    q, k, v = qkv(B, H)
    expected = attend(q, k, v, implementation="reference")
    assert not kernels
    close(attend(q, k, v), expected)
    assert len(kernels) == 1
    close(attend(q, k, v, return_weights=True)[0], expected, 0)
    assert len(kernels) == 1


@pytest.mark.parametrize("masked", [False, True])
def test_grouped_heads_are_spread_where_there_is_a_mask(masked, kernels):
    """With a mask, torch's grouped form falls to the kernel that holds all scores on a GPU."""
    mask = torch.ones(B, 1, T, S, dtype=torch.bool) if masked else None
    attend(*qkv(B, H, groups=G), mask)
    assert [options["enable_gqa"] for options in kernels] == [not masked]


@pytest.mark.parametrize("form", ["causal", "grouped", "masked", "grouped and masked"])
def test_no_kernel_that_holds_all_scores_is_needed(form, device):
    """bfloat16, heads of 64, causal, four axes: the flash kernel; with a mask torch's efficient one
    on a GPU. sdpa_kernel refuses to run when none of those allowed can.
    """
    length, groups = 128, 2 if "grouped" in form else 4
    q, k, v = (torch.randn(2, n, length, 64, device=device) for n in (4, groups, groups))
    real = up_to(128, 77, width=length, device=device)
    mask = padding_mask(real) if "masked" in form else None
    expected = attend(q, k, v, mask, causal=True, implementation="reference")
    allowed = [SDPBackend.FLASH_ATTENTION]
    if device == "cuda" and mask is not None:
        allowed = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]
    with sdpa_kernel(allowed):
        got = attend(*(x.bfloat16() for x in (q, k, v)), mask, causal=True)
    close(got.to(expected), expected, 0.03)


def asked(q, k, v, **options):
    return lambda: attend(*map(torch.zeros, (q, k, v)), **options)


SAME = [(5, 3)] * 3


test_what_does_not_fit_is_refused_with_its_shapes = refuses(
    (asked((5, 3), (7, 2), (7, 3)), r"q \(5, 3\), k \(7, 2\), v \(7, 3\)"),
    (asked((5, 3), (7, 3), (5, 3)), r"k \(…, S, K\)"),
    (asked((3,), (3,), (3,)), r"expected q \(…, T, K\)"),
    (asked((2, 5, 3), (3, 7, 3), (3, 7, 3)), "the leading axes equal"),
    (asked((2, 5, 3), (2, 7, 3), (1, 7, 3)), "the leading axes equal"),
    (asked((1, 5, 2, 3), (1, 3, 7, 3), (1, 3, 7, 3)), "G heads that divide H; got"),
    (asked((2, 6, 2, 3), (3, 3, 7, 3), (3, 3, 7, 3)), "the leading axes equal"),
    (asked((7, 3), (5, 3), (5, 3), causal=True), "T = 7 queries and S = 5 keys"),
    (asked((5, 3), (7, 3), (7, 3), mask=causal_mask(5)),
     r"mask \(5, 5\) does not broadcast to the scores \(5, 7\)"),
    (asked(*SAME, mask=torch.ones(2, 5, 5) > 0), r"mask \(2, 5, 5\) does not"),
    (asked(*[(2, 5, 3)] * 3, bias=torch.zeros(3, 5, 5)),
     r"bias \(3, 5, 5\) does not broadcast to the scores \(2, 5, 5\)"),
    (asked(*SAME, bias=torch.ones(5, 5) > 0), TypeError, "booleans are a mask"),
    (asked(*SAME, implementation="fused", return_weights=True), "never holds the weights"),
)  # fmt: skip


READ = {  # what is spoilt, and where in q (T, K), k or v (S, K), or in a bias (T, S)
    "a NaN in a query": ("q", (-1, 2), math.nan),
    "an infinite query": ("q", (-1, 2), math.inf),
    "a NaN in a key": ("k", (0, 1), math.nan),
    "a NaN in a value": ("v", (0, slice(None)), math.nan),
    "a NaN in a bias": ("bias", (-1, 0), math.nan),
    "a score of infinity": ("bias", (-1, 0), math.inf),
    "no finite score": ("bias", (-1, slice(None)), -math.inf),
}


@pytest.mark.parametrize("implementation", ["reference", "fused", "auto"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 40), (3, 16), (40, 40)])
@pytest.mark.parametrize("spoilt", READ)
def test_what_is_not_finite_makes_nan_of_the_rows_that_read_it(
    spoilt, T, S, causal, implementation
):
    name, at, value = READ[spoilt]
    q, k, v = (torch.randn(B, H, n, K).float() for n in (T, S, S))  # as the CPU's kernel wants them
    given = {"q": q, "k": k, "v": v}
    if name == "bias":
        given["bias"] = torch.zeros(B, H, T, S).float()
    options = {"causal": causal, "implementation": implementation}
    expected = attend(**given, **options)
    given[name][0, 1][at] = value
    got = attend(**given, **options)
    rows = slice(-1, None) if name in ("q", "bias") else slice(None)  # all may see the first key
    expected[0, 1, rows] = math.nan
    assert_close(got, expected, rtol=0, atol=1e-5, equal_nan=True)


@both
def test_what_the_mask_hides_spoils_nothing(implementation):
    q, k, v = (x.detach() for x in qkv(B, H, n_keys=T))
    expected = attend(q, k, v, causal=True, implementation=implementation)
    k[:, :, -1] = math.nan
    got = attend(q, k, v, causal=True, implementation=implementation)
    assert_close(got[:, :, :-1], expected[:, :, :-1], rtol=1e-12, atol=1e-12)
    assert got[:, :, -1].isnan().all()
