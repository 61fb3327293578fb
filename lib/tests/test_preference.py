"""Preferences: the losses against literal formulas, a known optimum, and small trainings."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from unrolled.data.batches import IGNORE
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.batch_iterator import to_device
from unrolled.training.fit import FitConfig, fit
from unrolled.training.preference import (
    RewardModel,
    answer_batch,
    bradley_terry_loss,
    dpo_loss,
    dpo_objective,
    preference_batch,
    reward_batch,
    reward_loss,
    sequence_log_probs,
)

V, D, B, T, END = 13, 10, 5, 7, 12
DTYPE = torch.float64
PROMPTS = [[1, 2], [3], [4, 5, 6]]
CHOSEN = [[7, END], [8, 9, END], [7, END]]
REJECTED = [[9, 9, END], [1, END], [END]]


def close(got, expected, tolerance=1e-12):
    assert_close(got, expected, rtol=0, atol=tolerance)


def model(dropout=0.0) -> TransformerLM:
    return TransformerLM(
        TransformerConfig(
            vocab_size=V, d_model=D, n_layers=1, n_heads=2, context_length=T, init_std=0.4,
            dropout=dropout,
        )
    )  # fmt: skip


def tensors(pair):
    return [torch.from_numpy(x) for x in pair]


def batch(pair):
    return to_device(pair, torch.device("cpu"), DTYPE)


# --- batches and log-probabilities ---------------------------------------------------------------


def test_an_answer_is_what_the_prompt_is_read_for():
    inputs, targets = answer_batch([[1, 2], [3]], [[7, END], [8]])
    assert inputs.tolist() == [[1, 2, 7], [3, 0, 0]]
    assert targets.tolist() == [[IGNORE, 7, END], [8, IGNORE, IGNORE]]
    assert inputs.dtype == targets.dtype == np.int64


def test_pairs_stand_together_the_preferred_first():
    inputs, targets = preference_batch(PROMPTS, CHOSEN, REJECTED)
    assert inputs.shape == targets.shape == (3, 2, 4)
    assert inputs[0].tolist() == [[1, 2, 7, 0], [1, 2, 9, 9]]
    assert targets[2].tolist() == [[IGNORE, IGNORE, 7, END], [IGNORE, IGNORE, END, IGNORE]]


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_a_sequences_log_probability_is_the_sum_over_its_answer_alone(kind, device):
    ours = model() if kind == "transformer" else RecurrentLM(V, embedding_dim=D, hidden_size=D)
    ours = ours.to(device)
    pairs = (x.to(device) for x in tensors(preference_batch(PROMPTS, CHOSEN, REJECTED)))
    got = sequence_log_probs(ours, *pairs)
    for i, prompt in enumerate(PROMPTS):
        for j, answer in enumerate((CHOSEN[i], REJECTED[i])):
            nats, text = 0.0, list(prompt)
            for token in answer:
                nats += ours(torch.tensor([text], device=device))[0, -1].log_softmax(-1)[token]
                text.append(token)
            close(got[i, j], nats)


def test_log_probabilities_of_all_answers_add_up_to_one():
    """Every answer of up to two tokens, END or not at the second: Σ exp = 1."""
    ours, others = model(), [t for t in range(V) if t != END]
    answers = [[END], *([a, b] for a in others for b in range(V))]
    log_probs = sequence_log_probs(ours, *tensors(answer_batch([[3, 1]] * len(answers), answers)))
    close(log_probs.exp().sum(), torch.tensor(1.0))


# --- losses --------------------------------------------------------------------------------------


def test_bradley_and_terry_by_hand():
    """A lead of ln 3 means three wins of four: −ln ¾. Equal rewards cost ln 2."""
    got = bradley_terry_loss(torch.tensor([math.log(3), 5.0, 0.0]), torch.tensor([0.0, 5.0, 1000]))
    close(got, torch.tensor([math.log(4 / 3), math.log(2), 1000.0]))


@settings(max_examples=25, deadline=None)
@given(beta=st.floats(0.01, 5), n=st.integers(1, 6), seed=st.integers(0, 99))
def test_dpo_and_its_gradient_are_the_papers_formulas(beta, n, seed):
    """Rafailov et al. (2023), equation 7 and the gradient below it, written out."""
    torch.manual_seed(seed)
    log_probs, reference = -9 * torch.rand(n, 2), -9 * torch.rand(n, 2)
    log_probs.requires_grad_()
    got = dpo_loss(log_probs, reference, beta)
    gradient = torch.autograd.grad(got.sum(), log_probs)[0]
    for i in range(n):
        (w, lose), (w0, lose0) = log_probs[i].tolist(), reference[i].tolist()
        ratio = math.exp(w) / math.exp(w0), math.exp(lose) / math.exp(lose0)
        inner = beta * math.log(ratio[0]) - beta * math.log(ratio[1])
        close(got[i], torch.tensor(-math.log(1 / (1 + math.exp(-inner)))), 1e-9)
        weight = beta / (1 + math.exp(inner))  # β σ(r̂(y′) − r̂(y))
        close(gradient[i], torch.tensor([-weight, weight]), 1e-9)
    assert torch.autograd.gradcheck(lambda x: dpo_loss(x, reference, beta), log_probs)


def test_a_policy_that_is_its_reference_costs_ln_2():
    log_probs = -9 * torch.rand(B, 2)
    close(dpo_loss(log_probs, log_probs, 0.3), torch.full((B,), math.log(2)))


@settings(max_examples=15, deadline=None)
@given(beta=st.floats(0.1, 3), shift=st.floats(-5, 5), seed=st.integers(0, 99))
def test_dpo_does_not_feel_what_both_answers_share(beta, shift, seed):
    torch.manual_seed(seed)
    log_probs, reference = -torch.rand(B, 2), -torch.rand(B, 2)
    close(dpo_loss(log_probs + shift, reference, beta), dpo_loss(log_probs, reference, beta))


def test_the_best_policy_of_dpo_is_the_tilted_reference():
    """Eight answers, every pair, preferences exactly Bradley and Terry's: π₀ exp(r/β) / Z."""
    n, beta, reward = 8, 0.7, torch.randn(8)
    reference = torch.randn(n).log_softmax(0)
    i, j = torch.triu_indices(n, n, 1)
    logits = (reference + reward / beta).requires_grad_()

    def expected_loss(logits):
        log_probs = logits.log_softmax(0)
        first = dpo_loss(log_probs[torch.stack([i, j], 1)], reference[torch.stack([i, j], 1)], beta)
        other = dpo_loss(log_probs[torch.stack([j, i], 1)], reference[torch.stack([j, i], 1)], beta)
        wins = (reward[i] - reward[j]).sigmoid()
        return (wins * first + (1 - wins) * other).mean()

    close(torch.autograd.grad(expected_loss(logits), logits)[0], torch.zeros(n))
    for _ in range(5):
        assert expected_loss(logits + 0.3 * torch.randn(n)) > expected_loss(logits)


