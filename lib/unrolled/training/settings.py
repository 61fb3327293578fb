"""The plain data around a fit: a FitConfig goes in, a History and a FitResult come out.

Chapters 10 (clipping), 12 (the recipe) and 20 (warm-up and cosine) explain the settings.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import numpy as np
import torch
from torch import nn

from unrolled.training.schedule import SCHEDULES
from unrolled.validate import checked, flag, one_of, real, whole

OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """How a model is trained.

    n_steps: of the optimizer.
    lr: the learning rate; no default is right for every model.
    optimizer: "adamw", "adam" or "sgd"; a torch optimizer, which brings its own learning rates and
        decay; or a function of parameter groups (with "lr" and "weight_decay") that makes one, such
        as torch.optim.RMSprop.
    betas: of "adamw" and "adam"; None: torch's (0.9, 0.999).
    momentum: of "sgd".
    weight_decay: of parameters with two axes or more; a biased prior, so never tacit.
    schedule: a name in SCHEDULES, or a function of the step, 0 … n_steps − 1, to a factor for the
        learning rate.
    warmup_steps: of a named schedule.
    decay_steps: where "linear" and "cosine" reach their end; None: n_steps.
    min_lr_ratio: of the learning rate, at that end and after it.
    grad_clip: largest norm of all gradients, since one bad batch must not undo all; None: no limit.
    grad_accum_steps: batches in a step.
    eval_every: steps between validations.
    log_every: steps between looks at the losses; None: 1 on a CPU, 20 on a GPU.
    checkpoint_seconds: between checkpoints, each of which holds up to 4 × the parameters.
    precision: "auto", bfloat16 where it is fast, on CUDA; "bf16" and "off" insist.
    compile: model and loss as one program, a minute that a short fit loses.
    carry_state: each batch continues the one before, from model.new_cache().
    seed: of torch's default generators during the fit, so of dropout.

    Raises TypeError and ValueError for impossible settings and for those that exclude each other.
    """

    n_steps: int
    lr: float | None = None
    optimizer: str | torch.optim.Optimizer | Callable = "adamw"
    betas: tuple[float, float] | None = None
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: str | Callable[[int], float] = "constant"
    warmup_steps: int = 0
    decay_steps: int | None = None
    min_lr_ratio: float = 0.0
    grad_clip: float | None = 1.0
    grad_accum_steps: int = 1
    eval_every: int = 100
    log_every: int | None = None
    checkpoint_seconds: float = 60.0
    precision: str = "auto"
    compile: bool = False
    carry_state: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        by_name, named_schedule = isinstance(self.optimizer, str), isinstance(self.schedule, str)
        fixed = isinstance(self.optimizer, torch.optim.Optimizer)
        kind = self.optimizer if by_name else type(self.optimizer).__name__
        given = {name: x for name, x in vars(self).items() if x is not None}
        for name in ("n_steps", "grad_accum_steps", "eval_every"):
            whole(name, getattr(self, name))
        for name in ("momentum", "weight_decay", "checkpoint_seconds"):
            real(name, getattr(self, name), 0)
        for name in given.keys() & {"log_every", "decay_steps"}:
            whole(name, given[name])
        for name in given.keys() & {"lr", "grad_clip"}:
            real(name, given[name], above=0)
        object.__setattr__(self, "seed", whole("seed", self.seed, 0))
        real("min_lr_ratio", self.min_lr_ratio, 0, 1)
        flag("compile", self.compile), flag("carry_state", self.carry_state)
        if not isinstance(self.betas, tuple | None):
            raise TypeError(f"betas must be a tuple of two, got {self.betas!r}")
        for beta in self.betas or ():
            real("each of the betas", beta, 0, below=1)
        one_of("precision", self.precision, ("auto", "off", "bf16"))
        one_of("optimizer", kind if by_name else "adamw", OPTIMIZERS)
        one_of("schedule", self.schedule if named_schedule else "constant", SCHEDULES)
        decays = self.schedule in ("linear", "cosine")
        for bad, message in (
            (not (by_name or fixed or callable(self.optimizer)), f"{kind} is no optimizer"),
            (not (named_schedule or callable(self.schedule)), "a schedule is a name or function"),
            (not fixed and self.lr is None, "lr must be given: try lr=1e-3"),
            (fixed and self.lr is not None, f"lr must be left out: {kind} brings its own"),
            (fixed and self.weight_decay, f"weight_decay must be left out: {kind} brings its own"),
            (self.betas and kind not in ("adamw", "adam"), f"betas do not belong to {kind}"),
            (self.betas and len(self.betas) != 2, "betas must be two"),
            (self.momentum and kind != "sgd", f"momentum does not belong to {kind}"),
            (not named_schedule and self.warmup_steps, "warmup_steps belong to a named schedule"),
            (self.min_lr_ratio and not decays, "min_lr_ratio belongs to linear and cosine"),
            (self.decay_steps and not decays, "decay_steps belong to linear and cosine"),
        ):  # fmt: skip
            if bad:
                raise ValueError(f"{message}, in {self}")
        self.factor(0)  # raises for impossible warmup_steps or min_lr_ratio

    def factor(self, step: int) -> float:
        """What the learning rate is multiplied by at `step`, counted from 0."""
        if not isinstance(self.schedule, str):
            return real(f"the schedule's factor at step {step}", self.schedule(step), at_least=0)
        floor = {} if self.schedule == "constant" else {"min_lr_ratio": self.min_lr_ratio}
        length = self.decay_steps or self.n_steps
        return SCHEDULES[self.schedule](step, length, warmup_steps=self.warmup_steps, **floor)

    @checked
    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimizer of the model's trainable parameters, decay on those with ≥ 2 axes only.

        Raises ValueError for an optimizer of other parameters than the model's.
        """
        trainable = [p for p in model.parameters() if p.requires_grad]
        if isinstance(self.optimizer, torch.optim.Optimizer):
            held = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
            if not held <= set(map(id, trainable)):
                raise ValueError("the optimizer holds parameters that are not the model's to train")
            return self.optimizer
        matrices = [p for p in trainable if p.ndim >= 2]
        vectors = [p for p in trainable if p.ndim < 2]
        decays = ((matrices, self.weight_decay), (vectors, 0.0))
        groups = [{"params": p, "lr": self.lr, "weight_decay": decay} for p, decay in decays if p]
        if not isinstance(self.optimizer, str):
            return self.optimizer(groups)
        options = {"fused": True} if trainable[0].is_cuda else {}  # one kernel for all parameters
        if self.optimizer == "sgd":
            options["momentum"] = self.momentum
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

    def to_dict(self) -> dict[str, object]:
        """The settings as numbers and strings that say the same in every process."""
        return {f.name: to_jsonable(getattr(self, f.name)) for f in fields(self)}


