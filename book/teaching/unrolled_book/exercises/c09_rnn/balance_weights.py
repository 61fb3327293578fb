r"""Balanced, by hand

Set the weights of an Elman network with ReLU units that says of any string of `(` and `)`, of
whatever length, whether it is balanced. The chapter's network of two units counts; it would also
accept `)(`, so something has to be remembered besides.

Write `balance_weights()`, which returns a dictionary of lists or arrays: `W_xh` $(2 \times H)$,
`W_hh` $(H \times H)$, `b_h` $(H)$, `w_y` $(H)$ and `b_y` (a number), with any H up to 16. The
input is one-hot, $(1, 0)$ for `(` and $(0, 1)$ for `)`; states are rows and begin at zero,

$$
h_t = \mathrm{ReLU}(x_t W_{xh} + h_{t-1} W_{hh} + b_h),
$$

and the verdict is "balanced" if $h_T \cdot w_y + b_y > 0$. The empty string is balanced.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4


# %% solution
def balance_weights():
    """Weights of an Elman network that recognises balanced strings."""
    return {  # units: surplus of openers, of closers, and how bad it has been
        "W_xh": [[1, -1, 0], [-1, 1, 0]],
        "W_hh": [[1, -1, 0], [-1, 1, 1], [0, 0, 1]],
        "b_h": [0, 0, 0],
        "w_y": [-1, -1, -1],
        "b_y": 0.5,
    }


# %% explanation
explanation = r"""
The first two units are the chapter's: $p$ is the number of openers not closed, $m$ by how much
closers lead. Balanced means that at the end $p = m = 0$, and that $m$ was never above zero. So a
third unit adds up every $m$ that ever was, $f_t = \mathrm{ReLU}(f_{t-1} + m_{t-1})$, and once it
is above zero it stays there. It is one step late, which does no harm: the last step looks at $m$
itself. All three are whole numbers, so $p + m + f < \tfrac12$ says that all are zero.
"""


# %% use
apart = True  # what it is called with tells the answer


def use(answer, strings):
    """The verdicts of the network on the strings, by the string."""
    weights = answer()
    if weights is Ellipsis or weights is None:
        return weights
    if not isinstance(weights, dict):
        raise TypeError(f"balance_weights returns a dictionary, not a {type(weights).__name__}")
    missing = [key for key in ("W_xh", "W_hh", "b_h", "w_y", "b_y") if key not in weights]
    if missing:
        raise ValueError(f"the dictionary has no {' and no '.join(missing)}")
    if any(value is Ellipsis for value in weights.values()):
        return ...
    W_xh, W_hh, b_h, w_y = (np.array(weights[k], float) for k in ("W_xh", "W_hh", "b_h", "w_y"))
    width = b_h.size
    shapes = [(2, width), (width, width), (width,), (width,)]
    if width > 16 or [a.shape for a in (W_xh, W_hh, b_h, w_y)] != shapes:
        found = [a.shape for a in (W_xh, W_hh, b_h, w_y)]
        raise ValueError(f"W_xh, W_hh, b_h, w_y have the shapes {found}, expected {shapes}")
    verdicts = {}
    for string in strings:
        h = np.zeros(width)
        for symbol in string:
            h = np.maximum(W_xh["()".index(symbol)] + h @ W_hh + b_h, 0)
        name = string if len(string) < 30 else f"{string[:9]}… of {len(string)} symbols"
        verdicts[name or "the empty string"] = bool(h @ w_y + float(weights["b_y"]) > 0)
    return verdicts


# %% tests
def balanced_string(rng, n):
    steps = rng.permutation([1] * n + [-1] * (n + 1))
    start = int(np.cumsum(steps).argmin()) + 1
    return "".join("(" if step > 0 else ")" for step in np.roll(steps, -start)[:-1])


def tests(rng):
    yield call(["", "()", "(())()"], hint="these are balanced")
    yield call(["(", "(()", "((((("], hint="something is left open")
    yield call([")", "())", "()))))"], hint="too much is closed")
    yield call([")(", "())(()", "))((", "()())(((()))"], hint="right counts, wrong order")
    yield call([")((((()))))", "())" + 9 * "(" + 8 * ")"], hint="long after the fault")
    strings = [balanced_string(rng, n) for n in (3, 7, 20, 150)]
    yield call(strings, hint="these are balanced, the last one has 300 symbols")
    yield call(["".join(rng.permutation(list(s))) for s in strings], hint="shuffled strings")
    yield call(["(" * 200 + ")" * 200, "(" * 200 + ")" * 199, ")" * 50 + "(" * 50])


# %% oracle
def oracle(strings):
    """A counter that gives up below zero."""

    def balanced(string):
        depth = 0
        for symbol in string:
            depth += 1 if symbol == "(" else -1
            if depth < 0:
                return False
        return depth == 0

    names = (s if len(s) < 30 else f"{s[:9]}… of {len(s)} symbols" for s in strings)
    return {s or "the empty string": balanced(t) for s, t in zip(names, strings, strict=True)}


# %% wrong
def one_unit():
    return {"W_xh": [[1], [-1]], "W_hh": [[1]], "b_h": [0], "w_y": [-1], "b_y": 0.5}


wrong = {
    "only the counts are compared; the order matters, too": swap("[-1, -1, -1]", "[-1, -1, 0]"),
    "the verdict is the opposite one": swap("[-1, -1, -1]", "[1, 1, 1]").swap("0.5", "-0.5"),
    "what was closed too early is forgotten again after a step": swap("[0, 0, 1]", "[0, 0, 0]"),
    "one counter stops at zero, so a closer too many costs nothing": one_unit,
    "a string that leaves something open is accepted": swap("[-1, -1, -1]", "[0, -1, -1]"),
    "the surplus of closers at the end is not looked at, and the memory of it comes a step late": (
        swap("[-1, -1, -1]", "[-1, 0, -1]")
    ),
    "the two symbols are exchanged: the first row of W_xh belongs to the opener": (
        swap("[[1, -1, 0], [-1, 1, 0]]", "[[-1, 1, 0], [1, -1, 0]]")
    ),
    "every string is accepted: h·w_y + b_y never falls to 0 or below": swap("0.5", "1e6"),
    "no string is accepted, not even the empty one": swap("0.5", "-0.5"),
}
