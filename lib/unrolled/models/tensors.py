"""Checks of the tensors that a model is given: each names the argument, and what it is instead.

They look at kinds and shapes. Values are looked at on the CPU only: elsewhere the host would wait.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unrolled.validate import instance


def check_floats(**given: Tensor) -> None:
    """TypeError for what is no tensor of floats; in a compiled program nothing is looked at."""
    for name, x in given.items() if not torch.compiler.is_compiling() else ():
        instance(name, x, Tensor)
        if not x.is_floating_point():
            raise TypeError(f"{name} must be floats, got {x.dtype}")


def check_mask(name: str, mask: Tensor | None) -> None:
    """TypeError for a mask that is no tensor of booleans; None is none."""
    if mask is not None and instance(name, mask, Tensor).dtype != torch.bool:
        raise TypeError(f"{name}: a mask is boolean, True = may attend; got {mask.dtype}")


def check_ids(name: str, ids: Tensor, n: int | None = None, ndim: int | None = None) -> None:
    """ValueError for another number of axes than ndim, TypeError for what is no tensor of int64 or
    int32, and on a CPU IndexError unless 0 ≤ ids < n.
    """
    instance(name, ids, Tensor)
    if ndim is not None and ids.ndim != ndim:
        raise ValueError(f"{name} must be (B, T), got shape {tuple(ids.shape)}")
    if ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name} must be ids of int64, got {ids.dtype}")
    if n is None or ids.device.type != "cpu" or not ids.numel() or torch.compiler.is_compiling():
        return
    low, high = (int(end) for end in ids.aminmax())
    if low < 0 or high >= n:
        raise IndexError(f"{name} must lie between 0 and {n - 1}, got {low} to {high}")
