"""Chapter 6b: deep stacks of ReLU layers, plain and residual, that read eight characters.

A stack sees eight characters of Shakespeare and predicts the ninth. The arms differ in whether
layers are added to their input, in depth, and in the start of their weights. Each arm's learning
rate for Adam is searched over the same values with a seed of its own; what counts is the loss on
text that the network was trained on. The last part inserts identity layers into a trained network
and trains on. About ten minutes on one core.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from unrolled.data import corpora
from unrolled.data.batches import random_batch
from unrolled.data.tokens import CharTokenizer
from unrolled.training.evaluate import bits

from unrolled_book.depth import Stack, start
from unrolled_book.experiments._common import best_lr, n_parameters, search, seeded

CORPUS = "shakespeare-small"
WINDOW, EMBEDDING = 8, 8  # characters read, numbers for each
WIDTH, BATCH_SIZE, N_STEPS = WINDOW * EMBEDDING, 64, 800
SEARCH_SEED, LRS = 100, (3e-4, 1e-3, 3e-3, 1e-2)
STARTS = ("he", "small", "identity")
EVERY = 20  # steps whose mean loss is one point of the curve
SHORT, LONG = 5, 40  # layers before and after the insertion


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One kind of stack: see `DeepNet`."""

    depth: int  # hidden layers
    residual: bool
    start: str = "he"
    batch_norm: bool = False


ARMS = (
    *(Arm(depth=d, residual=False) for d in (5, 10, 20, 40)),
    *(Arm(depth=d, residual=True, start="small") for d in (5, 10, 20, 40)),
    Arm(depth=40, residual=True),
    Arm(depth=40, residual=False, start="small"),
    Arm(depth=40, residual=False, start="identity"),
    Arm(depth=40, residual=False, batch_norm=True),
    Arm(depth=40, residual=True, batch_norm=True),
)


class DeepNet(nn.Module):
    """Eight characters → 64 numbers → a stack of ReLU layers → logits of the next character.

    Biases of the layers start at 0. Their weights start from N(0, 2/width) ("he"), from that
    divided by the root of the depth ("small"), or as the identity matrix ("identity").
    """

    def __init__(self, arm: Arm, vocab_size: int, activation: str = "relu"):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, EMBEDDING)
        self.stack = Stack(WIDTH, arm.depth, activation=activation, residual=arm.residual)
        self.head = nn.Linear(WIDTH, vocab_size)
        for k, layer in enumerate(self.stack.layers):
            _start(layer, arm)
            if arm.batch_norm:
                self.stack.layers[k] = nn.Sequential(layer, nn.BatchNorm1d(WIDTH))

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, 8) → (B, V)."""
        return self.head(self.stack(self.features(tokens)))

    def features(self, tokens: Tensor) -> Tensor:
        """(B, 8) → (B, 64)."""
        return self.embedding(tokens).flatten(1)


@torch.no_grad()
def _start(layer: nn.Linear, arm: Arm) -> None:
    if arm.start not in STARTS:
        raise ValueError(f"start must be one of {STARTS}, got {arm.start!r}")
    nn.init.zeros_(layer.bias)
    if arm.start == "identity":
        nn.init.eye_(layer.weight)
        return
    start(layer.weight, "he")
    if arm.start == "small":
        layer.weight /= arm.depth**0.5


@cache
def text() -> tuple[int, np.ndarray, np.ndarray]:
    """The number of characters, and the ids of the training and validation text."""
    corpus = corpora.load(CORPUS)
    tokenizer = CharTokenizer.train(corpus.train)
    return tokenizer.vocab_size, tokenizer.encode(corpus.train), tokenizer.encode(corpus.valid)


def draw(rng: np.random.Generator, ids: np.ndarray, n: int) -> tuple[Tensor, Tensor]:
    """n windows of a text (n, 8) and the characters that follow them (n,)."""
    inputs, targets = random_batch(rng, ids, batch_size=n, seq_len=WINDOW)
    return torch.from_numpy(inputs), torch.from_numpy(targets[:, -1].copy())


def batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Windows of the training text without end."""
    rng = np.random.default_rng(seed)
    while True:
        yield draw(rng, text()[1], BATCH_SIZE)


def fresh(arm: Arm, seed: int) -> DeepNet:
    """An untrained network; torch's generator is unchanged."""
    with seeded(seed):
        return DeepNet(arm, text()[0])


