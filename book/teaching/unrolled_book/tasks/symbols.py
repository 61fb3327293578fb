"""Labelled sets for the tasks of memory (chapters 9 to 11): parentheses, and delayed copying.

Everything is numpy int64 and drawn from the given generator: the same seed gives the same set.
`tasks.parentheses` makes the strings and their faults, `unrolled.data.batches.pad` pads sequences
of several lengths.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from unrolled.data.batches import IGNORE
from unrolled.validate import checked, one_of, whole

from unrolled_book.tasks.parentheses import (
    COLOURED,
    KINDS,
    NEEDED_PAIRS,
    RIGHT_COUNTS,
    balanced,
    corrupt,
)

Symbols = NDArray[np.int64]
_TRIES = 1000  # draws without a usable string before a set is called impossible


@dataclass(frozen=True, kw_only=True, eq=False)
class Parentheses:
    """Labelled strings, each with the kind of its fault."""

    sequences: tuple[Symbols, ...]  # N of int64 (length,)
    labels: NDArray[np.int64]  # (N,), 1 = balanced, 0 = not
    kinds: tuple[str, ...]  # N names, "balanced" or the fault, one of KINDS

    def __len__(self) -> int:
        return len(self.sequences)


@checked
def parentheses(
    rng: np.random.Generator,
    n: int,
    *,
    pairs: int | tuple[int, int] = (2, 15),
    n_colours: int = 5,
    negatives: Sequence[str] = ("swap",),
    coupled: bool = False,
) -> Parentheses:
    """n labelled strings, exactly half of them balanced, in random order.

    pairs: how many pairs, or (low, high), from which each number is equally likely. Each wrong
        string has a right one with as many pairs, so the length tells nothing. That right one is
        drawn from those that could have the same fault, so this tells nothing either when, say, a
        string has one colour only.
    negatives: names out of KINDS, dealt out in turn: their numbers differ by one at most.
    coupled: make each wrong string from the right string of its couple, not from another.

    Raises ValueError for an odd n, an unknown kind, and a kind that these numbers do not allow
    (swap needs two pairs, deep three, both and recolour two colours).
    """
    low, high = (pairs, pairs) if isinstance(pairs, int | np.integer) else pairs
    _check(n, low, high, n_colours, negatives)
    sizes = rng.integers(low, high + 1, size=n // 2).tolist()
    stock = {s: _endless(rng, 2 * count, s, n_colours) for s, count in Counter(sizes).items()}
    sequences: list[Symbols] = []
    kinds: list[str] = []
    for kind, size in zip(itertools.cycle(negatives), sizes, strict=False):
        sequences += _couple(rng, stock[size], kind, n_colours, coupled)
        kinds += ["balanced", kind]
    order = rng.permutation(n)
    return Parentheses(
        sequences=tuple(sequences[i] for i in order),
        labels=(order % 2 == 0).astype(np.int64),
        kinds=tuple(kinds[i] for i in order),
    )


@checked
def adversarial(
    rng: np.random.Generator, n: int, *, pairs: int | tuple[int, int] = (3, 15), n_colours: int = 5
) -> Parentheses:
    """Right counts, wrong order: `parentheses` with every kind of RIGHT_COUNTS that n_colours
    allows, coupled, so that the two classes hold exactly the same symbols, string by string."""
    kinds = [kind for kind in RIGHT_COUNTS if n_colours > 1 or kind not in COLOURED]
    return parentheses(rng, n, pairs=pairs, n_colours=n_colours, negatives=kinds, coupled=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class Copy:
    """For `model(tokens) -> logits`: each answer is a target at one of the last positions."""

    tokens: NDArray[np.int64]  # (N, T)
    targets: NDArray[np.int64]  # (N, T), `IGNORE` but at the last n_copied positions
    answers: NDArray[np.int64]  # (N, n_copied)
    vocab_size: int


@checked
def copy_task(
    rng: np.random.Generator,
    n: int,
    *,
    delay: int,
    n_symbols: int = 7,
    n_distractors: int = 3,
    n_copied: int = 1,
) -> Copy:
    """n_copied symbols, `delay` distractors, then n_copied questions: T = 2·n_copied + delay.

    The "tickets" sentence without its words. Ids 0 … n_symbols − 1 are the symbols; the next
    n_distractors carry nothing; the last, vocab_size − 1, is the question mark at each of the last
    n_copied positions. At every position each symbol is the answer equally often, to within one, so
    guessing scores 1 / n_symbols and costs ln n_symbols nats.

    After Hochreiter & Schmidhuber (1997), experiment 2, and, with n_copied > 1, the copying problem
    of Arjovsky, Shah & Bengio (2016), whose distractors are one blank (n_distractors=1).
    """
    whole("delay", delay, 0)
    whole("n_symbols", n_symbols, 2)
    for name, value in (("n", n), ("n_distractors", n_distractors), ("n_copied", n_copied)):
        whole(name, value)
    even = np.tile(np.arange(n)[:, None] % n_symbols, (1, n_copied))
    answers = rng.permuted(even, axis=0)  # (N, n_copied)
    distractors = n_symbols + rng.integers(n_distractors, size=(n, delay))
    questions = np.full((n, n_copied), n_symbols + n_distractors)
    ignored = np.full((n, n_copied + delay), IGNORE)
    return Copy(
        tokens=np.concatenate([answers, distractors, questions], axis=1),
        targets=np.concatenate([ignored, answers], axis=1),
        answers=answers,
        vocab_size=n_symbols + n_distractors + 1,
    )


def _endless(rng: np.random.Generator, block: int, pairs: int, n_colours: int) -> Iterator[Symbols]:
    """Balanced strings one by one, drawn a block at a time."""
    while True:
        yield from balanced(rng, block, pairs=pairs, n_colours=n_colours)


def _couple(
    rng: np.random.Generator, stock: Iterator[Symbols], kind: str, n_colours: int, coupled: bool
) -> tuple[Symbols, Symbols]:
    """A right string and a wrong one, made from it if they are coupled, else from the next."""
    right = None
    for base in itertools.islice(stock, _TRIES):
        wrong = corrupt(rng, base, kind, n_colours)
        if wrong is None:
            continue
        if coupled or right is not None:
            return base if coupled else right, wrong
        right = base
    raise ValueError(f"found no string to {kind} in {_TRIES} tries")


def _check(n: int, low: int, high: int, n_colours: int, negatives: Sequence[str]) -> None:
    if whole("n", n, 2) % 2:
        raise ValueError(f"two classes of one size need an even n, got {n}")
    whole("the largest number of pairs", high, whole("the smallest number of pairs", low))
    whole("n_colours", n_colours)
    if not negatives:
        raise ValueError(f"expected a list of names out of KINDS, got {negatives!r}")
    for kind in negatives:
        pairs, colours = NEEDED_PAIRS.get(one_of("a kind", kind, KINDS), 1), 1 + (kind in COLOURED)
        if low < pairs or n_colours < colours:
            raise ValueError(
                f"{kind!r} needs {pairs} or more pairs and {colours} or more colours, "
                f"got {low=}, {n_colours=}"
            )
