r"""What a guess is worth

In speculative decoding a token $x$ is guessed from $q$ and kept with probability
$\min(1, p(x)/q(x))$; if it is not kept, a token is drawn from $\max(0, p - q)$, divided by its sum.
Write `speculation_on_paper(p, q, n_ahead)` for two distributions `p` and `q`, arrays $(V,)$. Return
two numbers and an array:

- `kept`: the probability that a guess is kept;
- `rest`: the distribution $(V,)$ of the second draw; all zeros if it can never happen;
- `tokens`: the expected number of tokens from *one* read of the large model, when `n_ahead` guesses
  are checked in a row, each kept independently with the probability `kept`. The first guess that is
  not kept is replaced by a draw, and if all are kept, the read gives one token more. So every read
  gives at least one token.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 3
outputs = ("kept", "rest", "tokens")


# %% solution
def speculation_on_paper(p, q, n_ahead):
    """Probability that a guess is kept, the rest (V,), tokens for each read."""
    kept = np.minimum(p, q).sum()
    rest = np.maximum(p - q, 0)
    if rest.sum() > 0:
        rest = rest / rest.sum()
    tokens = sum(kept**i for i in range(n_ahead + 1))
    return kept, rest, tokens


# %% explanation
explanation = r"""
A guess is $x$ with probability $q(x)$ and then kept with $\min(1, p(x)/q(x))$; the product is
$\min(q(x), p(x))$, also where $q(x) = 0$. Summed over $x$, that is `kept`; one minus it is half the
sum of $|p - q|$, so for `kept` nothing counts but how near the guesser is to
the large model.

At least $i + 1$ tokens come out if the first $i$ guesses are kept, which has probability
$\text{kept}^i$. The expectation is the sum of these probabilities for $i = 0, \dots$, `n_ahead`. It
can never exceed $1 / (1 - \text{kept})$: with `kept` = 0.6 no number of guesses gives more than 2.5
tokens for each read.
"""


# %% tests
def tests(rng):
    yield call(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6]), 2, visible=True)
    yield call(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 3, hint="the guesser is the model")
    yield call(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 4, hint="no guess is ever right")
    yield call(np.array([0.7, 0.3]), np.array([0.1, 0.9]), 0, hint="nothing is guessed ahead")
    yield call(np.array([1.0]), np.array([1.0]), 1, hint="a vocabulary of one")
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.75, 0.0])
    yield call(p, q, 2, hint="a token of neither")
    for n in (5, 13):
        p, q = rng.dirichlet(np.full(n, 0.7), size=2)
        yield call(p, q, int(rng.integers(1, 6)), hint="at random")


# %% oracle
def oracle(p, q, n_ahead):
    """The definition: guess by guess, and outcome by outcome."""
    kept = sum(float(b) * min(1.0, float(a) / float(b)) for a, b in zip(p, q, strict=True) if b > 0)
    left = [max(0.0, float(a) - float(b)) for a, b in zip(p, q, strict=True)]
    rest = [x / sum(left) if sum(left) > 0 else 0.0 for x in left]
    tokens = (n_ahead + 1) * kept**n_ahead
    tokens += sum((i + 1) * kept**i * (1 - kept) for i in range(n_ahead))
    return kept, np.array(rest), tokens


# %% wrong
wrong = {
    "a guess is drawn from q, so its chances min(1, p/q) are weighted by q": (
        swap("np.minimum(p, q).sum()", "np.minimum(1, p / np.maximum(q, 1e-300)).mean()")
    ),
    "this is the probability that a guess agrees with a draw from p, Σ p q": (
        swap("np.minimum(p, q).sum()", "(p * q).sum()")
    ),
    "this is the sum of |p − q|, not what they share": (
        swap("np.minimum(p, q).sum()", "np.abs(p - q).sum()")
    ),
    "this is how often a guess is not kept": (
        swap("np.minimum(p, q).sum()", "1 - np.minimum(p, q).sum()")
    ),
    "the second draw comes from what p has beyond q, not from p itself": (
        swap("np.maximum(p - q, 0)", "p + 0.0")
    ),
    "what q has beyond p is too much already: the rest is p − q, not q − p": (
        swap("np.maximum(p - q, 0)", "np.maximum(q - p, 0)")
    ),
    "the rest has to be divided by its sum": swap("rest = rest / rest.sum()", "pass"),
    "where p equals q the rest is 0/0: it can never happen, and is all zeros": (
        swap("if rest.sum() > 0:", "if True:")
    ),
    "every read gives one token more than guesses are kept": (
        swap("range(n_ahead + 1)", "range(1, n_ahead + 1)")
    ),
    "with all guesses kept the read gives one more: the sum has n_ahead + 1 terms": (
        swap("range(n_ahead + 1)", "range(n_ahead)")
    ),
    "the guesses are not kept all or none: the first ones count even if a later one falls": (
        swap("sum(kept**i for i in range(n_ahead + 1))", "1 + n_ahead * kept**n_ahead")
    ),
    "one lost guess ends the row: the expected number is not n_ahead · kept + 1": (
        swap("sum(kept**i for i in range(n_ahead + 1))", "1 + n_ahead * kept")
    ),
}
