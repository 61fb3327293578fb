"""One loop that trains every model of the book with any loss: `fit(model, batches, config)`.

Chapter 8 writes the plain loop; chapters 10 and 20 explain clipping and the schedules. A batch
goes from `BatchIterator` through `Trainer.train_step` into the `History`. Validation stands in
`evaluate`, saving in `checkpoint`, sums over processes in `distributed`, Ctrl-C in `_runtime`.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from unrolled.training import _runtime
from unrolled.training import checkpoint as checkpoints
from unrolled.training.batch_iterator import Batch, BatchIterator
from unrolled.training.distributed import Processes
from unrolled.training.evaluate import in_mode, validation_loss
from unrolled.training.losses import Loss, cross_entropy, next_token_loss, per_target
from unrolled.training.settings import DivergedError, FitConfig, FitResult, History, to_jsonable
from unrolled.validate import checked

__all__ = ["Batch", "DivergedError", "FitConfig", "FitResult", "History", "cross_entropy", "fit",
           "next_token_loss", "per_target"]  # fmt: skip


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
    parameters are kept. Processes that `distributed.launch` or torchrun started train one model.
    """
    trainer = Trainer(model, batches, config, loss, valid, Processes.here())
    is_first = trainer.processes.rank == 0
    with (
        in_mode(model, training=True),
        _runtime.fork_rng(trainer.seed, trainer.device),
        _runtime.progress_bar(progress if is_first else False, config.n_steps) as bar,
        _runtime.stop_on_ctrl_c() as pressed,
    ):
        try:
            checkpoints.begin_fit(trainer, checkpoint)
            bar.update(trainer.step)
            stop = trainer.step == config.n_steps
            while not stop:
                trainer.train_step()
                last = trainer.step == config.n_steps
                due = time.perf_counter() - trainer.saved_at >= config.checkpoint_seconds
                stop, save = trainer.processes.any(last or bool(pressed), due and is_first)
                if last or trainer.step % config.eval_every == 0:
                    trainer.validate()
                if checkpoint is not None and (stop or save):
                    checkpoints.save_fit(trainer, checkpoint)
                bar.update(1)
            trainer.read_losses()
        finally:
            trainer.finish()
    return trainer.result()


class Trainer:
    """The state of a fit, all of which a checkpoint holds, and the methods that change it."""

    def __init__(self, model, batches, config, loss, valid, processes=None) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        if not self.parameters:
            raise ValueError(f"{type(model).__name__} has no parameter that requires a gradient")
        if valid is not None and not callable(valid) and iter(valid) is valid:
            raise TypeError("valid is read more than once: give a list, not an iterator")
        self.model, self.config, self.valid, self.loss = model, config, valid, loss
        self.device, self.dtype = self.parameters[0].device, self.parameters[0].dtype
        self.autocast, self.optimizer = config.uses_bf16(self.device), config.build(model)
        self.compute_loss = _runtime.compiled(loss) if config.compile else loss
        self.base_lrs = [group["lr"] for group in self.optimizer.param_groups]
        model.zero_grad()
        self.settings_given = config.to_dict() | {"loss": to_jsonable(loss)}
        self.batches, self.history = BatchIterator(batches, self.device, self.dtype), History()
        self.step, self.cache, self.best = 0, None, {"step": None, "loss": None, "model": None}
        self.log_every = config.log_every or (1 if self.device.type == "cpu" else 20)
        self.unread: list[tuple] = []  # of each step since the losses were last read
        self.start = self.saved_at = time.perf_counter()
        self.processes = processes or Processes()
        self.seed = config.seed + 1_000_003 * self.processes.rank  # other masks of dropout in each

    def train_step(self) -> None:
        """One step of the optimizer, over `grad_accum_steps` batches."""
        drawn = [self.batches.draw() for _ in range(self.config.grad_accum_steps)]
        scale = sum(batch.weight for batch, _ in drawn)
        if not isinstance(scale, Tensor) and scale == 0:
            raise ValueError(f"no target has a weight at step {self.step + 1}")
        self.scale_lrs(self.config.factor(self.step))
        found = []
        for batch, begins in drawn:
            if begins and self.config.carry_state:
                self.cache = self.model.new_cache()
            total, weight = self.forward(batch, self.cache)
            (total / scale).backward()
            found.append((total.detach(), weight))
        if self.device.type == "cuda" and self.step + 1 < self.config.n_steps:
            self.batches.prefetch(len(drawn))  # while the device computes
        self.processes.sum_gradients(self.parameters)
        totals, weight = self.processes.sum_losses(*zip(*found, strict=True))
        if isinstance(weight, Tensor) or weight != scale:  # the loss has weights of its own
            for gradient in (p.grad for p in self.parameters if p.grad is not None):
                gradient *= scale / weight
        norm = nn.utils.clip_grad_norm_(self.parameters, self.config.grad_clip or math.inf)
        seconds, lr = time.perf_counter() - self.start, self.optimizer.param_groups[0]["lr"]
        self.unread.append((self.step + 1, lr, seconds, [*totals, weight, norm]))
        if len(self.unread) >= self.log_every:
            self.read_losses()
        self.optimizer.step()
        self.model.zero_grad()  # so that no gradient is held until the next backward pass
        self.step += 1

    def forward(self, batch: Batch, cache: object) -> tuple[Tensor, float | Tensor]:
        """(Σ nats, Σ weight) of this process's rows; a weight on the CPU is a number."""
        batch = self.processes.shard(batch)
        if self.processes.n > 1 and len(batch.targets) == 0:  # fewer rows than processes
            return torch.zeros((), device=self.device, requires_grad=True), 0
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            total, weight = self.compute_loss(self.model, batch, cache)
        if cache is not None:
            cache.detach()
        if isinstance(weight, Tensor) and weight.device.type == "cpu":
            weight = weight.item()
        return total, weight

    def read_losses(self) -> None:
        """Move the steps' losses and norms from the device to the history, all at once."""
        values = iter(_runtime.to_floats([x for *_, measured in self.unread for x in measured]))
        rows, self.unread = self.unread, []
        for step, lr, seconds, measured in rows:
            *totals, weight, norm = (next(values) for _ in measured)
            loss = sum(total / weight for total in totals) if weight else math.nan
            self.history.check_finite(f"the training loss at step {step}", loss)
            self.history.check_finite(f"the norm of the gradients at step {step}", norm)
            self.history.add(step=step, train_loss=loss, lr=lr, grad_norm=norm, seconds=seconds)

    def validate(self) -> None:
        """Measure the loss on validation, and keep the parameters if it is the best so far."""
        self.read_losses()
        if self.valid is None:
            return
        value = validation_loss(self)
        self.history.check_finite(f"the validation loss before step {self.step + 1}", value)
        self.history.add(valid_step=self.step, valid_loss=value)
        if self.best["loss"] is None or value < self.best["loss"]:
            state = _runtime.map_tensors(Tensor.cpu, _runtime.state_dict(self.model))
            self.best = {"step": self.step, "loss": value, "model": copy.deepcopy(state)}

    def scale_lrs(self, factor: float) -> None:
        for group, lr in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = lr * factor

    def finish(self) -> None:
        """Put back the learning rates, and the best parameters if there are any."""
        self.scale_lrs(1.0)
        if self.best["model"] is not None:
            _runtime.load_state_dict(self.model, self.best["model"])

    def result(self) -> FitResult:
        dtype = str(torch.bfloat16 if self.autocast else self.dtype).removeprefix("torch.")
        return FitResult(history=self.history, n_steps=self.config.n_steps, dtype=dtype,
                         best_step=self.best["step"], best_loss=self.best["loss"])  # fmt: skip
