"""Skip-gram with negative sampling: word vectors that predict (chapter 5).

Two matrices, W for words and C for contexts, (V, D) each. For a pair (w, c) that stands in one
window and k contexts n₁ … n_k drawn at random, the loss is

    −ln σ(W_w · C_c) − Σ_i ln σ(−W_w · C_nᵢ)        (Mikolov et al., 2013, equation 4)

A drawn context may by chance be the true one. At the optimum W_w · C_c = PMI(w, c) − ln k (Levy and
Goldberg, 2014), with the contexts' probabilities those that the negatives are drawn from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.data.tokens import as_ids
from unrolled.models.tensors import check_floats, check_ids
from unrolled.validate import array, checked, one_of, real, whole


class SkipGram(nn.Module):
    """The vectors of words and of contexts, and the loss of a batch.

    Words start uniform in ±1/(2D) and contexts at zero, as in the authors' program, so that the
    first loss is exactly (1 + k) ln 2.
    """

    def __init__(self, vocab_size: int, d: int) -> None:
        super().__init__()
        V, d = whole("vocab_size", vocab_size), whole("d", d)
        self.word = nn.Parameter(torch.empty(V, d).uniform_(-0.5 / d, 0.5 / d))
        self.context = nn.Parameter(torch.zeros(V, d))

    def forward(self, words: Tensor, contexts: Tensor, negatives: Tensor) -> Tensor:
        """The mean loss in nats of pairs words (B,), contexts (B,) with negatives (B, k)."""
        for name, ids in (("words", words), ("contexts", contexts), ("negatives", negatives)):
            check_ids(name, ids, len(self.word))
        shapes = [tuple(ids.shape) for ids in (words, contexts, negatives)]
        if shapes[0] != shapes[1] or shapes[2][:-1] != shapes[0] or not words.numel():
            raise ValueError(f"needs ids (B,), (B,), (B, k) with B ≥ 1, got {shapes}")
        w = F.embedding(words, self.word)  # (B, D)
        pulled = (w * F.embedding(contexts, self.context)).sum(-1)  # (B,)
        pushed = (F.embedding(negatives, self.context) @ w[:, :, None])[..., 0]  # (B, k)
        return -(F.logsigmoid(pulled) + F.logsigmoid(-pushed).sum(-1)).mean()


@checked
def pairs(
    tokens: ArrayLike, window: int, rng: np.random.Generator | None = None
) -> NDArray[np.int64]:
    """All pairs (word, context) of one text, (n, 2): two tokens at most `window` positions apart.

    With rng, each word draws its own window from 1 … `window`, as the paper's program does: near
    contexts then count more. The id −1 makes no pair but keeps its position.
    """
    ids, window = as_ids(tokens, -1, 2**31, "tokens", 1), whole("window", window)
    reach = np.full(len(ids), window) if rng is None else rng.integers(1, window + 1, len(ids))
    found = []
    for distance in range(1, min(window, len(ids) - 1) + 1):
        left, right = ids[:-distance], ids[distance:]
        both = (left >= 0) & (right >= 0)
        from_left = both & (reach[:-distance] >= distance)
        from_right = both & (reach[distance:] >= distance)
        found.append(np.stack([left[from_left], right[from_left]], axis=1))
        found.append(np.stack([right[from_right], left[from_right]], axis=1))
    return np.concatenate([np.empty((0, 2), dtype=np.int64), *found])


@checked
def keep_probability(counts: ArrayLike, threshold: float, *, rule: str = "paper") -> NDArray:
    """The probability (V,) with which an occurrence of each word is kept in subsampling.

    With the word's share f of all tokens and the threshold t, the paper discards with probability
    1 − √(t/f), so it keeps √(t/f); the authors' program ("program", word2vec.c) keeps
    √(t/f) + t/f. Both are cut at 1. A word that never occurs is kept.
    """
    one_of("rule", rule, ("paper", "program"))
    t, counts = real("threshold", threshold, above=0), array("counts", counts, 1)
    if (counts < 0).any() or not counts.sum() > 0:
        raise ValueError("counts must not be negative, and not all zero")
    ratio = t * counts.sum() / np.where(counts > 0, counts, 1e-300)
    keep = np.sqrt(ratio) + (ratio if rule == "program" else 0)
    return np.minimum(1, keep)


@dataclass(frozen=True, kw_only=True)
class SkipGramSettings:
    """How `train` trains. The defaults suit a text of a million words."""

    d: int = 50  # width of the vectors; published ones have 50 to 300
    window: int = 5  # the paper's
    negatives: int = 5  # the paper: 5–20 for small texts, 2–5 for large ones
    power: float = 0.75  # negatives are drawn by count ** power; the paper tried 0, 3/4 and 1
    threshold: float | None = 1e-3  # subsampling; for large texts the paper takes 1e-5
    n_epochs: int = 5
    batch_size: int = 2048  # pairs; the paper's program takes one at a time
    lr: float = 0.01  # of Adam, falling linearly to 0

    def __post_init__(self) -> None:
        for name in ("d", "window", "negatives", "n_epochs", "batch_size"):
            whole(name, getattr(self, name))
        real("power", self.power, 0)
        real("lr", self.lr, above=0)
        if self.threshold is not None:
            real("threshold", self.threshold, above=0)


@checked
def train(
    tokens: ArrayLike,
    vocab_size: int,
    settings: SkipGramSettings | None = None,
    *,
    seed: int,
    device: str | torch.device = "cpu",
) -> tuple[SkipGram, list[float]]:
    """Train on one text of ids (n,); the id −1 stands for words without a vector.

    Each epoch subsamples the text anew (a discarded token leaves no gap, as in the paper's program)
    and draws windows and negatives anew. Everything random comes from `seed`.

    Returns:
        the model, and its mean loss in nats over each epoch.
    """
    settings = settings or SkipGramSettings()
    V, seed = whole("vocab_size", vocab_size), whole("seed", seed, 0)
    ids = as_ids(tokens, -1, V, "tokens", 1)
    counts = np.bincount(ids[ids >= 0], minlength=V)
    if np.count_nonzero(counts) < 2:
        raise ValueError("tokens needs at least two different words")
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SkipGram(V, settings.d)
    model.to(device)
    draw = torch.Generator(device).manual_seed(seed)
    noise = torch.tensor(counts ** float(settings.power) * (counts > 0), device=device).cumsum(0)
    keep = np.ones(V)
    if settings.threshold is not None:
        keep = keep_probability(counts, settings.threshold)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr)
    losses = []
    for epoch in range(settings.n_epochs):
        kept = (ids < 0) | (rng.random(len(ids)) < keep[ids])
        found = rng.permutation(pairs(ids[kept], settings.window, rng))
        if not len(found):
            raise ValueError("no pair of words is left: is the text too short, or subsampled away?")
        batches = np.array_split(found, -(-len(found) // settings.batch_size))
        total = 0.0
        for step, batch in enumerate(batches):
            left = 1 - (epoch + step / len(batches)) / settings.n_epochs
            optimizer.param_groups[0]["lr"] = settings.lr * left
            words, contexts = torch.from_numpy(batch).to(device).T
            size = (len(batch), settings.negatives)
            loss = model(words, contexts, sample(noise, size, draw))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        losses.append(total / len(found))
    return model, losses


@checked
def sample(cumulative: Tensor, size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Ids drawn with probabilities whose running sum, times any constant, is `cumulative` (V,)."""
    check_floats(cumulative=cumulative)
    if cumulative.ndim != 1 or not len(cumulative):
        raise ValueError(f"cumulative must be (V,), got {tuple(cumulative.shape)}")
    at = torch.rand(size, dtype=cumulative.dtype, device=cumulative.device, generator=generator)
    ids = torch.searchsorted(cumulative, at * cumulative[-1], right=True)
    return ids.clamp_(max=len(cumulative) - 1)  # a product may be rounded up to the whole sum
