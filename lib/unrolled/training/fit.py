"""One loop that trains every model of the book with any loss: `fit(model, batches, config)`.

Chapter 12 writes the plain loop; chapters 10 and 20 explain clipping and the schedules. The loop is
`fit` and `Trainer.train_step`; what follows them measures, saves, resumes and cleans up.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from unrolled.models.kv_cache import KVCache
from unrolled.training import checkpoint as checkpoints
from unrolled.training.batch_iterator import Batch, BatchIterator, to_device
from unrolled.training.evaluate import in_mode
from unrolled.training.losses import Loss, cross_entropy, next_token_loss, per_target
from unrolled.training.settings import DivergedError, FitConfig, FitResult, History, to_jsonable
from unrolled.validate import checked

__all__ = [
    "Batch", "DivergedError", "FitConfig", "FitResult", "History", "cross_entropy", "fit",
    "next_token_loss", "per_target",
]  # fmt: skip

# Settings that a resumed fit may change.
FREE = ("log_every", "checkpoint_seconds", "compile")


@checked
def fit(
    model: nn.Module,
    batches: Iterable,
    config: FitConfig,
    *,
    loss: Loss = next_token_loss,
    valid: Callable[[nn.Module], float] | Iterable | None = None,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
) -> FitResult:
    """Train the model in place, and leave in it the parameters that were best on validation.

    batches: (inputs, targets) or (inputs, targets, weights), as `to_device` takes them. An iterable
        that ends is started again.
    loss: (model, batch, cache) → (Σ nats, Σ weight), see `losses`; a step minimises the ratio of
        the two sums over its `grad_accum_steps` batches. `per_target` makes one from a function of
        outputs and targets. The cache is None, or with `carry_state` a model.new_cache() for each
        pass over the batches, through which no gradient reaches an earlier batch.
    valid: batches, read again at each validation, or a function of the model, in evaluation mode,
        to a loss in nats. Without it the last parameters stay.
    checkpoint: a file saved every `checkpoint_seconds` and at the end. If the file exists, the fit
        continues from it bit for bit. The batches before that step are drawn and skipped, so they
        must come in the same order and must not draw from torch's default generators.
    progress: a bar by tqdm; None shows it in a terminal or notebook if tqdm is installed, and
        never under UNROLLED_STATIC=1, where outputs are stored.

    During the fit all parts of the model are in training mode; after it, each part has the mode it
    had, and torch's generators their state. Ctrl-C ends the fit after the step, with a checkpoint,
    and the result says so. A second Ctrl-C raises KeyboardInterrupt at once; then only the
    parameters that were best on validation are sure to be whole. Raises DivergedError for a loss or
    gradient that is not finite: on a CPU before the step that would spoil the parameters, elsewhere
    when the losses are next read (`log_every`), and before any validation or checkpoint. Raises
    ValueError or TypeError for batches, outputs or a checkpoint that do not fit, and OSError, if
    possible before the first step, for one that cannot be written. After an error, too, the best
    parameters are kept. In processes that `distributed.launch` or torchrun has started, all train
    one model together; see there.
    """
    kind = Trainer
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        from unrolled.training import distributed

        distributed.join()
        kind = distributed.DistributedTrainer
    trainer = kind(model, batches, config, loss, valid)
    if checkpoint is not None and config.carry_state and isinstance(model.new_cache(), KVCache):
        raise ValueError("a checkpoint cannot hold a KVCache: leave out carry_state or checkpoint")
    with (
        in_mode(model, training=True),
        fork_rng(trainer.seed, trainer.device),
        _progress_bar(progress if trainer.rank == 0 else False, config.n_steps) as bar,
        _stop_on_ctrl_c() as pressed,
    ):
        try:
            if checkpoint is not None and Path(checkpoint).exists():
                trainer.resume(checkpoint)
            elif checkpoint is not None and trainer.rank == 0:
                checkpoints.try_writing(checkpoint)
            bar.update(trainer.step)
            stop = trainer.step == config.n_steps
            while not stop:
                trainer.train_step()
                last = trainer.step == config.n_steps
                due = time.perf_counter() - trainer.saved_at >= config.checkpoint_seconds
                stop, save = trainer.agree(last or bool(pressed), due)
                if last or trainer.step % config.eval_every == 0:
                    trainer.validate()
                if checkpoint is not None and (stop or save):
                    trainer.save(checkpoint)
                bar.update(1)
            trainer.read_losses()
        finally:
            trainer.finish()
    return trainer.result()


class Trainer:
    """The state of a fit, all of which a checkpoint holds, and the methods that change it."""

    def __init__(self, model, batches, config, loss, valid) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        if not self.parameters:
            raise ValueError(f"{type(model).__name__} has no parameter that requires a gradient")
        if valid is not None and not callable(valid) and iter(valid) is valid:
            raise TypeError("valid is read more than once: give a list, not an iterator")
        self.model, self.config, self.valid, self.loss = model, config, valid, loss
        self.device, self.dtype = self.parameters[0].device, self.parameters[0].dtype
        self.autocast, self.optimizer = config.uses_bf16(self.device), config.build(model)
        self.compute_loss = _compiled(loss) if config.compile else loss
        self.base_lrs = [group["lr"] for group in self.optimizer.param_groups]
        model.zero_grad()
        self.settings_given = config.to_dict()
        self.batches, self.history = BatchIterator(batches, self.device, self.dtype), History()
        self.step, self.cache, self.best = 0, None, {"step": None, "loss": None, "model": None}
        self.log_every = config.log_every or (1 if self.device.type == "cpu" else 20)
        self.unread: list[tuple] = []  # of each step since the losses were last read
        self.start = self.saved_at = time.perf_counter()
        self.seed, self.rank = config.seed, 0

    def train_step(self) -> None:
        """One step of the optimizer, over `grad_accum_steps` batches."""
        k = self.config.grad_accum_steps
        drawn = [self.batches.draw() for _ in range(k)]
        scale = sum(batch.weight for batch, _ in drawn)
        if not isinstance(scale, Tensor) and scale == 0:
            raise ValueError(f"no target has a weight at step {self.step + 1}")
        factor = self.config.factor(self.step)
        for group, lr in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = lr * factor
        totals, weights = [], []
        for batch, begins in drawn:
            if begins and self.config.carry_state:
                self.cache = self.model.new_cache()
            total, weight = self.forward(batch, self.cache)
            (total / scale).backward()
            totals.append(total.detach())
            weights.append(weight)
        if self.device.type == "cuda" and self.step + 1 < self.config.n_steps:
            self.batches.prefetch(k)  # while the device computes
        totals, weight = self.combine(totals, sum(weights))
        if isinstance(weight, Tensor) or weight != scale:  # the loss has weights of its own
            gradients = [p.grad for p in self.parameters if p.grad is not None]
            torch._foreach_mul_(gradients, scale / weight)
        limit = self.config.grad_clip or math.inf
        norm = nn.utils.clip_grad_norm_(self.parameters, limit)
        seconds, lr = time.perf_counter() - self.start, self.optimizer.param_groups[0]["lr"]
        self.unread.append((self.step + 1, lr, seconds, [*totals, weight, norm]))
        if len(self.unread) >= self.log_every:
            self.read_losses()
        self.optimizer.step()
        self.model.zero_grad()  # so that no gradient is held until the next backward pass
        self.step += 1

    def forward(self, batch: Batch, cache: object) -> tuple[Tensor, float | Tensor]:
        """(Σ nats, Σ weight) of a batch; a weight on the CPU is a number."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            total, weight = self.compute_loss(self.model, batch, cache)
        if cache is not None:
            cache.detach()
        if isinstance(weight, Tensor) and weight.device.type == "cpu":
            weight = weight.item()
        return total, weight

    def combine(self, totals: list[Tensor], weight: float | Tensor) -> tuple[list, float | Tensor]:
        """(Σ nats of each batch, Σ weight), over all processes, as are the gradients then."""
        return totals, weight

    def agree(self, stop: bool, save: bool) -> tuple[bool, bool]:
        """Whether all processes stop, and whether they save, after this step."""
        return stop, save

    def read_losses(self) -> None:
        """Move the steps' losses and norms from the device to the history, all at once."""
        values = iter(_to_floats([x for *_, measured in self.unread for x in measured]))
        rows, self.unread = self.unread, []
        for step, lr, seconds, measured in rows:
            *totals, weight, norm = (next(values) for _ in measured)
            loss = sum(total / weight for total in totals) if weight else math.nan
            self.check_finite("training loss at", loss, step)
            self.check_finite("norm of the gradients at", norm, step)
            self.history.add(step, loss, lr, norm, seconds)

    def check_finite(self, what: str, value: float, step: int) -> None:
        if not math.isfinite(value):
            raise DivergedError(f"the {what} step {step}", value, self.history)

    def validate(self) -> None:
        """Measure the loss on validation, and keep the parameters if it is the best so far."""
        self.read_losses()
        if self.valid is None:
            return
        with in_mode(self.model, training=False), fork_rng(None, self.device):
            nats, weight = self.validation_sums()
        if weight == 0:
            raise ValueError("no target of the validation batches has a weight")
        value = nats / weight
        self.check_finite("validation loss before", value, self.step + 1)
        self.history.valid_step.append(self.step)
        self.history.valid_loss.append(value)
        if self.best["loss"] is None or value < self.best["loss"]:
            state = _state_dict(self.model)
            if self.device.type == "cuda":  # whose memory need not hold a second model
                state = {name: x.cpu() for name, x in state.items()}
            else:
                state = copy.deepcopy(state)
            self.best = {"step": self.step, "loss": value, "model": state}

    def validation_sums(self) -> tuple[float, float]:
        """(Σ nats, Σ weight) over the validation batches, or (the function's value, 1)."""
        if callable(self.valid):
            return float(self.valid(self.model)), 1.0
        cache = self.model.new_cache() if self.config.carry_state else None
        with torch.no_grad():
            found = [self.forward(to_device(b, self.device, self.dtype), cache) for b in self.valid]
        nats, weights = _to_floats([x for x, _ in found]), _to_floats([w for _, w in found])
        return sum(nats), sum(weights)

    def settings(self) -> dict:
        """What a resumed fit must have in common with the saved one."""
        model = getattr(self.model, "_orig_mod", self.model)
        parameters = {n.replace("_orig_mod.", ""): p for n, p in self.model.named_parameters()}
        return {name: x for name, x in self.settings_given.items() if name not in FREE} | {
            "model": type(model).__qualname__, "loss": to_jsonable(self.loss),
            "device": self.device.type, "first batch": self.batches.first,
        } | {n: f"{tuple(p.shape)} {p.dtype}" for n, p in parameters.items()}  # fmt: skip

    def contents(self) -> dict:
        """What a checkpoint holds besides the settings."""
        return {
            "model": _state_dict(self.model),
            "optimizer": self.optimizer.state_dict(),
            "rng": {name: g.get_state() for name, g in generators(self.device).items()},
            "history": asdict(self.history),
            "cache": None if self.cache is None else vars(self.cache),
            "step": self.step,
            "best": self.best,
        }

    def save(self, path: str | Path) -> None:
        self.read_losses()
        contents = self.contents()
        if self.rank == 0:
            checkpoints.save(path, contents, config=self.settings())
        self.saved_at = time.perf_counter()

    def resume(self, path: str | Path) -> None:
        saved, settings = checkpoints.read(path)
        self.batches.skip(saved["step"] * self.config.grad_accum_steps)
        checkpoints.check_config(path, settings, self.settings())
        self.restore(saved)

    def restore(self, saved: dict) -> None:
        """Take over what `contents` gave."""
        _load_state_dict(self.model, saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.history, self.step = History(**saved["history"]), saved["step"]
        self.best = saved["best"]
        if saved["cache"] is not None:
            self.cache = self.model.new_cache()
            vars(self.cache).update(map_tensors(lambda x: x.to(self.device), saved["cache"]))
        self.start -= self.history.seconds[-1]
        for name, generator in generators(self.device).items():
            generator.set_state(saved["rng"][name])

    def finish(self) -> None:
        """Put back the learning rates, and the best parameters if there are any."""
        for group, lr in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = lr
        if self.best["model"] is not None:
            _load_state_dict(self.model, self.best["model"])

    def result(self) -> FitResult:
        interrupted, best = self.step < self.config.n_steps, self.best["step"]
        note = f"the model holds the parameters of step {self.step if best is None else best}"
        if best is not None:
            note += ", the best on validation"
        if interrupted:
            note = f"interrupted after step {self.step} of {self.config.n_steps}; {note}"
        dtype = str(torch.bfloat16 if self.autocast else self.dtype).removeprefix("torch.")
        return FitResult(history=self.history, best_step=best, best_loss=self.best["loss"],
                         interrupted=interrupted, dtype=dtype, note=note)  # fmt: skip


def _compiled(loss: Loss) -> Loss:
    """Model and loss as one program, compiled again for each new form of batch, cache or mode.

    torch keeps eight versions for each code object and runs later ones uncompiled. So every fit
    has a code object of its own.
    """

    def of_this_fit(*arguments):
        return loss(*arguments)

    of_this_fit.__code__ = of_this_fit.__code__.replace()
    return torch.compile(of_this_fit)


def _to_floats(values: list[float | Tensor]) -> list[float]:
    """All values, those on a device by one transfer."""
    tensors = [x.detach().reshape(1) for x in values if isinstance(x, Tensor)]
    moved = iter(torch.cat(tensors).tolist() if tensors else ())
    return [next(moved) if isinstance(x, Tensor) else float(x) for x in values]


def _state_dict(model: nn.Module) -> dict[str, Tensor]:
    """The model's state by the names it has without torch.compile."""
    return {name.replace("_orig_mod.", ""): x for name, x in model.state_dict().items()}


def _load_state_dict(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Load what `_state_dict` gave, into the model or a compiled one."""
    names = model.state_dict()
    model.load_state_dict({name: state[name.replace("_orig_mod.", "")] for name in names})


def map_tensors(function: Callable[[Tensor], Tensor], tree: object) -> object:
    """The tree of tuples, lists and dicts with function applied to each tensor."""
    if isinstance(tree, Tensor):
        return function(tree)
    if type(tree) in (tuple, list):
        return type(tree)(map_tensors(function, x) for x in tree)
    if type(tree) is dict:
        return {key: map_tensors(function, x) for key, x in tree.items()}
    return tree


def generators(device: torch.device) -> dict[str, torch.Generator]:
    """torch's default generators of the CPU and, if it is another, of the GPU."""
    if device.type != "cuda":
        return {"cpu": torch.default_generator}
    index = torch.cuda.current_device() if device.index is None else device.index
    return {"cpu": torch.default_generator, "cuda": torch.cuda.default_generators[index]}


@contextlib.contextmanager
def fork_rng(seed: int | None, device: torch.device) -> Iterator[None]:
    """Within, torch's default generators start from seed, if given; after it, all is as before."""
    before = {generator: generator.get_state() for generator in generators(device).values()}
    try:
        for generator in before if seed is not None else ():
            generator.manual_seed(seed)
        yield
    finally:
        for generator, state in before.items():
            generator.set_state(state)


@contextlib.contextmanager
def _stop_on_ctrl_c() -> Iterator[list[int]]:
    """Within, Ctrl-C is appended to the list; the second one raises KeyboardInterrupt.

    Nothing changes in a thread, where no signal arrives, and where another handler is set.
    """
    pressed, before = [], signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: object) -> None:
        pressed.append(number)
        if len(pressed) == 2:
            before(number, frame)

    in_main = threading.current_thread() is threading.main_thread()
    ours = in_main and before is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, handle)
    try:
        yield pressed
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def _progress_bar(progress: bool | None, n_steps: int) -> contextlib.AbstractContextManager:
    """A bar on the standard error, or an object with the same `update` that shows nothing."""
    if progress is None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        watched = sys.stderr.isatty() or hasattr(shell, "kernel")
        found = importlib.util.find_spec("tqdm") is not None
        progress = watched and found and os.environ.get("UNROLLED_STATIC") != "1"
    if not progress:
        return contextlib.nullcontext(SimpleNamespace(update=lambda n: None))
    from tqdm.auto import tqdm

    return tqdm(total=n_steps, leave=False)
