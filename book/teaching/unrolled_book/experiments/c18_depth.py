"""Chapter 18: the place of the norm, the depth of the stack, and the warm-up of the learning rate.

Small Transformers read Shakespeare, character by character. They differ in the place of the norm
(before or after each sub-layer), the number of blocks, the peak of Adam's learning rate and the
warm-up; with one seed all read the same windows. There is no clipping and no decay of the rate, so
that failures show. Matrices start from Glorot & Bengio's uniform distribution, as in Xiong et al.
(2020), whose question this is; in some arms they start small, as GPT-2's do. The last arms compare
activations at equal parameters. About 11 minutes on one core.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np
import torch
from torch import nn
from unrolled.data import corpora
from unrolled.data.batches import Pair, random_batch
from unrolled.data.tokens import CharTokenizer
from unrolled.models.layers import GATED
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.evaluate import bits
from unrolled.training.fit import DivergedError, FitConfig, cross_entropy, fit

from unrolled_book.experiments._common import n_parameters, seeded, windows

CORPUS = "shakespeare-small"
WIDTH, N_HEADS, WINDOW, BATCH_SIZE = 32, 2, 32, 16
PLACES = ("pre", "post")
INITS = ("glorot", "small")
EVERY = 20  # steps whose mean loss is one point of the curve


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One setting, trained with every seed."""

    place: str  # of the norm: "pre" or "post"
    depth: int  # blocks
    lr: float  # the peak
    warmup: int  # steps; 0 for none
    init: str = "glorot"  # or "small"
    activation: str = "gelu"  # of the feed-forward layer; a gated one has two thirds of its width


def grid(
    depths: Sequence[int], lrs: Sequence[float], warmups: Sequence[int], **options
) -> tuple[Arm, ...]:
    """Both places of the norm with every depth, rate and warm-up."""
    return tuple(
        Arm(place=place, depth=depth, lr=lr, warmup=warmup, **options)
        for depth in depths
        for lr in lrs
        for warmup in warmups
        for place in PLACES
    )


DEPTHS, LRS, WARMUPS = (2, 6, 12), (1e-3, 3e-3, 1e-2), (0, 200)
ACTIVATIONS = ("relu", "gelu", "geglu", "swiglu")
ARMS = (
    *grid(DEPTHS, LRS, WARMUPS),
    *grid((12,), (3e-4,), (0,)),
    *grid((12,), (1e-2,), WARMUPS, init="small"),
    *(Arm(place="pre", depth=2, lr=1e-2, warmup=0, activation=a) for a in ACTIVATIONS[::-1]
      if a != "gelu"),
)  # fmt: skip


def inner_width(activation: str) -> int:
    """F: 4·D, or two thirds of it when there are three matrices instead of two."""
    return round(4 * WIDTH * 2 / 3) if activation in GATED else 4 * WIDTH


def fresh(
    place: str, depth: int, *, seed: int, init: str = "glorot", activation: str = "gelu"
) -> TransformerLM:
    """An untrained model; torch's generator is unchanged.

    "glorot": matrices of the blocks uniform with variance 2 / (inputs + outputs), embeddings and
    positions with a sum of variance 1. "small": N(0, 0.02²), the last matrix of each sub-layer
    smaller by 1/√(2·depth).
    """
    if init not in INITS:
        raise ValueError(f"init must be one of {INITS}, got {init!r}")
    config = TransformerConfig(
        vocab_size=text()[0].vocab_size, d_model=WIDTH, n_layers=depth, n_heads=N_HEADS,
        context_length=WINDOW, d_ff=inner_width(activation), activation=activation,
        norm_first=place == "pre", tie_embeddings=False,
    )  # fmt: skip
    with seeded(seed):
        model = TransformerLM(config)
        if init == "glorot":
            _glorot(model)
    return model


@torch.no_grad()
def _glorot(model: TransformerLM) -> None:
    for name, parameter in model.named_parameters():
        if name.startswith(("embedding", "stack.position")):
            nn.init.normal_(parameter, std=0.5**0.5)
        elif parameter.ndim == 2:
            two = parameter.shape[0] == 2 * model.config.d_ff
            for part in parameter.chunk(2 if two else 1):  # gate, up
                nn.init.xavier_uniform_(part)


@cache
def text() -> tuple[CharTokenizer, np.ndarray, np.ndarray]:
    """The characters' tokeniser, and the ids of the training and validation text."""
    corpus = corpora.load(CORPUS)
    tokenizer = CharTokenizer.train(corpus.train)
    return tokenizer, tokenizer.encode(corpus.train), tokenizer.encode(corpus.valid)


