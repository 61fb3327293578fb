r"""Many steps are one step

The steps $h \mapsto a_t h + b_t$, for $t = 1, \dots, T$ in this order, are together one step
$h \mapsto a\,h + b$. Write `many_steps_as_one(keep, add)` for `keep` and `add` `(T, F)`, which hold
$a_t$ and $b_t$ for each of F channels. Return the pair $(a, b)$, each `(F,)`. An $a_t$ may be 0: it
forgets everything before. T may be 0; then nothing is done, and the step leaves $h$ as it is. Do
not change the arguments.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3
outputs = ("a", "b")


# %% solution
def many_steps_as_one(keep, add):
    """The step (a, b), each (F,), that does all T steps."""
    a, b = np.ones(keep.shape[1]), np.zeros(keep.shape[1])
    for k, s in zip(keep, add, strict=True):
        a, b = k * a, k * b + s
    return a, b


# %% explanation
explanation = r"""
Begin with the step that does nothing, $(1, 0)$, and join one step after another:
$(a, b)$ then $(k, s)$ is $(ka,\; kb + s)$. This is associative (join the first two first, or the
last two) but not commutative. The parallel scan may therefore group the steps as it likes, and must
not exchange them.

A shortcut divides by running products, $b = \sum_t b_t \cdot a / (a_1 \cdots a_t)$. It fails at the
first $a_t = 0$, and long before that where the products underflow. The scan never divides.

A reader who was given $(a, b)$ of a chapter can update her state without reading it: $ah + b$. That
is how a long text is shared between processors.
"""


# %% tests
def tests(rng):
    yield call(np.array([[0.5, 1.0], [0.0, 1.0], [2.0, 0.5]]),
               np.array([[4.0, 1.0], [3.0, 2.0], [1.0, 4.0]]), visible=True)  # fmt: skip
    yield call(np.zeros((0, 3)), np.zeros((0, 3)), hint="no step")
    yield call(np.array([[0.25]]), np.array([[-3.0]]), hint="one step")
    yield call(np.array([[0.5, 0.0], [0.5, 0.5], [0.0, 2.0], [0.5, 3.0]]),
               rng.normal(size=(4, 2)), hint="a keep of 0")  # fmt: skip
    yield call(np.full((400, 2), 0.01), rng.normal(size=(400, 2)), hint="a long text")
    for T, width in [(7, 3), (5, 5), (2, 1), (16, 2)]:
        yield call(*rng.normal(size=(2, T, width)))


# %% oracle
def oracle(keep, add):
    """Run the steps from h = 0 and from h = 1: b, and a + b."""
    ends = []
    for h in (0.0, 1.0):
        h = np.full(keep.shape[1], h)
        for t in range(len(keep)):
            h = keep[t] * h + add[t]
        ends.append(h)
    return ends[1] - ends[0], ends[0]


# %% wrong
wrong = {
    "b of the steps before is multiplied by the new keep": swap("k * b + s", "b + s"),
    "the new step comes after the old ones: its keep multiplies the old b": swap(
        "k * b + s", "b + a * s"
    ),
    "a is the product of all keeps, not their sum": swap(
        "a, b = k * a, k * b + s", "a, b = k + a, k * b + s"
    ).swap("np.ones(keep.shape[1])", "np.zeros(keep.shape[1])"),
    "no step leaves h as it is: begin with a = 1": (
        lambda keep, add: (
            _joined(keep, add) if len(keep) else (np.zeros(keep.shape[1]), np.zeros(keep.shape[1]))
        )
    ),
    "do not divide by running products: a keep of 0 makes them 0": (
        lambda keep, add: (keep.prod(0), _divided(keep, add))
    ),
    "a and b have changed places": swap("return a, b", "return b, a"),
    "the axis of the steps is the first": (lambda keep, add: (keep.prod(-1), (keep * add).sum(-1))),
    "the first step counts as well": swap(
        "zip(keep, add, strict=True)", "zip(keep[1:], add[1:], strict=True)"
    ),
    "the last step's keep counts as well": (
        lambda keep, add: (keep[:-1].prod(0), _joined(keep, add)[1])
    ),
    "the new keep does not multiply what is added now": swap("k * b + s", "k * (b + s)"),
}


def _joined(keep, add):
    a, b = np.ones(keep.shape[1]), np.zeros(keep.shape[1])
    for k, s in zip(keep, add, strict=True):
        a, b = k * a, k * b + s
    return a, b


def _divided(keep, add):
    with np.errstate(all="ignore"):
        products = keep.cumprod(0)
        return (add * keep.prod(0) / products).sum(0)
