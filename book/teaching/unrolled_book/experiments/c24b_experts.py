"""Chapter 24b: a mixture of experts beside dense layers, with and without the balance loss.

About five minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.models.moe import MixtureOfExperts, routings, with_balance
from unrolled.models.transformer import TransformerLM, initialise
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.evaluate import bits
from unrolled.training.fit import cross_entropy, fit, next_token_loss

from unrolled_book.experiments import _common
from unrolled_book.experiments._common import best_lr, cosine, n_parameters, seeded

CORPUS = "shakespeare-small"
SEEDS = (0, 1, 2)
LRS = (3e-3, 6e-3, 1.2e-2)
D_MODEL, N_EXPERTS, TOP_K, D_EXPERT = 64, 8, 2, 64
WINDOW, BATCH_SIZE = 64, 16
# A dense layer as wide as the experts that one token takes, and one as wide as all experts.
DENSE = {"dense, active": TOP_K * D_EXPERT, "dense, all": N_EXPERTS * D_EXPERT}
BALANCE = {"experts": 0.0, "experts, balanced": 0.01}
ARMS = (*DENSE, *BALANCE)


def build(arm: str, vocab_size: int, seed: int) -> TransformerLM:
    """Two blocks of width 64; only their feed-forward layers differ between the arms."""
    config = TransformerConfig(
        vocab_size=vocab_size, d_model=D_MODEL, n_layers=2, n_heads=4, context_length=WINDOW,
        d_ff=DENSE.get(arm, D_EXPERT), activation="swiglu", norm="rms", position="rotary",
        bias=False, init_std=0.05,
    )  # fmt: skip
    with seeded(seed):
        model = TransformerLM(config)
        if arm in BALANCE:
            for block in model.stack.blocks:
                block.feed_forward = MixtureOfExperts(
                    D_MODEL, D_EXPERT, n_experts=N_EXPERTS, top_k=TOP_K
                )
            initialise(model, config)
    return model


def n_active(model: TransformerLM) -> int:
    """The parameters that one token uses: of E experts, k."""
    layers = [m for m in model.modules() if isinstance(m, MixtureOfExperts)]
    idle = sum((1 - m.top_k / len(m.experts)) * n_parameters(m.experts) for m in layers)
    return round(n_parameters(model) - idle)


def held_out(tokens: np.ndarray, n: int) -> torch.Tensor:
    """n windows (n, WINDOW + 1) spread evenly over a text."""
    starts = np.linspace(0, len(tokens) - WINDOW - 1, n).astype(int)
    return torch.from_numpy(tokens[starts[:, None] + np.arange(WINDOW + 1)])


@torch.no_grad()
def look(model: TransformerLM, texts: torch.Tensor) -> tuple[float, list[list[float]]]:
    """(bits per character, for each mixture the share of the choices that each expert gets)."""
    with routings(model) as records:
        loss = cross_entropy(model(texts[:, :-1]), texts[:, 1:]).mean().item()
    counts = [torch.bincount(r.experts.flatten(), minlength=N_EXPERTS) for r in records]
    return float(bits(loss)), [(c / c.sum()).tolist() for c in counts]


def train(
    arm: str, course: dict[str, np.ndarray], *, lr: float, n_steps: int, seed: int, n_windows: int
) -> dict:
    """Train one model; it keeps the parameters that were best on validation."""
    model = build(arm, int(course["train"].max()) + 1, seed)
    valid, looks = held_out(course["valid"], n_windows), []

    def watch(model: nn.Module) -> float:
        found, loads = look(model, valid)
        looks.append({"bits": found, "loads": loads})
        return found

    watch(model)
    loss = next_token_loss
    if BALANCE.get(arm):
        loss = with_balance(loss, BALANCE[arm])
    every = max(1, n_steps // 10)
    batches = _common.windows(course["train"], seed, batch_size=BATCH_SIZE, window=WINDOW)
    config = cosine(n_steps, lr, seed, eval_every=every)
    fit(model, batches, config, loss=loss, valid=watch, progress=False)
    test, loads = look(model, held_out(course["test"], n_windows))
    steps = [min(k * every, n_steps) for k in range(len(looks))]
    return {
        "arm": arm, "seed": seed, "lr": lr, "test_bits": test, "loads": loads,
        "valid_bits": min(seen["bits"] for seen in looks[1:]),
        "parameters": n_parameters(model), "active": n_active(model),
        "curve": [{"step": s} | seen for s, seen in zip(steps, looks, strict=True)],
    }  # fmt: skip


def texts() -> dict[str, np.ndarray]:
    """The ids of the three splits."""
    corpus = corpora.load(CORPUS)
    tokenizer = CharTokenizer.train(corpus.train)
    splits = {name: getattr(corpus, name) for name in ("train", "valid", "test")}
    return {name: np.array(tokenizer.encode(text)) for name, text in splits.items()}


def run(
    *,
    n_steps: int = 500,
    n_windows: int = 200,
    seeds: Sequence[int] = SEEDS,
    lrs: Sequence[float] = LRS,
    arms: Sequence[str] = ARMS,
) -> dict:
    """A record's fields: `metrics["rows"]` is what `train` gives for each arm and seed.

    Each arm has the learning rate that is best on validation, trained as long with a seed of its
    own. (After 200 steps, still on the first plateau, other rates lead.)
    """
    course, rows, found = texts(), [], {}
    for arm in arms:

        def measure(lr: float, arm: str = arm) -> float:
            once = {"n_steps": n_steps, "seed": 100, "n_windows": n_windows}
            return train(arm, course, lr=lr, **once)["valid_bits"]

        found[arm] = _common.search(lrs, measure, "valid_bits")
        lr = best_lr(found[arm], "valid_bits")
        rows += [
            train(arm, course, lr=lr, n_steps=n_steps, seed=seed, n_windows=n_windows)
            for seed in seeds
        ]
    config = {
        "corpus": CORPUS, "n_steps": n_steps, "search": found,
        "n_experts": N_EXPERTS, "top_k": TOP_K, "d_model": D_MODEL, "d_expert": D_EXPERT,
        "balance": BALANCE, "batch_size": BATCH_SIZE, "window": WINDOW,
    }  # fmt: skip
    return {"config": config, "seeds": [*seeds], "metrics": {"rows": rows}, "curve": []}
