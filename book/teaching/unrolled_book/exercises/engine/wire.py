"""How the arguments and answers of an exercise cross between two processes: as JSON, never pickle.

None, booleans, integers, finite floats, strings and lists stand for themselves. Everything else is
a dictionary with one key that names its kind:

    {"float": "nan"}                      a float that JSON has no word for
    {"tuple": […]}   {"set": […]}         {"dict": [[key, value], …]}
    {"array": ["<f8", [2, 3], base64]}    {"tensor": [ … the same … ]}
    {"fraction": "4/11"}                  {"unwritten": true}        the `...` of a starter
    {"unknown": "generator"}              a thing that cannot cross, kept so that it can be named

A frozen set arrives as a set, a range and an array of Fractions, which numpy holds as objects, as
lists, another library's array as numpy's, and its number as a float.

What a stranger's process wrote is read by `read` and `decode`: both raise ValueError for anything
that `encode` does not write, and neither takes more time or memory than its length calls for.
"""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

_ARRAY_KINDS = "biufcU"
_LONGEST = 10_000  # bits; Python writes no integer of more than 4300 decimal digits
_DEEPEST = 40  # lists in lists
_MOST_ALIKE = 50  # keys of a dict or a set with one hash
_LARGEST = 2**26  # bytes of an array, and of the array that texts and numbers would make together
_DTYPE = re.compile(r"[<|]([biufc]\d{1,2}|U\d{1,7})")
_FRACTION = re.compile(r"-?[0-9]{1,3011}(/[0-9]{1,3011})?")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Unknown:
    """What arrives in place of an object that cannot cross: the name of its type."""

    type_name: str


class _TooLarge(ValueError):
    pass


def is_tensor(value: Any) -> bool:
    """Whether value is a torch tensor; asks without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def encode(value: Any) -> Any:
    """The JSON form of value. An object of another kind becomes {"unknown": …}, never an error."""
    try:
        data = _encode(value, 0)
        _check_size(data)
    except RecursionError:  # a list that holds itself
        return {"unknown": f"{type(value).__name__} without an end"}
    except _TooLarge:
        return {"unknown": f"{type(value).__name__} of too many characters"}
    return data


def _encode(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, np.generic) or _is_array_of_fractions(value):
        value = value.tolist()
    if _is_too_long(value):
        return {"unknown": "number with thousands of digits"}
    if isinstance(value, str) and _SURROGATE.search(value):
        return {"unknown": "text with half a character"}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": float.__repr__(value)}
    if isinstance(value, (list, range)):
        return [_encode(v, depth + 1) for v in value]
    return _encode_tagged(value, depth + 1)


def _is_array_of_fractions(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype != object:
        return False
    return all(isinstance(v, (int, float, Fraction)) for v in value.flat)


def _is_too_long(value: Any) -> bool:
    if not isinstance(value, (int, Fraction)):
        return False
    return max(value.numerator.bit_length(), value.denominator.bit_length()) > _LONGEST


def _encode_tagged(value: Any, depth: int) -> dict[str, Any]:
    if value is Ellipsis:
        return {"unwritten": True}
    if isinstance(value, tuple):
        return {"tuple": [_encode(v, depth) for v in value]}
    if isinstance(value, dict):  # also Counter and defaultdict
        return {"dict": [[_encode(k, depth), _encode(v, depth)] for k, v in value.items()]}
    if isinstance(value, (set, frozenset)):
        return {"set": [_encode(v, depth) for v in sorted(value, key=repr)]}
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, np.ndarray) and value.nbytes > _LARGEST:
        return {"unknown": f"array of shape {value.shape}"}
    if isinstance(value, np.ndarray) and not _holds_characters(value):
        return {"unknown": "array of text with half a character"}
    if isinstance(value, np.ndarray) and value.dtype.kind in _ARRAY_KINDS:
        return {"array": _encode_array(value)}
    if is_tensor(value):
        return {"tensor": _encode_array(_to_numpy(value))}
    if isinstance(value, Unknown):
        return {"unknown": value.type_name}
    if isinstance(value, np.ndarray):
        return {"unknown": f"array of dtype {value.dtype}"}
    return _encode_other(value, depth)


def _encode_other(value: Any, depth: int) -> Any:
    """An array or a number of another library, such as sympy's; anything else by its name."""
    try:
        if hasattr(type(value), "__array__"):
            return _encode(np.asarray(value), depth)
        if hasattr(type(value), "__float__"):
            return _encode(float(value), depth)
    except Exception:  # a symbol is no number, and an object of the reader's may raise anything
        pass
    return {"unknown": type(value).__name__[:200]}


