r"""Six steps in numbers

The optimisers are those of *Going further: five ways to step*. Find each number with a few lines of
code (the chapter's functions or torch's optimisers), or on paper. **Predict** first.

- `adam_first`: how long is Adam's first step, with $\eta = 0.01$ and the gradient $0.003$?
- `rmsprop_first`: and RMSprop's, with $\beta = 0.99$ and the same rate and gradient?
- `momentum_steady`: $\mu = 0.9$, $\eta = 0.1$, as in `momentum_step`, and a gradient that is
  always 2. How long are the steps after a long time?
- `largest_rate`: plain gradient descent on $f(w) = 10\, w^2$ moves away from the minimum if the
  rate is above this number. Which one?
- `ghost`: Adam with $\eta = 0.1$, $\beta_1 = 0.8$ and $\beta_2 = 0.999$ sees the gradient 1 in its
  first step and zeros in the next 999. How far (a positive number) has the weight moved?
- `half_life`: AdamW in torch's form with $\eta = 0.01$, a decay of $0.1$ and gradients of zero.
  After how many steps is a weight for the first time smaller than half of what it was?
"""

kind, level, points = "experiment", 2, 3

# %% solution
steps_in_numbers = {
    "adam_first": 0.01,
    "rmsprop_first": 0.1,
    "momentum_steady": 2.0,
    "largest_rate": 0.1,
    "ghost": 0.388438,
    "half_life": 693,
}

# %% explanation
explanation = r"""
Adam's $\hat m_1 = g$ and $\hat v_1 = g^2$, so the first step is $\eta$, whatever $g$ is. RMSprop
does not correct for its start at zero: $v_1 = (1 - \beta) g^2$, and the step is $\eta / \sqrt{1 -
\beta} = 10\, \eta$.

Momentum's sum of a steady gradient grows to $g / (1 - \mu) = 20$, times 0.1.

The gradient of $10\,w^2$ is $20\,w$, so a step multiplies $w$ by $1 - 20\,\eta$. Its size is
below 1 as long as $\eta < 0.1$.

After the first step Adam goes on: $\hat m_t = \frac{0.2 \cdot 0.8^{t-1}}{1 - 0.8^t}$ falls fast,
and $\sqrt{\hat v_t}$ slowly. The steps add up to more than three times the first one.

AdamW multiplies by $1 - 0.01 \cdot 0.1 = 0.999$ per step, and $0.999^{693} < \frac12 <
0.999^{692}$.
"""


# %% oracle
oracle_tolerance = 1e-4  # of the optimisers' ε, which the formulas leave out


def oracle():
    """torch's optimisers."""
    import torch

    def path(kind, gradients, **options):
        w = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
        optimizer, places = kind([w], **options), [1.0]
        for g in gradients:
            w.grad = torch.tensor([g], dtype=torch.float64)
            optimizer.step()
            places.append(w.item())
        return places

    optim = torch.optim
    adam, rms = (path(kind, [0.003], lr=0.01) for kind in (optim.Adam, optim.RMSprop))
    steady = path(optim.SGD, [2.0] * 500, lr=0.1, momentum=0.9)
    ghost = path(optim.Adam, [1.0] + [0.0] * 999, lr=0.1, betas=(0.8, 0.999))
    decayed = path(optim.AdamW, [0.0] * 1000, lr=0.01, weight_decay=0.1)
    rates = [k / 10_000 for k in range(500, 1500)]
    return {
        "adam_first": adam[0] - adam[1],
        "rmsprop_first": rms[0] - rms[1],
        "momentum_steady": steady[-2] - steady[-1],
        "largest_rate": max(rate for rate in rates if abs(1 - rate * 20) <= 1 + 1e-9),
        "ghost": ghost[0] - ghost[-1],
        "half_life": next(t for t, w in enumerate(decayed) if w < 0.5),
    }


# %% wrong
wrong = {
    "this is plain SGD's step; Adam divides by the gradient's own size": {"adam_first": 3e-5},
    "the first mean was not divided by 1 − 0.9": {"adam_first": 0.001},
    "neither of Adam's means was corrected for its start at zero": {"adam_first": 0.0316},
    "RMSprop has no correction for its start: v is 0.01·g² after one step": {"rmsprop_first": 0.01},
    "the root is missing: v is 0.01·g², and its root 0.1·g": {"rmsprop_first": 1.0},
    "this is the first step; the sum of past gradients still grows": {"momentum_steady": 0.2},
    "this is the form with a factor 1 − μ; torch has none": {"momentum_steady": 0.02},
    "the sum grows to ten times the gradient; that is not multiplied by η here": {
        "momentum_steady": 20
    },
    "at this rate the first step lands on the minimum; up to twice of it is safe": {
        "largest_rate": 0.05
    },
    "the slope of 10·w² is 20·w, not 10·w": {"largest_rate": 0.2},
    "this is the first step only; Adam's mean of gradients keeps pushing": {"ghost": 0.1},
    "the steps do not shrink by 0.8 only: v shrinks too, and both are corrected": {"ghost": 0.5},
    "this is where the weight is; how far it has moved is a positive number": {"ghost": -0.388438},
    "this is the answer for β₁ = 0.9, as in the chapter": {"ghost": 0.600551},
    "torch multiplies the decay by the rate: 0.1 % per step, not 10 %": {"half_life": 7},
    "1 − 0.001·t would be half after 500 steps; the share is taken of what is left": {
        "half_life": 500
    },
}
