"""One loop that trains every model of the book: `fit(model, batches, config)`."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from unrolled.data.batches import IGNORE
from unrolled.training import checkpoint as checkpoints
from unrolled.training.checkpoint import Stream, prepare
from unrolled.training.interrupt import InterruptedTwice, held
from unrolled.training.settings import DivergedError, FitConfig, FitResult, History, plain

__all__ = ["DivergedError", "FitConfig", "FitResult", "History", "cross_entropy", "fit"]


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """−log softmax(logits)[target], in nats: (..., V) and int64 targets (...) → (...).

    A target `IGNORE` costs 0. ValueError for shapes, IndexError for targets that do not fit.
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits must have the shape of the targets, {tuple(targets.shape)}, and a last axis "
            f"for the vocabulary, got {tuple(logits.shape)}"
        )
    flat = logits.reshape(-1, logits.shape[-1])
    nats = nn.functional.cross_entropy(
        flat, targets.reshape(-1), ignore_index=IGNORE, reduction="none"
    )
    return nats.reshape(targets.shape)


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
    """Train the model in place, and leave in it the parameters that were best on validation.

    batches: (inputs, targets) or (inputs, targets, weights), arrays or tensors: integers become
        int64, floats the model's dtype, on the model's device. Inputs that are a tuple are spread:
        model(*inputs). The loss is Σ weight·loss / Σ weight over the targets of all `accumulate`
        batches of an update: a mask (True = counts) leaves padding out, and so do targets that
        are `IGNORE`. An iterable that ends is started again, with the state None.
    valid: batches, gone through anew each time, or a function of the model, in evaluation mode,
        to a loss in nats. Without it the last parameters stay.
    loss: (model's output, targets) → the loss of each target, shaped like the targets.
    checkpoint: a file saved every `eval_every` updates. If it is there already, the fit goes on
        from it bit for bit; batches are drawn and left out up to that place, so they must come
        again in the same order and draw from a generator of their own.
    progress: a bar by tqdm; None shows it in a terminal or notebook if tqdm is installed, and
        never where UNROLLED_STATIC=1 asks for outputs that can be stored.

    Ctrl-C ends the fit early, but no update and no checkpoint half way; the result says so. A
    second Ctrl-C does not wait and raises KeyboardInterrupt; only what was best on validation is
    then sure to be whole. torch's generators are left as they were. Raises DivergedError for a loss
    or gradient that is not finite, and ValueError or TypeError for batches, outputs or a checkpoint
    that do not fit; there, too, the best parameters are kept.
    """
    return train(Run(model, batches, config, valid, loss), checkpoint, progress)


def train(run: Run, checkpoint: str | Path | None, progress: bool | None) -> FitResult:
    """The loop of `fit` over what a Run holds; `training.distributed` brings a Run of its own."""
    model, config, was_training, interrupted = run.model, run.config, run.model.training, False
    with checkpoints.seeded(run.seed, run.device), _bar(progress, config.n_steps) as bar:
        try:
            model.train()
            if checkpoint is not None and Path(checkpoint).exists():
                run.resume(checkpoint)
            bar.update(run.step)
            while run.step < config.n_steps:
                run.update()
                if run.step % config.eval_every == 0 or run.step == config.n_steps:
                    run.validate()
                    if checkpoint is not None:
                        run.save(checkpoint)
                bar.update(1)
        except InterruptedTwice:
            raise
        except KeyboardInterrupt:
            interrupted = True
        finally:
            run.finish()
            model.train(was_training)
    return run.result(interrupted)


