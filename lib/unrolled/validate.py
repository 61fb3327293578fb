"""Checks of arguments for all floors: each gives the value back or says what was expected."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Collection


def whole(name: str, value: object, at_least: int | None = 1, at_most: int | None = None) -> int:
    """The value as an int; TypeError for what is no integer, ValueError outside the bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    return int(_within(name, value, {"at least": at_least, "at most": at_most}))


def real(
    name: str,
    value: object,
    at_least: float | None = None,
    at_most: float | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """The value as a float; TypeError for what is no number, ValueError for NaN, an infinity, and
    outside the bounds, of which `above` and `below` exclude the bound itself.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}")
    bounds = {"at least": at_least, "at most": at_most, "above": above, "below": below}
    return float(_within(name, value, bounds))


def one_of(name: str, value: object, options: Collection[object]) -> object:
    """The value; ValueError with the options when it is none of them."""
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(str, options))}, got {value!r}")
    return value


def _within(name: str, value, bounds: dict[str, float | None]):
    asked = {words: bound for words, bound in bounds.items() if bound is not None}
    if not all(_HOLDS[words](value, bound) for words, bound in asked.items()):
        listed = " and ".join(f"{words} {bound}" for words, bound in asked.items())
        raise ValueError(f"{name} must be {listed}, got {value!r}")
    return value


_HOLDS = {
    "at least": operator.ge,
    "at most": operator.le,
    "above": operator.gt,
    "below": operator.lt,
}
