r"""How far can a gate count?

Can a unit count the openers it has read? An LSTM's cell with all gates open adds 1 for each: $c
\leftarrow c + 1$. A gated unit of the other kind, minimal or GRU, cannot add. It moves towards
its candidate, which is at most 1: with a fixed gate $z$ that keeps, $h \leftarrow (1 - z) \cdot
1 + z\, h$.

On paper $h = 1 - z^k$ after $k$ openers, another number for every $k$. In a computer it gets
stuck. Start both from 0 and find, for each case, the smallest $k$ such that the state after $k$
openers and the state after $k + 1$ are the same number. Do every operation in the given
precision: with `one, z = dtype(1), dtype(7 / 8)`, write `h = (one - z) * one + z * h`.

**Predict** first: tens, hundreds, thousands, millions? (You need not wait for the float32 cell:
think, or start it near the end.)
"""

kind, level, points = "experiment", 2, 3
tolerance = 1e-9


# %% starter
starter = """
counts_to = {
    "z = 1/2, float32": ...,
    "z = 7/8, float32": ...,
    "z = 7/8, float64": ...,
    "cell, float16": ...,
    "cell, float32": ...,
}
"""

# %% solution
counts_to = {
    "z = 1/2, float32": 25,
    "z = 7/8, float32": 113,
    "z = 7/8, float64": 264,
    "cell, float16": 2048,
    "cell, float32": 16777216,
}

# %% explanation
explanation = r"""
```python
def stuck(dtype, z):
    one, z, h, k = dtype(1), dtype(z), dtype(0), 0
    while (new := (one - z) * one + z * h) != h:
        h, k = new, k + 1
    return k
```

and the same with `c + one` for the cell. Just below 1 the numbers of float32 lie $2^{-24}$
apart. A step of $\frac18 (1 - h)$ that is smaller than half of that is rounded away, which
happens near $1 - h = 2^{-22}$, and $(7/8)^k = 2^{-22}$ at $k \approx 114$. With float64 there
are 29 more digits and only 2.3 times as many openers: a gated average squeezes all counts into the
space below 1.

The cell uses the space above: it counts in whole numbers, which are exact up to $2^{11}$ in
float16 and $2^{24}$ in float32. [Weiss, Goldberg and Yahav (2018)](cite:weiss2018) showed that
trained networks behave so, too: LSTMs learn to count, GRUs do not.
"""


# %% oracle
def oracle():
    """Exact fractions, rounded by hand to the nearest number of so many binary digits."""
    from fractions import Fraction

    def nearest(q, digits):
        if q == 0:
            return q
        exponent = 0
        while q >= Fraction(2) ** (exponent + 1):
            exponent += 1
        while q < Fraction(2) ** exponent:
            exponent -= 1
        unit = Fraction(2) ** (exponent - digits + 1)
        return round(q / unit) * unit  # Python rounds a half to the even side, as IEEE 754 does

    def stuck(step, digits, h=Fraction(0), k=0):
        while (new := step(h, digits)) != h:
            h, k = new, k + 1
        return k

    def leak(z):
        return lambda h, d: nearest(nearest(z * h, d) + (1 - z), d)

    def count(h, d):
        return nearest(h + 1, d)

    return {
        "z = 1/2, float32": stuck(leak(Fraction(1, 2)), 24),
        "z = 7/8, float32": stuck(leak(Fraction(7, 8)), 24),
        "z = 7/8, float64": stuck(leak(Fraction(7, 8)), 53),
        "cell, float16": stuck(count, 11),
        "cell, float32": stuck(count, 24, Fraction(2**24 - 5), 2**24 - 5),
    }


# %% wrong
def answer(*numbers):
    return dict(zip(counts_to, numbers, strict=True))


wrong = {
    "each k is one too large: the state after k, not after k + 1, is the first to stay": (
        answer(26, 114, 265, 2049, 16777217)
    ),
    "each k is one too small: k counts the openers, from 0 before the first": (
        answer(24, 112, 263, 2047, 16777215)
    ),
    "this is float64 throughout: some number in the formula made the state wider": (
        answer(54, 264, 264, 2048, 16777216)
    ),
    "65504 is the largest number of float16; whole numbers lie further apart than 1 long before": (
        answer(25, 113, 264, 65504, 16777216)
    ),
    "float32 has 24 binary digits; whole numbers are exact beyond 2²³": (
        answer(25, 113, 264, 2048, 8388608)
    ),
    "the state is equal to 1 only to some decimals; compare two states with ==": (
        answer(17, 86, 86, 2048, 16777216)
    ),
    "the gates are exchanged: z = 7/8 keeps, and 1/8 of the candidate is written": (
        answer(25, 9, 19, 2048, 16777216)
    ),
}
