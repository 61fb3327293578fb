"""Chapter 23b: processes that each take the mean over their own tokens, and what it costs.

A small Transformer learns to write German number words, 64 in a step. They are dealt out to
processes in one of several ways (`ORDERS`), and the gradient is the mean of the processes' means;
"all tokens" divides by the tokens of the whole step. Each trained arm has its own learning rate,
searched with two separate seeds. `rows` has the validation loss, of all words and of the shortest
and longest third, and how far the mean of means is from the right gradient before and after a
training with the right one, for the arms and for two processes that read a sorted pool. No
processes are needed for it: the mean of means is the gradient of a loss with other weights.
`fit_shared` is what the chapter launches in real ones. About eight minutes on one core.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from unrolled.data.batches import IGNORE, pad
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.fit import FitConfig, cross_entropy, fit

from unrolled_book.experiments._common import best_lr, search, seeded
from unrolled_book.tasks import number_words

BATCH_SIZE, N_STEPS, SEEDS, SEARCH_SEEDS = 64, 300, (0, 1, 2), (100, 101)
N_VALID, N_LOOKS, POOL = 1500, 16, 16
LRS = (2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2)
VOCABULARY = number_words.vocabulary("de")
ORDERS = {
    "drawn": "64 texts at random",
    "sorted": "the same 64 texts, sorted by length",
    "cut": "64 neighbours in a sorted pool of 16 times as many texts",
    "own": "32 neighbours in such a pool and 32 from another place: two processes, a batch each",
}
# (name, number of processes, order): what is trained and measured
ARMS = (
    ("all tokens", 1, "sorted"),
    ("2 processes, as drawn", 2, "drawn"),
    ("2 processes, sorted", 2, "sorted"),
    ("8 processes, sorted", 8, "sorted"),
)
# what is only measured besides
POOLED = (
    ("2 processes, cut from a pool", 2, "cut"),
    ("2 processes, a batch each", 2, "own"),
)


def fresh(seed: int) -> TransformerLM:
    """An untrained model; torch's generator is unchanged."""
    with seeded(seed):
        return TransformerLM(
            TransformerConfig(
                vocab_size=len(VOCABULARY), d_model=32, n_layers=2, n_heads=2, context_length=64
            )
        )


