"""The difference between an answer and the expected one, said in one telling sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, isclose, isfinite, log10
from typing import Any

import numpy as np

from .wire import Unknown, is_tensor

_NUMBER = r"(\d+(\.\d*)?|\.\d+)(e[-+]?\d{1,2})?"
_FRACTION = re.compile(rf"\s*[-+]?{_NUMBER}\s*(/\s*{_NUMBER}\s*)?")
_LONGEST = 99  # characters of a number that somebody has typed
_SMALL = 12  # entries of an array that is printed whole
_WIDTH = 74  # columns of a line that is printed
_NOUGHT = 1e-9  # what is smaller is said to be 0, if the comparison cannot tell it from 0 either
_COARSE = {"float16": 1e-2, "float32": 1e-5}  # how near a result is that was right but for these


def quoted(text: str, longest: int = 120) -> str:
    """What somebody else says, in one line and so that nobody takes it for one's own words."""
    shown = "".join(c if c.isprintable() else " " for c in text[: longest + 1])
    shown = shown.translate({ord("“"): '"', ord("”"): '"', ord("`"): "'"})
    return f"“{shown[:longest]}{'…' * (len(text) > longest)}”"


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
        return f"a thing of type {quoted(str(value.type_name), 60)}"
    return f"a thing of type {quoted(type(value).__name__, 60)}"


def difference(
    got: Any,
    expected: Any,
    tolerance: float = 1e-9,
    *,
    by_hand: bool = False,
    rounded: bool = False,
    reveal: bool = True,
    at: str = "",
) -> str | None:
    """How got differs from expected, or None where it does not.

    Numbers x agree with e when |x − e| <= tolerance · (1 + |e|). Python's and numpy's numbers and
    Fractions are all numbers; lists and tuples are alike; a tensor, or a list of numbers of the
    right shape, may stand for an array. `at` names the part of a larger answer.

    by_hand: the answer was worked out on paper, so strings such as "4/11" are numbers too, and the
    sentence keeps the expected value to itself. rounded: a number also agrees with e if it is e
    with two or more of its digits (three or more of a whole number's).

    reveal=False: the sentence says nothing of expected but its type, its shape and how many parts
    it has, so that it may be shown to whoever is to hand in another answer.

    After the sentence, small arrays are printed whole, on lines of their own.
    """
    return _Comparison(tolerance, by_hand, rounded, reveal).of(got, expected, at)


def name_key(key: Any) -> str:
    """A key of a dict, in short."""
    shown = repr(key)
    return f"the key {shown if len(shown) <= 60 else quoted(shown, 60)}"


def describe_type(value: Any) -> str:
    """What kind of thing value is, and not which: 'an array of shape (2, 3)', 'a number'."""
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, (int, float, Fraction, np.number)):
        return "a number"
    return "a string" if isinstance(value, str) else describe(value)


