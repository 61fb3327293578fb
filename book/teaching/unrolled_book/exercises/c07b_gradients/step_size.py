r"""The best step, in two precisions

How small a step should a gradient check take in float32? Measure it on $f(x) = e^{3x}$, whose
derivative you know, at the 101 points `np.linspace(0, 1, 101)`. For each step
$\varepsilon = 10^{-k}$, $k = 1, \dots, 12$, compute the difference quotients, one-sided
$\big(f(x+\varepsilon) - f(x)\big)/\varepsilon$ and two-sided
$\big(f(x+\varepsilon) - f(x-\varepsilon)\big)/2\varepsilon$, with every number in the given
precision (`x = points.astype(dtype)`, `eps = dtype(10.0**-k)`, `np.exp(dtype(3) * x)`), and average
the absolute error over the points.

**Predict** the four $k$ from the chapter's formulas; float32 has $u = 2^{-24}$. Then give, for each
case, the $k$ whose average error is smallest.
"""

kind, level, points = "experiment", 2, 3
tolerance = 1e-9


# %% starter
starter = """
step_size = {
    "one-sided, float64": ...,
    "two-sided, float64": ...,
    "one-sided, float32": ...,
    "two-sided, float32": ...,
}
"""

# %% solution
step_size = {
    "one-sided, float64": 8,
    "two-sided, float64": 6,
    "one-sided, float32": 4,
    "two-sided, float32": 3,
}

# %% explanation
explanation = r"""
For this $f$, $f'' = 9 f$ and $f''' = 27 f$, so the formulas read $\sqrt{2u/9}$ and
$\sqrt[3]{3u/27}$. In float64 that is $5 \cdot 10^{-9}$ and $2 \cdot 10^{-6}$, in float32 it is
$10^{-4}$ and $2 \cdot 10^{-3}$. On the grid of powers of ten the measurement agrees with all four.

```python
points, best = np.linspace(0, 1, 101), {}
for dtype in (np.float64, np.float32):
    for side in ("one-sided", "two-sided"):
        errors = []
        for k in range(1, 13):
            x, eps = points.astype(dtype), dtype(10.0**-k)
            f = lambda x: np.exp(dtype(3) * x)
            if side == "one-sided":
                quotient = (f(x + eps) - f(x)) / eps
            else:
                quotient = (f(x + eps) - f(x - eps)) / (2 * eps)
            errors.append(np.abs(quotient - 3 * np.exp(3 * points)).mean())
        best[f"{side}, {dtype.__name__}"] = 1 + int(np.argmin(errors))
```

A step of $10^{-6}$ in float32 is off by about two per cent: gradients are checked in
float64.
"""


# %% oracle
def oracle():
    """The measurement, by torch."""
    import torch

    points, best = torch.linspace(0, 1, 101, dtype=torch.float64), {}
    for dtype in (torch.float64, torch.float32):
        x = points.to(dtype)
        for side, behind in (("one-sided", 0), ("two-sided", 1)):
            errors = {}
            for k in range(1, 13):
                eps = torch.tensor(10.0**-k, dtype=dtype)
                rise = torch.exp(3 * (x + eps)) - torch.exp(3 * (x - behind * eps))
                errors[k] = (rise / ((1 + behind) * eps) - 3 * torch.exp(3 * points)).abs().mean()
            best[f"{side}, {dtype}".replace("torch.", "")] = min(errors, key=errors.get)
    return best


# %% wrong
def answer(one64, two64, one32, two32):
    return dict(zip(step_size, (one64, two64, one32, two32), strict=True))


wrong = {
    "the smallest step is not the best: rounding errors grow as the step shrinks": (
        answer(12, 12, 12, 12)
    ),
    "the largest step is not the best: the truncation error grows with the step": (
        answer(1, 1, 1, 1)
    ),
    "each k is one too small: `argmin` counts from 0, and the steps begin at 10⁻¹": (
        answer(7, 5, 3, 2)
    ),
    "each step is ten times too small; the steps begin at 10⁻¹, for k = 1": answer(9, 7, 5, 4),
    "float32 got the steps of float64: some number in the quotient was not float32": (
        answer(8, 6, 8, 6)
    ),
    "one-sided and two-sided are exchanged: the two-sided quotient can afford the larger step": (
        answer(6, 8, 3, 4)
    ),
    "the two-sided steps are those of the one-sided quotient": answer(8, 8, 4, 4),
    "these are exponents with their sign; give k, so that the step is 10 to the power −k": (
        answer(-8, -6, -4, -3)
    ),
    "these are the steps themselves; give k": answer(1e-8, 1e-6, 1e-4, 1e-3),
    "these are the formulas without the derivatives of f: f'' is 9 f here and f''' is 27 f": (
        answer(8, 5, 3, 2)
    ),
}
