"""Learning from pairs of answers, one of them preferred: a reward model, and DPO without one.

Chapter 24 derives both. All log-probabilities are in nats and sums over an answer's tokens, its end
token among them if it has one; the prompt's tokens do not count. `fit` trains with `reward_loss`
and with what `dpo_objective` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional as F

from unrolled.data.batches import IGNORE, Pair, pad
from unrolled.models.tensors import check_floats, check_ids
from unrolled.training.batch_iterator import Batch
from unrolled.training.evaluate import in_mode
from unrolled.training.losses import Loss, cross_entropy
from unrolled.validate import checked, instance, real


@checked
def answer_batch(prompts: Sequence[ArrayLike], answers: Sequence[ArrayLike]) -> Pair:
    """Inputs and targets (B, T) of which only the answers' tokens count, for any loss.

    Row b reads its prompt and then its answer; its targets are the answer's tokens, and `IGNORE`
    within the prompt and at padding, which stands on the right. An answer should end with the end
    token: a model that is never asked for it never stops.

    prompts, answers: B sequences of integers each, none of them empty. Raises ValueError for
    another number and for an empty one, TypeError for what is not integers.
    """
    if len(prompts) != len(answers):
        raise ValueError(f"got {len(prompts)} prompts and {len(answers)} answers")
    inputs, targets = [], []
    for i, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        if not len(prompt) or not len(answer):
            raise ValueError(f"prompt {i} and its answer need a token each, got {prompt}, {answer}")
        text = np.concatenate([prompt, answer])
        text = text.astype(np.int64) if text.dtype.kind == "u" else text  # which has no IGNORE
        inputs.append(text[:-1])
        targets.append(np.where(np.arange(1, len(text)) < len(prompt), IGNORE, text[1:]))
    return pad(inputs, 0).tokens, pad(targets, IGNORE).tokens


@checked
def preference_batch(
    prompts: Sequence[ArrayLike], chosen: Sequence[ArrayLike], rejected: Sequence[ArrayLike]
) -> Pair:
    """Inputs and targets (B, 2, T): of each prompt the preferred answer, then the other one.

    Arguments and errors as in `answer_batch`.
    """
    if len(chosen) != len(rejected):
        raise ValueError(f"got {len(chosen)} chosen and {len(rejected)} rejected answers")
    twice = [prompt for prompt in prompts for _ in range(2)]
    answers = [answer for pair in zip(chosen, rejected, strict=True) for answer in pair]
    inputs, targets = answer_batch(twice, answers)
    return inputs.reshape(-1, 2, inputs.shape[1]), targets.reshape(-1, 2, targets.shape[1])


def sequence_log_probs(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Σ_t log P(target_t | inputs up to t), nats (…): a sum, never a mean, over targets that count.

    A mean would weigh a pair by its answers' lengths, and the prompt would no longer cancel.
    inputs, targets: int64 (…, T), targets `IGNORE` where they do not count, padding on the right;
    the model gives logits of its next tokens. Raises as `cross_entropy` does.
    """
    instance("model", model, Callable), check_ids("inputs", inputs), check_ids("targets", targets)
    if inputs.shape != targets.shape:
        shapes = f"{tuple(inputs.shape)} and {tuple(targets.shape)}"
        raise ValueError(f"inputs and targets must have one shape, got {shapes}")
    T = inputs.shape[-1]
    logits = model(inputs.reshape(-1, T))
    logits = logits.float() if logits.dtype == torch.bfloat16 else logits
    nats = cross_entropy(logits, targets.reshape(-1, T))
    return -nats.sum(-1).view(inputs.shape[:-1])


def bradley_terry_loss(chosen: Tensor, rejected: Tensor) -> Tensor:
    """−log σ(chosen − rejected), nats (B,): what it costs to have predicted the preference.

    chosen, rejected: rewards (B,). Bradley and Terry's model prefers y over y′ with probability
    σ(r(y) − r(y′)). Equal rewards cost ln 2. Raises ValueError for shapes that differ.
    Source: Bradley & Terry (1952); Ouyang et al. (2022), equation 1.
    """
    check_floats(chosen=chosen, rejected=rejected)
    if chosen.shape != rejected.shape:
        shapes = f"{tuple(chosen.shape)} and {tuple(rejected.shape)}"
        raise ValueError(f"rewards must have one shape, got {shapes}")
    return -F.logsigmoid(chosen - rejected)


