r"""Maximum likelihood with shared parameters

The eleven cows ate corn 4 times, grass 3, hay 2, *if* 1 and *which* 1. A coarser model has two
parameters instead of five: it gives *corn* and *grass* the same probability $a$, and *hay*, *if*
and *which* the same probability $b$. Nothing else can follow.

Write the log-likelihood of the eleven words, the constraint that the five probabilities sum to
one, and solve with a Lagrange multiplier as in the chapter. Give $a$ and $b$, as fractions if you
like: `"4/11"` is a number here.
"""

from fractions import Fraction

kind, level, points = "paper", 1, 2

# %% solution
shared_parameters = {"a": Fraction(7, 22), "b": Fraction(4, 33)}

# %% explanation
explanation = r"""
The log-likelihood is $\ell = 7 \ln a + 4 \ln b$, and the constraint is $2a + 3b = 1$, because $a$
stands for two words and $b$ for three. With the multiplier $\lambda$,

$$
\frac{7}{a} = 2\lambda, \qquad \frac{4}{b} = 3\lambda
\quad\Longrightarrow\quad a = \frac{7}{2\lambda}, \quad b = \frac{4}{3\lambda},
$$

and the constraint gives $\lambda = 7 + 4 = 11$, as before. So $a = 7/22$ and $b = 4/33$: each
group gets its share of the counts, $7/11$ and $4/11$, and divides it evenly among its words.
Sharing a parameter is a kind of smoothing: *if* now has $4/33$, more than the $1/11$ it had alone.
"""


# %% oracle
def oracle():
    """The constraint gives b, and a search finds the likeliest a."""
    import math

    from scipy.optimize import minimize_scalar

    def surprise(a):
        corn = grass = a
        hay = if_ = which = (1 - corn - grass) / 3
        eaten = [corn] * 4 + [grass] * 3 + [hay] * 2 + [if_] + [which]
        return -sum(map(math.log, eaten))

    a = minimize_scalar(surprise, bounds=(0, 1 / 2), options={"xatol": 1e-9}, method="bounded").x
    return {"a": float(a), "b": float(1 - 2 * a) / 3}


# %% wrong
wrong = {
    "these are the shares of the two groups; each word gets only its part of its group's share": {
        "a": "7/11", "b": "4/11"
    },
    "the constraint was taken as a + b = 1 and each share halved; b stands for three words": {
        "b": "2/11"
    },
    "the sizes of the groups are exchanged: two words share a and three share b": {
        "a": "7/33", "b": "2/11"
    },
    "the counts of one word in each group were taken; the likelihood multiplies all eleven": {
        "a": "4/11", "b": "1/11"
    },
    "all five words got the same probability; there are two parameters": {"a": "1/5", "b": "1/5"},
    "the counts within a group were averaged but not divided by the eleven observations": {
        "a": "7/2", "b": "4/3"
    },
    "the words of the vocabulary were counted, not their occurrences: 2 and 3 instead of 7 and 4": {
        "a": "2/5", "b": "3/5"
    },
}  # fmt: skip
