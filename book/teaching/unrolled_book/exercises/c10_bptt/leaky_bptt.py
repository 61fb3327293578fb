r"""A state that leaks

A *leaky* unit keeps a part of its state and adds something new,

$$
\begin{aligned}
h_t &= (1 - \alpha)\, h_{t-1} + \alpha \tanh(a_t), \\
a_t &= x_t + h_{t-1} W ,
\end{aligned}
$$

with one number $0 < \alpha \le 1$ for all units; $\alpha = 1$ is the Elman network.

From the losses of the single steps arrive the gradients $G_t$, each that of $h_t$ in its own loss
$L_t$ only. Write `leaky_bptt(X, W, alpha, h0, G)` for `X` and `G` of shape `(T, B, H)`, `W` of
shape `(H, H)` and `h0` of shape `(B, H)`. Return $\bar W$, $\bar \alpha$ and $\bar h_0$, the
gradients of $L = \sum_t L_t$. Numpy, no autograd.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4
outputs = ("W_bar", "alpha_bar", "h0_bar")


# %% solution
def leaky_bptt(X, W, alpha, h0, G):
    """Gradients of W (H, H), alpha and h0 (B, H); X and G are (T, B, H)."""
    h, n = [h0], []
    for x_t in X:
        n.append(np.tanh(x_t + h[-1] @ W))
        h.append((1 - alpha) * h[-1] + alpha * n[-1])
    W_bar, alpha_bar, h_bar = np.zeros_like(W), 0.0, np.zeros_like(h0)
    for t in reversed(range(len(X))):
        h_bar = h_bar + G[t]  # now complete for the state after x_t
        a_bar = alpha * h_bar * (1 - n[t] ** 2)
        W_bar += h[t].T @ a_bar
        alpha_bar += (h_bar * (n[t] - h[t])).sum()
        h_bar = (1 - alpha) * h_bar + a_bar @ W.T
    return W_bar, alpha_bar, h_bar


# %% explanation
explanation = r"""
The state $h_{t-1}$ is used twice on its way to $h_t$: in $a_t$, and in the part that is kept.
Both send something back, and to it comes the state's own loss:

$$
\begin{aligned}
\bar h_{t-1} &= G_{t-1} + (1 - \alpha)\, \bar h_t + \bar a_t W^\top, \\
\bar a_t &= \alpha\, \bar h_t \odot (1 - \tanh^2 a_t) .
\end{aligned}
$$

$\alpha$ is used at every step, by every unit of every sequence:
$\bar\alpha = \sum_t \sum \bar h_t \odot (\tanh a_t - h_{t-1})$.

The Jacobian of a step is $(1 - \alpha)\, I + \alpha\, \mathrm{diag}(1 - \tanh^2 a_t)\, W^\top$.
With a small $\alpha$ it is near the identity: a gradient can go back many steps on the part that
is kept, without passing a weight or a tanh. The gates of the next chapter choose such an $\alpha$
anew at every step.
"""


# %% tests
def tests(rng):
    one = np.ones((1, 1, 1))
    yield call(0 * one, 2 * one[0], 0.5, 0 * one[0], one, visible=True)
    for T, B, H, alpha in [(1, 2, 3, 0.3), (5, 2, 3, 0.3), (7, 3, 3, 0.9)]:
        X, G = rng.normal(size=(2, T, B, H))
        yield call(X, rng.normal(size=(H, H)), alpha, rng.normal(size=(B, H)), G)
    X, G = rng.normal(size=(2, 4, 2, 5))
    arguments = X, rng.normal(size=(5, 5)), 1.0, rng.normal(size=(2, 5)), G
    yield call(*arguments, hint="alpha = 1: the Elman network")
    G = np.zeros((6, 2, 3))
    G[-1] = rng.normal(size=(2, 3))
    arguments = rng.normal(size=(6, 2, 3)), rng.normal(size=(3, 3)), 0.2, rng.normal(size=(2, 3))
    yield call(*arguments, G, hint="a loss at the last step only")


# %% oracle
def oracle(X, W, alpha, h0, G):
    """torch differentiates Σ G·h, whose gradients by the states are G."""
    import torch

    W, alpha, h0 = (
        torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (W, alpha, h0)
    )
    h, total = h0, 0.0
    for x_t, g_t in zip(torch.tensor(X), torch.tensor(G), strict=True):
        h = (1 - alpha) * h + alpha * torch.tanh(x_t + h @ W)
        total = total + (g_t * h).sum()
    total.backward()
    return W.grad.numpy(), alpha.grad.item(), h0.grad.numpy()


# %% wrong
wrong = {
    "the part of the state that is kept sends nothing back": swap("(1 - alpha) * h_bar + ", ""),
    "the gradient through a_t is missing; only the kept part sends one back": (
        swap(" + a_bar @ W.T", "")
    ),
    "only the last step's loss counts here; each state has its own": (
        swap("h_bar + G[t]", "h_bar + G[t] * (t == len(X) - 1)")
    ),
    "the factor α of the new part is missing on its way back": swap(
        "alpha * h_bar * (1", "h_bar * (1"
    ),
    "the slope of tanh is missing": swap(" * (1 - n[t] ** 2)", ""),
    "the slope of tanh is taken at the mixed state h; it belongs to tanh(a), a part of h": (
        swap("n[t] ** 2", "h[t + 1] ** 2")
    ),
    "W is used on the way back instead of its transpose": swap("W.T", "W"),
    "W was multiplied by the state before the step, not by the one after": (
        swap("h[t].T", "h[t + 1].T")
    ),
    "the gradient of W is that of one step; all steps add up": swap("W_bar +=", "W_bar ="),
    "a larger α adds the new part and takes away the old: the old is missing": (
        swap("(n[t] - h[t])", "n[t]")
    ),
}
