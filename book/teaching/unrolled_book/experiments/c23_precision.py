"""Chapter 23: why the weights are kept in single precision.

The model and the batches of `c23_shards`, trained in three ways: everything in float32; forward and
backward pass in bf16, steps on a copy of the weights in float32; and the same, but after each step
the copy is rounded to bf16, as if there were none. The optimiser's numbers are in float32
throughout, so that the last two differ in this rounding and in nothing else. Each way has its own
learning rate, searched with a separate seed. About three minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from unrolled.data.batches import IGNORE
from unrolled.models.transformer import TransformerLM
from unrolled.training.fit import cross_entropy

from unrolled_book.experiments import c23_shards
from unrolled_book.experiments._common import best_lr, search
from unrolled_book.tasks import number_words

SEEDS, SEARCH_SEED, N_STEPS, N_VALID = (0, 1, 2), 100, 300, 1500
LRS = (2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2)
KINDS = ("float32", "bf16, float32 weights", "bf16 weights")


def loss_and_gradients(
    model: TransformerLM, batch: tuple[Tensor, Tensor], dtype: torch.dtype
) -> Tensor:
    """The loss, from parameters cast to dtype; the gradients are left in the parameters."""
    inputs, targets = batch
    model.zero_grad()
    cast = {name: p.to(dtype) for name, p in model.named_parameters()}
    logits = functional_call(model, cast, (inputs,))
    loss = cross_entropy(logits.float(), targets).sum() / (targets != IGNORE).sum()
    loss.backward()
    return loss.detach()


def trained(kind: str, seed: int, lr: float, n_steps: int, stuck: list | None = None):
    """A fresh model after n_steps; stuck: gets the share of weights that each step left alone."""
    model, source = c23_shards.fresh(seed), c23_shards.batches(seed)
    parameters = [*model.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    dtype = torch.float32 if kind == "float32" else torch.bfloat16
    if kind == "bf16 weights":
        _round(parameters)
    for _ in range(n_steps):
        loss_and_gradients(model, next(source), dtype)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        before = [p.detach().clone() for p in parameters]
        optimizer.step()
        if kind == "bf16 weights":
            _round(parameters)
        schedule.step()
        if stuck is not None:
            same = sum((p == q).sum().item() for p, q in zip(parameters, before, strict=True))
            stuck.append(same / sum(p.numel() for p in parameters))
    return model


@torch.no_grad()
def _round(parameters: Sequence[Tensor]) -> None:
    for p in parameters:
        p.copy_(p.bfloat16())


def run(
    *,
    seeds: Sequence[int] = SEEDS,
    lrs: Sequence[float] = LRS,
    n_steps: int = N_STEPS,
    n_valid: int = N_VALID,
) -> dict:
    """A record's fields: `metrics["rows"]` has "kind", "seed", "lr", the validation "loss" in nats
    per token (computed in float32), and "stuck", the mean share of weights that a step of the last
    third of the training left as they were."""
    held_out = np.array(number_words.numbers("valid"))
    held_out = np.random.default_rng(0).permutation(held_out)[:n_valid].tolist()
    rows, searches = [], {}
    for kind in KINDS:

        def measured(lr: float, kind: str = kind) -> float:
            return c23_shards.losses(trained(kind, SEARCH_SEED, lr, n_steps), held_out)["all"]

        searches[kind] = search(lrs, measured, "loss")
        lr = best_lr(searches[kind], "loss")
        for seed in seeds:
            stuck = []
            model = trained(kind, seed, lr, n_steps, stuck)
            loss = c23_shards.losses(model, held_out)["all"]
            last = float(np.mean(stuck[-max(1, n_steps // 3) :]))
            rows.append({"kind": kind, "seed": seed, "lr": lr, "loss": loss, "stuck": last})
    config = {"n_steps": n_steps, "batch_size": c23_shards.BATCH_SIZE, "search": searches}
    return {"config": config, "seeds": [*seeds], "metrics": {"rows": rows}, "curve": []}
