r"""Which language, without underflow

Write `posterior(log_likelihoods, prior)`. `log_likelihoods` has shape $(N, L)$: for each of $N$
texts its natural log-probability under each of $L$ language models. `prior` has shape $(L,)$ and
sums to one. Return $P(\text{language} \mid \text{text})$, of shape $(N, L)$.

A page of text has log-probabilities around −5,000. Your function must survive them.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def posterior(log_likelihoods, prior):
    """Posterior (N, L) over languages; each row sums to one."""
    log_joint = log_likelihoods + np.log(prior)
    log_joint = log_joint - log_joint.max(axis=1, keepdims=True)
    joint = np.exp(log_joint)
    return joint / joint.sum(axis=1, keepdims=True)


# %% explanation
explanation = r"""
Bayes' rule in logarithms is a sum: $\log P(\text{text} \mid \ell) + \log P(\ell)$. Before going
back to probabilities, subtract each row's largest entry. Numerator and denominator shrink by the
same factor, so the quotient is unchanged, but now the largest exponential is $e^0 = 1$ and the
denominator lies between 1 and $L$.
"""


# %% tests
def tests(rng):
    yield call(
        np.log(np.array([[0.02, 0.01], [0.001, 0.003]])), np.array([0.25, 0.75]), visible=True
    )
    for n, n_languages in [(1, 3), (5, 2), (4, 7)]:
        prior = rng.dirichlet(np.full(n_languages, 2.0))
        yield call(rng.normal(-9, 2, (n, n_languages)), prior)
    yield call(
        -5000 + rng.normal(0, 3, (3, 4)),
        rng.dirichlet(np.ones(4)),
        hint="these texts are a page long",
    )
    apart = np.array([[-9000.0, -5000.0, -5001.0], [-50.0, -2050.0, -49.0]])
    yield call(apart, np.array([0.5, 0.25, 0.25]), hint="rows and columns lie thousands apart here")
    square = rng.normal(-9, 2, (3, 3))
    yield call(square, np.array([0.7, 0.2, 0.1]), hint="N = L here: which axis is which?")


# %% oracle
def oracle(log_likelihoods, prior):
    """Bayes' rule as it stands, in decimal numbers, which reach below 10 to the −4000."""
    from decimal import Decimal

    weights = [Decimal(p) for p in prior.tolist()]
    rows = [[Decimal(x).exp() for x in row] for row in log_likelihoods.tolist()]
    joint = [[p * w for p, w in zip(row, weights, strict=True)] for row in rows]
    return np.array([[float(p / sum(row)) for p in row] for row in joint])


# %% wrong
wrong = {
    "the prior is left out": swap(" + np.log(prior)", ""),
    "the prior is added without its logarithm": swap("np.log(prior)", "prior"),
    "the logarithm of the prior is subtracted": swap("+ np.log", "- np.log"),
    "np.exp of −5,000 is 0, and 0/0 is not a number: subtract the row's maximum first": (
        swap(" - log_joint.max(axis=1, keepdims=True)", "")
    ),
    "each column sums to one; each row must": swap("axis=1", "axis=0", 2),
    "the whole table sums to one; each row must": swap("axis=1, keepdims=True", "", 2),
    "this is the joint probability scaled to a maximum of one; divide by the row's sum": (
        swap(" / joint.sum(axis=1, keepdims=True)", "")
    ),
    "the maximum of the whole table is subtracted; a row far below it still underflows": (
        swap(".max(axis=1, keepdims=True)", ".max()")
    ),
    "the row's mean is subtracted; its largest entry may still overflow": swap(".max(", ".mean("),
    "these are logarithms of the posterior": (
        swap("joint / joint.sum(axis=1, keepdims=True)", "np.log(joint / joint.sum(1)[:, None])")
    ),
    "this takes the best language as certain; the others keep some probability": (
        swap("np.exp(log_joint)", "1.0 * (log_joint == 0)")
    ),
    "`+=` writes into the caller's log-likelihoods": (
        swap("log_likelihoods + np.log", "log_likelihoods\n    log_joint += np.log")
    ),
}
