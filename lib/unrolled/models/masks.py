"""Masks: who may attend to whom. Boolean, True = may attend, queries in rows, keys in columns.

A mask broadcasts to (B, H, T, S). Several of them are combined by `combine`, a logical and.
"""

from __future__ import annotations

import torch
from torch import Tensor

Device = torch.device | str | None


def causal_mask(T: int, S: int | None = None, *, device: Device = None) -> Tensor:
    """(T, S): query i may attend to keys j ≤ i + S − T, so the last query sees every key.

    S: number of keys, T when left out; with S > T the queries are the last T of S positions, as
    when keys come from a cache. torch's `is_causal` begins at the first key instead, which is the
    same for S = T only. Raises ValueError unless 1 ≤ T ≤ S.
    """
    behind = _behind(T, S, device)
    return behind >= 0


def window_mask(T: int, S: int | None = None, *, window: int, device: Device = None) -> Tensor:
    """(T, S): causal, and at most the last `window` keys, the query's own position among them.

    Source: Child et al. (2019); Beltagy et al. (2020). Raises ValueError for window < 1 and as
    `causal_mask`.
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    behind = _behind(T, S, device)
    return (behind >= 0) & (behind < window)


def prefix_mask(T: int, prefix: int, *, device: Device = None) -> Tensor:
    """(T, T): causal, but everyone may attend to all of the first `prefix` positions.

    Source: Dong et al. (2019); Raffel et al. (2020), section 3.2.1. Raises ValueError unless
    0 ≤ prefix ≤ T.
    """
    if not 0 <= prefix <= T:
        raise ValueError(f"prefix must lie in 0 … T = {T}, got {prefix}")
    return causal_mask(T, device=device) | (torch.arange(T, device=device) < prefix)


def padding_mask(real: Tensor) -> Tensor:
    """(B, 1, 1, S) from real (B, S), True where a token stands: no query may attend to padding.

    Raises TypeError for what is not boolean, ValueError for another rank.
    """
    if real.dtype != torch.bool:
        raise TypeError(f"expected booleans, True where a token stands, got {real.dtype}")
    if real.ndim != 2:
        raise ValueError(f"expected (B, S), got {tuple(real.shape)}")
    return real[:, None, None, :]


def combine(*masks: Tensor | None) -> Tensor | None:
    """What all masks allow, broadcast against each other; None counts as all True.

    Raises TypeError for what is not boolean, ValueError for shapes that do not broadcast.
    """
    given = [mask for mask in masks if mask is not None]
    for mask in given:
        if mask.dtype != torch.bool:
            raise TypeError(f"a mask is boolean, True = may attend; got {mask.dtype}")
    if not given:
        return None
    result = given[0]
    for mask in given[1:]:
        try:
            result = result & mask
        except RuntimeError as error:
            shapes = ", ".join(str(tuple(mask.shape)) for mask in given)
            raise ValueError(f"masks of shapes {shapes} do not go together: {error}") from error
    return result


def _behind(T: int, S: int | None, device: Device) -> Tensor:
    """How many positions key j lies behind query i: i + S − T − j, (T, S)."""
    S = T if S is None else S
    if not 1 <= T <= S:
        raise ValueError(f"expected 1 ≤ T ≤ S, got T = {T} queries and S = {S} keys")
    queries = torch.arange(S - T, S, device=device)[:, None]
    return queries - torch.arange(S, device=device)
