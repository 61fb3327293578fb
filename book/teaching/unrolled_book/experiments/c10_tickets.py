"""Chapter 10: how far back an Elman network learns to look, on the copy task, from five starts.

The networks have the same sizes and the same training. Three tanh networks differ in their first
recurrent weights alone:

- "default": uniform in ±1/√H, torch's default.
- "orthogonal": a random orthogonal W_hh without biases, so that all its singular values are 1
  (Saxe, McClelland & Ganguli 2014 for deep networks).
- "identity": W_hh = 1 without biases.

"default relu" and "identity relu" have the weights of their namesakes and ReLU for tanh; the second
is the IRNN of Le, Jaitly & Hinton (2015). So the two changes it makes can be told apart.

Each network is trained with each learning rate for the same number of steps. For each start and
delay we take the rate with the highest mean accuracy on a validation set, and record the accuracy
on a test set. About half an hour on one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, median

import numpy as np
import torch
from torch import Tensor, nn
from unrolled.data.batches import Pair
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.training.fit import FitConfig, cross_entropy, fit

from unrolled_book.experiments._common import seeded
from unrolled_book.tasks.symbols import Copy, copy_task

STARTS = ("default", "orthogonal", "identity", "default relu", "identity relu")
N_SYMBOLS, N_DISTRACTORS = 7, 3
WIDTH, HIDDEN = 16, 32
N_TEST = 100 * N_SYMBOLS


def network(start: str, seed: int) -> RecurrentLM:
    """An Elman network for the copy task, (B, T) → (B, T, V), with fresh weights.

    start: one of STARTS, else ValueError. seed: of torch's generator, for all weights.
    """
    if start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(STARTS)}, got {start!r}")
    weights, _, nonlinearity = start.partition(" ")
    with seeded(seed):
        model = RecurrentLM(
            N_SYMBOLS + N_DISTRACTORS + 1, "elman", embedding_dim=WIDTH, hidden_size=HIDDEN,
            nonlinearity=nonlinearity or "tanh",
        )  # fmt: skip
        cell = model.recurrent.cells[0]
        if weights != "default":
            fill = nn.init.orthogonal_ if weights == "orthogonal" else nn.init.eye_
            fill(cell.weight_hh)
            nn.init.zeros_(cell.bias_ih)
            nn.init.zeros_(cell.bias_hh)
    return model


def examples(rng: np.random.Generator, n: int, delay: int) -> Copy:
    """n sequences of the copy task: a symbol, `delay` distractors, the question."""
    return copy_task(rng, n, delay=delay, n_symbols=N_SYMBOLS, n_distractors=N_DISTRACTORS)


def batches(seed: int, batch_size: int, delay: int) -> Iterator[Pair]:
    """Endless fresh sequences."""
    rng = np.random.default_rng(seed)
    while True:
        task = examples(rng, batch_size, delay)
        yield task.tokens, task.targets


def reach(model: RecurrentLM, task: Copy) -> np.ndarray:
    """The gradient at each token relative to the last one, which has the loss, (T,).

    This is ‖∂L/∂e_t‖ for the embedding e_t of token t, its root mean square over the sequences,
    divided by the value at the last token.
    """
    tokens, targets = torch.from_numpy(task.tokens), torch.from_numpy(task.targets)
    vectors = model.embedding(tokens).detach().requires_grad_()  # (B, T, D)
    outputs, _ = model.recurrent(vectors)
    loss = cross_entropy(model.head(outputs), targets).sum()
    (grad,) = torch.autograd.grad(loss, vectors)
    norms = grad.double().square().sum((0, 2)).sqrt()  # (T,)
    return (norms / norms[-1]).numpy()


@torch.no_grad()
def score(model: RecurrentLM, task: Copy) -> tuple[float, float]:
    """Accuracy and mean loss in nats at the question."""
    answers = torch.from_numpy(task.answers[:, 0])
    logits: Tensor = model(torch.from_numpy(task.tokens))[:, -1]
    loss = cross_entropy(logits, answers).mean()
    return (logits.argmax(-1) == answers).float().mean().item(), loss.item()


def train(
    start: str, delay: int, lr: float, seed: int, *, n_steps: int, batch_size: int
) -> tuple[RecurrentLM, dict]:
    """Train one network; return it and its row of the curve."""
    model = network(start, seed)
    test, valid = (examples(np.random.default_rng([seed, i]), N_TEST, delay) for i in (1, 2))
    before = reach(model, test)[0]
    config = FitConfig(n_steps=n_steps, lr=lr, optimizer="adam", grad_clip=1.0, seed=seed)
    fit(model, batches(seed, batch_size, delay), config, progress=False)
    accuracy, loss = score(model, test)
    row = {"start": start, "delay": delay, "lr": lr, "seed": seed, "accuracy": accuracy}
    return model, row | {
        "loss": loss, "valid_accuracy": score(model, valid)[0],
        "reach_before": float(before), "reach_after": float(reach(model, test)[0]),
    }  # fmt: skip


def run(
    starts: Sequence[str] = STARTS,
    delays: Sequence[int] = (2, 5, 10, 20, 40, 80),
    lrs: Sequence[float] = (3e-4, 1e-3, 3e-3, 1e-2),
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    n_steps: int = 400,
    batch_size: int = 32,
) -> dict:
    """A record's fields: a row of `metrics` for each start and delay, of `curve` for each network.

    A row of metrics holds the best `lr` on validation and, for the networks trained with it, the
    `accuracy` of each seed and the median gradient that reaches the first token, `reach_before` and
    `reach_after` training.
    """
    curve = [
        train(start, delay, lr, seed, n_steps=n_steps, batch_size=batch_size)[1]
        for start in starts
        for delay in delays
        for lr in lrs
        for seed in seeds
    ]
    config = {
        "n_symbols": N_SYMBOLS, "n_distractors": N_DISTRACTORS, "width": WIDTH, "hidden": HIDDEN,
        "starts": [*starts], "delays": [*delays], "lrs": [*lrs], "n_steps": n_steps,
        "batch_size": batch_size, "clip": 1.0, "n_test": N_TEST,
    }  # fmt: skip
    rows = [_summary(curve, start, delay) for start in starts for delay in delays]
    return {"config": config, "seeds": [*seeds], "metrics": {"rows": rows}, "curve": curve}


def _summary(curve: list[dict], start: str, delay: int) -> dict:
    """The networks of one start and delay, at their best learning rate."""
    ours = [row for row in curve if (row["start"], row["delay"]) == (start, delay)]
    rates = sorted({row["lr"] for row in ours})
    by_rate = {lr: [row for row in ours if row["lr"] == lr] for lr in rates}
    best = max(rates, key=lambda lr: fmean(row["valid_accuracy"] for row in by_rate[lr]))
    return {
        "start": start,
        "delay": delay,
        "lr": best,
        "accuracy": [row["accuracy"] for row in by_rate[best]],
        "reach_before": median(row["reach_before"] for row in by_rate[best]),
        "reach_after": median(row["reach_after"] for row in by_rate[best]),
    }
