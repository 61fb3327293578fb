"""A check of scores: log P(answer | prompt) sums over the answer's tokens, the end token too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unrolled_book.behaviour.arrays import BehaviourError, array

V, END = 7, 6
PROMPTS = ((1, 2, 3), (4,), (5, 5), (2, 4, 0, 1))
ANSWERS = ((2, 5, END), (1, 3, 3, 0, 2, END), (END,), (4, END))
Row = np.ndarray  # log-probabilities of the tokens of a text after its first, float64 (T − 1,)


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
            why = next((m for m, x in expected.items() if np.isclose(got, x, atol=1e-5)), None)
            raise BehaviourError(
                f"the answer {[*answer]} to the prompt {[*prompt]} scores {got:.4g}; its tokens' "
                f"log-probabilities add up to {right:.4g}"
                + ("" if why is None else f". It looks as if {why}")
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
