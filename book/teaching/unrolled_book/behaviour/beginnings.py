"""The check of a beginning: before training, a model should know nothing, and know that."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unrolled_book.behaviour.arrays import BehaviourError, array


def check_initial_loss(logits: Any, targets: Any, *, tolerance: float = 0.1) -> None:
    """Check that an untrained model's mean loss is ln V nats, what an even guess among V costs.

    The mean loss may differ from ln V by `tolerance` · ln V, and by three of its standard errors
    more (at most the same again), because a few targets may happen to be the likely ones. Above
    that, the model is sure before it has seen anything, and the first steps of training only undo
    that. Below it, the model knows targets that it cannot know yet.

    logits: floats (…, V), V ≥ 2, of a model as it starts: scores or log-probabilities. −∞ (a masked
    answer) may stand where no target is.
    targets: integers (…), the right answers, at least one, in 0 … V − 1.
    tolerance: at least 0.

    Raises BehaviourError with both losses and a guess at the mistake; ValueError or TypeError for
    shapes, types and targets that cannot be.
    """
    scores, right = array(logits), array(targets)
    if scores.dtype.kind != "f" or right.dtype.kind not in "iu":
        raise TypeError(f"expected float logits and integer targets, got {scores.dtype} and "
                        f"{right.dtype}")  # fmt: skip
    if scores.ndim < 1 or scores.shape[:-1] != right.shape or right.size == 0:
        raise ValueError(f"logits need shape (…, V) and targets (…), got {scores.shape} and "
                         f"{right.shape}")  # fmt: skip
    n = scores.shape[-1]
    if n < 2 or right.min() < 0 or right.max() >= n:
        raise ValueError(f"targets lie in {right.min()} … {right.max()}, and there are {n} logits")
    if not 0 <= tolerance < math.inf:
        raise ValueError(f"tolerance must be at least 0 and finite, got {tolerance}")
    scores = scores.astype(np.float64).reshape(-1, n)
    chosen = scores[np.arange(len(scores)), right.ravel()]
    if not np.isfinite(chosen).all() or np.isnan(scores).any() or np.isposinf(scores).any():
        raise BehaviourError("the logits hold NaN or an infinite number before the first step")
    shifted = scores - scores.max(axis=1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    losses = -log_probs[np.arange(len(scores)), right.ravel()]
    loss, even = losses.mean(), math.log(n)
    slack = tolerance * even
    chance = 3 * losses.std(ddof=1) / math.sqrt(len(losses)) if len(losses) > 1 else 0.0
    if abs(loss - even) <= slack + min(chance, slack):
        return
    found = f"the loss before training is {loss:.3g} nats, an even guess costs ln {n} = {even:.3g}"
    if loss < even:
        raise BehaviourError(f"{found}. Does the model see its targets, or is it trained?")
    spread = np.mean([row[np.isfinite(row)].std() for row in scores])
    raise BehaviourError(
        f"{found}. The logits of an example spread by {spread:.3g}: are the weights into them "
        "too large?"
    )
