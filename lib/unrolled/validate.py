"""Checks of arguments for all floors: each gives the value back or says what was expected.

`checked` holds a function's arguments against its annotations; the others look at values.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import types
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import ge, gt, le, lt

import numpy as np
from numpy.typing import ArrayLike

LARGEST = 2**63 - 1  # what an index of numpy and torch may be


def whole(name: str, value: object, at_least: int | None = 1, at_most: int | None = None) -> int:
    """The value as an int; TypeError for what is no integer, ValueError outside the bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {_told(value)}")
    if abs(value) > LARGEST:
        raise ValueError(f"{name} must fit into 64 bits, got {value!r}")
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
        raise TypeError(f"{name} must be a number, got {_told(value)}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}")
    bounds = {"at least": at_least, "at most": at_most, "above": above, "below": below}
    return float(_within(name, value, bounds))


def flag(name: str, value: object) -> bool:
    """The value as a bool; TypeError for anything but True and False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {_told(value)}")
    return bool(value)


def array(
    name: str, value: object, ndim: int | None = None, dtype: type | None = np.float64
) -> np.ndarray:
    """The value as an array of real numbers, float64 unless told otherwise; TypeError for what is
    none, ValueError for another number of axes.
    """
    found = np.asarray(value)
    if found.dtype.kind not in "iuf" and found.size:
        raise TypeError(f"{name} must be numbers, got {_told(value)}")
    if ndim is not None and found.ndim != ndim:
        axes = ("one number", "(n,)", "(n, m)")[ndim]
        raise ValueError(f"{name} must be {axes}, got shape {found.shape}")
    return found if dtype is None else found.astype(dtype)


def one_of(name: str, value: object, options: Collection[object]) -> object:
    """The value; ValueError with the options when it is none of them."""
    if not isinstance(value, tuple(map(type, options))) or value not in options:
        listed = ", ".join(map(str, options))
        raise ValueError(f"{name} must be one of {listed}, got {_told(value)}")
    return value


def instance(name: str, value: object, *kinds: type) -> object:
    """The value; TypeError with advice unless it is of one of the kinds."""
    if not isinstance(value, kinds):
        wanted = " or ".join(map(_named, kinds))
        raise TypeError(f"{name} must be {wanted}, got {_told(value)}{_advice(name, value, kinds)}")
    return value


def checked(function: Callable) -> Callable:
    """The function, whose arguments are held against its annotations first.

    Numbers, flags and texts must be of their kind, objects of their class, and what is a list or an
    array must be one; elements, shapes and bounds are the function's own business. TypeError (for
    a number that is not finite ValueError) with the argument's name, what was expected and given.
    """

    @functools.cache
    def tests() -> dict[str, Callable]:  # at the first call: all names of the module are there
        hints = typing.get_type_hints(function)
        found = {name: _test(hint) for name, hint in hints.items() if name != "return"}
        kinds = {name: p.kind for name, p in inspect.signature(function).parameters.items()}
        return {n: found.get(n) for n, kind in kinds.items() if kind not in (2, 4)}  # * and **

    @functools.wraps(function)
    def careful(*arguments, **named):
        given = tests()
        for (name, test), value in zip(given.items(), arguments, strict=False):
            if test is not None:
                test(name, value)
        for name, value in named.items():
            if given.get(name) is not None:
                given[name](name, value)
        return function(*arguments, **named)

    return careful


def _test(hint: object) -> Callable[[str, object], object] | None:
    """What an argument with this annotation must pass; None: anything will do."""
    if hint == ArrayLike:
        return _array
    kind = typing.get_origin(hint) or hint
    if kind in (typing.Union, types.UnionType):
        tests = [_test(option) for option in typing.get_args(hint) if option is not types.NoneType]
        optional = len(tests) < len(typing.get_args(hint))
        return None if None in tests else functools.partial(_any, tests, optional)
    if kind in _TESTS:
        return _TESTS[kind]
    if not isinstance(kind, type) or kind is object:
        return None
    if kind is tuple and ... not in typing.get_args(hint) != ():
        return functools.partial(_tuple, [_test(part) for part in typing.get_args(hint)])
    if issubclass(kind, Iterable) and kind.__module__ == "collections.abc":
        part = (*typing.get_args(hint), object)[0]
        of_texts = part in (str, bytes) or typing.get_origin(part) is tuple
        return functools.partial(_several, kind, of_texts)
    return lambda name, value: instance(name, value, kind)


def _any(tests: Sequence[Callable], optional: bool, name: str, value: object) -> None:
    errors = []
    for test in tests if value is not None or not optional else ():
        try:
            return test(name, value)
        except (TypeError, ValueError) as error:
            errors.append(error)
    if len(errors) == 1 or (errors and isinstance(errors[0], ValueError)):
        raise errors[0]  # the only kind, or the right kind with a value that cannot be
    if errors:
        wanted = (str(e).removeprefix(f"{name} must be ").split(", got ")[0] for e in errors)
        raise TypeError(f"{name} must be {' or '.join(wanted)}, got {_told(value)}")


def _several(kind: type, of_texts: bool, name: str, value: object) -> None:
    """A list, or an array of numbers, which is no Sequence; a text is one, but not meant."""
    fits = isinstance(value, kind) or (not of_texts and getattr(value, "ndim", 0) > 0)
    if isinstance(value, str | bytes) or not fits:
        words = {"Sequence": "a list", "Mapping": "a dict"}.get(kind.__name__, "a collection")
        raise TypeError(f"{name} must be {words}, got {_told(value)}")


def _tuple(tests: Sequence[Callable], name: str, value: object) -> None:
    if not isinstance(value, tuple | list) or len(value) != len(tests):
        raise TypeError(f"{name} must be a tuple of {len(tests)}, got {_told(value)}")
    for test, x in zip(tests, value, strict=True):
        test(f"each of {name}", x)


def _array(name: str, value: object, kinds: tuple = (list, tuple, int, float)) -> None:
    if isinstance(value, bool) or not (hasattr(value, "__array__") or isinstance(value, kinds)):
        raise TypeError(f"{name} must be an array or a list of numbers, got {_told(value)}")


def _callable(name: str, value: object) -> None:
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {_told(value)}")


def _file(name: str, value: object) -> None:
    if not (hasattr(value, "read") or hasattr(value, "write")):
        raise TypeError(f"{name} must be an open file, got {_told(value)}")


_TESTS = {
    int: functools.partial(whole, at_least=None), float: real, bool: flag,
    np.ndarray: functools.partial(_array, kinds=(list, tuple)), Callable: _callable,
    typing.BinaryIO: _file, typing.Any: None,
}  # fmt: skip


def _named(kind: type) -> str:
    """a numpy Generator, a torch Tensor, an NGram, None."""
    if kind is types.NoneType:
        return "None"
    library = kind.__module__.partition(".")[0]
    words = f"{library} {kind.__name__}" if library in ("numpy", "torch") else kind.__name__
    return f"{'an' if words[0] in 'aeioAEIO' else 'a'} {words}"


def _told(value: object) -> str:
    """What was given: short things as they are, others by their class, arrays with their shape."""
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    if value is None or isinstance(value, str | bytes | numbers.Number | np.generic):
        text = repr(value)
        return text if len(text) < 60 else f"{text[:57]}…"
    if isinstance(value, list | tuple | dict | set):
        return repr(value) if len(repr(value)) < 60 else f"a {type(value).__name__} of {len(value)}"
    shape = f" {tuple(value.shape)} of {value.dtype}" if hasattr(value, "dtype") else ""
    return f"{_named(type(value))}{shape}"


def _advice(name: str, value: object, kinds: Sequence[type]) -> str:
    wanted = {f"{k.__module__.partition('.')[0]} {k.__name__}" for k in kinds}
    if "torch Tensor" in wanted and isinstance(value, np.ndarray | list):
        return f": give torch.{'tensor' if isinstance(value, list) else 'from_numpy'}({name})"
    if "numpy Generator" in wanted:
        return ": np.random.default_rng(seed) makes one"
    if "torch Generator" in wanted:
        return ": torch.Generator().manual_seed(seed) makes one"
    return ""


def _within(name: str, value, bounds: dict[str, float | None]):
    asked = {words: bound for words, bound in bounds.items() if bound is not None}
    if not all(_HOLDS[words](value, bound) for words, bound in asked.items()):
        listed = " and ".join(f"{words} {bound}" for words, bound in asked.items())
        raise ValueError(f"{name} must be {listed}, got {value!r}")
    return value


_HOLDS = {"at least": ge, "at most": le, "above": gt, "below": lt}
