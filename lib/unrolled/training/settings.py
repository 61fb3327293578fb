"""The plain data around a fit: a FitConfig goes in, a History and a FitResult come out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import torch
from torch import nn

from unrolled.training.schedule import SCHEDULES

OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """How a model is trained. Raises ValueError for settings that exclude each other.

    An optimizer that is not a name is either a torch optimizer, which brings its own learning
    rates and decay, or a function of parameter groups (with "lr" and "weight_decay") that makes
    one, such as torch.optim.RMSprop. A schedule that is not a name is a function of the update,
    0 … n_steps − 1, that returns a factor for the learning rate.
    """

    n_steps: int  # updates of the parameters
    lr: float | None = None  # no default is right for every model
    optimizer: str | torch.optim.Optimizer | Callable = "adamw"  # asks for the least tuning
    betas: tuple[float, float] | None = None  # of "adamw" and "adam"; torch's (0.9, 0.999)
    momentum: float = 0.0  # of "sgd"
    weight_decay: float = 0.0  # of parameters with two axes or more; a biased prior, so asked for
    schedule: str | Callable[[int], float] = "constant"  # nothing hidden
    warmup: int = 0  # updates
    final_factor: float = 0.0  # of the learning rate, at the last update of "linear" or "cosine"
    clip: float | None = 1.0  # of the norm of all gradients: one bad batch must not undo the rest
    accumulate: int = 1  # batches in an update
    eval_every: int = 100  # updates; also how often a checkpoint is saved
    precision: str = "auto"  # bfloat16 where it is fast, on CUDA; "bf16" and "off" insist
    carry_state: bool = False  # model(inputs, state) → (logits, state), the first state None
    seed: int = 0  # of torch's default generators during the fit, so of dropout

    def __post_init__(self) -> None:
        by_name, named_schedule = isinstance(self.optimizer, str), isinstance(self.schedule, str)
        fixed = isinstance(self.optimizer, torch.optim.Optimizer)
        kind = self.optimizer if by_name else type(self.optimizer).__name__
        for bad, message in (
            (by_name and kind not in OPTIMIZERS, f"optimizer must be one of {[*OPTIMIZERS]}"),
            (self.n_steps < 1, "n_steps must be at least 1"),
            (self.accumulate < 1, "accumulate must be at least 1"),
            (self.eval_every < 1, "eval_every must be at least 1"),
            (not fixed and not (self.lr or 0) > 0, "lr must be given, above 0"),
            (fixed and self.lr is not None, f"lr must be left out: {kind} brings its own"),
            (fixed and self.weight_decay, f"weight_decay must be left out: {kind} brings its own"),
            (self.weight_decay < 0, "weight_decay must be at least 0"),
            (self.betas and kind not in ("adamw", "adam"), f"betas do not belong to {kind}"),
            (self.momentum and kind != "sgd", f"momentum does not belong to {kind}"),
            (self.clip is not None and not self.clip > 0, "clip must be above 0, or None"),
            (self.precision not in ("auto", "off", "bf16"), "precision must be auto, off or bf16"),
            (named_schedule and self.schedule not in SCHEDULES,
             f"schedule must be one of {[*SCHEDULES]}"),
            (not named_schedule and self.warmup, "warmup belongs to a schedule by name"),
            (self.final_factor and self.schedule not in ("linear", "cosine"),
             "final_factor belongs to the schedules linear and cosine"),
        ):  # fmt: skip
            if bad:
                raise ValueError(f"{message}, in {self}")
        self.factor(0)  # raises for an impossible warmup or final_factor

    def factor(self, step: int) -> float:
        """What the learning rate is multiplied by at update `step`, counted from 0."""
        if not isinstance(self.schedule, str):
            return self.schedule(step)
        final = {} if self.schedule == "constant" else {"final": self.final_factor}
        return SCHEDULES[self.schedule](step, self.n_steps, warmup=self.warmup, **final)

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimizer of the model's trainable parameters, decay on those with ≥ 2 axes only.

        Raises ValueError for an optimizer of other parameters than the model's.
        """
        trainable = [p for p in model.parameters() if p.requires_grad]
        if isinstance(self.optimizer, torch.optim.Optimizer):
            ours = set(map(id, trainable))
            if any(id(p) not in ours for g in self.optimizer.param_groups for p in g["params"]):
                raise ValueError("the optimizer holds parameters that are not the model's to train")
            return self.optimizer
        kinds = (
            ([p for p in trainable if p.ndim >= 2], self.weight_decay),
            ([p for p in trainable if p.ndim < 2], 0.0),
        )
        groups = [{"params": p, "lr": self.lr, "weight_decay": decay} for p, decay in kinds if p]
        if not isinstance(self.optimizer, str):
            return self.optimizer(groups)
        options = {"momentum": self.momentum} if self.optimizer == "sgd" else {}
        if self.betas:
            options["betas"] = self.betas
        return OPTIMIZERS[self.optimizer](groups, **options)

    def uses_bf16(self, device: torch.device) -> bool:
        """Whether a fit on this device computes in bfloat16 where torch's autocast does.

        Raises ValueError for "bf16" on a CUDA device that has none.
        """
        has_it = device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)
        if self.precision == "bf16" and not has_it:
            raise ValueError(f"precision is 'bf16', and {device} has no bfloat16")
        fast = has_it and device.type == "cuda"
        return self.precision == "bf16" or (self.precision == "auto" and fast)

    def plain(self) -> dict[str, object]:
        """The settings as numbers and strings that say the same in every process."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self)}


def plain(value: object) -> object:
    """A setting as a number or a string that says the same in every process.

    A function is its full name, an optimizer its groups' settings; other things their repr.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.optim.Optimizer):
        groups = [{k: v for k, v in g.items() if k != "params"} for g in value.param_groups]
        return f"{type(value).__qualname__} {groups}"
    if isinstance(value, functools.partial):
        return f"partial of {plain(value.func)} {value.args} {value.keywords}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return repr(value)


@dataclass
class History:
    """What happened, as lists: one entry for each update, or each validation."""

    step: list[int] = field(default_factory=list)  # updates done: 1, 2, …
    train_loss: list[float] = field(default_factory=list)  # nats, before the update
    lr: list[float] = field(default_factory=list)  # of the first parameter group
    grad_norm: list[float] = field(default_factory=list)  # of all gradients, before clipping
    seconds: list[float] = field(default_factory=list)  # since the start, validation included
    valid_step: list[int] = field(default_factory=list)
    valid_loss: list[float] = field(default_factory=list)  # nats

    def add(self, *row: float) -> None:
        """Append the step, train_loss, lr, grad_norm and seconds of one update."""
        for f, value in zip(fields(self), row, strict=False):
            getattr(self, f.name).append(value)


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """The history, the best validation loss (nats, None without any) and how the fit ended."""

    history: History = field(repr=False)
    best_step: int | None
    best_loss: float | None
    interrupted: bool
    note: str  # in words: which parameters the model holds, and whether the fit was interrupted


class DivergedError(FloatingPointError):
    """A loss or a gradient is not finite; `history` (a History) tells how it came to that."""

    def __init__(self, what: str, value: float, history: History) -> None:
        last = "there was no finite loss before"
        if history.step:
            last = f"last finite loss: {history.train_loss[-1]:.6g} at update {history.step[-1]}"
        super().__init__(f"{what} is {value} ({last})")
        self.history = history
