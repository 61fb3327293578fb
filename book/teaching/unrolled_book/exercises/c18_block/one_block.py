r"""A block in one function

Write a whole block for one text, `one_block(X, A, W_v, W_1, W_2, norm_first)`:

- `X` `(T, D)` holds the vectors; the result has the same shape.
- To keep it short the attention weights are given: `A` `(T, T)`, rows are queries, and attention is
  $\mathrm{Att}(X) = A X W_v$ with `W_v` `(D, D)`.
- The feed-forward layer is $\mathrm{FF}(X) = \max(0, X W_1)\, W_2$ with `W_1` `(D, F)` and `W_2`
  `(F, D)`.
- Both sub-layers have a residual connection and a layer norm without gain and bias, with
  $\varepsilon = 10^{-5}$: before the sub-layer where `norm_first` is True, after the sum otherwise.

No dropout, and no norm after the last sum in pre-LN: that one belongs to the stack.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def one_block(X, A, W_v, W_1, W_2, norm_first):
    """(T, D): attention with weights A, then a feed-forward layer."""

    def norm(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    if norm_first:
        X = X + A @ norm(X) @ W_v
        return X + np.maximum(0, norm(X) @ W_1) @ W_2
    X = norm(X + A @ X @ W_v)
    return norm(X + np.maximum(0, X @ W_1) @ W_2)


# %% explanation
explanation = r"""
The two places of the norm are two pairs of lines. In pre-LN the norm is applied to what a sub-layer
*reads*, and what is added to is `X` itself. In post-LN it is applied to the sum, so the second
sub-layer reads a normalised vector, and the next block as well.

The second sub-layer reads what the first one has left, not the block's input. numpy's `var` divides
by $D$, as layer norm does; torch's `var` does not unless told so.
"""


# %% tests
def example(rng, T, D, F):
    A = np.tril(rng.random((T, T)) + 0.1)
    shapes = (T, D), (D, D), (D, F), (F, D)
    X, *weights = (rng.normal(size=shape) for shape in shapes)
    return X, A / A.sum(1, keepdims=True), *weights


def tests(rng):
    X, A = np.array([[1.0, 3.0], [2.0, 0.0]]), np.array([[1.0, 0.0], [0.5, 0.5]])
    one = np.array([[1.0], [2.0]])
    yield call(X, A, np.eye(2), one, one.T, True, visible=True)
    yield call(X, A, np.eye(2), one, one.T, False, visible=True)
    for T, D, F in ((3, 5, 7), (4, 4, 4), (1, 3, 2)):
        hint = "T = D = F: which axis is which?" if T == D else ""
        hint = hint or ("a text of one token" if T == 1 else "")
        for norm_first in (True, False):
            yield call(*example(rng, T, D, F), norm_first, hint=hint)


# %% oracle
def oracle(X, A, W_v, W_1, W_2, norm_first):
    """torch's layer norm, and loops over positions for the rest."""
    import torch

    def norm(x):
        return torch.nn.functional.layer_norm(torch.tensor(x), x.shape[-1:]).numpy()

    def attention(rows):
        values = np.array([row @ W_v for row in rows])
        return np.array([sum(a * v for a, v in zip(line, values, strict=True)) for line in A])

    def feed_forward(rows):
        return np.array([np.where(row @ W_1 > 0, row @ W_1, 0.0) @ W_2 for row in rows])

    for f in (attention, feed_forward):
        X = X + f(norm(X)) if norm_first else norm(X + f(X))
    return X


# %% wrong
wrong = {
    "norm_first is ignored: this is pre-LN in either case": (
        swap("if norm_first:", "if True:")
    ),
    "norm_first is ignored: this is post-LN in either case": (
        swap("if norm_first:", "if False:")
    ),
    "the two places are exchanged": swap("if norm_first:", "if not norm_first:"),
    "in pre-LN the sum is made with the norm's output, so the norm stands on the residual path": (
        swap("        X = X + A @ norm(X) @ W_v",
             "        X = norm(X)\n        X = X + A @ X @ W_v")
        .swap("        return X + np.maximum(0, norm(X) @ W_1) @ W_2",
              "        X = norm(X)\n        return X + np.maximum(0, X @ W_1) @ W_2")
    ),
    "attention has no residual connection": (
        swap("X = X + A @ norm(X) @ W_v", "X = A @ norm(X) @ W_v")
        .swap("norm(X + A @ X @ W_v)", "norm(A @ X @ W_v)")
    ),
    "the feed-forward layer has no residual connection": (
        swap("return X + np.maximum(0, norm", "return np.maximum(0, norm")
        .swap("norm(X + np.maximum(0, X", "norm(np.maximum(0, X")
    ),
    "the ReLU is missing, so the feed-forward layer is linear": (
        swap("np.maximum(0, norm(X) @ W_1)", "norm(X) @ W_1")
        .swap("np.maximum(0, X @ W_1)", "(X @ W_1)")
    ),
    "a ReLU stands after the second matrix, too; the layer ends with W_2": (
        swap("np.maximum(0, norm(X) @ W_1) @ W_2",
             "np.maximum(0, np.maximum(0, norm(X) @ W_1) @ W_2)")
        .swap("np.maximum(0, X @ W_1) @ W_2", "np.maximum(0, np.maximum(0, X @ W_1) @ W_2)")
    ),
    "the norm's sums run over the positions; they run over the features": (
        swap("x.mean(-1,", "x.mean(0,").swap("x.var(-1,", "x.var(0,")
    ),
    "the variance divides by D, not by D − 1": (
        swap("keepdims=True) + 1e-5", "keepdims=True, ddof=1) + 1e-5")
    ),
    "ε stands inside the root": (
        swap("np.sqrt(x.var(-1, keepdims=True) + 1e-5)",
             "(np.sqrt(x.var(-1, keepdims=True)) + 1e-5)")
    ),
    "the norm does not subtract the mean": (
        swap("centred /", "x /")
    ),
    "the rows of A are queries; here its columns were": (
        swap("A @ norm(X) @ W_v", "A.T @ norm(X) @ W_v").swap("A @ X @ W_v", "A.T @ X @ W_v")
    ),
    "a norm after the last block belongs to the stack, not to a block": (
        swap("return X + np.maximum(0, norm(X) @ W_1) @ W_2",
             "return norm(X + np.maximum(0, norm(X) @ W_1) @ W_2)")
    ),
    "both sub-layers read the block's input; the second one reads what the first has left": (
        swap("        X = X + A @ norm(X) @ W_v\n        return X + ",
             "        return X + A @ norm(X) @ W_v + ")
        .swap("    X = norm(X + A @ X @ W_v)\n    return norm(X + ",
              "    return norm(X + A @ X @ W_v + ")
    ),
}  # fmt: skip
