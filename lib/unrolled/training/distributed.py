"""One fit in many processes: each reads its rows of every batch, and all make the same step.

`launch` starts them on this machine and reports how they ended; torchrun does it for several. Each
process calls `training.fit.fit` with the same arguments. All draw the same batches, and each reads
its `shard` of the rows; gradients of Σ nats / Σ weight over the whole batch are added up, so the
step is that of one process up to rounding. Batch norm sees a shard; dropout draws other masks in
each process. All models start with the parameters of process 0; with `carry_state` all batches need
equally many rows. Process 0 runs a validation function, writes the checkpoint and shows the bar. As
many processes must resume a checkpoint as saved it. Raises ValueError when the processes were given
different things, LostError when another process is gone. Ctrl-C in any process stops all after the
same step.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from unrolled.training.batch_iterator import Batch
from unrolled.validate import whole

GRACE = 1.0  # seconds a process that lost the others waits, so that the cause is reported first


def launch(
    function: Callable,
    n_processes: int,
    *arguments: object,
    timeout: float = 600.0,
    method: str | None = None,
) -> list:
    """function(*arguments) in n_processes new processes that can talk; what each one returned.

    In each of them `fit` finds the others, and `device` gives its device.

    function: importable, or defined in a notebook where no GPU is used; its arguments and result go
        through pickle.
    timeout: seconds that one process waits for another.
    method: of multiprocessing; None: "fork" for a notebook's function, "spawn" for others.

    When a process fails, the others are ended. Raises LostError if it was killed, RuntimeError with
    its traceback otherwise; both name it. Ctrl-C ends all of them. Checkpoints stay.
    """
    whole("n_processes", n_processes)
    method = method or method_for(function)
    with tempfile.TemporaryDirectory() as folder:
        arguments = (function, arguments, n_processes, folder, timeout)
        context = mp.start_processes(_work, arguments, n_processes, join=False, start_method=method)
        try:
            with _unlogged("torch.multiprocessing.spawn"):  # our error says who ended, and why
                while not context.join():
                    pass
        except mp.ProcessRaisedException as error:
            who, words = f"process {error.error_index} of {n_processes}", error.msg.strip()
            raise RuntimeError(f"{who} raised {words.splitlines()[-1]}\n\n{words}") from None
        except mp.ProcessExitedException as error:
            by, code = error.signal_name, error.exit_code
            end = f"was killed by {by}" if by else f"ended with code {code}"
            raise LostError(
                f"process {error.error_index} of {n_processes} {end}; the others were ended. A fit "
                "with a checkpoint goes on from it when it is launched again"
            ) from None
        finally:
            for process in context.processes:
                process.kill()
                process.join()
        return [pickle.loads(Path(folder, str(rank)).read_bytes()) for rank in range(n_processes)]


@contextlib.contextmanager
def _unlogged(name: str) -> Iterator[None]:
    """Within, this logger passes on errors only."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _work(rank: int, function: Callable, arguments: tuple, n: int, folder: str, timeout: float):
    """What a process does: enter the group, call, leave what was returned in the folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, too, and ends us
    torch.set_num_threads(max(1, torch.get_num_threads() // n))
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    os.environ.update(zip(names, map(str, (rank, rank, n, n)), strict=True))
    enter(init_method=f"file://{folder}/group", rank=rank, world_size=n,
          timeout=timedelta(seconds=timeout))  # fmt: skip
    dist.all_reduce(torch.zeros(1))  # no process goes on, or ends, before all are connected
    try:
        found = pickle.dumps(function(*arguments))
    except LostError:
        time.sleep(GRACE)
        raise
    Path(folder, str(rank)).write_bytes(found)
    dist.destroy_process_group()
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(0)  # as a forked process ends; at an ordinary end torch's threads may call abort()


def method_for(function: Callable) -> str:
    """How to start: fork a function that only this process knows, as in a notebook; else spawn.

    ValueError where such a function meets a system without forks.
    """
    interactive = not hasattr(sys.modules["__main__"], "__file__")
    if not (interactive and function.__module__ == "__main__"):
        return "spawn"
    if not hasattr(os, "fork"):
        raise ValueError(
            f"{function.__name__} is defined in a notebook, and a process of its own can know it "
            "only by a fork, which Windows has not; put it into a file and import it"
        )
    return "fork"


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

    def sum_losses(self, totals: Sequence[Tensor], weights: Sequence[float | Tensor]) -> tuple:
        """(Σ nats of each batch, Σ weight of all batches) over all processes."""
        weight = sum(weights)
        if self.n > 1:
            like = {"dtype": totals[0].dtype, "device": totals[0].device}
            *totals, weight = self.sum(torch.stack([*totals, torch.as_tensor(weight, **like)]))
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
