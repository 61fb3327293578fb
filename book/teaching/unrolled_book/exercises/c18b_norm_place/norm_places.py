r"""A stack with its norms in four places

Write `norm_places(x, layers, place)`: a stack of sub-layers for vectors `x` of shape `(T, D)`. Each
sub-layer is $f(x) = \tanh(x W)$ with its own `W`, `(D, D)`; `layers` `(n, D, D)` holds them in
order. LN is the layer norm without gain and bias, with $\varepsilon = 10^{-5}$. `place` is one of

| place | each sub-layer | at the end |
|:--|:--|:--|
| `"post"` | $\mathrm{LN}(x + f(x))$ | – |
| `"pre"` | $x + f(\mathrm{LN}(x))$ | one more LN |
| `"out"` (OLMo 2) | $x + \mathrm{LN}(f(x))$ | one more LN |
| `"both"` (Gemma 2) | $x + \mathrm{LN}(f(\mathrm{LN}(x)))$ | one more LN |

Return the vectors at the top, `(T, D)`. The arguments stay as they are.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def norm_places(x, layers, place):
    """The vectors (T, D) at the top of a stack of tanh(x W), W in layers."""

    def norm(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    for W in layers:
        read = norm(x) if place in ("pre", "both") else x
        new = np.tanh(read @ W)
        new = norm(new) if place in ("out", "both") else new
        x = norm(x + new) if place == "post" else x + new
    return x if place == "post" else norm(x)


# %% explanation
explanation = r"""
Three questions, one line each: is what the sub-layer *reads* normalised, is what it *gives*
normalised, is the *sum* normalised? Only post-LN says yes to the third, and only there a norm
stands on the residual path. In the other three places `x` is never replaced by `norm(x)` before the
end.

A norm on what a sub-layer gives makes every addend equally long, $\sqrt D$, whatever the weights
do. If they are independent and the embedding has the same
length, the path grows with $\sqrt{1 + n}$.
"""


# %% tests
def tests(rng):
    x, W = np.array([[1.0, 0.0], [3.0, 1.0]]), np.array([[[0.0, 1.0], [1.0, 0.0]]])
    yield call(x, W, "pre", visible=True)
    for place in ("post", "pre", "out", "both"):
        yield call(rng.normal(size=(3, 5)), rng.normal(size=(4, 5, 5)), place, hint=place)
    for place in ("post", "pre", "out", "both"):
        x = rng.normal(size=(4, 4)) + 2.0
        yield call(
            x, rng.normal(size=(2, 4, 4)), place, hint=f"{place}, as many tokens as features"
        )
    yield call(rng.normal(size=(1, 3)), np.zeros((0, 3, 3)), "pre", hint="no layers at all")
    yield call(rng.normal(size=(2, 3)), np.zeros((0, 3, 3)), "post", hint="no layers at all")


# %% oracle
def oracle(x, layers, place):
    """torch's layer norm, and one formula after the other."""
    import torch

    def norm(x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:])

    x = torch.tensor(x)
    for W in torch.tensor(layers):

        def f(x, W=W):
            return torch.tanh(x @ W)

        step = {
            "post": lambda x, f=f: norm(x + f(x)),
            "pre": lambda x, f=f: x + f(norm(x)),
            "out": lambda x, f=f: x + norm(f(x)),
            "both": lambda x, f=f: x + norm(f(norm(x))),
        }
        x = step[place](x)
    return (x if place == "post" else norm(x)).numpy()


# %% wrong
wrong = {
    "the last norm is missing where none stands on the path": (
        swap('return x if place == "post" else norm(x)', "return x")
    ),
    "the last norm is missing in one of the three places that need it: pre": (
        swap('return x if place == "post"', 'return x if place in ("post", "pre")')
    ),
    "what is added to is the norm's output, so the norm stands on the residual path": (
        swap('read = norm(x) if place in ("pre", "both") else x',
             'x = read = norm(x) if place in ("pre", "both") else x')
    ),
    "there is no residual connection: only what the sub-layer gives goes on": (
        swap("norm(x + new) if", "norm(new) if").swap("else x + new", "else new")
    ),
    "in post-LN the sum is normalised; here the sub-layer's output alone is, before it is added": (
        swap("norm(x + new) if", "x + norm(new) if")
    ),
    "in post-LN the sub-layer reads x itself": (
        swap('place in ("pre", "both") else', 'place in ("pre", "both", "post") else')
    ),
    "“out” and “post” are exchanged: OLMo 2 normalises the sub-layer's output, not the sum": (
        swap('place in ("out", "both")', 'place in ("post", "both")')
        .swap('x = norm(x + new) if place == "post"', 'x = norm(x + new) if place == "out"')
    ),
    "“both” normalises what the sub-layer gives, too": (
        swap('place in ("out", "both") else new', 'place == "out" else new')
    ),
    "“both” normalises what the sub-layer reads, too": (
        swap('place in ("pre", "both") else x', 'place == "pre" else x')
    ),
    "“pre” normalises what the sub-layer reads, “out” what it gives; they are exchanged": (
        swap('place in ("pre", "both")', 'place in ("OUT", "both")')
        .swap('place in ("out", "both")', 'place in ("pre", "both")')
        .swap('"OUT"', '"out"')
    ),
    "the norm's sums run over the tokens; they run over the features": (
        swap("x.mean(-1,", "x.mean(0,").swap("x.var(-1,", "x.var(0,")
    ),
    "the variance divides by D, not by D − 1": (
        swap("keepdims=True) + 1e-5", "keepdims=True, ddof=1) + 1e-5")
    ),
    "the layers are applied from the last to the first": (
        swap("for W in layers:", "for W in layers[::-1]:")
    ),
}  # fmt: skip