@dataclass(frozen=True)
class _Comparison:
    tolerance: float
    by_hand: bool
    rounded: bool
    reveal: bool

    @property
    def _tells(self) -> bool:
        """Whether the sentence may hold expected values."""
        return self.reveal and not self.by_hand

    def _wanted(self, expected: Any) -> str:
        return describe(expected) if self.reveal else describe_type(expected)

    def of(self, got: Any, expected: Any, at: str) -> str | None:
        got, expected = _to_numpy(got), _to_numpy(expected)
        if self.by_hand and isinstance(expected, str):
            number = _typed_number(expected)
            expected = expected if number is None else number
        if isinstance(expected, np.ndarray):
            return self._arrays(got, expected, at)
        if isinstance(expected, (list, tuple)):
            return self._sequences(got, expected, at)
        if isinstance(expected, dict):
            return self._dicts(got, expected, at)
        if isinstance(expected, (int, float, Fraction)) and not isinstance(expected, bool):
            return self._numbers(got, expected, at)
        if type(got) is type(expected) and got == expected:
            return None
        if not self.reveal and type(got) is type(expected):
            return f"{_where(at)}{describe(got)} is not right"
        wanted = _kind(expected) if self.by_hand else self._wanted(expected)
        return f"{_where(at)}got {describe(got)}, expected {wanted}"

    def _arrays(self, got: Any, expected: np.ndarray, at: str) -> str | None:
        if isinstance(got, (list, tuple)):
            got = _array_of_numbers(got)
        if not isinstance(got, np.ndarray):
            if expected.ndim == 0 and isinstance(got, (int, float)):
                return self._numbers(got, expected.item(), at)
            return f"{_where(at)}got {describe(got)}, expected {self._wanted(expected)}"
        if got.shape != expected.shape:
            return f"{_where(at)}the shape is {got.shape}, expected {expected.shape}"
        if (got.dtype.kind == "U") != (expected.dtype.kind == "U"):
            wanted = expected.dtype if self.reveal else _entries(expected)
            return f"{_where(at)}the entries are {got.dtype}, expected {wanted}"
        if got.size and got.dtype.kind != "b" and expected.dtype.kind == "b":
            return f"{_where(at)}the numbers are {got.dtype}, expected True or False"
        if got.size and got.dtype.kind in "fc" and expected.dtype.kind in "iu":
            return f"{_where(at)}the numbers are {got.dtype}, expected whole ones (integers)"
        if expected.dtype.kind == "U":
            wrong = got != expected
            gap = wrong.astype(float)
        else:
            tol = self.tolerance
            with np.errstate(all="ignore"):
                wrong = ~np.isclose(got, expected, rtol=tol, atol=tol, equal_nan=True)
                gap = np.abs(got.astype(complex) - expected.astype(complex))
        if not wrong.any():
            return None
        near = _COARSE.get(got.dtype.name) if expected.dtype == np.float64 else None
        if near and not self.reveal:  # how near it is may not be said
            return f"{_where(at)}the numbers are {got.dtype}; compute in float64"
        if near and np.allclose(got, expected, near, near, equal_nan=True):
            return f"{_where(at)}right to the digits of {got.dtype} only; compute in float64"
        return self._worst(got, expected, wrong, gap, at) + self._both(got, expected)

    def _worst(self, got, expected, wrong, gap, at: str) -> str:
        broken = wrong & ~np.isfinite(got) if got.dtype.kind in "fc" else np.zeros_like(wrong)
        if broken.any():
            index = tuple(int(i) for i in np.argwhere(broken)[0])
            says = "is not finite"
        elif not self.reveal:  # which entry is the worst would tell of the expected ones
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            says = "differs"
        else:
            gap = np.where(wrong, np.nan_to_num(gap, nan=np.inf), -1.0)
            index = tuple(int(i) for i in np.unravel_index(gap.argmax(), gap.shape))
            says = "differs most"
        place = index[0] if len(index) == 1 else index
        return f"{_where(at)}{says} at {place}: {self._pair(got[index], expected[index])}"

    def _both(self, got: np.ndarray, expected: np.ndarray) -> str:
        """Small arrays as lines: one above the other, and matrices side by side."""
        if self.by_hand or not 1 < expected.size <= _SMALL or expected.ndim > 2:
            return ""
        mine, right = (_rows(self._without_rounding(array)) for array in (got, expected))
        if not self.reveal:
            lines = [f"got  {mine[0]}", *(f"     {row}" for row in mine[1:])]
        elif expected.ndim == 1:
            lines = [f"got       {mine[0]}", f"expected  {right[0]}"]
        else:
            width = max(len(mine[0]), len("got"))
            pairs = zip(["got", *mine], ["expected", *right], strict=True)
            lines = [f"{a:<{width}}  {b}" for a, b in pairs]
        if self.reveal and mine == right:  # alike in so many digits
            return ""
        return "".join("\n" + line for line in lines if max(map(len, lines)) <= _WIDTH)

    def _sequences(self, got: Any, expected: list | tuple, at: str) -> str | None:
        if isinstance(got, np.ndarray) and got.ndim:
            got = list(got) if got.ndim > 1 else got.tolist()
        if not isinstance(got, (list, tuple)):
            return f"{_where(at)}got {describe(got)}, expected {self._wanted(expected)}"
        if len(got) != len(expected):
            parts = "part" if len(got) == 1 else "parts"
            return f"{_where(at)}has {len(got)} {parts}, expected {len(expected)}"
        parts = enumerate(zip(got, expected, strict=True))
        found = _first(self.of(g, e, f"{at}[{i}]") for i, (g, e) in parts)
        mine, right = _array_of_numbers(got), _array_of_numbers(expected)
        flat = isinstance(mine, np.ndarray) and isinstance(right, np.ndarray) and right.ndim == 1
        return found + self._both(mine, right) if found and flat else found

    def _dicts(self, got: Any, expected: dict, at: str) -> str | None:
        if not isinstance(got, dict):
            return f"{_where(at)}got {describe(got)}, expected a dict"
        missing = [
            f"the key {key!r} is missing" if self.reveal else "a key is missing"
            for key in expected
            if key not in got
        ]
        extra = [f"{name_key(key)} does not belong" for key in got if key not in expected]
        if missing or extra:
            return _where(at) + "; ".join(missing[:1] + extra[:1])
        return _first(self.of(got[k], e, f"{at}[{k!r}]") for k, e in expected.items())

    def _numbers(self, got: Any, expected: float | Fraction, at: str) -> str | None:
        number = _typed_number(got) if self.by_hand and isinstance(got, str) else _as_number(got)
        if number is None:
            wanted = "a number" if self.by_hand else self._wanted(expected)
            return f"{_where(at)}got {describe(got)}, expected {wanted}"
        size, tol = _as_float(number), self.tolerance
        shown = got.strip() if isinstance(got, str) else number  # as it was typed
        slack = tol
        if self.by_hand and isinstance(expected, int):  # a count is exact, but for rounding
            tol, slack = 0.0, _NOUGHT
        elif self.by_hand and expected:  # a small number is not near to every other small number
            slack = tol * min(1.0, 9 * abs(float(expected)))
        if np.isclose(size, float(expected), rtol=tol, atol=slack, equal_nan=True):
            return None
        if self._tells and _is_float32(size) and isclose(size, expected, rel_tol=1e-5):
            return f"{_where(at)}right to the digits of float32 only; compute in float64"
        if (self.by_hand or self.rounded) and _is_rounded(size, float(expected)):
            return None if self.rounded else f"{_where(at)}{self._too_coarse(shown, expected)}"
        if isinstance(number, float) and not isfinite(number):
            return f"{_where(at)}is not finite: {self._pair(number, expected)}"
        return f"{_where(at)}{self._pair(shown, expected)}"

    def _too_coarse(self, number: float | Fraction | str, expected: float | Fraction) -> str:
        whole = float(expected).is_integer()
        digits = "all digits" if whole else f"{ceil(-log10(self.tolerance))} digits or a fraction"
        return f"{_short(number, 8)} is rounded; give {digits}"

    def _without_rounding(self, value: Any) -> Any:
        """0 for each float that agrees with 0: its digits are rounding, each processor's own."""
        if self.by_hand or getattr(value, "dtype", np.dtype(type(value))).kind != "f":
            return value
        return np.where(np.abs(value) <= min(self.tolerance, _NOUGHT), 0.0, value)[()]

    def _pair(self, got: Any, expected: Any) -> str:
        plain = self._without_rounding(got), self._without_rounding(expected)
        got, expected = (got, expected) if plain == (0.0, 0.0) else plain
        if not self._tells:
            return f"{_short(got, 8)} is not right"
        for digits in (4, 8, 17):
            texts = _short(got, digits), _short(expected, digits)
            if texts[0] != texts[1]:
                break
        return f"got {texts[0]}, expected {texts[1]}"