# --- for fit -------------------------------------------------------------------------------------


def test_the_objective_is_the_sum_over_pairs_and_reads_a_quiet_reference():
    reference, ours = model(dropout=0.5).train(), model()
    given = preference_batch(PROMPTS, CHOSEN, REJECTED)
    total, n = dpo_objective(reference, 0.3)(ours, batch(given))
    assert reference.training  # as it was
    log_probs = [sequence_log_probs(m.eval(), *tensors(given)) for m in (ours, reference)]
    close(total, dpo_loss(*log_probs, 0.3).sum())
    assert n == 3
    total.backward()
    assert all(p.grad is None for p in reference.parameters())
    assert ours.embedding.weight.grad.abs().max() > 1e-3


def test_a_training_by_dpo_begins_at_ln_2_and_prefers_what_was_preferred():
    ours, given = model(), preference_batch(PROMPTS, CHOSEN, REJECTED)
    reference = copy.deepcopy(ours)
    result = fit(
        ours, [given], FitConfig(n_steps=60, lr=0.01), loss=dpo_objective(reference, 0.5),
        progress=False,
    )  # fmt: skip
    losses = result.history.train_loss
    assert losses[0] == pytest.approx(math.log(2), abs=1e-9)
    assert losses[-1] < 0.2
    now, before = (sequence_log_probs(m, *tensors(given)) for m in (ours, reference))
    gain = now - before
    assert (gain[:, 0] > gain[:, 1]).all()


