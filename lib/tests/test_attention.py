"""Scaled dot-product attention against torch, numpy, cases by hand and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
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


def close(got, expected, tolerance=1e-12):
    assert_close(got, expected, rtol=0, atol=tolerance)


def with_gradients(f, *inputs):
    """f's output, and the gradients of a weighted sum of it, weights differing by place."""
    output = f(*inputs)
    weights = torch.linspace(-1, 2, output.numel(), device=output.device).reshape(output.shape)
    return output, *torch.autograd.grad((weights * output).sum(), inputs)


# --- by hand, and against torch ------------------------------------------------------------------


@both
def test_attention_by_hand(implementation):
    """Scores ln 3 and 0 after scaling: weights 3/4 and 1/4, so values 8 and 4 become 7."""
    q, k = torch.tensor([[2.0, 0, 0, 0]]), torch.tensor([[math.log(3), 9, 0, 0], [0, 0, 5, 0]])
    v = torch.tensor([[8.0, 0], [4, 4]])
    close(attend(q, k, v, implementation=implementation), torch.tensor([[7.0, 1]]), 1e-14)


def test_the_weights_are_shown_by_hand():
    q, k = torch.tensor([[2.0, 0, 0, 0]]), torch.tensor([[math.log(3), 9, 0, 0], [0, 0, 5, 0]])
    output, weights = attend(q, k, torch.eye(2), return_weights=True)
    close(weights, torch.tensor([[0.75, 0.25]]), 1e-14)
    close(output, weights, 0)


@both
@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 3, 5)])
def test_attention_is_torchs_forward_and_backward(implementation, lead, device):
    inputs = qkv(*lead, device=device)
    got = with_gradients(lambda *x: attend(*x, implementation=implementation), *inputs)
    expected = with_gradients(F.scaled_dot_product_attention, *inputs)
    for ours, theirs in zip(got, expected, strict=True):
        close(ours, theirs)


@both
@pytest.mark.parametrize("shape", [(T, S), (S,), (T, 1), (H, 1, S), (B, 1, 1, S), (B, H, T, S)])
@pytest.mark.parametrize("kind", ["mask", "bias"])
def test_masks_and_biases_broadcast_as_torchs(implementation, shape, kind, device):
    inputs = qkv(B, H, device=device)
    x = torch.randn(shape, device=device)
    x = x > -0.5 if kind == "mask" else x
    if kind == "mask":
        x[..., 0] = True  # torch has no answer to an empty row
    got = with_gradients(lambda *a: attend(*a, **{kind: x}, implementation=implementation), *inputs)
    expected = with_gradients(
        lambda *a: F.scaled_dot_product_attention(*a, attn_mask=x.expand(B, H, T, S)), *inputs
    )
    for ours, theirs in zip(got, expected, strict=True):
        close(ours, theirs)


@both
def test_a_bias_gets_its_gradient(implementation, device):
    inputs = [*qkv(B, H, device=device), torch.randn(H, T, S, device=device, requires_grad=True)]
    mask = window_mask(T, S, window=3, device=device)
    got = with_gradients(
        lambda *a: attend(*a[:3], mask, bias=a[3], implementation=implementation), *inputs
    )

    def plain(q, k, v, bias):
        scores = q @ k.transpose(-2, -1) / math.sqrt(K) + bias
        return scores.masked_fill(~mask, -math.inf).softmax(-1) @ v

    for ours, theirs in zip(got, with_gradients(plain, *inputs), strict=True):
        close(ours, theirs)


