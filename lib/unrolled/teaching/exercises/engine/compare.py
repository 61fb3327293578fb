"""The difference between an answer and the expected one, said in one telling sentence."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np

from unrolled.teaching.exercises.engine.wire import Unknown, is_tensor

_NUMBER = r"(\d+(\.\d*)?|\.\d+)"
_FRACTION = re.compile(rf"\s*[-+]?{_NUMBER}\s*(/\s*{_NUMBER}\s*)?")
_LONGEST = 99  # characters of a number that somebody has typed


def describe(value: Any) -> str:
    """What kind of thing value is: 'an array of shape (2, 3)', 'a list of 4', 'the number 0.5'."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if is_tensor(value):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, (int, float, Fraction, np.number)):
        return f"the number {_short(value)}"
    if isinstance(value, str):
        return f"the string {value[:40]!r}" + ("…" if len(value) > 40 else "")
    if isinstance(value, (list, tuple, set, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, Unknown):
        return f"a thing of type {value.type_name}"
    return f"a thing of type {type(value).__name__}"


def difference(
    got: Any, expected: Any, tolerance: float = 1e-9, *, reveal: bool = True, at: str = ""
) -> str | None:
    """How got differs from expected, or None where it does not.

    Numbers x agree with e when |x − e| <= tolerance · (1 + |e|). Python's and numpy's numbers,
    Fractions and strings such as "4/11" are all numbers; lists and tuples are alike; arrays,
    tensors and lists are not. reveal=False keeps the expected value out of the sentence; `at` is
    the path to this part of a larger answer.
    """
    if is_tensor(expected) and is_tensor(got):
        got, expected = got.detach().numpy(), expected.detach().numpy()
    if isinstance(expected, np.ndarray):
        return _array_difference(got, expected, tolerance, reveal, at)
    if isinstance(expected, (list, tuple)):
        return _sequence_difference(got, expected, tolerance, reveal, at)
    if isinstance(expected, dict):
        return _dict_difference(got, expected, tolerance, reveal, at)
    if isinstance(expected, (int, float, Fraction)) and not isinstance(expected, bool):
        return _number_difference(got, expected, tolerance, reveal, at)
    if type(got) is type(expected) and got == expected:
        return None
    wanted = describe(expected) if reveal else _kind(expected)
    return f"{_where(at)}got {describe(got)}, expected {wanted}"


def _array_difference(got: Any, expected: np.ndarray, tol: float, reveal: bool, at: str):
    if not isinstance(got, np.ndarray):
        if expected.ndim == 0 and isinstance(got, (int, float)):
            return _number_difference(got, expected.item(), tol, reveal, at)
        return f"{_where(at)}got {describe(got)}, expected {describe(expected)}"
    if got.shape != expected.shape:
        return f"{_where(at)}the shape is {got.shape}, expected {expected.shape}"
    if (got.dtype.kind == "U") != (expected.dtype.kind == "U"):
        return f"{_where(at)}the entries are {got.dtype}, expected {expected.dtype}"
    if got.dtype.kind not in "biufc" or expected.dtype.kind not in "biufc":
        wrong = got != expected
        gap = wrong.astype(float)
    else:
        if expected.dtype.kind in "iub" and got.dtype.kind in "fc":
            return f"{_where(at)}the numbers are {got.dtype}, expected whole ones (integers)"
        with np.errstate(all="ignore"):
            wrong = ~np.isclose(got, expected, rtol=tol, atol=tol, equal_nan=True)
            gap = np.abs(got.astype(complex) - expected.astype(complex))
    if not wrong.any():
        return None
    complaint = _worst(got, expected, wrong, gap, reveal, at)
    if expected.dtype == np.float64 and got.dtype in (np.float16, np.float32):
        complaint += f" (your numbers are {got.dtype}, expected float64)"
    return complaint


def _worst(got, expected, wrong, gap, reveal: bool, at: str) -> str:
    broken = wrong & ~np.isfinite(got) if got.dtype.kind in "fc" else np.zeros_like(wrong)
    if broken.any():
        index = tuple(int(i) for i in np.argwhere(broken)[0])
        says = "is not finite"
    else:
        gap = np.where(wrong, np.nan_to_num(gap, nan=np.inf), -1.0)
        index = tuple(int(i) for i in np.unravel_index(gap.argmax(), gap.shape))
        says = "differs most"
    place = index[0] if len(index) == 1 else index
    return f"{_where(at)}{says} at {place}: {_pair(got[index], expected[index], reveal)}"


def _sequence_difference(got: Any, expected: list | tuple, tol: float, reveal: bool, at: str):
    if isinstance(got, np.ndarray) and got.ndim:
        got = list(got) if got.ndim > 1 else got.tolist()
    if not isinstance(got, (list, tuple)):
        return f"{_where(at)}got {describe(got)}, expected {describe(expected)}"
    if len(got) != len(expected):
        return f"{_where(at)}has {len(got)} parts, expected {len(expected)}"
    parts = enumerate(zip(got, expected, strict=True))
    return _first(difference(g, e, tol, reveal=reveal, at=f"{at}[{i}]") for i, (g, e) in parts)


def _dict_difference(got: Any, expected: dict, tol: float, reveal: bool, at: str):
    if not isinstance(got, dict):
        return f"{_where(at)}got {describe(got)}, expected a dict"
    missing = [f"the key {key!r} is missing" for key in expected if key not in got]
    extra = [f"the key {key!r} does not belong" for key in got if key not in expected]
    if missing or extra:
        return _where(at) + "; ".join(missing[:1] + extra[:1])
    parts = expected.items()
    return _first(difference(got[k], e, tol, reveal=reveal, at=f"{at}[{k!r}]") for k, e in parts)


def _number_difference(got: Any, expected: float | Fraction, tol: float, reveal: bool, at: str):
    number = _as_number(got)
    if number is None:
        wanted = describe(expected) if reveal else "a number"
        return f"{_where(at)}got {describe(got)}, expected {wanted}"
    size = _as_float(number)
    if np.isclose(size, float(expected), rtol=tol, atol=tol, equal_nan=True):
        return None
    if isinstance(number, float) and not np.isfinite(size):
        return f"{_where(at)}is not finite: {_pair(number, expected, reveal)}"
    return f"{_where(at)}{_pair(number, expected, reveal)}"


def _as_number(value: Any) -> float | Fraction | None:
    if isinstance(value, str):
        return _typed_number(value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if is_tensor(value) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        return None
    return value


def _typed_number(text: str) -> Fraction | None:
    text = text.replace("−", "-")
    if len(text) > _LONGEST or not _FRACTION.fullmatch(text):
        return None
    above, _, below = text.partition("/")
    below = Fraction(below.strip() or 1)
    return Fraction(above.strip()) / below if below else None


def _as_float(number: float | Fraction) -> float:
    try:
        return float(number)
    except OverflowError:  # a whole number or a fraction beyond 1.8e308
        return np.inf if number > 0 else -np.inf


def _pair(got: Any, expected: Any, reveal: bool) -> str:
    if not reveal:
        return f"{_short(got)} is not right"
    for digits in (4, 8, 17):
        texts = _short(got, digits), _short(expected, digits)
        if texts[0] != texts[1]:
            break
    return f"got {texts[0]}, expected {texts[1]}"


def _short(value: Any, digits: int = 4) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    text = f"{value:.{digits}g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:20]}… ({len(text)} characters)"


def _kind(value: Any) -> str:
    return {bool: "True or False", str: "another string"}.get(type(value), "something else")


def _where(at: str) -> str:
    return f"at {at}: " if at else ""


def _first(complaints: Any) -> str | None:
    return next((c for c in complaints if c), None)
