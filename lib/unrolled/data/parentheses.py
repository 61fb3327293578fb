"""Balanced and coloured parentheses, and ways of making them wrong. (`tasks` makes labelled sets.)

With c colours there are 2c symbols: 0 … c − 1 open, and what i opens, j closes when i + j = 2c − 1.
One colour is the plain "(" = 0 and ")" = 1; five colours are the ten symbols with i + j = 9:

>>> is_balanced([0, 3, 6, 9]), is_balanced([0, 3, 9, 6])
(True, False)

The kinds of wrong strings, each as long as the right one it was, and what is enough to find them:

unbalance  One opener made its closer, or the other way round. Solved by counting openers against
           closers: no colours, no order.
recolour   One symbol takes another colour and stays an opener or a closer. Solved by counting each
           colour by itself, without order.
shuffle    The symbols in random order. All counts are right, but order without colour nearly
           solves it: of all shuffles of n pairs one in n + 1 keeps the depth from falling below 0.
invert     A matching pair at depth one trades places: "(w)" becomes ")w(". All counts are right.
           Solved by noticing that the depth falls below 0, without colour.
swap       Two closers of different colour trade places. Counts and depths are right; what is open
           must be remembered. Yet neighbours give most away: an opener that a closer of another
           colour follows at once stands in all of them at two pairs, in four of five at fifteen.
deep       A swap of two closers neither of which stands right after an opener. No two neighbours
           give it away: the colour must be carried across what stands between.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    for symbol in np.asarray(sequence).tolist():
        if not 0 <= symbol < 2 * n_colours:
            raise ValueError(f"symbol {symbol} is not in 0 .. {2 * n_colours - 1}")
        if symbol < n_colours:
            stack.append(symbol)
        elif not stack or stack.pop() + symbol != 2 * n_colours - 1:
            return False
    return not stack


def balanced(
    rng: np.random.Generator, n: int, *, pairs: int, n_colours: int = 5
) -> NDArray[np.int64]:
    """n balanced strings (n, 2·pairs): every shape equally likely, every colour independently.

    By the cycle lemma (Dvoretzky & Motzkin, 1947): of the 2·pairs + 1 rotations of a string of
    `pairs` steps up and pairs + 1 down, just one stays at 0 or above until its last step. It starts
    after the lowest point's first visit. Raises ValueError if a number is below 1.
    """
    if min(n, pairs, n_colours) < 1:
        raise ValueError(f"expected numbers >= 1, got {n=}, {pairs=}, {n_colours=}")
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


def corrupt(
    rng: np.random.Generator, sequence: Symbols, kind: str, n_colours: int = 5
) -> Symbols | None:
    """A balanced string (n,) made unbalanced in the way of KINDS; None when this one cannot be.

    The input is left unchanged. Raises ValueError for an unknown kind.
    """
    if kind not in KINDS:
        raise ValueError(f"no kind is called {kind!r}; there are {', '.join(map(repr, KINDS))}")
    return _CORRUPT[kind](rng, sequence, n_colours)


def _closers(sequence: Symbols, n_colours: int) -> NDArray[np.int64]:
    return np.flatnonzero(sequence >= n_colours)


def _unbalance(rng: np.random.Generator, sequence: Symbols, n_colours: int) -> Symbols:
    wrong, at = sequence.copy(), rng.integers(len(sequence))
    wrong[at] = 2 * n_colours - 1 - wrong[at]
    return wrong


def _recolour(rng: np.random.Generator, sequence: Symbols, n_colours: int) -> Symbols | None:
    if n_colours < 2:
        return None
    wrong, at = sequence.copy(), rng.integers(len(sequence))
    first = n_colours * (wrong[at] // n_colours)  # the first opener or the first closer
    wrong[at] = first + (wrong[at] - first + rng.integers(1, n_colours)) % n_colours
    return wrong


def _shuffle(rng: np.random.Generator, sequence: Symbols, n_colours: int) -> Symbols:
    while is_balanced(wrong := rng.permutation(sequence), n_colours):
        pass  # ends: already the reversed string is wrong
    return wrong


def _invert(rng: np.random.Generator, sequence: Symbols, n_colours: int) -> Symbols:
    depth = np.where(sequence < n_colours, 1, -1).cumsum()
    ends = np.flatnonzero(depth == 0)
    which = rng.integers(len(ends))
    close = ends[which]
    return _exchange(sequence, 0 if which == 0 else ends[which - 1] + 1, close)


def _swap(rng: np.random.Generator, sequence: Symbols, n_colours: int) -> Symbols | None:
    return _swap_two(rng, sequence, _closers(sequence, n_colours))


def _deep(rng: np.random.Generator, sequence: Symbols, n_colours: int) -> Symbols | None:
    closers = _closers(sequence, n_colours)
    return _swap_two(rng, sequence, closers[sequence[closers - 1] >= n_colours])


def _swap_two(
    rng: np.random.Generator, sequence: Symbols, places: NDArray[np.int64]
) -> Symbols | None:
    """Two of the places with different symbols exchanged, every such two equally likely."""
    first, second = np.nonzero(np.triu(sequence[places][:, None] != sequence[places]))
    if not len(first):
        return None
    which = rng.integers(len(first))
    return _exchange(sequence, places[first[which]], places[second[which]])


def _exchange(sequence: Symbols, i: int, j: int) -> Symbols:
    wrong = sequence.copy()
    wrong[[i, j]] = wrong[[j, i]]
    return wrong


_CORRUPT: dict[str, Callable[[np.random.Generator, Symbols, int], Symbols | None]] = {
    "unbalance": _unbalance,
    "recolour": _recolour,
    "shuffle": _shuffle,
    "invert": _invert,
    "swap": _swap,
    "deep": _deep,
}
