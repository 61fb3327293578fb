"""The check of neighbours: are they nearer than in the same text without its order?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from unrolled.validate import real, whole

from unrolled_book.behaviour.arrays import BehaviourError, array


def check_neighbours(
    build: Callable[[np.ndarray], Any],
    tokens: Any,
    words: Any,
    *,
    n_shuffles: int = 3,
    seed: int = 0,
    share: float = 0.5,
    names: Sequence[str] | None = None,
) -> None:
    """Check that most words' nearest neighbours are nearer than chance would put them.

    Chance is the same text with its tokens shuffled: every word is as frequent as before, and no
    word keeps company with another. For each word the cosine to its nearest neighbour must be
    larger than in all shuffled texts, for more than `share` of the words. A word whose vector is
    empty, in the text or in a shuffled one, has nothing to compare and does not pass.

    Vectors that ignore the text pass for a word with probability 1 / (n_shuffles + 1); fewer than
    three shuffles would let half of the words pass by luck.

    build: one text of tokens (n,) to the words' vectors (V, D); the check calls it n_shuffles + 1
           times. n_shuffles: at least 3.
    tokens: (n,) integers. words: (m,) ids of the words to check, rows of the vectors.
    names: the words themselves, for the message.

    Raises BehaviourError with the number of words that pass and the one that fails by most;
    ValueError or TypeError for arguments that the check cannot use.
    """
    text, asked = array(tokens), array(words)
    for name, ids, least in (("tokens", text, 2), ("words", asked, 1)):
        if ids.dtype.kind not in "iu":
            raise TypeError(f"{name} needs integers, got {ids.dtype}")
        if ids.ndim != 1 or len(ids) < least:
            raise ValueError(f"{name} needs at least {least} ids in one axis, got {ids.shape}")
    n_shuffles, share = whole("n_shuffles", n_shuffles, 3), real("share", share, 0, below=1)
    rng = np.random.default_rng(seed)
    found, who, filled = _nearest(build(text), asked)
    shuffled = [_nearest(build(rng.permutation(text)), asked) for _ in range(n_shuffles)]
    chance = np.max([cosines for cosines, _, _ in shuffled], axis=0)
    comparable = filled & np.all([full for _, _, full in shuffled], axis=0)
    nearer = (found > chance) & comparable
    if nearer.mean() > share:
        return
    summary = (
        f"only {nearer.sum()} of {len(asked)} words have a nearer neighbour than when shuffled"
    )
    if not comparable.all():
        summary += f"; {(~comparable).sum()} have an empty vector in one of the two"
    if comparable.any():
        worst = int(np.where(comparable, found - chance, np.inf).argmin())
        word, other = (
            f"word {i}" if names is None else f"“{names[i]}”" for i in (asked[worst], who[worst])
        )
        summary += (
            f". In the text, {word} is nearest to {other}, with a cosine of {found[worst]:.2f}; "
            f"in a text shuffled at random its nearest word has {chance[worst]:.2f}"
        )
    raise BehaviourError(f"{summary}. These cosines do not come from the words' order")


def _nearest(vectors: Any, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For some rows: the cosine to the nearest other row, which row that is, and who is not empty.

    Empty is a row shorter than 1e-9 of the longest: it holds zeros, or what rounding left of them.
    """
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
    filled = length > 1e-9 * length.max()
    values = np.where(filled, values, 0) / np.where(filled, length, 1)
    cosines = values[words] @ values.T
    cosines[np.arange(len(words)), words] = -np.inf
    return cosines.max(axis=1), cosines.argmax(axis=1), filled[words, 0]
