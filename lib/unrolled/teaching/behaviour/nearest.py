"""The check of neighbours: are they nearer than in the same text without its order?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unrolled.teaching.behaviour.arrays import BehaviourError, array
from unrolled.validate import real, whole


def check_neighbours(
    build: Callable[[np.ndarray], Any],
    tokens: Any,
    words: Any,
    *,
    n_shuffles: int = 3,
    seed: int = 0,
    share: float = 0.5,
) -> None:
    """Check that most words' nearest neighbours are nearer than chance would put them.

    Chance is the same text with its tokens shuffled: every word is as frequent as before, and no
    word keeps company with another. For each word the cosine to its nearest neighbour must be
    larger than in all shuffled texts, for more than `share` of the words.

    build: one text of tokens (n,) to the words' vectors (V, D); the check calls it n_shuffles + 1
           times.
    tokens: (n,) integers. words: (m,) ids of the words to check, rows of the vectors.

    Raises BehaviourError with the number of words that pass and the one that fails by most;
    ValueError or TypeError for arguments that the check cannot use.
    """
    text, asked = array(tokens), array(words)
    for name, ids, least in (("tokens", text, 2), ("words", asked, 1)):
        if ids.dtype.kind not in "iu":
            raise TypeError(f"{name} needs integers, got {ids.dtype}")
        if ids.ndim != 1 or len(ids) < least:
            raise ValueError(f"{name} needs at least {least} ids in one axis, got {ids.shape}")
    n_shuffles, share = whole("n_shuffles", n_shuffles), real("share", share, 0, below=1)
    rng = np.random.default_rng(seed)
    found, who = _nearest(build(text), asked)
    chance = np.stack(
        [_nearest(build(rng.permutation(text)), asked)[0] for _ in range(n_shuffles)]
    ).max(axis=0)
    nearer = found > chance
    if nearer.mean() > share:
        return
    worst = int((found - chance).argmin())
    raise BehaviourError(
        f"only {nearer.sum()} of {len(asked)} words have a nearer neighbour than in the shuffled "
        f"text: word {asked[worst]} has word {who[worst]} at a cosine of {found[worst]:.2f}, and "
        f"shuffled one at {chance[worst]:.2f}. These cosines do not come from the words' order"
    )


def _nearest(vectors: Any, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cosine to the nearest other row, for each of some rows, and which row that is."""
    values = array(vectors).astype(np.float64)
    if values.ndim != 2 or len(values) < 2:
        raise ValueError(f"build must give vectors (V, D) with V ≥ 2, got {values.shape}")
    if words.min() < 0 or words.max() >= len(values):
        raise ValueError(
            f"words must lie in 0 … {len(values) - 1}, got {words.min()}, {words.max()}"
        )
    if not np.isfinite(values).all():
        raise BehaviourError("the vectors hold NaN or infinity")
    length = np.linalg.norm(values, axis=1, keepdims=True)
    values = values / np.where(length > 0, length, 1)
    cosines = values[words] @ values.T
    cosines[np.arange(len(words)), words] = -np.inf
    return cosines.max(axis=1), cosines.argmax(axis=1)
