r"""How hard a pair pulls

Write `dpo_pull(log_q, log_p, beta)`: the gradient of DPO's loss of one pair with respect to the two
log-probabilities $\ln \pi(y)$ and $\ln \pi(y')$. `log_q` and `log_p` are arrays $(2,)$ of
$\ln \pi$ and $\ln \pi_0$, the preferred answer first, each a sum over the answer's tokens. Return
an array $(2,)$. Log-probabilities may be as small as −1000: take care that no NaN appears.

Then think: which pairs pull hardest, and what do the two entries add up to?
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 2


# %% solution
def dpo_pull(log_q, log_p, beta):
    """Gradient (2,) of −ln σ(lead) by ln π(y) and ln π(y′)."""
    implied = beta * (log_q - log_p)
    lead = implied[0] - implied[1]
    wrong = np.exp(-np.logaddexp(0, lead))  # σ(−lead)
    return np.array([-beta * wrong, beta * wrong])


# %% explanation
explanation = r"""
With $L = -\ln \sigma(u)$ the derivative is $dL/du = -\sigma(-u)$, and $u$ depends on $\ln \pi(y)$
by $\beta$ and on $\ln \pi(y')$ by $-\beta$.

A step downhill raises $\ln \pi(y)$ and lowers $\ln \pi(y')$. The weight $\beta\,\sigma(-u)$ is the
probability, by the policy's own reward, that the *other* answer wins: pairs that are ordered
wrongly pull hardest, and those ordered clearly hardly at all. It never becomes 0, so a pair never
stops pulling.

The two entries add up to 0: the loss does not feel what both answers gain or lose together. And
these are gradients with respect to log-probabilities. What the *parameters* do with them depends
on what the two answers share: their common beginning gets both pulls.

$\sigma(-u) = e^{-\ln(1 + e^u)}$; `logaddexp` computes $\ln(e^0 + e^u)$ without overflow.
"""


# %% tests
def tests(rng):
    yield call(np.array([-3.0, -4.0]), np.array([-4.0, -3.0]), 0.5, visible=True)
    yield call(np.array([-5.0, -2.0]), np.array([-5.0, -2.0]), 0.1, hint="at the start")
    yield call(np.array([-9.0, -1.0]), np.array([-2.0, -3.0]), 1.0, hint="ordered wrongly")
    yield call(np.array([-1000.0, -1.0]), np.array([-1.0, -1000.0]), 5.0, hint="far apart")
    yield call(np.array([-1.0, -1000.0]), np.array([-1000.0, -1.0]), 5.0, hint="far apart")
    yield call(np.array([-40.0, -7.0]), np.array([-38.0, -8.0]), 0.3, hint="other lengths")
    for _ in range(3):
        log_q, log_p = -rng.uniform(1, 20, size=(2, 2))
        yield call(log_q, log_p, float(rng.uniform(0.05, 1)), hint="drawn at random")


# %% oracle
def oracle(log_q, log_p, beta):
    """By torch's automatic differentiation."""
    import torch

    ours = torch.tensor(log_q, requires_grad=True)
    change = beta * (ours - torch.tensor(log_p))
    loss = -torch.nn.functional.logsigmoid(change[0] - change[1])
    return torch.autograd.grad(loss, ours)[0].numpy()


# %% wrong
wrong = {
    "this is the direction of a step; the gradient points uphill": (
        swap("[-beta * wrong, beta * wrong]", "[beta * wrong, -beta * wrong]")
    ),
    "the weight is σ(−lead), not σ(lead): is the lead turned, or are π and π₀ exchanged": (
        swap("np.logaddexp(0, lead)", "np.logaddexp(0, -lead)")
    ),
    "the factor β in front is missing: the lead is β times a difference": (
        swap("[-beta * wrong, beta * wrong]", "[-wrong, wrong]")
    ),
    "the rewards are β times the differences, not without β": (
        swap("implied = beta * (log_q - log_p)", "implied = log_q - log_p")
    ),
    "the reference is missing: a reward is β ln(π/π₀)": (
        swap("beta * (log_q - log_p)", "beta * log_q")
    ),
    "only the preferred answer pulls; the other has a gradient, too": (
        swap("beta * wrong])", "0.0])")
    ),
    "exp overflows where the lead is large; use logaddexp or another stable form": (
        swap("np.exp(-np.logaddexp(0, lead))", "np.exp(-lead) / (1 + np.exp(-lead))")
    ),
    "this is the loss, not its gradient": (
        lambda log_q, log_p, beta: np.logaddexp(
            0, -beta * (log_q[0] - log_p[0] - log_q[1] + log_p[1])
        ) * np.array([1.0, 1.0])
    ),
}  # fmt: skip
