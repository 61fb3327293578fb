r"""Two readers, one answer

Two processes each read half of the keys and keep, for the same $T$ queries, what the online softmax
keeps: $m$ `(T,)`, $l$ `(T,)` and $o$ `(T, Kv)`. These alone, without any score, are enough to find
what a single reader of all keys would have. Write `merge_tiles(first, second)` for two such triples
of numpy arrays; return the triple of all keys.

A half may hold no key that a query may attend to. Then $m = -\infty$, $l = 0$ and $o = 0$ for this
query, and if that holds for both halves, also in the result. No NaN may appear, and the arguments
stay as they are.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("m", "l", "o")


# %% solution
def merge_tiles(first, second):
    """(m, l, o) of all keys from those of two halves."""
    (m1, l1, o1), (m2, l2, o2) = first, second
    m = np.maximum(m1, m2)
    base = np.where(m == -np.inf, 0, m)
    a, b = np.exp(m1 - base), np.exp(m2 - base)
    return m, a * l1 + b * l2, a[:, None] * o1 + b[:, None] * o2


# %% explanation
explanation = r"""
Each half's sums are relative to its own maximum. Relative to the common one, they shrink by
$e^{m_1 - m}$ and $e^{m_2 - m}$; one of the two factors is 1. Then they add up, because both are
sums over keys.

Where one half is empty its factor is $e^{-\infty - m} = 0$, and nothing has to be done. Only where
*both* are empty, $-\infty - (-\infty)$ is NaN; so 0 is subtracted there.

The rule is symmetric, and merging three halves in any order gives the same. That is why a long text
can be cut into pieces that different processors read at the same time: during generation a head
has one query for each text, and only its keys are left to share out.
"""


# %% tests
def tests(rng):
    yield call(
        (np.array([0.0]), np.array([1.5]), np.array([[8.0, 0.0]])),
        (np.array([0.6931471805599453]), np.array([1.25]), np.array([[8.0, 10.0]])),
        visible=True,
    )

    def half(scores, values):
        m = scores.max(1)
        p = np.exp(scores - np.where(m == -np.inf, 0, m)[:, None])
        return m, p.sum(1), p @ values

    for T, S1, S2, K, size in ((5, 3, 7, 2, 1.0), (2, 4, 4, 3, 30.0), (1, 6, 1, 1, 400.0)):
        one = half(size * rng.normal(size=(T, S1)), rng.normal(size=(S1, K)))
        two = half(size * rng.normal(size=(T, S2)), rng.normal(size=(S2, K)))
        yield call(one, two, hint=f"scores of about {size:g}")
    scores = rng.normal(size=(4, 6))
    scores[0, :3] = scores[1, 3:] = scores[2] = -np.inf
    values = rng.normal(size=(6, 2))
    yield call(
        half(scores[:, :3], values[:3]), half(scores[:, 3:], values[3:]),
        hint="row 0 has no key in the first half, row 1 none in the second, row 2 none at all",
    )  # fmt: skip
    high = (np.array([1000.0, -1000.0]), np.array([1.0, 2.0]), np.array([[3.0], [4.0]]))
    low = (np.array([-1000.0, 1000.0]), np.array([1.0, 2.0]), np.array([[5.0], [6.0]]))
    yield call(high, low, hint="one half counts for nothing")
    same = (np.array([2.0]), np.array([3.0]), np.array([[1.0, 2.0, 3.0]]))
    yield call(same, same, hint="twice the same half")


# %% oracle
def oracle(first, second):
    """Query by query, with fifty digits."""
    from decimal import Decimal, localcontext

    tops, totals, mixes = [], [], []
    with localcontext() as context:
        context.prec = 50
        for row in range(len(first[0])):
            halves = [(float(t[0][row]), t[1][row], t[2][row]) for t in (first, second)]
            halves = [h for h in halves if h[0] != -np.inf]
            top = max((h[0] for h in halves), default=-np.inf)
            factor = [(Decimal(h[0]) - Decimal(top)).exp() for h in halves]
            tops.append(top)
            totals.append(
                float(sum(f * Decimal(float(h[1])) for f, h in zip(factor, halves, strict=True)))
            )
            mixes.append(
                [
                    float(
                        sum(
                            f * Decimal(float(h[2][c])) for f, h in zip(factor, halves, strict=True)
                        )
                    )
                    for c in range(first[2].shape[1])
                ]
            )
    return np.array(tops), np.array(totals), np.array(mixes)


# %% wrong
def from_sums(first, second):
    (m1, l1, o1), (m2, l2, o2) = first, second
    m = np.maximum(m1, m2)
    with np.errstate(over="ignore", invalid="ignore"):
        a, b = np.exp(m1), np.exp(m2)
        scale = np.exp(-np.where(m == -np.inf, 0, m))
        return m, (a * l1 + b * l2) * scale, (a[:, None] * o1 + b[:, None] * o2) * scale[:, None]


wrong = {
    "two empty halves give NaN: −∞ − (−∞)": swap("np.where(m == -np.inf, 0, m)", "m"),
    "the sums have different maxima and must be shrunk before they are added": (
        swap("np.exp(m1 - base), np.exp(m2 - base)", "np.ones_like(m1), np.ones_like(m2)")
    ),
    "the mixed values o must be shrunk like the sums": (
        swap("a[:, None] * o1 + b[:, None] * o2", "o1 + o2")
    ),
    "the sums l must be shrunk like the mixed values": swap("a * l1 + b * l2", "l1 + l2"),
    "the factors are upside down: e to the old maximum minus the new one": (
        swap("np.exp(m1 - base), np.exp(m2 - base)", "np.exp(base - m1), np.exp(base - m2)")
    ),
    "each half shrinks by its own factor; here they are exchanged": (
        swap("np.exp(m1 - base), np.exp(m2 - base)", "np.exp(m2 - base), np.exp(m1 - base)")
    ),
    "the new maximum is the larger of the two, not the smaller": swap("np.maximum", "np.minimum"),
    "the maximum of the second half is kept, even if the first is larger": (
        swap("np.maximum(m1, m2)", "m2")
    ),
    "the answer o / l is asked for later; o is the sum": (
        swap("a[:, None] * o1 + b[:, None] * o2",
             "(a[:, None] * o1 + b[:, None] * o2) / (a * l1 + b * l2 + 1e-300)[:, None]")
    ),
    "only the second half is shrunk; the first may be the one with the smaller maximum": (
        swap("np.exp(m1 - base), np", "np.ones_like(m1), np")
    ),
    "exponentials of large scores overflow: use differences of maxima only": from_sums,
    "one maximum for all queries: each query has its own": (
        swap("base = np.where(m == -np.inf, 0, m)", "m = np.full_like(m, m.max())\n"
             "    base = np.where(m == -np.inf, 0, m)")
    ),
}  # fmt: skip
