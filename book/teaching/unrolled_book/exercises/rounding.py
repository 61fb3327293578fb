"""Whether a float is nothing but rounding: what is left where larger numbers have cancelled.

A processor adds in an order of its own, so the last of a float's sixteen digits are its own as
well. Of a number that is 1e-9 times as large as those it was computed from, six digits are left;
of a smaller one fewer than are written, and at last none. What is exactly 0 here cannot be told
from what is 0 everywhere: `make test-processors` compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from unrolled_book.exercises.engine.wire import is_tensor

ROUNDING = 1e-9  # of the largest number beside it


def rounding(value: Any, args: tuple = ()) -> float | None:
    """A float in value that larger numbers have left by cancelling, or None.

    It is smaller than ROUNDING times the largest number of its array, or the largest of each
    argument: a single number may be counted in a unit of its own.
    """
    largest = [max(map(abs, _numbers(arg)), default=0.0) for arg in args]
    least = min((size for size in largest if size), default=0.0)
    for together in _collections(value):
        scale = max(least, *map(abs, together))
        found = [x for x in together if 0 < abs(x) < ROUNDING * scale]
        if found:
            return min(found, key=abs)
    return None


def _collections(value: Any) -> Iterator[list[float]]:
    """The numbers of each array, of each list of numbers, and of each number that stands alone."""
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, (dict, tuple)) or (isinstance(value, list) and not _is_array(value)):
        for part in parts:
            yield from _collections(part)
    elif numbers := [*_numbers(value)]:
        yield numbers


def _is_array(value: list) -> bool:
    return all(isinstance(v, (int, float)) or (isinstance(v, list) and _is_array(v)) for v in value)


def _numbers(value: Any) -> Iterator[float]:
    """All finite numbers in value."""
    if is_tensor(value):
        value = value.detach().cpu().double().numpy()
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist() if value.dtype.kind in "iuf" else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, (int, float)) and np.isfinite(value):
        yield float(value)
