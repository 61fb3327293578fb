r"""Three steps of an Elman network

An Elman network with ReLU has one input, two hidden units, two classes and no biases:

$$
\begin{aligned}
W_{xh} &= \begin{pmatrix} 1 & -1 \end{pmatrix}, \\
W_{hh} &= \begin{pmatrix} 1 & 2 \\ -1 & 0 \end{pmatrix}, \\
W_{hy} &= \ln 2 \begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix} .
\end{aligned}
$$

States are rows, as in the chapter, $h_t = \mathrm{ReLU}(x_t W_{xh} + h_{t-1} W_{hh})$ with
$h_0 = (0, 0)$. The inputs are $1, 0, -1$; the right classes are the first, the first and the
second.

With pencil and paper: the three `states`, two numbers each; the probability that each step gives to
its right class, `right` (three numbers; fractions may be written as they are); the total `loss` in
nats, to three digits; and how many `weights` the network has.
"""

kind, level, points = "paper", 1, 2


# %% starter
starter = """
three_steps = {"states": ..., "right": ..., "loss": ..., "weights": ...}
"""

# %% solution
three_steps = {
    "states": [[1, 0], [1, 2], [0, 3]],
    "right": [2 / 3, 1 / 3, 8 / 9],
    "loss": 1.622,
    "weights": 10,
}

# %% explanation
explanation = r"""
A row times a matrix: $h W_{hh} = (h_1 - h_2,\; 2 h_1)$. So

$$
\begin{aligned}
h_1 &= \mathrm{ReLU}\big((1, -1) + (0, 0)\big) = (1, 0), \\
h_2 &= \mathrm{ReLU}\big((0, 0) + (1, 2)\big) = (1, 2), \\
h_3 &= \mathrm{ReLU}\big((-1, 1) + (-1, 2)\big) = (0, 3) .
\end{aligned}
$$

The logits are $\ln 2$ times the state, so the odds are $2^1 : 2^0$, $2^1 : 2^2$ and $2^0 : 2^3$,
and the right classes get $\tfrac23$, $\tfrac13$ and $\tfrac89$. The loss is the sum over the
steps, $\ln\tfrac32 + \ln 3 + \ln\tfrac98 = \ln\tfrac{81}{16} \approx 1.622$. There are
$2 + 4 + 4$ weights, for three steps as for three thousand.
"""


# %% oracle
def oracle():
    """torch's own recurrent network with these weights."""
    import torch

    rnn = torch.nn.RNN(1, 2, nonlinearity="relu", bias=False, dtype=torch.float64)
    rnn.weight_ih_l0.data[:] = torch.tensor([[1.0], [-1.0]])
    rnn.weight_hh_l0.data[:] = torch.tensor([[1.0, -1.0], [2.0, 0.0]])
    states, _ = rnn(torch.tensor([[1.0], [0.0], [-1.0]], dtype=torch.float64))
    logits = states * torch.log(torch.tensor(2.0, dtype=torch.float64))
    targets = torch.tensor([0, 0, 1])
    loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
    n_weights = sum(p.numel() for p in rnn.parameters()) + 2 * 2
    right = logits.softmax(dim=1)[torch.arange(3), targets]
    return {
        "states": states.tolist(),
        "right": right.tolist(),
        "loss": loss.item(),
        "weights": n_weights,
    }


oracle_tolerance = 1e-3  # the solution's loss is rounded to three digits


# %% wrong
wrong = {
    "the state was put into W_hh as a column; here it is a row, on the left": {
        "states": [[1, 0], [1, 0], [0, 0]], "right": [2 / 3, 2 / 3, 1 / 2], "loss": 1.504
    },
    "the ReLU is missing: a state below zero becomes zero": {
        "states": [[1, -1], [2, 2], [-1, 5]], "right": [4 / 5, 1 / 2, 64 / 65], "loss": 0.932
    },
    "the state before is left out: each step begins at zero": {
        "states": [[1, 0], [0, 0], [0, 1]], "right": [2 / 3, 1 / 2, 2 / 3], "loss": 1.504
    },
    "the second unit was computed from the new state of the first; both need the old state": {
        "states": [[1, 1], [0, 0], [0, 1]], "right": [1 / 2, 1 / 2, 2 / 3], "loss": 1.792
    },
    "this loss is the mean over the steps; give the total": {"loss": 0.541},
    "this loss is in bits; give nats": {"loss": 2.34},
    "this loss takes the first class to be right each time": {
        "right": [2 / 3, 1 / 3, 1 / 9], "loss": 3.701
    },
    "the weights are counted once for each step; they are shared": {"weights": 30},
    "the weights of the output were not counted": {"weights": 6},
}  # fmt: skip
