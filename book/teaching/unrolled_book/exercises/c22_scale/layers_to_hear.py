r"""How deep until it is heard?

`may_read` is a boolean array (T, T): row $i$ is True where position $i$ may read position $j$ in
a layer. Every layer has the same table.

Write `layers_to_hear(may_read, i, j)`: the smallest number of layers after which the output at
position `i` can depend on the input at position `j`. A position knows its own input before any
layer, and the skip path never lets it forget what it knows. If no number of layers is enough,
return -1. In the table `[[1, 0, 0], [1, 1, 0], [0, 1, 1]]`, whose rows read themselves and the
position before, position 2 hears position 0 after two layers.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def layers_to_hear(may_read, i, j):
    """Layers until position i depends on position j, -1 for never."""
    heard = np.arange(len(may_read)) == i
    n = 0
    while not heard[j]:
        more = heard | may_read[heard].any(axis=0)
        if (more == heard).all():
            return -1
        heard, n = more, n + 1
    return n


# %% explanation
explanation = r"""
Go backward from the reader. With no layer, position $i$ depends on itself alone. The last layer
adds what $i$ may read; the layer before adds what those positions may read, and so on. The union
with what was known is the skip path. When a layer adds nothing, no further one will.

With a window of $r$ positions each layer adds $r - 1$, so the first position is heard after
$\lceil (T - 1)/(r - 1) \rceil$ layers. With a causal table nothing later is ever heard: -1.
"""


# %% use
def use(answer, may_read, i, j):
    """The table crosses as a list."""
    return answer(np.array(may_read, dtype=bool), i, j)


def show(may_read, i, j):
    return f"layers_to_hear(np.array({may_read}, dtype=bool), {i}, {j})"


# %% tests
def tests(rng):
    yield call([[1, 0, 0], [1, 1, 0], [0, 1, 1]], 2, 0, visible=True)
    T, back = int(rng.integers(8, 14)), int(rng.integers(2, 4))
    window = [[int(0 <= i - j <= back) for j in range(T)] for i in range(T)]
    place = int(rng.integers(2, T - 2))
    yield call(window, T - 1, 0, hint="a window of a few positions")
    yield call(window, T - 1, place, hint="the same window, part of the way")
    yield call(window, place, T - 1, hint="the future")
    yield call(window, place, place, hint="its own input")
    yield call([[0]], 0, 0, hint="one position that reads nothing")
    yield call([[0, 1], [0, 0]], 1, 0, hint="a row that reads nothing")
    n = int(rng.integers(5, 9))
    far = [[int(j == (i - 1) % n) for j in range(n)] for i in range(n)]
    start = int(rng.integers(1, n - 2))
    yield call(far, start, n - 1, hint="a ring: each reads the one before, not itself")
    fork = [[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    yield call(fork, 0, 3, hint="a fork")
    yield call(fork, 0, 1, hint="a fork, the short side")
    for _ in range(3):
        table = (rng.random((11, 11)) < 0.15).astype(int).tolist()
        i, j = rng.permutation(11)[:2].tolist()
        yield call(table, i, j, hint="at random")


# %% oracle
def oracle(may_read, i, j):
    """Powers of the table with ones on its diagonal."""
    table = np.array(may_read, dtype=float) + np.eye(len(may_read))
    reached = np.eye(len(may_read))
    for n in range(len(may_read) + 1):
        if reached[i, j] > 0:
            return n
        reached = np.sign(table @ reached)
    return -1


# %% wrong
wrong = {
    "the table is read the other way round: row i holds what position i reads": swap(
        "may_read[heard].any(axis=0)", "may_read[:, heard].any(axis=1)"
    ),
    "before any layer a position knows its own input": swap("n = 0", "n = 1"),
    "one layer too few is counted": swap("return n", "return max(0, n - 1)"),
    "layers are counted, not the positions that were heard": swap(
        "return n", "return int(heard.sum()) - 1"
    ),
    "a way over other positions counts, too": swap(
        "    n = 0\n",
        "    n = 0\n    if not heard[j]:\n        return 1 if may_read[i, j] else -1\n",
    ),
    "what is never heard gives -1, not 0": swap("return -1", "return 0"),
    "the distance of the positions is not the number of layers": swap(
        "    n = 0\n", "    n = 0\n    if not heard[j]:\n        return abs(i - j)\n"
    ),
    "all positions that were heard read on, not the first of them alone": swap(
        "may_read[heard].any(axis=0)", "may_read[heard.argmax()]"
    ),
}
