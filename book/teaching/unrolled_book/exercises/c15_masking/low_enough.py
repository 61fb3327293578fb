r"""How low is low enough?

Two questions about masks that are numbers, for numpy's `float16`, `float32` and `float64`.

1. A visible key has the score 0, a hidden one $-c$, and the hidden weight is $e^{-c} / (1 +
   e^{-c})$. What is the smallest $c$ among 3, 10, 30, 80, 200, 1000 for which it comes out as
   exactly 0? Keep every number in the given format: `np.exp(dtype(-30))`.
2. A row hides all three of its keys by adding $-10^p$ to their scores 0, 1 and 2. What is the
   smallest whole $p$ for which the three sums are *equal*, so that the three weights are equal? For
   smaller $p$ the weights still depend on the hidden scores.

**Predict** first, from two facts about each format: its smallest positive number
($6 \cdot 10^{-8}$, $10^{-45}$, $5 \cdot 10^{-324}$), and the spacing of its numbers ($2^{-10}$,
$2^{-23}$, $2^{-52}$ between 1 and 2, and twice as wide after every power of two).
"""

kind, level, points = "experiment", 2, 3
tolerance = 1e-6

# %% starter
starter = """
low_enough = {
    "c, float16": ...,
    "c, float32": ...,
    "c, float64": ...,
    "p, float16": ...,
    "p, float32": ...,
    "p, float64": ...,
}
"""

# %% solution
low_enough = {
    "c, float16": 30,
    "c, float32": 200,
    "c, float64": 1000,
    "p, float16": 4,
    "p, float32": 8,
    "p, float64": 17,
}

# %% explanation
explanation = r"""
$e^{-c}$ rounds to 0 when it is below half the smallest positive number: for $c$ above 17.3, 104 and
745. So 30, 200 and 1000 are the first on the list that are large enough. In an ordinary row a
hidden score need not be astronomically low.

Near $10^p$ the spacing is $2^{\lfloor p \log_2 10 \rfloor}$ times the spacing at 1: 8 at $10^4$ in
float16; 1 at $10^7$ and 8 at $10^8$ in float32; 2 at $10^{16}$ and 16 at $10^{17}$ in float64. With
spacing 1 all scores survive; with spacing 2 the score 2 survives; with spacing 8 all three sums
round to the same number. So $-10^4$ added in float32 hides nothing in a row that is hidden
altogether, and in float64 not even $-10^{16}$ is enough.

```python
import numpy as np

low_enough = {}
for dtype in (np.float16, np.float32, np.float64):
    e = {c: np.exp(dtype(-c)) for c in (3, 10, 30, 80, 200, 1000)}
    gone = [c for c in e if e[c] / (dtype(1) + e[c]) == 0]
    low_enough[f"c, {dtype.__name__}"] = min(gone)
    p = 0
    while len(set(np.arange(3, dtype=dtype) + dtype(-(10.0**p)))) > 1:
        p += 1
    low_enough[f"p, {dtype.__name__}"] = p
```
"""


# %% oracle
def oracle():
    """From the formats' bits, without computing in them."""
    from fractions import Fraction
    from math import log

    answers = {}
    for name, digits, lowest in (("16", 11, -24), ("32", 24, -149), ("64", 53, -1074)):
        limit = (1 - lowest) * log(2)  # e^−c below half of 2^lowest
        answers[f"c, float{name}"] = min(c for c in (3, 10, 30, 80, 200, 1000) if c > limit)
        for p in range(20):
            spacing = Fraction(2) ** ((10**p).bit_length() - digits)
            below = spacing / 2 if 10**p == 2 ** ((10**p).bit_length() - 1) else spacing
            if len({round((s - 10**p) / below) for s in range(3)}) == 1:
                answers[f"p, float{name}"] = p
                break
    return answers


# %% wrong
wrong = {
    "the weight must be exactly 0; at these c it is only below the format's rounding unit": {
        "c, float16": 10, "c, float32": 30, "c, float64": 80
    },
    "float16 loses what is below 6e−8, and exp(−30) is far below it": {"c, float16": 80},
    "exp(−80) is about 2e−35, which float32 still holds": {"c, float32": 80},
    "exp(−200) is about 1e−87, which float64 still holds": {"c, float64": 200},
    "at these p the sums still differ: the spacing there is not above 2": {
        "p, float16": 3, "p, float32": 7, "p, float64": 16
    },
    "near 1e16 the spacing of float64 is 2, so the score 2 is not lost": {"p, float64": 16},
    "near 1e7 the spacing of float32 is 1, so nothing is lost": {"p, float32": 7},
    "−1e5 is no number of float16 but −∞; −1e4 is enough": {"p, float16": 5},
    "give the power p, not the number 10 to the p": {
        "p, float16": 10**4, "p, float32": 10**8, "p, float64": 10**17
    },
}  # fmt: skip
