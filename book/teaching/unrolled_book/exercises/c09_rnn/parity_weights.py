r"""Odd or even, by hand

Bits arrive, one number 0 or 1 at each step. Set the weights of an Elman network with ReLU units
that says at any time whether the number of ones so far is *odd*. Its state must not grow with the
length of the sequence: every unit stays at most 2.

Write `parity_weights()`, which returns a dictionary of lists or arrays: `W_xh` $(1 \times H)$,
`W_hh` $(H \times H)$, `b_h` $(H)$, `w_y` $(H)$ and `b_y` (a number), with any H up to 16. States
are rows and begin at zero,

$$
h_t = \mathrm{ReLU}(x_t W_{xh} + h_{t-1} W_{hh} + b_h),
$$

and the verdict is "odd" if $h_T \cdot w_y + b_y > 0$. The empty sequence is even.

A hint: $\mathrm{ReLU}(s) - 2\,\mathrm{ReLU}(s - 1)$ for $s = 0, 1, 2$.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def parity_weights():
    """Weights of an Elman network that knows whether the ones are odd."""
    return {  # units: s = parity + bit, and what s has above 1
        "W_xh": [[1, 1]],
        "W_hh": [[1, 1], [-2, -2]],
        "b_h": [0, -1],
        "w_y": [1, -2],
        "b_y": -0.5,
    }


# %% explanation
explanation = r"""
Let $q$ be 1 if the ones so far are odd, else 0. The next bit $x$ makes it 1 where exactly one of
$q$ and $x$ is 1. That is the function which no single neuron computes ([chapter
6](06_depth.ipynb)), and one hidden layer does: with $s = q + x$, the values $\mathrm{ReLU}(s) -
2\,\mathrm{ReLU}(s - 1)$ for $s = 0, 1, 2$ are $0, 1, 0$.

So keep $u = \mathrm{ReLU}(s)$ and $v = \mathrm{ReLU}(s - 1)$ in the state; then $q = u - 2v$ is a
weighted sum of the state, and the next step can use it: $s = u - 2v + x$, for both units. A step of
a recurrent network *is* a hidden layer.

Adding the ones up would not do: a sum tells how many there were, and no threshold on it says
whether that is odd. Note the sizes, too: $u \le 2$ and $v \le 1$ at any length.
"""


# %% use
apart = True  # what it is called with tells the answer


def use(answer, sequences):
    """The verdicts of the network on the sequences, by their bits."""
    weights = answer()
    if weights is Ellipsis or weights is None:
        return weights
    if not isinstance(weights, dict):
        raise TypeError(f"parity_weights returns a dictionary, not a {type(weights).__name__}")
    missing = [key for key in ("W_xh", "W_hh", "b_h", "w_y", "b_y") if key not in weights]
    if missing:
        raise ValueError(f"the dictionary has no {' and no '.join(missing)}")
    if any(value is Ellipsis for value in weights.values()):
        return ...
    W_xh, W_hh, b_h, w_y = (np.array(weights[k], float) for k in ("W_xh", "W_hh", "b_h", "w_y"))
    width = b_h.size
    shapes = [(1, width), (width, width), (width,), (width,)]
    if width > 16 or [a.shape for a in (W_xh, W_hh, b_h, w_y)] != shapes:
        found = [a.shape for a in (W_xh, W_hh, b_h, w_y)]
        raise ValueError(f"W_xh, W_hh, b_h, w_y have the shapes {found}, expected {shapes}")
    verdicts = {}
    for bits in sequences:
        h, largest = np.zeros(width), 0.0
        for bit in bits:
            h = np.maximum(int(bit) * W_xh[0] + h @ W_hh + b_h, 0)
            largest = max(largest, float(h.max()))
            if largest > 1e6:
                break
        name = bits if len(bits) < 30 else f"{bits[:9]}… of {len(bits)} bits"
        verdict = "odd" if h @ w_y + float(weights["b_y"]) > 0 else "even"
        verdicts[name or "no bits"] = "a unit above 2" if largest > 2 else verdict
    return verdicts


# %% tests
def tests(rng):
    yield call(["1", "10", "010", "111"], hint="odd numbers of ones")
    yield call(["", "0", "11", "0110", "1111"], hint="even numbers of ones")
    yield call(["0001", "1000", "10101", "110000"], hint="a bit long ago counts like the last")
    yield call(["1" * 7, "1" * 8, "1" * 999, "1" * 1000], hint="nothing but ones")
    many = ["".join(map(str, rng.integers(0, 2, size=n))) for n in (5, 9, 17, 100, 2000)]
    yield call(many, hint="random bits, up to 2,000 of them")


# %% oracle
def oracle(sequences):
    """Counted in Python."""
    names = [s if len(s) < 30 else f"{s[:9]}… of {len(s)} bits" for s in sequences]
    odd = ["odd" if s.count("1") % 2 else "even" for s in sequences]
    return dict(zip((name or "no bits" for name in names), odd, strict=True))


# %% wrong
def sums():
    return {"W_xh": [[1]], "W_hh": [[1]], "b_h": [0], "w_y": [1], "b_y": -0.5}


def last_bit():
    return {"W_xh": [[1]], "W_hh": [[0]], "b_h": [0], "w_y": [1], "b_y": -0.5}


wrong = {
    "the ones add up in one unit, which grows above 2": sums,
    "only the last bit is looked at; nothing is carried along": last_bit,
    "the verdict is the opposite one": swap("[1, -2]", "[-1, 2]").swap("-0.5", "0.5"),
    "once odd stays odd: what s has above 1 must be taken away twice": (
        swap("[-2, -2]", "[-1, -1]").swap("[1, -2]", "[1, -1]")
    ),
    "no sequence is called odd, since both units compute the same; one needs the threshold 1": swap(
        "[0, -1]", "[0, 0]"
    ),
    "the verdict looks at the first unit only, which is 1 or 2 after a one": swap(
        "[1, -2]", "[1, 0]"
    ),
    "every sequence is called odd: h·w_y + b_y never falls to 0 or below": swap("-0.5", "3.5"),
    "the second unit does not see the new bit; both need the same s": swap("[[1, 1]]", "[[1, 0]]"),
}
