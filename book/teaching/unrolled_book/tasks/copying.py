"""Lines that repeat themselves, `nia milo jun=nia milo jun`, in batches for a language model.

Nothing predicts the names before the character =; the names after it can be copied. Chapter 20
compares a Transformer and an LSTM on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from unrolled.data.batches import IGNORE, pad
from unrolled.data.corpora import load
from unrolled.data.tokens import CharTokenizer
from unrolled.validate import checked, one_of, whole

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENIZER = CharTokenizer("\n =" + LETTERS)  # 29 characters; a line ends with the first
NEWLINE = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class CopyLines:
    """Lines as a batch: each begins after a new line, ends with one, and is padded on the right."""

    inputs: NDArray[np.int64]  # (B, T), padded with new lines
    targets: NDArray[np.int64]  # (B, T), targets[b, t] follows inputs[b, t]; padded with `IGNORE`
    copied: NDArray[np.bool_]  # (B, T), the targets a copy determines: after =, new line included
    lines: tuple[str, ...]


@checked
def names(split: str) -> tuple[str, ...]:
    """The names of a split of the corpus "names", in small letters, in alphabetical order."""
    one_of("split", split, ("train", "valid", "test"))
    return tuple(getattr(load("names"), split).lower().split())


@checked
def random_names(
    rng: np.random.Generator, n: int, *, length: tuple[int, int] = (3, 9)
) -> list[str]:
    """n strings of letters, each letter and each length from low to high equally likely."""
    sizes = rng.integers(*length, size=whole("n", n, 0), endpoint=True)
    return ["".join(rng.choice(list(LETTERS), size=size)) for size in sizes]


@checked
def copy_lines(
    rng: np.random.Generator, pool: Sequence[str], n: int, *, n_names: int = 3
) -> CopyLines:
    """n lines of n_names names, each drawn from the pool independently.

    T is the longest line's length and differs from batch to batch. Raises ValueError for an empty
    pool and for a name with other characters than small letters.
    """
    whole("the size of the pool", len(pool))
    size = (whole("n", n), whole("n_names", n_names))
    return as_batch([" ".join(pool[i] for i in row) for row in rng.integers(len(pool), size=size)])


@checked
def as_batch(texts: Sequence[str]) -> CopyLines:
    """The lines `text=text` as a batch; ValueError for a character other than a–z and space."""
    for text in texts:
        if not text or set(text) - set(LETTERS + " "):
            raise ValueError(f"expected small letters and spaces, got {text!r}")
    lines = tuple(f"{text}={text}" for text in texts)
    targets = [TOKENIZER.encode(line + "\n") for line in lines]
    inputs = [np.append(NEWLINE, target[:-1]) for target in targets]
    copied = [np.repeat([0, 1], len(text) + 1) for text in texts]
    return CopyLines(
        inputs=pad(inputs, NEWLINE).tokens,
        targets=pad(targets, IGNORE).tokens,
        copied=pad(copied, 0).tokens == 1,
        lines=lines,
    )
