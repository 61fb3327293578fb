r"""A loss for logits of any size

Write `stable_loss(logits, targets)`: the mean cross-entropy in nats, $-\ln \hat y$ of the right
class, averaged over the batch. `logits` has shape $(B, V)$, `targets` holds the ids of the right
classes, $(B,)$. The logits may be as large as $10^{5}$, of either sign; the loss must come out
finite.
"""

import numpy as np

from unrolled_book.exercises.engine import call

kind, level, points = "code", 1, 2


# %% solution
def stable_loss(logits, targets):
    """Mean of −ln P of the right classes, in nats."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1))  # (B,)
    right = shifted[np.arange(len(targets)), targets]  # (B,)
    return float((log_sum - right).mean())


# %% explanation
explanation = r"""
Adding a constant to a row leaves its softmax unchanged, so each row's own largest logit may be
subtracted.
Then the largest exponential is $e^0 = 1$: nothing overflows, and the sum is at least 1, so its
logarithm is finite. The logarithm is taken of the sum and not of the probability, which may be
rounded to 0:

$$
-\ln \hat y_i = \ln \sum_k e^{z_k - c} - (z_i - c) .
$$

One shift for the whole batch would not do. A row far below the largest logit would have the sum
$0$, and $\ln 0$ is $-\infty$.
"""

# %% tests
show = True


def tests(rng):
    yield call(np.log([[2.0, 1.0, 1.0]]), np.array([1]), visible=True)
    yield call(rng.normal(size=(5, 3)), np.array([0, 2, 1, 1, 0]))
    yield call(np.array([[1000.0, 0.0, 0.0]]), np.array([1]), hint="exp(1000) overflows")
    yield call(np.array([[-1e5, -1e5 + 1, -1e5]]), np.array([2]), hint="exp(−100000) is 0")
    far_apart = np.array([[1e5, 0.0, 1.0], [3.0, -1.0, 2.0]])
    yield call(far_apart, np.array([0, 1]), hint="the two rows are of very different size")
    yield call(rng.normal(size=(3, 3)), np.array([2, 2, 0]), hint="B = V here")


# %% oracle
def oracle(logits, targets):
    import torch

    return torch.nn.functional.cross_entropy(torch.tensor(logits), torch.tensor(targets)).item()


# %% wrong
def picked(log_probs, targets):
    return -log_probs[np.arange(len(targets)), targets]


def log_softmax(z, axis=1, largest=None):
    z = z - (z.max(axis=axis, keepdims=True) if largest is None else largest)
    return z - np.log(np.exp(z).sum(axis=axis, keepdims=True))


def by_probabilities(z, t):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return picked(np.log(e / e.sum(axis=1, keepdims=True)), t).mean()


def in_place(z, t):
    z -= z.max(axis=1, keepdims=True)
    return stable_loss(z, t)


wrong = {
    "exp overflows: subtract the row's largest logit first": (
        lambda z, t: picked(log_softmax(z, largest=0), t).mean()
    ),
    "the logarithm of a probability that was rounded to 0 is −∞; take it of the sum": (
        by_probabilities
    ),
    "one number is subtracted from the whole batch; each row needs its own": (
        lambda z, t: picked(log_softmax(z, largest=z.max()), t).mean()
    ),
    "the smallest logit is subtracted; then exp may overflow": (
        lambda z, t: picked(log_softmax(z, largest=z.min(axis=1, keepdims=True)), t).mean()
    ),
    "the sum runs over the batch and not over the classes": (
        lambda z, t: picked(log_softmax(z, axis=0), t).mean()
    ),
    "the losses are added up; give their mean": lambda z, t: picked(log_softmax(z), t).sum(),
    "the sign is reversed": lambda z, t: -picked(log_softmax(z), t).mean(),
    "the loss is in bits; give nats": lambda z, t: picked(log_softmax(z), t).mean() / np.log(2),
    "the classes predicted are scored, not the right ones": (
        lambda z, t: picked(log_softmax(z), z.argmax(axis=1)).mean()
    ),
    "all classes are averaged, not only the right ones": lambda z, t: -log_softmax(z).mean(),
    "the sum of exponentials is left out": (
        lambda z, t: picked(z - z.max(axis=1, keepdims=True), t).mean()
    ),
    "`-=` writes into the logits that were handed in": in_place,
}
