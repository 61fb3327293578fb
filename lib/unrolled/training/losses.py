"""Losses of model and batch, as `fit` trains them: (model, batch, cache) → (Σ nats, weight).

A loss returns a sum with its graph, and the weight that divides it, a number or a tensor. The cache
is None, or the model continues from it (`carry_state`). Chapter 1 derives cross-entropy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from unrolled.data.batches import IGNORE
from unrolled.models.tensors import check_floats, check_ids
from unrolled.training.batch_iterator import Batch
from unrolled.validate import checked, instance, whole

Loss = Callable[[nn.Module, Batch, object], tuple[Tensor, float | Tensor]]

LARGE = 2**29  # logits, 2 GiB of them in float32, above which a GPU does not hold them all


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """−log softmax(logits)[target], in nats: (..., V) and int64 targets (...) → (...).

    A target `IGNORE` costs 0. ValueError for shapes, IndexError for targets that do not fit.
    """
    check_floats(logits=logits), check_ids("targets", targets)
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits must have the shape of the targets, {tuple(targets.shape)}, and a last axis "
            f"for the vocabulary, got {tuple(logits.shape)}"
        )
    flat = logits.reshape(-1, logits.shape[-1])
    nats = F.cross_entropy(flat, targets.reshape(-1), ignore_index=IGNORE, reduction="none")
    return nats.reshape(targets.shape)


@checked
def per_target(function: Callable[[Tensor, Tensor], Tensor]) -> Loss:
    """A loss for `fit` from a function (model's output, targets) → the loss of each target.

    It is computed in the model's dtype, or in float32 where the model runs in bfloat16.
    """
    return functools.partial(_weighted_sum, function)


def _weighted_sum(
    function: Callable, model: nn.Module, batch: Batch, cache: object
) -> tuple[Tensor, float | Tensor]:
    """(Σ weight · function(model(inputs), targets), Σ weight)."""
    output = model(*batch.inputs) if cache is None else model(*batch.inputs, cache=cache)
    if not isinstance(output, Tensor):
        raise TypeError(f"the model must return a tensor, got a {type(output).__name__}")
    output = output.float() if output.dtype == torch.bfloat16 else output
    with torch.autocast(output.device.type, enabled=False):
        losses = function(output, batch.targets)
    if losses.shape != batch.targets.shape:
        raise ValueError(
            f"the loss must have the targets' shape {tuple(batch.targets.shape)}, "
            f"got {tuple(losses.shape)}"
        )
    if batch.weights is not None:
        losses = losses * batch.weights.to(losses.dtype)
    return losses.sum(), batch.weight


def next_token_loss(
    model: nn.Module, batch: Batch, cache: object = None, *, chunk_rows: int | None = None
) -> tuple[Tensor, float | Tensor]:
    """Cross-entropy of the model's logits, summed over the targets: the loss of a language model.

    chunk_rows: at most so many rows of logits (chunk_rows, V) exist at a time, in the backward pass
        too; a fit takes it as functools.partial(next_token_loss, chunk_rows=…). None: all at once,
        but 4096 on a GPU where all logits would need more than 2 GiB. Raises TypeError unless the
        model has `head`, a linear map, and `hidden`, what the head reads.
    """
    instance("batch", batch, Batch)
    head, targets, weights = getattr(model, "head", None), batch.targets, batch.weights
    can_chunk = isinstance(head, nn.Linear) and hasattr(model, "hidden")
    large = can_chunk and targets.is_cuda and targets.numel() * head.out_features > LARGE
    if chunk_rows is None and not large:
        return _weighted_sum(cross_entropy, model, batch, cache)
    if not can_chunk:
        name = type(model).__name__
        raise TypeError(f"chunk_rows needs a model with `hidden` and a linear `head`, got {name}")
    hidden = model.hidden(*batch.inputs, **({} if cache is None else {"cache": cache}))
    if getattr(getattr(model, "config", None), "scale_logits", False):  # as model.logits does
        hidden = hidden / math.sqrt(hidden.shape[-1])
    if hidden.shape[:-1] != targets.shape:
        raise ValueError(
            f"the targets must have the shape of the model's output, {tuple(hidden.shape[:-1])}, "
            f"got {tuple(targets.shape)}"
        )
    x, weight, bias = hidden.flatten(0, -2), head.weight, head.bias
    if torch.is_autocast_enabled(x.device.type):
        kind = torch.get_autocast_dtype(x.device.type)
        x, weight, bias = (None if t is None else t.to(kind) for t in (x, weight, bias))
    rows = 4096 if chunk_rows is None else whole("chunk_rows", chunk_rows)
    if weights is not None and weights.dtype == torch.bool:
        targets, weights = targets.masked_fill(~weights, IGNORE), None
    # The operation's own sum would be rounded to bfloat16 where x is; ours is in float32.
    at_once = weights is None and x.dtype != torch.bfloat16
    nats = _in_chunks(x, weight, bias, targets.flatten(), rows, "sum" if at_once else "none")
    nats = nats.float() if nats.dtype == torch.bfloat16 else nats
    nats = nats if weights is None else nats * weights.flatten()
    return nats.sum(), batch.weight


def _in_chunks(
    x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, rows: int, reduction: str
) -> Tensor:
    """Cross-entropy of the logits x @ weight.T + bias, of which `rows` rows exist at a time."""
    if not hasattr(F, "linear_cross_entropy"):  # before torch 2.13
        return _in_recomputed_chunks(x, weight, bias, targets, rows, reduction)
    # Compiled, the operation always allows a second backward pass, and warns unless told so.
    options = nn.LinearCrossEntropyOptions(
        batch_chunk_size=rows, allow_retain_graph=torch.compiler.is_compiling()
    )
    return F.linear_cross_entropy(
        x, weight, targets, linear_bias=bias, ignore_index=IGNORE, options=options,
        reduction=reduction,
    )  # fmt: skip


def _in_recomputed_chunks(
    x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, rows: int, reduction: str
) -> Tensor:
    """The same, slower: a chunk's logits are computed again in the backward pass."""

    def nats(x: Tensor, targets: Tensor) -> Tensor:
        logits = F.linear(x, weight, bias)
        return F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction=reduction)

    chunks = zip(x.split(rows), targets.split(rows), strict=True)
    found = [checkpoint(nats, *chunk, use_reentrant=False) for chunk in chunks]
    return torch.stack(found).sum() if reduction == "sum" else torch.cat(found)
