"""A check of how data are dealt to training and test."""

from __future__ import annotations

from typing import Any

import numpy as np
from unrolled.validate import real, whole

from unrolled_book.behaviour.probe import BehaviourError, array


def check_split(items: Any, fold: Any, *, near: int = 100, excess: float = 0.1) -> None:
    """Check that no item is tested beside its neighbours of the file, where these look alike.

    For each item we take the most similar one of the other folds (by Euclidean distance), and ask
    whether it stands within `near` positions of it in the file. By chance, a random item of the
    other folds stands there. Where one writer, patient or page fills a stretch of the file and a
    split takes the stretch apart, the similar one stands near far more often than chance has it:
    what is trained on then tells too much of what is tested.

    The order of the file is the check's only witness. A file that was shuffled passes, whoever
    stands on both sides; where names are known, split by names.

    items: floats (N, …), N ≥ 2, in the order of the file. fold: integers (N,), at least two folds.
    near: at least 1. excess: by how much the share may exceed chance, from 0 on and below 1.

    Raises BehaviourError with both shares; ValueError or TypeError for arguments that cannot be.
    """
    rows, parts = array(items), array(fold)
    near, excess = whole("near", near, 1), real("excess", excess, 0, below=1)
    if rows.dtype.kind != "f" or parts.dtype.kind not in "iu":
        raise TypeError(f"expected float items and integer folds, got {rows.dtype} and "
                        f"{parts.dtype}")  # fmt: skip
    if rows.ndim < 2 or parts.shape != rows.shape[:1]:
        raise ValueError(f"items need shape (N, …) and fold (N,), got {rows.shape} and "
                         f"{parts.shape}")  # fmt: skip
    if len(np.unique(parts)) < 2:
        raise ValueError(f"a split has at least two folds, got {len(np.unique(parts))}")
    rows = rows.reshape(len(rows), -1).astype(np.float64)
    if not np.isfinite(rows).all():
        raise ValueError("items hold NaN or infinity: they cannot be compared")
    where, found, chance = np.arange(len(rows)), [], []
    for k in np.unique(parts):
        inside, outside = where[parts == k], where[parts != k]
        a, b = rows[inside], rows[outside]
        squares = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
        close = np.abs(inside[:, None] - outside) <= near
        found.append(close[np.arange(len(inside)), squares.argmin(1)])
        chance.append(close.mean(1))
    share, expected = (float(np.concatenate(each).mean()) for each in (found, chance))
    if share > expected + excess:
        raise BehaviourError(
            f"for {100 * share:.0f} % of the items the most similar one of the other folds stands "
            f"within {near} positions in the file, by chance {100 * expected:.0f} %: neighbours "
            "look alike and stand on both sides. Deal out whole writers, patients or pages"
        )
