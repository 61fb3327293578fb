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
"""

from __future__ import annotations

import base64
import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

_ARRAY_KINDS = "biufcU"
_LONGEST = 10_000  # bits; Python writes no integer of more than 4300 decimal digits


@dataclass(frozen=True)
class Unknown:
    """What arrives in place of an object that cannot cross: the name of its type."""

    type_name: str


def is_tensor(value: Any) -> bool:
    """Whether value is a torch tensor; asks without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def encode(value: Any) -> Any:
    """The JSON form of value. An object of another kind becomes {"unknown": …}, never an error."""
    try:
        return _encode(value)
    except RecursionError:  # a list that holds itself
        return {"unknown": f"{type(value).__name__} without an end"}


def _encode(value: Any) -> Any:
    if isinstance(value, np.generic) or _is_array_of_fractions(value):
        value = value.tolist()
    if _is_too_long(value):
        return {"unknown": "number with thousands of digits"}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, (list, range)):
        return [_encode(v) for v in value]
    return _encode_tagged(value)


def _is_array_of_fractions(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype != object:
        return False
    return all(isinstance(v, (int, float, Fraction)) for v in value.flat)


def _is_too_long(value: Any) -> bool:
    if not isinstance(value, (int, Fraction)):
        return False
    return max(value.numerator.bit_length(), value.denominator.bit_length()) > _LONGEST


def _encode_tagged(value: Any) -> dict[str, Any]:
    if value is Ellipsis:
        return {"unwritten": True}
    if isinstance(value, tuple):
        return {"tuple": [_encode(v) for v in value]}
    if isinstance(value, dict):  # also Counter and defaultdict
        return {"dict": [[_encode(k), _encode(v)] for k, v in value.items()]}
    if isinstance(value, (set, frozenset)):
        return {"set": [_encode(v) for v in sorted(value, key=repr)]}
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind in _ARRAY_KINDS:
        return {"array": _encode_array(value)}
    if is_tensor(value):
        return {"tensor": _encode_array(_to_numpy(value))}
    if isinstance(value, Unknown):
        return {"unknown": value.type_name}
    if isinstance(value, np.ndarray):
        return {"unknown": f"array of dtype {value.dtype}"}
    return _encode_other(value)


def _encode_other(value: Any) -> Any:
    """An array or a number of another library, such as sympy's; anything else by its name."""
    try:
        if hasattr(type(value), "__array__"):
            return _encode(np.asarray(value))
        if hasattr(type(value), "__float__"):
            return _encode(float(value))
    except Exception:  # a symbol is no number, and an object of the reader's may raise anything
        pass
    return {"unknown": type(value).__name__}


def _to_numpy(tensor: Any) -> np.ndarray:
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":  # which numpy does not have
        tensor = tensor.float()
    return tensor.numpy()


def _encode_array(array: np.ndarray) -> list[Any]:
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return [array.dtype.str, list(array.shape), data]


def decode(data: Any) -> Any:
    """The value that `encode` wrote, freshly built.

    Raises ValueError for a dictionary of no known kind and for an array of objects.
    """
    if isinstance(data, list):
        return [decode(d) for d in data]
    if not isinstance(data, dict):
        return data
    if len(data) != 1 or next(iter(data)) not in _DECODERS:
        raise ValueError(f"not a value of the exercise wire: keys {sorted(data)}")
    kind, body = next(iter(data.items()))
    return _DECODERS[kind](body)


def _decode_array(body: list[Any]) -> np.ndarray:
    dtype, shape, data = np.dtype(body[0]), tuple(body[1]), base64.b64decode(body[2])
    if dtype.kind not in _ARRAY_KINDS:
        raise ValueError(f"an array of dtype {dtype} may not cross; kinds are {_ARRAY_KINDS!r}")
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


def _decode_tensor(body: list[Any]) -> Any:
    import torch

    return torch.from_numpy(_decode_array(body))


def _frozen(value: Any) -> Any:
    """value as the key of a dict or the member of a set: a set, which arrives thawed, frozen."""
    if isinstance(value, tuple):
        return tuple(_frozen(v) for v in value)
    return frozenset(value) if isinstance(value, set) else value


_DECODERS = {
    "float": float,
    "tuple": lambda body: tuple(decode(b) for b in body),
    "set": lambda body: {_frozen(decode(b)) for b in body},
    "dict": lambda body: {_frozen(decode(k)): decode(v) for k, v in body},
    "fraction": Fraction,
    "array": _decode_array,
    "tensor": _decode_tensor,
    "unwritten": lambda body: Ellipsis,
    "unknown": Unknown,
}
