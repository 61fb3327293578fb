"""One fit in many processes: each takes its share of every batch, and all make the same step.

`launch` starts them on this machine and tells how they ended; torchrun does it for several. In them
`training.fit.fit`, called by every process with the same arguments, works as follows. All draw the
same batches, of which each reads its `shard` of the rows; gradients of Σ nats / Σ weight over the
whole batch are added up, so that the step is that of one process but for rounding. What sees the
batch as a whole (batch norm) sees a shard; dropout draws other masks in each process. The model
begins everywhere as it is in process 0; with `carry_state` all batches have one number of rows. A
validation by a function is done in process 0, which also writes the checkpoint and shows the bar; a
checkpoint is taken up by as many processes as saved it. ValueError when the processes were given
different things, LostError when another one is gone; Ctrl-C in any of them stops all after the same
step.
"""

from __future__ import annotations

import atexit
import contextlib
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

from unrolled.training import checkpoint as checkpoints
from unrolled.training.batch_iterator import Batch
from unrolled.training.fit import Trainer, map_tensors
from unrolled.validate import whole

OWN = ("rng", "cache")  # what each process has for itself; all else is the same in all of them
GRACE = 1.0  # seconds that a process which lost the others leaves to the one that is the cause


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

    In each of them `fit` finds the others and `device` its device. On GPUs they talk by NCCL,
    otherwise by gloo.

    function: importable, or defined in a notebook where no GPU is used. What it takes and returns
        goes through pickle.
    timeout: seconds that one process waits for another.
    method: of multiprocessing; None: "fork" for a notebook's function, "spawn" for others.

    When one process fails the others are ended, and LostError is raised if it was killed, or
    RuntimeError with its traceback, either naming it. Ctrl-C ends all of them. Checkpoints stay.
    """
    whole("n_processes", n_processes)
    method = method or method_for(function)
    with tempfile.TemporaryDirectory() as folder:
        arguments = (function, arguments, n_processes, folder, timeout)
        context = mp.start_processes(_work, arguments, n_processes, join=False, start_method=method)
        try:
            while not context.join():
                pass
        except mp.ProcessRaisedException as error:
            words = error.msg.strip()
            raise RuntimeError(
                f"process {error.error_index} of {n_processes} raised {words.splitlines()[-1]}\n\n"
                f"{words}"
            ) from None
        except mp.ProcessExitedException as error:
            by, code = error.signal_name, error.exit_code
            raise LostError(
                f"process {error.error_index} of {n_processes} "
                f"{f'was killed by {by}' if by else f'ended with code {code}'}; the others were "
                "ended. A fit with a checkpoint goes on from it when it is launched again"
            ) from None
        finally:
            for process in context.processes:
                process.kill()
                process.join()
        return [pickle.loads(Path(folder, str(rank)).read_bytes()) for rank in range(n_processes)]


def _work(rank: int, function: Callable, arguments: tuple, n: int, folder: str, timeout: float):
    """What a process does: enter the group, call, leave what was returned in the folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, too, and ends us
    torch.set_num_threads(max(1, torch.get_num_threads() // n))
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    os.environ.update(zip(names, map(str, (rank, rank, n, n)), strict=True))
    _enter(init_method=f"file://{folder}/group", rank=rank, world_size=n,
           timeout=timedelta(seconds=timeout))  # fmt: skip
    dist.all_reduce(torch.zeros(1))  # nobody goes on, and maybe ends, before all are connected
    try:
        found = pickle.dumps(function(*arguments))
    except LostError:
        time.sleep(GRACE)  # our end is the consequence of another one's, which is to be named
        raise
    Path(folder, str(rank)).write_bytes(found)
    dist.destroy_process_group()


def method_for(function: Callable) -> str:
    """fork for a function that only this process knows, as in a notebook, or else spawn."""
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
    """Process `rank`'s rows of a batch.

    The rows are cut into n_processes runs whose lengths differ by one at most, some of them empty
    where there are too few. Raises ValueError for inputs that do not have a row for each row of the
    targets.
    """
    inputs, targets, weights, total = batch
    n = len(targets) if targets.ndim else -1
    for x in (*inputs, targets):
        if x.ndim == 0 or len(x) != n:
            raise ValueError(
                f"to be shared, inputs need the targets' rows in their first axis, got "
                f"{tuple(x.shape)} for targets {tuple(targets.shape)}"
            )
    rows = slice(n * rank // n_processes, n * (rank + 1) // n_processes)
    if weights is None:
        total = targets[rows].numel()
    else:
        weights = weights[rows]
        total = weights.sum()
    return Batch(tuple(x[rows] for x in inputs), targets[rows], weights, total)


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
        """Σ nats and Σ weight of all processes; adds up the gradients, those that some has."""
        found = self._sum(torch.tensor([p.grad is not None for p in self.parameters]).int())
        for parameter, n in zip(self.parameters, found.tolist(), strict=True):
            if n and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if gradients:
            flat = self._sum(torch.cat([g.reshape(-1) for g in gradients]))  # one message
            parts = flat.split([g.numel() for g in gradients])
            for gradient, part in zip(gradients, parts, strict=True):
                gradient.copy_(part.view_as(gradient))
        sums = self._sum(torch.stack([*totals, torch.as_tensor(weight).to(totals[0])]))
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
        own = {name: map_tensors(Tensor.cpu, contents[name]) for name in OWN}
        everyones = self._gather(own)
        return contents | {name: [own[name] for own in everyones] for name in OWN}

    def save(self, path: str | Path) -> None:
        self.read_losses()
        contents = self.contents()
        if self.rank == 0:
            checkpoints.save(path, contents, config=self.settings())
        self._gather(None)  # nobody goes on before it is there
        self.saved_at = time.perf_counter()

    def restore(self, saved: dict) -> None:
        super().restore(saved | {name: saved[name][self.rank] for name in OWN})

    def _compare(self) -> None:
        """Raise ValueError in every process unless all were given the same."""
        first, *others = self._gather(self.settings())
        for rank, theirs in enumerate(others, 1):
            found = [f"{k} {theirs.get(k)!r}, not {x!r}" for k, x in first.items()
                     if theirs.get(k) != x]  # fmt: skip
            if found:
                raise ValueError(
                    f"process {rank} was given something else than process 0: {', '.join(found)}"
                )

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
