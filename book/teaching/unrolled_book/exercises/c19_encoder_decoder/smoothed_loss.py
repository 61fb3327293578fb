r"""Label smoothing, torch's way

The paper of 2017 trains against a softened target: the right word gets less than probability 1, the
others share the rest (Szegedy et al., 2016). Perplexity gets worse and, in the paper, translations
better. Write `smoothed_loss(logits, targets, epsilon)` for logits `(N, V)`, targets `(N,)` and a
smoothing `epsilon`. The target distribution mixes the right word with a uniform one over **all** V
words, as `F.cross_entropy(…, label_smoothing=epsilon)` does. A target of −100 does not count.
Return the mean loss in nats over the targets that count; at least one does. Logits may be large.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def smoothed_loss(logits, targets, epsilon):
    """The mean smoothed cross-entropy of logits (N, V), in nats."""
    real = targets != -100
    x, y = logits[real], targets[real]
    x = x - x.max(axis=1, keepdims=True)
    log_probs = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    right = log_probs[np.arange(len(y)), y]
    return -((1 - epsilon) * right + epsilon * log_probs.mean(axis=1)).mean()


# %% explanation
explanation = r"""
The soft target is $(1 - \varepsilon)$ at the right word plus $\varepsilon / V$ everywhere, so the
right word has $1 - \varepsilon + \varepsilon / V$ in all: 0.91 with $\varepsilon = 0.1$ and V = 10.
The cross-entropy is linear in the target, so it splits: $(1 - \varepsilon)$ times the usual loss,
plus $\varepsilon$ times the mean of $-\log P$ over the vocabulary.

Other programs give the right word 0.9 and share 0.1 among the V − 1 wrong ones, or among V − 2
because padding gets nothing. Losses of such programs cannot be compared.
"""


# %% tests
def tests(rng):
    yield call(np.array([[0.0, np.log(3.0)]]), np.array([1]), 0.2, visible=True)
    yield call(np.zeros((2, 4)), np.array([0, 3]), 0.3, hint="all words equally likely")
    yield call(rng.normal(size=(3, 5)), np.array([0, 4, 2]), 0.0, hint="no smoothing")
    yield call(rng.normal(size=(3, 5)), np.array([-100, 4, -100]), 0.1, hint="targets of −100")
    yield call(1000 * rng.normal(size=(3, 5)), np.array([1, 0, 4]), 0.1, hint="large logits")
    yield call(
        np.array([[0.0, 1.0], [2000.0, 2001.0]]), np.array([1, 0]), 0.1, hint="rows far apart"
    )
    for N, V, epsilon in [(2, 10, 0.1), (7, 3, 0.4), (1, 2, 0.5), (5, 11, 1.0)]:
        yield call(rng.normal(size=(N, V)), rng.integers(0, V, size=N), epsilon)


# %% oracle
def oracle(logits, targets, epsilon):
    """torch's own."""
    import torch
    from torch.nn import functional as F

    given = torch.from_numpy(logits), torch.from_numpy(targets)
    return F.cross_entropy(*given, label_smoothing=epsilon).item()


# %% wrong
wrong = {
    "ε is shared by all V words, not by the V − 1 wrong ones": swap(
        "(1 - epsilon) * right + epsilon * log_probs.mean(axis=1)",
        "(1 - epsilon) * right + epsilon * (log_probs.sum(axis=1) - right) / (x.shape[1] - 1)",
    ),
    "the right word keeps its share of the uniform part, too": swap(
        "epsilon * log_probs.mean(axis=1)",
        "epsilon * (log_probs.sum(axis=1) - right) / x.shape[1]",
    ),
    "the target is not smoothed at all": swap(
        "(1 - epsilon) * right + epsilon * log_probs.mean(axis=1)", "right"
    ),
    "ε and 1 − ε have changed places": swap(
        "(1 - epsilon) * right + epsilon * log_probs.mean(axis=1)",
        "epsilon * right + (1 - epsilon) * log_probs.mean(axis=1)",
    ),
    "the uniform part is a mean over the vocabulary, not a sum": swap(
        "log_probs.mean(axis=1)", "log_probs.sum(axis=1)"
    ),
    "a loss is minus the log-probability": swap("return -(", "return ("),
    "the mean over the targets is asked for, not their sum": swap(").mean()", ").sum()"),
    "targets of −100 do not count, in the divisor either": swap(
        ").mean()", ").sum() / len(targets)"
    ),
    "exponentials of large logits overflow: subtract the largest first": swap(
        "x = x - x.max(axis=1, keepdims=True)", "x = x * 1.0"
    ),
    "subtract the largest logit of each row, not that of the whole table": swap(
        "x.max(axis=1, keepdims=True)", "x.max()"
    ),
    "the logits are no log-probabilities yet": swap(
        "x - np.log(np.exp(x).sum(axis=1, keepdims=True))", "logits[real]"
    ),
}
