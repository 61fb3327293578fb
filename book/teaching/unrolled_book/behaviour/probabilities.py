"""Checks of probabilities: distributions, the nucleus of top-p, the score of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unrolled_book.behaviour.probe import BehaviourError, array, first, guess, maker, precision

# Four distributions, read as one batch: their nuclei differ in size. Not sorted, as in a model.
PROBS = np.array(
    [
        (0.03, 0.02, 0.91, 0.01, 0.005, 0.01, 0.01, 0.005),
        (0.055, 0.5, 0.02, 0.395, 0.01, 0.005, 0.01, 0.005),
        (0.25, 0.05, 0.145, 0.3, 0.01, 0.2, 0.015, 0.03),
        (0.12, 0.09, 0.16, 0.11, 0.14, 0.1, 0.15, 0.13),
    ]
)
SHIFTS = np.array([[0.0], [3], [-2], [10]])  # of the logits, which a softmax does not feel
MARKS = (0.9, 0.54, 0.305)  # some sums are within 0.01 of them, and none is nearer than 0.004
V, END = 7, 6
PROMPTS = ((1, 2, 3), (4,), (5, 5), (2, 4, 0, 1))
ANSWERS = ((2, 5, END), (1, 3, 3, 0, 2, END), (END,), (4, END))
Row = np.ndarray  # log-probabilities of the tokens of a text after its first, float64 (T − 1,)


def check_distribution(log_probs: Any, *, tolerance: float | None = None) -> None:
    """Check that every row of log-probabilities, shape (…, V) in nats, is a distribution.

    Each row along the last axis must hold no NaN and satisfy |Σ_v exp(log p_v) − 1| ≤ tolerance;
    −∞ (probability 0) is allowed. The default tolerance is the square root of the dtype's
    precision: 1.5e-8 in float64, 3.5e-4 in float32, 0.09 in bfloat16.

    Raises BehaviourError with the first bad row and its sum, and a guess (probabilities without a
    log, a softmax over another axis); ValueError if there is no row or no column.
    """
    values = array(log_probs)
    if values.ndim == 0 or values.size == 0:
        raise ValueError(f"log_probs need shape (…, V) and at least one entry, got {values.shape}")
    if tolerance is None:
        tolerance = precision(log_probs) ** 0.5
    values = values.astype(np.float64)
    if np.isnan(values).any():
        row = first(np.isnan(values).any(axis=-1))
        raise BehaviourError(f"row {row} of the log-probabilities holds NaN")
    with np.errstate(over="ignore"):
        probs = np.exp(values)
    off = _is_off(probs.sum(axis=-1), tolerance)
    if off.any():
        row = first(off)
        total = probs.sum(axis=-1)[row]
        raise BehaviourError(
            f"the probabilities of row {row} sum to {total:.6g}, not to 1 "
            f"({off.sum()} of {off.size} rows are off by more than {tolerance:.1e})"
            + _why_not_a_distribution(values, probs, tolerance)
        )


def _is_off(sums: np.ndarray, tolerance: float) -> np.ndarray:
    return ~(np.abs(sums - 1) <= tolerance)


def _why_not_a_distribution(values: np.ndarray, probs: np.ndarray, tolerance: float) -> str:
    if (values >= 0).all() and not _is_off(values.sum(axis=-1), tolerance).any():
        return ". These rows sum to 1 as they stand: probabilities where logs are expected?"
    for axis in range(values.ndim - 1):
        if not _is_off(probs.sum(axis=axis), tolerance).any():
            return f". The sums over axis {axis} are 1: a softmax over the wrong axis?"
    return ""


def check_top_p(cut: Callable[[Any, float], Any], like: Any = None) -> None:
    """Check that `cut` keeps the nucleus, the smallest set of likeliest tokens with Σ P ≥ p.

    cut: logits (B, V) and p to logits with −∞ for all that is cut off; the others as they were, or
        moved by a constant in each row. It is asked for four rows at once and three values of p.
    like: an array of the kind that `cut` takes, numpy's by default.

    Raises BehaviourError with the first distribution that is cut elsewhere, and a guess: the token
    that crosses p is lost, one too many is kept, the mask was not sorted back.
    """
    make = maker(np.zeros(1) if like is None else like)
    logits = np.log(PROBS) + SHIFTS
    for p in MARKS:
        got = np.array(array(cut(make(logits.copy()), p)), dtype=np.float64)
        if got.shape != logits.shape:
            raise BehaviourError(f"logits {logits.shape} came back as {got.shape}")
        for row, given, kept in zip(PROBS, logits, got, strict=True):
            _check_row(row, given, kept, p)


def nucleus(probs: np.ndarray, p: float, *, crossing: bool = True) -> np.ndarray:
    """Which tokens (V,) the nucleus holds, boolean; crossing: with the one that crosses p."""
    order = np.argsort(-probs, kind="stable")
    mass = np.cumsum(probs[order])
    keep = mass - probs[order] < p if crossing else mass <= p
    return keep[np.argsort(order)]


def _check_row(probs: np.ndarray, logits: np.ndarray, got: np.ndarray, p: float) -> None:
    keep, want = got > -np.inf, nucleus(probs, p)
    if np.isnan(got).any():
        raise BehaviourError(f"cutting {_listed(probs)} at p = {p} gives NaN")
    if (keep != want).any():
        raise BehaviourError(
            f"with the probabilities {_listed(probs)} and p = {p} the tokens {_ids(keep)} were "
            f"kept, which have {probs[keep].sum():.3g}; expected {_ids(want)}"
            + _why(probs, keep, want, p)
        )
    moved = got[keep] - logits[keep]
    if not np.allclose(moved, moved[0], atol=1e-4):
        raise BehaviourError(f"the logits of the kept tokens have changed their distances: {got}")


def _why(probs: np.ndarray, keep: np.ndarray, want: np.ndarray, p: float) -> str:
    lost = nucleus(probs, p, crossing=False)
    if not keep.any():
        return ". Nothing is left: is the token that crosses p lost?"
    # Who loses the crossing token may still keep the likeliest one.
    if np.array_equal(keep, lost | (probs == probs.max())):
        return ". Is the token that crosses p lost?"
    if keep.sum() == want.sum() + 1 and keep[want].all():
        return ". Is one too many kept?"
    if keep.sum() == want.sum():
        return ". Was the mask of the sorted tokens not put back into their order?"
    return ""


def _ids(keep: np.ndarray) -> list[int]:
    return np.flatnonzero(keep).tolist()


def _listed(probs: np.ndarray) -> str:
    return "(" + ", ".join(f"{x:g}" for x in probs) + ")"


def check_answer_score(
    score: Callable[[Any, Sequence[Any], Sequence[Any]], Any], *, tolerance: float = 1e-5
) -> None:
    """Check that `score` gives Σ_t log P(answer_t | prompt, answer_<t), nats, for every pair.

    It is what instruction tuning raises (as its loss, divided by the number of tokens) and what DPO
    compares. The check asks for four pairs of other lengths, first one by one, then as one batch.
    Every answer ends with the end token, 6, of a vocabulary of seven.

    score: (model, prompts, answers) → (B,); model: int64 (B, T) → logits (B, T, V), float64, torch;
        a token's logits depend on the tokens up to it. prompts, answers: lists of B lists of ids.

    Raises BehaviourError with the first answer whose score is wrong, and a guess: the prompt or
    padding counts, the end token does not, a mean is taken, the targets are not shifted.
    """
    model = _model()
    exact = [_row(model, p, a) for p, a in zip(PROMPTS, ANSWERS, strict=True)]
    for i, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        (got,) = _scores(score, model, [prompt], [answer])
        expected = _mistakes(model, prompt, answer)
        right = exact[i][len(prompt) - 1 :].sum()
        if not np.isclose(got, right, rtol=0, atol=tolerance):
            raise BehaviourError(
                f"the answer {[*answer]} to the prompt {[*prompt]} scores {got:.4g}; its tokens' "
                f"log-probabilities add up to {right:.4g}"
                + guess(expected, lambda x, got=got: np.isclose(got, x, atol=1e-5))
            )
    together = _scores(score, model, PROMPTS, ANSWERS)
    for i, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        right = exact[i][len(prompt) - 1 :].sum()
        if not np.isclose(together[i], right, rtol=0, atol=tolerance):
            raise BehaviourError(
                f"the answer {[*answer]} scores {right:.4g} alone and {together[i]:.4g} in a batch "
                "with longer ones: does padding count, or stand on the left?"
            )


def _scores(score: Callable, model: Any, prompts: Sequence, answers: Sequence) -> np.ndarray:
    got = array(score(model, [[*p] for p in prompts], [[*a] for a in answers]))
    if got.shape != (len(prompts),) or got.dtype.kind != "f":
        raise BehaviourError(
            f"{len(prompts)} answers got scores of shape {got.shape}, {got.dtype}; expected one "
            "number each"
        )
    return got.astype(np.float64)


def _model() -> Any:
    """A small model whose logits depend on all tokens read, each with another weight."""
    import torch

    rng = np.random.default_rng(0)
    table = torch.from_numpy(rng.normal(size=(V, V)))
    fade = 0.5

    def model(tokens: Any) -> Any:
        state, logits = torch.zeros(len(tokens), V, dtype=table.dtype), []
        for t in range(tokens.shape[1]):
            state = fade * state + table[tokens[:, t]]
            logits.append(state)
        return torch.stack(logits, 1)

    return model


def _log_probs(model: Any, text: Sequence[int]) -> np.ndarray:
    """log P of every token at every position, (T, V)."""
    import torch

    return model(torch.tensor([text]))[0].log_softmax(-1).numpy()


def _row(model: Any, prompt: Sequence[int], answer: Sequence[int]) -> Row:
    text = [*prompt, *answer]
    return _log_probs(model, text)[np.arange(len(text) - 1), text[1:]]


def _mistakes(model: Any, prompt: Sequence[int], answer: Sequence[int]) -> dict[str, float]:
    """What the formulas give that are often written in place of the right one."""
    text, n = [*prompt, *answer], len(prompt)
    row, at = _row(model, prompt, answer), _log_probs(model, text)
    own = row[n - 1 :]
    unshifted = at[np.arange(n, len(text)), text[n:]]
    return {
        "the prompt's tokens count, too": row.sum(),
        "the end token does not count": own[:-1].sum(),
        "neither the end token nor the answer's first token counts": own[1:-1].sum(),
        "the answer's first token does not count": own[1:].sum(),
        "the prompt's last token counts, too": row[max(n - 2, 0) :].sum(),
        "the mean over the answer's tokens is taken, not their sum": own.mean(),
        "the mean over the whole text is taken": row.mean(),
        "each token is scored by the logits that have read it: shift the targets": unshifted.sum(),
        "the sign is turned: it is a loss": -own.sum(),
        "bits are taken, not nats": own.sum() / np.log(2),
        "the mean loss is given": -own.mean(),
    }
