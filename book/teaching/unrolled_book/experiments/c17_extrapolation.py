"""Chapter 17: which position scheme still works on texts longer than those of training?

About 11 minutes on one core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from unrolled.data import corpora
from unrolled.models.masks import distances
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.evaluate import bits
from unrolled.training.fit import cross_entropy, fit

from unrolled_book.experiments import _common
from unrolled_book.experiments._common import cosine, n_parameters, seeded
from unrolled_book.experiments.ladder import Course

CORPUS = "shakespeare-small"
# "relative" has T5's buckets up to a distance of 32, which every training window reaches;
# "relative, 128" has T5's own distance, so its last buckets are never trained.
SCHEMES = ("sinusoidal", "learned", "rotary", "alibi", "relative", "relative, 128", "none")
REFERENCE = "rotary"  # the scheme that also trains on the longest windows
SEEDS = (0, 1, 2)
TRAIN_LENGTH = 64
LENGTHS = (32, 64, 96, 128, 192, 256, 384)
TOKENS = 1536  # in a batch: 24 windows of 64, or 4 of 384
REACHES = (32, 64, 80, 96, 112, 128, 192)
RINGS = (64, 96)
SCORED = 32  # the last tokens of a window, which have the most context
BIN = 16  # positions in one point of a curve


def build(scheme: str, vocab_size: int, context_length: int, seed: int) -> TransformerLM:
    """Two blocks of width 64 with four heads; only the position differs between schemes."""
    position, _, distance = scheme.partition(", ")
    config = TransformerConfig(
        vocab_size=vocab_size, d_model=64, n_layers=2, n_heads=4, context_length=context_length,
        position=position, max_distance=int(distance or 32), scale_embedding=True, init_std=0.1,
    )  # fmt: skip
    with seeded(seed):
        return TransformerLM(config)


def train(
    model: TransformerLM,
    tokens: np.ndarray,
    *,
    length: int,
    n_steps: int,
    seed: int,
    n_tokens: int = TOKENS,
) -> list[float]:
    """Train on random windows of one length, n_tokens in a batch; the loss of every step in bits.

    There is no weight decay, so rows of a learned table that no window reaches keep their start.
    """
    batches = _common.windows(tokens, seed, batch_size=max(1, n_tokens // length), window=length)
    config = cosine(n_steps, 6e-3, seed, weight_decay=0.0)
    history = fit(model, batches, config, progress=False).history
    return [bits(loss) for loss in history.train_loss]


def windows(tokens: np.ndarray, n: int, longest: int) -> np.ndarray:
    """n windows of longest + 1 tokens, (n, longest + 1), spread evenly over the text."""
    ends = np.linspace(longest + 1, len(tokens), n).astype(int)
    return tokens[ends[:, None] + np.arange(-longest - 1, 0)]


@torch.no_grad()
def losses(model: TransformerLM, texts: np.ndarray, batch_size: int = 32) -> np.ndarray:
    """Bits for every token of texts (N, T + 1) except the first: (N, T)."""
    rows = [
        cross_entropy(model(text[:, :-1]), text[:, 1:])
        for text in torch.from_numpy(texts).split(batch_size)
    ]
    return bits(torch.cat(rows).double().numpy())


def by_length(model: TransformerLM, texts: np.ndarray, lengths: Sequence[int]) -> list[float]:
    """Bits for the last SCORED tokens of texts, when the model reads the last `length` tokens.

    The scored tokens are the same at every length; only the context before them grows.
    """
    return [float(losses(model, texts[:, -n - 1 :])[:, -SCORED:].mean()) for n in lengths]


@torch.no_grad()
def bits_seeing(model: TransformerLM, texts: np.ndarray, seen: torch.Tensor) -> float:
    """Bits for the last SCORED tokens where a query sees the keys of `seen` (T, T) alone."""
    tokens = torch.from_numpy(texts)
    logits = model(tokens[:, :-1], seen[None, None])[:, -SCORED:]
    return float(bits(cross_entropy(logits, tokens[:, -SCORED:]).mean().item()))


def by_reach(model: TransformerLM, texts: np.ndarray, reaches: Sequence[int]) -> list[float]:
    """`bits_seeing` when no query sees a key `reach` or more tokens back."""
    behind = distances(texts.shape[1] - 1)
    return [bits_seeing(model, texts, behind < reach) for reach in reaches]


def by_ring(model: TransformerLM, texts: np.ndarray, rings: Sequence[int]) -> list[float]:
    """`bits_seeing` with 64 keys: the 32 nearest, and the 32 from `ring` tokens back on."""
    behind = distances(texts.shape[1] - 1)
    return [
        bits_seeing(model, texts, (behind < 32) | (behind >= ring) & (behind < ring + 32))
        for ring in rings
    ]


def by_position(model: TransformerLM, texts: np.ndarray) -> list[float]:
    """Bits by position in the longest windows, averaged over every BIN positions."""
    per_position = losses(model, texts).mean(axis=0)
    n = len(per_position) // BIN
    return per_position[: n * BIN].reshape(n, BIN).mean(axis=1).tolist()


def cosines(model: TransformerLM, n: int) -> list[list[float]]:
    """Cosines (n, n) of the first rows of a learned table, to three decimals."""
    rows = torch.nn.functional.normalize(model.stack.position.weight.detach()[:n], dim=-1)
    return (rows @ rows.T).double().numpy().round(3).tolist()


def run(
    *,
    corpus: str = CORPUS,
    schemes: Sequence[str] = SCHEMES,
    reference: str | None = REFERENCE,
    seeds: Sequence[int] = SEEDS,
    n_steps: int = 900,
    train_length: int = TRAIN_LENGTH,
    lengths: Sequence[int] = LENGTHS,
    n_windows: int = 256,
    reaches: Sequence[int] = REACHES,
    rings: Sequence[int] = RINGS,
) -> dict:
    """The fields of the record; all losses are in bits per character of the validation plays.

    metrics: `rows`, one for each scheme with `bits` (seeds, lengths), and a last one for the
    reference trained on the longest windows with as many tokens in a batch (None leaves it out);
    `table`, the cosines of the first seed's learned rows; `reach` and `ring`, what `by_reach` and
    `by_ring` give for each seed of the reference scheme, in windows of max(reaches). curve: bits by
    position in the longest windows.
    """
    course, longest = Course.load(corpus), max(lengths)
    texts = windows(course.held_out["valid"][0], n_windows, longest)
    runs = [(scheme, scheme, train_length) for scheme in schemes]
    if reference is not None:
        runs.append((f"{reference}, trained at {longest}", reference, longest))
    rows, curve, table, reach, ring = [], [], None, [], []
    near = windows(course.held_out["valid"][0], n_windows, max(reaches))
    for name, scheme, length in runs:
        row = {"scheme": name, "train_length": length, "bits": [], "train_bits": []}
        for seed in seeds:
            model = build(scheme, course.vocab_size, longest, seed)
            history = train(model, course.train, length=length, n_steps=n_steps, seed=seed)
            row["train_bits"].append(float(np.mean(history[-max(1, n_steps // 10) :])))
            row["bits"].append(by_length(model, texts, lengths))
            curve += [
                {"scheme": name, "seed": seed, "position": BIN * i, "bits": loss}
                for i, loss in enumerate(by_position(model, texts))
            ]
            if name == reference:
                reach.append(by_reach(model, near, reaches))
                ring.append(by_ring(model, near, rings))
            if scheme == "learned" and table is None:
                table = cosines(model, train_length)
        row["parameters"] = n_parameters(model)
        rows.append(row)
    config = {
        "corpus": corpus, "sha256": corpora.load(corpus).sha256, "n_steps": n_steps,
        "train_length": train_length, "lengths": list(lengths), "n_windows": n_windows,
        "tokens": TOKENS, "scored": SCORED, "bin": BIN, "d_model": 64, "n_layers": 2, "n_heads": 4,
        "lr": 6e-3, "reaches": list(reaches), "rings": list(rings),
    }  # fmt: skip
    metrics = {"rows": rows, "table": table, "reach": reach, "ring": ring}
    return {"config": config, "seeds": list(seeds), "curve": curve, "metrics": metrics}
