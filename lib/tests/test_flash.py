"""Attention in blocks gives what plain attention gives, and never holds the scores."""

import pytest
import torch
from comparing import close, refuses, with_gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from unrolled.models.attention import attend
from unrolled.models.flash import _Tiles, flash_attend
from unrolled.models.masks import padding_mask, window_mask

DTYPE = torch.float64
B, H, T, S, K, KV = 2, 3, 13, 17, 5, 7
BLOCKS = (1, 4, 13, 64)
every_block = pytest.mark.parametrize("block", BLOCKS)


def inputs(size=1.0, lead=(B, H), T=T, S=S, device=None):
    """q, k, v; scores are about as large as `size`."""
    q = torch.randn(*lead, T, K, device=device) * size
    k, v = (torch.randn(*lead, S, width, device=device) for width in (K, KV))
    return [x.requires_grad_() for x in (q, k, v)]


MASKS = {
    "none": None,
    "random": torch.rand(B, H, T, S, generator=torch.Generator().manual_seed(0)) < 0.6,
    "window": window_mask(T, S, window=3),
    "padding": padding_mask(torch.arange(S) < torch.tensor([17, 4])[:, None]),
    "first block": (torch.arange(S) >= 6).expand(T, S),
    "nothing": torch.arange(T)[:, None].expand(T, S) % 5 != 2,  # rows 2, 7, 12 see no key
    "keys": torch.arange(S) % 3 > 0,
}


def agree(given, options, block):
    got = with_gradients(lambda *x: flash_attend(*x, **options, block=block), *given)
    plain = {"implementation": "reference"} | options
    close(got, with_gradients(lambda *x: attend(*x, **plain), *given), 1e-11)


@every_block
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_output_and_gradients_are_plain_attention_s(name, causal, block):
    """Among them a first block without a key: the largest score so far is −∞ there."""
    options = {"mask": MASKS[name], "causal": causal}
    agree(inputs(3.0), options, block)


def test_every_device_gives_the_same(device):
    options = {"mask": MASKS["random"].to(device), "causal": True}
    agree(inputs(device=device), options, block=4)


@settings(max_examples=20, deadline=None)
@given(
    T=st.integers(1, 12), more=st.integers(0, 5), block=st.integers(1, 9), causal=st.booleans(),
    lead=st.sampled_from([(), (2,), (2, 1, 3)]), scale=st.sampled_from([None, 0.1, 5.0]),
    share=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_shape_in_any_blocks(T, more, block, causal, lead, scale, share, seed):
    torch.manual_seed(seed)
    S = T + more
    options = {"mask": torch.rand(T, S) < share, "causal": causal, "scale": scale}
    agree(inputs(lead=lead, T=T, S=S), options, block)


def test_scores_too_large_for_the_exponential():
    """exp(1000) is infinite in every type; the largest score so far is subtracted first."""
    q, k, v = inputs(1000.0)
    for causal in (False, True):
        got = flash_attend(q, k, v, causal=causal, block=4)
        assert got.isfinite().all()
        close(got, attend(q, k, v, causal=causal), 1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_sixteen_bits_sums_are_kept_in_thirty_two(dtype):
    """No further from the exact result than rounding the inputs and the output puts it."""
    q, k, v = (x.detach().to(dtype) for x in inputs(T=67, S=67))
    exact = attend(q.double(), k.double(), v.double(), causal=True)
    got = flash_attend(q, k, v, causal=True, block=16)
    assert got.dtype == dtype
    assert_close(got.double(), exact.to(dtype).double(), rtol=2 * torch.finfo(dtype).eps, atol=1e-5)


def test_a_nan_is_passed_on_to_the_rows_that_read_it():
    q, k, v = inputs()
    with torch.no_grad():
        q[0, 0, 4, 1] = torch.nan
    output = flash_attend(q, k, v, block=4)
    assert output[0, 0, 4].isnan().all()
    output[0, 0, 4] = 0
    assert not output.isnan().any()


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor has that an operation makes."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for x in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(x, torch.Tensor) and not x.is_complex() and x._base is None:
                self.numbers = max(self.numbers, x.untyped_storage().nbytes() // x.itemsize)
        return made


def test_no_tensor_is_as_large_as_the_scores():
    n = 128
    for f, options, expected in (
        (flash_attend, {"block": 16}, n * KV),
        (attend, {"implementation": "reference"}, n * n),
    ):
        given = inputs(lead=(), T=n, S=n)
        with Largest() as largest:
            with_gradients(lambda *x, f=f, o=options: f(*x, causal=True, **o), *given)
        assert largest.numbers == expected


def test_what_is_kept_for_the_backward_pass_grows_as_the_text():
    kept = []
    for n in (32, 64):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, s=sizes: s.append(x.numel()) or x, lambda x: x
        ):
            flash_attend(*inputs(lead=(), T=n, S=n), causal=True, block=8)
        kept.append(sum(sizes))
    assert kept == [n * (2 * K + 2 * KV + 1) for n in (32, 64)]


def test_with_causality_tiles_above_the_diagonal_are_left_out(monkeypatch):
    made, scores = [], _Tiles.scores
    monkeypatch.setattr(_Tiles, "scores", lambda *a: made.append(a[-2:]) or scores(*a))
    n, block = 40, 8
    flash_attend(*inputs(lead=(), T=n, S=n), causal=True, block=block)
    assert len(made) == 5 * 6 // 2
    assert all(columns.start < rows.stop for rows, columns in made)
    made.clear()
    flash_attend(*inputs(lead=(), T=n, S=n), block=block)
    assert len(made) == 25


test_what_does_not_fit_is_refused = refuses(
    ({"mask": torch.ones(S, T) > 0}, r"mask \(17, 13\) does not broadcast to"),
    ({"mask": torch.ones(5, 1, 1, T, S) > 0}, r"mask \(5, 1, 1, 13, 17\) does not"),
    ({"k": torch.ones(B, H, S, K + 1)}, r"got q .*, k \(2, 3, 17, 6\), v"),
    ({"v": torch.ones(B, H, S + 1, KV)}, r"v \(2, 3, 18, 7\)"),
    ({"q": torch.ones(B, 1, T, K)}, r"got q \(2, 1, 13, 5\), k"),
    ({"q": torch.ones(B, H, S + 1, K), "causal": True}, "T = 18 queries"),
    of=lambda changes: flash_attend(**dict(zip("qkv", inputs(), strict=True)) | changes),
)  # fmt: skip
