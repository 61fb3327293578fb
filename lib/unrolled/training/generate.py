"""Text from a model, token by token: greedy or drawn, from all words or from the likeliest ones."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Collection, Iterator

import torch
from torch import Tensor, nn


def generate(
    model: nn.Module,
    prompt: Tensor,
    n_new: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    rng: torch.Generator | None = None,
    cache: bool = True,
    stop: int | Collection[int] | None = None,
) -> Tensor:
    """The prompt and up to n_new tokens after it, each drawn from softmax(logits / temperature).

    model: tokens (B, T) → logits (B, T, V); with cache also model.read(tokens, state) → (logits,
        state). If the model or its `config` has a `context_length`, only so many last tokens are
        read once there are more.
    prompt: int64 (B, T), T ≥ 1. n_new: how many tokens to add, at least 0.
    temperature: at least 0; 0 takes the likeliest token, of equal ones the first.
    top_k, top_p: draw from the likeliest tokens only; see `keep_top`, applied after temperature.
    rng: a generator on the CPU, which decides all that is random; None: torch's own.
    cache: read each token once, through a state. It changes the time, not the tokens; where the
        context is full, the window is read anew each time either way.
    stop: one id or several. A sequence that has drawn one goes on with that token, and generation
        ends when all have.

    Returns int64 (B, T + n), n ≤ n_new, on the prompt's device. The model answers in evaluation
    mode, without gradients, and is put back into the mode it had. Raises ValueError and TypeError
    for arguments that do not fit, ValueError when the largest logit is not finite.
    Sources: top-k, Fan, Lewis & Dauphin (2018); top-p, Holtzman et al. (2020).
    """
    if not isinstance(prompt, Tensor) or prompt.dtype not in (torch.int64, torch.int32):
        kind = prompt.dtype if isinstance(prompt, Tensor) else type(prompt).__name__
        raise TypeError(f"prompt must be a tensor of integers, got {kind}")
    if prompt.ndim != 2 or 0 in prompt.shape:
        raise ValueError(f"prompt must be (B, T), none of them 0, got {tuple(prompt.shape)}")
    if n_new < 0:
        raise ValueError(f"n_new must be at least 0, got {n_new}")
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be at least 0, got {temperature}")
    _check_top(top_k, top_p)
    stops = () if stop is None else stop if isinstance(stop, Collection) else (stop,)
    ends = torch.tensor([operator.index(i) for i in stops], device=prompt.device).long()
    tokens, done = prompt.long(), torch.zeros_like(prompt[:, 0], dtype=torch.bool)
    with _asked(model), torch.inference_mode():
        reader = _Reader(model, cache)
        for _ in range(n_new):
            logits = reader.last(tokens)  # (B, V)
            new = torch.where(done, tokens[:, -1], _draw(logits, temperature, top_k, top_p, rng))
            tokens = torch.cat([tokens, new[:, None]], dim=1)  # (B, T + 1)
            done = torch.isin(new, ends)  # the repeated token is a stop, too
            if done.all():
                break
    return tokens.clone()  # outside of inference_mode, so that it may be trained on


def keep_top(logits: Tensor, top_k: int | None = None, top_p: float | None = None) -> Tensor:
    """logits (…, V) with −∞ for the tokens that are not among the likeliest.

    top_k: keep the k likeliest, at least 1; more than V keep all. Ties: the smaller id is kept.
    top_p: in (0, 1]; then keep the smallest number of likeliest tokens whose probabilities, of
        those that top_k has kept, add up to top_p or more; the likeliest one always.

    Raises ValueError for values outside these.
    """
    _check_top(top_k, top_p)
    if top_k is None and top_p in (None, 1):
        return logits
    ordered, ids = logits.sort(dim=-1, descending=True, stable=True)
    places = torch.arange(logits.shape[-1], device=logits.device)
    keep = (places < (logits.shape[-1] if top_k is None else top_k)).expand(logits.shape)
    if top_p not in (None, 1):  # with 1, rounding would cut the tail
        probs = ordered.masked_fill(~keep, -torch.inf).double().softmax(-1)
        before = probs.cumsum(-1) - probs  # of all that are likelier
        keep = keep & ((before < top_p) | (places == 0))
    kept = torch.zeros_like(keep).scatter(-1, ids, keep)
    return logits.masked_fill(~kept, -torch.inf)


class _Reader:
    """The logits after the last token, through a state as long as all tokens fit the context."""

    def __init__(self, model: nn.Module, cache: bool) -> None:
        if cache and not callable(getattr(model, "read", None)):
            raise TypeError(f"{type(model).__name__} has no read(tokens, state): pass cache=False")
        config = getattr(model, "config", None)
        limit = getattr(model, "context_length", getattr(config, "context_length", None))
        self.model, self.cache, self.limit = model, cache, limit
        self.state, self.n_read = None, 0

    def last(self, tokens: Tensor) -> Tensor:
        """(B, V) after tokens (B, T), which begin with those of the call before."""
        if self.limit is not None and tokens.shape[1] > self.limit:
            # Each token's position is another than before, so that nothing stored is of use.
            logits, self.state = self.model(tokens[:, -self.limit :]), None
        elif not self.cache:
            logits = self.model(tokens)
        else:
            logits, self.state = self.model.read(tokens[:, self.n_read :], self.state)
            self.n_read = tokens.shape[1]
        if not (largest := logits[:, -1].amax(-1)).isfinite().all():
            bad = largest[~largest.isfinite()][0].item()
            raise ValueError(f"the largest logit after {tokens.shape[1]} tokens is {bad}")
        return logits[:, -1]


def _draw(logits, temperature, top_k, top_p, rng) -> Tensor:
    """(B,) from logits (B, V)."""
    if temperature == 0:
        return logits.argmax(-1)
    # In float64 on the CPU, one seed draws the same tokens whatever the device.
    scaled = logits.double().cpu()
    scaled = (scaled - scaled.amax(-1, keepdim=True)) / temperature  # ≤ 0: no overflow
    probs = keep_top(scaled, top_k, top_p).softmax(-1)
    return torch.multinomial(probs, 1, generator=rng)[:, 0].to(logits.device)


def _check_top(top_k: int | None, top_p: float | None) -> None:
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], got {top_p}")


@contextlib.contextmanager
def _asked(model: nn.Module) -> Iterator[None]:
    """Within, the model is in evaluation mode; after it, each part is in the mode it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
