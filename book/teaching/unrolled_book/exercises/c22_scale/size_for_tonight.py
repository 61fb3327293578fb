r"""The size for tonight

`runs` is a list of triples `(C, N, loss)`: trainings with a budget of $C$ operations, several
sizes $N$ for each of at least two budgets. Write `size_for_tonight(runs, C)`, the best size for
another budget, as in the chapter:

- for each budget of the runs put a parabola through the losses over $\ln N$ (least squares) and
  take the size at its lowest point;
- put a straight line through $\ln$ of these sizes over $\ln$ of the budgets (least squares, each
  budget once), and read it at the budget `C`.

The triples come in any order; one that stands twice counts twice. Every parabola has a
lowest point.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% solution
def size_for_tonight(runs, C):
    """The best size for the budget C."""
    runs = np.array(runs, dtype=float)
    budgets, sizes = np.unique(runs[:, 0]), []
    for budget in budgets:
        _, N, loss = runs[runs[:, 0] == budget].T
        a, b, _ = np.polyfit(np.log(N), loss, 2)
        sizes.append(-b / (2 * a))
    slope, start = np.polyfit(np.log(budgets), sizes, 1)
    return np.exp(start + slope * np.log(C))


# %% explanation
explanation = r"""
The lowest point of $a x^2 + b x + c$ is at $x = -b / (2a)$; with $x = \ln N$ that is already the
logarithm which the line needs. The exponential comes at the very end.

A parabola over $N$ itself would be a bad picture of a valley that spans a factor of ten, and the
best of the sizes tried is only as fine as the grid.
"""


# %% tests
def valleys(rng, budgets, a, noise=0.0):
    """Runs whose best sizes are 3 · C^a, in any order."""
    runs = []
    for C in budgets:
        best = 3 * C**a
        for factor in (0.3, 0.5, 1.1, 1.9, 4.0)[: 3 + int(noise > 0) * 2]:
            N = best * factor
            loss = 2 + 5 / C**0.1 + 0.1 * np.log(N / best) ** 2 + noise * rng.normal()
            runs.append((float(C), float(N), float(loss)))
    return [runs[i] for i in rng.permutation(len(runs))]


def tests(rng):
    e = float(np.exp(1))
    small = [(1.0, 1 / e, 3.0), (1.0, 1.0, 1.0), (1.0, e, 1.0)]
    more = [(e, 1.0, 2.0), (e, e, 1.0), (e, e * e, 2.0)]
    yield call(small + more, e * e, visible=True, tolerance=1e-6)
    yield call(valleys(rng, (1e6, 1e7), 0.5), 1e9, hint="two budgets", tolerance=1e-5)
    yield call(valleys(rng, (1e6, 1e7, 1e9), 0.5), 1e8, hint="between them", tolerance=1e-5)
    yield call(valleys(rng, (1e6, 1e7), 0.5), 1e7, hint="a budget that was spent", tolerance=1e-5)
    noisy = valleys(rng, (1e5, 1e6, 1e7, 1e9), 0.7, noise=0.01)
    yield call(noisy, 1e11, hint="noise", tolerance=1e-5)
    yield call(noisy + noisy[:3], 1e11, hint="some trainings twice", tolerance=1e-5)


# %% oracle
def oracle(runs, C):
    """Normal equations, written out."""
    points = []
    for budget in sorted({run[0] for run in runs}):
        here = [(np.log(N), loss) for c, N, loss in runs if c == budget]
        X = np.array([[1, x - here[0][0], (x - here[0][0]) ** 2] for x, _ in here])
        _, b, a = np.linalg.solve(X.T @ X, X.T @ [loss for _, loss in here])
        points.append((np.log(budget), here[0][0] - b / (2 * a)))
    x, y = np.array(points).T
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    return np.exp(y.mean() + slope * (np.log(C) - x.mean()))


oracle_tolerance = 1e-5  # two ways through squares of logarithms


# %% wrong
wrong = {
    "the parabola lies over ln N, not over N": swap(
        "np.polyfit(np.log(N), loss, 2)\n        sizes.append(-b / (2 * a))",
        "np.polyfit(N, loss, 2)\n        sizes.append(np.log(abs(b / (2 * a))))",
    ),
    "the lowest point of the parabola is asked for, not the best size that was tried": swap(
        "sizes.append(-b / (2 * a))", "sizes.append(np.log(N[loss.argmin()]))"
    ),
    "the lowest point lies at -b / (2a), with the minus": swap("-b / (2 * a)", "b / (2 * a)"),
    "the lowest point lies at -b / (2a), with the two": swap("-b / (2 * a)", "-b / a"),
    "the line lies over ln C, not over C": swap(
        "np.polyfit(np.log(budgets), sizes, 1)\n    return np.exp(start + slope * np.log(C))",
        "np.polyfit(budgets, sizes, 1)\n    return np.exp(start + slope * C)",
    ),
    "the exponential of the line is missing": swap(
        "np.exp(start + slope * np.log(C))", "start + slope * np.log(C)"
    ),
    "the line is read at ln C": swap("slope * np.log(C)", "slope * C"),
    "the best size of the largest budget is not the one for another budget": swap(
        "np.exp(start + slope * np.log(C))", "np.exp(sizes[-1])"
    ),
    "the line's start counts as well as its slope": swap("start + slope", "slope"),
    "the line goes through all budgets, not from the first to the second": swap(
        "np.polyfit(np.log(budgets), sizes, 1)", "np.polyfit(np.log(budgets[:2]), sizes[:2], 1)"
    ),
}
