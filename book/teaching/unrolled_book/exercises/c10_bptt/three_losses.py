r"""Three steps, by hand

A linear unit reads three numbers, $h_t = w\, h_{t-1} + x_t$, with $h_0 = 0$, $w = \tfrac12$ and
$x = (4, 2, 1)$. Every step has a loss, and $L = \sum_t \tfrac12 (h_t - y_t)^2$ with the targets
$y = (3, 0, 6)$.

With pencil and paper: the states `h`; the gradients `h_bar`, $\bar h_1$ to $\bar h_3$, each with
all that comes back from later steps; the slope `w_bar`; and what the slope becomes when every
window is *one* step long and the state is carried, `w_bar_truncated`. In which direction would a
step of gradient descent move $w$, with the one and with the other?
"""

kind, level, points = "paper", 1, 2

# %% solution
three_losses = {
    "h": [4, 4, 3],
    "h_bar": [2.25, 2.5, -3],
    "w_bar": -2,
    "w_bar_truncated": 4,
}

# %% explanation
explanation = r"""
Forwards, $h = (4,\ 2 + 2,\ 2 + 1)$, and the errors are $e = h - y = (1, 4, -3)$. Backwards,

$$
\begin{aligned}
\bar h_3 &= -3, \\
\bar h_2 &= 4 + \tfrac12 \cdot (-3) = \tfrac52, \\
\bar h_1 &= 1 + \tfrac12 \cdot \tfrac52 = \tfrac94 .
\end{aligned}
$$

The weight is used at every step, with $h_0$, $h_1$ and $h_2$:
$\bar w = \tfrac94 \cdot 0 + \tfrac52 \cdot 4 - 3 \cdot 4 = -2$.

With windows of one step nothing comes back, $\bar h_t$ is $e_t$ alone, and
$\tilde w = 1 \cdot 0 + 4 \cdot 4 - 3 \cdot 4 = 4$. The true slope asks for a larger $w$, the
truncated one for a smaller. What it left out is one path: a larger $w$ at step 2 raises $h_2$ and
with it $h_3$, which is too low.
"""


# %% oracle
def oracle():
    """torch differentiates the sum of the losses, once with the states cut from their past."""
    import torch

    def run(cut):
        w = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
        h, states, loss = torch.zeros((), dtype=torch.float64), [], 0
        for x, y in ((4, 3), (2, 0), (1, 6)):
            h = w * (h.detach() if cut else h) + x
            h.retain_grad()
            states.append(h)
            loss = loss + (h - y) ** 2 / 2
        loss.backward()
        return w.grad.item(), [h.item() for h in states], [h.grad.item() for h in states]

    slope, states, gradients = run(cut=False)
    truncated, *_ = run(cut=True)
    return {"h": states, "h_bar": gradients, "w_bar": slope, "w_bar_truncated": truncated}


# %% wrong
wrong = {
    "each h_bar holds only its own loss; the gradient from the next step is missing": {
        "h_bar": [1, 4, -3], "w_bar": 4,
    },
    "each h_bar holds only the gradient from the next step; its own loss is missing": {
        "h_bar": ["-3/4", "-3/2", -3], "w_bar": -18,
    },
    "the gradient that comes back from the next step must be multiplied by w": {
        "h_bar": [2, 1, -3], "w_bar": -8,
    },
    "w_bar uses the state after each step; w multiplies the state before it": {
        "w_bar": 10, "w_bar_truncated": 11,
    },
    "w_bar uses the inputs; w multiplies the state before each step": {
        "w_bar": 11, "w_bar_truncated": 9,
    },
    "only the last use of w is counted; the gradients of all uses add up": {
        "w_bar": -12, "w_bar_truncated": -12,
    },
    "the state was reset at the cut; truncation with a carried state leaves it as it is": {
        "w_bar_truncated": 0,
    },
    "target minus state has the opposite sign: the derivative of ½(h − y)² is h − y": {
        "h_bar": ["-9/4", "-5/2", 3], "w_bar": 2, "w_bar_truncated": -4,
    },
}  # fmt: skip
