r"""One step of an LSTM, by hand

An LSTM of one unit reads $x = 1$. Before the step its hidden state is $h = \frac12$ and its cell
$c = -2$. Its weights are

| | $w_x$ | $w_h$ | $b$ |
|:--|--:|--:|--:|
| input gate | $0$ | $2 \ln 4$ | $0$ |
| forget gate | $\ln 3$ | $0$ | $-2 \ln 3$ |
| candidate | $\ln 3$ | $-2 \ln 3$ | $\ln 3$ |
| output gate | $-\ln 2$ | $0$ | $0$ |

With pencil and paper, and $\sigma(\ln k) = \frac{k}{k+1}$, $\tanh(\ln t) = \frac{t^2 - 1}{t^2 +
1}$: compute `i`, `f`, `g`, `o`, the new cell `c`, and `h_sign`, the sign of the new hidden
state, 1 or −1. Then `direct`, the derivative of the new cell with respect to the old one with
$h$ held fixed, and `left`, how much of the old cell is left after three steps with the same
forget gate. Fractions may be written as they are, `4 / 5`.
"""

kind, level, points = "paper", 1, 2
tolerance = 1e-6


# %% starter
starter = """
lstm_by_hand = {
    "i": ...,
    "f": ...,
    "g": ...,
    "o": ...,
    "c": ...,
    "h_sign": ...,
    "direct": ...,
    "left": ...,
}
"""

# %% solution
lstm_by_hand = {
    "i": 4 / 5,
    "f": 1 / 4,
    "g": 4 / 5,
    "o": 1 / 3,
    "c": 7 / 50,
    "h_sign": 1,
    "direct": 1 / 4,
    "left": 1 / 64,
}

# %% explanation
explanation = r"""
The four inputs are $2 \ln 4 \cdot \frac12 = \ln 4$, then $\ln 3 - 2 \ln 3 = \ln \frac13$, then
$\ln 3 - \ln 3 + \ln 3 = \ln 3$, and $-\ln 2 = \ln \frac12$. So $i = \frac45$, $f =
\frac{1/3}{4/3} = \frac14$, $g = \frac{9 - 1}{9 + 1} = \frac45$, $o = \frac{1/2}{3/2} = \frac13$,
and

$$
c' = \tfrac14 \cdot (-2) + \tfrac45 \cdot \tfrac45
= -\tfrac{25}{50} + \tfrac{32}{50} = \tfrac{7}{50} .
$$

The output gate is positive and $\tanh$ keeps the sign, so $h'$ has the sign of $c'$. The direct
path's derivative is the forget gate itself, and three steps multiply it three times.
"""


# %% oracle
def oracle():
    """torch's cell with these weights, and its derivative."""
    import torch

    ln2, ln3 = torch.tensor([2.0, 3.0], dtype=torch.float64).log().tolist()
    cell = torch.nn.LSTMCell(1, 1).double()
    rows = [(0, 4 * ln2, 0), (ln3, 0, -2 * ln3), (ln3, -2 * ln3, ln3), (-ln2, 0, 0)]
    w = torch.tensor(rows, dtype=torch.float64)
    with torch.no_grad():
        cell.weight_ih.copy_(w[:, :1])
        cell.weight_hh.copy_(w[:, 1:2])
        cell.bias_ih.copy_(w[:, 2])
        cell.bias_hh.zero_()
    one = torch.ones(1, 1, dtype=torch.float64)
    c = torch.full((1, 1), -2.0, dtype=torch.float64, requires_grad=True)
    h_new, c_new = cell(one, (one / 2, c))
    direct = torch.autograd.grad(c_new, c)[0].item()
    a = (w @ torch.tensor([1.0, 0.5, 1.0], dtype=torch.float64)).tolist()
    i, f, o = (torch.sigmoid(torch.tensor(a[k], dtype=torch.float64)).item() for k in (0, 1, 3))
    g = torch.tanh(torch.tensor(a[2], dtype=torch.float64)).item()
    sign = 1 if h_new.item() > 0 else -1
    return {"i": i, "f": f, "g": g, "o": o, "c": c_new.item(), "h_sign": sign,
            "direct": direct, "left": direct**3}  # fmt: skip


# %% wrong
wrong = {
    "the forget gate is the part that is kept; here it is used as the part that is dropped": {
        "c": "-43/50", "h_sign": -1, "direct": "3/4", "left": "27/64"
    },
    "the candidate goes through tanh, not through the logistic function": {
        "g": "3/4", "c": "1/10"
    },
    "σ(ln ⅓) is (1/3)/(1 + 1/3) = 1/4; here the minus sign was lost": {
        "f": "3/4", "c": "-43/50", "h_sign": -1, "direct": "3/4", "left": "27/64"
    },
    "the cell keeps and adds, i g + f c; here the shares are i and 1 − i, as in a GRU": {
        "c": "6/25"
    },
    "the old cell was left out of the new one": {"c": "16/25"},
    "the direct derivative is f; with −2 multiplied in it is the old cell's part of c": {
        "direct": "-1/2", "left": "-1/8"
    },
    "three steps multiply, f·f·f; here they were added": {"left": "3/4"},
    "the input gate's h is 1/2, so its input is ln 4, not 2 ln 4": {"i": "16/17", "c": "43/170"},
}  # fmt: skip
