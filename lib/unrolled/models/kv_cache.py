"""Keys and values of the positions read so far, so that no token is computed twice.

A cache belongs to one batch of texts and changes with every read. While gradients are recorded,
they flow through all that was read, as through a recurrent state. Where none are recorded
(torch.no_grad), keys and values are written in place, into storage that doubles.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor


class LayerCache:
    """The keys and values of one attention, for `length` positions."""

    length: int = 0
    _storage: _Storage | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values (B, G, length, ·), after those of T new positions: (B, G, T, ·).

        Raises ValueError for another batch than the one stored.
        """
        start, end = self.length, self.length + k.shape[2]
        storage = self._storage or _Storage(k[:, :, :0], v[:, :, :0])
        if storage.keys.shape[:2] != k.shape[:2]:
            held, given = tuple(storage.keys.shape[:2]), tuple(k.shape[:2])
            raise ValueError(f"the cache holds (B, G) = {held}, got {given}")
        if torch.is_grad_enabled():  # writing in place would break the graph of an earlier read
            k = torch.cat([storage.keys[:, :, :start], k], 2)
            v = torch.cat([storage.values[:, :, :start], v], 2)
            storage = _Storage(k, v)
        else:
            if storage.taken != start or storage.keys.shape[2] < end:
                storage = storage.copy(start, capacity=max(end, 2 * start))
            storage.keys[:, :, start:end] = k
            storage.values[:, :, start:end] = v
        self._storage = storage
        storage.taken = self.length = end
        return self.keys, self.values

    @property
    def keys(self) -> Tensor:
        """(B, G, length, K)."""
        return self._storage.keys[:, :, : self.length]

    @property
    def values(self) -> Tensor:
        """(B, G, length, K)."""
        return self._storage.values[:, :, : self.length]

    def fork(self) -> LayerCache:
        """A cache that goes on from here independently; nothing is copied until it must be."""
        return copy.copy(self)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows of the batch, int64 (B',), in this order; one may come twice."""
        if self._storage is not None:
            self._storage = self._storage.select(rows, self.length)

    def detach(self) -> None:
        """Let no gradient flow back through what was read so far."""
        if self._storage is not None:
            self._storage = self._storage.copy(self.length, self.length)


@dataclass(eq=False)
class _Storage:
    """Where caches that were forked from each other keep their positions."""

    keys: Tensor  # (B, G, capacity, K)
    values: Tensor
    taken: int = 0  # positions that one of the forks has written

    def copy(self, length: int, capacity: int) -> _Storage:
        """A copy of the first positions, without their graph, and with room for more."""
        copies = []
        for x in (self.keys, self.values):
            with torch.inference_mode(False):  # what generation began may be read on outside it
                copies.append(x.new_empty((*x.shape[:2], capacity, x.shape[3])))
            copies[-1][:, :, :length] = x[:, :, :length].detach()
        return _Storage(*copies, taken=length)

    def select(self, rows: Tensor, length: int) -> _Storage:
        """The first positions of these rows; where no gradients are recorded, with all the room."""
        pair = self.keys, self.values
        if torch.is_grad_enabled():
            return _Storage(*(x[:, :, :length].index_select(0, rows) for x in pair), taken=length)
        with torch.inference_mode(False):  # as in `copy`
            room = [x.new_empty((len(rows), *x.shape[1:])) for x in pair]
        for x, out in zip(pair, room, strict=True):
            torch.index_select(x, 0, rows, out=out)
        return _Storage(*room, taken=length)


class KVCache:
    """The caches of a model's layers, `length` positions long, and which of these hold a token."""

    def __init__(self, n_layers: int, *, cross: bool = False) -> None:
        """cross: the layers attend to a source, too; its keys and values are computed once."""
        self.layers = [LayerCache() for _ in range(n_layers)]
        self.cross = [LayerCache() for _ in range(n_layers if cross else 0)]
        self.mask: Tensor | None = None  # (B, length), True where a token stands; None: everywhere
        self.source: Tensor | None = None  # (B, S, D), what an encoder made of its source
        self.source_mask: Tensor | None = None  # (B, S)

    @property
    def length(self) -> int:
        """How many positions were read by all layers; the last layer reads last."""
        return self.layers[-1].length

    def begin(self, source: Tensor, source_mask: Tensor | None) -> None:
        """Keep an encoded source; what a first read that failed has left is forgotten."""
        self.source, self.source_mask = source, source_mask
        self.cross = [LayerCache() for _ in self.cross]

    def check(self, rows: int, n_layers: int) -> None:
        """ValueError for another number of layers, or another batch than the one read so far."""
        if len(self.layers) != n_layers:
            raise ValueError(f"the cache has {len(self.layers)} layers, the model {n_layers}")
        if self.length and len(keys := self.layers[0].keys) != rows:
            (held, G) = keys.shape[:2]
            raise ValueError(f"the cache holds (B, G) = {(held, G)}, got {(rows, G)}")

    def extend_mask(self, mask: Tensor | None, x: Tensor) -> Tensor | None:
        """The mask (B, length + T) with that of T new positions, x (B, T, D); None: all tokens."""
        if mask is not None or self.mask is not None:
            everywhere = x.new_ones(len(x), self.length + x.shape[1], dtype=torch.bool)
            old = everywhere[:, : self.length] if self.mask is None else self.mask
            new = everywhere[:, self.length :] if mask is None else mask
            self.mask = torch.cat([old, new], 1)
        return self.mask

    def fork(self) -> KVCache:
        """A cache that goes on from here independently; nothing is copied until it is written."""
        other = copy.copy(self)
        other.layers = [layer.fork() for layer in self.layers]
        other.cross = [layer.fork() for layer in self.cross]
        return other

    def select(self, rows: Tensor) -> None:
        """Go on with these rows of the batch, int64 (B',), in this order; one may come twice."""
        for layer in (*self.layers, *self.cross):
            layer.select(rows)
        for name in ("mask", "source", "source_mask"):
            if (x := getattr(self, name)) is not None:
                setattr(self, name, x.index_select(0, rows))

    def crop(self, length: int) -> None:
        """Forget all positions from `length` on; ValueError for a negative one."""
        if length < 0:
            raise ValueError(f"length must be at least 0, got {length}")
        for layer in self.layers:
            layer.length = min(layer.length, length)
        self.mask = None if self.mask is None else self.mask[:, :length]

    def detach(self) -> None:
        """Let no gradient flow back through what was read so far."""
        for layer in (*self.layers, *self.cross):
            layer.detach()
        self.source = None if self.source is None else self.source.detach()