def held_out(n_windows: int = 256) -> Pair:
    """The same windows of the validation text in every run."""
    rng = np.random.default_rng(1_000)
    return random_batch(rng, text()[2], batch_size=n_windows, seq_len=WINDOW)


def by_frequency() -> float:
    """Bits per character of a model that knows only how frequent each character is."""
    tokenizer, train_ids, _ = text()
    counts = np.bincount(train_ids, minlength=tokenizer.vocab_size) + 1.0
    return float(-np.log2(counts / counts.sum())[held_out()[1]].mean())


def train(arm: Arm, *, seed: int, n_steps: int) -> dict:
    """Train an arm; return its row of the record.

    The row holds bits per character and `gradients` on validation at the end, and a curve of bits
    on training text, averaged over EVERY steps. If the loss was no longer finite, `updates` is less
    than n_steps and the bits and gradients may be None.
    """
    model = fresh(arm.place, arm.depth, seed=seed, init=arm.init, activation=arm.activation)
    batches = windows(text()[1], seed, batch_size=BATCH_SIZE, window=WINDOW)
    config = FitConfig(
        n_steps=n_steps, lr=arm.lr, optimizer="adam", betas=(0.9, 0.98), grad_clip=None,
        warmup_steps=min(arm.warmup, n_steps), seed=seed,
    )  # fmt: skip
    try:
        history = fit(model, batches, config, progress=False).history
    except DivergedError as error:
        history = error.history
    losses = np.array(history.train_loss)
    points = [losses[i : i + EVERY].mean() for i in range(0, len(losses), EVERY)]
    return {
        **asdict(arm),
        "seed": seed,
        "updates": len(losses),
        "bits": round(found, 3) if math.isfinite(found := evaluate(model)) else None,
        "gradients": [
            float(f"{norm:.3g}") if math.isfinite(norm) else None for norm in gradients(model)
        ],
        "curve": [round(float(bits(point)), 3) for point in points],
    }


@torch.no_grad()
def evaluate(model: nn.Module) -> float:
    """Bits per character on the held-out windows."""
    tokens, targets = (torch.from_numpy(a) for a in held_out())
    return float(bits(cross_entropy(model(tokens), targets).mean().item()))


def gradients(model: nn.Module) -> list[float]:
    """The norm of the gradient of the held-out loss, over all matrices of each block, first to
    last."""
    tokens, targets = (torch.from_numpy(a) for a in held_out())
    blocks = [[p for p in block.parameters() if p.ndim == 2] for block in model.stack.blocks]
    loss = cross_entropy(model(tokens), targets).mean()
    found = iter(torch.autograd.grad(loss, [p for block in blocks for p in block]))
    return [sum(next(found).square().sum() for _ in block).sqrt().item() for block in blocks]


def run(arms: Sequence[Arm] = ARMS, seeds: Sequence[int] = (0, 1, 2), n_steps: int = 400) -> dict:
    """Train every arm with every seed.

    metrics: "runs", the rows of `train` without their curves; "by_frequency", bits per character of
    guessing by frequency. curve: the curves, in the order of the runs.
    """
    rows = [train(arm, seed=seed, n_steps=n_steps) for arm in arms for seed in seeds]
    curves = [{"bits": row.pop("curve")} for row in rows]
    config = {
        "width": WIDTH, "n_heads": N_HEADS, "window": WINDOW, "batch_size": BATCH_SIZE,
        "optimizer": "adam", "betas": [0.9, 0.98], "clip": None, "n_steps": n_steps,
        "every": EVERY, "corpus": CORPUS,
        "depths": sorted({arm.depth for arm in arms}), "lrs": sorted({arm.lr for arm in arms}),
        "warmups": sorted({arm.warmup for arm in arms}),
        "parameters": {str(d): _count(d) for d in sorted({arm.depth for arm in arms})},
        "by_activation": {a: _count(1, a) for a in sorted({arm.activation for arm in arms})},
    }  # fmt: skip
    metrics = {"runs": rows, "by_frequency": round(by_frequency(), 3)}
    return {"config": config, "seeds": [*seeds], "metrics": metrics, "curve": curves}


def _count(depth: int, activation: str = "gelu") -> int:
    """The number of parameters in the blocks."""
    blocks = fresh("pre", depth, seed=0, activation=activation).stack.blocks
    return n_parameters(blocks)
