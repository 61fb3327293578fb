r"""How wide a window would be wide enough?

Take *all* balanced strings of one colour with $n$ pairs and every position in them, that is, each
beginning of each string, the empty one included and the whole string not. Someone sees only the
last `width` symbols of a beginning (the whole of it, where it is shorter, and then they know that
it is the whole). May a closer come next? The position is *undecided* if some position of some of
these strings looks the same to them and has the other answer.

Write `undecided_share(n_pairs, width)`: the share of the $2n$ positions of all the strings that are
undecided. **Predict** first, for strings of six pairs: how wide must the window be for no position
to be undecided? Then run it for all widths from 1 to 12.
"""

import itertools
from collections import defaultdict

from unrolled_book.exercises.engine import call, swap

kind, level, points = "experiment", 2, 3


# %% solution
def undecided_share(n_pairs, width):
    """The share of positions that the last `width` symbols do not decide."""
    seen, positions = defaultdict(set), []
    for steps in itertools.product((1, -1), repeat=2 * n_pairs):
        depths = [sum(steps[:i]) for i in range(2 * n_pairs + 1)]
        if min(depths) < 0 or depths[-1] != 0:
            continue
        for i in range(2 * n_pairs):
            # A full window does not say whether something stands before it.
            view = steps[max(0, i - width) : i], i < width
            seen[view].add(depths[i] > 0)
            positions.append(view)
    return sum(len(seen[view]) == 2 for view in positions) / len(positions)


# %% explanation
explanation = r"""
For six pairs the share is not zero before width 11, where the window holds every beginning there
is. The reason is the pair of strings from the opening of the chapter: `(()()()()()` is one opener
and five finished pairs, `()()()()()` the five pairs alone. They end in the same ten symbols. With
$n$ pairs a window must hold $2n - 1$ symbols. No shorter window is wide enough,
while a counter needs one number.

A window that is exactly full shows no beginning, even where nothing stands before it; whoever
treats a beginning of exactly `width` symbols as known to be whole gets a share that is too small.
"""


# %% tests
def hidden(rng):
    yield call(2, 2, hint="`()` and `(()` end in the same two symbols")
    yield call(4, 0, hint="without a window only the empty beginning is known, and not even that")
    for n_pairs in (3, 5):
        yield call(n_pairs, int(rng.integers(0, 2 * n_pairs + 1)))
    yield call(4, int(rng.integers(0, 9)))
    for n_pairs, width in [(1, 1), (3, 2), (4, 3), (5, 4), (6, 5), (4, 6), (4, 7)]:
        yield call(n_pairs, width)


def tests(rng):
    yield call(2, 1, visible=True)
    calls = list(hidden(rng))
    yield from (calls[i] for i in rng.permutation(len(calls)))


# %% oracle
def oracle(n_pairs, width):
    """A grammar makes the strings; every position is compared with every other."""

    def balanced(n):
        if n == 0:
            return [""]
        return [
            f"({inner}){rest}"
            for k in range(n)
            for inner in balanced(k)
            for rest in balanced(n - 1 - k)
        ]

    positions = [s[:i] for s in balanced(n_pairs) for i in range(2 * n_pairs)]
    looks = {}
    for position in set(positions):
        marked = ("^" + position)[-width:] if width else ""  # ^ where a text begins
        view = marked if len(position) < width else position[len(position) - width :]
        looks.setdefault(view, []).append(position)
    groups = {position: group for group in looks.values() for position in group}

    def may_close(position):
        return position.count("(") > position.count(")")

    undecided = [
        any(may_close(other) != may_close(position) for other in groups[position])
        for position in positions
    ]
    return sum(undecided) / len(undecided)


# %% wrong
wrong = {
    "a window that is exactly full is taken for the whole beginning": swap(
        "i < width", "i <= width"
    ),
    "strings are taken in that never go below zero but do not close everything": (
        swap(" or depths[-1] != 0", "")
    ),
    "the end of a string is counted as a position; nothing comes there": (
        swap("range(2 * n_pairs):", "range(2 * n_pairs + 1):")
    ),
    "each different window is counted once, however many positions look like it": (
        swap("    return", "    positions = set(positions)\n    return")
    ),
    "the window is one symbol too wide": swap(
        "    seen, positions", "    width += 1\n    seen, positions"
    ),
    "this is the share of decided positions; the undecided ones count": swap("== 2", "!= 2"),
    "the share is in per cent; give a number between 0 and 1": (swap("return ", "return 100 * ")),
}
