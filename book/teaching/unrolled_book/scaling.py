"""Scaling laws: the best size for a budget, and the power of the budget with which it grows.

N is a number of parameters, C a number of operations. Chapter 22 fits them to recorded trainings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from unrolled.validate import array, checked, real


@checked
def valley(sizes: ArrayLike, losses: ArrayLike) -> tuple[float, float]:
    """The size at which a parabola through the losses over ln N is lowest, and the loss there.

    sizes, losses: of the models of one budget, at least three different sizes. Raises ValueError
    for fewer, and for losses whose parabola has no lowest point. Source: Hoffmann et al. (2022),
    approach 2.
    """
    sizes, losses = _points(sizes=sizes, losses=losses)
    if len(set(sizes)) < 3:
        raise ValueError(f"a valley needs three sizes, got {len(set(sizes))}")
    x = np.log(sizes)
    middle = x.mean()
    a, b, c = np.polyfit(x - middle, losses, 2)
    if a <= 0:
        raise ValueError(f"the parabola opens downward ({a:.3g}), so the sizes have no best one")
    return float(np.exp(middle - b / (2 * a))), float(c - b**2 / (4 * a))


@checked
def power_law(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """(k, a) of y = k · x^a, by least squares of ln y over ln x. ValueError below two points."""
    x, y = _points(x=x, y=y)
    if len(set(x)) < 2:
        raise ValueError(f"a power law needs two different x, got {len(set(x))}")
    exponent, start = np.polyfit(np.log(x), np.log(y), 1)
    return float(np.exp(start)), float(exponent)


@dataclass(frozen=True, kw_only=True)
class Law:
    """loss(N, n) = floor + A / N^alpha + B / n^beta, in nats, of N parameters and n tokens.

    The defaults are what Besiroglu et al. (2024) fitted to the runs of Hoffmann et al. (2022,
    equation 2).
    """

    floor: float = 1.8172
    A: float = 482.01
    alpha: float = 0.3478
    B: float = 2085.43
    beta: float = 0.3658

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            real(name, value, at_least=0) if name == "floor" else real(name, value, above=0)

    @checked
    def loss(self, parameters: ArrayLike, tokens: ArrayLike) -> np.ndarray:
        """The loss after training N parameters on n tokens; arrays of one shape."""
        parameters, tokens = _positive("parameters", parameters), _positive("tokens", tokens)
        return self.floor + self.A / parameters**self.alpha + self.B / tokens**self.beta

    @property
    def exponent(self) -> float:
        """The power a of the best size for a budget C = 6·N·n: N ∝ C^a."""
        return self.beta / (self.alpha + self.beta)

    @checked
    def best(self, compute: float) -> tuple[float, float]:
        """The parameters and the tokens that are best for a budget C = 6·N·n."""
        ratio = self.alpha * self.A / (self.beta * self.B)
        compute = real("compute", compute, above=0)
        parameters = (ratio * (compute / 6) ** self.beta) ** (1 / (self.alpha + self.beta))
        return parameters, compute / (6 * parameters)

    @checked
    def tokens(self, parameters: float) -> float:
        """For how many tokens N parameters are the best size: `best`, read the other way."""
        ratio = self.alpha * self.A / (self.beta * self.B)
        parameters = real("parameters", parameters, above=0)
        return (parameters**self.alpha / ratio) ** (1 / self.beta)


def _points(**given: ArrayLike) -> list[np.ndarray]:
    """Two arrays (n,) of numbers above 0."""
    found = [_positive(name, x, 1) for name, x in given.items()]
    if len({len(x) for x in found}) > 1:
        raise ValueError(f"{' and '.join(given)} must be equally many, got {[*map(len, found)]}")
    return found


def _positive(name: str, x: ArrayLike, ndim: int | None = None) -> np.ndarray:
    x = array(name, x, ndim)
    if not (x > 0).all() or not np.isfinite(x).all():
        raise ValueError(f"{name} must be above 0 and finite, got {x}")
    return x
