r"""Which way the term pushes

A router has given N tokens the probabilities `p` `(N, E)`, and `chosen` `(N, k)` holds the k
different experts that each token visits. The balance loss is
$L = E \sum_i f_i P_i$ with $f_i$ the share of all choices that expert $i$ gets and $P_i$ its mean
probability. The shares are counts: they are numbers without a derivative. Write
`pull_of_balance(p, chosen)`. It returns the gradient of L with respect to the router's *scores*, of
which `p` is the softmax, `(N, E)`. N is at least 1. Do not change the arguments.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def pull_of_balance(p, chosen):
    """The gradient (N, E) of the balance loss with respect to the scores."""
    N, E = p.shape
    f = np.bincount(chosen.flatten(), minlength=E) / chosen.size
    slope = E * f / N  # of L, with respect to each p[n, i]
    return p * (slope - (p * slope).sum(1, keepdims=True))


# %% explanation
explanation = r"""
L is linear in the probabilities: its slope in $p_{ni}$ is $E f_i / N$, the same for all tokens. The
softmax turns slopes $g_i$ in the probabilities into $p_i (g_i - \sum_j p_j g_j)$ in the scores.

So a score is pushed down where its expert is busier than the mean that the token's own
probabilities give, and up where it is less busy. The rows sum to 0: probability only moves. An even
load, all $f_i$ equal, leaves every score alone, whatever the probabilities are. A token that is
sure of its expert is hardly pushed: $p_i$ near 1 or 0 makes the softmax flat.
"""


# %% tests
def tests(rng):
    yield call(np.array([[0.5, 0.5], [0.8, 0.2]]), np.array([[0], [0]]), visible=True)
    yield call(np.array([[0.7, 0.3], [0.4, 0.6]]), np.array([[0], [1]]), hint="an even load")
    yield call(np.array([[0.2, 0.5, 0.3]]), np.array([[1, 2]]), hint="an expert nobody chose")
    for N, E, k in [(5, 3, 1), (7, 4, 2), (11, 5, 3), (2, 6, 2)]:
        scores = rng.normal(size=(N, E))
        p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        yield call(p, np.argsort(rng.random((N, E)), axis=1)[:, :k])


# %% oracle
def oracle(p, chosen):
    """The library's loss, differentiated by torch."""
    import torch
    from unrolled.models.moe import balance_loss

    scores = torch.tensor(np.log(p)).requires_grad_()
    balance_loss(scores.softmax(-1), torch.tensor(chosen)).backward()
    return scores.grad.numpy()


# %% wrong
wrong = {
    "the gradient is asked for the scores, behind the softmax": swap(
        "return p * (slope - (p * slope).sum(1, keepdims=True))",
        "return np.broadcast_to(slope, p.shape).copy()",
    ),
    "the softmax also takes the mean slope away": swap(
        "p * (slope - (p * slope).sum(1, keepdims=True))", "p * slope"
    ),
    "the mean slope is weighted by the token's probabilities": swap(
        "(p * slope).sum(1, keepdims=True)", "slope.mean()"
    ),
    "the shares are of all choices: N times k": swap("/ chosen.size", "/ len(chosen)"),
    "P is a mean over N tokens": swap("E * f / N", "E * f"),
    "the loss is multiplied by the number of experts": swap("E * f / N", "f / N"),
    "the slope in P is the share f, not P": swap("E * f / N", "E * p.mean(0) / N"),
    "only first choices are counted": swap("chosen.flatten()", "chosen[:, 0]").swap(
        "chosen.size", "len(chosen)"
    ),
    "this is the step that training takes: the gradient has the other sign": swap(
        "return p", "return -p"
    ),
    "the slopes are multiplied by p once more": swap("return p * (", "return ("),
}
