"""How good a model is: nats, bits, perplexity and bits per byte, one `evaluate` for every model.

Chapter 1 derives the units; the ladder compares all models of the book by them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from unrolled.data.tokens import as_ids
from unrolled.training import _runtime
from unrolled.training.batch_iterator import to_device
from unrolled.validate import LARGEST, array, checked, whole

if TYPE_CHECKING:
    from unrolled.training.fit import Trainer

Model = Callable[[np.ndarray], np.ndarray] | nn.Module


def bits(nats: float | np.ndarray) -> float | np.ndarray:
    """nats / ln 2: the same code length, counted in binary digits."""
    return (nats if isinstance(nats, float) else array("nats", nats)) / math.log(2)


def perplexity(mean_nats: float) -> float:
    """exp(mean nats per token): how many equally likely tokens would be as hard to guess.

    The mean must run over tokens. Perplexities themselves must never be averaged: see `Evaluation`.
    """
    return float(np.exp(_cost("mean_nats", mean_nats)))


def bits_per_byte(total_nats: float, n_bytes: int) -> float:
    """Code length of a text in bits for each byte of its UTF-8 form, whatever the tokens are.

    Raises ValueError unless n_bytes is at least 1.
    """
    return float(bits(_cost("total_nats", total_nats)) / whole("n_bytes", n_bytes))


def _cost(name: str, nats: float) -> float:
    """Nats as a float, at least 0 but for rounding; ∞ where a token has the probability 0."""
    nats = float(array(name, nats, 0))
    if not nats > -1e-6:
        raise ValueError(f"{name} must be at least 0, got {nats}")
    return nats


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a text cost under a model: total nats for n_tokens tokens, n_bytes bytes.

    Totals are added up (a + b), never averaged: a mean of the batches' means, or of their
    perplexities, counts a token of a short batch more than one of a long batch.
    """

    nats: float
    n_tokens: int
    n_bytes: int

    def __add__(self, other: Evaluation) -> Evaluation:
        return Evaluation(**{name: x + getattr(other, name) for name, x in vars(self).items()})

    @property
    def bits_per_byte(self) -> float:
        return bits_per_byte(self.nats, self.n_bytes)

    @property
    def perplexity(self) -> float:
        """Per token; ValueError for no tokens."""
        return perplexity(self.nats / whole("n_tokens", self.n_tokens))


@checked
def evaluate(
    model: Model,
    tokens: np.ndarray,
    n_bytes: int,
    *,
    start: int,
    context_length: int | None = None,
    overlap: int | None = None,
    batch_size: int = 16,
) -> Evaluation:
    """Score every token of a text, the first as if `start` stood before it.

    model: (B, T) ids → (B, T, V) logits or log-probabilities. A torch module reads a tensor on its
    device, in evaluation mode; anything else (an n-gram model) reads an int64 array. tokens: (n,),
    read in windows of context_length, the model's own when left out, or 256 where it has none. A
    window repeats the last `overlap` tokens of the one before (128, or half a shorter window)
    without scoring them again, so each score but the first few has at least that much context.
    Raises ValueError for impossible lengths.
    """
    if context_length is None:
        config = getattr(model, "config", None)
        own = getattr(model, "context_length", getattr(config, "context_length", None))
        context_length = own or 256
    overlap = min(128, context_length // 2) if overlap is None else overlap
    tokens = as_ids(tokens, 0, LARGEST, "tokens", 1)
    n = whole("the number of tokens", len(tokens))
    whole("n_bytes", n_bytes)
    whole("batch_size", batch_size)
    whole("overlap", overlap, 0, whole("context_length", context_length) - 1)
    inputs = np.concatenate([[start], tokens[:-1]])
    width = min(context_length, n)
    starts = np.arange(0, n - width + 1, context_length - overlap)
    if starts[-1] + width < n:
        starts = np.append(starts, n - width)
    columns = starts[:, None] + np.arange(width)  # (windows, width) positions in the text
    done = np.concatenate([[0], starts[:-1] + width])  # positions scored before each window
    total = 0.0
    for i in range(0, len(starts), batch_size):
        at = columns[i : i + batch_size]
        nats = _nats(model, inputs[at], tokens[at])
        total += float(nats[at >= done[i : i + batch_size, None]].sum())
    return Evaluation(nats=total, n_tokens=n, n_bytes=n_bytes)


def _nats(model: Model, tokens: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(B, T) float64, whether the model gives logits or log-probabilities."""
    if not isinstance(model, nn.Module):
        out = torch.from_numpy(np.ascontiguousarray(model(tokens)))
        # A row of −inf only (maximum likelihood after an unseen context) has nothing to normalise.
        lost = out.isneginf().all(-1, True)
        log_probs = torch.where(lost, out, out.double().log_softmax(-1))
        return -log_probs.gather(-1, torch.from_numpy(targets)[..., None])[..., 0].numpy()
    device = next(model.parameters()).device
    dtype = torch.float32 if device.type == "mps" else torch.float64  # which MPS does not have
    with in_mode(model, training=False), torch.inference_mode():
        log_probs = model(torch.from_numpy(tokens).to(device)).to(dtype).log_softmax(-1)
        chosen = log_probs.gather(-1, torch.from_numpy(targets).to(device)[..., None])
    return -chosen[..., 0].cpu().double().numpy()


def validation_loss(trainer: Trainer) -> float:
    """Mean nats over a fit's validation batches, or what its function of the model says.

    In processes each reads its rows. Raises ValueError if no target has a weight.
    """
    model, valid, own = trainer.model, trainer.valid, (0.0, 0.0)
    with in_mode(model, training=False), _runtime.fork_rng(None, trainer.device):
        if not callable(valid):
            cache = model.new_cache() if trainer.config.carry_state else None
            with torch.no_grad():
                moved = (to_device(batch, trainer.device, trainer.dtype) for batch in valid)
                found = [trainer.forward(batch, cache) for batch in moved]
            own = tuple(sum(_runtime.to_floats([pair[i] for pair in found])) for i in (0, 1))
        elif trainer.processes.rank == 0:
            own = float(valid(model)), 1.0
    nats, weight = trainer.processes.sum(torch.tensor(own, dtype=torch.float64)).tolist()
    if weight == 0:
        raise ValueError("no target of the validation batches has a weight")
    return nats / weight


@contextlib.contextmanager
def in_mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    """Within, all parts of the model are in one mode; after it, each part has the mode it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, before in modes:
            module.training = before
