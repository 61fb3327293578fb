"""How good a model is: nats, bits, perplexity, bits per byte, each averaged over tokens."""

from __future__ import annotations

import math

import numpy as np
import torch


def nll(
    log_probs: np.ndarray | torch.Tensor, targets: np.ndarray | torch.Tensor
) -> np.ndarray | torch.Tensor:
    """−log p(target) of every token, in nats: log_probs (..., V) and int targets (...) → (...).

    Arrays in, array out; tensors in, tensor out. Raises ValueError where the shapes do not fit or a
    target is no id.
    """
    if tuple(log_probs.shape[:-1]) != tuple(targets.shape):
        raise ValueError(
            f"targets must have the shape of log_probs without its last axis, "
            f"{tuple(log_probs.shape[:-1])}, got {tuple(targets.shape)}"
        )
    if math.prod(targets.shape):
        low, high, vocab_size = int(targets.min()), int(targets.max()), log_probs.shape[-1]
        if low < 0 or high >= vocab_size:
            raise ValueError(f"targets must lie in 0 … {vocab_size - 1}, got {low} … {high}")
    if isinstance(log_probs, torch.Tensor):
        return -log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return -np.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]


def bits(nats: float | np.ndarray) -> float | np.ndarray:
    """nats / ln 2: the same code length, counted in binary digits."""
    return nats / math.log(2)


def perplexity(mean_nats: float) -> float:
    """exp(mean nats per token): how many equally likely tokens would be as hard to guess.

    The mean must run over tokens. Perplexities themselves must never be averaged: see `Average`.
    """
    return float(np.exp(mean_nats))


def bits_per_byte(total_nats: float, n_bytes: int) -> float:
    """Code length of a text in bits for each byte of its UTF-8 form, whatever the tokens are.

    Raises ValueError unless n_bytes is at least 1.
    """
    if n_bytes < 1:
        raise ValueError(f"n_bytes must be at least 1, got {n_bytes}")
    return float(bits(total_nats) / n_bytes)


class Average:
    """Mean nats per token over batches of unequal size: Σ nats / Σ tokens.

    The mean of the batches' means, or of their perplexities, is another number: it counts a token
    of a short batch more than one of a long batch.
    """

    def __init__(self) -> None:
        self.total, self.n_tokens = 0.0, 0

    def add(self, nats: float | np.ndarray | torch.Tensor, n_tokens: int | None = None) -> None:
        """Add the nats of each token (any shape), or a mean together with its n_tokens."""
        if n_tokens is None:
            float64 = torch.float64 if isinstance(nats, torch.Tensor) else np.float64
            self.total += float(nats.sum(dtype=float64))
            self.n_tokens += math.prod(nats.shape)
        else:
            if n_tokens < 0:
                raise ValueError(f"n_tokens must be at least 0, got {n_tokens}")
            self.total += float(nats) * n_tokens
            self.n_tokens += n_tokens

    @property
    def nats(self) -> float:
        """Mean nats per token; ValueError before the first token."""
        if not self.n_tokens:
            raise ValueError("an average of no tokens is undefined: add some first")
        return self.total / self.n_tokens

    @property
    def bits(self) -> float:
        """Mean bits per token."""
        return bits(self.nats)

    @property
    def perplexity(self) -> float:
        """Perplexity per token."""
        return perplexity(self.nats)
