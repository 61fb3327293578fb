"""Chapter 20: copying unseen names, a Transformer and an LSTM at equal size and time.

About 8 minutes on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.evaluate import bits
from unrolled.training.fit import FitResult, cross_entropy, fit

from unrolled_book.experiments._common import best_lr, cosine, n_parameters, seeded
from unrolled_book.tasks.copying import (
    TOKENIZER,
    CopyLines,
    as_batch,
    copy_lines,
    names,
    random_names,
)

SEEDS = (0, 1, 2)
LRS = {
    "transformer": (2e-3, 4e-3, 8e-3, 1.6e-2),
    "lstm": (4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2, 1.28e-1),
}
N_NAMES, BATCH_SIZE, N_LOOKED = 3, 16, 200
CONTEXT = 96  # three names of 15 letters, twice, with the characters between and around them


def build(kind: str, seed: int) -> nn.Module:
    """A model of just over 100,000 parameters: a GPT of two layers, or an LSTM of 128 units."""
    with seeded(seed):
        if kind == "lstm":
            return RecurrentLM(
                TOKENIZER.vocab_size, "lstm", embedding_dim=64, hidden_size=128, forget_bias=1.0
            )
        config = TransformerConfig(
            vocab_size=TOKENIZER.vocab_size, d_model=64, n_layers=2, n_heads=4,
            context_length=CONTEXT, init_std=0.1,
        )  # fmt: skip
        return TransformerLM(config)


@torch.no_grad()
def score(model: nn.Module, batch: CopyLines) -> dict:
    """The share of lines copied without an error, and bits for each copied character.

    The model gets the correct past at every step.
    """
    was_training = model.training
    model.eval()
    logits = model(torch.from_numpy(batch.inputs))
    model.train(was_training)
    right = (logits.argmax(-1).numpy() == batch.targets) | ~batch.copied
    nats = cross_entropy(logits, torch.from_numpy(batch.targets)).numpy()[batch.copied]
    return {"exact": float(right.all(1).mean()), "bits": float(bits(nats.mean()))}


def train(
    kind: str,
    *,
    seed: int,
    n_steps: int,
    lr: float,
    look: Callable[[nn.Module], float] | None = None,
    eval_every: int = 100,
    batch_size: int = BATCH_SIZE,
) -> tuple[nn.Module, FitResult]:
    """Train a model on fresh lines of training names; it predicts all characters of a line."""
    model, rng, pool = build(kind, seed), np.random.default_rng(seed), names("train")

    def fresh() -> tuple[np.ndarray, np.ndarray]:
        batch = copy_lines(rng, pool, batch_size, n_names=N_NAMES)
        return batch.inputs, batch.targets

    config = cosine(n_steps, lr, seed, eval_every=eval_every)
    return model, fit(model, iter(fresh, None), config, valid=look, progress=False)


def validation(n: int) -> CopyLines:
    """Lines of validation names, the same at every call."""
    return copy_lines(np.random.default_rng(10), names("valid"), n, n_names=N_NAMES)


def tests(n: int) -> dict[str, CopyLines]:
    """Lines that no training saw: held-out names, and strings of random letters."""
    rng = np.random.default_rng(20)
    strings = random_names(rng, n * N_NAMES)
    rows = [" ".join(strings[i::n]) for i in range(n)]
    return {
        "names": copy_lines(rng, names("test"), n, n_names=N_NAMES),
        "invented": as_batch(rows),
    }


def seconds_of_update(kind: str, n_trial: int) -> float:
    """Processor time of one training step."""
    train(kind, seed=0, n_steps=min(5, n_trial), lr=1e-3)  # the first calls cost more
    begin = time.process_time()
    train(kind, seed=0, n_steps=n_trial, lr=1e-3)
    return (time.process_time() - begin) / n_trial


def search(kind: str, lrs: Sequence[float], n_steps: int, n: int) -> list[dict]:
    """Bits per copied character of validation lines for each learning rate, with another seed."""
    valid = validation(n)
    tried = [train(kind, seed=100, n_steps=n_steps, lr=lr)[0] for lr in lrs]
    return [
        {"lr": lr, "valid_bits": score(model, valid)["bits"]}
        for lr, model in zip(lrs, tried, strict=True)
    ]


def measured(name: str, kind: str, *, n_steps: int, lr: float, seeds: Sequence[int], n: int):
    """(row over the seeds, points of the curves, the first seed's model).

    A point: scores on validation lines, and when.
    """
    valid, held_out, found, curve, models = validation(n), tests(n), [], [], []
    every = max(1, n_steps // 15)
    for seed in seeds:
        looks: list[dict] = []

        def look(model: nn.Module, looks: list = looks) -> float:
            looks.append(score(model, valid))
            return looks[-1]["bits"]

        begin = time.process_time()
        model, _ = train(kind, seed=seed, n_steps=n_steps, lr=lr, look=look, eval_every=every)
        seconds = time.process_time() - begin
        models.append(model)
        found.append(
            {"seed": seed, "seconds": seconds}
            | {where: score(model, batch) for where, batch in held_out.items()}
        )
        steps = [min((k + 1) * every, n_steps) for k in range(len(looks))]
        curve += [
            {"model": name, "seed": seed, "step": step, "seconds": seconds * step / n_steps} | seen
            for step, seen in zip(steps, looks, strict=True)
        ]
    row = {
        "model": name, "parameters": n_parameters(model), "lr": lr,
        "n_steps": n_steps, "by_seed": found,
    }  # fmt: skip
    return row, curve, models[0]


def run(
    *,
    n_steps: int = 1500,
    search_steps: int = 500,
    longer: float = 3.0,
    seeds: Sequence[int] = SEEDS,
    lrs: dict[str, Sequence[float]] = LRS,
    n_looked: int = N_LOOKED,
    n_trial: int = 60,
) -> dict:
    """A record's fields: rows for the Transformer, the LSTM and the LSTM trained longer.

    The LSTM trains for as much processor time as the Transformer, the third row for `longer` times
    as much. The learning rates are the best on validation after search_steps steps of the
    Transformer and the same time of the LSTM. n_trial: steps over which the time of one step is
    measured. "model": the first seed's Transformer, which ships with the record.
    """
    pace = {kind: seconds_of_update(kind, n_trial) for kind in LRS}
    steps = {"transformer": n_steps, "lstm": round(n_steps * pace["transformer"] / pace["lstm"])}
    shorter = {kind: max(1, n * search_steps // n_steps) for kind, n in steps.items()}
    found = {kind: search(kind, lrs[kind], shorter[kind], n_looked) for kind in steps}
    best = {kind: best_lr(rows, "valid_bits") for kind, rows in found.items()}
    rows, curve, models = [], [], []
    for name, kind, factor in (
        ("Transformer", "transformer", 1.0),
        ("LSTM", "lstm", 1.0),
        ("LSTM, longer", "lstm", longer),
    ):
        row, points, model = measured(
            name, kind, n_steps=round(steps[kind] * factor), lr=best[kind], seeds=seeds, n=n_looked
        )
        rows.append(row)
        curve += points
        models.append(model)
    config = {
        "n_names": N_NAMES, "batch_size": BATCH_SIZE, "n_looked": n_looked, "longer": longer,
        "search": found, "search_steps": shorter, "context_length": CONTEXT,
    }  # fmt: skip
    return {
        "config": config, "seeds": list(seeds), "curve": curve, "metrics": {"rows": rows},
        "model": models[0],
    }  # fmt: skip