def train(model: nn.Module, lr: float, seed: int, n_steps: int) -> list[float]:
    """Adam without anything else. Returns the loss of every batch, in nats."""
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for _, (tokens, targets) in zip(range(n_steps), batches(seed), strict=False):
        loss = F.cross_entropy(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def evaluate(model: nn.Module) -> dict[str, float]:
    """Bits per character on 8192 windows of the training text, and of the validation text."""
    model.eval()
    found = {}
    for name, ids in zip(("train", "valid"), text()[1:], strict=True):
        tokens, targets = draw(np.random.default_rng(1_000), ids, 8192)
        loss = F.cross_entropy(model(tokens), targets).item()
        found[name] = float(f"{bits(loss):.4g}")
    model.train()
    return found


def by_frequency() -> float:
    """Bits per character, on the training text, of knowing only how frequent each one is."""
    share = np.bincount(text()[1]) / len(text()[1])
    share = share[share > 0]
    return float(-(share * np.log2(share)).sum())


@torch.no_grad()
def deepen(model: DeepNet, n_layers: int) -> DeepNet:
    """A copy with identity layers after its last one: the same function, n_layers deep.

    Raises ValueError for a model of more layers, and where an identity layer would not pass on
    what it gets: with residual connections, with batch norm, and with other activations than ReLU.
    """
    stack = model.stack
    plain = not stack.residual and all(isinstance(layer, nn.Linear) for layer in stack.layers)
    if not plain or stack.activation is not F.relu:
        raise ValueError("only a plain stack of ReLU layers is the same with identity layers")
    if n_layers < len(stack.layers):
        raise ValueError(f"the model has {len(stack.layers)} layers, got n_layers = {n_layers}")
    deeper = copy.deepcopy(model)
    for _ in range(n_layers - len(model.stack.layers)):
        layer = copy.deepcopy(deeper.stack.layers[-1])
        nn.init.eye_(layer.weight), nn.init.zeros_(layer.bias)
        deeper.stack.layers.append(layer)
    return deeper


def inserted(lr: float, on_lrs: Sequence[float], seed: int, n_steps: int) -> list[dict]:
    """Train a short stack with the rate lr; then train on for half as many steps, once as it is and
    once deepened by identity layers, each with its rate of `on_lrs`.
    """
    short = fresh(Arm(depth=SHORT, residual=False), seed)
    train(short, lr, seed, n_steps)
    before, rows = evaluate(short)["train"], []
    for model, on_lr in zip((short, deepen(short, LONG)), on_lrs, strict=True):
        row = {"depth": len(model.stack.layers), "lr": on_lr, "seed": seed, "before": before}
        train(model, on_lr, seed + 1_000, n_steps // 2)
        rows.append({**row, **evaluate(model)})
    return rows


def search_inserted(lr: float, n_steps: int) -> list[list[dict]]:
    """For the short and the deepened stack what `search` finds, with the search's seed."""
    found = {on_lr: inserted(lr, (on_lr, on_lr), SEARCH_SEED, n_steps) for on_lr in LRS}
    return [search(LRS, lambda on_lr, k=k: found[on_lr][k]["train"], "train") for k in range(2)]


def run(
    arms: Sequence[Arm] = ARMS, seeds: Sequence[int] = (0, 1, 2), n_steps: int = N_STEPS
) -> dict:
    """Search each arm's rate, train it with every seed, then the insertion.

    metrics: "runs", a row for each arm and seed with bits per character; "inserted", the rows of
    `inserted`; "by_frequency". curve: the mean loss of every EVERY steps in bits, in the order of
    the runs. config: the searches.
    """
    rows, curves, searched = [], [], []
    for arm in arms:
        found = search(LRS, lambda lr, arm=arm: _trained(arm, lr, SEARCH_SEED, n_steps)[0]["train"],
                       "train")  # fmt: skip
        searched.append({**asdict(arm), "search": found})
        for seed in seeds:
            lr = best_lr(found, "train")
            score, losses = _trained(arm, lr, seed, n_steps)
            rows.append({**asdict(arm), "lr": lr, "seed": seed, **score})
            points = [np.mean(losses[i : i + EVERY]) for i in range(0, len(losses), EVERY)]
            curves.append({"bits": [float(f"{bits(point):.4g}") for point in points]})
    short = Arm(depth=SHORT, residual=False)
    lr = next((r["lr"] for r in rows if asdict(short).items() <= r.items()), 3e-3)
    on = search_inserted(lr, n_steps)
    on_lrs = [best_lr(found, "train") for found in on]
    config = {
        "width": WIDTH, "window": WINDOW, "batch_size": BATCH_SIZE, "n_steps": n_steps,
        "optimizer": "adam", "lrs": [*LRS], "search_seed": SEARCH_SEED, "searches": searched,
        "corpus": CORPUS, "every": EVERY, "inserted_lr": lr, "inserted_searches": on,
        "parameters": {str(d): n_parameters(fresh(Arm(depth=d, residual=False), 0))
                       for d in sorted({arm.depth for arm in arms})},
    }  # fmt: skip
    metrics = {
        "runs": rows,
        "inserted": [row for seed in seeds for row in inserted(lr, on_lrs, seed, n_steps)],
        "by_frequency": round(by_frequency(), 3),
    }
    return {"config": config, "seeds": [*seeds], "metrics": metrics, "curve": curves}


def _trained(arm: Arm, lr: float, seed: int, n_steps: int) -> tuple[dict, list[float]]:
    model = fresh(arm, seed)
    losses = train(model, lr, seed, n_steps)
    return evaluate(model), losses
