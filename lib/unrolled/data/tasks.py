"""Labelled sets for the tasks of memory (chapters 9 to 11): parentheses, and delayed copying.

Everything is numpy int64 and comes from the generator that is passed in: the same seed gives the
same set. `unrolled.data.parentheses` makes the strings and their faults, and
`unrolled.data.batches.pad` pads sequences of several lengths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unrolled.data.batches import IGNORE
from unrolled.data.parentheses import COLOURED, KINDS, NEEDED_PAIRS, RIGHT_COUNTS, balanced, corrupt
from unrolled.validate import one_of, whole

Symbols = NDArray[np.int64]
_TRIES = 1000  # draws without a usable string before a set is called impossible


@dataclass(frozen=True, kw_only=True, eq=False)
class Parentheses:
    """Labelled strings: sequences of int64 (length,), labels (N,) int64 with 1 = balanced, 0 = not,
    and kinds (N names), "balanced" or, out of KINDS, the fault of the string."""

    sequences: tuple[Symbols, ...]
    labels: NDArray[np.int64]
    kinds: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.sequences)


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

    pairs: how many pairs, or (low, high), from which each number is equally likely. For every wrong
        string there is a right one with as many pairs, so the length tells nothing. The right ones
        are drawn among those that could be corrupted in the same way, so it tells nothing either
        when, say, a string has one colour only.
    negatives: names out of KINDS, dealt out in turn: their numbers differ by one at most.
    coupled: make each wrong string from the right string of its couple, not from another.

    Raises ValueError for an odd n, an unknown kind, and a kind that these numbers do not allow
    (swap needs two pairs, deep three, both and recolour two colours).
    """
    low, high = (pairs, pairs) if isinstance(pairs, int | np.integer) else pairs
    _check(n, low, high, n_colours, negatives)
    sizes = rng.integers(low, high + 1, size=n // 2).tolist()
    stock = {
        size: _endless(rng, 2 * count, size, n_colours) for size, count in Counter(sizes).items()
    }
    sequences: list[Symbols] = []
    kinds: list[str] = []
    for couple, size in enumerate(sizes):
        kind = negatives[couple % len(negatives)]
        sequences += _couple(rng, stock[size], kind, n_colours, coupled)
        kinds += ["balanced", kind]
    order = rng.permutation(n)
    return Parentheses(
        sequences=tuple(sequences[i] for i in order),
        labels=(order % 2 == 0).astype(np.int64),
        kinds=tuple(kinds[i] for i in order),
    )


def adversarial(
    rng: np.random.Generator, n: int, *, pairs: int | tuple[int, int] = (3, 15), n_colours: int = 5
) -> Parentheses:
    """Right counts, wrong order: `parentheses` with every kind of RIGHT_COUNTS that n_colours
    allows, coupled, so that the two classes hold exactly the same symbols, string by string."""
    kinds = [kind for kind in RIGHT_COUNTS if n_colours > 1 or kind not in COLOURED]
    return parentheses(rng, n, pairs=pairs, n_colours=n_colours, negatives=kinds, coupled=True)


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
    """n_copied symbols, `delay` distractors, then n_copied questions: T = 2·n_copied + delay.

    The "tickets" sentence without its words. Ids: the symbols are 0 … n_symbols − 1, then come
    n_distractors ids that carry nothing, last the question mark, vocab_size − 1, at each of the
    last n_copied positions. Each symbol is the answer equally often, to within one, at every
    position, so guessing scores 1 / n_symbols and costs ln n_symbols nats.

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
    for _ in range(_TRIES):
        base = next(stock)
        wrong = corrupt(rng, base, kind, n_colours)
        if wrong is None:
            continue
        if coupled:
            return base, wrong
        if right is not None:
            return right, wrong
        right = base
    raise ValueError(f"found no string to {kind} in {_TRIES} tries")


def _check(n: int, low: int, high: int, n_colours: int, negatives: Sequence[str]) -> None:
    if whole("n", n, 2) % 2:
        raise ValueError(f"two classes of one size need an even n, got {n}")
    whole("the largest number of pairs", high, whole("the smallest number of pairs", low))
    whole("n_colours", n_colours)
    if isinstance(negatives, str) or not negatives:
        raise ValueError(f"expected a list of names out of KINDS, got {negatives!r}")
    for kind in negatives:
        pairs, colours = NEEDED_PAIRS.get(one_of("a kind", kind, KINDS), 1), 1 + (kind in COLOURED)
        if low < pairs or n_colours < colours:
            raise ValueError(
                f"{kind!r} needs {pairs} or more pairs and {colours} or more colours, "
                f"got {low=}, {n_colours=}"
            )
