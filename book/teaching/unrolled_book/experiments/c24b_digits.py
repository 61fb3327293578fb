"""Chapter 24c: a Vision Transformer beside a small convolution on digits, by two kinds of split.

The digits of `sklearn.datasets.load_digits` stand in the order in which 13 people wrote them. In
thirds of the file a person is (nearly) in one third only; in random thirds everyone is in all.
A model's rate is chosen inside its two training thirds: no picture that it is tested on has a say.
About twenty minutes on one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import nn
from unrolled.models.transformer_config import TransformerConfig
from unrolled.models.vit import VisionTransformer
from unrolled.training.fit import cross_entropy, fit, per_target

from unrolled_book.experiments import _common
from unrolled_book.experiments._common import best_lr, cosine, n_parameters, seeded

SEEDS = (0, 1, 2)
N_FOLDS, BATCH_SIZE = 3, 64
LRS = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 2e-1)
ARMS = ("ViT", "ViT, no positions", "convolution")
SPLITS = ("random", "contiguous")


def digits() -> tuple[np.ndarray, np.ndarray]:
    """(images (1797, 1, 8, 8) float32 between 0 and 1, classes (1797,))."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return (found.images[:, None] / 16).astype(np.float32), found.target.astype(np.int64)


def folds(n: int, *, block: int = 1, seed: int | None = None) -> np.ndarray:
    """(n,) the fold of each image: whole blocks of neighbours, dealt at random into N_FOLDS.

    Without a seed the folds are thirds of the file.
    """
    if seed is None:
        return np.arange(n) * N_FOLDS // n
    n_blocks = -(-n // block)
    dealt = np.random.default_rng(seed).permutation(np.arange(n_blocks) % N_FOLDS)
    return dealt[np.arange(n) // block]


def build(arm: str, seed: int) -> nn.Module:
    """A classifier of images (B, 1, 8, 8) with about 18,000 parameters."""
    with seeded(seed):
        if arm == "convolution":
            return nn.Sequential(
                nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                nn.Flatten(), nn.Linear(128, 96), nn.ReLU(), nn.Linear(96, 10),
            )  # fmt: skip
        config = TransformerConfig(
            d_model=32, n_layers=2, n_heads=4, d_ff=64, context_length=17, activation="gelu",
            init_std=0.1, position="none" if arm == "ViT, no positions" else "learned",
        )  # fmt: skip
        sizes = {"image_size": (8, 8), "patch_size": 2, "n_classes": 10, "n_channels": 1}
        return VisionTransformer(config, **sizes)


def batches(images: np.ndarray, classes: np.ndarray, seed: int) -> Iterator:
    """Random batches without end."""
    rng = np.random.default_rng(seed)
    while True:
        rows = rng.integers(len(images), size=BATCH_SIZE)
        yield images[rows], classes[rows]


def train(arm: str, train_set: tuple, *, lr: float, n_steps: int, seed: int) -> nn.Module:
    """A classifier after n_steps on (images, classes)."""
    model, config = build(arm, seed), cosine(n_steps, lr, seed)
    fit(model, batches(*train_set, seed), config, loss=per_target(cross_entropy), progress=False)
    return model


@torch.no_grad()
def right(model: nn.Module, images: np.ndarray, classes: np.ndarray) -> float:
    """Percent of images that are classified correctly."""
    said = model(torch.from_numpy(images)).argmax(-1).numpy()
    return float(100 * np.mean(said == classes))


def chosen(arm: str, fold: np.ndarray, k: int, *, lrs: Sequence[float], n_steps: int) -> float:
    """The rate for the models that are tested on fold k: of the two other folds one trains, and
    one chooses.
    """
    images, classes = digits()
    one, other = (fold == i for i in range(N_FOLDS) if i != k)

    def measure(lr: float) -> float:
        model = train(arm, (images[one], classes[one]), lr=lr, n_steps=n_steps, seed=100)
        return 100 - right(model, images[other], classes[other])

    return best_lr(_common.search(lrs, measure, "errors"), "errors")


def crossed(
    arm: str, fold: np.ndarray, *, lrs: Sequence[float], n_steps: int, seed: int
) -> list[float]:
    """Percent right on each fold, by a model with rate lrs[k] trained on the other folds."""
    images, classes = digits()
    found = []
    for k, lr in enumerate(lrs):
        inside, outside = fold == k, fold != k
        model = train(arm, (images[outside], classes[outside]), lr=lr, n_steps=n_steps, seed=seed)
        found.append(right(model, images[inside], classes[inside]))
    return found


def run(
    *,
    n_steps: int = 400,
    seeds: Sequence[int] = SEEDS,
    lrs: Sequence[float] = LRS,
    arms: Sequence[str] = ARMS,
) -> dict:
    """A record's fields: `metrics["rows"]` has for each arm, split and seed "right" and the chosen
    "lrs", by fold.
    """
    n, rows = len(digits()[0]), []
    for arm in arms:
        for split in SPLITS:
            rates = None
            for seed in seeds:
                fold = folds(n, seed=seed if split == "random" else None)
                if rates is None or split == "random":  # the thirds of the file are always the same
                    how = {"lrs": lrs, "n_steps": n_steps}
                    rates = [chosen(arm, fold, k, **how) for k in range(N_FOLDS)]
                rows.append({
                    "arm": arm, "split": split, "seed": seed, "lrs": rates,
                    "parameters": n_parameters(build(arm, seed)),
                    "right": crossed(arm, fold, lrs=rates, n_steps=n_steps, seed=seed),
                })  # fmt: skip
    config = {
        "n_steps": n_steps, "rates": [*lrs], "n_folds": N_FOLDS, "batch_size": BATCH_SIZE,
        "patch_size": 2,
    }  # fmt: skip
    return {"config": config, "seeds": [*seeds], "metrics": {"rows": rows}, "curve": []}