def tensors(numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Inputs (B, T) with a start mark in front, targets (B, T) with an end mark behind."""
    rows = [number_words.encode(int(n), "de") for n in numbers]
    inputs = pad([np.array([number_words.START, *ids]) for ids in rows], number_words.PAD).tokens
    targets = pad([np.array([*ids, number_words.END]) for ids in rows], IGNORE).tokens
    return torch.from_numpy(inputs), torch.from_numpy(targets)


def batches(seed: int, order: str = "drawn") -> Iterator[tuple[Tensor, Tensor]]:
    """Training numbers without end, 64 in a step; order: one of `ORDERS`."""
    rng, numbers = np.random.default_rng(seed), np.array(number_words.numbers("train"))
    while order in ("drawn", "sorted"):
        drawn = rng.choice(numbers, BATCH_SIZE).tolist()
        yield tensors(by_length(drawn) if order == "sorted" else drawn)
    size = {"cut": BATCH_SIZE, "own": BATCH_SIZE // 2}[order]
    while True:
        pool = by_length(rng.choice(numbers, POOL * BATCH_SIZE).tolist())
        cut = rng.permutation(np.reshape(pool, (-1, size)))  # batches, shuffled
        for step in cut.reshape(-1, BATCH_SIZE):
            yield tensors(step)


def by_length(numbers: Sequence[int]) -> list[int]:
    """The numbers, those of few tokens first."""
    return sorted(numbers, key=lambda n: len(number_words.tokens(int(n), "de")))


def shared_gradient(numbers: Sequence[int]) -> Tensor:
    """The gradient of the mean loss, by all processes that call this."""
    inputs, targets = tensors(numbers)
    rows = slice(dist.get_rank(), None, dist.get_world_size())
    model = fresh(seed=0)
    cross_entropy(model(inputs[rows]), targets[rows]).sum().backward()
    total = torch.cat([p.grad.flatten() for p in model.parameters()])
    n_tokens = (targets[rows] != IGNORE).sum()
    dist.all_reduce(total)  # in place: now the sum over all processes
    dist.all_reduce(n_tokens)
    return total / n_tokens


def gradient_by_library(numbers: Sequence[int]) -> Tensor:
    """What torch's DistributedDataParallel makes of the mean over each process's own tokens."""
    inputs, targets = tensors(numbers)
    rows = np.array_split(np.arange(len(numbers)), dist.get_world_size())[dist.get_rank()]
    model = torch.nn.parallel.DistributedDataParallel(fresh(seed=0))
    logits, own = model(inputs[rows]).flatten(0, 1), targets[rows].flatten()
    torch.nn.functional.cross_entropy(logits, own, ignore_index=IGNORE).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def shares(targets: Tensor, n_processes: int) -> Tensor:
    """The weight (B, T) that the mean of the processes' means gives each token; their sum is 1."""
    weights = torch.zeros(targets.shape)
    for rank in range(n_processes):
        rows = slice(*(len(targets) * r // n_processes for r in (rank, rank + 1)))
        counts = targets[rows] != IGNORE
        weights[rows] = counts / (counts.sum() * n_processes)
    return weights


def gradient(model: TransformerLM, batch: tuple[Tensor, Tensor], n_processes: int = 1) -> Tensor:
    """The gradient of the mean of means as one vector; of one process the right one."""
    inputs, targets = batch
    model.zero_grad()
    (cross_entropy(model(inputs), targets) * shares(targets, n_processes)).sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def off(model: TransformerLM, batch: tuple[Tensor, Tensor], n_processes: int) -> tuple:
    """|mean of means − right| and |right|."""
    right = gradient(model, batch)
    return (gradient(model, batch, n_processes) - right).norm().item(), right.norm().item()


@torch.no_grad()
def losses(model: TransformerLM, numbers: Sequence[int]) -> dict[str, float]:
    """Nats per token of all numbers, of the shortest third and of the longest."""
    ordered = by_length(numbers)
    third = len(ordered) // 3
    parts = {"all": ordered, "short": ordered[:third], "long": ordered[-third:]}
    found = {}
    for name, part in parts.items():
        inputs, targets = tensors(part)
        found[name] = float(cross_entropy(model(inputs), targets).sum() / (targets != IGNORE).sum())
    return found


def trained(arm: tuple, seed: int, lr: float, n_steps: int) -> TransformerLM:
    """A fresh model after n_steps with the gradient of the arm."""
    _, n_processes, order = arm
    model, source = fresh(seed), batches(seed, order)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    for _ in range(n_steps):
        gradient(model, next(source), n_processes)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model


def errors(model: TransformerLM, seed: int) -> dict[str, dict[str, float]]:
    """By the name in ARMS and POOLED, on average over N_LOOKS steps: the "difference" of the mean
    of means from the right gradient, the "length" of that, and their "ratio"; and "tokens", those
    of the larger half of the texts over those of the smaller."""
    found = {}
    for name, n_processes, order in (*ARMS, *POOLED):
        drawn = [*islice(batches(seed + 1000, order), N_LOOKS)]
        difference, length = np.array([off(model, batch, n_processes) for batch in drawn]).T
        halves = np.array([(y != IGNORE).sum(1).reshape(2, -1).sum(1).tolist() for _, y in drawn])
        found[name] = {
            "difference": float(difference.mean()),
            "length": float(length.mean()),
            "ratio": float((difference / length).mean()),
            "tokens": float((halves.max(1) / halves.min(1)).mean()),
        }
    return found


def run(
    *,
    seeds: Sequence[int] = SEEDS,
    lrs: Sequence[float] = LRS,
    n_steps: int = N_STEPS,
    n_valid: int = N_VALID,
) -> dict:
    """A record's fields: `metrics["rows"]` has "arm", "seed", "lr" and "loss" (of "all", "short"
    and "long"); the arm "all tokens" also "off", the errors before and after its training."""
    held_out = np.array(number_words.numbers("valid"))
    held_out = np.random.default_rng(0).permutation(held_out)[:n_valid].tolist()
    rows, searches = [], {}
    for arm in ARMS:

        def measured(lr: float, arm: tuple = arm) -> float:
            models = (trained(arm, seed, lr, n_steps) for seed in SEARCH_SEEDS)
            return float(np.mean([losses(model, held_out)["all"] for model in models]))

        searches[arm[0]] = search(lrs, measured, "loss")
        lr = best_lr(searches[arm[0]], "loss")
        for seed in seeds:
            model = trained(arm, seed, lr, n_steps)
            row = {"arm": arm[0], "seed": seed, "lr": lr, "loss": losses(model, held_out)}
            if arm is ARMS[0]:
                row["off"] = [errors(fresh(seed), seed), errors(model, seed)]
            rows.append(row)
    config = {"n_steps": n_steps, "batch_size": BATCH_SIZE, "search": searches}
    return {"config": config, "seeds": [*seeds], "metrics": {"rows": rows}, "curve": []}


def fit_shared(
    n_steps: int, checkpoint: str | Path | None = None, killed_at: int | None = None
) -> list[float]:
    """The losses of a fit, of the whole batch at each step; alone, or in the processes of `launch`.

    killed_at: the last process is killed as it draws its batch for this step, counted from 0.
    """

    def drawn() -> Iterator[tuple[Tensor, Tensor]]:
        for step, batch in enumerate(batches(0, "sorted")):
            if step == killed_at and os.environ.get("RANK") not in (None, "0"):
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    config = FitConfig(n_steps=n_steps, lr=4e-3, checkpoint_seconds=0)
    return fit(fresh(0), drawn(), config, checkpoint=checkpoint).history.train_loss
