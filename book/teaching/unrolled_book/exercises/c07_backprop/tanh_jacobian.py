r"""The Jacobian of a tanh layer

A layer computes $h = \tanh(W x)$, entry by entry, with

$$
W = \begin{pmatrix} 1 & 0 \\ 2 & -1 \end{pmatrix}, \qquad
x = \begin{pmatrix} \ln 2 \\ \ln 3 \end{pmatrix} .
$$

Remember that $\tanh(\ln t) = \frac{t^2 - 1}{t^2 + 1}$.

With pencil and paper: write $\partial h / \partial x$ as a product of two matrices, and compute `h`
(two numbers), `dh_dx` (two rows of two, a row for each output), and for $L = h_1 + h_2$ the row
`dL_dx` (two numbers). Fractions may be written as they are, `16 / 25`.
"""

kind, level, points = "paper", 1, 2


# %% starter
starter = """
tanh_jacobian = {"h": ..., "dh_dx": ..., "dL_dx": ...}
"""

# %% solution
tanh_jacobian = {
    "h": [3 / 5, 7 / 25],
    "dh_dx": [[16 / 25, 0], [1152 / 625, -576 / 625]],
    "dL_dx": [1552 / 625, -576 / 625],
}

# %% explanation
explanation = r"""
With $a = W x = (\ln 2,\ 2 \ln 2 - \ln 3) = (\ln 2, \ln \tfrac43)$ we have
$h = (\tfrac35, \tfrac7{25})$. The derivative of $\tanh$ is $1 - \tanh^2$, and an entry of $h$
depends on its own entry of $a$ only, so $\partial h/\partial a = \mathrm{diag}(1 - h^2)
= \mathrm{diag}(\tfrac{16}{25}, \tfrac{576}{625})$ and

$$
\frac{\partial h}{\partial x} = \mathrm{diag}(1 - h^2)\, W :
$$

each *row* of $W$ is scaled. For $L = h_1 + h_2$ the row $(1, 1)$ meets that matrix from the left,
which adds its two rows. From the left it is cheaper still: first $(1, 1)\,\mathrm{diag}(1 - h^2)$,
then times $W$.
"""


# %% oracle
def oracle():
    """torch differentiates the layer and the sum of its outputs."""
    import torch

    W = torch.tensor([[1.0, 0.0], [2.0, -1.0]], dtype=torch.float64)
    x = torch.tensor([2.0, 3.0], dtype=torch.float64).log()
    jacobian = torch.autograd.functional.jacobian
    return {
        "h": torch.tanh(W @ x).tolist(),
        "dh_dx": jacobian(lambda x: torch.tanh(W @ x), x).tolist(),
        "dL_dx": jacobian(lambda x: torch.tanh(W @ x).sum(), x).tolist(),
    }


# %% wrong
wrong = {
    "the diagonal matrix stands on the right of W, where it scales the columns": {
        "dh_dx": [["16/25", 0], ["32/25", "-576/625"]],
        "dL_dx": ["48/25", "-576/625"],
    },
    "this is the transpose: a row belongs to an output": {
        "dh_dx": [["16/25", "1152/625"], [0, "-576/625"]],
    },
    "the derivative of tanh is 1 − h², not 1 − h": {
        "dh_dx": [["2/5", 0], ["36/25", "-18/25"]],
        "dL_dx": ["46/25", "-18/25"],
    },
    "h(1 − h) is the derivative of the logistic function, not of tanh": {
        "dh_dx": [["6/25", 0], ["252/625", "-126/625"]],
        "dL_dx": ["402/625", "-126/625"],
    },
    "the factor W is missing: this is the Jacobian with respect to W x": {
        "dh_dx": [["16/25", 0], [0, "576/625"]],
        "dL_dx": ["16/25", "576/625"],
    },
    "the two columns of a row were added; L adds the two outputs, which are rows": {
        "dL_dx": ["16/25", "576/625"],
    },
    "the second entry of W x is 2 ln 2 − ln 3 = ln(4/3), not ln(2/3)": {
        "h": ["3/5", "-5/13"],
        "dh_dx": [["16/25", 0], ["288/169", "-144/169"]],
        "dL_dx": ["9904/4225", "-144/169"],
    },
}
