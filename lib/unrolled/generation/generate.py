"""Text from a model, token by token, at once (`generate`) or as it comes (`stream`).

Chapter 1 draws from a distribution, chapter 12 from a model; chapter 21 compares the ways to
choose (`samplers`) and reads on from a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import torch
from torch import Tensor, nn

from unrolled.generation.reader import Reader, check_prompts, check_stops, stop_ids
from unrolled.generation.samplers import Sampling, _left, _without
from unrolled.training.evaluate import in_mode
from unrolled.validate import checked, whole


@checked
def generate(
    model: nn.Module,
    prompt: Tensor | Sequence[Tensor],
    n_new: int,
    *,
    source: Tensor | None = None,
    source_mask: Tensor | None = None,
    rng: torch.Generator | None = None,
    cache: bool = True,
    stop: int | Collection[int] | None = None,
    min_new_tokens: int = 0,
    stop_strings: str | Collection[str] = (),
    decode: Callable[[list[int]], str] | None = None,
    **sampling: float | None,
) -> Tensor | list[Tensor]:
    """The prompt and up to n_new tokens after it, each drawn from softmax(logits / temperature).

    model: tokens (B, T) → logits (B, T, V); with cache also model(tokens, cache=model.new_cache()).
        If the model or its `config` has a `context_length`, it reads at most so many last tokens.
    prompt: int64 (B, T), T ≥ 1; or a list of B prompts (T_b,) of any lengths. They are read side by
        side, without padding: from the end of the shortest on, one token at a time.
    n_new: how many tokens to add to each prompt, at least 0.
    source, source_mask: (B, S) for an encoder–decoder, (source, tokens, source_mask) → logits.
    rng: a generator on the CPU, which decides all that is random; None: torch's own.
    cache: read each token once, which changes the time, not the tokens. Once the context is full,
        the window is read again each time either way.
    stop: one id or several. A sequence that drew one repeats it; generation ends when all did.
    min_new_tokens: before so many new ones no stop is drawn.
    stop_strings: one or several; a sequence stops likewise at the token that completes one of them
        in decode(its new tokens). decode: from a list of ids to text.
    sampling: the fields of `Sampling`: temperature, top_k, top_p, min_p, typical_p; penalties for
        repetition, presence and frequency; no_repeat_ngram_size and suppress_tokens.

    Returns int64 (B, T + n), n ≤ n_new, on the prompt's device; for a list one row (T_b + n,) each,
    up to its first stop. The model runs in evaluation mode, without gradients; after it, each part
    has the mode it had. Raises ValueError and TypeError for arguments that do not fit, ValueError
    when a logit is NaN or the largest one infinite.
    """
    text = _Text(prompt, n_new, stop, min_new_tokens, stop_strings, decode)
    sampling = Sampling(**sampling)
    reader = Reader(model, cache=cache, source=source, source_mask=source_mask)
    with in_mode(model, training=False), torch.inference_mode():
        while text.goes_on:
            text.write(reader.last(text.read), sampling, rng)
    if isinstance(prompt, Tensor):
        return text.tokens[:, : text.n_read].clone()
    return [row[:end].clone() for row, end in zip(text.tokens, text.ends.tolist(), strict=True)]


@checked
def stream(
    model: nn.Module,
    prompt: Tensor | Sequence[Tensor],
    n_new: int,
    *,
    source: Tensor | None = None,
    source_mask: Tensor | None = None,
    rng: torch.Generator | None = None,
    cache: bool = True,
    stop: int | Collection[int] | None = None,
    min_new_tokens: int = 0,
    stop_strings: str | Collection[str] = (),
    decode: Callable[[list[int]], str] | None = None,
    **sampling: float | None,
) -> Iterator[list[int | None]]:
    """The tokens of `generate` as they come: for each step a list of the B new ones.

    None stands for a sequence that has stopped or whose prompt is still being read. Arguments are
    checked at the call; the model has its own modes between the steps.

        for (token,) in stream(model, prompt, 100, temperature=0.8, stop=end):
            print(decode([token]), end="", flush=True)
    """
    text = _Text(prompt, n_new, stop, min_new_tokens, stop_strings, decode)
    sampling = Sampling(**sampling)
    reader = Reader(model, cache=cache, source=source, source_mask=source_mask)

    def steps() -> Iterator[list[int | None]]:
        while text.goes_on:
            with in_mode(model, training=False), torch.inference_mode():
                written = text.write(reader.last(text.read), sampling, rng)
            new = text.tokens[:, text.n_read - 1]
            yield [i if w else None for i, w in zip(new.tolist(), written.tolist(), strict=True)]

    return steps()


class _Text:
    """Texts that grow side by side: prompts are copied, then tokens are drawn, until all end."""

    def __init__(self, prompt, n_new: int, stop, min_new, stop_strings, decode) -> None:
        rows = check_prompts(prompt)
        device = rows[0].device
        self.stop_ids = stop_ids(stop)
        self.stops = torch.tensor(self.stop_ids, dtype=torch.int64, device=device)
        self.min_new = whole("min_new_tokens", min_new, 0)
        self.strings = [stop_strings] if isinstance(stop_strings, str) else list(stop_strings)
        if self.strings and not ("" not in self.strings and callable(decode)):
            raise ValueError(f"stop_strings {self.strings} need a decode, and none may be empty")
        self.decode = decode
        self.lengths = torch.tensor([len(row) for row in rows], device=device)
        self.ends = self.lengths + whole("n_new", n_new, 0)  # one past each text's last token
        self.done = torch.zeros_like(self.lengths, dtype=torch.bool)
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        self.tokens = nn.functional.pad(tokens, (0, n_new))  # (B, the longest prompt + n_new)
        self.n_read = min(map(len, rows)) if n_new else self.tokens.shape[1]

    @property
    def goes_on(self) -> bool:
        if self.n_read == self.tokens.shape[1]:
            return False
        can_stop = self.stop_ids or self.strings  # else nobody need wait for a GPU to know
        return not (can_stop and bool(self.done.all()))

    @property
    def read(self) -> Tensor:
        """(B, n_read): what the next token is drawn after."""
        return self.tokens[:, : self.n_read]

    def write(self, logits: Tensor, sampling: Sampling, rng: torch.Generator | None) -> Tensor:
        """Add a token to each text; (B,), where it was drawn, not copied from prompt or end."""
        check_stops(self.stop_ids, logits.shape[1])
        n, tokens = self.n_read, self.tokens
        is_new = torch.arange(n, device=tokens.device) >= self.lengths[:, None]
        written = ~self.done & (n >= self.lengths)
        logits = sampling.penalise(logits, self.read, is_new, written)
        if self.min_new and self.stop_ids:
            early = written & (n < self.lengths + self.min_new)
            logits = _left(torch.where(early[:, None], _without(logits, self.stop_ids), logits))
        drawn = sampling.draw(logits, rng)
        drawn = torch.where(self.done, tokens[:, n - 1], drawn)
        tokens[:, n] = torch.where(n < self.lengths, tokens[:, n], drawn)
        self.n_read = n + 1
        stopped = written & (torch.isin(tokens[:, n], self.stops) | self._completes(written))
        self.ends = torch.where(stopped, n + 1, self.ends)
        self.done |= self.n_read >= self.ends
        return written

    def _completes(self, written: Tensor) -> Tensor:
        """(B,), whether the new tokens of a text hold a stop string."""
        found = torch.zeros_like(written)
        for b in written.nonzero()[:, 0].tolist() if self.strings else ():
            new = self.decode(self.tokens[b, self.lengths[b] : self.n_read].tolist())
            found[b] = any(string in new for string in self.strings)
        return found
