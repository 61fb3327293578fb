"""Speculative sampling: a small model guesses ahead, the large one reads all guesses at once.

What is kept has exactly the large model's distribution, whatever the small one guesses.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from unrolled.generation.reader import Reader, check_prompts
from unrolled.generation.samplers import Sampling
from unrolled.training.evaluate import in_mode
from unrolled.validate import checked, whole


class Speculation(NamedTuple):
    """A text, and how far the guesses carried."""

    tokens: Tensor  # int64 (1, T + n_new)
    n_reads: int  # of the large model; `generate` needs n_new
    n_accepted: int  # guesses that were kept


@checked
def speculate(
    model: nn.Module,
    draft: nn.Module,
    prompt: Tensor,
    n_new: int,
    *,
    n_ahead: int = 4,
    rng: torch.Generator | None = None,
    cache: bool = True,
    **sampling: float | None,
) -> Speculation:
    """n_new tokens after the prompt (1, T), distributed as those of `generate(model, …)`.

    draft, the small model, draws n_ahead tokens from its q; model gives its p for all of them in
    one read. A guess x is kept with probability min(1, p(x) / q(x)). At the first that is not, a
    token is drawn from max(0, p − q), normalised; if all are kept, one more from p.

    sampling: the fields of `Sampling`, for both. cache: of both, which must be able to forget
    (`crop`). rng: on the CPU. Raises ValueError for more tokens than a context holds, TypeError for
    a cache that cannot be cropped, and as `generate` does. Source: Leviathan, Kalman & Matias
    (2023), algorithm 1.
    """
    if len(check_prompts(prompt)) != 1:
        raise ValueError(f"prompt must be one, (1, T), got {tuple(prompt.shape)}")
    T, text = prompt.shape[1], prompt.long()
    end, n_ahead = T + whole("n_new", n_new, 0), whole("n_ahead", n_ahead)
    sampling = Sampling(**sampling)
    target, guesser = (Reader(m, cache=cache) for m in (model, draft))
    for reader in (target, guesser):
        if reader.limit is not None and end > reader.limit:
            raise ValueError(f"{end} tokens do not fit into the context of {reader.limit}")
        if cache and not hasattr(reader.cache, "crop"):
            name = type(reader.cache).__name__
            raise TypeError(f"a {name} cannot be cropped: pass cache=False")

    def probs(logits: Tensor, tokens: Tensor) -> Tensor:  # (V,) of what follows tokens
        is_new = (torch.arange(tokens.shape[1], device=tokens.device) >= T)[None]
        return sampling.probs(sampling.penalise(logits, tokens, is_new).cpu().double())[0]

    n_reads = n_accepted = 0
    with in_mode(model, training=False), in_mode(draft, training=False), torch.inference_mode():
        while (n := text.shape[1]) < end:
            guessed, q = text, []
            for _ in range(min(n_ahead, end - n - 1)):  # the last token is the large model's
                q.append(probs(guesser.last(guessed), guessed))
                guessed = _append(guessed, _draw(q[-1], rng))
            logits, n_reads = target.logits(guessed, len(q) + 1), n_reads + 1
            if q and len(q[0]) != logits.shape[-1]:
                raise ValueError(f"draft has {len(q[0])} tokens, model {logits.shape[-1]}")
            kept, p = 0, probs(logits[:, 0], text)
            while kept < len(q):
                x = guessed[0, n + kept]
                if torch.rand((), generator=rng, dtype=p.dtype) * q[kept][x] >= p[x]:
                    p = (p - q[kept]).clamp(min=0)
                    break
                kept += 1
                p = probs(logits[:, kept], guessed[:, : n + kept])
            text = _append(guessed[:, : n + kept], _draw(p, rng))
            n_accepted += kept
            for reader in (target, guesser):
                reader.crop(n + kept)  # the token just drawn has not been read
    return Speculation(text.clone(), n_reads, n_accepted)


def _draw(probs: Tensor, rng: torch.Generator | None) -> Tensor:
    return torch.multinomial(probs, 1, generator=rng)


def _append(text: Tensor, token: Tensor) -> Tensor:
    return torch.cat([text, token[None].to(text.device)], 1)
