r"""Best of n, exactly

There are $V$ answers with the probabilities `probs` $(V,)$ and rewards `rewards` $(V,)$. We draw
`n` answers independently and keep one with the largest reward; among several drawn with the same
largest reward, the one that was drawn first.

Write `best_of_n(probs, rewards, n)`: the distribution $(V,)$ of what is kept. `n` may be a million,
so list no draws.

Two answers with the same reward are equally good. How do they share the probability that one of
them is kept?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def best_of_n(probs, rewards, n):
    """Distribution (V,) of the answer with the largest reward among n draws."""
    kept = np.zeros(len(probs))
    for r in np.unique(rewards):
        equal = rewards == r
        below, here = probs[rewards < r].sum(), probs[equal].sum()
        if here > 0:
            share = (below + here) ** n - below**n
            kept[equal] = probs[equal] / here * share
    return kept


# %% explanation
explanation = r"""
The largest reward is at most $r$ if all $n$ draws are: $F(r)^n$. It is exactly $r$ with probability
$F(r)^n - F(r^-)^n$, where $F(r^-)$ leaves out the answers with reward $r$.

Given that the largest reward is $r$, the first draw with that reward is one of those answers, with
its probability among them. So they share in proportion to `probs`. Sorting and differencing
$F_i^n$ answer by answer gives the same sum for the group but another split: the one that happens to
stand last in the sorted list gets most of it.

For large $n$ everything goes to the best answers, however rare they are: about $n = 1/p$ draws find
an answer of probability $p$. Selecting by a *learned* reward therefore visits what the model seldom
writes, where the reward model was never corrected.
"""


# %% tests
def tests(rng):
    yield call(np.array([0.5, 0.3, 0.2]), np.array([1.0, 3.0, 2.0]), 2, visible=True)
    yield call(np.array([0.5, 0.3, 0.2]), np.array([1.0, 3.0, 2.0]), 1, hint="one draw")
    yield call(np.array([0.4, 0.1, 0.5]), np.array([2.0, 2.0, 0.0]), 3, hint="equal rewards")
    yield call(np.array([0.2, 0.8]), np.array([5.0, 5.0]), 7, hint="all rewards equal")
    yield call(np.array([0.0, 0.6, 0.4]), np.array([9.0, 1.0, 2.0]), 4,
               hint="the best answer never comes")  # fmt: skip
    yield call(np.array([0.999, 0.001]), np.array([0.0, 1.0]), 100_000, hint="very many draws")
    yield call(np.array([1.0]), np.array([-3.0]), 5, hint="one answer")
    for n in (2, 6):
        rewards = rng.integers(-2, 3, size=6).astype(float)
        yield call(rng.dirichlet(np.ones(6)), rewards, n, hint="drawn at random")


# %% oracle
def oracle(probs, rewards, n):
    """Draw after draw: P(the kept one is i) after one more draw, from the one before."""
    import numpy as np

    if n > 1000:  # the best answer is found for certain
        best = (rewards == rewards.max()) & (probs > 0)
        return np.where(best, probs, 0) / probs[best].sum()
    kept = probs.copy()
    for _ in range(n - 1):
        new = np.zeros_like(kept)
        for i, p in enumerate(kept):
            for j, q in enumerate(probs):
                new[j if rewards[j] > rewards[i] else i] += p * q
        kept = new
    return kept


# %% wrong
def by_rank(probs, rewards, n):
    order = np.argsort(rewards, kind="stable")
    F = np.cumsum(probs[order])
    kept = np.zeros(len(probs))
    kept[order] = np.diff(F**n, prepend=0)
    return kept


def evenly(probs, rewards, n):
    kept = np.zeros(len(probs))
    for r in np.unique(rewards):
        equal = rewards == r
        below, here = probs[rewards < r].sum(), probs[equal].sum()
        kept[equal] = ((below + here) ** n - below**n) / equal.sum()
    return kept


def tilted(probs, rewards, n):
    weights = probs * np.exp(rewards * np.log(n))
    return weights / weights.sum()


wrong = {
    "answers with equal rewards share in proportion to their probabilities, not by their order": (
        by_rank
    ),
    "answers with equal rewards share in proportion to their probabilities, not evenly": evenly,
    "best of n is not a tilt by the reward: only the order of the rewards counts": tilted,
    "n draws have the power n, not a factor n": (
        swap("(below + here) ** n - below**n", "n * here")
    ),
    "the draws below have to be taken away: not all n may be below": swap(" - below**n", ""),
    "the smallest reward is kept, not the largest": swap("rewards < r", "rewards > r"),
    "one draw too few": swap("(below + here) ** n - below**n",
                             "(below + here) ** (n - 1) - below ** (n - 1)"),
    "this is P(at least one draw is i), which does not sum to one": (
        lambda probs, rewards, n: 1 - (1 - probs) ** n
    ),
    "the best answer that can be drawn is not certain to be drawn": (
        lambda probs, rewards, n: np.where(rewards == rewards[probs > 0].max(), probs, 0)
        / probs[rewards == rewards[probs > 0].max()].sum()
    ),
}  # fmt: skip
