"""A mixture of experts: many feed-forward layers, and a router that sends each token to a few.

The router learns from the weights that it gives to experts' outputs. Nothing in them asks it to use
all experts: a balance loss does. Chapter 24b builds both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.models.layers import FeedForward, recording
from unrolled.models.tensors import check_floats, check_ids, check_mask
from unrolled.validate import checked, one_of, real, whole

FORMS = ("switch", "mixtral")


class Routing(NamedTuple):
    """Which k of the E experts each of N tokens takes, and with what weights."""

    probs: Tensor  # (N, E), the router's softmax over all experts
    experts: Tensor  # int64 (N, k), the most probable first
    weights: Tensor  # (N, k), of the experts' outputs
    kept: Tensor  # bool (N, k), False where the expert was full


class MixtureOfExperts(nn.Module):
    """Σ_i w_i · expert_i(x) over the k experts i with the largest p = softmax(router(x)).

    It takes the place of a block's layer: block.feed_forward = MixtureOfExperts(…). The weights w
    are p at the chosen experts, as in Switch, or p divided by its sum over them, as in Mixtral.

    With a capacity, an expert takes at most C = ⌈capacity_factor·k·N/E⌉ of a batch's N tokens:
    first choices in the tokens' order, then second choices, and so on. A token that finds an expert
    full gets nothing from it; its other weights stay. Its output then depends on the other tokens
    of the batch, later ones of its own text among them: they change N and with it C, and with k > 1
    they compete for its place. Such a layer is not causal.

    Weights: router (E, D); each of the E experts is a `FeedForward` from D to F and back.
    Source: Shazeer et al. (2017); Fedus, Zoph & Shazeer (2022), section 2; Jiang et al. (2024).
    """

    @checked
    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        n_experts: int,
        top_k: int = 2,
        renormalise: bool | None = None,
        capacity_factor: float | None = None,
        activation: str = "swiglu",
        bias: bool = False,
    ):
        """d_model: D. d_ff: F. n_experts: E. top_k: k. renormalise: divide w by its sum; None: with
        k > 1. capacity_factor: None: experts take all that come. activation, bias: of the experts.

        Raises ValueError for k > E, for renormalise with k = 1 (w would be 1, and no gradient would
        reach the router), and as `FeedForward` does.
        """
        super().__init__()
        whole("d_model", d_model)
        self.top_k = whole("top_k", top_k, 1, whole("n_experts", n_experts))
        self.renormalise = top_k > 1 if renormalise is None else renormalise
        if self.renormalise and top_k == 1:
            raise ValueError("renormalise with top_k=1 leaves the router without a gradient")
        if capacity_factor is not None:
            real("capacity_factor", capacity_factor, above=0)
        self.capacity_factor, self.recorded = capacity_factor, None
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList(
            FeedForward(d_model, d_ff, activation=activation, bias=bias) for _ in range(n_experts)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) → (…, D). Every position counts as a token, padding too."""
        check_floats(x=x)
        tokens = x.reshape(-1, x.shape[-1])  # (N, D)
        routing = self.route(tokens)
        if self.recorded is not None:
            self.recorded.append(routing)
        output = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            rows, choice = torch.where((routing.experts == i) & routing.kept)
            weighted = routing.weights[rows, choice, None] * expert(tokens[rows])
            output = output.index_add(0, rows, weighted.to(output.dtype))
        return output.view_as(x)

    def route(self, tokens: Tensor) -> Routing:
        """The routing of tokens (N, D); probabilities are float32 at least."""
        logits = self.router(tokens)
        probs = logits.softmax(-1, torch.promote_types(logits.dtype, torch.float32))  # (N, E)
        weights, experts = probs.topk(self.top_k, -1)  # (N, k)
        if self.renormalise:
            weights = weights / weights.sum(-1, keepdim=True)
        return Routing(probs, experts, weights, self._kept(experts))

    def _kept(self, experts: Tensor) -> Tensor:
        """bool (N, k): whether the expert still has room, first choices before second ones."""
        if self.capacity_factor is None:
            return torch.ones_like(experts, dtype=torch.bool)
        in_turn = F.one_hot(experts.T.flatten(), len(self.experts))  # (k·N, E)
        before = (in_turn.cumsum(0) * in_turn).sum(-1) - 1  # (k·N,), earlier ones of this expert
        capacity = math.ceil(self.capacity_factor * experts.numel() / len(self.experts))
        return (before < capacity).view(experts.T.shape).T


def balance_loss(
    probs: Tensor, experts: Tensor, *, form: str = "switch", mask: Tensor | None = None
) -> Tensor:
    """E · Σ_i f_i · P_i: f_i counts the choices of expert i, P_i is its mean probability.

    probs (N, E) and experts (N, k): as in `Routing`, before any capacity. mask: bool (N,), False
        for tokens that do not count.
    form: "switch" divides the counts by N·k, so Σ f = 1, and a router that is even costs 1;
        "mixtral", as in the library transformers, divides by N, so Σ f = k, and even costs k.

    The gradient flows through P alone and lowers it where f is large. What an even router costs is
    no lower bound, since f and P may lean to different experts. Raises ValueError for another form.
    Source: Fedus, Zoph & Shazeer (2022), equations 4 to 6, which have k = 1.
    """
    one_of("form", form, FORMS)
    check_floats(probs=probs), check_ids("experts", experts), check_mask("mask", mask)
    if probs.ndim != 2 or experts.ndim != 2 or len(probs) != len(experts):
        got = f"{tuple(probs.shape)} and {tuple(experts.shape)}"
        raise ValueError(f"expected probs (N, E) and experts (N, k), got {got}")
    if mask is not None:
        if mask.shape != probs.shape[:1] or not mask.any():
            raise ValueError(
                f"mask must be ({len(probs)},), not all False, got {tuple(mask.shape)}"
            )
        probs, experts = probs[mask], experts[mask]
    N, E = probs.shape
    shares = F.one_hot(experts.flatten(), E).sum(0).to(probs.dtype) / N
    if form == "switch":
        shares = shares / experts.shape[1]
    return E * (shares * probs.mean(0)).sum()


def routings(model: nn.Module) -> AbstractContextManager[list[Routing]]:
    """A list that takes the `Routing` of every mixture computed within the context, in order.

    with routings(model) as records:
        logits = model(tokens)
    """
    return recording(model, MixtureOfExperts)


@checked
def with_balance(loss: Callable, coefficient: float = 0.01, *, form: str = "switch") -> Callable:
    """A loss for `fit`: the given one, and coefficient times the mean `balance_loss` of the layers.

    coefficient: Switch takes 0.01. Each layer is balanced by itself; transformers averages f and P
    over the layers first, so that two layers which lean to opposite sides look even. Raises
    ValueError for a coefficient below 0, and for a model without a mixture.
    """
    real("coefficient", coefficient, at_least=0), one_of("form", form, FORMS)

    def balanced(model: nn.Module, batch, cache: object = None) -> tuple[Tensor, float | Tensor]:
        with routings(model) as records:
            total, weight = loss(model, batch, cache)
        if not records:
            raise ValueError(f"{type(model).__name__} has no MixtureOfExperts to balance")
        terms = [balance_loss(r.probs, r.experts, form=form) for r in records]
        return total + weight * coefficient * sum(terms) / len(terms), weight

    return balanced
