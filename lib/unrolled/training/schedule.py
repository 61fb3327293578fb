"""Learning-rate schedules: what the rate is multiplied by at each step. Chapter 8 compares them.

Every schedule is a pure function (step, n_steps, *, warmup_steps, …) → factor in 0 … 1. Steps are
counted from 0. The warm-up rises in a straight line, 1/warmup_steps, 2/warmup_steps, …, 1, so that
no step is wasted on a factor of 0; the factor 1 is reached at step warmup_steps − 1 (at 0 without a
warm-up), the smallest one, min_lr_ratio, at step n_steps − 1. Every later step keeps it.
"""

from __future__ import annotations

import math

from unrolled.validate import checked, real, whole


def constant(step: int, n_steps: int, *, warmup_steps: int = 0) -> float:
    """min(1, (step + 1) / warmup_steps): a warm-up, then 1.

    Raises ValueError unless step ≥ 0 and 0 ≤ warmup_steps ≤ n_steps, TypeError for no integers.
    """
    _check(step, n_steps, warmup_steps)
    return min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0


@checked
def linear(step: int, n_steps: int, *, warmup_steps: int = 0, min_lr_ratio: float = 0.0) -> float:
    """1 − (1 − min_lr_ratio)·p, p from 0 at the warm-up's end to 1 at step n_steps − 1.

    Raises as `constant` does, and ValueError unless 0 ≤ min_lr_ratio ≤ 1.
    """
    real("min_lr_ratio", min_lr_ratio, 0, 1)
    if step < warmup_steps:
        return constant(step, n_steps, warmup_steps=warmup_steps)
    return 1.0 - (1.0 - min_lr_ratio) * _progress(step, n_steps, warmup_steps)


@checked
def cosine(step: int, n_steps: int, *, warmup_steps: int = 0, min_lr_ratio: float = 0.0) -> float:
    """min_lr_ratio + (1 − min_lr_ratio)·(1 + cos πp) / 2, with p as in `linear`.

    Raises as `linear` does. Source: Loshchilov & Hutter (2017), "SGDR", equation 5, without
    restarts and with a warm-up before it.
    """
    real("min_lr_ratio", min_lr_ratio, 0, 1)
    if step < warmup_steps:
        return constant(step, n_steps, warmup_steps=warmup_steps)
    wave = (1.0 + math.cos(math.pi * _progress(step, n_steps, warmup_steps))) / 2
    return min_lr_ratio + (1.0 - min_lr_ratio) * wave


SCHEDULES = {"constant": constant, "linear": linear, "cosine": cosine}


def _progress(step: int, n_steps: int, warmup_steps: int) -> float:
    """How far the step is from the peak to the end of the cycle, 0 … 1."""
    _check(step, n_steps, warmup_steps)
    peak = max(warmup_steps - 1, 0)
    return min((step - peak) / max(n_steps - 1 - peak, 1), 1.0)


def _check(step: int, n_steps: int, warmup_steps: int) -> None:
    whole("step", step, 0)
    whole("warmup_steps", warmup_steps, 0, whole("n_steps", n_steps))
