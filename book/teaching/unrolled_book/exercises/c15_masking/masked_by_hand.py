r"""One row, four masks

There are four positions, counted from 0. The query at position 2 has the scores
$s = (\ln 2,\ \ln 1,\ \ln 3,\ \ln 6)$, and the values are the numbers $v = (6,\ 0,\ 12,\ 30)$.

With pencil and paper, compute the row's four weights without a mask (`plain`), with the causal
mask (`causal`), with a sliding window of the last two keys (`window`), and with the mask $j < i$
that hides the query's own position (`strict`). Then compute the output $y = \sum_j \alpha_j v_j$
under the causal mask (`output`) and its four derivatives, which are those of a softmax,
$\partial y / \partial s_j = \alpha_j (v_j - y)$ (`gradient`). You may write a fraction as `1 / 3`.
"""

kind, level, points = "paper", 1, 2
tolerance = 1e-6


# %% starter
starter = """
masked_by_hand = {
    "plain": ...,
    "causal": ...,
    "window": ...,
    "strict": ...,
    "output": ...,
    "gradient": ...,
}
"""

# %% solution
masked_by_hand = {
    "plain": [1 / 6, 1 / 12, 1 / 4, 1 / 2],
    "causal": [1 / 3, 1 / 6, 1 / 2, 0],
    "window": [0, 1 / 4, 3 / 4, 0],
    "strict": [2 / 3, 1 / 3, 0, 0],
    "output": 8,
    "gradient": [-2 / 3, -4 / 3, 2, 0],
}

# %% explanation
explanation = r"""
The exponentials are $2, 1, 3, 6$. Each mask keeps some of them and divides by the sum of those it
keeps: by 12, by $2 + 1 + 3 = 6$, by $1 + 3 = 4$, by $2 + 1 = 3$. The ratios of what remains do
not change. So a mask can be applied before the softmax or, with renormalising, after it.

The output is $\frac13 \cdot 6 + \frac16 \cdot 0 + \frac12 \cdot 12 = 8$. Its derivatives are those
of a softmax,

$$
\frac{\partial y}{\partial s_j} = \sum_i v_i\, \alpha_i (\delta_{ij} - \alpha_j)
= \alpha_j (v_j - y) ,
$$

so they sum to zero, and the derivative of the hidden score is 0, although its value 30 is large.
"""


# %% oracle
def oracle():
    """torch's softmax with −∞, and its derivative."""
    import torch

    scores = torch.tensor([2.0, 1.0, 3.0, 6.0], dtype=torch.float64).log().requires_grad_()

    def weights(*kept):
        mask = torch.tensor([j in kept for j in range(4)])
        return scores.masked_fill(~mask, -torch.inf).softmax(-1)

    values = torch.tensor([6.0, 0.0, 12.0, 30.0], dtype=torch.float64)
    output = weights(0, 1, 2) @ values
    (gradient,) = torch.autograd.grad(output, scores)
    return {
        "plain": weights(0, 1, 2, 3).tolist(),
        "causal": weights(0, 1, 2).tolist(),
        "window": weights(1, 2).tolist(),
        "strict": weights(0, 1).tolist(),
        "output": output.item(),
        "gradient": gradient.tolist(),
    }


# %% wrong
wrong = {
    "the weights that a mask leaves are divided by their own sum; here they stay as they were": {
        "causal": ["1/6", "1/12", "1/4", 0], "window": [0, "1/12", "1/4", 0],
        "strict": ["1/6", "1/12", 0, 0], "output": 4, "gradient": ["1/3", "-1/3", 2, 0],
    },
    "a hidden score is −∞; here it is 0, and exp(0) = 1 keeps a share": {
        "causal": ["2/7", "1/7", "3/7", "1/7"], "window": ["1/6", "1/6", "1/2", "1/6"],
        "strict": ["2/5", "1/5", "1/5", "1/5"], "output": "78/7",
        "gradient": ["-72/49", "-78/49", "18/49", 0],
    },
    "the causal mask keeps the query's own position; here it is hidden": {
        "causal": ["2/3", "1/3", 0, 0], "output": 4, "gradient": ["4/3", "-4/3", 0, 0],
    },
    "a window of two holds the query's own key and one more; here it holds two more": {
        "window": ["1/3", "1/6", "1/2", 0],
    },
    "position 2 counted from 0 is the third; here it is taken for the second": {
        "causal": ["2/3", "1/3", 0, 0], "window": ["2/3", "1/3", 0, 0], "strict": [1, 0, 0, 0],
        "output": 4, "gradient": ["4/3", "-4/3", 0, 0],
    },
    "the derivative is α(v − y); here it is α v, as if the weights did not compete": {
        "gradient": [2, 0, 6, 0],
    },
    "the hidden value of 30 is in the output, with the weight it would have had": {"output": 23},
    "the mask is inverted: it keeps the future only": {
        "causal": [0, 0, 0, 1], "output": 30, "gradient": [0, 0, 0, 0],
    },
}  # fmt: skip
