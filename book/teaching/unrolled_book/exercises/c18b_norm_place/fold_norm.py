r"""Fold a norm's gain and bias into the next layer

What leaves a pre-LN norm, $y = \gamma \odot \hat x + \beta$, goes into a linear map at once:
into $W_q$, $W_k$, $W_v$ or $W_1$. When a model is only used and not trained any more, $\gamma$ and
$\beta$ can be worked into that map, and the norm is left without weights.

Write `fold_norm(gain, bias, W, b)` for a map $y W + b$ with `W` of shape `(D, F)` and `b` of shape
`(F,)`. Return the pair `(W_new, b_new)` such that $\hat x\, W_\text{new} + b_\text{new}$ is the
same for every $\hat x$. Leave the arguments as they are.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2
outputs = ("W_new", "b_new")


# %% solution
def fold_norm(gain, bias, W, b):
    """(W_new (D, F), b_new (F,)) that do the work of all four arguments."""
    return gain[:, None] * W, bias @ W + b


# %% explanation
explanation = r"""
$(\gamma \odot \hat x + \beta) W + b = \hat x\, \mathrm{diag}(\gamma) W + (\beta W + b)$. The gain
belongs to the *inputs* of the map, so it scales the rows of $W$ in our convention, the columns in
torch's, which stores the transpose. The bias passes through the old $W$, not through the new one.

So a norm's gain and bias do nothing that the next layer could not do. They are there to make
training easier. (In post-LN the same vector is also added to the next sub-layer's output, so there
it cannot be folded.)
"""


# %% tests
def tests(rng):
    yield call(
        np.array([2.0, 3.0]),
        np.array([1.0, 0.0]),
        np.array([[1.0, 0.0], [1.0, 1.0]]),
        np.array([0.0, 5.0]),
        visible=True,
    )
    for D, F in ((3, 5), (4, 4), (7, 2)):
        gain, bias, W, b = (rng.normal(size=s) for s in (D, D, (D, F), F))
        hint = "a square W, where rows and columns are easily exchanged" if D == F else ""
        yield call(gain, bias, W, b, hint=hint)


# %% oracle
def oracle(gain, bias, W, b):
    """Asks the two layers for their answers to 0 and to each unit vector."""
    answers = [(gain * x + bias) @ W + b for x in np.vstack([np.zeros(len(W)), np.eye(len(W))])]
    return np.stack(answers[1:]) - answers[0], answers[0]


# %% wrong
wrong = {
    "the gain scales W's columns; it belongs to the inputs, the rows": (
        swap("gain[:, None] * W", "np.resize(gain, W.shape[1]) * W")
    ),
    "the bias went through the new W, so it was scaled by the gain": (
        swap("bias @ W", "bias @ (gain[:, None] * W)")
    ),
    "the norm's bias was left out": swap("bias @ W + b", "b"),
    "the map's own b was left out": swap("bias @ W + b", "bias @ W"),
    "W was divided by the gain": swap("gain[:, None] * W", "W / gain[:, None]"),
    "the gain was left out": swap("gain[:, None] * W", "W"),
}