def _to_numpy(tensor: Any) -> np.ndarray:
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":  # which numpy does not have
        tensor = tensor.float()
    return tensor.numpy()


def _encode_array(array: np.ndarray) -> list[Any]:
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return [array.dtype.str, list(array.shape), data]


def read(data: bytes) -> Any:
    """The JSON in data, for `decode`: one document, no key twice, only finite numbers.

    Raises ValueError for anything else.
    """
    try:
        return json.loads(data, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def decode(data: Any) -> Any:
    """The value that `encode` wrote, freshly built.

    Raises ValueError for what `encode` does not write: a dictionary of no known kind, an array of
    objects or of another size than its data, an endless nesting, a number of thousands of digits.
    """
    try:
        _check_size(data)
        return _decode(data, 0)
    except (TypeError, AttributeError, OverflowError, ZeroDivisionError, MemoryError) as error:
        raise ValueError(f"not a value of the exercise wire: {error}") from error


def _check_size(data: Any) -> None:
    """Texts and numbers side by side become, in numpy, an array as wide as the longest text.

    An array stands for its entries, one of text for texts of its width.
    """
    n_leaves, longest, level = 0, 0, [data]
    for _ in range(3 * _DEEPEST):  # a dict's entries are lists in a list in a dictionary
        arrays = [_array_size(d) for d in level if isinstance(d, dict) and not _parts(d)]
        texts = [len(d) for d in level if isinstance(d, str)] + [width for _, width in arrays]
        longest = max(longest, max(texts, default=0))
        n_leaves += len(level) + sum(size for size, _ in arrays)
        if not (level := [part for d in level for part in _parts(d)]):
            break
    else:
        raise ValueError("nested too deeply")
    if 4 * n_leaves * longest > _LARGEST and n_leaves > 1:
        raise _TooLarge(f"{n_leaves} parts, one with {longest} characters: too large together")


def _array_size(data: dict[str, Any]) -> tuple[int, int]:
    """Of an encoded array: how many entries it has, and the characters of one, if they are text."""
    body = next(iter(data.values()), None)
    if not (isinstance(body, list) and len(body) == 3):
        return 0, 0
    name, shape, _ = body
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n <= _LARGEST for n in shape):
        return 0, 0  # which `_decode_array` refuses
    width = re.fullmatch(r"[<|]U(\d{1,7})", name) if isinstance(name, str) else None
    return math.prod(shape[:33]), int(width[1]) if width else 0


def _parts(data: Any) -> Any:
    if isinstance(data, dict):
        return () if data.keys() & {"array", "tensor"} else data.values()
    return data if isinstance(data, list) else ()


def _decode(data: Any, depth: int) -> Any:
    if depth > _DEEPEST + 1:
        raise ValueError("nested too deeply")
    if isinstance(data, list):
        return [_decode(d, depth + 1) for d in data]
    if not isinstance(data, dict):
        return _checked(data)
    if len(data) != 1 or next(iter(data)) not in _DECODERS:
        raise ValueError(f"not a value of the exercise wire: keys {sorted(map(str, data))[:3]}")
    kind, body = next(iter(data.items()))
    return _DECODERS[kind](body, depth + 1)


def _checked(value: Any) -> Any:
    """A value that JSON has a word for."""
    if isinstance(value, str) and _SURROGATE.search(value):
        raise ValueError("half a character")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no JSON")
    if _is_too_long(value):
        raise ValueError("a number with thousands of digits")
    return value


