r"""Two norms and a way back, by hand

A position's vector is $x = (-1, 5, 5, 7)$. With pencil and paper, $\varepsilon = 0$, gain 1 and
bias 0, compute

- `layer`, the four entries of its layer normalisation, and `rms`, those of its RMSNorm;
- `unbiased`, the number by which a layer norm that divides by $D - 1$ multiplies the right result;
- `back`, the four entries of $\bar x$, if the gradient $(0, 0, 0, 12)$ arrives at the output of
  the layer norm ([the way back](#going-further-the-way-back-through-a-norm) has the formula).

Write fractions as they are, `[1 / 3, ...]`, and a root as `(1 / 2) ** 0.5`.
"""

kind, level, points = "paper", 1, 3
tolerance = 1e-6


# %% starter
starter = """
norms_by_hand = {
    "layer": [..., ..., ..., ...],
    "rms": [..., ..., ..., ...],
    "unbiased": ...,
    "back": [..., ..., ..., ...],
}
"""

# %% solution
norms_by_hand = {
    "layer": [-5 / 3, 1 / 3, 1 / 3, 1],
    "rms": [-1 / 5, 1, 1, 7 / 5],
    "unbiased": (3 / 4) ** 0.5,
    "back": [2 / 3, -4 / 3, -4 / 3, 2],
}

# %% explanation
explanation = r"""
The mean is 4, the deviations are $(-5, 1, 1, 3)$, their squares sum to 36, so the variance is 9 and
$\sigma = 3$. The squares of $x$ itself sum to 100, so the root of their mean is 5. The unbiased
variance is $\frac{36}{3} = 12$ instead of 9, so the result is multiplied by $\sqrt{9/12}$.

For the way back, $\mathrm{mean}(g) = 3$ and $\mathrm{mean}(g \odot \hat x) = \frac{12 \cdot 1}{4} =
3$, so

$$
\begin{aligned}
\bar x &= \tfrac13 \big( (0, 0, 0, 12) - 3 \\
&\quad - 3 \cdot (-\tfrac53, \tfrac13, \tfrac13, 1) \big) \\
&= \tfrac13 (2, -4, -4, 6) .
\end{aligned}
$$

It sums to 0, and its product with $\hat x$ is 0 as well: two checks that cost nothing.
"""


# %% oracle
def oracle():
    """torch normalises and differentiates."""
    import torch
    from torch.nn import functional as F

    x = torch.tensor([-1.0, 5.0, 5.0, 7.0], dtype=torch.float64, requires_grad=True)
    layer = F.layer_norm(x, (4,), eps=0.0)
    (back,) = torch.autograd.grad(layer[3] * 12, x)
    rms = F.rms_norm(x.detach(), (4,), eps=0.0)
    right, other = x.detach().std(correction=0), x.detach().std(correction=1)
    return {
        "layer": layer.detach().tolist(),
        "rms": rms.tolist(),
        "unbiased": (right / other).item(),
        "back": back.tolist(),
    }


# %% wrong
wrong = {
    "the variance divides by D = 4; here the sum of squares was divided by 3": {
        "layer": [-5 / 12**0.5, 1 / 12**0.5, 1 / 12**0.5, 3 / 12**0.5]
    },
    "RMSNorm leaves the mean where it is; here it was subtracted": {
        "rms": [-5 / 3, 1 / 3, 1 / 3, 1]
    },
    "the deviations are divided by the standard deviation, 3, not by the variance": {
        "layer": [-5 / 9, 1 / 9, 1 / 9, 1 / 3]
    },
    "a larger divisor makes the result smaller: the factor is the root of 9/12, not of 12/9": {
        "unbiased": (4 / 3) ** 0.5
    },
    "variances are in the ratio 9 to 12; the results are divided by their roots": {
        "unbiased": 3 / 4
    },
    "the mean of the gradient was not subtracted": {"back": [5 / 3, -1 / 3, -1 / 3, 3]},
    "the part along x̂ was not subtracted": {"back": [-1, -1, -1, 3]},
    "the gradient was not divided by σ = 3": {"back": [2, -4, -4, 6]},
}
