"""The check of a mixture of experts: whether the router uses all that there are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from unrolled.validate import real, whole

from unrolled_book.behaviour.arrays import BehaviourError, array


def check_experts(experts: Any, n_experts: int, *, share: float = 0.1) -> None:
    """Check that each of E experts gets at least `share` of what an even router gives it.

    An even router gives each 1/E of the N·k choices. The loss of a model does not tell: it also
    falls while a few experts do the work of all, and the others' weights stay as they began.
    Experts that starve are looked for, not one that is too busy while the others get their share.

    experts: integers (N, k), the k different experts of each of N tokens; those of one layer, since
             two layers that lean to opposite sides look even together. There must be enough choices
             for an even router to pass: N·k·share/E ≥ 3.
    n_experts: E, at least 2. share: above 0, at most 1.

    Raises BehaviourError with the expert that is chosen least, how many are below the share, and
    how many experts the load amounts to (e to the power of its entropy); ValueError or TypeError
    for choices that cannot be.
    """
    chosen, n = array(experts), whole("n_experts", n_experts, 2)
    real("share", share, above=0, at_most=1)
    if chosen.dtype.kind not in "iu":
        raise TypeError(f"experts needs integers, got {chosen.dtype}")
    if chosen.ndim != 2 or not chosen.size:
        raise ValueError(f"experts needs shape (N, k), none of them 0, got {chosen.shape}")
    if chosen.min() < 0 or chosen.max() >= n:
        raise ValueError(f"experts lie in {chosen.min()} … {chosen.max()}, and there are {n}")
    if (np.diff(np.sort(chosen, axis=1), axis=1) == 0).any():
        raise ValueError("a token takes one expert twice; its k choices must differ")
    if chosen.size * share / n < 3:
        needed = math.ceil(3 * n / share)
        raise ValueError(f"{chosen.size} choices are too few to judge {n} experts: take {needed}")
    load = np.bincount(chosen.ravel(), minlength=n) / chosen.size
    low = load < share / n
    if low.any():
        least, used = int(load.argmin()), load[load > 0]
        worth = math.exp(-(used * np.log(used)).sum())
        raise BehaviourError(
            f"expert {least} gets {100 * load[least]:.2g} % of the choices, an even router gives "
            f"each {100 / n:.3g} %: {low.sum()} of {n} experts get less than {share:.2g} of that, "
            f"and the load is worth {worth:.2g} experts. Is the balance loss missing, or does no "
            "gradient flow through it?"
        )
