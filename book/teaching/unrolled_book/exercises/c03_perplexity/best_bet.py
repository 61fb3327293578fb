r"""How sure should you have been?

You have played Shannon's game for many letters. `right` is a boolean array `(n,)`: whether your
guess was the letter that came. `common` is an array `(n,)`, positive: how common the letter that
came is (the $u$ below). With sureness $s$ you gave it the probability
$s \cdot [\text{right}] + (1 - s) \cdot u$.

Write `best_bet(right, common)`. Return a pair: the sureness between 0 and 0.999 that would have
given the smallest perplexity, had you named the same one each time; and that perplexity. The
nearest thousandth will do. The mean cost is convex in $s$, so a fine grid, or any search, finds it.

Then compare it with the share of your right guesses. Why is it not exactly that share?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "experiment", 2, 3
outputs = ("the sureness", "the perplexity")


# %% solution
def best_bet(right, common):
    """(sureness, perplexity) of the best constant bet for guesses (n,)."""
    sureness = np.arange(9991)[:, None] / 10_000
    p = sureness * right + (1 - sureness) * common  # (9991, n)
    nats = -np.log(p).mean(axis=1)
    best = int(nats.argmin())
    return best / 10_000, float(np.exp(nats[best]))


# %% explanation
explanation = r"""
If the rest were shared over the *other* letters only, the best sureness would be exactly the share
of right guesses: that is maximum likelihood for a coin, as in chapter 2. Here the guessed letter
also gets a bit of the rest, $(1 - s)\, u$, so that a slightly smaller $s$ is enough.

Where most guesses are right, too sure costs more than too shy by as much: with nine of ten right,
$s = 0.99$ pays 0.68 bits, $s = 0.81$ only 0.51, and the best $s = 0.9$ pays 0.47 (each plus the
price of the rest).
"""


# %% tests
def tests(rng):
    near = 6e-4  # half a thousandth, and what the solution's own grid errs by
    yield call(np.array([True, True, True, False]), np.full(4, 0.04), visible=True, tolerance=near)
    # The best sureness is 0.273: far from every two-decimal number, fifth and even thousandth.
    yield call(np.arange(11) < 4, np.full(11, 0.12467), tolerance=near)
    yield call(np.array([True, True, False, True, False, False]),
               np.array([0.5, 0.02, 0.01, 0.4, 0.3, 0.03]), tolerance=near,
               hint="letters differ in how common they are")  # fmt: skip
    for n, share, largest in ((13, 0.6, 0.5), (53, 0.4, 0.12), (211, 0.9, 0.12)):
        yield call(rng.random(n) < share, rng.uniform(0.002, largest, n), tolerance=near)
    yield call(np.zeros(7, dtype=bool), rng.uniform(0.01, 0.1, 7), tolerance=near,
               hint="none was right")  # fmt: skip
    yield call(np.ones(7, dtype=bool), rng.uniform(0.01, 0.1, 7), tolerance=near / 2,
               hint="all were right")  # fmt: skip


# %% oracle
oracle_tolerance = 6e-4  # the nearest thousandth is asked for


def oracle(right, common):
    """A bounded search for the sureness."""
    from scipy.optimize import minimize_scalar

    def cost(s):
        return -np.log(np.where(right, s + (1 - s) * common, (1 - s) * common)).mean()

    found = minimize_scalar(cost, bounds=(0, 0.999), method="bounded", options={"xatol": 1e-9})
    return float(found.x), float(np.exp(found.fun))


# %% wrong
def by_share(right, common):
    s = min(float(right.mean()), 0.999)
    p = s * right + (1 - s) * common
    return s, float(np.exp(-np.log(p).mean()))


def by_formula(right, common):
    s = float(np.clip((right.mean() - common.mean()) / (1 - common.mean()), 0, 0.999))
    p = s * right + (1 - s) * common
    return s, float(np.exp(-np.log(p).mean()))


wrong = {
    "a formula with the mean of u is right only where all letters are equally common": by_formula,
    "the sureness is rounded to two decimals; the nearest thousandth is asked for": swap(
        "best / 10_000,", "round(best / 10_000, 2),"
    ),
    "this is the share of right guesses; the guessed letter also gets a bit of the rest": by_share,
    "the mean probability was maximised; perplexity is about its logarithm": swap(
        "nats.argmin()", "p.mean(axis=1).argmax()"
    ),
    "the mean of 1/p was minimised; perplexity is one over the geometric mean": swap(
        "nats.argmin()", "(1 / p).mean(axis=1).argmin()"
    ),
    "this is the worst sureness, not the best one": swap("nats.argmin()", "nats.argmax()"),
    "the loss in nats stands where the perplexity is asked for": swap(
        "float(np.exp(nats[best]))", "float(nats[best])"
    ),
    "losses in nats were raised to the base two": swap("np.exp(nats[best])", "2 ** nats[best]"),
    "the grid of 200 steps is too coarse for a thousandth": swap(
        "np.arange(9991)[:, None] / 10_000", "np.arange(200)[:, None] / 200"
    ).swap("best / 10_000,", "best / 200,"),
    "only the right guesses were counted; the wrong ones are the reason not to be certain": swap(
        "-np.log(p).mean(axis=1)", "-(np.log(p) * right).mean(axis=1)"
    ),
    "the cost of the whole text was exponentiated, without dividing by its length": swap(
        "float(np.exp(nats[best]))", "float(np.exp(nats[best] * len(right)))"
    ),
}