class Run:
    """The state of a fit, all of which a checkpoint holds, and the steps that change it."""

    def __init__(self, model, batches, config, valid, loss) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        if not self.parameters:
            raise ValueError(f"{type(model).__name__} has no parameter that requires a gradient")
        if valid is not None and not callable(valid) and iter(valid) is valid:
            raise TypeError("valid is gone through more than once: give a list, not an iterator")
        self.model, self.config, self.valid, self.loss = model, config, valid, loss
        self.device, self.dtype = self.parameters[0].device, self.parameters[0].dtype
        self.autocast = config.uses_bf16(self.device)
        self.optimizer, self.plain = config.build(model), config.plain()
        self.base_lrs = [group["lr"] for group in self.optimizer.param_groups]
        self.stream, self.history = Stream(batches, self.device, self.dtype), History()
        self.step, self.state, self.best = 0, None, {"step": None, "loss": None, "model": None}
        self.begin, self.seed = time.perf_counter(), config.seed

    def forward(self, batch: tuple, state: object) -> tuple[Tensor, object]:
        """(Σ weight · loss, next state) of a batch as `Stream` gives it."""
        inputs, targets, weights, _ = batch
        carried = self.config.carry_state
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            output = self.model(*inputs, state) if carried else self.model(*inputs)
        if isinstance(output, tuple) != carried:
            raise TypeError(
                f"with carry_state={carried} the model must return "
                f"{'(logits, state)' if carried else 'logits'}, got a {type(output).__name__}"
            )
        logits, state = output if carried else (output, None)
        losses = self.loss(logits.float() if logits.dtype == torch.bfloat16 else logits, targets)
        if losses.shape != targets.shape:
            raise ValueError(
                f"the loss must have the targets' shape {tuple(targets.shape)}, "
                f"got {tuple(losses.shape)}"
            )
        total = (losses if weights is None else losses * weights.to(losses.dtype)).sum()
        return total, checkpoints.map_tensors(Tensor.detach, state)

    def update(self) -> None:
        """One step of the optimizer, over `accumulate` batches."""
        drawn = [self.stream.draw() for _ in range(self.config.accumulate)]
        n = sum(batch[-1] for batch, _ in drawn)
        if n == 0:
            raise ValueError(f"no target has a weight at update {self.step + 1}")
        factor, train_loss = self.config.factor(self.step), 0.0
        for group, lr in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = lr * factor
        self.model.zero_grad()
        for batch, fresh in drawn:
            total, self.state = self.forward(batch, None if fresh else self.state)
            (total / n).backward()
            train_loss += total.item() / n
        train_loss = self.finite("training loss at", self.combine(train_loss))
        norm = nn.utils.clip_grad_norm_(self.parameters, self.config.clip or math.inf).item()
        self.finite("norm of the gradients at", norm)
        with held():
            self.optimizer.step()
            self.step += 1
            lr, seconds = self.optimizer.param_groups[0]["lr"], time.perf_counter() - self.begin
            self.history.add(self.step, train_loss, lr, norm, seconds)

    def combine(self, train_loss: float) -> float:
        """The loss of the update, once all that takes part in it has its gradients here."""
        return train_loss

    def validate(self) -> None:
        """Measure the loss on validation, and keep the parameters if it is the best so far."""
        if self.valid is None:
            return
        self.model.eval()
        with checkpoints.seeded(None, self.device):  # measuring must not change the training
            value = self.measure()
        self.model.train()
        self.finite("validation loss before", value)
        with held():
            self.history.valid_step.append(self.step)
            self.history.valid_loss.append(value)
            if self.best["loss"] is None or value < self.best["loss"]:
                parameters = copy.deepcopy(self.model.state_dict())
                self.best = {"step": self.step, "loss": value, "model": parameters}

    def measure(self) -> float:
        """The loss on validation."""
        return float(self.valid(self.model)) if callable(self.valid) else self.mean_loss()

    @torch.no_grad()
    def mean_loss(self) -> float:
        """Σ weight · loss / Σ weight over the validation batches."""
        nats, n, state = 0.0, 0.0, None
        for batch in (prepare(batch, self.device, self.dtype) for batch in self.valid):
            total, state = self.forward(batch, state)
            nats, n = nats + total.item(), n + batch[-1]
        if n == 0:
            raise ValueError("no target of the validation batches has a weight")
        return nats / n

    def finite(self, what: str, value: float) -> float:
        if not math.isfinite(value):
            raise DivergedError(f"the {what} update {self.step + 1}", value, self.history)
        return value

    def settings(self) -> dict:
        """What a resumed fit must have in common with the one that was saved."""
        shapes = {n: f"{tuple(p.shape)} {p.dtype}" for n, p in self.model.named_parameters()}
        run = {"model": type(self.model).__qualname__, "loss": plain(self.loss)}
        place = {"device": self.device.type, "first batch": self.stream.first}
        return self.plain | run | place | shapes

    def contents(self) -> dict:
        """What a checkpoint holds besides the settings."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": checkpoints.rng_state(self.device),
            "history": asdict(self.history),
        } | {name: getattr(self, name) for name in ("step", "state", "best")}

    def save(self, path: str | Path) -> None:
        contents = self.contents()
        with held():
            checkpoints.save(path, contents, config=self.settings())

    def resume(self, path: str | Path) -> None:
        saved, settings = checkpoints.read(path)
        for _ in range(saved["step"] * self.config.accumulate):
            self.stream.draw()
        checkpoints.check_config(path, settings, self.settings())
        self.restore(saved)

    def restore(self, saved: dict) -> None:
        """Take over what `contents` gave."""
        with held():
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.history = History(**saved["history"])
            self.step, self.best = saved["step"], saved["best"]
            self.state = checkpoints.map_tensors(lambda x: x.to(self.device), saved["state"])
            self.begin -= self.history.seconds[-1]
            checkpoints.set_rng_state(saved["rng"], self.device)

    def finish(self) -> None:
        with held():
            for group, lr in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
                group["lr"] = lr
            if self.best["model"] is not None:
                self.model.load_state_dict(self.best["model"])

    def result(self, interrupted: bool) -> FitResult:
        held = self.step if self.best["step"] is None else self.best["step"]
        note = f"the model holds the parameters of update {held}"
        if self.best["step"] is not None:
            note += ", the best on validation"
        if interrupted:
            note = f"interrupted after update {self.step} of {self.config.n_steps}; {note}"
        return FitResult(history=self.history, best_step=self.best["step"], note=note,
                         best_loss=self.best["loss"], interrupted=interrupted)  # fmt: skip


def _bar(progress: bool | None, n_steps: int) -> contextlib.AbstractContextManager:
    """A bar on the standard error, or nothing that can be updated in the same way."""
    if progress is None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        watched = sys.stderr.isatty() or hasattr(shell, "kernel")
        found = importlib.util.find_spec("tqdm") is not None
        progress = watched and found and os.environ.get("UNROLLED_STATIC") != "1"
    if not progress:
        return contextlib.nullcontext(SimpleNamespace(update=lambda n: None))
    from tqdm.auto import tqdm

    return tqdm(total=n_steps, leave=False)