def to_jsonable(value: object) -> object:
    """A setting as a number or a string that says the same in every process.

    A function becomes its full name, an optimizer its groups' settings, anything else its repr.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.optim.Optimizer):
        groups = [{k: v for k, v in g.items() if k != "params"} for g in value.param_groups]
        return f"{type(value).__qualname__} {groups}"
    if isinstance(value, functools.partial):
        named = {name: to_jsonable(x) for name, x in value.keywords.items()}
        arguments = [*map(to_jsonable, value.args), named]
        return f"partial of {to_jsonable(value.func)} {arguments}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    if type(value).__repr__ is object.__repr__:  # which would tell its place in memory
        parts = {name: to_jsonable(x) for name, x in getattr(value, "__dict__", {}).items()}
        return f"{type(value).__qualname__} {parts}"
    return repr(value)


@dataclass
class History:
    """What happened, as lists: one entry for each step, or each validation."""

    step: list[int] = field(default_factory=list)  # steps done: 1, 2, …
    train_loss: list[float] = field(default_factory=list)  # nats, before the step
    lr: list[float] = field(default_factory=list)  # of the first parameter group
    grad_norm: list[float] = field(default_factory=list)  # of all gradients, before clipping
    seconds: list[float] = field(default_factory=list)  # since the start, validation included
    valid_step: list[int] = field(default_factory=list)
    valid_loss: list[float] = field(default_factory=list)  # nats

    def add(self, **entries: float) -> None:
        """Append each entry to its list."""
        for name, value in entries.items():
            getattr(self, name).append(value)

    def check_finite(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            raise DivergedError(what, value, self)


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """The history, the best validation loss (nats, None without any) and how the fit ended."""

    history: History = field(repr=False)
    n_steps: int  # that were to be made
    best_step: int | None
    best_loss: float | None
    dtype: str  # of matrix products; cuDNN's recurrences keep the model's

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the fit before its last step."""
        return len(self.history.step) < self.n_steps

    @property
    def note(self) -> str:
        """In words: which parameters the model holds, and whether the fit was interrupted."""
        last, best = len(self.history.step), self.best_step
        ended = f"interrupted after step {last} of {self.n_steps}; " if self.interrupted else ""
        held = last if best is None else f"{best}, the best on validation"
        return f"{ended}the model holds the parameters of step {held}"


class DivergedError(FloatingPointError):
    """A loss or a gradient is not finite; `history` (a History) holds the steps before it."""

    def __init__(self, what: str, value: float, history: History) -> None:
        last = "there was no finite loss before"
        if history.step:
            last = f"last finite loss: {history.train_loss[-1]:.6g} at step {history.step[-1]}"
        super().__init__(f"{what} is {value} ({last})")
        self.history = history
