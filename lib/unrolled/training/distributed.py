"""One fit in many processes: each takes its share of every batch, and all make the same update."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from unrolled.training import checkpoint as checkpoints
from unrolled.training.fit import FitConfig, FitResult, Run, cross_entropy, train
from unrolled.training.fit import fit as fit_alone
from unrolled.training.interrupt import held
from unrolled.training.launch import LostError, device, join, launch

__all__ = ["LostError", "device", "fit", "launch", "share"]

PATIENCE = 1.0  # seconds a process has to say that it is still there
OWN = ("rng", "state")  # what each process has for itself; all else is the same in all of them


def fit(
    model: nn.Module,
    batches: Iterable,
    config: FitConfig,
    *,
    valid: Callable[[nn.Module], float] | Iterable | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
) -> FitResult:
    """`training.fit.fit` by all processes that `launch` or torchrun has started; alone, just that.

    Every process calls it with the same arguments. All draw the same batches, of which each reads
    its `share` of the rows; the gradients of Σ weight·loss / Σ weight over the whole batch are
    added up over the processes, so that the update is that of one process but for rounding. What
    sees the batch as a whole (batch norm) sees a share; dropout draws other masks in each process.

    model: begins everywhere as it is in process 0, and ends everywhere the same. On the GPU
        `device()` each process has its own.
    batches: an array's first axis is the batch's rows. With carry_state it has one length.
    valid: batches are shared as well; a function is called in process 0 only.
    checkpoint: a path that all processes see; process 0 writes. A fit goes on from it bit for bit
        in as many processes as before.
    progress: of process 0.

    Raises what fit raises; ValueError when the processes were given different things; LostError,
    naming the process, when another one is gone; KeyboardInterrupt for a Ctrl-C.
    """
    join()
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        options = {"valid": valid, "loss": loss, "checkpoint": checkpoint, "progress": progress}
        return fit_alone(model, batches, config, **options)
    run = _SharedRun(model, batches, config, valid, loss)
    result = train(run, checkpoint, progress if run.rank == 0 else False)
    if result.interrupted:  # the others wait in vain
        raise KeyboardInterrupt
    return result


def share(batch: tuple, rank: int, n_processes: int) -> tuple:
    """Process `rank`'s rows of a batch (inputs as a tuple, targets, weights or None, Σ weights).

    The rows are cut into n_processes runs whose lengths differ by one at most, some of them empty
    where there are too few; Σ weights stays that of the whole batch. Raises ValueError for inputs
    that do not have a row for each row of the targets.
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
    ours = tuple(x[rows] for x in inputs)
    return ours, targets[rows], None if weights is None else weights[rows], total


class _SharedRun(Run):
    """A Run that reads a share of each batch, and adds up with the other processes."""

    def __init__(self, model, batches, config, valid, loss) -> None:
        super().__init__(model, batches, config, valid, loss)
        self.rank, self.n_processes = dist.get_rank(), dist.get_world_size()
        self.seed = config.seed + 1_000_003 * self.rank  # other masks of dropout
        self.compared = False
        self._compare()
        with self._contact():
            for tensor in model.state_dict().values():
                dist.broadcast(tensor, 0)

    def settings(self) -> dict:
        return super().settings() | {"processes": self.n_processes}

    def forward(self, batch: tuple, state: object) -> tuple[Tensor, object]:
        ours = share(batch, self.rank, self.n_processes)
        if len(ours[1]) == 0:  # fewer rows than processes
            return torch.zeros((), device=self.device, requires_grad=True), None
        return super().forward(ours, state)

    def combine(self, train_loss: float) -> float:
        """The loss of the whole update; adds up the gradients, those that some process has."""
        if not self.compared:
            self._compare()  # now with a check sum of the first batch
            self.compared = True
        found = [p.grad is not None for p in self.parameters]
        train_loss, *found = self._sum(
            torch.tensor([train_loss, *found], dtype=torch.float64, device=self.device)
        ).tolist()
        for parameter, n in zip(self.parameters, found, strict=True):
            if n and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if gradients:
            flat = self._sum(torch.cat([g.reshape(-1) for g in gradients]))  # one message
            parts = flat.split([g.numel() for g in gradients])
            for gradient, part in zip(gradients, parts, strict=True):
                gradient.copy_(part.view_as(gradient))
        return train_loss

    def measure(self) -> float:
        """The loss on validation, of all shares or as process 0 finds it."""
        ours = super().measure() if self.rank == 0 or not callable(self.valid) else 0.0
        return self._sum(torch.tensor([ours], dtype=torch.float64, device=self.device)).item()

    def contents(self) -> dict:
        contents = super().contents()
        contents["state"] = checkpoints.map_tensors(Tensor.cpu, contents["state"])
        everyones = self._gather({name: contents[name] for name in OWN})
        return contents | {name: [own[name] for own in everyones] for name in OWN}

    def save(self, path: str | Path) -> None:
        contents = self.contents()
        if self.rank == 0:
            with held():
                checkpoints.save(path, contents, config=self.settings())
        self._gather(None)  # nobody goes on before it is there

    def restore(self, saved: dict) -> None:
        super().restore(saved | {name: saved[name][self.rank] for name in OWN})

    def _compare(self) -> None:
        """Raise ValueError in every process unless all were given the same."""
        everyones = self._gather(self.settings() | {"update": self.step})
        for rank, theirs in enumerate(everyones):
            keys = dict.fromkeys([*everyones[0], *theirs])
            pairs = {key: (theirs.get(key), everyones[0].get(key)) for key in keys}
            if other := [f"{k} {a!r}, not {b!r}" for k, (a, b) in pairs.items() if a != b]:
                raise ValueError(
                    f"process {rank} was given something else than process 0: {', '.join(other)}"
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
        """Within, what the backend raises becomes a LostError that names who is gone."""
        try:
            yield
        except RuntimeError as error:
            silent = self._silent()
            who = ", ".join(map(str, silent)) or "unknown, all answer"
            raise LostError(
                f"process {self.rank} of {self.n_processes} lost the others at update "
                f"{self.step + 1}; no answer from: {who} ({error})",
                silent,
            ) from error

    def _silent(self) -> list[int]:
        """The processes that do not sign in at the store, which outlives the connections."""
        with contextlib.suppress(RuntimeError):
            store, until = dist.distributed_c10d._get_default_store(), time.monotonic() + PATIENCE
            keys = {rank: f"unrolled/{self.step}/{rank}" for rank in range(self.n_processes)}
            store.set(keys[self.rank], "here")
            while silent := [rank for rank in keys if not store.check([keys[rank]])]:
                if time.monotonic() > until:
                    return silent
                time.sleep(0.05)
            return []
        return [0]  # whose store it was
