"""Training runs and models on disk: whole or not at all, readable without running their code."""

from __future__ import annotations

import contextlib
import io
import os
import time
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import torch
from torch import Tensor, nn

from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.kv_cache import KVCache
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training import _runtime
from unrolled.training.settings import History
from unrolled.validate import checked

if TYPE_CHECKING:
    from unrolled.training.fit import Trainer

FORMAT = "unrolled checkpoint 1"
FREE = ("log_every", "checkpoint_seconds", "compile")  # what a resumed fit may change
TRANSFORMERS = {kind.__name__: kind for kind in (TransformerLM, Encoder, EncoderDecoder)}


@checked
def save(to: str | Path | BinaryIO, contents: dict, *, config: dict | None = None) -> None:
    """Write contents and config to a path or an open binary file.

    contents, config: numbers, strings, tensors, and tuples, lists and dicts of these. The old file
    stays until the new one is whole on the disk: a process killed at any moment leaves one of them,
    and at worst the unfinished `.<name>.tmp` beside it, which the next save overwrites. Two
    processes must not save to one path. Raises OSError naming the file if it cannot be written, and
    TypeError for a value that could not be loaded again without running code.
    """
    everything = _plain({"format": FORMAT, "config": config or {}, "contents": contents})
    if hasattr(to, "write"):
        with io.BytesIO() as file:
            torch.save(everything, file)
            file.seek(0)
            _check_safe(file)
            to.write(file.getbuffer())
        return
    path = Path(to)
    temporary = path.with_name(f".{path.name}.tmp")  # the same folder: a rename there is atomic
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as file:
            torch.save(everything, file)
            file.flush()
            os.fsync(file.fileno())
        _check_safe(temporary)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # When the disk is full torch raises a RuntimeError that says only "unexpected pos".
        cause = error.__context__ if isinstance(error, RuntimeError) else error
        if isinstance(cause, OSError) and cause.errno and not cause.filename:
            said = f"{cause.strerror}; an older checkpoint there is untouched"
            raise OSError(cause.errno, said, str(path)) from error
        raise
    with contextlib.suppress(OSError):  # not every system lets a folder be synced
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the rename survives a power cut
        finally:
            os.close(folder)


def _plain(tree: object) -> object:
    """The tree of tuples, lists and dicts with numpy's numbers as Python's."""
    if isinstance(tree, np.generic):
        return tree.item()
    if type(tree) in (tuple, list):
        return type(tree)(map(_plain, tree))
    return {_plain(k): _plain(x) for k, x in tree.items()} if type(tree) is dict else tree


def _check_safe(file: Path | BinaryIO) -> None:
    if unsafe := torch.serialization.get_unsafe_globals_in_checkpoint(file):
        raise TypeError(
            "a checkpoint holds numbers, strings, tensors, and tuples, lists and dicts of "
            f"them, got {', '.join(sorted(unsafe))}"
        )


def try_writing(to: str | Path) -> None:
    """Raise OSError if nothing can be written beside this path, before hours of work need it."""
    path = Path(to)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.touch()
    temporary.unlink()


@checked
def load(source: str | Path | BinaryIO, *, config: dict | None = None) -> dict:
    """The contents of a checkpoint, its tensors on the CPU; no code in the file is run.

    config: if given, the file must have been saved with an equal one (see `check_config`). Raises
    FileNotFoundError, and ValueError naming the file if it is damaged or no checkpoint of ours.
    """
    contents, found = read(source)
    if config is not None:
        check_config(source, found, config)
    return contents


def read(source: str | Path | BinaryIO) -> tuple[dict, dict]:
    """(contents, config) of a checkpoint. Raises as `load` does."""
    is_file = hasattr(source, "read")
    with contextlib.nullcontext(source) if is_file else Path(source).open("rb") as file:
        try:
            # torch does not compare the checksums in its files, zipfile does.
            with zipfile.ZipFile(file) as archive:
                if broken := archive.testzip():
                    raise ValueError(f"its part {broken} does not match its checksum")
            file.seek(0)
            found = torch.load(file, map_location="cpu", weights_only=True)
            if not isinstance(found, dict) or found.get("format") != FORMAT:
                raise ValueError(f"it does not say {FORMAT!r}")
            return found["contents"], found["config"]
        except Exception as error:  # zipfile, pickle and torch raise a dozen kinds
            said = f"{source} is damaged or no checkpoint of this library: {error}"
            raise ValueError(said) from error


