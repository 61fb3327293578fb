"""A model that writes reads its own text: what it expects after the last token, cache or none."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Collection, Sequence

import torch
from torch import Tensor, nn

from unrolled.validate import whole


class Reader:
    """The logits after the last token, through a cache while all tokens fit the context.

    One protocol for all models of the book: `model(tokens)`, or `model(source, tokens,
    source_mask)` where there is a source; `cache=` what `model.new_cache()` gave; and, where the
    model has `hidden` and `logits`, a head that reads the last position only.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        cache: bool,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
    ) -> None:
        """TypeError for cache=True with a model that has none."""
        if cache and not hasattr(model, "new_cache"):
            raise TypeError(f"{type(model).__name__} has no new_cache(): pass cache=False")
        _check_source(model, source, source_mask)
        config = getattr(model, "config", None)
        self.limit = getattr(model, "context_length", getattr(config, "context_length", None))
        self.model, self.n_read = model, 0
        self.cache = model.new_cache() if cache else None
        self.source, self.source_mask = source, source_mask

    def last(self, tokens: Tensor) -> Tensor:
        """(B, V) after tokens (B, T), which begin with those of the call before.

        Raises ValueError when a logit is NaN or the largest one infinite.
        """
        return self.logits(tokens, 1)[:, 0]

    def logits(self, tokens: Tensor, n: int) -> Tensor:
        """(B, n, V) after each of the last n of tokens (B, T), of which at least n are unread."""
        length, options = tokens.shape[1], {}
        if self.limit is not None and length > self.limit:
            # Every token has moved to another position, so the cache is of no use.
            tokens, self.cache = tokens[:, -self.limit :], None
        if self.cache is not None:
            tokens, self.n_read, options = tokens[:, self.n_read :], length, {"cache": self.cache}
        given = (tokens,) if self.source is None else (self.source, tokens, self.source_mask)
        if hasattr(self.model, "hidden"):
            logits = self.model.logits(self.model.hidden(*given, **options)[:, -n:])
        else:
            logits = self.model(*given, **options)[:, -n:]
        largest = logits.amax(-1)  # NaN if any is
        if not largest.isfinite().all():
            bad = largest[~largest.isfinite()][0].item()
            raise ValueError(f"the largest logit after {length} tokens is {bad}")
        return logits

    def fork(self) -> Reader:
        """A reader that goes on from here independently."""
        other = copy.copy(self)
        other.cache = None if self.cache is None else self.cache.fork()
        return other

    def crop(self, length: int) -> None:
        """Forget what was read of the tokens from `length` on."""
        if self.cache is not None and length < self.n_read:
            self.cache.crop(length)
            self.n_read = length

    def select(self, rows: Tensor) -> None:
        """Go on with the texts of these rows, int64 (B',), in this order; one may come twice."""
        if self.cache is not None:
            self.cache.select(rows)
        if self.source is not None:
            self.source = self.source[rows]
        if self.source_mask is not None:
            self.source_mask = self.source_mask[rows]


def _check_source(model: nn.Module, source: Tensor | None, source_mask: Tensor | None) -> None:
    """A source belongs to a model that reads (source, tokens, source_mask), and to no other."""
    parameters = inspect.signature(model.forward).parameters.values()
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    name, any_number = type(model).__name__, any(p.kind == p.VAR_POSITIONAL for p in parameters)
    if source is None and source_mask is not None:
        raise ValueError("source_mask belongs to a source, and there is none")
    if source is None and sum(p.default is p.empty for p in places) > 1:
        raise ValueError(f"{name} reads a source besides the prompt: give source")
    if source is not None and len(places) < 3 and not any_number:
        raise ValueError(f"{name} reads no source, got one of shape {tuple(source.shape)}")


def check_prompts(prompt: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """The prompts (T_b,), each int64, one for each row of the text."""
    given = [prompt] if isinstance(prompt, Tensor) else list(prompt)
    for x in given:
        if not isinstance(x, Tensor) or x.dtype not in (torch.int64, torch.int32):
            kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"prompt must be a tensor of integers or a list of them, got {kind}")
    if not given or any(x.ndim != 1 + (x is prompt) or 0 in x.shape for x in given):
        shapes = [tuple(x.shape) for x in given]
        raise ValueError(f"prompt must be (B, T) or a list of (T,), none of them 0, got {shapes}")
    return [row.long() for row in prompt]


def stop_ids(stop: int | Collection[int] | None) -> list[int]:
    """One id, several or none as a list."""
    stops = () if stop is None else stop if isinstance(stop, Collection) else (stop,)
    return [whole("stop", i.item() if isinstance(i, Tensor) else i, 0) for i in stops]


def check_stops(stops: list[int], vocab_size: int) -> None:
    """ValueError for a stop that no model of this vocabulary can write."""
    if max(stops, default=0) >= vocab_size:
        raise ValueError(f"stop must be ids below {vocab_size}, got {stops}")
