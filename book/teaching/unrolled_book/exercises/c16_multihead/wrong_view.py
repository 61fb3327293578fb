r"""What the wrong view reads

The entry at position $t$ and column $c$ of a text `x`, $(T, D)$, shall go to head
$\lfloor c / K \rfloor$, row $t$, column $c \bmod K$ of $(H, T, K)$. The chapter's wrong line,
`x.view(H, T, K)`, leaves the entries in their order in memory instead.

Write `wrong_view(T, H, K)`: for a text of $T$ positions and a width of $D = HK$, a pair of arrays
of shape $(H, T, K)$ that say for each entry of `x.view(H, T, K)` *which position* and *which
column* of `x` it comes from. Then count with it, if you like: how many rows of a head still hold
the position that they should hold?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 2
outputs = ("position", "column")


# %% solution
def wrong_view(T, H, K):
    """Position and column in x of each entry of the view, both (H, T, K)."""
    D = H * K
    place = np.arange(T * D).reshape(H, T, K)  # the place in memory of each entry
    return place // D, place % D


# %% explanation
explanation = r"""
A contiguous `x` stores its rows one after the other, so position $t$ and column $c$ stand at place
$tD + c$. A view keeps the places and only counts them in another way: head $r$, row $s$, column $k$
of the view stand at place $(rT + s)K + k$. Divide by $D$: the quotient is the position, the
remainder the column.

Head 0 receives the first $TK$ places, which are the first $T/H$ positions. Its row $s$ holds a part
of position $\lfloor s/H \rfloor$, so from its row 1 on it holds an *earlier* position than it
should (unless there is one head only). The last head holds later ones, but for its last
row: its first comes from position $\lfloor (H-1)T/H \rfloor$. That is the leak which a causal mask
does not stop.
"""


# %% tests
def tests(rng):
    yield call(3, 2, 1, visible=True)
    yield call(3, 2, 3, hint="the chapter's case")
    H, T, K = (int(n) for n in rng.integers(2, 6, size=3))
    yield call(1, H, K, hint="a single position")
    yield call(T, 1, K, hint="one head: the view is right")
    yield call(int(rng.integers(6, 10)), 5, K, hint="5 heads; T is no multiple of H")
    yield call(*(int(n) for n in rng.integers(2, 6, size=3)), hint="sizes drawn at random")


# %% oracle
def oracle(T, H, K):
    """torch's own view of two tables that hold position and column."""
    import torch

    position = torch.arange(T)[:, None].repeat(1, H * K)
    column = torch.arange(H * K).repeat(T, 1)
    return position.view(H, T, K).numpy(), column.view(H, T, K).numpy()


# %% wrong
def right_split(T, H, K):
    place = np.arange(T * H * K).reshape(T, H, K).swapaxes(0, 1)
    return place // (H * K), place % (H * K)


wrong = {
    "this is the right split, where head r holds the columns rK to (r + 1)K − 1": right_split,
    "position and column are exchanged": swap("place // D, place % D", "place % D, place // D"),
    "a row of x has D = H·K columns, not K": swap("D = H * K", "D = K"),
    "a row of x has D = H·K columns, not T": swap("D = H * K", "D = T"),
    "the column is counted within the head, from 0 to K − 1, not within the row of x": (
        swap("place % D", "place % K")
    ),
    "positions and columns are counted from 1": (
        swap("place // D, place % D", "place // D + 1, place % D + 1")
    ),
    "the first axis is the position; the view's axes are (H, T, K)": (
        swap("reshape(H, T, K)", "reshape(T, H, K)")
    ),
    "the row's number is taken for the position it comes from": (
        swap("return place // D", "return np.arange(T)[:, None] + 0 * place")
    ),
}
