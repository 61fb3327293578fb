r"""One step, twice by hand

A memory has three rows, $h_1 = (1, 0)$, $h_2 = (0, 1)$, $h_3 = (2, 1)$, and the decoder's state is
$s = \ln 2 \cdot (1, 1)$.

- `dot`: the three weights with the dot product, and `context`, what the decoder reads.
- `padded`: the weights when the third row is padding, so the mask is (True, True, False).
- `bilinear`: the weights with the score $s^\top W h_j$ and $W = \begin{pmatrix} 0 & 1 \\ 0 & 1
  \end{pmatrix}$.

You may write fractions as they are, `2 / 3`.
"""

kind, level, points = "paper", 1, 2

# %% solution
step_by_hand = {
    "dot": [1 / 6, 1 / 6, 2 / 3],
    "context": [3 / 2, 5 / 6],
    "padded": [1 / 2, 1 / 2, 0],
    "bilinear": [1 / 9, 4 / 9, 4 / 9],
}

# %% explanation
explanation = r"""
The scores are $\ln 2 \cdot (1, 1, 3)$, their exponentials 2, 2, 8 with sum 12. The context is
$\tfrac16 (1, 0) + \tfrac16 (0, 1) + \tfrac46 (2, 1) = (\tfrac32, \tfrac56)$. The mask puts
$-\infty$ in place of the third score: its exponential is 0, and the sum of the others is 4.

With $W$, the state asks with $s^\top W = \ln 2 \cdot (0, 2)$: only the second number of a row
counts. The scores are $\ln 2 \cdot (0, 2, 2)$, the exponentials 1, 4, 4.
"""


# %% oracle
def oracle():
    """torch's attention and its bilinear layer."""
    import torch

    h = torch.tensor([[1.0, 0], [0, 1], [2, 1]], dtype=torch.float64)
    s = torch.full((2,), 2.0, dtype=torch.float64).log()
    layer = torch.nn.Bilinear(2, 2, 1, bias=False).double()
    layer.weight.data = torch.tensor([[[0.0, 1], [0, 1]]], dtype=torch.float64)
    dot = (h @ s).softmax(0)
    masked = (h @ s).masked_fill(torch.tensor([False, False, True]), -torch.inf)
    scores = layer(s.expand(3, -1).contiguous(), h).detach()[:, 0]
    return {
        "dot": dot.tolist(),
        "context": (dot @ h).tolist(),
        "padded": masked.softmax(0).tolist(),
        "bilinear": scores.softmax(0).tolist(),
    }


# %% wrong
wrong = {
    "these are scores divided by their sum; the softmax takes exponentials first": {
        "dot": [1 / 5, 1 / 5, 3 / 5]
    },
    "the weights came out as exponentials: divide them by their sum": {"dot": [2, 2, 8]},
    "the factor ln 2 is missing in the scores": {"dot": [0.1065, 0.1065, 0.787]},
    "this is the mean of the rows; each row has a weight of its own": {"context": [1, 2 / 3]},
    "this is the sum of the rows, without weights": {"context": [3, 2]},
    "this is the row with the largest weight; attention mixes all rows": {"context": [2, 1]},
    "a score of 0 is not a mask: its exponential is 1, and padding keeps a weight": {
        "padded": [2 / 5, 2 / 5, 1 / 5]
    },
    "after the mask the other weights must sum to one again": {"padded": [1 / 6, 1 / 6, 0]},
    "padding gets no weight, so the two rows that are left get one half each": {
        "padded": [1 / 3, 1 / 3, 1 / 3]
    },
    "this is the dot product again: W is missing": {"bilinear": [1 / 6, 1 / 6, 2 / 3]},
    "this is W applied to the state; the score needs s from the left": {
        "bilinear": [4 / 9, 1 / 9, 4 / 9]
    },
}
