r"""How many days?

A processor is sold with a *peak* of so many operations in a second; a training run reaches a
share of it, the *utilisation*. Write `training_days(N, n, devices, peak, utilisation)`: the days
that `devices` such processors need to train `N` parameters on `n` tokens, by the rule of the
chapter. A day has 86,400 seconds.

What would GPT-3 (174.6 billion parameters, 300 billion tokens) take on 1,024 processors with a
peak of 312 · 10¹² operations in a second at a utilisation of 0.4? And on one?
"""

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 1, 2


# %% solution
def training_days(N, n, devices, peak, utilisation):
    """Days of training N parameters on n tokens."""
    compute = 6 * N * n
    a_second = devices * peak * utilisation
    return compute / a_second / 86_400


# %% explanation
explanation = r"""
The rule says $C = 6Nn$. In a second the machines do `devices · peak · utilisation` operations,
fewer than the data sheet promises. GPT-3 takes 28 days on the 1,024 processors, and 80 years on
one.
"""


# %% tests
def tests(rng):
    yield call(1e6, 3.6e8, 1, 1e11, 0.5, visible=True)
    devices, percent, N = rng.integers((100, 20, 3), (2000, 60, 20)).tolist()
    yield call(174.6e9, 300e9, devices, 312e12, 0.4, hint="GPT-3")
    yield call(174.6e9, 300e9, 1, 312e12, percent / 100, hint="GPT-3 on one")
    yield call(N, 11, 3, 5.0, 1.0, hint="small numbers, all of the peak")
    yield call(1e6, 0, 2, 1e11, 0.3, hint="no tokens")
    numbers = [int(x) for x in rng.integers(2, 1000, size=3)]
    yield call(*numbers, 1e6, 0.25, hint="at random")


# %% oracle
def oracle(N, n, devices, peak, utilisation):
    """Exact fractions, pass by pass."""
    from fractions import Fraction

    forward = 2 * Fraction(N) * Fraction(n)
    passes = forward + 2 * forward
    speed = sum(Fraction(peak) * Fraction(utilisation) for _ in range(devices))
    return float(passes / speed / (24 * 60 * 60))


# %% wrong
wrong = {
    "that is the forward pass alone; training costs three times as much": swap("6 *", "2 *"),
    "the forward pass costs two operations for each parameter, so training six": swap("6 *", "3 *"),
    "the backward pass is there, the forward pass is missing": swap("6 *", "4 *"),
    "a low utilisation makes it slower, not faster": swap(
        "peak * utilisation", "peak / utilisation"
    ),
    "the processors do not reach their peak": swap(" * utilisation", ""),
    "more processors share the work": swap("devices * peak", "peak"),
    "these are seconds, not days": swap(" / 86_400", ""),
    "these are hours, not days": swap("86_400", "3_600"),
}