@both
def test_grouped_queries_are_heads_whose_keys_and_values_are_repeated(implementation, device):
    q, k, v = qkv(B, H, groups=G, device=device)
    got = with_gradients(lambda *x: attend(*x, implementation=implementation), q, k, v)

    def head_by_head(q, k, v):
        heads = [F.scaled_dot_product_attention(q[:, h], k[:, h // 2], v[:, h // 2])
                 for h in range(H)]  # fmt: skip
        return torch.stack(heads, 1)

    for ours, theirs in zip(got, with_gradients(head_by_head, q, k, v), strict=True):
        close(ours, theirs)


@both
@pytest.mark.parametrize("n_queries", [1, 3, S])
def test_causal_queries_are_the_last_ones(implementation, n_queries, device):
    q, k, v = qkv(B, H, n_queries=S, device=device)
    whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    got = attend(q[:, :, -n_queries:], k, v, causal=True, implementation=implementation)
    close(got, whole[:, :, -n_queries:])


@both
def test_causal_and_a_mask_hold_together(implementation, device):
    inputs = qkv(B, H, device=device)
    mask = torch.rand(B, 1, 1, S, device=device) < 0.6
    both_of_them = mask & causal_mask(T, S, device=device)
    got = with_gradients(
        lambda *a: attend(*a, mask, causal=True, implementation=implementation), *inputs
    )
    expected = with_gradients(
        lambda *a: attend(*a, both_of_them, implementation="reference"), *inputs
    )
    for ours, theirs in zip(got, expected, strict=True):
        close(ours, theirs)


@both
def test_the_scale_is_one_over_the_root_of_the_width_unless_given(implementation):
    q, k, v = qkv(B, H)
    close(
        attend(q, k, v, implementation=implementation),
        attend(q, k, v, scale=1 / math.sqrt(K), implementation=implementation),
        0,
    )
    close(
        attend(q, k, v, scale=0.3, implementation=implementation),
        (q @ k.transpose(-2, -1) * 0.3).softmax(-1) @ v,
    )


# --- masks ---------------------------------------------------------------------------------------


def test_masked_positions_get_exactly_zero_weight():
    q, k, v = qkv(B, H)
    mask = torch.rand(B, H, T, S) < 0.5
    _, weights = attend(q, k, v, mask, return_weights=True)
    assert not weights[~mask].any()
    sums = weights.sum(-1)
    close(sums, mask.any(-1).double())


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


@both
def test_an_empty_row_changes_no_other(implementation, device):
    inputs = qkv(B, H, device=device)
    mask = torch.rand(T, S, device=device) < 0.7
    mask[:, 0] = True
    cut = mask.clone()
    cut[2] = False
    keep = torch.arange(T, device=device) != 2
    got, expected = (
        with_gradients(
            lambda *a, m=m: attend(*a, m, implementation=implementation) * keep[:, None], *inputs
        )
        for m in (cut, mask)
    )
    for ours, theirs in zip(got, expected, strict=True):
        close(ours, theirs)


def test_masked_scores_by_hand():
    """Scores ln 1, ln 2 and a masked one; all masked: zeros."""
    q, k, v = torch.ones(2, 1), torch.tensor([[0.0], [math.log(2)], [1e9]]), torch.eye(3)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    output, weights = attend(q, k, v, mask, return_weights=True)
    close(weights, torch.tensor([[1 / 3, 2 / 3, 0], [0, 0, 0]]), 1e-15)
    close(output, weights, 1e-15)


@both
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_what_is_prepared_once_is_what_each_call_would_prepare(
    implementation, causal, masked, biased
):
    q, k, v = qkv(B, H)
    mask = torch.rand(B, 1, T, S) < 0.5 if masked else None
    bias = torch.randn(H, T, S) if biased else None
    ready = prepare(mask, bias, T, S, causal=causal)
    expected = attend(q, k, v, mask, bias=bias, causal=causal, implementation=implementation)
    close(attend(q, k, v, ready, implementation=implementation), expected, 0)


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 5)] * 6),
    per_group=st.integers(1, 3),
    density=st.floats(0, 1),
    causal=st.booleans(),
    bias=st.booleans(),
    seed=st.integers(0, 999),
)
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
    for fused, reference in zip(got, expected, strict=True):
        close(fused, reference)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 999), st.floats(-50, 50))
def test_a_constant_added_to_a_row_of_scores_and_a_new_order_of_keys_change_nothing(seed, shift):
    torch.manual_seed(seed)
    q, k, v = (x.detach() for x in qkv(B, H))
    output = attend(q, k, v)
    close(attend(q, k, v, bias=torch.full((T, 1), shift)), output)
    order = torch.randperm(S)
    close(attend(q, k[:, :, order], v[:, :, order]), output)
    assert (output <= v.amax(2, keepdim=True) + 1e-12).all()  # a mixture of values
    assert (output >= v.amin(2, keepdim=True) - 1e-12).all()


