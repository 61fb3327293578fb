"""Masks: which keys a query may attend to. Chapter 15 derives them. Boolean, True = may attend.

Queries stand in rows, keys in columns; a mask broadcasts to (B, H, T, S). Several of them are
combined by `combine`, a logical and; `prepare` makes one ready for all layers of a forward pass.
"""

from __future__ import annotations

import math
from functools import reduce
from types import NoneType
from typing import NamedTuple

import torch
from torch import Tensor

from unrolled.models.tensors import check_floats
from unrolled.validate import flag, instance, whole

Device = torch.device | str | None


def causal_mask(T: int, S: int | None = None, *, device: Device = None) -> Tensor:
    """(T, S): query i may attend to keys j ≤ i + S − T, so the last query sees every key.

    S: number of keys, T when left out; with S > T the queries are the last T of S positions, as
    when keys come from a cache. torch's `is_causal` begins at the first key instead. Raises
    ValueError unless 1 ≤ T ≤ S.
    """
    return distances(T, S, device=device) >= 0


def window_mask(T: int, S: int | None = None, *, window: int, device: Device = None) -> Tensor:
    """(T, S): causal, and at most the last `window` keys, the query's own position among them.

    Source: Child et al. (2019); Beltagy et al. (2020). Raises ValueError for window < 1 and as
    `causal_mask`.
    """
    behind = distances(T, S, device=device)
    return (behind >= 0) & (behind < whole("window", window))


def prefix_mask(T: int, prefix: int, *, device: Device = None) -> Tensor:
    """(T, T): causal, but every query may attend to all of the first `prefix` positions.

    Source: Dong et al. (2019); Raffel et al. (2020), section 3.2.1. Raises ValueError unless
    0 ≤ prefix ≤ T.
    """
    causal = causal_mask(T, device=device)
    return causal | (torch.arange(T, device=device) < whole("prefix", prefix, 0, T))


def padding_mask(real: Tensor) -> Tensor:
    """(B, 1, 1, S) from real (B, S), True where a token stands: no query may attend to padding.

    Raises TypeError for what is not boolean, ValueError for another rank.
    """
    if instance("real", real, Tensor).dtype != torch.bool:
        raise TypeError(f"real must be booleans, True where a token stands, got {real.dtype}")
    if real.ndim != 2:
        raise ValueError(f"expected (B, S), got {tuple(real.shape)}")
    return real[:, None, None, :]


def combine(*masks: Tensor | None) -> Tensor | None:
    """What all masks allow, broadcast against each other; None counts as all True.

    Raises TypeError for what is not boolean, ValueError for shapes that do not broadcast.
    """
    given = [mask for mask in masks if mask is not None]
    for mask in given:
        if instance("mask", mask, Tensor).dtype != torch.bool:
            raise TypeError(f"a mask is boolean, True = may attend; got {mask.dtype}")
    try:
        return reduce(torch.logical_and, given) if given else None
    except RuntimeError as error:
        shapes = ", ".join(str(tuple(mask.shape)) for mask in given)
        raise ValueError(f"masks of shapes {shapes} do not go together: {error}") from error


class Reach(NamedTuple):
    """Which keys the queries reach, as the kernels take it: `prepare` makes it for all layers."""

    added: Tensor | None  # booleans, or numbers to add with −∞ for what is masked; no row is empty
    alive: Tensor | None  # (…, T, 1): False for a query that may attend to nothing; None: all may
    causal: bool  # nothing but causal, with as many keys as queries: kernels need no mask for it
    finite: bool = True  # the bias; on a CPU only, elsewhere nobody looks
    positions: Tensor | None = None  # (T,) or (B, T), what rotary embeddings turn queries by


def prepare(
    mask: Tensor | None,
    bias: Tensor | None,
    T: int,
    S: int,
    *,
    causal: bool = False,
    positions: Tensor | None = None,
    device: Device = None,
) -> Reach:
    """The mask, a bias and causality for T queries and S keys, ready for `attend`.

    Kernels give NaN for a query whose keys are all masked: it may attend to all of them here, and
    `alive` says that its output is zero. Raises as `causal_mask` and `combine` do.
    """
    flag("causal", causal), instance("positions", positions, Tensor, NoneType)
    if bias is not None:
        check_floats(bias=bias)
    if not torch.compiler.is_compiling():  # where numbers may be symbols
        T, S = whole("T", T), whole("S", S)
    if causal and T == S and mask is None and bias is None:
        return Reach(None, None, True, positions=positions)
    alive, finite = None, True
    if bias is not None and bias.device.type == "cpu" and not torch.compiler.is_compiling():
        finite = math.isfinite(bias.detach().sum().item())
    past = causal_mask(T, S, device=device) if causal and T > 1 else None  # one query sees all
    allowed = combine(past, mask)
    if mask is not None:
        alive = allowed.any(-1, keepdim=True)
        allowed = allowed | ~alive
    if allowed is not None:
        bias = allowed if bias is None else torch.where(allowed, bias, -math.inf)
    added = bias if bias is None else torch.atleast_2d(bias)
    return Reach(added, alive, False, finite, positions)


def distances(T: int, S: int | None = None, *, device: Device = None) -> Tensor:
    """(T, S): how far key j lies behind query i, i + S − T − j; the queries are the last T of S.

    Raises ValueError unless 1 ≤ T ≤ S.
    """
    instance("device", device, str, torch.device, NoneType)
    if not torch.compiler.is_compiling():  # where numbers may be symbols
        T, S = whole("T", T, None), whole("S", T if S is None else S, None)
    S = T if S is None else S
    if not 1 <= T <= S:
        raise ValueError(f"expected 1 ≤ T ≤ S, got T = {T} queries and S = {S} keys")
    return torch.arange(S - T, S, device=device)[:, None] - torch.arange(S, device=device)
