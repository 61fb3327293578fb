r"""A way around, there and back, by hand

With pencil and paper. A residual layer with a ReLU reads $h = (2, 1)$ and has

$$
W = \begin{pmatrix} 0.5 & -0.5 \\ 0.5 & 0.5 \end{pmatrix}, \qquad b = (0, 0) .
$$

From above it gets the gradient $g = (1, 2)$, one number for each output.

- `branch`: the two numbers of the branch, $\mathrm{ReLU}(h W + b)$;
- `output`: the two numbers that the residual layer puts out;
- `plain`: the two numbers of the gradient that would reach $h$ without the way around. (Its slopes
  decide which numbers of $g$ pass; then each $h_i$ collects them with its weights $w_{ij}$);
- `residual`: the two numbers of the gradient that reaches $h$ with the way around;
- `one_unit`: three residual layers of one unit each, all positive, with the weights 0.5, $-0.2$ and
  1, where the second layer's sum is negative. By which factor does the gradient change between the
  top and the bottom?
"""

kind, level, points = "paper", 1, 3
tolerance = 1e-6

# %% starter
starter = """
way_around_by_hand = {
    "branch": [..., ...],
    "output": [..., ...],
    "plain": [..., ...],
    "residual": [..., ...],
    "one_unit": ...,
}
"""

# %% solution
way_around_by_hand = {
    "branch": [1.5, 0],
    "output": [3.5, 1],
    "plain": [0.5, 0.5],
    "residual": [1.5, 2.5],
    "one_unit": 3,
}

# %% explanation
explanation = r"""
The sums are $2 \cdot 0.5 + 1 \cdot 0.5 = 1.5$ and $2 \cdot (-0.5) + 1 \cdot 0.5 = -0.5$, so the
ReLU leaves $(1.5, 0)$, and the output is $(2 + 1.5,\; 1 + 0)$.

Back: the second unit's slope is 0, so only $g_1 = 1$ enters the branch. It reaches $h_1$ and $h_2$
with $w_{11} = w_{21} = 0.5$. The 2 of $g_2$ would be lost. Around the branch $g$ arrives whole:
$(1, 2) + (0.5, 0.5)$.

Each unit gives $1 + w\, \phi'$: $1.5$, then $1$, since the second layer's slope is 0, then $2$.
Together 3.
"""


# %% oracle
def oracle():
    """By central differences of the outputs, weighed with g, away from the corners."""
    import numpy as np

    W, h, g, eps = np.array([[0.5, -0.5], [0.5, 0.5]]), np.array([2.0, 1.0]), [1.0, 2.0], 1e-4

    def slopes(f):
        steps = eps * np.eye(2)
        return [float((f(h + d) - f(h - d)) @ g / (2 * eps)) for d in steps]

    def branch(x):
        return np.maximum(x @ W, 0)

    def stack(x):
        for w in (0.5, -0.2, 1.0):
            x = x + max(w * x, 0)
        return x

    return {
        "branch": branch(h).tolist(),
        "output": (h + branch(h)).tolist(),
        "plain": slopes(branch),
        "residual": slopes(lambda x: x + branch(x)),
        "one_unit": (stack(1 + eps) - stack(1 - eps)) / (2 * eps),
    }


# %% wrong
wrong = {
    "the ReLU is missing: a negative sum gives 0": {"branch": [1.5, -0.5]},
    "h was multiplied by the rows of W; a unit is a column": {"branch": [0.5, 1.5]},
    "this is the branch alone; the layer adds it to h": {"output": [1.5, 0]},
    "the slope is missing: the second unit's is 0, so its gradient does not enter the branch": {
        "plain": [-0.5, 1.5]
    },
    "the columns of W were taken: on the way back h collects with its row": {"plain": [0.5, -0.5]},
    "this is the branch's part alone; around it g arrives whole": {"residual": [0.5, 0.5]},
    "this is g alone; the branch hands on a part as well": {"residual": [1, 2]},
    "where the sum is negative the slope is 0, and the factor is 1": {"one_unit": 2.4},
    "the weights alone were multiplied: the 1 of each layer is missing": {"one_unit": 0},
    "the weights were added; each layer multiplies what arrives": {"one_unit": 2.5},
}