def dpo_loss(log_probs: Tensor, reference_log_probs: Tensor, beta: float) -> Tensor:
    """−log σ(β[(log π(y) − log π₀(y)) − (log π(y′) − log π₀(y′))]), nats (B,), y preferred to y′.

    It is Bradley and Terry's loss of the reward β · log(π/π₀), whose best policy under a penalty
    β · KL(π, π₀) is π itself. It sees the difference alone: both answers may become less likely.
    log_probs, reference_log_probs: (B, 2), the preferred answer first, as `sequence_log_probs`
    gives them for a `preference_batch`, of π and of π₀, where the training began. beta: above 0.
    Raises ValueError for another shape or beta. Source: Rafailov et al. (2023), equation 7.
    """
    beta = real("beta", beta, above=0)
    check_floats(log_probs=log_probs, reference_log_probs=reference_log_probs)
    if log_probs.shape != reference_log_probs.shape or log_probs.shape[-1:] != (2,):
        shapes = f"{tuple(log_probs.shape)} and {tuple(reference_log_probs.shape)}"
        raise ValueError(f"log-probabilities must be (B, 2) both, got {shapes}")
    rewards = beta * (log_probs - reference_log_probs)
    return bradley_terry_loss(rewards[..., 0], rewards[..., 1])


@checked
def dpo_objective(reference: nn.Module, beta: float = 0.1) -> Loss:
    """A loss for `fit` over batches by `preference_batch`: (Σ `dpo_loss`, number of pairs).

    reference: π₀, a copy of the model as it is before training, read without gradients and without
    dropout. Raises ValueError for another beta; the loss raises it if the reference is the model.
    """
    real("beta", beta, above=0)

    def objective(model: nn.Module, batch: Batch, cache: object = None) -> tuple[Tensor, float]:
        if reference is model:
            raise ValueError("the reference is the model: give copy.deepcopy(model)")
        (inputs,), targets = batch.inputs, batch.targets
        if batch.weights is not None:
            targets = targets.masked_fill(batch.weights == 0, IGNORE)
        with torch.no_grad(), in_mode(reference, training=False):
            before = sequence_log_probs(reference, inputs, targets)
        loss = dpo_loss(sequence_log_probs(model, inputs, targets), before, beta)
        return loss.sum(), len(loss)

    return objective


class RewardModel(nn.Module):
    """r(text) = head(h), h what a language model's own head would read at the text's last token.

    body: a model with `hidden` and a linear `head`, which stays unused. Our `head` (1, D) begins
    with 0 and has no bias, which no difference of rewards would feel. Source: Stiennon et al.
    (2020), section 3.4.
    """

    @checked
    def __init__(self, body: nn.Module):
        super().__init__()
        self.body = body
        self.head = nn.Linear(body.head.in_features, 1, bias=False)
        nn.init.zeros_(self.head.weight)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Rewards (…) of texts (…, T), int64; mask: bool, True where a token stands.

        Padding stands on the right. Raises ValueError for a mask of another shape and, on the CPU,
        for padding before a token and a text without one.
        """
        check_ids("tokens", tokens), instance("mask", mask, Tensor)
        if mask.shape != tokens.shape or mask.dtype != torch.bool:
            expected = f"booleans {tuple(tokens.shape)}"
            raise ValueError(f"the mask must be {expected}, got {mask.dtype} {tuple(mask.shape)}")
        lead, T = tokens.shape[:-1], tokens.shape[-1]
        tokens, mask = tokens.reshape(-1, T), mask.reshape(-1, T)
        on_the_right = mask[:, :1].all() & (mask[:, 1:] <= mask[:, :-1]).all()
        if mask.device.type == "cpu" and not on_the_right:
            raise ValueError("each text needs a token, and padding only after its last one")
        x, last = self.body.hidden(tokens), mask.sum(1) - 1
        return self.head(x[torch.arange(len(x), device=x.device), last]).view(lead)


@checked
def reward_batch(
    chosen: Sequence[ArrayLike], rejected: Sequence[ArrayLike]
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """((tokens, mask), zeros): tokens and mask (B, 2, T) of whole texts, the preferred one first.

    The zeros (B,) stand for targets, so that each pair weighs 1. Raises as `pad` does, and
    ValueError for numbers of texts that differ.
    """
    if len(chosen) != len(rejected):
        raise ValueError(f"got {len(chosen)} chosen and {len(rejected)} rejected texts")
    texts = pad([text for pair in zip(chosen, rejected, strict=True) for text in pair], 0)
    shape = (len(chosen), 2, texts.tokens.shape[1])
    return (texts.tokens.reshape(shape), texts.mask.reshape(shape)), np.zeros(len(chosen), int)


def reward_loss(model: nn.Module, batch: Batch, cache: object = None) -> tuple[Tensor, float]:
    """The loss of a `RewardModel` for `fit`, over batches by `reward_batch`: (Σ nats, pairs)."""
    rewards = model(*batch.inputs)  # (B, 2)
    return bradley_terry_loss(rewards[:, 0], rewards[:, 1]).sum(), len(rewards)