def check_config(source: object, found: dict, expected: dict) -> None:
    """Raise ValueError naming each setting that differs, with both values, unless none does."""
    keys = dict.fromkeys([*found, *expected])
    pairs = {key: (found.get(key, "(absent)"), expected.get(key, "(absent)")) for key in keys}
    differ = [f"{key}: {a!r} in the file, {b!r} now" for key, (a, b) in pairs.items() if a != b]
    if differ:
        raise ValueError(f"{source} belongs to another configuration: {'; '.join(differ)}")


@checked
def save_model(model: nn.Module, path: str | Path) -> None:
    """Write a Transformer or a `RecurrentLM`, compiled or not; `load_model` gives it back.

    The old file stays until the new one is whole. Raises TypeError for a model of another class
    and for a cell that is your own: `save` takes their state_dict.
    """
    model = _runtime.uncompiled(model)
    kind = type(model).__name__
    if type(model) is RecurrentLM and isinstance(model.arguments["cell"], str):
        config = model.arguments
    elif TRANSFORMERS.get(kind) is type(model):
        config = asdict(model.config)
    else:
        known = ", ".join(("RecurrentLM", *TRANSFORMERS))
        raise TypeError(f"model must be one of {known}, with a cell of the library; got {kind}")
    weights = model.state_dict()
    with torch.device("meta"):
        plain = _made(kind, config).state_dict()
    if odd := sorted(plain.keys() ^ weights.keys()):
        raise TypeError(
            f"this {kind} has other parts than its configuration says: {', '.join(odd)}"
        )
    save(path, {"kind": kind, "config": config, "weights": weights})


def _made(kind: str, config: dict) -> nn.Module:
    if kind == "RecurrentLM":
        return RecurrentLM(**config)
    return TRANSFORMERS[kind](TransformerConfig(**config))


@checked
def load_model(path: str | Path) -> nn.Module:
    """The model that `save_model` wrote, on the CPU and in evaluation mode. No code in it is run.

    Raises FileNotFoundError, and ValueError naming the file if it holds no such model.
    """
    found = load(path)
    if found.keys() != {"kind", "config", "weights"}:
        raise ValueError(f"{path} holds {', '.join(found)}, and not a model of `save_model`")
    try:
        model = _made(found["kind"], found["config"])
        kinds = {x.dtype for x in found["weights"].values() if x.is_floating_point()}
        model.to(kinds.pop() if len(kinds) == 1 else None)
        model.load_state_dict(found["weights"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path} holds no model of `save_model`: {error}") from error
    return model.eval()


def begin_fit(trainer: Trainer, path: str | Path | None) -> None:
    """Start from the checkpoint if there is one, with the same parameters in all processes."""
    carries = path is not None and trainer.config.carry_state
    if carries and isinstance(trainer.model.new_cache(), KVCache):
        raise ValueError("a checkpoint cannot hold a KVCache: leave out carry_state or checkpoint")
    if trainer.processes.n > 1:
        trainer.batches.prefetch(1)  # so that its checksum is there
        trainer.processes.check_same(settings_of(trainer))
        trainer.processes.copy_from_first(trainer.model.state_dict().values())
    if path is not None and Path(path).exists():
        load_fit(trainer, path)
    elif path is not None and trainer.processes.rank == 0:
        try_writing(path)


def settings_of(trainer: Trainer) -> dict:
    """What a resumed fit must have in common with the saved one."""
    given = {name: x for name, x in trainer.settings_given.items() if name not in FREE}
    model = _runtime.uncompiled(trainer.model)
    return given | {
        "model": type(model).__qualname__, "device": trainer.device.type,
        "first batch": trainer.batches.first, "processes": trainer.processes.n,
    } | _runtime.shapes(model)  # fmt: skip


def save_fit(trainer: Trainer, path: str | Path) -> None:
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
        save(path, contents, config=settings_of(trainer))
    trainer.processes.gather(None)
    trainer.saved_at = time.perf_counter()


def load_fit(trainer: Trainer, path: str | Path) -> None:
    """Take over what `save_fit` wrote."""
    saved, found = read(path)
    trainer.batches.skip(saved["step"] * trainer.config.grad_accum_steps)
    check_config(path, found, settings_of(trainer))
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