def _decode_float(body: Any, depth: int) -> float:
    if body not in ("nan", "inf", "-inf"):
        raise ValueError(f"a float is nan, inf or -inf, got {str(body)[:20]!r}")
    return float(body)


def _decode_fraction(body: Any, depth: int) -> Fraction:
    if not _FRACTION.fullmatch(body):
        raise ValueError("a fraction is written 4/11")
    return Fraction(body)


def _items(body: Any, depth: int) -> list[Any]:
    if not isinstance(body, list):
        raise ValueError(f"expected a list, got a {type(body).__name__}")
    return _decode(body, depth)


def _decode_set(body: Any, depth: int) -> set[Any]:
    return set(_hashed([_frozen(item) for item in _items(body, depth)]))


def _decode_dict(body: Any, depth: int) -> dict[Any, Any]:
    pairs = _items(body, depth)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError("a dict is a list of pairs")
    keys = _hashed([_frozen(key) for key, _ in pairs])
    return dict(zip(keys, (value for _, value in pairs), strict=True))


def _hashed(keys: list[Any]) -> list[Any]:
    """The keys. Thousands with one hash would cost their number squared."""
    if max(Counter(map(hash, keys)).values(), default=0) > _MOST_ALIKE:
        raise ValueError("keys with equal hashes")
    return keys


def _decode_array(body: Any, depth: int = 0) -> np.ndarray:
    name, shape, data = body
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise ValueError(f"such an array may not cross; kinds are {_ARRAY_KINDS!r}: {name!r:.40}")
    dtype = np.dtype(name)
    if not isinstance(shape, list) or len(shape) > 32:
        raise ValueError("a shape is a list of up to 32 lengths")
    if not all(type(n) is int and 0 <= n <= _LARGEST for n in shape):
        raise ValueError("a shape holds whole numbers")
    # An axis of length 0 must not hide the others: a sum over it would be as large as they are.
    if math.prod(max(1, n) for n in shape) * dtype.itemsize > _LARGEST or not dtype.itemsize:
        raise ValueError(f"an array of shape {shape} is too large")
    array = np.frombuffer(base64.b64decode(data, validate=True), dtype=dtype).reshape(shape).copy()
    if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise ValueError("a boolean is 0 or 1")
    if not _holds_characters(array):
        raise ValueError("no such character")
    return array


def _holds_characters(array: np.ndarray) -> bool:
    """False for an array of text with a code point that is no character, such as half of one."""
    if array.dtype.kind != "U":
        return True
    points = np.frombuffer(array.tobytes(), array.dtype.byteorder + "u4")
    return not ((points > 0x10FFFF) | ((points >= 0xD800) & (points < 0xE000))).any()


def _decode_tensor(body: Any, depth: int) -> Any:
    array = _decode_array(body)
    try:
        import torch
    except ImportError:
        raise ValueError("a tensor needs torch, which is not installed") from None
    return torch.from_numpy(array)


def _decode_unwritten(body: Any, depth: int) -> Any:
    if body is not True:
        raise ValueError("expected true")
    return Ellipsis


def _decode_unknown(body: Any, depth: int) -> Unknown:
    if not isinstance(body, str) or len(body) > 1000:
        raise ValueError("the name of a type is a text")
    return Unknown(_checked(body))


def _frozen(value: Any) -> Any:
    """value as the key of a dict or the member of a set: a set, which arrives thawed, frozen."""
    if isinstance(value, tuple):
        return tuple(_frozen(v) for v in value)
    return frozenset(value) if isinstance(value, set) else value


_DECODERS = {
    "float": _decode_float,
    "tuple": lambda body, depth: tuple(_items(body, depth)),
    "set": _decode_set,
    "dict": _decode_dict,
    "fraction": _decode_fraction,
    "array": _decode_array,
    "tensor": _decode_tensor,
    "unwritten": _decode_unwritten,
    "unknown": _decode_unknown,
}
