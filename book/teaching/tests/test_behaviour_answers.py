"""The check of scores accepts right ones and names the wrong ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from unrolled.data.batches import IGNORE
from unrolled.training.preference import answer_batch, sequence_log_probs
from unrolled_book.behaviour import BehaviourError, check_answer_score
from unrolled_book.behaviour.answers import END


def right(model, prompts, answers):
    batch = answer_batch(prompts, answers)
    return sequence_log_probs(model, *map(torch.from_numpy, batch))


def one_by_one(model, prompts, answers, first=0, last=None, mean=False, shift=1, sign=1):
    """A loop; the other arguments bring the mistakes."""
    scores = []
    for prompt, answer in zip(prompts, answers, strict=True):
        text = torch.tensor([[*prompt, *answer]])
        logits, n = model(text)[0].log_softmax(-1), len(prompt)
        positions = range(max(shift, n + first), text.shape[1] + (last or 0))
        picked = [logits[t - shift, text[0, t]] for t in positions]
        total = sum(picked, torch.zeros(()).double())
        scores.append(sign * total / (max(1, len(picked)) if mean else 1))
    return torch.stack(scores)


def test_the_librarys_score_and_a_plain_loop_pass():
    check_answer_score(right)
    check_answer_score(one_by_one)
    check_answer_score(lambda *arguments: one_by_one(*arguments).numpy())


def padded_with_the_end(model, prompts, answers):
    """Padding is the end token, and whatever equals it is masked: the end, too."""
    inputs, targets = map(torch.from_numpy, answer_batch(prompts, answers))
    return sequence_log_probs(model, inputs, targets.masked_fill(targets == END, IGNORE))


def counting_padding(model, prompts, answers):
    inputs, targets = map(torch.from_numpy, answer_batch(prompts, answers))
    padding = (targets == IGNORE) & (torch.cumsum(targets != IGNORE, 1) > 0)
    return sequence_log_probs(model, inputs, targets.masked_fill(padding, END))


def padded_on_the_left(model, prompts, answers):
    texts = [[*p, *a] for p, a in zip(prompts, answers, strict=True)]
    longest = max(map(len, texts))
    texts = torch.tensor([[0] * (longest - len(t)) + t for t in texts])
    targets = texts[:, 1:].clone()
    for row, answer in zip(targets, answers, strict=True):
        row[: len(row) - len(answer)] = IGNORE
    return sequence_log_probs(model, texts[:, :-1], targets)


def wrong(**mistake):
    return lambda model, prompts, answers: one_by_one(model, prompts, answers, **mistake)


@pytest.mark.parametrize(
    ("score", "why"),
    [
        (wrong(first=-9), "the prompt's tokens count, too"),
        (wrong(first=-1), "the prompt's last token counts, too"),
        (padded_with_the_end, "the end token does not count"),
        (wrong(last=-1), "the end token does not count"),
        (wrong(first=1), "the answer's first token does not count"),
        (wrong(mean=True), "the mean over the answer's tokens"),
        (wrong(mean=True, first=-9), "the mean over the whole text"),
        (wrong(shift=0), "shift the targets"),
        (wrong(sign=-1), "the sign is turned"),
        (lambda *a: right(*a) / np.log(2), "bits are taken"),
        (wrong(sign=-1, mean=True), "the mean loss is given"),
        (counting_padding, "does padding count"),
        (padded_on_the_left, "stand on the left"),
        (lambda *a: right(*a).sum(), "expected one number each"),
        (lambda *a: right(*a) * 1.01, "add up to"),
    ],
)
def test_each_mistake_is_named(score, why):
    with pytest.raises(BehaviourError, match=why):
        check_answer_score(score)