def _to_numpy(value: Any) -> Any:
    return value.detach().cpu().numpy() if is_tensor(value) else value


def _array_of_numbers(value: list | tuple) -> Any:
    """The array that nested lists of numbers stand for; the value itself if they do not."""
    level = [value]
    while level:  # with one long text among them numpy would make a wide array of all
        parts = [part for each in level for part in each]
        level = [part for part in parts if isinstance(part, (list, tuple))]
        others = [p for p in parts if not isinstance(p, (list, tuple, int, float, complex))]
        if any(np.asarray(other).dtype.kind not in "biufc" for other in others):
            return value
    try:
        array = np.array(value)
    except (ValueError, OverflowError):  # rows of several lengths
        return value
    return array if array.dtype.kind in "biufc" and (array.size or not value) else value


def _rows(array: np.ndarray) -> list[str]:
    with np.printoptions(precision=4, suppress=True, linewidth=1000):
        return str(np.atleast_2d(array))[1:-1].replace("\n ", "\n").split("\n")


def _as_number(value: Any) -> float | Fraction | None:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, np.longdouble):  # `item` leaves it as it is
        value = float(value)
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


def _is_float32(x: float) -> bool:
    """Whether x was computed in float32, as its digits have it; six of them are any number's."""
    with np.errstate(over="ignore"):
        return float(np.float32(x)) == x != float(f"{x:.6g}")


def _is_rounded(x: float, e: float) -> bool:
    """Whether x is e, rounded or cut off after two to six digits, three or more if e is whole."""
    if not e or not isfinite(x) or not isfinite(e):
        return False
    for digits in range(3 if e.is_integer() else 2, 7):
        unit = 10.0 ** (floor(log10(abs(e))) + 1 - digits)
        if any(isclose(x, n * unit, rel_tol=1e-9) for n in (round(e / unit), int(e / unit))):
            return True
    return False


def _short(value: Any, digits: int = 4) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str) and not _FRACTION.fullmatch(value.replace("−", "-")[:_LONGEST]):
        return quoted(value, 40)
    text = f"{value:.{digits}g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:20]}… ({len(text)} characters)"


def _kind(value: Any) -> str:
    return {bool: "True or False", str: "another string"}.get(type(value), "something else")


def _entries(array: np.ndarray) -> str:
    return {"U": "strings", "b": "True or False"}.get(array.dtype.kind, "numbers")


def _where(at: str) -> str:
    """The beginning of a sentence about a part: its name, or its index in a list."""
    return f"at {at}: " if at.startswith("[") else f"{at}: " if at else ""


def _first(complaints: Any) -> str | None:
    return next((c for c in complaints if c), None)
