"""Position: what tells attention, which sees a set, where each token stands.

Added to the embeddings: `sinusoidal` (a learned table is nn.Embedding). Added to the scores:
`RelativeBias` and `alibi_bias`. Applied to queries and keys: `Rotary`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from unrolled.models.masks import Device

LAYOUTS = ("half", "interleaved")


def sinusoidal(
    n: int, d_model: int, *, base: float = 10_000.0, start: int = 0, device: Device = None
) -> Tensor:
    """(n, D): PE[p, 2i] = sin(p / base^(2i/D)), PE[p, 2i + 1] = cos of the same; p from `start` on.

    Computed in float64, returned in torch's default dtype. Raises ValueError for an odd D.
    Source: Vaswani et al. (2017), section 3.5.
    """
    if n < 0 or d_model < 2 or d_model % 2:
        raise ValueError(f"expected n ≥ 0 and an even d_model ≥ 2, got {n} and {d_model}")
    angles = _angles(torch.arange(start, start + n, device=device), d_model, base)
    pairs = torch.stack([angles.sin(), angles.cos()], -1)
    return pairs.flatten(1).to(torch.get_default_dtype())  # sin, cos, sin, …


def alibi_slopes(n_heads: int) -> Tensor:
    """(H,): the slope of each head, 2^(−8/H), 2^(−16/H), …, 2^(−8) where H is a power of two.

    For another H the slopes of the next lower power of two, then every other one of the next
    higher, as the authors' code and BLOOM have it. Raises ValueError for H < 1.
    Source: Press, Smith & Lewis (2022).
    """
    if n_heads < 1:
        raise ValueError(f"n_heads must be at least 1, got {n_heads}")
    lower = 2 ** (n_heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (i + 1) / lower) for i in range(lower)]
    slopes += [2.0 ** (-4 * (i + 1) / lower) for i in range(0, 2 * (n_heads - lower), 2)]
    return torch.tensor(slopes)


def alibi_bias(n_heads: int, T: int, S: int | None = None, *, device: Device = None) -> Tensor:
    """(H, T, S): −slope · |distance| between query and key; the queries are the last T of S."""
    slopes = alibi_slopes(n_heads).to(device)
    return -slopes[:, None, None] * _distances(T, S, device).abs()


class RelativeBias(nn.Module):
    """A learned number for each head and each bucket of distances, added to the scores.

    Short distances have a bucket each, longer ones share buckets that grow with the logarithm up
    to max_distance; what is farther shares the last. With bidirectional, half of the buckets are
    for keys after the query; without it those count as distance 0.
    Source: Raffel et al. (2020), section 2.1, in the form of their code.
    """

    def __init__(
        self,
        n_heads: int,
        *,
        n_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = False,
    ):
        """Raises ValueError when there are too few buckets, or max_distance is too short for them.

        The table (n_buckets, H) begins with N(0, 0.02²).
        """
        super().__init__()
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

    def forward(self, T: int, S: int | None = None) -> Tensor:
        """The bias (H, T, S); the queries are the last T of S positions."""
        behind = _distances(T, S, self.table.weight.device)
        return self.table(self.bucket(behind)).permute(2, 0, 1)

    def bucket(self, behind: Tensor) -> Tensor:
        """The bucket, int64, of keys that lie `behind` the query by so many positions."""
        n, first = self.n_buckets, torch.zeros_like(behind)
        if self.bidirectional:
            n //= 2
            first = (behind < 0) * n
        distance = behind.abs() if self.bidirectional else behind.clamp(min=0)
        exact = n // 2
        ratio = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (ratio * (n - exact)).long()).clamp(max=n - 1)
        return first + torch.where(distance < exact, distance, far)


class Rotary(nn.Module):
    """Turns pairs of a query's or key's entries by an angle in proportion to its position.

    The pair i turns by p·θ_i at position p, θ_i = base^(−2i/width): then the product of a query at
    m and a key at n depends on m − n only. Layout "interleaved" pairs entries (2i, 2i + 1), as in
    the paper; "half" pairs (i, i + width/2), as LLaMA's published weights want it in most code.
    Source: Su et al. (2021), equation 34.
    """

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10_000.0,
        layout: str = "half",
        width: int | None = None,
    ):
        """width: how many entries are turned, the first ones; all K when left out.

        Raises ValueError for an odd width, one above head_dim, or an unknown layout.
        """
        super().__init__()
        width = head_dim if width is None else width
        if width < 2 or width % 2 or width > head_dim:
            raise ValueError(
                f"a rotary width must be even and at most head_dim={head_dim}, got {width}"
            )
        if layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {LAYOUTS}, got {layout!r}")
        self.head_dim, self.width, self.base, self.layout = head_dim, width, base, layout
        self._tables: dict[tuple, tuple[Tensor, Tensor]] = {}

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """x (…, T, K) with its first `width` entries turned, for positions start, start + 1, …"""
        if x.shape[-1] != self.head_dim:
            raise ValueError(f"expected (…, T, {self.head_dim}), got {tuple(x.shape)}")
        cos, sin = self._table(start, x)  # (T, width/2)
        turned, rest = x[..., : self.width], x[..., self.width :]
        if self.layout == "interleaved":
            a, b = turned[..., 0::2], turned[..., 1::2]
            turned = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
        else:
            a, b = turned.chunk(2, -1)
            turned = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
        return turned if self.width == self.head_dim else torch.cat([turned, rest], -1)

    def _table(self, start: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin (T, width/2) of the angles; the last ones are kept for the next layer."""
        key = (start, x.shape[-2], x.dtype, x.device)
        if key not in self._tables:
            with torch.inference_mode(False):  # what generation leaves here, training may use
                positions = torch.arange(start, start + x.shape[-2], device=x.device)
                angles = _angles(positions, self.width, self.base)
                self._tables = {key: (angles.cos().to(x.dtype), angles.sin().to(x.dtype))}
        return self._tables[key]


def _angles(positions: Tensor, width: int, base: float) -> Tensor:
    """p / base^(2i/width) for i = 0 … width/2 − 1, (n, width/2), in float64."""
    i = torch.arange(0, width, 2, device=positions.device, dtype=torch.float64)
    return positions.double()[:, None] * base ** (-i / width)


def _distances(T: int, S: int | None, device: Device) -> Tensor:
    """(T, S): how far key j lies behind query i; the queries are the last T of S positions."""
    S = T if S is None else S
    if not 1 <= T <= S:
        raise ValueError(f"expected 1 ≤ T ≤ S, got T = {T} queries and S = {S} keys")
    return torch.arange(S - T, S, device=device)[:, None] - torch.arange(S, device=device)
