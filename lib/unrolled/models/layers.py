"""The parts of a block besides attention, which chapter 18 derives: norms, feed-forward layer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.models.tensors import check_floats
from unrolled.validate import checked, one_of, real, whole

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
# A gated layer multiplies the activation of one map by another map, without an activation.
GATED = {"reglu": "relu", "geglu": "gelu", "geglu-tanh": "gelu-tanh", "swiglu": "silu"}

# Torch's and GPT-2's: far below any variance met in training, and not lost in bfloat16's rounding.
# LLaMA 1 and T5 take 1e-6, BERT 1e-12.
NORM_EPS = 1e-5


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε) · weight, over the last axis. Source: Zhang & Sennrich (2019).

    width: of the last axis. eps: stands inside the root. weight begins at 1. implementation:
    "reference" follows the formula, "fused" is torch's kernel, as is "auto".
    Raises ValueError for a width below 1, a negative eps or another implementation.
    """

    @checked
    def __init__(self, width: int, *, eps: float = NORM_EPS, implementation: str = "auto"):
        super().__init__()
        self.width, self.eps = whole("width", width), real("eps", eps, at_least=0)
        modes = ("auto", "reference", "fused")
        self.implementation = one_of("implementation", implementation, modes)
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """(…, width) → (…, width). Raises ValueError for another width."""
        check_floats(x=x)
        if x.shape[-1:] != (self.width,):
            raise ValueError(f"expected (…, {self.width}), got {tuple(x.shape)}")
        return self._formula(x) if self.implementation == "reference" else self._kernel(x)

    def _formula(self, x: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.weight

    def _kernel(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (self.width,), self.weight, self.eps)


class LayerNorm(RMSNorm):
    """(x − mean) / √(var + ε) · weight + bias, over the last axis, with the biased variance.

    An `RMSNorm` of x − mean, and a bias, which begins at 0. Source: Ba, Kiros & Hinton (2016).
    """

    @checked
    def __init__(
        self, width: int, *, eps: float = NORM_EPS, bias: bool = True, implementation: str = "auto"
    ):
        super().__init__(width, eps=eps, implementation=implementation)
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def _formula(self, x: Tensor) -> Tensor:
        x = super()._formula(x - x.mean(-1, keepdim=True))
        return x if self.bias is None else x + self.bias

    def _kernel(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (self.width,), self.weight, self.bias, self.eps)


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, at each position alone.

    Plain: down(act(up(x))). Gated: down(act(gate(x)) ⊙ up(x)), where `up` holds both matrices, the
    gate's in its first F rows. Weights: up (F, D), or (2F, D) when gated; down (D, F).
    Source: Vaswani et al. (2017), equation 2; Hendrycks & Gimpel (2016); Shazeer (2020).
    """

    @checked
    def __init__(self, d_model: int, d_ff: int, *, activation: str = "gelu", bias: bool = True):
        """d_model: D. d_ff: F. activation: a name of ACTIVATIONS, or of GATED. Raises ValueError or
        TypeError for another one and for a size that is no integer from 1 on.
        """
        super().__init__()
        whole("d_model", d_model), whole("d_ff", d_ff)
        self.gated = one_of("activation", activation, (*ACTIVATIONS, *GATED)) in GATED
        self.activation = ACTIVATIONS[GATED.get(activation, activation)]
        self.up = nn.Linear(d_model, 2 * d_ff if self.gated else d_ff, bias=bias)
        self.down = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) → (…, D)."""
        check_floats(x=x)
        if not self.gated:
            return self.down(self.activation(self.up(x)))
        gate, x = self.up(x).chunk(2, -1)
        return self.down(self.activation(gate) * x)


def cast_for_products(x: Tensor) -> Tensor:
    """x in the dtype to which autocast casts what a product reads; without autocast x itself.

    A tensor that several products read is cast once with it; autocast casts it for each of them,
    and each keeps its copy for the backward pass.
    """
    kind = x.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):  # there is none for meta
        return x
    casts = x.is_floating_point() and x.dtype != torch.float64  # autocast leaves the others alone
    return x.to(torch.get_autocast_dtype(kind)) if casts else x


@contextlib.contextmanager
def recording(model: nn.Module, kind: type[nn.Module]) -> Iterator[list[Any]]:
    """Collects in a list what the model's modules of a kind compute while the block runs.

    The list stands as `recorded` in each, and afterwards what stood there before, which then gets
    the block's records, too; a module appends to what is not None.
    """
    records, modules = [], [m for m in model.modules() if isinstance(m, kind)]
    outer = [module.recorded for module in modules]
    for module in modules:
        module.recorded = records
    try:
        yield records
    finally:
        for module, before in zip(modules, outer, strict=True):
            module.recorded = before
        for before in {id(x): x for x in outer if x is not None}.values():
            before.extend(records)
