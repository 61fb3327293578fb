"""The wire, read from a stranger: ValueError for whatever `encode` does not write, and soon."""

from __future__ import annotations

import builtins
import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled_book.exercises.engine.wire import Unknown, decode, encode, read

KINDS = ("float", "tuple", "set", "dict", "fraction", "array", "tensor", "unwritten", "unknown")
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
LEAVES |= st.sampled_from(["nan", "1e999999999", "1/0", "<f8", "|O", "AAAAAAAAAAA=", "<U99999999"])
LEAVES |= st.sampled_from([-1, 0, 10**18, 2**63, 10**4000, {"unwritten": 1}, [0, 10**18]])
DTYPES = st.sampled_from(["<f8", "|b1", "<U2", "<i4"])
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KINDS), inner, max_size=2)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
        | st.tuples(DTYPES, st.lists(inner, max_size=2), inner).map(
            lambda body: {"array": list(body)}
        )
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=500)
@given(JSON)
def test_whatever_a_stranger_writes_is_a_value_or_a_valueerror(data):
    try:
        value = decode(data)
    except ValueError:
        return
    assert encode(value) is not None or value is None


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=60) | JSON.map(lambda data: json.dumps(data).encode()))
def test_whatever_bytes_come_they_are_json_or_a_valueerror(data):
    try:
        read(data)
    except ValueError:
        return
    json.loads(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[1",
        b"[1] [2]",
        b"{}{}",
        b"NaN",
        b"[Infinity]",
        b'{"a": 1, "a": 1}',
        b"\xff\xfe",
        b"9" * 5000,
        b"[" * 100_000 + b"]" * 100_000,
    ],
    ids=lambda data: data[:12],
)
def test_what_is_no_json_document_is_refused(data):
    with pytest.raises(ValueError, match=r"\S"):
        read(data)


def nested(kind: str | None, depth: int):
    data = 1
    for _ in range(depth):
        data = [data] if kind is None else {kind: [data]}
    return data


HOSTILE = {
    "a fraction with an exponent": {"fraction": "1e999999999"},
    "a fraction of nothing": {"fraction": "1/0"},
    "a fraction that is a number": {"fraction": 1},
    "a long fraction": {"fraction": "1" * 4000},
    "a long number": 10**4000,
    "a float with a name of its own": {"float": "1e5"},
    "a float that is a list": {"float": []},
    "a float that JSON does not know": float("inf"),
    "an empty array behind which a large one hides": {"array": ["<f8", [0, 10**18], ""]},
    "a negative length": {"array": ["<f8", [-1], "AAAAAAAAAAA="]},
    "a length that is a boolean": {"array": ["<f8", [True], "AAAAAAAAAAA="]},
    "a length that is a text": {"array": ["<f8", "1", "AAAAAAAAAAA="]},
    "more lengths than numpy has": {"array": ["<f8", [1] * 65, "AAAAAAAAAAA="]},
    "an array of another size": {"array": ["<f8", [2], "AAAAAAAAAAA="]},
    "an array of objects": {"array": ["|O", [1], "AAAAAAAAAAA="]},
    "an array of records": {"array": ["f8,f8", [1], "AAAAAAAAAAAAAAAAAAAAAA=="]},
    "an array of endless texts": {"array": ["<U100000000", [1], ""]},
    "an array of empty texts": {"array": ["<U0", [1], ""]},
    "an array of no characters": {"array": ["<U1", [1], "////fw=="]},
    "an array of times": {"array": ["<M8[s]", [1], "AAAAAAAAAAA="]},
    "a boolean of two": {"array": ["|b1", [1], "Ag=="]},
    "an array of no base64": {"array": ["<f8", [1], "!!!!"]},
    "an array without data": {"array": ["<f8", [1]]},
    "an array that is a text": {"array": "<f8"},
    "a tuple that is a text": {"tuple": "abc"},
    "a set of lists": {"set": [[1]]},
    "a dict of single parts": {"dict": [[1]]},
    "a dict with a list for a key": {"dict": [[[1], 1]]},
    "a dict that is a number": {"dict": 7},
    "two kinds": {"tuple": [], "set": []},
    "no kind": {},
    "a kind that nobody knows": {"pickle": "gASVAAAA"},
    "a thing not written in numbers": {"unwritten": 1},
    "a type without a name": {"unknown": 1},
    "a type with a long name": {"unknown": "x" * 10**6},
    "half a character": "\ud800",
    "half a character in a name": {"unknown": "\udfff"},
    "lists in lists": nested(None, 500),
    "lists in lists without end": nested(None, 100_000),
    "tuples in tuples": nested("tuple", 500),
    "sets in sets": nested("set", 500),
    "keys of one hash": {"set": [k * (2**61 - 1) for k in range(50_000)]},
    "half of the keys of one hash": {
        "set": [*range(25_000), *[k * (2**61 - 1) for k in range(25_000)]]
    },
    "pairs of one hash": {"dict": [[k * (2**61 - 1), 0] for k in range(50_000)]},
    "a long text beside many numbers": ["x" * 10**6] + [0] * 1000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_cost_the_reader_time_memory_or_sense_is_refused(name):
    with pytest.raises(ValueError, match="equal hashes" if "one hash" in name else r"\S"):
        decode(HOSTILE[name])


def test_a_tensor_is_refused_where_torch_is_missing(monkeypatch):
    real = builtins.__import__

    def without_torch(name, *args):
        if name == "torch":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(ValueError, match="torch"):
        decode({"tensor": ["<f8", [], "AAAAAAAAAAA="]})


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(2**27, np.uint8),
        ["x" * 10**7] + [0] * 1000,
        "\ud800",
        np.array(["a", "\ud800"]),
        np.array(["\ud800"]).astype(">U1"),
        nested(None, 60),
    ],
    ids=["array", "text beside numbers", "half a character", "in an array", "big end", "nested"],
)
def test_what_cannot_cross_arrives_as_its_name(value):
    assert isinstance(decode(encode(value)), Unknown)


def test_an_empty_array_keeps_its_shape():
    for shape in ((0,), (0, 3), (2, 0, 5)):
        assert decode(encode(np.zeros(shape))).shape == shape
