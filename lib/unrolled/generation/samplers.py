"""Which token comes next: filters and penalties on logits, and the distribution they leave.

Each function is pure, works on logits (…, V), and knows nothing of a model. `Sampling` applies them
in one order. Chapter 21 compares them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional as F

from unrolled.models.tensors import check_floats, check_ids, check_mask
from unrolled.validate import checked, real, whole


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a token is chosen. The defaults draw from the model's own distribution.

    They act in the order of this list, which matters: a high temperature lets top_p keep more
    tokens. It is the order of `transformers` but for presence and frequency, which it does not
    have. Raises ValueError and TypeError for a setting out of range.
    """

    repetition_penalty: float = 1.0  # θ > 0: above 1 against tokens of the text, prompt included
    presence_penalty: float = 0.0  # nats off each token that was generated before
    frequency_penalty: float = 0.0  # nats off for each time that it was
    no_repeat_ngram_size: int | None = None  # no so many tokens twice in the text, prompt included
    suppress_tokens: tuple[int, ...] = ()  # ids that are never drawn
    temperature: float = 1.0  # 0 takes the likeliest token, of equal ones the first
    top_k: int | None = None  # so many tokens
    top_p: float | None = None  # the likeliest tokens up to this probability
    min_p: float | None = None  # tokens at least so likely, as a share of the likeliest
    typical_p: float | None = None  # the tokens nearest to the entropy, up to this probability

    def __post_init__(self) -> None:
        for f in fields(self):
            if (value := getattr(self, f.name)) is not None or f.default is not None:
                _CHECKS.get(f.name, real)(f.name, value)

    def penalise(
        self, logits: Tensor, tokens: Tensor, is_new: Tensor, draws: Tensor | None = None
    ) -> Tensor:
        """Logits (B, V) after the penalties for tokens (B, T), of which is_new (B, T) are ours.

        Rows for which draws (B,) is False stay as they are. ValueError for a suppressed id outside
        the vocabulary, and where no token is left.
        """
        given = logits
        if self.repetition_penalty != 1:
            seen = token_counts(tokens, logits.shape[-1]) > 0
            logits = penalise_repetition(logits, seen, self.repetition_penalty)
        if self.presence_penalty or self.frequency_penalty:
            counts = token_counts(tokens, logits.shape[-1], is_new)
            logits = penalise_counts(
                logits, counts, presence=self.presence_penalty, frequency=self.frequency_penalty
            )
        if self.no_repeat_ngram_size:
            logits = _no_repeat(logits, tokens, self.no_repeat_ngram_size)
        logits = _without(logits, self.suppress_tokens)
        logits = logits if draws is None else torch.where(draws[:, None], logits, given)
        return _left(logits) if self.no_repeat_ngram_size or self.suppress_tokens else logits

    def probs(self, logits: Tensor) -> Tensor:
        """The probabilities (…, V) from which a token is drawn, all but the penalties applied."""
        if self.temperature == 0:
            return F.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
        logits = divide_by_temperature(logits, self.temperature)
        for name, keep in _FILTERS.items():
            if (value := getattr(self, name)) is not None:
                logits = keep(logits, value)
        return logits.softmax(-1)

    def draw(self, logits: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """A token (B,) from logits (B, V), on their device.

        Drawn in float64 on the CPU, so that one seed draws the same tokens whatever the device.
        """
        if self.temperature == 0:
            return logits.argmax(-1)
        probs = self.probs(logits.cpu().double())
        return torch.multinomial(probs, 1, generator=rng)[:, 0].to(logits.device)


def divide_by_temperature(logits: Tensor, temperature: float) -> Tensor:
    """(logits − the largest) / temperature, which no small temperature makes overflow."""
    check_floats(logits=logits)
    temperature = real("temperature", temperature, above=0)
    smallest = torch.finfo(torch.promote_types(logits.dtype, torch.float32)).tiny  # else 0 / 0
    return (logits - logits.amax(-1, keepdim=True)) / max(temperature, smallest)


def top_k_filter(logits: Tensor, top_k: int) -> Tensor:
    """logits (…, V) with −∞ for all but the top_k largest.

    Of equal ones the first are kept; transformers keeps all that equal the last one kept.
    Source: Fan, Lewis & Dauphin (2018).
    """
    _check(logits)
    if _CHECKS["top_k"]("top_k", top_k) >= logits.shape[-1]:
        return logits
    smallest = logits.topk(top_k).values[..., -1:]
    above, equal = logits > smallest, logits == smallest
    keep = above | (equal & (equal.cumsum(-1) <= top_k - above.sum(-1, keepdim=True)))
    return logits.masked_fill(~keep, -torch.inf)


def top_p_filter(logits: Tensor, top_p: float) -> Tensor:
    """logits (…, V) with −∞ for all but the nucleus, the smallest number of likeliest tokens whose
    probabilities add up to top_p or more.

    A token stays if the probability of those before it is below top_p: the one that crosses the
    mark is kept. Sums that differ from top_p by rounding alone count as equal to it (0.6 + 0.3 is
    below 0.9 in floats); of equal tokens the first are kept. transformers compares without such a
    margin, and which of equal tokens it keeps is left to its sort.
    Source: Holtzman et al. (2020).
    """
    _check(logits)
    if _CHECKS["top_p"]("top_p", top_p) == 1:  # rounding would cut the tail
        return logits
    return _keep_mass(logits, -logits, top_p)


def min_p_filter(logits: Tensor, min_p: float) -> Tensor:
    """logits (…, V) with −∞ for tokens less likely than min_p times the likeliest.

    A token at the mark stays, up to rounding. Source: Nguyen et al. (2025).
    """
    _check(logits)
    probs = _probs(logits)
    mark = _CHECKS["min_p"]("min_p", min_p) * probs.amax(-1, keepdim=True)
    return logits.masked_fill(probs < mark * (1 - _rounding(probs)), -torch.inf)


def typical_filter(logits: Tensor, typical_p: float) -> Tensor:
    """logits (…, V) with −∞ for all but the typical set: the tokens whose surprisal −ln p is
    nearest to the entropy, the smallest number of them with a probability of typical_p or more.

    Ties and rounding as in `top_p_filter`; transformers keeps all that are as near as the last one
    kept. Source: Meister et al. (2023).
    """
    _check(logits)
    if _CHECKS["typical_p"]("typical_p", typical_p) == 1:
        return logits
    probs = _probs(logits)
    surprisal = -logits.log_softmax(-1, dtype=probs.dtype)
    entropy = (probs * surprisal).nansum(-1, keepdim=True)  # 0 · ∞ counts as 0
    return _keep_mass(logits, (surprisal - entropy).abs(), typical_p)


@checked
def penalise_repetition(logits: Tensor, seen: Tensor, theta: float) -> Tensor:
    """logits (…, V) with those of seen tokens, bool (…, V), divided by theta, or multiplied by it
    where negative.

    Adding a constant to all logits leaves a softmax unchanged, but not this penalty: it depends on
    where a model's logits lie. Source: Keskar et al. (2019), with the sign as in transformers.
    """
    theta = _CHECKS["repetition_penalty"]("theta", theta)
    check_floats(logits=logits), check_mask("seen", seen)
    return torch.where(seen, torch.where(logits < 0, logits * theta, logits / theta), logits)


@checked
def penalise_counts(
    logits: Tensor, counts: Tensor, *, presence: float = 0.0, frequency: float = 0.0
) -> Tensor:
    """logits − presence · [counts > 0] − frequency · counts, all (…, V).

    Adding a constant to all logits changes nothing. Source: OpenAI's API, whose formula this is.
    """
    check_floats(logits=logits), check_ids("counts", counts)
    presence, frequency = float(presence), float(frequency)
    return logits - presence * (counts > 0).to(logits.dtype) - frequency * counts.to(logits.dtype)


def no_repeat_ngram_filter(logits: Tensor, tokens: Tensor, size: int) -> Tensor:
    """logits (B, V) with −∞ for each token after which the last `size` tokens of a text would stand
    in its tokens (B, T) a second time. Source: Paulus, Xiong & Socher (2018).
    """
    return _left(_no_repeat(logits, tokens, size))


def _no_repeat(logits: Tensor, tokens: Tensor, size: int) -> Tensor:
    check_floats(logits=logits), check_ids("tokens", tokens, logits.shape[-1], 2)
    if tokens.shape[1] < whole("size", size):
        return logits
    ngrams, n_last = tokens.unfold(1, size, 1), tokens.shape[1] - size + 1
    again = (ngrams[..., :-1] == tokens[:, None, n_last:]).all(-1)  # (B, T − size + 1)
    repeats = token_counts(ngrams[..., -1], logits.shape[-1], again) > 0
    return logits.masked_fill(repeats, -torch.inf)


@checked
def suppress(logits: Tensor, ids: Collection[int]) -> Tensor:
    """logits (…, V) with −∞ for these ids. ValueError for others' ids, or where nothing is left."""
    return _left(_without(logits, ids)) if ids else _without(logits, ids)


def _without(logits: Tensor, ids: Collection[int]) -> Tensor:
    """`suppress`, but a row may have nothing left."""
    check_floats(logits=logits)
    if not ids:
        return logits
    ids = [whole("each suppressed id", i, 0) for i in ids]
    if max(ids) >= logits.shape[-1]:
        raise ValueError(f"suppressed ids must be below {logits.shape[-1]}, got {sorted(ids)}")
    gone = torch.tensor(sorted(ids), device=logits.device)
    return logits.index_fill(-1, gone, -torch.inf)


def token_counts(tokens: Tensor, vocab_size: int, mask: Tensor | None = None) -> Tensor:
    """(B, V), int64: how often each token stands in tokens (B, T), where mask (B, T) is True."""
    check_ids("tokens", tokens, whole("vocab_size", vocab_size), 2), check_mask("mask", mask)
    if mask is not None and mask.shape != tokens.shape:
        shapes = f"{tuple(tokens.shape)}, got {tuple(mask.shape)}"
        raise ValueError(f"mask must have the shape of the tokens, {shapes}")
    ones = torch.ones_like(tokens) if mask is None else mask.to(tokens.dtype)
    return tokens.new_zeros(len(tokens), vocab_size).scatter_add_(1, tokens, ones)


def _check(logits: Tensor) -> None:
    """Filters compare, and every comparison with NaN is false: it would be left out in silence."""
    check_floats(logits=logits)
    if logits.numel() and logits.amax().isnan():
        raise ValueError("logits must be numbers, and hold NaN")


def _left(logits: Tensor) -> Tensor:
    if logits.amax(-1).isneginf().any():
        raise ValueError("every token is suppressed or would repeat: nothing is left to draw")
    return logits


def _keep_mass(logits: Tensor, order: Tensor, mass: float) -> Tensor:
    """−∞ for all but the first tokens in ascending order with a probability of mass or more."""
    ids = order.sort(dim=-1, stable=True).indices
    probs = _probs(logits).gather(-1, ids)
    before = F.pad(probs.cumsum(-1), (1, -1))  # of all tokens before it
    keep = before < mass - _rounding(probs)
    keep[..., 0] = True
    return logits.masked_fill(~torch.zeros_like(keep).scatter(-1, ids, keep), -torch.inf)


def _probs(logits: Tensor) -> Tensor:
    """At least in float32, since sums of probabilities are compared."""
    return logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def _rounding(probs: Tensor) -> float:
    return 16 * torch.finfo(probs.dtype).eps


def _share(name: str, value: object) -> float:
    return real(name, value, above=0, at_most=1)


_FILTERS = {"top_k": top_k_filter, "top_p": top_p_filter, "min_p": min_p_filter,
            "typical_p": typical_filter}  # fmt: skip
_CHECKS = {
    "no_repeat_ngram_size": whole,
    "suppress_tokens": lambda name, ids: [whole(name, i, 0) for i in ids],
    "repetition_penalty": lambda name, value: real(name, value, above=0),
    "temperature": lambda name, value: real(name, value, 0),
    "top_k": whole,
    "top_p": _share,
    "min_p": lambda name, value: real(name, value, 0, 1),
    "typical_p": _share,
}
