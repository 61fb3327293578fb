"""Search for the text to which a model gives the highest probability, nearly or exactly.

Beam search keeps the k best beginnings, extends each by every token, and keeps the k best again.
Chapter 21 shows that a better search may find a worse text: what is likeliest of all, which
`exact_mode` finds, is seldom what anybody wrote.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unrolled.generation.reader import Reader, check_prompts, check_stops, stop_ids
from unrolled.training.evaluate import in_mode
from unrolled.validate import checked, one_of, real, whole

# What a text's log-probability is divided by, for n new tokens, its stop among them.
DIVISORS = {
    "n**alpha": lambda n, alpha: n**alpha,  # transformers, which calls alpha "length_penalty"
    "((5+n)/6)**alpha": lambda n, alpha: ((5 + n) / 6) ** alpha,  # Wu et al. (2016), equation 14
}


class Hypotheses(NamedTuple):
    """The best texts found for each prompt, best first."""

    tokens: Tensor  # int64 (B, n_best, T + n): prompt and new tokens; after a stop it is repeated
    scores: Tensor  # (B, n_best): log-probability / divisor, in nats; −∞ where there are too few
    lengths: Tensor  # int64 (B, n_best): new tokens, the stop among them


@checked
def beam_search(
    model: nn.Module,
    prompt: Tensor,
    n_new: int,
    *,
    n_beams: int,
    n_best: int = 1,
    alpha: float = 0.0,
    divisor: str = "n**alpha",
    early_stopping: bool | str = False,
    stop: int | Collection[int] | None = None,
    source: Tensor | None = None,
    source_mask: Tensor | None = None,
    cache: bool = True,
) -> Hypotheses:
    """The n_best texts with the highest log P(new tokens | prompt, source) / divisor.

    A text is finished with a stop, or after n_new tokens. One step: of all extensions of the k
    open beginnings take the k best by probability. Those that are finished go into a list of the k
    best by score; the k best that are not stay open.

    model, source, source_mask, cache, stop: as in `generate`. prompt: int64 (B, T), all of
        one length.
    n_beams: k. n_best: at most k. alpha, divisor: one of DIVISORS. 0 compares probabilities, which
        favours short texts. Since scores are negative, a larger alpha favours longer ones.
    early_stopping: True ends a search when k texts are finished. Otherwise it ends when no open
        beginning, with its present probability, scores above the worst of k finished texts:
        "never" takes the length that is best for it, and misses nothing that the beams would
        find; False its present length, which may miss a longer text where alpha is above 0, but
        is transformers' default.

    The texts and scores are those of `generate(num_beams=k)` in transformers. Log-probabilities
    are added up in float64. Raises ValueError and TypeError for arguments that do not fit, and as
    `generate` does. Source: Graves (2012); Wu et al. (2016), section 7.
    """
    k = whole("n_beams", n_beams)
    whole("n_best", n_best, 1, k)
    divide = DIVISORS[one_of("divisor", divisor, DIVISORS)]
    alpha = real("alpha", alpha, -100, 100)
    one_of("early_stopping", early_stopping, (True, False, "never"))
    check_prompts(prompt)
    whole("n_new", n_new)
    (B, T), device = prompt.shape, prompt.device
    stops = stop_ids(stop)
    stops_on_device = torch.tensor(stops, dtype=torch.int64, device=device)
    reader = Reader(model, cache=cache, source=source, source_mask=source_mask)
    first_row = torch.arange(B, device=device)[:, None] * k  # of each prompt's k rows
    text = nn.functional.pad(prompt.long(), (0, n_new))[:, None].repeat(1, k, 1)  # (B, k, T + n)
    dtype = torch.float32 if device.type == "mps" else torch.float64  # which MPS does not have
    open_scores = torch.full((B, k), -torch.inf, device=device, dtype=dtype)
    finished = Hypotheses(text, open_scores, torch.zeros_like(text[..., 0]))
    open_scores = open_scores.index_fill(1, first_row[0], 0)  # k equal beginnings count once
    searching = torch.ones(B, 1, dtype=torch.bool, device=device)

    with in_mode(model, training=False), torch.inference_mode():
        for n in range(1, n_new + 1):
            if n == 1:  # the prompts are read once, not k times
                logits = reader.last(text[:, 0, :T])
                check_stops(stops, logits.shape[-1])
                reader.select(torch.arange(B, device=device).repeat_interleave(k))
                logits = logits.repeat_interleave(k, 0)
            else:
                logits = reader.last(text[..., : T + n - 1].flatten(0, 1))
            log_probs = logits.log_softmax(-1, dtype=dtype).view(B, k, -1)
            totals = (open_scores[..., None] + log_probs).flatten(1)  # (B, k·V)
            # at most len(stops) of a beginning's extensions are finished: so k are left open
            best, at = totals.topk(min((1 + len(stops)) * k, totals.shape[1]))  # (B, C)
            beam, token = at // logits.shape[-1], at % logits.shape[-1]
            extended = _rows(text, beam)
            extended[..., T + n - 1 :] = token[..., None]
            ends = torch.isin(token, stops_on_device) | (n == n_new)

            scores = (best / divide(n, alpha)).masked_fill(~(ends & searching), -torch.inf)[:, :k]
            new = Hypotheses(extended[:, :k], scores, torch.full_like(at[:, :k], n))
            finished = _best(finished, new)

            open_scores, kept = best.masked_fill(ends, -torch.inf).topk(k)
            text = _rows(extended, kept)
            worst = finished.scores.amin(1, keepdim=True)  # −∞ while fewer than k are finished
            longest = n_new if early_stopping == "never" and alpha > 0 else n
            searching &= open_scores[:, :1] / divide(longest, alpha) > worst
            if early_stopping and early_stopping != "never":
                searching &= worst.isneginf()
            if not searching.any():
                break
            reader.select((first_row + beam.gather(1, kept)).flatten())
    n = int(finished.lengths[:, :n_best].max())
    tokens, scores, lengths = (x[:, :n_best].clone() for x in finished)
    return Hypotheses(tokens[..., : T + n], scores, lengths)


def _best(one: Hypotheses, other: Hypotheses) -> Hypotheses:
    """The best of both, as many as one has."""
    tokens, scores, lengths = (torch.cat(pair, 1) for pair in zip(one, other, strict=True))
    scores, kept = scores.topk(one.scores.shape[1])
    return Hypotheses(_rows(tokens, kept), scores, lengths.gather(1, kept))


def _rows(x: Tensor, at: Tensor) -> Tensor:
    """(B, C, n) from x (B, k, n), at (B, C)."""
    return x.gather(1, at[..., None].expand(-1, -1, x.shape[-1]))


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
    T, stops, max_reads = prompt.shape[1], stop_ids(stop), whole("max_reads", max_reads)
    whole("n_new", n_new)
    reader = Reader(model, cache=cache, source=source, source_mask=source_mask)
    if reader.limit is not None and T + n_new - 1 > reader.limit:
        raise ValueError(f"{T} + {n_new} tokens do not fit into the context of {reader.limit}")
    beginnings, best = [(0.0, ())], math.inf  # nats and new tokens; nats of the best whole text
    with in_mode(model, training=False), torch.inference_mode():
        for n_reads in itertools.count():
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
