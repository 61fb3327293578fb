"""Text from a model, token by token: greedy or drawn, from all tokens or from the likeliest ones.

Chapter 1 draws from a distribution, chapter 12 from a model; chapter 20 reads on from a cache.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor, nn

from unrolled.training.evaluate import in_mode
from unrolled.validate import real, whole


def generate(
    model: nn.Module,
    prompt: Tensor | Sequence[Tensor],
    n_new: int,
    *,
    source: Tensor | None = None,
    source_mask: Tensor | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    rng: torch.Generator | None = None,
    cache: bool = True,
    stop: int | Collection[int] | None = None,
) -> Tensor | list[Tensor]:
    """The prompt and up to n_new tokens after it, each drawn from softmax(logits / temperature).

    model: tokens (B, T) → logits (B, T, V); with cache also model(tokens, cache=model.new_cache()).
        If the model or its `config` has a `context_length`, it reads at most so many last tokens.
    prompt: int64 (B, T), T ≥ 1; or a list of B prompts (T_b,) of any lengths. They are read side by
        side, without padding: from the end of the shortest on, one token at a time.
    n_new: how many tokens to add to each prompt, at least 0.
    source, source_mask: (B, S) for an encoder–decoder, (source, tokens, source_mask) → logits.
    temperature: at least 0; 0 takes the likeliest token, of equal ones the first.
    top_k, top_p: draw from the likeliest tokens only, see the two filters; after temperature.
    rng: a generator on the CPU, which decides all that is random; None: torch's own.
    cache: read each token once, which changes the time, not the tokens. Once the context is full,
        the window is read again each time either way.
    stop: one id or several. A sequence that drew one repeats it; generation ends when all did.

    Returns int64 (B, T + n), n ≤ n_new, on the prompt's device; for a list one row (T_b + n,) each,
    up to its first stop. The model runs in evaluation mode, without gradients; after it, each part
    has the mode it had. Raises ValueError and TypeError for arguments that do not fit, ValueError
    when a logit is NaN or the largest one infinite.
    Sources: top-k, Fan, Lewis & Dauphin (2018); top-p, Holtzman et al. (2020).
    """
    whole("n_new", n_new, 0)
    real("temperature", temperature, 0)
    _check_filters(top_k, top_p)
    rows = _rows(prompt)
    stops = () if stop is None else stop if isinstance(stop, Collection) else (stop,)
    stops = [whole("stop", i.item() if isinstance(i, Tensor) else i, 0) for i in stops]
    stops = torch.tensor(stops, device=rows[0].device).long()
    lengths = torch.tensor([len(row) for row in rows], device=rows[0].device)
    text = nn.utils.rnn.pad_sequence([row.long() for row in rows], batch_first=True)
    text = nn.functional.pad(text, (0, n_new))  # (B, the longest prompt + n_new)
    ends, done = lengths + n_new, torch.zeros_like(lengths, dtype=torch.bool)
    n_read = min(map(len, rows)) if n_new else text.shape[1]
    with in_mode(model, training=False), torch.inference_mode():
        reader = _Reader(model, cache, source, source_mask)
        while n_read < text.shape[1] and not done.all():
            logits = reader.last(text[:, :n_read])  # (B, V)
            if (stops >= logits.shape[1]).any():
                raise ValueError(f"stop must be ids below {logits.shape[1]}, got {stops.tolist()}")
            drawn = _draw(logits, temperature, top_k, top_p, rng)
            drawn = torch.where(done, text[:, n_read - 1], drawn)
            new = torch.where(n_read < lengths, text[:, n_read], drawn)
            text[:, n_read] = new
            n_read += 1
            stopped = ~done & torch.isin(new, stops) & (n_read > lengths)
            ends = torch.where(stopped, n_read, ends)
            done |= n_read >= ends
    if isinstance(prompt, Tensor):
        return text[:, :n_read].clone()
    return [row[:end].clone() for row, end in zip(text, ends.tolist(), strict=True)]


def _rows(prompt: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """The prompts (T_b,), one for each row of the text."""
    given = [prompt] if isinstance(prompt, Tensor) else list(prompt)
    for x in given:
        if not isinstance(x, Tensor) or x.dtype not in (torch.int64, torch.int32):
            kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"prompt must be a tensor of integers or a list of them, got {kind}")
    if not given or any(x.ndim != 1 + (x is prompt) or 0 in x.shape for x in given):
        shapes = [tuple(x.shape) for x in given]
        raise ValueError(f"prompt must be (B, T) or a list of (T,), none of them 0, got {shapes}")
    return list(prompt)


def top_k_filter(logits: Tensor, top_k: int) -> Tensor:
    """logits (…, V) with −∞ for all but the top_k largest; of equal ones the first are kept."""
    _check_filters(top_k, None)
    if top_k >= logits.shape[-1]:
        return logits
    smallest = logits.topk(top_k).values[..., -1:]
    above, equal = logits > smallest, logits == smallest
    keep = above | (equal & (equal.cumsum(-1) <= top_k - above.sum(-1, keepdim=True)))
    return logits.masked_fill(~keep, -torch.inf)


def top_p_filter(logits: Tensor, top_p: float) -> Tensor:
    """logits (…, V) with −∞ for all but the nucleus, the smallest number of likeliest tokens whose
    probabilities add up to top_p or more; the likeliest token always stays."""
    _check_filters(None, top_p)
    if top_p == 1:  # rounding would cut the tail
        return logits
    ordered, ids = logits.sort(dim=-1, descending=True, stable=True)
    probs = ordered.softmax(-1)
    keep = probs.cumsum(-1) - probs < top_p  # the sum of all that are likelier
    keep[..., 0] = True
    return logits.masked_fill(~torch.zeros_like(keep).scatter(-1, ids, keep), -torch.inf)


class _Reader:
    """The logits after the last token, through a cache while all tokens fit the context."""

    def __init__(self, model: nn.Module, cache: bool, source, source_mask) -> None:
        if cache and not hasattr(model, "new_cache"):
            raise TypeError(f"{type(model).__name__} has no new_cache(): pass cache=False")
        config = getattr(model, "config", None)
        self.limit = getattr(model, "context_length", getattr(config, "context_length", None))
        self.model, self.n_read = model, 0
        self.cache = model.new_cache() if cache else None
        self.source, self.source_mask = source, source_mask

    def last(self, tokens: Tensor) -> Tensor:
        """(B, V) after tokens (B, T), which begin with those of the call before."""
        n, options = tokens.shape[1], {}
        if self.limit is not None and n > self.limit:
            # Every token has moved to another position, so the cache is of no use.
            tokens, self.cache = tokens[:, -self.limit :], None
        if self.cache is not None:
            tokens, self.n_read, options = tokens[:, self.n_read :], n, {"cache": self.cache}
        if self.source is not None:
            logits = self.model(self.source, tokens, self.source_mask, **options)[:, -1]
        elif hasattr(self.model, "hidden"):
            logits = self.model.logits(self.model.hidden(tokens, **options)[:, -1])
        else:
            logits = self.model(tokens, **options)[:, -1]
        largest = logits.amax(-1)  # NaN if any is
        if not largest.isfinite().all():
            bad = largest[~largest.isfinite()][0].item()
            raise ValueError(f"the largest logit after {n} tokens is {bad}")
        return logits


def _draw(logits, temperature, top_k, top_p, rng) -> Tensor:
    """(B,) from logits (B, V)."""
    if temperature == 0:
        return logits.argmax(-1)
    # In float64 on the CPU, one seed draws the same tokens whatever the device.
    scaled = logits.cpu().double()
    scaled = (scaled - scaled.amax(-1, keepdim=True)) / temperature  # ≤ 0: no overflow
    scaled = scaled if top_k is None else top_k_filter(scaled, top_k)
    scaled = scaled if top_p is None else top_p_filter(scaled, top_p)
    return torch.multinomial(scaled.softmax(-1), 1, generator=rng)[:, 0].to(logits.device)


def _check_filters(top_k: int | None, top_p: float | None) -> None:
    if top_k is not None:
        whole("top_k", top_k)
    if top_p is not None:
        real("top_p", top_p, above=0, at_most=1)
