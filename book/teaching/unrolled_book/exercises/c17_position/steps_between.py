r"""How many steps apart?

Somebody took two rows of a sinusoidal encoding (interleaved, as in the chapter), $PE(n)$ and
$PE(m)$, and lost $n$ and $m$. They may be anywhere, even in the millions, and a little noise
(around 0.03) has got into every entry. Still, the distance can be read off.

Write `steps_between(a, b, longest, base)`: the integer $r = m - n$ between `-longest` and
`longest`, given `a` $\approx PE(n)$ and `b` $\approx PE(m)$, arrays of shape `(d,)`. The sign
counts.

The fast pairs are precise but go round many times; the slow ones do not go round, but the noise
drowns a step. Use them all.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4


# %% solution
def steps_between(a, b, longest, base):
    """r = m − n with |r| ≤ longest, for a ≈ PE(n) and b ≈ PE(m)."""
    omega = base ** (-np.arange(0, len(a), 2) / len(a))  # (d/2,)
    z_a, z_b = (row[1::2] + 1j * row[0::2] for row in (a, b))  # exp(i n ω), exp(i m ω)
    turned = z_b * z_a.conj()  # ≈ exp(i r ω): n is gone
    r = np.arange(-longest, longest + 1)
    fit = (turned * np.exp(-1j * np.multiply.outer(r, omega))).real.sum(axis=1)
    return int(r[fit.argmax()])


# %% explanation
explanation = r"""
With the pair as a complex number, $\cos n\omega + \mathrm i \sin n\omega = e^{\mathrm i
n\omega}$, the product $e^{\mathrm i m\omega}\, \overline{e^{\mathrm i n\omega}} = e^{\mathrm i
r\omega}$ knows the difference only: that is why $n$ may be anywhere. Each pair then says
$r\omega_i$ up to whole turns and noise. We try every $r$ and take the one that all pairs agree on
best,

$$
\sum_i \mathrm{Re}\big(z_{b,i}\, \bar z_{a,i}\; e^{-\mathrm i r \omega_i}\big)
= PE(n)\, R_r\, PE(m)^\top ,
$$

which is the score of a head that looks for "$r$ positions on". A fast pair alone would have
many best answers, the slowest alone would be far off.
"""


# %% tests
def rows(rng, p, k, d, base, noise):
    omega = base ** (-np.arange(0, d, 2) / d)
    angles = np.multiply.outer([p, p + k], omega)
    pe = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(2, d)
    return pe + noise * rng.normal(size=pe.shape)


def tests(rng):
    example = np.random.default_rng(0)
    yield call(*rows(example, 0, 2, 4, 100.0, 0.0).round(4), 10, 100.0, visible=True)
    k, back, other = rng.integers(5, 60, size=3).tolist()
    yield call(*rows(rng, 0, k, 16, 10_000.0, 0.0), 100, 10_000.0, hint="without noise, from 0")
    yield call(*rows(rng, 70, -back, 16, 10_000.0, 0.0), 100, 10_000.0, hint="a step back")
    yield call(*rows(rng, 9, 0, 16, 10_000.0, 0.01), 100, 10_000.0, hint="no step at all")
    for sign in (1, -1):
        p, k = int(rng.integers(10**6)), sign * int(rng.integers(200, 400))
        hint = "far from 0, with noise"
        yield call(*rows(rng, p, k, 32, 10_000.0, 0.03), 400, 10_000.0, hint=hint)
    for k in (100, -100):
        yield call(*rows(rng, 200, k, 16, 1e4, 0.0), 100, 1e4, hint="as far apart as may be")
    yield call(*rows(rng, 1234, other, 24, 500.0, 0.03), 200, 500.0, hint="another base")
    yield call(*rows(rng, 5, 2, 2, 10.0, 0.03), 3, 10.0, hint="one pair: r is at most `longest`")


# %% oracle
def oracle(a, b, longest, base):
    """The rotation matrix of every step is built and tried."""
    d, best = len(a), (-np.inf, None)
    for k in range(-longest, longest + 1):
        moved = np.empty(d)
        for i in range(d // 2):
            c, s = np.cos(k * base ** (-2 * i / d)), np.sin(k * base ** (-2 * i / d))
            moved[2 * i] = a[2 * i] * c + a[2 * i + 1] * s
            moved[2 * i + 1] = a[2 * i + 1] * c - a[2 * i] * s
        best = max(best, (-np.abs(moved - b).max() - np.square(moved - b).sum(), k))
    return best[1]


# %% wrong
def by_product(a, b, longest, base):
    omega = base ** (-np.arange(0, len(a), 2) / len(a))
    k = np.arange(longest + 1)
    products = np.cos(np.multiply.outer(k, omega)).sum(axis=1)
    return int(k[np.abs(products - a @ b).argmin()])


wrong = {
    "r is m − n, from a to b; here it is from b to a, or sine and cosine are exchanged": (
        swap("in (a, b)", "in (b, a)")
    ),
    "the sign counts: a step back is negative": (
        swap("int(r[fit.argmax()])", "abs(int(r[fit.argmax()]))")
    ),
    "the fastest pair alone cannot tell r from r plus a whole turn": (
        swap("int(r[fit.argmax()])", "round(float(np.angle(turned[0])))")
    ),
    "the slowest pair alone is drowned by the noise": (
        swap("int(r[fit.argmax()])", "round(float(np.angle(turned[-1]) / omega[-1]))")
    ),
    "n is not 0: this finds the position m, not the difference": swap("z_b * z_a.conj()", "z_b"),
    "from the product of the two rows, the distance cannot be told from its negative": by_product,
    "sines and cosines are interleaved, not in two halves": (
        swap("row[1::2] + 1j * row[0::2]", "row[len(a) // 2 :] + 1j * row[: len(a) // 2]")
    ),
}
