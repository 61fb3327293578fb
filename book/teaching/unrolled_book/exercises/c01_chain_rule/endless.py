r"""How much probability never ends?

After $k$ letters a text ends with probability $s_k$, $k = 0, 1, 2, \dots$ Find

- `squares`: the total probability of all finite texts when $s_k = 1/(k+3)^2$;
- `harmonic`: the same when $s_k = 1/(k+2)$;
- `mean_length`: the expected number of letters when $s_k = 1/5$ for every $k$.

Both products telescope; for the first, write $1 - 1/j^2 = \frac{(j-1)(j+1)}{j^2}$.
"""

kind, level, points = "paper", 2, 3

# %% solution
endless = {"squares": 1 / 3, "harmonic": 1.0, "mean_length": 4.0}

# %% explanation
explanation = r"""
A text is longer than $N$ letters with probability $\prod_{k=0}^{N} (1 - s_k)$. For the squares,
with $j = k + 3$, this is $\prod_{j=3}^{N+3} \frac{j-1}{j} \cdot \frac{j+1}{j}
= \frac{2}{N+3} \cdot \frac{N+4}{3} \to \frac23$, so one third of the probability is on finite
texts. For the harmonic rule it is $\prod_{j=2}^{N+2} \frac{j-1}{j} = \frac{1}{N+2} \to 0$: every
text ends. The decisions to stop may become rare, as long as their sum $\sum_k s_k$ diverges. With a
constant $s$ the length is geometric, $\sum_n n (1-s)^n s = (1-s)/s$, four letters for $s = 1/5$.
"""

# %% oracle
oracle_tolerance = 1e-5  # a million letters are walked; beyond them lies about one millionth


def oracle():
    """The probability of an end, added up letter by letter."""
    import numpy as np

    k = np.arange(1_000_000)

    def ends_at(s):
        return s * np.append(1.0, np.cumprod(1 - s)[:-1])  # it has come so far, and ends

    return {
        "squares": ends_at(1 / (k + 3) ** 2).sum(),
        "harmonic": ends_at(1 / (k + 2)).sum(),
        "mean_length": (k * ends_at(np.full(len(k), 1 / 5))).sum(),
    }


# %% wrong
wrong = {
    "`squares` is the probability that the text never ends; the question is the other part": {
        "squares": 2 / 3
    },
    "`squares` starts its product one step too early, at j = 2": {"squares": 1 / 2},
    "`squares` sums the s_k; an end at k also needs that the text has come so far": {
        "squares": 0.3949
    },
    "`harmonic` is the probability that the text never ends": {"harmonic": 0.0},
    "`squares`: an end is offered at every step, but the steps become too rare to be sure": {
        "squares": 1.0
    },
    "`harmonic`: this is the probability of the empty text alone": {"harmonic": 0.5},
    "`mean_length` counts the end symbol as a letter": {"mean_length": 5.0},
    "`mean_length` is s/(1 − s), the wrong way up": {"mean_length": 0.25},
}
