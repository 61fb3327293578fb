"""Chapter 6: what each hidden layer gives while a network learns, with sigmoid and with tanh.

Four hidden layers read eight characters and predict the ninth (see `c06_depth`), trained by plain
stochastic gradient descent from the start that Glorot & Bengio (2010) call standard, uniform
between ±1/√inputs, which is also torch's. It follows their figures 2 and 3 in kind. Two further
activations change the sigmoid's steepness alone and its centre alone; three further trainings of
the sigmoid change the rate, the optimiser, and what is trained. Two minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from unrolled.training.evaluate import bits

from unrolled_book.depth import Stack
from unrolled_book.experiments import c06_depth
from unrolled_book.experiments._common import seeded

N_LAYERS, LR, BATCH_SIZE, N_STEPS, EVERY = 4, 0.5, 32, 6000, 250
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "steep": lambda z: torch.sigmoid(4 * z),
    "centred": lambda z: torch.sigmoid(z) - 0.5,
}


@dataclass(frozen=True, kw_only=True)
class Training:
    """One way to train: the activation, the optimiser's rate, and whether all layers learn."""

    activation: str
    lr: float = LR
    adam: bool = False  # or plain gradient descent
    frozen: bool = False  # leave the embedding and the first layer as they start


TRAININGS = {
    **{name: Training(activation=name) for name in ACTIVATIONS},
    "sigmoid, rate 2": Training(activation="sigmoid", lr=2.0),
    "sigmoid, Adam": Training(activation="sigmoid", lr=0.003, adam=True),
    "sigmoid, first layer frozen": Training(activation="sigmoid", frozen=True),
}


def fresh(activation: str, seed: int) -> c06_depth.DeepNet:
    """An untrained network with torch's own start; torch's generator is unchanged."""
    arm = c06_depth.Arm(depth=N_LAYERS, residual=False)
    with seeded(seed):
        model = c06_depth.DeepNet(arm, c06_depth.text()[0], "sigmoid")
        model.stack = Stack(c06_depth.WIDTH, N_LAYERS, activation="sigmoid")
    model.stack.activation = ACTIVATIONS[activation]
    return model


def look(model: c06_depth.DeepNet) -> dict:
    """On 300 windows: the loss in bits, and for each layer, first to last, the mean of its outputs,
    the mean over units of their standard deviation between windows, and the norms of the gradients
    of its outputs and of its weights.
    """
    tokens, targets = c06_depth.draw(np.random.default_rng(1_000), c06_depth.text()[1], 300)
    states = model.stack.states(model.features(tokens))[1:]
    loss = F.cross_entropy(model.head(states[-1]), targets)
    weights = [layer.weight for layer in model.stack.layers]
    found = torch.autograd.grad(loss, [*states, *weights])
    gradients, of_weights = found[:N_LAYERS], found[N_LAYERS:]
    return {
        "bits": _short(bits(loss.item())),
        "mean": [_short(h.mean().item()) for h in states],
        "spread": [_short(h.std(0).mean().item()) for h in states],
        "gradient": [_short(g.norm().item()) for g in gradients],
        "weight_gradient": [_short(g.norm().item()) for g in of_weights],
    }


def train(training: Training, seed: int, n_steps: int) -> list[dict]:
    """Descend; what `look` sees at the start and after every EVERY steps."""
    model = fresh(training.activation, seed)
    fixed = {*model.embedding.parameters(), *model.stack.layers[0].parameters()}
    learned = [p for p in model.parameters() if not (training.frozen and p in fixed)]
    kind = torch.optim.Adam if training.adam else torch.optim.SGD
    optimizer = kind(learned, lr=training.lr)
    rng, rows = np.random.default_rng(seed), []
    for step in range(n_steps + 1):
        if step % EVERY == 0:
            rows.append({"step": step, **look(model)})
        tokens, targets = c06_depth.draw(rng, c06_depth.text()[1], BATCH_SIZE)
        loss = F.cross_entropy(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return rows


def run(
    trainings: Mapping[str, Training] = TRAININGS,
    seeds: Sequence[int] = (0, 1, 2),
    n_steps: int = N_STEPS,
) -> dict:
    """Train in every way with every seed. curve: the rows of `train`; metrics: the last of them."""
    found = [
        {"training": name, "seed": seed, **row}
        for name, training in trainings.items()
        for seed in seeds
        for row in train(training, seed, n_steps)
    ]
    config = {
        "width": c06_depth.WIDTH, "n_layers": N_LAYERS, "batch_size": BATCH_SIZE,
        "n_steps": n_steps, "every": EVERY, "corpus": c06_depth.CORPUS,
        "trainings": {name: asdict(training) for name, training in trainings.items()},
    }  # fmt: skip
    metrics = {
        "runs": [row for row in found if row["step"] == n_steps],
        "by_frequency": round(c06_depth.by_frequency(), 3),
    }
    return {"config": config, "seeds": [*seeds], "metrics": metrics, "curve": found}


def _short(number: float) -> float:
    return float(f"{number:.3g}")
