"""Lines that ask for a copy: `nia milo jun=nia milo jun`, in batches for a language model.

What stands before the sign = cannot be foreseen; what stands after it can, by whoever looks back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unrolled.data.batches import IGNORE, pad
from unrolled.data.corpora import load
from unrolled.data.tokens import CharTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENIZER = CharTokenizer("\n =" + LETTERS)  # 29 signs; a line ends with the first
NEWLINE = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class CopyLines:
    """inputs and targets (B, T) int64, targets[b, t] following inputs[b, t]; a line stands after a
    new line, ends with one, and is filled up with `IGNORE` targets. copied (B, T) is True at the
    targets that a copy determines, those after the sign =, the new line among them."""

    inputs: NDArray[np.int64]
    targets: NDArray[np.int64]
    copied: NDArray[np.bool_]
    lines: tuple[str, ...]


def names(split: str) -> tuple[str, ...]:
    """The names of a split of the corpus "names", in small letters, in alphabetical order."""
    return tuple(getattr(load("names"), split).lower().split())


def invented(rng: np.random.Generator, n: int, *, length: tuple[int, int] = (3, 9)) -> list[str]:
    """n strings of letters, each letter and each length in low … high equally likely."""
    sizes = rng.integers(length[0], length[1] + 1, size=n)
    return ["".join(rng.choice(list(LETTERS), size=size)) for size in sizes]


def copy_lines(
    rng: np.random.Generator, pool: Sequence[str], n: int, *, n_names: int = 3
) -> CopyLines:
    """n lines of n_names names from the pool, each name drawn by itself.

    T is the longest line's length, which differs from batch to batch. Raises ValueError for an
    empty pool, n or n_names below 1, and for a name with other signs than small letters.
    """
    if not len(pool) or n < 1 or n_names < 1:
        raise ValueError(f"expected names, n >= 1 and n_names >= 1: {len(pool)=}, {n=}, {n_names=}")
    firsts = [" ".join(pool[i] for i in row) for row in rng.integers(len(pool), size=(n, n_names))]
    return arranged(firsts)


def arranged(firsts: Sequence[str]) -> CopyLines:
    """The lines `first=first` as a batch; ValueError for a sign other than a–z and space."""
    for first in firsts:
        if not first or set(first) - set(LETTERS + " "):
            raise ValueError(f"expected small letters and spaces, got {first!r}")
    lines = tuple(f"{first}={first}" for first in firsts)
    targets = [TOKENIZER.encode(line + "\n") for line in lines]
    inputs = [np.append(NEWLINE, target[:-1]) for target in targets]
    copied = [np.arange(len(first) * 2 + 2) > len(first) for first in firsts]
    return CopyLines(
        inputs=pad(inputs, NEWLINE).tokens,
        targets=pad(targets, IGNORE).tokens,
        copied=pad([c.astype(int) for c in copied], 0).tokens == 1,
        lines=lines,
    )
