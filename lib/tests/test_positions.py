"""Positions: their formulas by hand, the tables of `transformers`, and what each is made for."""

import math

import pytest
import torch
from comparing import close, refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.models.masks import distances
from unrolled.models.positions import RelativeBias, Rotary, alibi_bias, alibi_slopes, sinusoidal

B, H, T, S, K = 2, 3, 5, 7, 8
DTYPE = torch.float64
layouts = pytest.mark.parametrize("layout", ["half", "interleaved"])


def test_sinusoidal_positions_by_hand(device):
    """d_model = 4: the angles at position p are p and p / 100."""
    expected = [[0, 1, 0, 1], [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]]
    got = sinusoidal(torch.arange(2, device=device), 4)
    assert got.device.type == device
    close(got.cpu(), torch.tensor(expected), 1e-15)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 9), st.integers(0, 40), st.floats(2, 1e5))
def test_moving_on_by_some_positions_is_one_linear_map(half, step, base):
    """PE[p + k] = R_k PE[p] with the same R_k, a rotation of each pair, for every p."""
    table = sinusoidal(60, 2 * half, base=base)
    angles = step / base ** (torch.arange(half) / half)
    cos, sin = angles.cos(), angles.sin()
    a, b = table[:20, 0::2], table[:20, 1::2]
    close(table[step : step + 20, 0::2], a * cos + b * sin, 1e-10)
    close(table[step : step + 20, 1::2], b * cos - a * sin, 1e-10)
    close((table**2).sum(-1), torch.full((60,), float(half)), 1e-10)  # all of one length


def test_sinusoidal_positions_may_be_any_and_have_the_default_dtype():
    positions = torch.tensor([[3, 0, 17], [5, 5, 1]])
    close(sinusoidal(positions, 6), sinusoidal(18, 6)[positions], 0)
    assert sinusoidal(0, 6).shape == (0, 6)
    torch.set_default_dtype(torch.float32)
    assert sinusoidal(3, 6).dtype == torch.float32


