r"""How far to trust the longer context

A mixture needs no discounts at all: [Jelinek and Mercer (1980)](cite:jelinek1980) take
$P(w \mid u) = \lambda\, P_2(w \mid u) + (1 - \lambda)\, P_1(w)$ with a weight $\lambda$ for each
group of contexts that are about equally frequent. We take one $\lambda$ for all contexts
and, like them, choose it so that *held-out* text becomes most probable.

Write `interpolation_weight(p_long, p_short)`. Both are arrays `(N,)`: the probabilities that the
two models give to each of the N tokens of a held-out text; `p_short` is positive everywhere. Return
the $\lambda$ between 0 and 1 that maximises the probability of the text, to four decimals. The
log-likelihood is concave in $\lambda$, so any search finds it; the classical one starts at 1/2 and
repeats: replace $\lambda$ by the mean over the tokens of the share
$\lambda\, p_{\text{long}} / (\lambda\, p_{\text{long}} + (1 - \lambda)\, p_{\text{short}})$. Its
steps may be small long before it has arrived.

Then run it on Shakespeare. Score the chapter's `valid` with a maximum likelihood bigram and an
add-one unigram model, and do the same with `train` in the place of held-out text. Before you run:
which of the two weights is larger, and why is one of them useless?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "experiment", 3, 4


# %% solution
def interpolation_weight(p_long, p_short):
    """The weight of p_long (N,) in the mixture that fits the text best."""
    weight = 0.5
    for _ in range(10_000):
        long_part = weight * p_long
        better = np.mean(long_part / (long_part + (1 - weight) * p_short))
        if abs(better - weight) < 1e-9:
            break
        weight = better
    return round(float(better), 4)


# %% explanation
explanation = r"""
Each step asks, for every token, which of the two models is the likelier to have produced it, and
makes $\lambda$ the average answer. This is the EM algorithm with one unknown; no step lowers the
likelihood.

```python
bigram = NGram.fit(train, 2, V)
unigram = NGram.fit(train, 1, V, "additive", alpha=1)
for text in (valid, train):
    p_long, p_short = (np.exp(m.score(text)) for m in (bigram, unigram))
    print(interpolation_weight(p_long, p_short))
```

On the training text the weight runs to 1, because there the bigram model has seen every pair. That
weight is useless: on held-out text it leaves nothing for the bigrams that are new. On `valid` it is
0.7371, and the mixture costs 7.19 bits per token: less than the 7.62 of the best additive bigram,
more than the 7.09 of absolute discounting and the 7.03 of Kneser–Ney, which weigh each context by
itself: they trust it more when its visits brought few different words. A constant of a smoothing
method is chosen on text that the counts have not seen. Jelinek and Mercer deleted that text from
the training text, and called the method *deleted* interpolation.
"""


# %% tests
def tests(rng):
    yield call(np.array([0.5, 0.0]), np.array([0.1, 0.1]), visible=True, tolerance=2e-4)
    for n in (13, 101, 997):
        p_short = rng.beta(1, 9, size=n) + 1e-6
        p_long = rng.beta(1, 4, size=n) * (rng.random(n) < 0.6)
        yield call(p_long, p_short, tolerance=2e-4)
    p_long = np.array([0.9, 0.9, 0.9, 1e-6])
    yield call(p_long, np.full(4, 0.02), tolerance=2e-4, hint="the product counts, not the sum")
    p_long, p_short = np.array([0.3, 0.27, 0.14, 0.15]), np.full(4, 0.2)
    yield call(p_long, p_short, tolerance=2e-4, hint="the models hardly differ: steps are small")
    p_long, p_short = np.array([0.5, 0.4]), np.array([0.1, 0.2])
    yield call(p_long, p_short, tolerance=2e-4, hint="the longer model is always better")


# %% oracle
oracle_tolerance = 1e-4  # four decimals are asked for


def oracle(p_long, p_short):
    """A bounded search for the weight at which the text is likeliest."""
    from scipy.optimize import minimize_scalar

    def surprise(weight):
        return -np.log(weight * p_long + (1 - weight) * p_short).sum()

    found = minimize_scalar(surprise, bounds=(0, 1), method="bounded", options={"xatol": 1e-9})
    return float(found.x)


# %% wrong
def by_mean(p_long, p_short):
    return float(p_long.mean() > p_short.mean())


def coarse(p_long, p_short):
    grid = np.linspace(0, 1, 11)[:-1]
    fits = [np.log(w * p_long + (1 - w) * p_short).sum() for w in grid]
    return float(grid[int(np.argmax(fits))])


wrong = {
    "one step from 1/2 is not enough; repeat until the weight stays": swap("10_000", "1"),
    "twenty steps are not enough where the models hardly differ; go on until the weight stays": (
        swap("10_000", "20")
    ),
    "the search stopped at a step below 0.0001, with many such steps still to go": (
        swap("1e-9", "1e-4")
    ),
    "this is the weight of the shorter model": swap("float(better)", "1 - float(better)"),
    "the mean probability was maximised, which is always at 0 or 1; the likelihood is a product": (
        by_mean
    ),
    "this is the share of tokens for which the longer model is better, not the likeliest weight": (
        lambda p_long, p_short: float(np.mean(p_long > p_short))
    ),
    "tokens that the longer model never saw were left out; they are the reason for the mixture": (
        swap(
            "    weight = 0.5",
            "    p_short, p_long = p_short[p_long > 0], p_long[p_long > 0]\n    weight = 0.5",
        )
    ),
    "the grid is too coarse for four decimals": coarse,
    "the weight is the share of tokens that the longer model has seen": (
        lambda p_long, p_short: float(np.mean(p_long > 0))
    ),
    "the weight was not chosen: 1/2 is only the start": lambda p_long, p_short: 0.5,
}
