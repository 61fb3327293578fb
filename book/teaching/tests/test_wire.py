"""The wire: what crosses arrives equal, what cannot is named, what a stranger writes is refused."""

import json
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from unrolled_book.exercises.engine.compare import difference
from unrolled_book.exercises.engine.wire import Unknown, decode, encode, read

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
ARRAYS = hnp.arrays(st.sampled_from([np.float64, np.float32, np.int64, np.bool_]), SHAPES)
WHOLE = st.characters(codec="utf-8", exclude_characters="\0")  # numpy drops a "\0" at the end
ARRAYS |= hnp.arrays("U3", SHAPES, elements=st.text(WHOLE, max_size=3))
KEYS = st.integers() | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS | st.fractions() | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(KEYS, max_size=3)
    ),
    max_leaves=6,
)
KINDS = ("float", "tuple", "set", "dict", "fraction", "array", "tensor", "unwritten", "unknown")
LEAVES = st.sampled_from(["nan", "1e999999999", "1/0", "<f8", "|O", "AAAAAAAAAAA=", "<U99999999"])
LEAVES |= st.sampled_from([-1, 0, 10**18, 2**63, 10**4000, {"unwritten": 1}, [0, 10**18]])
DTYPES = st.sampled_from(["<f8", "|b1", "<U2", "<i4"])
JSON = st.recursive(
    SCALARS | LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KINDS) | st.text(max_size=3), inner, max_size=2)
        | st.tuples(DTYPES, st.lists(inner, max_size=2), inner).map(lambda b: {"array": list(b)})
    ),
    max_leaves=12,
)


def same(a, b) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return a == b or (a != a and b != b)


@settings(max_examples=120)
@given(VALUES)
def test_what_crosses_as_strict_json_arrives_equal_and_of_the_same_type(value):
    arrived = decode(json.loads(json.dumps(encode(value), allow_nan=False)))
    assert same(arrived, value)
    assert difference(value, arrived) is None


INNER, HALF = frozenset({1, 2}), Fraction(1, 2)


def test_what_has_no_form_of_its_own_arrives_as_the_usual_one():
    for value, arrived in [
        (np.float64(0.5), 0.5), (np.bool_(True), True),
        (np.longdouble(0.5), np.array(np.longdouble(0.5))),
        (np.array([1, 2], dtype=">i4"), np.array([1, 2], dtype="<i4")),
        ([sympy.Rational(2, 3), Decimal("0.25"), range(3)], [2 / 3, 0.25, [0, 1, 2]]),
        (np.array([[HALF, 1], [0.5, HALF]]), [[HALF, 1], [0.5, HALF]]), (INNER, {1, 2}),
        ({INNER, frozenset()}, {INNER, frozenset()}), ({(INNER, 3): 4}, {(INNER, 3): 4}),
        (np.zeros((2, 0, 5)), np.zeros((2, 0, 5))),
    ]:  # fmt: skip
        assert same(decode(encode(value)), arrived), value


def test_tensors_cross_with_their_dtype_and_without_their_graph():
    tensor = torch.arange(6.0, dtype=torch.float64, requires_grad=True).reshape(2, 3) * 2
    arrived = decode(encode(tensor))
    assert not arrived.requires_grad
    torch.testing.assert_close(arrived, tensor.detach())
    for sent, dtype in [(torch.float16, torch.float16), (torch.bfloat16, torch.float32)]:
        assert decode(encode(torch.ones(2, dtype=sent))).dtype == dtype


class Stubborn:
    """An object that raises whatever it is asked."""

    def __repr__(self):
        raise RuntimeError

    __float__ = __array__ = __repr__


def nested(kind: str | None, depth: int):
    data = 1
    for _ in range(depth):
        data = [data] if kind is None else {kind: [data]}
    return data


ENDLESS: list = [1]
ENDLESS.append({"again": ENDLESS})


