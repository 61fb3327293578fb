"""Stacks of equal layers, plain or residual, and the random starts that keep a signal's size.

Chapter 6 derives the starts, chapter 6b the residual stack; chapter 18 asks how far the tokens of a
stack stay apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from unrolled.models.tensors import check_floats
from unrolled.validate import checked, one_of, whole

NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": F.relu,
    "leaky-relu": F.leaky_relu,
    "gelu": F.gelu,
    "softplus": F.softplus,
}
# A start's variance is scale / fan; the fan that its paper takes.
SCHEMES = {"lecun": (1.0, "fan_in"), "xavier": (1.0, "fan_avg"), "he": (2.0, "fan_in")}
MODES = ("fan_in", "fan_out", "fan_avg")
DISTRIBUTIONS = ("normal", "uniform")


class Stack(nn.Module):
    """Layers of one width D: h ← φ(W h + b), or h ← h + φ(W h + b) if residual.

    Weights: D × D and D for each layer, with torch's own start. The residual form follows He et al.
    (2016), equation 1, with two differences: a branch has one matrix, theirs has two with a ReLU
    between them; and φ stands inside the branch, theirs also after the addition.
    """

    @checked
    def __init__(
        self, width: int, n_layers: int, *, activation: str = "relu", residual: bool = False
    ):
        """width: D. n_layers: at least 1. activation: a name of NONLINEARITIES. Raises ValueError
        or TypeError for anything else.
        """
        super().__init__()
        whole("width", width), whole("n_layers", n_layers)
        one_of("activation", activation, NONLINEARITIES)
        self.activation, self.residual = NONLINEARITIES[activation], residual
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(n_layers))

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) → (…, D)."""
        return self.states(x)[-1]

    def states(self, x: Tensor) -> list[Tensor]:
        """The input and the output of every layer, n_layers + 1 tensors (…, D)."""
        check_floats(x=x)
        found = [x]
        for layer in self.layers:
            x = self.activation(layer(x)) + (x if self.residual else 0)
            found.append(x)
        return found


@checked
def start_std(shape: Sequence[int], scheme: str, *, mode: str | None = None) -> float:
    """√(scale / fan), the standard deviation of a fresh weight matrix.

    shape: (outputs, inputs), as torch stores it. scheme: "lecun" (scale 1), "xavier" (1) or "he"
    (2). mode: "fan_in" (inputs), "fan_out" (outputs) or "fan_avg" (their mean); by default the mean
    for Xavier and the inputs for the others. Raises ValueError for another name or shape, TypeError
    for numbers of outputs and inputs that are no integers.
    Source: LeCun et al. (1998), section 4.6; Glorot & Bengio (2010), equation 12; He et al. (2015),
    equation 10.
    """
    if len(shape) != 2:
        raise ValueError(f"a weight matrix has the shape (outputs, inputs), got {tuple(shape)}")
    fan_out, fan_in = whole("outputs", shape[0]), whole("inputs", shape[1])
    scale, usual = SCHEMES[one_of("scheme", scheme, tuple(SCHEMES))]
    fans = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}
    return math.sqrt(scale / fans[one_of("mode", usual if mode is None else mode, MODES)])


@torch.no_grad()
@checked
def start(
    weight: Tensor,
    scheme: str,
    *,
    mode: str | None = None,
    distribution: str = "normal",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Fill a weight matrix (outputs, inputs) in place with mean 0 and `start_std`; return it.

    distribution: "normal", or "uniform" between ±√3 standard deviations. generator: torch's own by
    default. With one seed the numbers are those of torch.nn.init.xavier_… and kaiming_….
    """
    check_floats(weight=weight)
    std = start_std(weight.shape, scheme, mode=mode)
    if one_of("distribution", distribution, DISTRIBUTIONS) == "normal":
        return weight.normal_(0, std, generator=generator)
    return weight.uniform_(-math.sqrt(3) * std, math.sqrt(3) * std, generator=generator)


@torch.no_grad()
@checked
def spread(x: Tensor) -> float:
    """‖X − mean row‖ / ‖X‖: how much of the vectors (…, T, D) is not common to all T positions.

    1 where the vectors' mean is zero, 0 where all are the same, as after rank collapse. Raises
    ValueError for fewer than two axes and for vectors that are all zero. Source: Dong et al.
    (2021), section 2, who measure the same remainder in another norm.
    """
    check_floats(x=x)
    if x.ndim < 2:
        raise ValueError(f"expected (…, T, D), got {tuple(x.shape)}")
    length = x.norm()
    if length == 0:
        raise ValueError("all vectors are zero: nothing is common, and nothing is not")
    return ((x - x.mean(-2, keepdim=True)).norm() / length).item()
