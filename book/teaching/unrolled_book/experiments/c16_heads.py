"""Chapter 16b: how much one head can fetch: texts read backwards, by heads, questions and readout.

At each position i of a text of T symbols the network must name up to four of them: the one at the
mirrored position T − 1 − i, its left and right neighbours (around the ends), and the one at i. One
attention layer without a mask has to fetch them; there is no skip connection, so every answer comes
through a head. Positions are a learned table, added to the symbols. The readout after the layer is
linear or has a hidden layer.

All networks have the same width, so more heads are narrower heads. About six minutes on one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from unrolled.data.batches import Pair
from unrolled.models.heads import MultiHeadAttention, attention_weights
from unrolled.training.fit import FitConfig, cross_entropy, fit

from unrolled_book.experiments._common import seeded

N_SYMBOLS, LENGTH, WIDTH, HIDDEN = 10, 12, 32, 128
QUESTIONS = ("mirror", "left", "right", "own")
READOUTS = ("linear", "hidden")
N_TEST, LR = 500, 1e-2


def sources(n_questions: int) -> np.ndarray:
    """The positions of the answers: (n_questions, T), one row for each of the first QUESTIONS."""
    if not 1 <= n_questions <= len(QUESTIONS):
        raise ValueError(f"n_questions must lie in 1 … {len(QUESTIONS)}, got {n_questions}")
    i = np.arange(LENGTH)
    return np.stack([LENGTH - 1 - i, (i - 1) % LENGTH, (i + 1) % LENGTH, i])[:n_questions]


def texts(rng: np.random.Generator, n: int, n_questions: int) -> Pair:
    """Random symbols (n, T), and the answers (n, T, n_questions)."""
    tokens = rng.integers(N_SYMBOLS, size=(n, LENGTH))
    return tokens, np.moveaxis(tokens[:, sources(n_questions)], 1, -1)


class Answerer(nn.Module):
    """Symbols (B, T) → logits (B, T, n_questions, V) through one attention layer."""

    def __init__(
        self, n_heads: int, n_questions: int, readout: str = "linear", n_kv_heads: int | None = None
    ):
        """Raises ValueError for an unknown readout or what `MultiHeadAttention` refuses."""
        super().__init__()
        if readout not in READOUTS:
            raise ValueError(f"readout must be one of {READOUTS}, got {readout!r}")
        self.n_questions = n_questions
        self.symbols, self.places = nn.Embedding(N_SYMBOLS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.attention = MultiHeadAttention(WIDTH, n_heads, n_kv_heads=n_kv_heads)
        n_logits = n_questions * N_SYMBOLS
        self.readout = (
            nn.Linear(WIDTH, n_logits)
            if readout == "linear"
            else nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_logits))
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits."""
        x = self.symbols(tokens) + self.places.weight  # (B, T, D)
        return self.readout(self.attention(x)).unflatten(-1, (self.n_questions, N_SYMBOLS))


def fresh(*arguments, seed: int = 0, **options) -> Answerer:
    """A fresh `Answerer` with these arguments; torch's generator is unchanged."""
    with seeded(seed):
        return Answerer(*arguments, **options)


def batches(seed: int, batch_size: int, n_questions: int) -> Iterator[Pair]:
    """Endless fresh texts."""
    rng = np.random.default_rng(seed)
    while True:
        yield texts(rng, batch_size, n_questions)


@torch.no_grad()
def score(model: Answerer, seed: int = 0, n: int = N_TEST) -> dict:
    """On n texts: the `accuracy` of each question, the mean `loss` in nats, and what the heads do.

    `reads` has a row for each head and a column for each question: the head's mean weight on the
    position of that answer, where no other answer has the same position. `spread` is, for each
    head, the standard deviation over texts of its weight on the mirrored position, averaged over
    positions.
    """
    tokens, answers = texts(np.random.default_rng([seed, 1]), n, model.n_questions)
    with attention_weights(model) as weights:
        logits, targets = model(torch.from_numpy(tokens)), torch.from_numpy(answers)
    right = (logits.argmax(-1) == targets).double().mean((0, 1))  # (Q,)
    places = sources(model.n_questions)  # (Q, T)
    on_answer = weights[0][:, :, np.arange(LENGTH), places].double()  # (B, H, Q, T)
    alone = torch.from_numpy((places[:, None] == places[None]).sum(1) == 1)  # (Q, T)
    return {
        "accuracy": right.tolist(),
        "loss": cross_entropy(logits, targets).mean().item(),
        "reads": ((on_answer.mean(0) * alone).sum(-1) / alone.sum(-1)).tolist(),
        "spread": on_answer[:, :, 0].std(0).mean(-1).tolist(),
    }


def train(
    n_heads: int,
    n_questions: int,
    readout: str,
    seed: int,
    *,
    n_steps: int,
    batch_size: int = 64,
    n_kv_heads: int | None = None,
) -> tuple[Answerer, dict]:
    """Train one reader; return it and its row of the record."""
    model = fresh(n_heads, n_questions, readout, n_kv_heads, seed=seed)
    config = FitConfig(n_steps=n_steps, lr=LR, optimizer="adam", seed=seed)
    fit(model, batches(seed, batch_size, n_questions), config, progress=False)
    row = {"heads": n_heads, "questions": n_questions, "readout": readout, "seed": seed}
    return model, row | score(model, seed)


def mixture(n_questions: int, n: int = 20_000, seed: int = 0) -> float:
    """Accuracy of the best guess of someone who knows the answers but not their order."""
    _, answers = texts(np.random.default_rng(seed), n // LENGTH, n_questions)
    counts = (answers[..., None] == np.arange(N_SYMBOLS)).sum(-2)  # (n, T, V)
    return float(counts.max(-1).mean() / n_questions)


def run(
    heads: Sequence[int] = (1, 2, 4, 8),
    questions: Sequence[int] = (1, 2, 4),
    readouts: Sequence[str] = READOUTS,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    n_steps: int = 600,
    batch_size: int = 64,
) -> dict:
    """A record's fields: a row of `readers` in `metrics` for each network, and `mixture`."""
    rows = [
        train(h, q, readout, seed, n_steps=n_steps, batch_size=batch_size)[1]
        for readout in readouts
        for q in questions
        for h in heads
        for seed in seeds
    ]
    config = {
        "n_symbols": N_SYMBOLS, "length": LENGTH, "width": WIDTH, "hidden": HIDDEN,
        "heads": [*heads], "questions": [*questions], "readouts": [*readouts],
        "n_steps": n_steps, "batch_size": batch_size, "lr": LR, "n_test": N_TEST,
    }  # fmt: skip
    metrics = {"readers": rows, "mixture": {str(q): mixture(q) for q in questions}}
    return {"config": config, "seeds": [*seeds], "metrics": metrics, "curve": []}