# --- gradients -----------------------------------------------------------------------------------


def backward_by_hand(q, k, v, mask, scale, grad_output):
    """The gradients of softmax(q kᵀ · scale) v for one head, in numpy, as chapter 14 derives them.

    With A the weights and Ō the gradient of the output: V̄ = Aᵀ Ō; Ā = Ō Vᵀ; through the softmax,
    row by row, S̄ = A ⊙ (Ā − rowsum(A ⊙ Ā)); Q̄ = scale · S̄ K; K̄ = scale · S̄ᵀ Q.
    """
    scores = np.where(mask, q @ k.T * scale, -np.inf)
    a = np.exp(scores - scores.max(-1, keepdims=True))
    a /= a.sum(-1, keepdims=True)
    grad_a = grad_output @ v.T
    grad_scores = a * (grad_a - (a * grad_a).sum(-1, keepdims=True))
    return scale * grad_scores @ k, scale * grad_scores.T @ q, a.T @ grad_output


@both
def test_the_gradients_derived_by_hand_are_autograds(implementation):
    q, k, v = qkv()
    mask, grad_output = window_mask(T, S, window=3), torch.randn(T, KV)
    output = attend(q, k, v, mask, scale=0.7, implementation=implementation)
    got = torch.autograd.grad(output, (q, k, v), grad_output)
    arrays = (x.detach().numpy() for x in (q, k, v, mask))
    for ours, by_hand in zip(got, backward_by_hand(*arrays, 0.7, grad_output.numpy()), strict=True):
        close(ours, torch.as_tensor(by_hand))


@both
def test_gradients_agree_with_finite_differences(implementation):
    q = torch.randn(1, 4, 3, 2, requires_grad=True)
    k, v = torch.randn(1, 2, 5, 2, requires_grad=True), torch.randn(1, 2, 5, 3, requires_grad=True)
    bias = torch.randn(4, 3, 5, requires_grad=True)
    mask = torch.rand(3, 5) < 0.6
    mask[1] = False

    def f(q, k, v, bias):
        return attend(q, k, v, mask, bias=bias, causal=True, implementation=implementation)

    assert torch.autograd.gradcheck(f, (q, k, v, bias))


# --- dropout -------------------------------------------------------------------------------------


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


# --- precision and errors ------------------------------------------------------------------------


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_output_has_the_dtype_of_the_inputs(implementation, dtype, device):
    inputs = [x.detach().to(dtype) for x in qkv(B, H, device=device)]
    mask, bias = causal_mask(T, S, device=device), torch.randn(H, T, S, device=device)
    output = attend(*inputs, mask, bias=bias.to(dtype), implementation=implementation)
    assert output.dtype == dtype
    exact = attend(*(x.double() for x in inputs), mask, bias=bias.to(dtype).double())
    close(output.double(), exact, 20 * torch.finfo(dtype).eps)


def test_auto_takes_the_fused_kernel_unless_weights_are_asked_for(monkeypatch):
    q, k, v = qkv(B, H)
    expected = attend(q, k, v, implementation="reference")
    called = []
    real = F.scaled_dot_product_attention

    def spy(*arguments, **options):
        called.append(True)
        return real(*arguments, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    close(attend(q, k, v), expected)
    assert called == [True]
    close(attend(q, k, v, return_weights=True)[0], expected, 0)
    assert called == [True]


@pytest.mark.parametrize("form", ["causal", "grouped", "masked", "grouped and masked"])
def test_no_kernel_that_holds_all_scores_is_needed(form, device):
    """bfloat16, heads of 64, causal, four axes: the flash kernel; with a mask torch's efficient one
    on a GPU. sdpa_kernel refuses to run when none of those allowed can.
    """
    length, groups = 128, 2 if "grouped" in form else 4
    q, k, v = (torch.randn(2, n, length, 64, device=device) for n in (4, groups, groups))
    real = torch.arange(length, device=device) < torch.tensor([[128], [77]], device=device)
    mask = padding_mask(real) if "masked" in form else None
    expected = attend(q, k, v, mask, causal=True, implementation="reference")
    kernels = [SDPBackend.FLASH_ATTENTION]
    if device == "cuda" and mask is not None:
        kernels = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]
    with sdpa_kernel(kernels):
        got = attend(*(x.bfloat16() for x in (q, k, v)), mask, causal=True)
    close(got.to(expected), expected, 0.03)


