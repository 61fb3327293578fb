r"""How large may a sub-layer be?

A stack has `n_sublayers` sub-layers, each of which adds something independent of what is there, of
standard deviation $s$ (the embedding has 1). At least the share `left` of the embedding's size is
to arrive at the top: after the last norm in pre-LN, after the last of many in post-LN.

Write `largest_size(left, n_sublayers, place)`: the largest $s$ that allows it, for `place` `"pre"`
or `"post"`. `left` is above 0 and at most 1.
"""

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def largest_size(left, n_sublayers, place):
    """The largest std of a sub-layer that leaves so much of the embedding."""
    if place == "post":
        return (left ** (-2 / n_sublayers) - 1) ** 0.5
    return ((left**-2 - 1) / n_sublayers) ** 0.5


# %% explanation
explanation = r"""
Pre-LN leaves $(1 + n s^2)^{-1/2}$, which is at least $\ell$ where $1 + n s^2 \le \ell^{-2}$.
Post-LN leaves $(1 + s^2)^{-n/2}$, so $1 + s^2 \le \ell^{-2/n}$.

For half of the embedding and 24 sub-layers, pre-LN allows $s = 0.35$ and post-LN $s = 0.24$. Both
fall like $1/\sqrt n$ with depth: for large $n$, $\ell^{-2/n} - 1 \approx \frac{2}{n} \ln
\frac1\ell$. That is why a start that is smaller by $1/\sqrt n$ helps post-LN at any depth, and why
the place of the norm matters less then.
"""


# %% tests
def tests(rng):
    yield call(0.5, 4, "pre", visible=True)
    yield call(0.5, 4, "post", visible=True)
    for place in ("pre", "post"):
        yield call(0.5, 24, place, hint=f"12 blocks, {place}-LN")
        left, n = float(rng.uniform(0.05, 0.95)), int(rng.integers(2, 200))
        yield call(left, n, place)
        yield call(left, 1, place, hint="a single sub-layer: both places are the same")
        yield call(1.0, 6, place, hint="all is to be left", tolerance=1e-7)


# %% oracle
def oracle(left, n_sublayers, place):
    """Bisection on a stack that adds orthogonal parts."""
    import numpy as np

    def arrives(s):
        x = np.zeros(n_sublayers + 1)
        x[0] = 1.0
        for k in range(1, n_sublayers + 1):
            x[k] = s
            x = x / np.linalg.norm(x) if place == "post" else x
        return x[0] / np.linalg.norm(x)

    low, high = 0.0, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if arrives(middle) >= left else (low, middle)
    return low


oracle_tolerance = 1e-5  # near left = 1 the share falls with s², so s is found to the root of 1e-16


# %% wrong
wrong = {
    "this is s², the variance; s is its root": (
        swap("- 1) ** 0.5", "- 1)").swap("n_sublayers) ** 0.5", "n_sublayers)")
    ),
    "the places are exchanged: post-LN divides at every sub-layer": (
        swap('place == "post"', 'place == "pre"')
    ),
    "the place is ignored: this is pre-LN": swap('place == "post"', "False"),
    "the place is ignored: this is post-LN": swap('place == "post"', "True"),
    "a norm divides by the standard deviation, so the variance counts: left is squared": (
        swap("left ** (-2 / n_sublayers)", "left ** (-1 / n_sublayers)")
        .swap("left**-2", "left**-1")
    ),
    "the embedding's own variance of 1 was not subtracted": (
        swap("n_sublayers) - 1)", "n_sublayers))").swap("(left**-2 - 1)", "(left**-2)")
    ),
    "in pre-LN the variance that is left for the sub-layers is shared by all of them": (
        swap("((left**-2 - 1) / n_sublayers)", "(left**-2 - 1)")
    ),
    "in post-LN every norm takes its share: the power is −2/n, not −2": (
        swap("left ** (-2 / n_sublayers)", "left**-2")
    ),
    "n_sublayers counts the sub-layers already; here it was doubled": (
        swap("(-2 / n_sublayers)", "(-1 / n_sublayers)")
        .swap("1) / n_sublayers", "1) / (2 * n_sublayers)")
    ),
}  # fmt: skip
