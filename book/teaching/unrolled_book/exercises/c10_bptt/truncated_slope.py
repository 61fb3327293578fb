r"""Windows with a carried state

One unit reads a sequence, $h_t = \tanh(w\, h_{t-1} + x_t)$ with $h_0 = 0$, and
$L = \sum_t \tfrac12 (h_t - y_t)^2$.

Write `truncated_slope(w, x, y, window)`: the derivative of $L$ by $w$ as truncated BPTT computes
it. The sequence is cut into windows of `window` steps from its beginning on, the last one may be
shorter, the state is carried from window to window, and no gradient crosses a cut. Arrays `x` and
`y` have shape `(T,)`. Differentiate by hand: numpy, no autograd.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def truncated_slope(w, x, y, window):
    """The slope of L by w, summed over the windows; x and y are (T,)."""
    h = [0.0]
    for x_t in x:
        h.append(np.tanh(w * h[-1] + x_t))
    slope, a_bar = 0.0, 0.0
    for t in range(len(x), 0, -1):  # h[t] is the state after x[t − 1]
        if t % window == 0:  # the last step of a window: nothing comes back
            a_bar = 0.0
        h_bar = h[t] - y[t - 1] + w * a_bar
        a_bar = (1 - h[t] ** 2) * h_bar
        slope += a_bar * h[t - 1]
    return slope


# %% explanation
explanation = r"""
Forwards nothing is cut: the states are those of the whole sequence. Backwards, $\bar a$ is set to
0 where a step is the last of its window, since what it would have received comes from the next
window. The use of $w$ in the first step of a window still counts, with the carried state
$h_{t-1}$ as a number: that is how truncated BPTT learns from a past it does not go back into.
With `window` $\ge T$ this is full BPTT, and with `window` $= 1$ every step is on its own.
"""


# %% tests
def tests(rng):
    yield call(0.5, np.array([1.0, 0.0]), np.array([0.0, 1.0]), 1, visible=True)
    x, y = rng.normal(size=(2, 11))
    yield call(0.8, x, y, 11, hint="one window: full BPTT")
    yield call(0.8, x, y, 1, hint="windows of one step")
    yield call(-1.1, x, y, 4, hint="11 steps in windows of 4: the last one has 3")
    yield call(1.3, *rng.normal(size=(2, 12)), 3)
    yield call(0.7, *rng.normal(size=(2, 5)), 20, hint="a window longer than the sequence")
    yield call(0.7, *rng.normal(size=(2, 1)), 1, hint="a single step")


# %% oracle
def oracle(w, x, y, window):
    """torch differentiates the sum of the losses; at each cut the state is detached."""
    import torch

    weight = torch.tensor(w, dtype=torch.float64, requires_grad=True)
    h, loss = torch.zeros((), dtype=torch.float64), 0.0
    for t, (x_t, y_t) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        h = torch.tanh(weight * (h.detach() if t % window == 0 else h) + x_t)
        loss = loss + (h - y_t) ** 2 / 2
    loss.backward()
    return weight.grad.item()


# %% wrong
def sliding(w, x, y, window):
    h = [0.0]
    for x_t in x:
        h.append(np.tanh(w * h[-1] + x_t))
    slope = 0.0
    for t in range(1, len(h)):
        a_bar = (h[t] - y[t - 1]) * (1 - h[t] ** 2)
        for s in range(t, max(t - window, 0), -1):
            slope += a_bar * h[s - 1]
            a_bar = a_bar * w * (1 - h[s - 1] ** 2)
    return slope


wrong = {
    "this is full BPTT: gradients cross the cuts": swap("if t % window == 0", "if False"),
    "the state is reset at every cut; it should be carried": (
        swap("w * h[-1]", "w * h[-1] * ((len(h) - 1) % window > 0)").swap(
            "a_bar * h[t - 1]", "a_bar * h[t - 1] * ((t - 1) % window > 0)"
        )
    ),
    "the cut is one step late": (swap("t % window == 0", "t > 1 and t % window == 1 % window")),
    "the windows are counted from the end; they begin at the first step": (
        swap("t % window == 0", "(len(x) - t) % window == 0")
    ),
    "only the last window counts": (
        swap("range(len(x), 0, -1)", "range(len(x), (len(x) - 1) // window * window, -1)")
    ),
    "each loss goes back equally far, which is a sliding window; here the cuts are fixed": (
        sliding
    ),
    "the first step of a window counts, too: there w multiplies the carried state": (
        swap("a_bar * h[t - 1]", "a_bar * h[t - 1] * ((t - 1) % window > 0)")
    ),
    "a step's own loss is added at the end of a window only": swap(
        "h[t] - y[t - 1] + w * a_bar",
        "h[t] - y[t - 1] if t % window == 0 or t == len(x) else w * a_bar",
    ),
    "the slope of tanh, 1 − h², is missing": swap("(1 - h[t] ** 2) * h_bar", "h_bar"),
    "the average over windows is taken; gradients of the windows add up": (
        swap("return slope", "return slope / -(-len(x) // window)")
    ),
}
