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
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from unrolled.training.batch_iterator import Batch
from unrolled.training.fit import Trainer, map_tensors
from unrolled.validate import whole

OWN = ("rng", "cache")  # what each process has for itself; all else is the same in all of them
GRACE = 1.0  # seconds a process that lost the others waits, so that the cause is reported first


class LostError(RuntimeError):
    """A process of a distributed fit is gone."""


def launch(
    function: Callable,
    n_processes: int,
    *arguments: object,
    timeout: float = 600.0,
    method: str | None = None,
) -> list:
    """function(*arguments) in n_processes new processes that can talk; what each one returned.

    In each of them `fit` finds the others, by NCCL on GPUs and gloo elsewhere, and `device` gives
    its device.

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
    _enter(init_method=f"file://{folder}/group", rank=rank, world_size=n,
           timeout=timedelta(seconds=timeout))  # fmt: skip
    dist.all_reduce(torch.zeros(1))  # no process goes on, or ends, before all are connected
    try:
        found = pickle.dumps(function(*arguments))
    except LostError:
        time.sleep(GRACE)
        raise
    Path(folder, str(rank)).write_bytes(found)
    dist.destroy_process_group()


def method_for(function: Callable) -> str:
    """How to start: fork a function that only this process knows, as in a notebook; else spawn."""
    interactive = not hasattr(sys.modules["__main__"], "__file__")
    return "fork" if interactive and function.__module__ == "__main__" else "spawn"


def device() -> torch.device:
    """This process's own GPU where there is one for each on this machine, the CPU otherwise."""
    n = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    own = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    return own if torch.cuda.device_count() >= n else torch.device("cpu")


def _enter(**options: object) -> None:
    own = device()
    if own.type == "cuda":
        torch.cuda.set_device(own)
    dist.init_process_group("cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo", **options)


def join() -> None:
    """Enter the group of processes that torchrun has started, unless we are in it."""
    if not dist.is_initialized():
        _enter()
        atexit.register(dist.destroy_process_group)


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


class DistributedTrainer(Trainer):
    """A Trainer that reads a shard of each batch, and adds up with the other processes."""

    def __init__(self, model, batches, config, loss, valid) -> None:
        super().__init__(model, batches, config, loss, valid)
        self.rank, self.n_processes = dist.get_rank(), dist.get_world_size()
        self.seed = config.seed + 1_000_003 * self.rank  # other masks of dropout
        self.batches.prefetch(1)  # so that its checksum is there
        self._compare()
        with self._contact():
            for tensor in model.state_dict().values():
                dist.broadcast(tensor, 0)

    def settings(self) -> dict:
        return super().settings() | {"processes": self.n_processes}

    def forward(self, batch: Batch, cache: object) -> tuple[Tensor, float | Tensor]:
        ours = shard(batch, self.rank, self.n_processes)
        if len(ours.targets) == 0:  # fewer rows than processes
            return torch.zeros((), device=self.device, requires_grad=True), 0
        return super().forward(ours, cache)

    def combine(self, totals: list[Tensor], weight: float | Tensor) -> tuple[list, Tensor]:
        """Σ nats and Σ weight over all processes; the gradients become their sums in place."""
        found = self._sum(torch.tensor([p.grad is not None for p in self.parameters]).int())
        trained = [p for p, n in zip(self.parameters, found.tolist(), strict=True) if n]
        for parameter in trained:
            if parameter.grad is None:  # only other processes have one
                parameter.grad = torch.zeros_like(parameter)
        if trained:
            flat = self._sum(torch.cat([p.grad.reshape(-1) for p in trained]))  # one message
            parts = flat.split([p.numel() for p in trained])
            for parameter, part in zip(trained, parts, strict=True):
                parameter.grad.copy_(part.view_as(parameter))
        weight = weight if isinstance(weight, Tensor) else totals[0].new_full((), weight)
        sums = self._sum(torch.stack([*totals, weight.to(totals[0])]))
        return [*sums[:-1]], sums[-1]

    def agree(self, stop: bool, save: bool) -> tuple[bool, bool]:
        """Stop if any process is to stop; save if process 0's clock says so."""
        stop, save = self._sum(torch.tensor([stop, save and self.rank == 0]).int()).tolist()
        return stop > 0, save > 0

    def validation_sums(self) -> tuple[float, float]:
        """Those of all shards, or what process 0 finds."""
        own = super().validation_sums() if self.rank == 0 or not callable(self.valid) else (0, 0)
        return tuple(self._sum(torch.tensor(own, dtype=torch.float64)).tolist())

    def contents(self) -> dict:
        contents = super().contents()
        everyones = self._gather({x: map_tensors(Tensor.cpu, contents[x]) for x in OWN})
        return contents | {name: [own[name] for own in everyones] for name in OWN}

    def save(self, path: str | Path) -> None:
        super().save(path)
        self._gather(None)  # no process goes on before the file is there

    def restore(self, saved: dict) -> None:
        super().restore(saved | {name: saved[name][self.rank] for name in OWN})

    def _compare(self) -> None:
        """Raise ValueError in every process unless all were given the same."""
        first, *others = self._gather(self.settings())
        for rank, theirs in enumerate(others, 1):
            other = {k: x for k, x in first.items() if theirs.get(k) != x}
            found = ", ".join(f"{k} {theirs.get(k)!r}, not {x!r}" for k, x in other.items())
            if other:
                raise ValueError(f"process {rank} was given something else than process 0: {found}")

    def _sum(self, x: Tensor) -> Tensor:
        """x, made the sum over all processes in place: the same bits in each of them."""
        with self._contact():
            dist.all_reduce(x)
        return x

    def _gather(self, x: object) -> list:
        """x of every process."""
        found = [None] * self.n_processes
        with self._contact():
            dist.all_gather_object(found, x)
        return found

    @contextlib.contextmanager
    def _contact(self) -> Iterator[None]:
        """Within, what the backend raises becomes a LostError."""
        try:
            yield
        except RuntimeError as error:
            raise LostError(
                f"process {self.rank} of {self.n_processes} lost the others at step "
                f"{self.step + 1} ({error})"
            ) from error
