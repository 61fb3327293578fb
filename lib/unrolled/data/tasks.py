"""Labelled sets for the tasks of memory: parentheses, and a symbol asked for after a delay.

Everything is numpy int64 and comes from the generator that is passed in: the same seed gives the
same set. The strings and what makes them wrong are in `unrolled.data.parentheses`; sequences of
several lengths are padded by `unrolled.data.batches.pad`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unrolled.data.batches import IGNORE
from unrolled.data.parentheses import (
    COLOURED,
    KINDS,
    NEEDED_PAIRS,
    RIGHT_COUNTS,
    Symbols,
    balanced,
    corrupt,
)

_TRIES = 1000  # draws without a usable string before a set is called impossible


@dataclass(frozen=True, kw_only=True, eq=False)
class Parentheses:
    """Labelled strings: sequences of int64 (length,), labels (N,) int64 with 1 = balanced, 0 = not,
    and kinds (N names), "balanced" or, out of KINDS, what was done to the string."""

    sequences: tuple[Symbols, ...]
    labels: NDArray[np.int64]
    kinds: tuple[str, ...]
    n_colours: int

    def __len__(self) -> int:
        return len(self.sequences)

    def __repr__(self) -> str:
        longest = max(map(len, self.sequences))
        return f"Parentheses({len(self)} strings up to {longest} long, n_colours={self.n_colours})"


def parentheses(
    rng: np.random.Generator,
    n: int,
    *,
    pairs: int | tuple[int, int] = (2, 15),
    n_colours: int = 5,
    negatives: Sequence[str] = ("swap",),
    coupled: bool = False,
    exclude: Iterable[ArrayLike] | None = None,
) -> Parentheses:
    """n labelled strings, exactly half of them balanced, in random order.

    pairs: how many pairs, or (low, high), from which each number is equally likely. For every wrong
        string there is a right one with as many pairs, so the length tells nothing. The right ones
        are drawn among those that could be corrupted in the same way, so it tells nothing either
        when, say, a string has one colour only.
    negatives: names out of KINDS, dealt out in turn: their numbers differ by one at most.
    coupled: make each wrong string from the right string of its couple, not from another.
    exclude: strings that must not come out; no string then comes out twice. () asks for the second
        only, None for neither. So held-out strings come from `exclude=train.sequences`.

    Raises ValueError for an odd n, an unknown kind, a kind that these numbers do not allow (swap
    needs two pairs, deep three, both and recolour two colours), and when strings run out.
    """
    low, high = (pairs, pairs) if isinstance(pairs, int | np.integer) else pairs
    _check(n, low, high, n_colours, negatives)
    taken = None if exclude is None else {_key(sequence) for sequence in exclude}
    sizes = rng.integers(low, high + 1, size=n // 2).tolist()
    stock = {
        size: _endless(rng, 2 * count, size, n_colours) for size, count in Counter(sizes).items()
    }
    sequences: list[Symbols] = []
    kinds: list[str] = []
    for couple, size in enumerate(sizes):
        kind = negatives[couple % len(negatives)]
        sequences += _couple(
            stock[size],
            lambda right, kind=kind: corrupt(rng, right, kind, n_colours),
            coupled,
            taken,
            f"{kind!r} couple of {size} pairs and {n_colours} colours",
        )
        kinds += ["balanced", kind]
    order = rng.permutation(n)
    return Parentheses(
        sequences=tuple(sequences[i] for i in order),
        labels=(order % 2 == 0).astype(np.int64),
        kinds=tuple(kinds[i] for i in order),
        n_colours=n_colours,
    )


def adversarial(
    rng: np.random.Generator,
    n: int,
    *,
    pairs: int | tuple[int, int] = (3, 15),
    n_colours: int = 5,
    exclude: Iterable[ArrayLike] | None = None,
) -> Parentheses:
    """Right counts, wrong order: `parentheses` with every kind of RIGHT_COUNTS that n_colours
    allows, coupled, so that the two classes hold exactly the same symbols, string by string."""
    kinds = [kind for kind in RIGHT_COUNTS if n_colours > 1 or kind not in COLOURED]
    return parentheses(
        rng, n, pairs=pairs, n_colours=n_colours, negatives=kinds, coupled=True, exclude=exclude
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Copy:
    """tokens and targets (N, T) int64 for `model(tokens) -> logits`, answers (N, n_copied); the
    targets are the answers at the last n_copied positions and `IGNORE` elsewhere."""

    tokens: NDArray[np.int64]
    targets: NDArray[np.int64]
    answers: NDArray[np.int64]
    vocab_size: int


def copy_task(
    rng: np.random.Generator,
    n: int,
    *,
    delay: int,
    n_symbols: int = 7,
    n_distractors: int = 3,
    n_copied: int = 1,
) -> Copy:
    """Symbols at the start that are asked for after `delay` distractors; T = 2·n_copied + delay.

    The "tickets" sentence without its words. Ids: the symbols are 0 … n_symbols − 1, then come
    n_distractors ids that carry nothing, last the question mark, vocab_size − 1, which stands at
    each of the last n_copied positions. Each symbol is the answer equally often, to within one, at
    every position, so guessing scores 1 / n_symbols and costs ln n_symbols nats.

    Raises ValueError if delay < 0, n_symbols < 2 or another number is below 1. After Hochreiter &
    Schmidhuber (1997), experiment 2, and, with n_copied > 1, the copying problem of Arjovsky, Shah
    & Bengio (2016), whose distractors are one blank (n_distractors=1).
    """
    if n < 1 or delay < 0 or n_symbols < 2 or n_distractors < 1 or n_copied < 1:
        raise ValueError(
            "expected n, n_distractors, n_copied >= 1, n_symbols >= 2, delay >= 0: "
            f"{n=}, {n_distractors=}, {n_copied=}, {n_symbols=}, {delay=}"
        )
    even = np.tile(np.arange(n)[:, None] % n_symbols, (1, n_copied))
    answers = rng.permuted(even, axis=0)  # (N, n_copied)
    distractors = n_symbols + rng.integers(n_distractors, size=(n, delay))
    marks = np.full((n, n_copied), n_symbols + n_distractors)
    silence = np.full((n, n_copied + delay), IGNORE)
    return Copy(
        tokens=np.concatenate([answers, distractors, marks], axis=1),
        targets=np.concatenate([silence, answers], axis=1),
        answers=answers,
        vocab_size=n_symbols + n_distractors + 1,
    )


def _endless(rng: np.random.Generator, block: int, pairs: int, n_colours: int) -> Iterator[Symbols]:
    """Balanced strings one by one, drawn a block at a time."""
    while True:
        yield from balanced(rng, block, pairs=pairs, n_colours=n_colours)


def _couple(
    stock: Iterator[Symbols],
    make_wrong: Callable[[Symbols], Symbols | None],
    coupled: bool,
    taken: set[bytes] | None,
    what: str,
) -> tuple[Symbols, Symbols]:
    """A right and a wrong string, both new to `taken`, if there is one, and entered there."""

    def is_new(sequence: Symbols) -> bool:
        return taken is None or _key(sequence) not in taken

    right = None
    for _ in range(_TRIES):
        base = next(stock)
        wrong = make_wrong(base)
        if wrong is None:
            continue
        if coupled:
            right = base
        elif right is None:  # the wrong one is made from another
            right = base if is_new(base) else None
            continue
        if is_new(right) and is_new(wrong):
            if taken is not None:
                taken |= {_key(right), _key(wrong)}
            return right, wrong
    raise ValueError(f"found no further {what} in {_TRIES} tries: too few strings are left")


def _key(sequence: ArrayLike) -> bytes:
    return np.asarray(sequence, dtype=np.int64).tobytes()


def _check(n: int, low: int, high: int, n_colours: int, negatives: Sequence[str]) -> None:
    if n < 2 or n % 2:
        raise ValueError(f"two classes of one size need an even n >= 2, got {n}")
    if not 1 <= low <= high or n_colours < 1:
        raise ValueError(
            f"expected 1 <= low <= high pairs, n_colours >= 1: {low=}, {high=}, {n_colours=}"
        )
    if isinstance(negatives, str) or not negatives:
        raise ValueError(f"expected a list of names out of KINDS, got {negatives!r}")
    for kind in negatives:
        if kind not in KINDS:
            raise ValueError(f"no kind is called {kind!r}; there are {', '.join(map(repr, KINDS))}")
        needed = NEEDED_PAIRS.get(kind, 1)
        if low < needed or (kind in COLOURED and n_colours < 2):
            colours = 2 if kind in COLOURED else 1
            raise ValueError(
                f"{kind!r} needs {needed} or more pairs and {colours} or more colours, "
                f"got {low=}, {n_colours=}"
            )
