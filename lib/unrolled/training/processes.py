"""The processes that train one model together: what each of them reads, and what they add up.

A fit asks the same of one process as of many; a sum over one process is the value itself. More are
started by `distributed.launch` or by torchrun.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from unrolled.training.batch_iterator import Batch


class LostError(RuntimeError):
    """A process of a distributed fit is gone."""


class Processes:
    """n processes, of which this one has the number `rank`; process 0 writes files and the bar."""

    def __init__(self, rank: int = 0, n: int = 1) -> None:
        self.rank, self.n = rank, n

    @classmethod
    def here(cls) -> Processes:
        """Those that torchrun or `launch` has started, or this one alone."""
        if int(os.environ.get("WORLD_SIZE", 1)) == 1:
            return cls()
        if not dist.is_initialized():
            enter()
            atexit.register(dist.destroy_process_group)
        return cls(dist.get_rank(), dist.get_world_size())

    def shard(self, batch: Batch) -> Batch:
        """The rows of a batch that this process reads."""
        return batch if self.n == 1 else shard(batch, self.rank, self.n)

    def sum(self, x: Tensor) -> Tensor:
        """x, made the sum over all processes in place: the same bits in each of them."""
        if self.n > 1:
            with self._contact():
                dist.all_reduce(x)
        return x

    def any(self, *flags: bool) -> list[bool]:
        """Of each flag, whether it is set in some process."""
        if self.n == 1:
            return list(flags)
        return [n > 0 for n in self.sum(torch.tensor(flags).int()).tolist()]

    def sum_losses(
        self, totals: list[Tensor], weight: float | Tensor
    ) -> tuple[list, float | Tensor]:
        """(Σ nats of each batch, Σ weight) over all processes."""
        if self.n == 1:
            return totals, weight
        weight = weight if isinstance(weight, Tensor) else totals[0].new_full((), weight)
        *totals, weight = self.sum(torch.stack([*totals, weight.to(totals[0])]))
        return totals, weight

    def sum_gradients(self, parameters: list[Tensor]) -> None:
        """Make each gradient the sum over all processes, in one message."""
        if self.n == 1:
            return
        found = self.sum(torch.tensor([p.grad is not None for p in parameters]).int())
        trained = [p for p, n in zip(parameters, found.tolist(), strict=True) if n]
        if not trained:
            return
        for parameter in trained:
            if parameter.grad is None:  # only other processes have one
                parameter.grad = torch.zeros_like(parameter)
        flat = self.sum(torch.cat([p.grad.reshape(-1) for p in trained]))
        parts = flat.split([p.numel() for p in trained])
        for parameter, part in zip(trained, parts, strict=True):
            parameter.grad.copy_(part.view_as(parameter))

    def gather(self, x: object) -> list:
        """x of every process."""
        found = [x] * self.n
        if self.n > 1:
            with self._contact():
                dist.all_gather_object(found, x)
        return found

    def copy_from_first(self, tensors: Iterable[Tensor]) -> None:
        """Give these tensors the values that process 0 has."""
        if self.n > 1:
            with self._contact():
                for tensor in tensors:
                    dist.broadcast(tensor, 0)

    def check_same(self, settings: dict) -> None:
        """Raise ValueError in every process unless all were given the same settings."""
        first, *others = self.gather(settings)
        for rank, theirs in enumerate(others, 1):
            other = {k: x for k, x in first.items() if theirs.get(k) != x}
            found = ", ".join(f"{k} {theirs.get(k)!r}, not {x!r}" for k, x in other.items())
            if other:
                raise ValueError(f"process {rank} was given something else than process 0: {found}")

    @contextlib.contextmanager
    def _contact(self) -> Iterator[None]:
        """Within, what the backend raises becomes a LostError."""
        try:
            yield
        except RuntimeError as error:
            raise LostError(f"process {self.rank} of {self.n} lost the others: {error}") from error


def shard(batch: Batch, rank: int, n_processes: int) -> Batch:
    """Process `rank`'s rows of a batch: one of n_processes runs of rows.

    Their lengths differ by at most one; some are empty where there are too few rows. Raises
    ValueError for inputs that do not have a row for each row of the targets.
    """
    inputs, targets, weights, _ = batch
    for x in (*inputs, targets):
        if x.ndim == 0 or x.shape[:1] != targets.shape[:1]:
            raise ValueError(
                f"to be shared, inputs need the targets' rows in their first axis, got "
                f"{tuple(x.shape)} for targets {tuple(targets.shape)}"
            )
    n = len(targets)
    rows = slice(n * rank // n_processes, n * (rank + 1) // n_processes)
    weights = None if weights is None else weights[rows]
    weight = targets[rows].numel() if weights is None else weights.sum()
    return Batch(tuple(x[rows] for x in inputs), targets[rows], weights, weight)


def device() -> torch.device:
    """This process's own GPU where there is one for each on this machine, the CPU otherwise."""
    n = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    own = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    return own if torch.cuda.device_count() >= n else torch.device("cpu")


def enter(**options: object) -> None:
    """Enter the group of processes: by NCCL where each has a GPU, by gloo elsewhere."""
    own = device()
    if own.type == "cuda":
        torch.cuda.set_device(own)
    dist.init_process_group("cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo", **options)
