r"""Units, slopes and sizes by hand

With pencil and paper.

- `nand`: a logistic unit reads two inputs that are 0 or 1, with the weights $-20$ and $-20$. Give a
  bias with which it says "not both": almost 1 for all inputs except $(1, 1)$. (Many are right; give
  the one for which $z$ is equally far from 0 on the three inputs nearest to the line.)
- `line`: a unit has the weights $(3, -2)$ and the bias 1. At which $x_2$ does its line $p =
  \frac12$ stand for $x_1 = 1$?
- `sigmoid_slope`: a sigmoid puts out $h = 0.9$. What is its slope there?
- `tanh_slope`: a tanh puts out $h = 0.8$. What is its slope there?
- `mean_square`: a unit sums the inputs $(3, 1, -1, 0, 1)$ with weights drawn from a normal
  distribution with mean 0 and *standard deviation* $\frac12$. What is the mean of $z^2$?
- `relu_size`: ReLU layers of width 100 with $\mathrm{Var}(w) = \frac{1}{100}$ and biases of 0. By
  which factor do 10 layers *divide* the mean square of the outputs?
"""

kind, level, points = "paper", 1, 3
tolerance = 1e-6

# %% solution
units_by_hand = {
    "nand": 30,
    "line": 2,
    "sigmoid_slope": 0.09,
    "tanh_slope": 0.36,
    "mean_square": 3,
    "relu_size": 1024,
}

# %% explanation
explanation = r"""
The sums of the four inputs are $b$, $b - 20$ (twice) and $b - 40$. The line has to pass between
$b - 20$ and $b - 40$, and in the middle it does so at $b = 30$: the nearest three inputs have $z =
10, 10, -10$.

The line is $3 x_1 - 2 x_2 + 1 = 0$, so $x_2 = (3 + 1) / 2 = 2$ for $x_1 = 1$.

Slopes from outputs: $\sigma' = h (1 - h) = 0.9 \cdot 0.1$, and $\tanh' = 1 - h^2 = 1 - 0.64$.

$\mathbb{E}[z^2] = \mathrm{Var}(w) \sum_i h_i^2 = \frac14 (9 + 1 + 1 + 0 + 1) = 3$. The shape of the
distribution does not matter, and neither do the signs of the inputs.

Each ReLU layer multiplies the mean square by $\frac12 n \mathrm{Var}(w) = \frac12$, so ten of them
divide it by $2^{10} = 1024$.
"""


# %% oracle
def oracle():
    """By search, by automatic differentiation, and by adding up all variances."""
    import numpy as np
    import torch

    biases = np.linspace(0, 60, 6001)
    nearest = np.minimum(biases - 20, 40 - biases)  # of (0, 1), (1, 0) and (1, 1) from the line
    grid = np.linspace(-5, 5, 10001)
    slopes = []
    for function, output in ((torch.sigmoid, 0.9), (torch.tanh, 0.8)):
        inverse = {torch.sigmoid: torch.logit, torch.tanh: torch.atanh}[function]
        z = inverse(torch.tensor(output, dtype=torch.float64)).requires_grad_()
        slopes.append(torch.autograd.grad(function(z), z)[0].item())
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    weights = weights / weights.sum()
    half = (weights * np.maximum(nodes, 0) ** 2).sum()
    return {
        "nand": round(biases[nearest.argmax()], 6),
        "line": round(grid[np.abs(3 - 2 * grid + 1).argmin()], 6),
        "sigmoid_slope": slopes[0],
        "tanh_slope": slopes[1],
        "mean_square": sum((weights * (x * nodes / 2) ** 2).sum() for x in (3, 1, -1, 0, 1)),
        "relu_size": half**-10,
    }


# %% wrong
wrong = {
    "with this bias the unit says no for one of the two words already": {"nand": 10},
    "with this bias the unit is sure of itself for (1, 1) as well: it never says no": {"nand": 50},
    "a sign: 3 − 2·x₂ + 1 = 0 has its zero at a positive x₂": {"line": -2},
    "the bias is missing in the line": {"line": 1.5},
    "the slope is h(1 − h) of the output h; here σ was applied once more": {
        "sigmoid_slope": 0.20550030734226
    },
    "tanh's slope is 1 − h², not h(1 − h)": {"tanh_slope": 0.16},
    "the variance is the square of the standard deviation": {"mean_square": 6},
    "signs matter in a sum of inputs, not in a sum of squares": {"mean_square": 2.5},
    "a ReLU halves the mean square in every layer": {"relu_size": 1},
    "that is the factor by which the mean square is multiplied": {"relu_size": 1 / 1024},
    "one layer's factor; there are ten": {"relu_size": 2},
}