@pytest.mark.parametrize("n_heads", [1, 2, 3, 7, 8, 12, 112])
def test_alibi_is_blooms_up_to_a_constant_per_query(transformers, n_heads):
    """BLOOM adds slope · j to key j: as good as −slope · (i − j) before a softmax over j ≤ i."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, T, dtype=torch.long), n_heads, torch.float64)
    ours = alibi_bias(n_heads, T).tril()
    close(alibi_slopes(n_heads), theirs[:, 0, 1], 1e-7)  # theirs come from float32
    shifted = theirs - theirs[:, 0, :, None]  # minus slope · i in row i
    close(ours, shifted.tril(), 1e-6)


def test_alibi_bias_of_the_last_queries_is_the_end_of_the_whole(device):
    whole = alibi_bias(H, S, device=device)
    assert whole.device.type == device
    close(alibi_bias(H, T, S, device=device), whole[:, -T:], 0)
    close(whole, whole.transpose(1, 2), 0)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (8, 11), (4, 3), (10, 1000)])
def test_buckets_are_t5s(transformers, bidirectional, n_buckets, max_distance):
    from transformers.models.t5.modeling_t5 import T5Attention

    sizes = {"n_buckets": n_buckets, "max_distance": max_distance}
    bias = RelativeBias(H, **sizes, bidirectional=bidirectional)
    behind = torch.arange(-1500, 1501)
    theirs = T5Attention._relative_position_bucket(-behind, bidirectional, n_buckets, max_distance)
    assert torch.equal(bias.bucket(behind), theirs)
    buckets = bias.bucket(behind[1500:])
    assert (buckets.diff() >= 0).all()
    assert buckets[-1] == n_buckets // (1 + bidirectional) - 1


def test_the_bias_is_read_from_the_table_by_head_query_and_key(device):
    bias = RelativeBias(H, n_buckets=8, max_distance=16).to(device)
    behind = distances(T, S, device=device)
    got = bias(behind)
    assert got.shape == (H, T, S)
    for i in range(T):
        for j in range(S):
            bucket = bias.bucket(torch.tensor(i + S - T - j))
            close(got[:, i, j], bias.table.weight[bucket.to(device)], 0)
    two = torch.stack([behind, behind + 1])[:, None]  # (B, 1, T, S)
    close(bias(two), torch.stack([got, bias(behind + 1)]), 0)


def as_complex(x, layout):
    """(…, K) → (…, K/2): the pairs that are turned, as complex numbers."""
    a, b = (x[..., 0::2], x[..., 1::2]) if layout == "interleaved" else x.chunk(2, -1)
    return torch.complex(a, b)


@layouts
@pytest.mark.parametrize(
    "places", [[0, 1, 2, 3, 4], [11, 12, 13, 14, 15], [[0, 1, 0, 1, 2], [90, 91, 7, 7, 0]]]
)
def test_rotary_multiplies_complex_pairs_by_a_phase(layout, places, device):
    """The first six entries turn; each sequence may have positions of its own."""
    x, places = torch.randn(B, H, T, K, device=device), torch.tensor(places)
    angles = places[..., None] * 100.0 ** (-torch.arange(0, 6, 2) / 6)
    phase = torch.polar(torch.ones_like(angles), angles).to(device)
    phase = phase if places.ndim == 1 else phase[:, None]
    rotary = Rotary(K, base=100.0, layout=layout, rotary_dim=6).to(device)
    got = rotary(x, places.to(device))
    close(as_complex(got[..., :6], layout), as_complex(x[..., :6], layout) * phase)
    close(got[..., 6:], x[..., 6:], 0)
    if places.tolist() == list(range(T)):
        close(rotary(x), got, 0)


def test_tables_are_exact_in_every_dtype_and_in_no_state_dict():
    rotary, x = Rotary(K), torch.randn(T, K)
    far = torch.arange(4000, 4000 + T)
    exact = rotary(x, far)
    angles = far[:, None] * 10_000.0 ** (-torch.arange(0, K, 2) / K)
    phase = torch.polar(torch.ones_like(angles), angles)
    close(as_complex(exact, "half"), as_complex(x, "half") * phase)
    assert not rotary.state_dict()
    assert rotary(x.float()).dtype == torch.float32
    close(rotary.half().float().double()(x, far), exact, 0)


def test_a_position_beyond_the_context_is_refused():
    rotary, x = Rotary(K, context_length=9), torch.randn(T, K)
    close(rotary(x, torch.arange(4, 9)), Rotary(K)(x, torch.arange(4, 9)), 0)
    with pytest.raises(IndexError):
        rotary(x, torch.arange(5, 10))
    with pytest.raises(ValueError, match="with T ≤ 9, got"):
        rotary(torch.randn(10, K))


test_what_does_not_fit_is_refused = refuses(
    (lambda: sinusoidal(3, 5), "even d_model, got 5"),
    (lambda: alibi_bias(H, 5, 3), "T = 5 queries and S = 3 keys"),
    (lambda: RelativeBias(H, n_buckets=1), "above 0, got 1 and 128"),
    (lambda: RelativeBias(H, n_buckets=5, bidirectional=True), "above 1, got 5 and 128"),
    (lambda: RelativeBias(H, n_buckets=2, bidirectional=True), "got 2 and 128"),
    (lambda: RelativeBias(H, n_buckets=32, max_distance=16), "max_distance above 16, got 32"),
    (lambda: RelativeBias(H)(distances(T)[None]), r"behind must be \(T, S\) or \(B, 1"),
    (lambda: Rotary(5), "rotary_dim must be even, got 5"),
    (lambda: Rotary(8, rotary_dim=3), "rotary_dim must be even, got 3"),
    (lambda: Rotary(8, rotary_dim=10), "at least 2 and at most 8, got 10"),
    (lambda: Rotary(8)(torch.zeros(5, 6)), r"expected \(…, T, 8\) .*, got \(5, 6\)"),
)
