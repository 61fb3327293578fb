"""Learning-rate schedules: what the rate is multiplied by at each update.

Every schedule is a pure function (step, n_steps, *, warmup, …) → factor in 0 … 1. Updates are
counted from 0. The warm-up rises in a straight line, 1/warmup, 2/warmup, …, 1, so that no update
is wasted on a factor of 0; the factor 1 stands at update warmup − 1 (at 0 without a warm-up), and
the last update, n_steps − 1, has the final factor.
"""

from __future__ import annotations

import math


def constant(step: int, n_steps: int, *, warmup: int = 0) -> float:
    """min(1, (step + 1) / warmup): a warm-up over `warmup` updates, then 1.

    Raises ValueError unless 0 ≤ step < n_steps and 0 ≤ warmup ≤ n_steps.
    """
    _check(step, n_steps, warmup, 0.0)
    return min(1.0, (step + 1) / warmup) if warmup else 1.0


def linear(step: int, n_steps: int, *, warmup: int = 0, final: float = 0.0) -> float:
    """1 − (1 − final)·p, where p runs from 0 at the end of the warm-up to 1 at the last update.

    Raises ValueError as `constant` does, and unless 0 ≤ final ≤ 1.
    """
    _check(step, n_steps, warmup, final)
    if step < warmup:
        return constant(step, n_steps, warmup=warmup)
    return 1.0 - (1.0 - final) * _progress(step, n_steps, warmup)


def cosine(step: int, n_steps: int, *, warmup: int = 0, final: float = 0.0) -> float:
    """final + (1 − final)·(1 + cos πp) / 2, with p as in `linear`.

    Raises ValueError as `linear` does. Source: Loshchilov & Hutter (2017), "SGDR", equation 5,
    without restarts and with a warm-up before it.
    """
    _check(step, n_steps, warmup, final)
    if step < warmup:
        return constant(step, n_steps, warmup=warmup)
    wave = (1.0 + math.cos(math.pi * _progress(step, n_steps, warmup))) / 2
    return final + (1.0 - final) * wave


SCHEDULES = {"constant": constant, "linear": linear, "cosine": cosine}


def _progress(step: int, n_steps: int, warmup: int) -> float:
    """How much of the way from the peak to the last update is behind, 0 … 1."""
    peak = max(warmup - 1, 0)
    return (step - peak) / max(n_steps - 1 - peak, 1)


def _check(step: int, n_steps: int, warmup: int, final: float) -> None:
    if not 0 <= step < n_steps:
        raise ValueError(f"step must lie in 0 … n_steps − 1 = {n_steps - 1}, got {step}")
    if not 0 <= warmup <= n_steps:
        raise ValueError(f"warmup must lie in 0 … n_steps = {n_steps}, got {warmup}")
    if not 0 <= final <= 1:
        raise ValueError(f"final must lie in 0 … 1, got {final}")
