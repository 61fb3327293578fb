"""Balanced and coloured parentheses, and ways of making them wrong (chapters 9 and 11).

`unrolled_book.tasks.symbols` makes labelled sets of them.
With c colours there are 2c symbols: 0 … c − 1 open, and what i opens, j closes when i + j = 2c − 1.
One colour is the plain "(" = 0 and ")" = 1; five colours are the ten symbols with i + j = 9:

>>> is_balanced([0, 3, 6, 9]), is_balanced([0, 3, 9, 6])
(True, False)

A wrong string is as long as the right one it was made from. Its faults, and what finds them:

unbalance  One opener made its closer, or the other way round. Solved by counting openers against
           closers: no colours, no order.
recolour   One symbol takes another colour and stays an opener or a closer. Solved by counting each
           colour by itself, without order.
shuffle    The symbols in random order. All counts are right, but order without colour nearly
           solves it: only in one of n + 1 shuffles of n pairs does the depth stay at 0 or above.
invert     A matching pair at depth one trades places: "(w)" becomes ")w(". All counts are right.
           Solved without colour: the depth falls below 0.
swap       Two closers of different colour trade places. Counts and depths are right; the open
           colours must be remembered. Yet neighbours give most away: an opener directly before a
           closer of another colour occurs in all of them at two pairs, in four of five at fifteen.
deep       A swap of two closers that both follow a closer. No two neighbours give it away: the
           colour must be carried across the symbols between.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from unrolled.validate import checked, one_of, whole

Symbols = NDArray[np.int64]

KINDS = ("unbalance", "recolour", "shuffle", "invert", "swap", "deep")
RIGHT_COUNTS = ("shuffle", "invert", "swap", "deep")  # each symbol as often as in a right string
NEEDED_PAIRS = {"swap": 2, "deep": 3}  # the others need one
COLOURED = ("recolour", "swap", "deep")  # impossible with one colour


def is_balanced(sequence: ArrayLike, n_colours: int = 5) -> bool:
    """Whether the symbols (n,) are balanced, by a stack: push what opens, pop what closes it.

    The empty string is balanced. Raises ValueError for a symbol outside 0 … 2·n_colours − 1.
    """
    stack: list[int] = []
    whole("n_colours", n_colours)
    for symbol in _symbols(sequence).tolist():
        if not 0 <= symbol < 2 * n_colours:
            raise ValueError(f"symbol {symbol} is not in 0 .. {2 * n_colours - 1}")
        if symbol < n_colours:
            stack.append(symbol)
        elif not stack or stack.pop() + symbol != 2 * n_colours - 1:
            return False
    return not stack


@checked
def balanced(
    rng: np.random.Generator, n: int, *, pairs: int, n_colours: int = 5
) -> NDArray[np.int64]:
    """n balanced strings (n, 2·pairs): every shape equally likely, every colour independently.

    By the cycle lemma (Dvoretzky & Motzkin, 1947): of the 2·pairs + 1 rotations of a string of
    `pairs` steps up and pairs + 1 down, exactly one stays at 0 or above until its last step. It
    starts right after the original first reaches its lowest point.
    """
    for name, value in (("n", n), ("pairs", pairs), ("n_colours", n_colours)):
        whole(name, value)
    steps = np.repeat(np.array([1, -1]), [pairs, pairs + 1])
    steps = rng.permuted(np.tile(steps, (n, 1)), axis=1)  # (n, 2·pairs + 1)
    start = steps.cumsum(axis=1).argmin(axis=1) + 1
    around = (start[:, None] + np.arange(2 * pairs)) % (2 * pairs + 1)
    steps = np.take_along_axis(steps, around, axis=1)  # (n, 2·pairs)
    level = steps.cumsum(axis=1) + (steps < 0)  # that of an opener and of its closer
    symbols = rng.integers(n_colours, size=steps.shape)
    opened, rows = np.zeros((n, pairs + 1), dtype=np.int64), np.arange(n)
    for t in range(2 * pairs):
        opens, at = steps[:, t] > 0, level[:, t]
        opened[rows[opens], at[opens]] = symbols[opens, t]
        symbols[:, t] = np.where(opens, symbols[:, t], 2 * n_colours - 1 - opened[rows, at])
    return symbols


@checked
def corrupt(
    rng: np.random.Generator, sequence: Symbols, kind: str, n_colours: int = 5
) -> Symbols | None:
    """A balanced string (n,) made unbalanced in the way of KINDS; None when this one cannot be.

    The input is left unchanged. Raises ValueError for an unknown kind.
    """
    one_of("kind", kind, KINDS)
    if not (sequence := _symbols(sequence)).size or not is_balanced(sequence, n_colours):
        raise ValueError(f"sequence must be balanced and not empty, got {sequence.tolist()}")
    if kind == "shuffle":
        while is_balanced(wrong := rng.permutation(sequence), n_colours):
            pass  # ends: already the reversed string is wrong
        return wrong
    wrong = sequence.copy()
    if kind == "unbalance":
        at = rng.integers(len(sequence))
        wrong[at] = 2 * n_colours - 1 - wrong[at]
        return wrong
    if kind in COLOURED and n_colours < 2:
        return None
    if kind == "recolour":
        at = rng.integers(len(sequence))
        first = n_colours * (wrong[at] // n_colours)  # the first opener or the first closer
        wrong[at] = first + (wrong[at] - first + rng.integers(1, n_colours)) % n_colours
        return wrong
    if kind == "invert":
        pairs = _matching_pairs(sequence, n_colours)
    else:
        pairs = _two_closers(sequence, n_colours, deep=kind == "deep")
    if not len(pairs):
        return None
    pair = pairs[rng.integers(len(pairs))]
    wrong[pair] = wrong[pair[::-1]]
    return wrong


def _symbols(sequence: ArrayLike) -> Symbols:
    symbols = np.asarray(sequence)
    if symbols.ndim != 1 or (symbols.size and symbols.dtype.kind not in "iu"):
        got = f"{symbols.dtype} {symbols.shape}"
        raise TypeError(f"sequence must be integers (n,), got {got}")
    return symbols


def _matching_pairs(sequence: Symbols, n_colours: int) -> NDArray[np.int64]:
    """The positions (·, 2) of every opener at depth one and its closer."""
    ends = np.flatnonzero(np.where(sequence < n_colours, 1, -1).cumsum() == 0)
    return np.stack([np.append(0, ends[:-1] + 1), ends], axis=1)


def _two_closers(sequence: Symbols, n_colours: int, deep: bool) -> NDArray[np.int64]:
    """The positions (·, 2) of every two closers of different colour."""
    closers = np.flatnonzero(sequence >= n_colours)
    if deep:  # neither directly after an opener
        closers = closers[sequence[closers - 1] >= n_colours]
    different = np.triu(sequence[closers][:, None] != sequence[closers])
    return closers[np.argwhere(different)]