# --- the reward model ----------------------------------------------------------------------------


def test_a_reward_is_read_at_the_last_token_whatever_the_padding():
    ours = RewardModel(model())
    nn.init.normal_(ours.head.weight)
    (tokens, mask), zeros = reward_batch(CHOSEN, REJECTED)
    assert (tokens.shape, mask.shape, zeros.tolist()) == ((3, 2, 3), (3, 2, 3), [0, 0, 0])
    rewards = ours(torch.from_numpy(tokens), torch.from_numpy(mask))
    for i in range(3):
        for j, text in enumerate((CHOSEN[i], REJECTED[i])):
            hidden = ours.body.hidden(torch.tensor([text]))[0, -1]
            close(rewards[i, j], hidden @ ours.head.weight[0])
    tokens[~mask] = 5
    close(ours(torch.from_numpy(tokens), torch.from_numpy(mask)), rewards)


def test_a_reward_model_begins_at_ln_2_and_learns_the_preferences():
    ours = RewardModel(model())
    config = FitConfig(n_steps=60, lr=0.01)
    result = fit(
        ours, [reward_batch(CHOSEN, REJECTED)], config, loss=reward_loss, progress=False
    )  # fmt: skip
    assert result.history.train_loss[0] == pytest.approx(math.log(2), abs=1e-12)
    assert result.history.train_loss[-1] < 0.1
    rewards = ours(*batch(reward_batch(CHOSEN, REJECTED)).inputs)
    assert (rewards[:, 0] > rewards[:, 1]).all()
    given = batch(reward_batch(CHOSEN, REJECTED))
    total, n = reward_loss(ours, given)
    close(total, -(rewards[:, 0] - rewards[:, 1]).sigmoid().log().sum(), 1e-9)
    assert n == 3


# --- errors --------------------------------------------------------------------------------------


def reward(tokens, mask):
    return RewardModel(model())(torch.tensor(tokens), torch.tensor(mask))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: answer_batch([[1]], [[2], [3]]), ValueError, "got 1 prompts and 2 answers"),
        (lambda: answer_batch([[1], [2]], [[2], []]), ValueError, r"prompt 1 .* got \[2\], \[\]"),
        (lambda: answer_batch([[1]], [[2.5]]), TypeError, "expected integers"),
        (lambda: preference_batch([[1]], [[2]], []), ValueError, "got 1 chosen and 0 rejected ans"),
        (lambda: reward_batch([[2]], []), ValueError, "got 1 chosen and 0 rejected texts"),
        (lambda: bradley_terry_loss(torch.ones(2), torch.ones(3)), ValueError, "one shape, got"),
        (lambda: dpo_loss(torch.ones(3), torch.ones(3), 0.1), ValueError, r"\(B, 2\) both, got"),
        (lambda: dpo_loss(torch.ones(3, 2), torch.ones(2, 2), 0.1), ValueError,
         r"got \(3, 2\) and \(2, 2\)"),
        (lambda: dpo_loss(torch.ones(3, 2), torch.ones(3, 2), 0), ValueError, "beta must be above"),
        (lambda: dpo_objective(model(), -1.0), ValueError, "beta must be above 0, got -1.0"),
        (lambda: reward([[1, 2]], [[1, 0]]), ValueError, "must be booleans .* got torch.int64"),
        (lambda: reward([[1, 2]], [[False, True]]), ValueError, "padding only after its last one"),
        (lambda: reward([[1, 2]], [[False, False]]), ValueError, "each text needs a token"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_model_is_not_its_own_reference():
    ours = model()
    with pytest.raises(ValueError, match=r"give copy\.deepcopy\(model\)"):
        dpo_objective(ours)(ours, batch(preference_batch(PROMPTS, CHOSEN, REJECTED)))
