"""Position: what tells attention, which sees a set, where each token stands. Chapter 17 derives it.

Added to the embeddings: `sinusoidal` (a learned table is nn.Embedding). Added to the scores:
`RelativeBias` and `alibi_bias`. Applied to queries and keys: `Rotary`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.models.masks import Device, distances
from unrolled.models.tensors import check_floats, check_ids
from unrolled.validate import checked, one_of, real, whole

LAYOUTS = ("half", "interleaved")


def sinusoidal(positions: int | Tensor, d_model: int, *, base: float = 10_000.0) -> Tensor:
    """(…, D): PE[p, 2i] = sin(p / base^(2i/D)), PE[p, 2i + 1] = cos of the same.

    positions: (…), or a number n for 0, 1, …, n − 1. Computed in float64, returned in torch's
    default dtype, on the positions' device. Raises ValueError for an odd D.
    Source: Vaswani et al. (2017), section 3.5.
    """
    if whole("d_model", d_model, at_least=2) % 2:
        raise ValueError(f"expected an even d_model, got {d_model}")
    if not torch.compiler.is_compiling():  # where numbers may be symbols
        real("base", base, above=0)
    if not isinstance(positions, Tensor):
        positions = torch.arange(whole("positions", positions, 0))
    angles = _angles(positions, d_model, base)
    pairs = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)  # sin, cos, sin, …
    return pairs.to(positions.device, torch.get_default_dtype())


def alibi_slopes(n_heads: int) -> Tensor:
    """(H,): the slope of each head, 2^(−8/H), 2^(−16/H), …, 2^(−8) where H is a power of two.

    For another H the slopes of the next lower power of two, then every other one of the next
    higher, as the authors' code and BLOOM have it. Raises ValueError for H < 1.
    Source: Press, Smith & Lewis (2022).
    """
    lower = 2 ** (whole("n_heads", n_heads).bit_length() - 1)
    slopes = [2.0 ** (-8 * (i + 1) / lower) for i in range(lower)]
    slopes += [2.0 ** (-4 * (i + 1) / lower) for i in range(0, 2 * (n_heads - lower), 2)]
    return torch.tensor(slopes)


@checked
def alibi_bias(n_heads: int, T: int, S: int | None = None, *, device: Device = None) -> Tensor:
    """(H, T, S): −slope · |distance| between query and key; the queries are the last T of S."""
    slopes = alibi_slopes(n_heads).to(device)
    return -slopes[:, None, None] * distances(T, S, device=device).abs()


class RelativeBias(nn.Module):
    """A learned number for each head and each bucket of distances, added to the scores.

    Short distances have a bucket each, longer ones share buckets that grow with the logarithm up
    to max_distance; what is farther shares the last. With bidirectional, half of the buckets are
    for keys after the query; without it those count as distance 0. The table (n_buckets, H) begins
    with N(0, 0.02²). Raises ValueError for too few buckets or a max_distance too short for them.
    Source: Raffel et al. (2020), section 2.1, in the form of their code.
    """

    @checked
    def __init__(
        self,
        n_heads: int,
        *,
        n_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = False,
    ):
        super().__init__()
        whole("n_heads", n_heads), whole("max_distance", max_distance)
        one_way = n_buckets // 2 if bidirectional else n_buckets
        if one_way < 2 or (bidirectional and n_buckets % 2) or max_distance <= one_way // 2:
            raise ValueError(
                f"expected at least 2 buckets (4 and an even number in two directions) and a "
                f"max_distance above {one_way // 2}, got {n_buckets} and {max_distance}"
            )
        self.n_buckets, self.max_distance = n_buckets, max_distance
        self.bidirectional = bidirectional
        self.table = nn.Embedding(n_buckets, n_heads)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, behind: Tensor) -> Tensor:
        """(H, T, S) or (B, H, T, S) from `distances` (T, S) or (B, 1, T, S)."""
        check_ids("behind", behind)
        if behind.ndim not in (2, 4):
            shape = tuple(behind.shape)
            raise ValueError(f"behind must be (T, S) or (B, 1, T, S), got {shape}")
        bias = self.table(self.bucket(behind))  # (…, H)
        return bias.permute(2, 0, 1) if behind.ndim == 2 else bias.squeeze(1).permute(0, 3, 1, 2)

    def bucket(self, behind: Tensor) -> Tensor:
        """The bucket, int64, of keys that lie `behind` the query by so many positions."""
        n, first, distance = self.n_buckets, 0, behind.clamp(min=0)
        if self.bidirectional:
            n = n // 2
            first, distance = (behind < 0) * n, behind.abs()
        exact = n // 2
        ratio = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (ratio * (n - exact)).long()).clamp(max=n - 1)
        return first + torch.where(distance < exact, distance, far)


class Rotary(nn.Module):
    """Turns pairs of a query's or key's entries by an angle in proportion to its position.

    Pair i turns by p·ω_i at position p, ω_i = base^(−2i/rotary_dim): then the product of a query at
    m and a key at n depends on m − n only. Layout "interleaved" pairs entries (2i, 2i + 1), as in
    the paper; "half" pairs (i, i + rotary_dim/2), as LLaMA's weights in transformers have it.
    context_length: positions run from 0 to context_length − 1. rotary_dim: how many entries turn,
    the first ones; all K when left out. Raises ValueError for a rotary_dim that is odd or above K,
    and for an unknown layout. Source: Su et al. (2021), equation 34.
    """

    @checked
    def __init__(
        self,
        head_dim: int,
        *,
        context_length: int = 4096,
        base: float = 10_000.0,
        layout: str = "half",
        rotary_dim: int | None = None,
    ):
        super().__init__()
        rotary_dim = head_dim if rotary_dim is None else rotary_dim
        if whole("rotary_dim", rotary_dim, 2, head_dim) % 2:
            raise ValueError(f"rotary_dim must be even, got {rotary_dim}")
        self.head_dim, self.rotary_dim = head_dim, rotary_dim
        self.layout = one_of("layout", layout, LAYOUTS)
        self.base = real("base", base, above=0)
        self.context_length = whole("context_length", context_length)
        self.register_buffer("cos", torch.empty(0), persistent=False)  # (context_length, ·/2)
        self.register_buffer("sin", torch.empty(0), persistent=False)
        self._tabulate()

    def _tabulate(self) -> None:
        positions = torch.arange(self.context_length, device="cpu")
        angles, device = _angles(positions, self.rotary_dim, self.base), self.cos.device
        dtype = torch.float32 if device.type == "mps" else torch.float64  # Apple's has no float64
        self.cos, self.sin = (table.to(device, dtype) for table in (angles.cos(), angles.sin()))

    def _apply(self, fn, recurse=True):
        """To another device, or dtype, in which the tables would keep its precision for good."""
        self.cos, self.sin = self.cos.float(), self.sin.float()
        super()._apply(fn, recurse)
        self._tabulate()
        return self

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """x (…, T, K) with its first rotary_dim entries turned.

        positions: (T,), or (B, T) for x (B, H, T, K); 0, 1, …, T − 1 when left out. Raises
        ValueError for another width or T > context_length, IndexError for a position beyond.
        """
        check_floats(x=x)
        if positions is not None:
            check_ids("positions", positions)
        T = x.shape[-2] if x.ndim > 1 else 0
        beyond = positions is None and self.context_length < T
        if x.ndim < 2 or x.shape[-1] != self.head_dim or beyond:
            limit = f"(…, T, {self.head_dim}) with T ≤ {self.context_length}"
            raise ValueError(f"expected {limit}, got {tuple(x.shape)}")
        if positions is not None and tuple(positions.shape) not in ((T,), (*x.shape[:-3], T)):
            shape = tuple(positions.shape)
            raise ValueError(
                f"positions must be ({T},) or (B, {T}) for x (B, H, T, K), got {shape}"
            )
        cos, sin = (
            (table[:T] if positions is None else F.embedding(positions, table)).to(x.dtype)
            for table in (self.cos, self.sin)
        )  # (T, rotary_dim/2), or (B, T, rotary_dim/2)
        if cos.ndim == 3:
            cos, sin = cos[:, None], sin[:, None]  # the same for all heads
        turned, rest = x[..., : self.rotary_dim], x[..., self.rotary_dim :]
        interleaved = self.layout == "interleaved"
        a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
        pair = a * cos - b * sin, a * sin + b * cos
        turned = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
        return turned if self.rotary_dim == self.head_dim else torch.cat([turned, rest], -1)


def _angles(positions: Tensor, width: int, base: float) -> Tensor:
    """p / base^(2i/width) for i = 0 … width/2 − 1, (…, width/2), in float64."""
    if positions.device.type == "mps":  # Apple's, which has no float64
        positions = positions.cpu()
    i = torch.arange(0, width, 2, device=positions.device, dtype=torch.float64)
    return positions.double()[..., None] * base ** (-i / width)
