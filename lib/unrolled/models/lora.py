"""Low-rank adapters: a trained model stays as it is, and a thin product learns beside its matrices.

`add_lora` puts them onto a model, `merge` adds them to its matrices, `lora_state` is all that is
saved. The matrices beneath may be in four bits. Chapter 24 tunes with them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from unrolled.models.nf4 import QuantisedLinear
from unrolled.validate import checked, real, whole


class LoRALinear(nn.Module):
    """base(x) + α/r · dropout(x) Aᵀ Bᵀ: a linear map with an adapter, in all W + α/r · B A.

    lora_a (r, in) begins as torch's linear maps do, lora_b (out, r) with zeros, so that at first
    nothing changes. They are the only parameters that train. α/r keeps the size of the adapter's
    first steps at any r. Source: Hu et al. (2022), section 4.1.
    """

    @checked
    def __init__(
        self,
        base: nn.Linear | QuantisedLinear,
        *,
        rank: int = 8,
        alpha: float = 16.0,
        dropout: float = 0.0,
    ):
        """rank: r. alpha: α. dropout: of the adapter's input, in training. The base's parameters
        are frozen. Raises ValueError or TypeError for what is out of range.
        """
        super().__init__()
        self.rank, self.scale = whole("rank", rank), real("alpha", alpha, above=0) / rank
        self.dropout = nn.Dropout(real("dropout", dropout, at_least=0, below=1))
        options = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features, **options))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank, **options))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        self.base, self.merged = base.requires_grad_(False), False

    @property
    def in_features(self) -> int:
        """The width of the input."""
        return self.base.in_features

    @property
    def out_features(self) -> int:
        """The width of the output."""
        return self.base.out_features

    @property
    def update(self) -> Tensor:
        """α/r · B A, (out, in)."""
        return self.scale * self.lora_b @ self.lora_a

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) → (…, out)."""
        if self.merged:
            return self.base(x)
        return self.base(x) + self.scale * (self.dropout(x) @ self.lora_a.T @ self.lora_b.T)


@checked
def add_lora(
    model: nn.Module,
    names: str | Collection[str],
    *,
    rank: int = 8,
    alpha: float = 16.0,
    dropout: float = 0.0,
    quantise: bool = False,
    double: bool = False,
) -> list[str]:
    """Give the model's linear maps of these names adapters, in place, and freeze all the rest.

    names: patterns for full names, with * and ?: "*.attention.[qv]_proj" are queries and values of
    every block, "*" all linear maps. quantise: the maps beneath keep four bits a weight; double: as
    in `quantise`. Others: as in `LoRALinear`. Returns the names of the maps in their order.

    Raises ValueError for a pattern that matches no linear map, for a model that has adapters, for
    a map whose matrix another module uses too, and as `LoRALinear` does.
    """
    if isinstance(model, nn.Linear):
        raise ValueError("the model is itself one linear map: put it into nn.Sequential")
    patterns = [names] if isinstance(names, str) else list(names)
    if not patterns:
        raise ValueError("names must hold a name or more, got none")
    if any(True for _ in adapters(model)):
        raise ValueError(f"this {type(model).__name__} has adapters already")
    linear = {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in linear):
            raise ValueError(f"no linear map is called {pattern!r}; there are {', '.join(linear)}")
    chosen = [name for name in linear if any(fnmatchcase(name, p) for p in patterns)]
    owners = [(name, p) for name, p in model.named_parameters(remove_duplicate=False)]
    for name in chosen:
        users = [owner for owner, p in owners if p is linear[name].weight]
        if len(users) > 1:
            raise ValueError(f"{' and '.join(users)} are one matrix: leave {name} out")
    options = {"rank": rank, "alpha": alpha, "dropout": dropout}
    bases = {
        name: QuantisedLinear(linear[name], double=double) if quantise else linear[name]
        for name in chosen
    }  # before any change: the weights may be unfit for four bits
    for name, base in bases.items():
        layer = LoRALinear(linear[name], **options)  # in the dtype of the model
        layer.base = base
        _put(model, name, layer.train(linear[name].training))
    model.requires_grad_(False)
    for _, layer in adapters(model):
        layer.lora_a.requires_grad_(True), layer.lora_b.requires_grad_(True)
    return chosen


def adapters(model: nn.Module) -> Iterator[tuple[str, LoRALinear]]:
    """(name, layer) of every linear map with an adapter."""
    return ((name, m) for name, m in model.named_modules() if isinstance(m, LoRALinear))


@torch.no_grad()
@checked
def merge(model: nn.Module) -> None:
    """Add every adapter to the matrix beneath it, so that a forward pass costs what it did before.

    What is merged stays. A state dict does not tell that it is: `remove_lora` before it is saved.
    Raises ValueError, before any change, for a matrix in four bits: rounding the sum again would
    lose most of a small update.
    """
    for name, layer in adapters(model):
        if isinstance(layer.base, QuantisedLinear):
            raise ValueError(f"{name} has four bits a weight: the update would be rounded away")
    for _, layer in adapters(model):
        if not layer.merged:
            layer.base.weight += layer.update
            layer.merged = True


@torch.no_grad()
def unmerge(model: nn.Module) -> None:
    """Take every merged adapter out of the matrix again, up to rounding."""
    for _, layer in adapters(model):
        if layer.merged:
            layer.base.weight -= layer.update
            layer.merged = False


def remove_lora(model: nn.Module) -> None:
    """Put the linear maps back as they are now: after `merge` with their adapters, else without.

    All parameters train again.
    """
    for name, layer in list(adapters(model)):
        _put(model, name, layer.base)
    model.requires_grad_(True)


@checked
def lora_state(model: nn.Module) -> dict[str, Tensor]:
    """The adapters' tensors alone, by their names in the model, copied."""
    return {
        f"{name}.{kind}": getattr(layer, kind).detach().clone()
        for name, layer in adapters(model)
        for kind in ("lora_a", "lora_b")
    }


@torch.no_grad()
@checked
def load_lora_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Copy what `lora_state` gave into the adapters of a model.

    Raises ValueError, before any change, for other names or shapes and for merged adapters.
    """
    ours = {
        f"{name}.{kind}": getattr(layer, kind)
        for name, layer in adapters(model)
        for kind in ("lora_a", "lora_b")
    }
    if merged := [name for name, layer in adapters(model) if layer.merged]:
        raise ValueError(f"unmerge before loading: {', '.join(merged)}")
    if odd := sorted(ours.keys() ^ state.keys()):
        raise ValueError(f"model and state must have the same adapters; one alone has {odd}")
    for name, tensor in ours.items():
        if tensor.shape != state[name].shape:
            shapes = f"{tuple(tensor.shape)}, got {tuple(state[name].shape)}"
            raise ValueError(f"{name} must be {shapes}")
    for name, tensor in ours.items():
        tensor.copy_(state[name])


def _put(model: nn.Module, name: str, module: nn.Module) -> None:
    """The module in place of the one called so."""
    parent, _, own = name.rpartition(".")
    setattr(model.get_submodule(parent), own, module)
