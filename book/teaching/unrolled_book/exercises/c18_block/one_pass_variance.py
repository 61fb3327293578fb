r"""A variance in one pass

The variance can be written as $\mathrm{mean}(x^2) - \mathrm{mean}(x)^2$, the mean of the squares
minus the square of the mean. It needs one pass over the numbers instead of two, and some norms have
been programmed so. On paper it is the same.

Take the two numbers $c - 1$ and $c + 1$, whose variance is 1 for every $c$, and compute it by

```python
x = np.array([c - 1, c + 1], dtype)
(x[0] * x[0] + x[1] * x[1]) / dtype(2) - ((x[0] + x[1]) / dtype(2)) ** 2
```

For each precision, find the smallest power of two $c = 2^k$, $k = 1, 2, 3, \dots$, for which the
result is not exactly 1, and give $k$. Then give `variance`, what comes out in float32 for $c =
2^{16}$, and `times`, how many times too large a layer norm with $\varepsilon = 10^{-5}$ makes these
two numbers with that variance.

**Predict** first: how large must the mean be, compared with the deviation, to spoil a variance in
float32?
"""

kind, level, points = "experiment", 2, 3
tolerance = 1e-3


# %% starter
starter = """
one_pass_variance = {
    "k, float16": ...,
    "k, float32": ...,
    "k, float64": ...,
    "variance": ...,
    "times": ...,
}
"""

# %% solution
one_pass_variance = {
    "k, float16": 6,
    "k, float32": 12,
    "k, float64": 27,
    "variance": 0.0,
    "times": (1.00001 / 0.00001) ** 0.5,
}

# %% explanation
explanation = r"""
```python
def one_pass(c, dtype):
    x = np.array([c - 1, c + 1], dtype)
    return (x[0] * x[0] + x[1] * x[1]) / dtype(2) - ((x[0] + x[1]) / dtype(2)) ** 2
```

The mean of the squares is $c^2 + 1$, and a number with $t$ binary digits holds a 1 beside $2^{2k}$
only while $2k < t$. With 11, 24 and 53 digits that ends at $k = 6$, 12 and 27: in float32 at a mean
of 4096 deviations, in float16 at 64. From there the 1 is gone, the variance 0, and the norm
divides by $\sqrt\varepsilon$ instead of $\sqrt{1 + \varepsilon}$: the result is $\sqrt{(1 +
\varepsilon) / \varepsilon} = 316.2$ times too large. (Where both numbers are rounded, the variance
can even be negative, and its root NaN.)

Subtract the mean first, as this chapter's code does, and every step is exact here. A vector of a
residual stream can have a mean, or a single entry, far larger than the rest; half precision then
needs two passes, or sums in float32.
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
        unit = Fraction(2) ** (exponent - digits + 1)
        return round(q / unit) * unit  # Python rounds a half to the even side, as IEEE 754 does

    def variance(c, digits):
        def r(q):
            return nearest(q, digits) if q >= 0 else -nearest(-q, digits)

        a, b = r(Fraction(c - 1)), r(Fraction(c + 1))
        squares = r(r(r(a * a) + r(b * b)) / 2)
        mean = r(r(a + b) / 2)
        return r(squares - r(mean * mean))

    def first(digits):
        k = 1
        while variance(2**k, digits) == 1:
            k += 1
        return k

    return {
        "k, float16": first(11),
        "k, float32": first(24),
        "k, float64": first(53),
        "variance": float(variance(2**16, 24)),
        "times": float(((1 + 1e-5) / (variance(2**16, 24) + 1e-5)) ** 0.5),
    }


# %% wrong
wrong = {
    "each k is one too small: this is the last power of two with a right result": {
        "k, float16": 5, "k, float32": 11, "k, float64": 26
    },
    "these are the numbers of digits; squares need twice as many as the numbers themselves": {
        "k, float16": 11, "k, float32": 24, "k, float64": 53
    },
    "this is float64 throughout: some number in the formula made the result wider": {
        "k, float16": 27, "k, float32": 27, "variance": 1.0, "times": 1.0
    },
    "in float32 the variance comes out as 0, not as 1": {"variance": 1.0, "times": 1.0},
    "the norm divides by the root of ε, not by ε": {"times": 100_001.0},
    "ε stands inside the root, so a variance of 0 gives √ε and no infinity": {"times": 1e30},
    "give the power k, not c itself": {
        "k, float16": 64, "k, float32": 4096, "k, float64": 134_217_728
    },
}  # fmt: skip