@pytest.mark.parametrize("masked", [False, True])
def test_grouped_heads_are_spread_where_there_is_a_mask(masked, monkeypatch):
    """With a mask, torch's grouped form falls to the kernel that holds all scores on a GPU."""
    seen, real = [], F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **o: seen.append(o) or real(*a, **o)
    )
    mask = torch.ones(B, 1, T, S, dtype=torch.bool) if masked else None
    attend(*qkv(B, H, groups=G), mask)
    assert [options["enable_gqa"] for options in seen] == [not masked]


def tensors(*shapes):
    return [torch.zeros(shape) for shape in shapes]


@pytest.mark.parametrize(
    ("inputs", "options", "error", "message"),
    [
        (tensors((5, 3), (7, 2), (7, 3)), {}, ValueError, r"q \(5, 3\), k \(7, 2\), v \(7, 3\)"),
        (tensors((5, 3), (7, 3), (5, 3)), {}, ValueError, r"k \(…, S, K\)"),
        (tensors((2, 5, 3), (7, 3), (7, 3)), {}, ValueError, r"q \(2, 5, 3\), k \(7, 3\)"),
        (tensors((3,), (3,), (3,)), {}, ValueError, r"expected q \(…, T, K\)"),
        (tensors((2, 5, 3), (3, 7, 3), (3, 7, 3)), {}, ValueError, "the leading axes equal"),
        (tensors((2, 5, 3), (2, 7, 3), (1, 7, 3)), {}, ValueError, "the leading axes equal"),
        (
            tensors((1, 5, 2, 3), (1, 3, 7, 3), (1, 3, 7, 3)),
            {},
            ValueError,
            "G heads that divide H; got q \\(1, 5, 2, 3\\)",
        ),
        (
            tensors((2, 6, 2, 3), (3, 3, 7, 3), (3, 3, 7, 3)),
            {},
            ValueError,
            "the leading axes equal",
        ),
        (
            tensors((7, 3), (5, 3), (5, 3)),
            {"causal": True},
            ValueError,
            "T = 7 queries and S = 5 keys",
        ),
        (tensors(*[(5, 3)] * 3), {"mask": torch.zeros(5, 5)}, TypeError, "got torch.float32"),
        (
            tensors((5, 3), (7, 3), (7, 3)),
            {"mask": causal_mask(5)},
            ValueError,
            r"mask \(5, 5\) does not broadcast to the scores \(5, 7\)",
        ),
        (
            tensors(*[(5, 3)] * 3),
            {"mask": torch.ones(2, 5, 5) > 0},
            ValueError,
            r"mask \(2, 5, 5\) does not broadcast",
        ),
        (
            tensors(*[(2, 5, 3)] * 3),
            {"bias": torch.zeros(3, 5, 5)},
            ValueError,
            r"bias \(3, 5, 5\) does not broadcast to the scores \(2, 5, 5\)",
        ),
        (tensors(*[(5, 3)] * 3), {"bias": torch.ones(5, 5) > 0}, TypeError, "booleans are a mask"),
        (tensors(*[(5, 3)] * 3), {"dropout": -0.1}, ValueError, "dropout must be at least 0"),
        (tensors(*[(5, 3)] * 3), {"implementation": "flash"}, ValueError, "got 'flash'"),
        (
            tensors(*[(5, 3)] * 3),
            {"implementation": "fused", "return_weights": True},
            ValueError,
            "never holds the weights",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_shapes(inputs, options, error, message):
    with pytest.raises(error, match=message):
        attend(*inputs, **options)


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
@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 40), (3, 3), (3, 16), (16, 16), (40, 40)])
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
