r"""The LSTM, backwards

A step of an LSTM has computed its gates $i, f, o$ and its candidate $g$ (after their
activations), and from the old cell $c$

$$
c' = f \odot c + i \odot g, \qquad h' = o \odot \tanh(c') .
$$

Going back in time, two gradients arrive: $\bar h'$, of the hidden state, and $\bar c'$, which
the *next* step sent to the cell directly.

Write `lstm_step_vjp(i, f, g, o, c, h_bar, c_bar)`, with arrays of shape `(B, H)`. Return a pair:
the gradient of the four blocks *before* their activations, side by side in torch's order, `(B,
4H)`; and the gradient of the old cell `c`, `(B, H)`, by the direct path only. From the first,
matrix products give $\bar W_x$, $\bar W_h$, $\bar x$ and $\bar h$.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 5
outputs = ("blocks", "c")


# %% solution
def lstm_step_vjp(i, f, g, o, c, h_bar, c_bar):
    """Gradients of the blocks' inputs (B, 4H) and of the old cell (B, H)."""
    shown = np.tanh(f * c + i * g)
    cell_bar = c_bar + h_bar * o * (1 - shown**2)  # both ways into the new cell
    blocks = (
        cell_bar * g * i * (1 - i),
        cell_bar * c * f * (1 - f),
        cell_bar * i * (1 - g**2),
        h_bar * shown * o * (1 - o),
    )
    return np.concatenate(blocks, axis=1), cell_bar * f


# %% explanation
explanation = r"""
The new cell is used twice: by $h'$, and by the next step. So its gradient is a sum, $\bar c' +
\bar h' \odot o \odot (1 - \tanh^2 c')$, and everything else starts there. A product sends each
factor the gradient times the other factor: $i$ gets $g$ times it, $g$ gets $i$, $f$ gets the old
cell, and the old cell gets $f$. Last come the activations' own slopes, $\sigma' = \sigma(1 -
\sigma)$ and $\tanh' = 1 - \tanh^2$.

Look at the second result. From step to step the cell's gradient is multiplied by $f$ and by
nothing else, plus what each $h'$ adds. And look at the blocks: where the input gate is shut, $i
\approx 0$, the candidate learns nothing; where the cell was empty, $c = 0$, the forget gate
learns nothing.
"""


# %% tests
def example(rng, B, H):
    i, f, o = 1 / (1 + np.exp(-rng.normal(size=(3, B, H))))
    g = np.tanh(rng.normal(size=(B, H)))
    return i, f, g, o, *rng.normal(size=(3, B, H))


def tests(rng):
    half, one = np.array([[0.5]]), np.array([[1.0]])
    yield call(half, half, 0 * one, half, 0 * one, one, one, visible=True)
    yield call(*example(rng, 2, 3))
    yield call(*example(rng, 5, 2))
    i, f, g, o, c, h_bar, c_bar = example(rng, 3, 2)
    yield call(i, f, g, o, c, 0 * h_bar, c_bar, hint="only the next step's cell sends a gradient")
    yield call(i, f, g, o, c, h_bar, 0 * c_bar, hint="only the hidden state sends a gradient")


# %% oracle
def oracle(i, f, g, o, c, h_bar, c_bar):
    """torch differentiates the step from the blocks' inputs on."""
    import torch

    a = [np.log(i / (1 - i)), np.log(f / (1 - f)), np.arctanh(g), np.log(o / (1 - o))]
    a = torch.tensor(np.concatenate(a, axis=1), requires_grad=True)
    old = torch.tensor(c, requires_grad=True)
    a_i, a_f, a_g, a_o = a.chunk(4, dim=1)
    new = torch.sigmoid(a_f) * old + torch.sigmoid(a_i) * torch.tanh(a_g)
    h_new = torch.sigmoid(a_o) * torch.tanh(new)
    ((h_new * torch.tensor(h_bar)).sum() + (new * torch.tensor(c_bar)).sum()).backward()
    return a.grad.numpy(), old.grad.numpy()


# %% wrong
wrong = {
    "what the next step sent to the cell, c̄′, is not used": swap("c_bar + h_bar", "h_bar"),
    "the hidden state's gradient does not reach the cell; h′ was computed from c′": (
        swap("c_bar + h_bar * o * (1 - shown**2)", "c_bar")
    ),
    "the slope of tanh(c′) is missing on the way from h′ to the cell": (
        swap(" * (1 - shown**2)", "")
    ),
    "the blocks stand in the order i, f, o, g": (
        swap("blocks, axis=1", "[*blocks[:2], blocks[3], blocks[2]], axis=1")
    ),
    "these are the gradients after the activations; their slopes are missing": (
        swap(" * i * (1 - i)", "")
        .swap(" * f * (1 - f)", "")
        .swap(" * (1 - g**2)", "")
        .swap(" * o * (1 - o)", "")
    ),
    "the old cell's gradient is multiplied by f": swap(
        "axis=1), cell_bar * f", "axis=1), cell_bar"
    ),
    "the forget gate multiplied the old cell, so that is its factor, not the new one": (
        swap("cell_bar * c", "cell_bar * (f * c + i * g)")
    ),
    "g is a tanh: its slope is 1 − g², not g(1 − g)": swap("(1 - g**2)", "g * (1 - g)"),
}
