r"""How many keys does a query read?

A distribution with an entropy of $H$ nats is as uncertain as an even choice among $e^H$ options. We
say that a query with such weights *effectively* reads $e^H$ keys. Let a query have $m = 100{,}000$
keys, and let its scores be normal random numbers with standard deviation $\sigma$. Measure
$e^H / m$, the effective share of the keys that it reads, as a mean over ten seeds. Do it for
$\sigma = 0.5$, for $\sigma = 1$ (what the divisor $\sqrt{d_k}$ gives) and for $\sigma = 2$ (what
keys of width 4 give without the divisor).

**Predict** first. With very many keys, means over keys approach expectations. For such a score $s$,
$\mathbb{E}[e^{s}] = e^{\sigma^2/2}$ and $\mathbb{E}[s\, e^{s}] = \sigma^2 e^{\sigma^2/2}$. What is
$H - \ln m$?
"""

import numpy as np

kind, level, points = "experiment", 2, 3
tolerance = 0.015


# %% solution
effective_share = {"0.5": 0.882, "1": 0.607, "2": 0.135}

# %% explanation
explanation = r"""
The entropy is the gap between the logsumexp and the mean score under the softmax:

$$
H = \ln \sum_j e^{s_j} - \frac{\sum_j s_j e^{s_j}}{\sum_j e^{s_j}}
\;\to\; \ln m + \frac{\sigma^2}{2} - \sigma^2 = \ln m - \frac{\sigma^2}{2} ,
$$

so the share tends to $e^{-\sigma^2/2}$: 0.882, 0.607, 0.135. The measurement agrees to
two decimals or better:

```python
for sigma in (0.5, 1, 2):
    shares = []
    for seed in range(10):
        s = sigma * np.random.default_rng(seed).normal(size=100_000)
        p = np.exp(s - s.max())
        p = p / p.sum()
        shares.append(np.exp(-p @ np.log(p)) / len(s))
    print(sigma, np.mean(shares))
```

With the divisor, a random query effectively reads about six tenths of a large table, however much
it grows: it hardly chooses. A sharper choice has to be learned, by queries and keys whose scores
have a larger spread. At width 64 without the divisor, $\sigma = 8$ and the formula would give
$e^{-32}$. But the formula no longer holds there: a hundred thousand keys are far too few for the
means to be near their expectations, and a handful of keys has nearly all the weight.
"""


# %% oracle
def oracle():
    """The limits by numerical integration over the normal density."""
    s = np.linspace(-16, 16, 200_001)
    shares = {}
    for sigma in ("0.5", "1", "2"):
        x = float(sigma) * s
        density = np.exp(-(s**2) / 2) / np.exp(-(s**2) / 2).sum()
        tilted = density * np.exp(x)
        p = tilted / tilted.sum()
        shares[sigma] = float(np.exp(-(p * (np.log(p) - np.log(density))).sum()))
    return shares


oracle_tolerance = 2e-3  # the solution is given to three decimals

# %% wrong
wrong = {
    "this is 1 over the sum of the squared weights, not e to the entropy": {
        "0.5": 0.779, "1": 0.368, "2": 0.025
    },
    "H is in nats here: raise e to it, not 2": {"0.5": 0.027, "1": 0.021, "2": 0.007},
    "the variance enters, σ², and here it is σ": {"0.5": 0.779, "1": 0.607, "2": 0.368},
    "this is the entropy as a share of ln m, not the share of the keys": {
        "0.5": 0.989, "1": 0.957, "2": 0.828
    },
    "this is 1 over the largest weight, as a share of m; the entropy uses all weights": {
        "0.5": 0.131, "1": 0.022, "2": 0.001
    },
    "the sign of the mean score is lost: H is the logsumexp minus that mean": {
        "0.5": 1.455, "1": 4.482, "2": 400
    },
    "these are the shares that are not read; give 1 minus them": {
        "0.5": 0.118, "1": 0.393, "2": 0.865
    },
}  # fmt: skip