def test_what_cannot_cross_arrives_as_its_name():
    for value, name in [
        ((i for i in range(3)), "generator"), (np.array([object()]), "array of dtype object"),
        (Unknown("A"), "A"), (Stubborn(), "Stubborn"), (Stubborn, "type"),
        (sympy.Symbol("x"), "Symbol"), (1j, "complex"), (ENDLESS, "list without an end"),
        (nested(None, 60), "list without an end"), (10**5000, "number with thousands of digits"),
        (Fraction(1, 10**5000), "number with thousands of digits"),
        (np.zeros(2**27, np.uint8), "array of shape (134217728,)"),
        (["x" * 10**7] + [0] * 1000, "list of too many characters"),
        ("\ud800", "text with half a character"),
        (np.array(["a", "\ud800"]), "array of text with half a character"),
        (np.array(["\ud800"]).astype(">U1"), "array of text with half a character"),
    ]:  # fmt: skip
        assert decode(json.loads(json.dumps(encode(value)))) == Unknown(name)


@settings(max_examples=200)
@given(JSON, st.binary(max_size=60))
def test_whatever_a_stranger_writes_is_a_value_or_a_valueerror(data, noise):
    try:
        value = decode(data)
        assert encode(value) is not None or value is None
    except ValueError:
        pass
    for text in (json.dumps(data).encode(), noise):
        try:
            read(text)
        except ValueError:
            continue
        json.loads(text)


def test_what_is_no_json_document_is_refused():
    for data in (
        b"", b"[1", b"[1] [2]", b"{}{}", b"NaN", b"[Infinity]", b'{"a": 1, "a": 1}', b"\xff\xfe",
        b"9" * 5000, b"[" * 100_000 + b"]" * 100_000,
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"\S"):
            read(data)


EIGHT = "AAAAAAAAAAA="  # eight bytes
TWICE = [k * (2**61 - 1) for k in range(20_000)]  # keys of one hash
HOSTILE = [
    10**4000, float("inf"), "\ud800", ["x" * 10**6] + [0] * 1000,  # too large together
    *[{"fraction": body} for body in ("1e999999999", "1/0", 1, "1" * 4000)],
    *[{"float": body} for body in ("1e5", [])],
    *[{"unknown": body} for body in (1, "x" * 10**6, "\udfff")],
    {"tuple": "abc"}, {"unwritten": 1}, {"set": [[1]]},
    *[{"dict": body} for body in ([[1]], [[[1], 1]], 7)],
    {}, {"tuple": [], "set": []}, {"pickle": "gASVAAAA"},
    *[{"array": ["<f8", *body]} for body in (
        [[0, 10**18], ""], [[0, 2**20, 2**20], ""],  # empty ones behind which large ones hide
        [[-1], EIGHT], [[True], EIGHT], ["1", EIGHT], [[1] * 65, EIGHT],  # no shapes
        [[2], EIGHT], [[1], "!!!!"], [[1]])],
    *[{"array": [kind, [1], EIGHT]} for kind in ("|O", "<M8[s]")],
    {"array": ["f8,f8", [1], "AAAAAAAAAAAAAAAAAAAAAA=="]}, {"array": "<f8"},
    *[{"array": [f"<U{width}", [1], data]} for width, data in (
        (100_000_000, ""), (0, ""), (1, "////fw=="))],  # that is no character
    {"array": ["|b1", [1], "Ag=="]},  # a boolean of two
    *[nested(kind, 500) for kind in (None, "tuple", "set")], nested(None, 100_000),
]  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_what_would_cost_the_reader_time_memory_or_sense_is_refused(data):
    with pytest.raises(ValueError, match=r"\S"):
        decode(data)


def test_thousands_of_keys_of_one_hash_are_refused():
    some = [*range(10_000), *TWICE[:10_000]]
    for data in ({"set": TWICE}, {"set": some}, {"dict": [[k, 0] for k in TWICE]}):
        with pytest.raises(ValueError, match="equal hashes"):
            decode(data)


def test_a_tensor_is_refused_where_torch_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match="torch"):
        decode({"tensor": ["<f8", [], EIGHT]})


def test_an_array_of_text_counts_where_it_stands_beside_others():
    """numpy would make them all as wide: 1.9 GB of the first."""
    wide = np.array("x" * 16_000)
    for value in ([wide] + [0] * 30_000, [wide.reshape(1), np.zeros(10_000)], {"a": [wide] * 2000}):
        assert "too many characters" in encode(value)["unknown"]
        raw = encode([wide]) + [0] * 30_000
        with pytest.raises(ValueError, match="too large together"):
            decode(raw)
    for value in (wide, [wide] * 30, [np.zeros(10**6), np.zeros(10**6)], np.array(["ab"] * 10**5)):
        assert np.array_equal(decode(encode(value)), value)
