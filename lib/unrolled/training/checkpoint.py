"""Checkpoints: a training run on disk, whole or not at all, readable without running its code."""

from __future__ import annotations

import contextlib
import functools
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch

from unrolled.data.batches import IGNORE

FORMAT = "unrolled checkpoint 1"


def save(path: str | Path, contents: dict, *, config: dict) -> None:
    """Write contents and config to path; what was there stays until all of it is on the disk.

    contents, config: numbers, strings, tensors, and tuples, lists and dicts of these. A process
    killed at any moment leaves the old file or the new one, and at worst the unfinished
    `.<name>.tmp` beside it, which the next save overwrites; two processes must not save to one
    path. Raises TypeError for a value that could not be loaded again without running code.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp")  # the same folder: a rename there is atomic
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as file:
            torch.save({"format": FORMAT, "config": config, "contents": contents}, file)
            file.flush()
            os.fsync(file.fileno())
        if unsafe := torch.serialization.get_unsafe_globals_in_checkpoint(temporary):
            raise TypeError(
                "a checkpoint holds numbers, strings, tensors, and tuples, lists and dicts of "
                f"them, got {', '.join(sorted(unsafe))}"
            )
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def load(path: str | Path, *, config: dict | None = None) -> dict:
    """The contents of a checkpoint, its tensors on the CPU; no code in the file is run.

    config: if given, the file must have been saved with an equal one (see `check_config`). Raises
    FileNotFoundError, and ValueError naming the file if it is damaged or no checkpoint of ours.
    """
    contents, found = read(path)
    if config is not None:
        check_config(path, found, config)
    return contents


def read(path: str | Path) -> tuple[dict, dict]:
    """(contents, config) of a checkpoint. Raises as `load` does."""
    path = Path(path)
    with path.open("rb") as file:
        try:
            # torch does not compare the check sums in its files, zipfile does.
            with zipfile.ZipFile(file) as archive:
                if broken := archive.testzip():
                    raise ValueError(f"its part {broken} does not match its check sum")
            file.seek(0)
            found = torch.load(file, map_location="cpu", weights_only=True)
            if not isinstance(found, dict) or found.get("format") != FORMAT:
                raise ValueError(f"it does not say {FORMAT!r}")
            return found["contents"], found["config"]
        except Exception as error:  # zipfile, pickle and torch raise a dozen kinds
            raise ValueError(
                f"{path} is damaged or no checkpoint of this library: {error}"
            ) from error


def check_config(path: str | Path, found: dict, expected: dict) -> None:
    """Raise ValueError naming each setting that differs, with both values, unless none does."""
    missing = "(absent)"
    differences = [
        f"{key}: {found.get(key, missing)!r} in the file, {expected.get(key, missing)!r} now"
        for key in dict.fromkeys([*found, *expected])
        if found.get(key, missing) != expected.get(key, missing)
    ]
    if differences:
        raise ValueError(f"{path} belongs to another configuration: {'; '.join(differences)}")


class Stream:
    """Batches for a model, from the start again where an iterable ends, with a position.

    `drawn` counts the batches so far; `first` is a check sum of the first one, by which a resumed
    fit notices that its data are others.
    """

    def __init__(self, batches: Iterable, device: torch.device, dtype: torch.dtype) -> None:
        self.batches, self.iterator = batches, iter(batches)
        self.device, self.dtype = device, dtype
        self.drawn, self.first = 0, 0

    def draw(self) -> tuple[tuple, bool]:
        """(the next batch as `prepare` makes it, whether it is the first of a pass).

        Raises ValueError when the batches end and cannot be started again.
        """
        fresh = self.drawn == 0
        for attempt in range(2):
            try:
                batch = next(self.iterator)
                break
            except StopIteration:
                if attempt:
                    raise ValueError(
                        f"the batches ended after {self.drawn}: give a list, an endless iterator, "
                        "or an object whose iterator starts again"
                    ) from None
                self.iterator, fresh = iter(self.batches), True
        batch = prepare(batch, self.device, self.dtype)
        if self.drawn == 0:
            self.first = _checksum((*batch[0], *batch[1:3]))
        self.drawn += 1
        return batch, fresh


def prepare(batch: tuple, device: torch.device, dtype: torch.dtype) -> tuple:
    """(inputs as a tuple, targets, weights or None, Σ weights) of a batch, on the device.

    Booleans stay, integers become int64, floats dtype. A target that is `IGNORE` has the weight 0;
    one of weight 0 becomes 0, so that it may be anything. Raises ValueError for another form,
    another shape or a negative weight.
    """

    def tensor(x: np.ndarray | torch.Tensor) -> torch.Tensor:
        x = x if isinstance(x, torch.Tensor) else torch.from_numpy(np.array(x))
        if x.is_floating_point():
            return x.to(device, dtype)
        return x.to(device, x.dtype if x.dtype == torch.bool else torch.int64)

    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise ValueError("a batch is (inputs, targets) or (inputs, targets, weights)")
    inputs = batch[0] if isinstance(batch[0], tuple) else (batch[0],)
    inputs, targets = tuple(map(tensor, inputs)), tensor(batch[1])
    asked = targets != IGNORE if targets.dtype == torch.int64 else torch.ones_like(targets).bool()
    if len(batch) == 2 and asked.all():
        return inputs, targets, None, targets.numel()
    weights = tensor(batch[2]) if len(batch) == 3 else asked
    if weights.shape != targets.shape or (weights < 0).any():
        raise ValueError(
            f"weights must have the targets' shape {tuple(targets.shape)} and be at least 0, "
            f"got the shape {tuple(weights.shape)} and as the smallest {weights.min().item():g}"
        )
    weights = weights * asked
    return inputs, targets.masked_fill(weights == 0, 0), weights, weights.double().sum().item()


@contextlib.contextmanager
def seeded(seed: int | None, device: torch.device) -> Iterator[None]:
    """Within, torch's default generators start from seed (None: go on); after it, as before."""
    cuda = device.type == "cuda"
    index = torch.cuda.current_device() if cuda and device.index is None else device.index
    with torch.random.fork_rng([index] if cuda else []):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            if cuda:
                torch.cuda.default_generators[index].manual_seed(seed)
        yield


def rng_state(device: torch.device) -> dict[str, torch.Tensor]:
    """The states of torch's default generators for the CPU and, if it is another, the device."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def set_rng_state(states: dict[str, torch.Tensor], device: torch.device) -> None:
    """Put back what `rng_state` returned."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], tree: object) -> object:
    """function of each tensor in a state: a tensor, None, or tuples, lists and dicts of these.

    Raises TypeError for anything else.
    """
    if tree is None or isinstance(tree, torch.Tensor):
        return tree if tree is None else function(tree)
    if type(tree) in (tuple, list):
        return type(tree)(map_tensors(function, x) for x in tree)
    if type(tree) is dict:
        return {key: map_tensors(function, x) for key, x in tree.items()}
    raise TypeError(
        "a carried state is None, a tensor, or tuples, lists and dicts of these, "
        f"got {type(tree).__name__}"
    )


def _checksum(tensors: tuple[torch.Tensor | None, ...]) -> int:
    """CRC-32 over all values."""
    arrays = (x.detach().cpu().double().numpy() for x in tensors if x is not None)
    return functools.reduce(lambda crc, x: zlib.crc32(x.tobytes(), crc), arrays, 0)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system lets a folder be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
