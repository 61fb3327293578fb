"""The most likely text of all, exactly: what beam search looks for and may miss.

Chapter 21 finds with it what a model thinks likeliest, which is seldom what anybody wrote.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unrolled.generation.reader import Reader, check_prompts, check_stops, stop_ids
from unrolled.training.evaluate import in_mode
from unrolled.validate import checked, whole


class Mode(NamedTuple):
    """A text, its log-probability, and what it took to be sure of it."""

    tokens: Tensor  # int64 (1, T + n), prompt and new tokens, the stop among them
    log_prob: float  # nats, of the new tokens
    n_reads: int  # how many beginnings the model was asked about


@checked
def exact_mode(
    model: nn.Module,
    prompt: Tensor,
    n_new: int,
    *,
    stop: int | Collection[int] | None = None,
    source: Tensor | None = None,
    source_mask: Tensor | None = None,
    max_reads: int = 10_000,
    cache: bool = True,
) -> Mode:
    """The text with the highest log P(new tokens | prompt, source) of all that there are.

    A text ends with a stop or after n_new tokens. Best-first search: a text is never more likely
    than its beginning, so when the likeliest beginning known is a whole text, nothing can surpass
    it. It is quick if that text has much of the probability, and hopeless if no text has.

    prompt: int64 (1, T); with the context's length at least T + n_new − 1. Others: as in
    `generate`. Of equally likely texts the first by ids. Raises RuntimeError with the bound that
    was reached after max_reads; ValueError and TypeError for arguments that do not fit.
    Source: Stahlberg & Byrne (2019), who search depth-first.
    """
    if len(check_prompts(prompt)) != 1:
        raise ValueError(f"prompt must be one, (1, T), got {tuple(prompt.shape)}")
    T, stops = prompt.shape[1], stop_ids(stop)
    reader = Reader(model, cache=cache, source=source, source_mask=source_mask)
    if reader.limit is not None and T + whole("n_new", n_new) - 1 > reader.limit:
        raise ValueError(f"{T} + {n_new} tokens do not fit into the context of {reader.limit}")
    beginnings, best = [(0.0, ())], math.inf  # nats and new tokens; nats of the best whole text
    with in_mode(model, training=False), torch.inference_mode():
        for n_reads in range(whole("max_reads", max_reads) + 1):
            nats, new = heapq.heappop(beginnings)
            if new and (new[-1] in stops or len(new) == n_new):
                break
            if n_reads == max_reads:
                raise RuntimeError(f"after {n_reads} reads a text may have up to {-nats:.3f} nats")
            tokens = torch.cat([prompt.long(), prompt.new_tensor([new]).long()], 1)
            logits = (reader.fork() if n_reads else reader).last(tokens)  # the prompt once
            check_stops(stops, logits.shape[1])
            sums = (nats - logits[0].cpu().double().log_softmax(-1)).tolist()
            is_last = len(new) + 1 == n_new
            best = min([best, *(x for i, x in enumerate(sums) if is_last or i in stops)])
            for token, x in enumerate(sums):
                if x <= best and x < math.inf:
                    heapq.heappush(beginnings, (x, (*new, token)))
    tokens = torch.cat([prompt.long(), torch.tensor([new], device=prompt.device)], 1)
    return Mode(tokens, -nats, n_reads)
