"""What a checkpoint of a fit holds, and how a fit goes on from it bit for bit."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from unrolled.training import _runtime
from unrolled.training import checkpoint as checkpoints
from unrolled.training.settings import History, to_jsonable

if TYPE_CHECKING:
    from unrolled.training.fit import Trainer

# Settings that a resumed fit may change.
FREE = ("log_every", "checkpoint_seconds", "compile")


def begin(trainer: Trainer, path: str | Path | None) -> None:
    """Start from the checkpoint if there is one, with the same parameters in all processes."""
    if trainer.processes.n > 1:
        trainer.batches.prefetch(1)  # so that its checksum is there
        trainer.processes.check_same(settings(trainer))
        trainer.processes.copy_from_first(trainer.model.state_dict().values())
    if path is not None and Path(path).exists():
        load(trainer, path)
    elif path is not None and trainer.processes.rank == 0:
        checkpoints.try_writing(path)


def settings(trainer: Trainer) -> dict:
    """What a resumed fit must have in common with the saved one."""
    given = {name: x for name, x in trainer.settings_given.items() if name not in FREE}
    model = _runtime.uncompiled(trainer.model)
    return given | {
        "model": type(model).__qualname__, "loss": to_jsonable(trainer.loss),
        "device": trainer.device.type, "first batch": trainer.batches.first,
        "processes": trainer.processes.n,
    } | _runtime.shapes(model)  # fmt: skip


def save(trainer: Trainer, path: str | Path) -> None:
    """Write the checkpoint; no process goes on before it is there."""
    trainer.read_losses()
    cache = None if trainer.cache is None else vars(trainer.cache)
    states = {name: g.get_state() for name, g in _runtime.generators(trainer.device).items()}
    own = {"rng": states, "cache": _runtime.map_tensors(Tensor.cpu, cache)}
    contents = {
        "model": _runtime.state_dict(trainer.model),
        "optimizer": trainer.optimizer.state_dict(),
        "history": asdict(trainer.history),
        "step": trainer.step,
        "best": trainer.best,
        "processes": trainer.processes.gather(own),
    }
    if trainer.processes.rank == 0:
        checkpoints.save(path, contents, config=settings(trainer))
    trainer.processes.gather(None)
    trainer.saved_at = time.perf_counter()


def load(trainer: Trainer, path: str | Path) -> None:
    """Take over what `save` wrote."""
    saved, found = checkpoints.read(path)
    trainer.batches.skip(saved["step"] * trainer.config.grad_accum_steps)
    checkpoints.check_config(path, found, settings(trainer))
    _runtime.load_state_dict(trainer.model, saved["model"])
    trainer.optimizer.load_state_dict(saved["optimizer"])
    trainer.history, trainer.step = History(**saved["history"]), saved["step"]
    trainer.best, own = saved["best"], saved["processes"][trainer.processes.rank]
    if own["cache"] is not None:
        trainer.cache = trainer.model.new_cache()
        moved = _runtime.map_tensors(lambda x: x.to(trainer.device), own["cache"])
        vars(trainer.cache).update(moved)
    trainer.start -= trainer.history.seconds[-1]
    for name, generator in _runtime.generators(trainer.device).items():
        generator.set_state(own["rng"][name])
