r"""Preferences by hand

There are three answers to a prompt:

| answer | $\pi_0$ | $r$ |
|:--|--:|--:|
| a | 1/2 | 0 |
| b | 1/4 | $\frac12 \ln 2$ |
| c | 1/4 | $\ln 2$ |

The price of a nat is $\beta = 1/2$. With pencil and paper:

- `win`: the probability that the reader prefers c to a, by Bradley and Terry;
- `Z`: the sum in $\pi^*(y) = \pi_0(y)\, e^{r(y)/\beta} / Z$;
- `best_b`, `best_c`: $\pi^*$ of b and of c;
- `kl`: the divergence $D_{\mathrm{KL}}(\pi^* \,\Vert\, \pi_0)$ in nats;
- `loss`: DPO's loss of the pair in which c is preferred to b, for $\pi = \pi^*$.

Write logarithms as they are, `math.log(2)`, or give four digits.
"""

import math

kind, level, points = "paper", 1, 3
tolerance = 1e-4


# %% solution
preferences_by_hand = {
    "win": 2 / 3,
    "Z": 2.0,
    "best_b": 0.25,
    "best_c": 0.5,
    "kl": math.log(2) / 4,
    "loss": math.log(1 + 2**-0.5),
}

# %% explanation
explanation = r"""
The lead of c over a is $\ln 2$, and $\sigma(\ln 2) = 1 / (1 + 1/2) = 2/3$. Here $\beta$ plays no
part: it belongs to the policy, not to the reader.

With $\beta = 1/2$ the factors $e^{r/\beta} = e^{2r}$ are 1, 2 and 4. Times $\pi_0$ they are 1/2,
1/2 and 1, so $Z = 2$ and $\pi^* = (1/4, 1/4, 1/2)$. b keeps its probability although its reward is
above that of a; that of c doubles. A preferred answer need not gain.

The divergence is
$\frac14 \ln \frac{1/4}{1/2} + \frac14 \ln 1 + \frac12 \ln 2 = \frac14 \ln 2 = 0.173$.

The implied rewards are $\beta \ln(\pi^*/\pi_0)$, that is $\frac12 \ln 2$ for c and 0 for b. Their
difference is the difference of the true rewards, as it must be, and the loss is
$-\ln \sigma(\frac12 \ln 2) = \ln(1 + 2^{-1/2}) = 0.535$. Even the best policy pays this much: the
reader's choices are noisy.
"""


# %% oracle
def oracle():
    """In numbers, by the definitions."""
    base, reward, beta = (0.5, 0.25, 0.25), (0.0, math.log(2) / 2, math.log(2)), 0.5
    tilted = [p * math.exp(r / beta) for p, r in zip(base, reward, strict=True)]
    best = [x / sum(tilted) for x in tilted]
    lead = beta * (math.log(best[2] / base[2]) - math.log(best[1] / base[1]))
    return {
        "win": math.exp(reward[2]) / (math.exp(reward[2]) + math.exp(reward[0])),
        "Z": sum(tilted),
        "best_b": best[1],
        "best_c": best[2],
        "kl": sum(q * math.log(q / p) for q, p in zip(best, base, strict=True)),
        "loss": -math.log(1 / (1 + math.exp(-lead))),
    }


# %% wrong
wrong = {
    "the reader's probability is σ of the lead, σ(ln 2) = 2/3; β has no part in it": {"win": 0.8},
    "c is preferred to a, not a to c": {"win": 1 / 3},
    "the rewards are divided by β, not multiplied": {
        "Z": 0.5 + 0.25 * 2**0.25 + 0.25 * 2**0.5,
        "best_b": 0.25 * 2**0.25 / (0.5 + 0.25 * 2**0.25 + 0.25 * 2**0.5),
        "best_c": 0.25 * 2**0.5 / (0.5 + 0.25 * 2**0.25 + 0.25 * 2**0.5),
    },
    "Z sums π₀ times the exponential, not the exponentials alone": {"Z": 7.0},
    "π* of b is 1/4 · 2, divided by Z": {"best_b": 0.5},
    "π* of c is 1/4 · 4, divided by Z": {"best_c": 1.0},
    "π* begins with π₀: it is not the softmax of r/β alone": {"best_b": 2 / 7, "best_c": 4 / 7},
    "the divergence is an average under π*, not under π₀": {"kl": math.log(2) / 4 + 1e-3},
    "the divergence is in nats, not in bits": {"kl": 0.25},
    "the divergence takes ln(π*/π₀), not ln(π₀/π*)": {"kl": -math.log(2) / 4},
    "the implied rewards are multiplied by β before σ": {"loss": math.log(1.5)},
    "the loss is −ln σ of the difference, not σ itself": {"loss": 1 / (1 + 2**-0.5)},
    "the pair is c preferred to b: the lead is positive": {"loss": math.log(1 + 2**0.5)},
}
