"""From the batches that are given to what a model takes: tensors on its device, pass after pass.

Chapter 12 builds the batches; `training.fit` draws them here.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unrolled.data.batches import IGNORE


class Batch(NamedTuple):
    """What a loss is computed from.

    inputs: the model's arguments. targets: any shape; those that do not count are 0. weights: of
    each target, in the targets' shape; None: all 1. weight: Σ weights, a number wherever the batch
    came from the CPU, so that the host need not wait for a device.
    """

    inputs: tuple[Tensor, ...]
    targets: Tensor
    weights: Tensor | None = None
    weight: float | Tensor = 0.0


class BatchIterator:
    """Batches on a device without end: an iterable that ends is started again.

    `first` is the CRC-32 of the first batch, by which a resumed fit notices other data.
    """

    def __init__(self, batches: Iterable, device: torch.device, dtype: torch.dtype) -> None:
        self.passes, self.device, self.dtype = self._passes(batches), device, dtype
        self.drawn, self.first, self.ahead = 0, 0, deque()

    def draw(self) -> tuple[Batch, bool]:
        """(the next batch, whether a pass begins with it).

        Raises ValueError when the batches end and cannot be started again.
        """
        if not self.ahead:
            self.prefetch(1)
        drawn = self.ahead.popleft()
        if isinstance(drawn, Exception):
            raise drawn
        return drawn

    def prefetch(self, n: int) -> None:
        """Draw n batches now, while the device is still computing, for the next calls of `draw`.

        What the source raises is raised by the call that it was drawn for.
        """
        for _ in range(n):
            try:
                batch, begins = next(self.passes)
                self.ahead.append((to_device(batch, self.device, self.dtype), begins))
            except Exception as error:
                self.ahead.append(error)
                break

    def skip(self, n: int) -> None:
        """Leave n batches out; they are not moved to the device."""
        for _ in range(n):
            self.draw() if self.ahead else next(self.passes)

    def _passes(self, batches: Iterable) -> Iterator[tuple[tuple, bool]]:
        while True:
            begins = True
            for batch in batches:
                if self.drawn == 0:
                    inputs, *others = _parts(batch)
                    for x in (x for x in (*inputs, *others) if x is not None):
                        values = x.detach().cpu().double().numpy()
                        self.first = zlib.crc32(values.tobytes(), self.first)
                self.drawn += 1
                yield batch, begins
                begins = False
            if begins:
                raise ValueError(
                    f"the batches ended after {self.drawn}: give a list, an endless iterator, or "
                    "an object whose iterator starts again"
                )


def to_device(batch: tuple, device: torch.device, dtype: torch.dtype) -> Batch:
    """(inputs, targets) or (inputs, targets, weights), arrays or tensors, as a Batch on the device.

    Inputs may be a tuple. Booleans stay, integers become int64, floats dtype. A target `IGNORE`
    has the weight 0; one of weight 0 becomes 0, so that it may be anything. All are copied, from
    the CPU to a GPU through pinned memory without waiting. Raises ValueError for another form or
    shape, and, where the batch is on the CPU, for a negative weight.
    """
    inputs, targets, given = _parts(batch)
    weights, on_cpu = None, targets.device.type == "cpu"
    if targets.dtype == torch.int64:
        weights = targets != IGNORE
        weights = None if on_cpu and weights.all() else weights
    if given is not None:
        if given.shape != targets.shape or (on_cpu and not (given >= 0).all()):
            raise ValueError(
                f"weights must have the targets' shape {tuple(targets.shape)} and be at least 0, "
                f"got the shape {tuple(given.shape)} and as the smallest {given.min().item():g}"
            )
        given = given.to(dtype) if given.is_floating_point() else given
        weights = given if weights is None else given * weights
    weight = targets.numel()
    if weights is not None:
        targets = targets.masked_fill(weights == 0, 0)
        weight = weights.double().sum().item() if on_cpu else weights.sum()

    def move(x: Tensor) -> Tensor:
        kind = dtype if x.is_floating_point() else x.dtype
        x = x.to(kind, copy=True)  # whoever made the batch may use its memory again
        if x.device.type == "cpu" and device.type == "cuda":
            return x.pin_memory().to(device, non_blocking=True)
        return x.to(device)

    weights = None if weights is None else move(weights)
    return Batch(tuple(map(move, inputs)), move(targets), weights, weight)


def _parts(batch: tuple) -> tuple[tuple[Tensor, ...], Tensor, Tensor | None]:
    """(inputs, targets, weights or None) as tensors where they are, integers as int64."""
    if not isinstance(batch, Batch) and (
        not isinstance(batch, tuple | list) or len(batch) not in (2, 3)
    ):
        raise ValueError("a batch is (inputs, targets) or (inputs, targets, weights)")

    def tensor(x: np.ndarray | Tensor) -> Tensor:
        x = x if isinstance(x, Tensor) else torch.from_numpy(np.array(x))
        return x if x.is_floating_point() or x.dtype == torch.bool else x.long()

    inputs, targets, weights = (*batch, None)[:3]
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    weights = None if weights is None else tensor(weights)
    return tuple(map(tensor, inputs)), tensor(targets), weights
