r"""bf16 from float32's bits

A bf16 number is the upper half of a float32 number. Write `round_to_bf16(x)` for a numpy array of
finite float32 numbers: each entry rounded to the nearest bf16 number, in an array of the same
shape. If two are equally near, take the one whose last bit is 0. Do it without torch: numpy shows
the bits as integers, `x.view(np.uint32)`, and back, `bits.view(np.float32)`.

The numbers stay below bf16's largest, so nothing overflows. Do not change `x`.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def round_to_bf16(x):
    """The nearest bf16 number of each entry, as float32."""
    bits = x.view(np.uint32)
    last = (bits >> 16) & 1  # the last bit that stays
    rounded = bits + 0x7FFF + last
    return (rounded & 0xFFFF0000).astype(np.uint32).view(np.float32)


# %% explanation
explanation = r"""
Cutting off the lower 16 bits rounds towards 0. To round to the nearest, first add half of the last
bit that stays, `0x8000`: whatever was at least half carries over. An exact half must go to the even
neighbour, so add one less, `0x7FFF`, where the last bit is 0 already: then an exact half does not
carry.

The carry may run from the fraction into the exponent, and that is right: 1.9999 becomes 2. The sign
bit is not touched, so negative numbers need no case of their own. Nor do the smallest
numbers, below $2^{-126}$: there the exponent can fall no further, float32 and bf16 both have a
fixed spacing, and the upper half of the bits is still the bf16 number.
"""


# %% tests
def tests(rng):
    yield call(np.array([0.1, 1.0, 3.14159, -257.0], dtype=np.float32), visible=True)
    yield call(np.array([257.0, 259.0, 258.0], dtype=np.float32), hint="halfway, halfway, exact")
    yield call(np.array([-257.0, -259.0, 0.0], dtype=np.float32), hint="negative, and 0")
    yield call(np.array([1.999, 0.9999, 3.9999], dtype=np.float32), hint="the exponent grows")
    yield call(
        np.array([1e-30, 2e30, -5e-38], dtype=np.float32), hint="tiny and huge", tolerance=0.0
    )
    subnormal = [1e-40, -3e-39, 6e-41, 1e-45]
    yield call(
        np.array(subnormal, dtype=np.float32), hint="below the exponents' range", tolerance=0.0
    )
    yield call(np.array([], dtype=np.float32), hint="nothing to round")
    yield call(np.array(0.3, dtype=np.float32), hint="a single number, shape ()")
    yield call(rng.normal(size=(3, 5)).astype(np.float32), hint="a matrix")
    halves = (128 + rng.integers(0, 128, size=24) + 0.5).astype(np.float32)
    yield call(halves, hint="all halfway")
    close = np.nextafter(halves, np.float32(0), dtype=np.float32)
    yield call(close, hint="just below halfway")


# %% oracle
oracle_tolerance = 1e-44  # the smallest numbers count, too


def oracle(x):
    """torch's conversion."""
    import torch

    return torch.tensor(x).bfloat16().float().numpy()


# %% wrong
def to_fp16(x):
    return x.astype(np.float16).astype(np.float32)


def two_digits(x):
    flat = [float(f"{float(v):.2g}") for v in np.ravel(x)]
    return np.array(flat, dtype=np.float32).reshape(x.shape)


def always_eight_bits(x):
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.round(fraction * 256) / 256, exponent).astype(np.float32)


wrong = {
    "the smallest numbers have fewer than 8 significant bits, since the exponent has ended": (
        always_eight_bits
    ),
    "the bits are cut off, which rounds towards 0": swap("bits + 0x7FFF + last", "bits"),
    "a number halfway between two goes to the even one, not away from 0": (
        swap("bits + 0x7FFF + last", "bits + 0x8000")
    ),
    "a number halfway between two goes to the even one, not towards 0": (
        swap("0x7FFF + last", "0x7FFF")
    ),
    "of two equally near numbers this takes the odd one": (swap("0x7FFF + last", "0x8000 - last")),
    "bf16 keeps 7 bits of the fraction; here 8 are kept": (
        swap("bits >> 16", "bits >> 15").swap("0x7FFF", "0x3FFF").swap("0xFFFF0000", "0xFFFF8000")
    ),
    "bf16 keeps 7 bits of the fraction; here 6 are kept": (
        swap("bits >> 16", "bits >> 17").swap("0x7FFF", "0xFFFF").swap("0xFFFF0000", "0xFFFE0000")
    ),
    "this is fp16: more digits, and a range in which 1e-30 is 0": to_fp16,
    "bf16 rounds to 8 binary digits, not to 2 decimal ones": two_digits,
    "every number is rounded away from 0": swap("0x7FFF + last", "0xFFFF"),
}
