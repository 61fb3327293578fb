"""Preferences: the losses against literal formulas, a known optimum, and small trainings."""

import copy
import math

import pytest
import torch
from comparing import close, refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from unrolled.data.batches import IGNORE
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training import preference
from unrolled.training.batch_iterator import to_device
from unrolled.training.fit import FitConfig, fit

V, D, T, END = 13, 10, 7, 12
DTYPE = torch.float64
PROMPTS = [[1, 2], [3], [4, 5, 6]]
CHOSEN = [[7, END], [8, 9, END], [7, END]]
REJECTED = [[9, 9, END], [1, END], [END]]
PAIRS = preference.preference_batch(PROMPTS, CHOSEN, REJECTED)


def model(dropout=0.0) -> TransformerLM:
    sizes = {"vocab_size": V, "d_model": D, "n_layers": 1, "n_heads": 2, "context_length": T}
    return TransformerLM(TransformerConfig(**sizes, init_std=0.4, dropout=dropout))


def log_probs_of(model):
    device = next(model.parameters()).device
    return preference.sequence_log_probs(model, *(torch.from_numpy(x).to(device) for x in PAIRS))


def batch(pair):
    return to_device(pair, torch.device("cpu"), DTYPE)


def test_only_the_answers_count_and_the_preferred_one_stands_first():
    inputs, targets = preference.answer_batch([[1, 2], [3]], [[7, END], [8]])
    assert inputs.tolist() == [[1, 2, 7], [3, 0, 0]]
    assert targets.tolist() == [[IGNORE, 7, END], [8, IGNORE, IGNORE]]
    inputs, targets = PAIRS  # (3, 2, 4)
    assert inputs[0].tolist() == [[1, 2, 7, 0], [1, 2, 9, 9]]
    assert targets[2].tolist() == [[IGNORE, IGNORE, 7, END], [IGNORE, IGNORE, END, IGNORE]]


def test_a_sequences_log_probability_is_the_sum_over_its_answer_alone(device):
    ours = model().to(device)
    got = log_probs_of(ours)
    for i, prompt in enumerate(PROMPTS):
        for j, answer in enumerate((CHOSEN[i], REJECTED[i])):
            nats, text = 0.0, list(prompt)
            for token in answer:
                nats += ours(torch.tensor([text], device=device))[0, -1].log_softmax(-1)[token]
                text.append(token)
            close(got[i, j], nats)


def test_bradley_and_terry_by_hand():
    """A lead of ln 3 means three wins of four: −ln ¾. Equal rewards cost ln 2."""
    got = preference.bradley_terry_loss(
        torch.tensor([math.log(3), 5.0, 0.0]), torch.tensor([0.0, 5.0, 1000])
    )
    close(got, torch.tensor([math.log(4 / 3), math.log(2), 1000.0]))


@settings(max_examples=15, deadline=None)
@given(beta=st.floats(0.01, 5), n=st.integers(1, 6), seed=st.integers(0, 99))
def test_dpo_and_its_gradient_are_the_papers_formulas(beta, n, seed):
    """Rafailov et al. (2023), equation 7 and the gradient below it, written out."""
    torch.manual_seed(seed)
    log_probs, reference = -9 * torch.rand(n, 2), -9 * torch.rand(n, 2)
    log_probs.requires_grad_()
    got = preference.dpo_loss(log_probs, reference, beta)
    gradient = torch.autograd.grad(got.sum(), log_probs)[0]
    for i in range(n):
        (w, lose), (w0, lose0) = log_probs[i].tolist(), reference[i].tolist()
        ratio = math.exp(w) / math.exp(w0), math.exp(lose) / math.exp(lose0)
        inner = beta * math.log(ratio[0]) - beta * math.log(ratio[1])
        close(got[i], torch.tensor(-math.log(1 / (1 + math.exp(-inner)))), 1e-9)
        weight = beta / (1 + math.exp(inner))  # β σ(r̂(y′) − r̂(y))
        close(gradient[i], torch.tensor([-weight, weight]), 1e-9)


def test_the_objective_is_the_sum_over_pairs_and_reads_a_quiet_reference():
    reference, ours = model(dropout=0.5).train(), model()
    total, n = preference.dpo_objective(reference, 0.3)(ours, batch(PAIRS))
    assert reference.training  # as it was
    close(total, preference.dpo_loss(log_probs_of(ours), log_probs_of(reference.eval()), 0.3).sum())
    assert n == 3
    total.backward()
    assert all(p.grad is None for p in reference.parameters())
    assert ours.embedding.weight.grad.abs().max() > 1e-3


def test_a_reward_is_read_at_the_last_token_whatever_the_padding():
    ours = preference.RewardModel(model())
    nn.init.normal_(ours.head.weight)
    (tokens, mask), zeros = preference.reward_batch(CHOSEN, REJECTED)
    assert (tokens.shape, mask.shape, zeros.tolist()) == ((3, 2, 3), (3, 2, 3), [0, 0, 0])
    tokens[~mask] = 5
    rewards = ours(torch.from_numpy(tokens), torch.from_numpy(mask))
    for i in range(3):
        for j, text in enumerate((CHOSEN[i], REJECTED[i])):
            hidden = ours.body.hidden(torch.tensor([text]))[0, -1]
            close(rewards[i, j], hidden @ ours.head.weight[0])


@pytest.mark.parametrize("kind", ["dpo", "reward"])
def test_a_training_begins_at_ln_2_and_prefers_what_was_preferred(kind):
    ours, pairs, loss, before = model(), PAIRS, None, 0.0
    if kind == "dpo":
        loss, before = (
            preference.dpo_objective(copy.deepcopy(ours), 0.5),
            log_probs_of(ours).detach(),
        )
    else:
        ours, pairs, loss = (
            preference.RewardModel(ours),
            preference.reward_batch(CHOSEN, REJECTED),
            preference.reward_loss,
        )
    losses = fit(ours, [pairs], FitConfig(n_steps=30, lr=0.02), loss=loss).history.train_loss
    assert losses[0] == pytest.approx(math.log(2), abs=1e-9)
    assert losses[-1] < 0.2
    after = log_probs_of(ours) if kind == "dpo" else ours(*batch(pairs).inputs)
    gain = after - before
    assert (gain[:, 0] > gain[:, 1]).all()


def reward(tokens, mask):
    return preference.RewardModel(model())(torch.tensor(tokens), torch.tensor(mask))


def own_reference():
    ours = model()
    return preference.dpo_objective(ours)(ours, batch(PAIRS))


test_what_does_not_fit_is_refused = refuses(
    (lambda: preference.answer_batch([[1]], [[2], [3]]), "got 1 prompts and 2 answers"),
    (lambda: preference.answer_batch([[1], [2]], [[2], []]), r"prompt 1 .* got \[2\], \[\]"),
    (lambda: preference.preference_batch([[1]], [[2]], []), "got 1 chosen and 0 rejected answers"),
    (lambda: preference.reward_batch([[2]], []), "got 1 chosen and 0 rejected texts"),
    (lambda: preference.bradley_terry_loss(torch.ones(2), torch.ones(3)), "one shape, got"),
    (
        lambda: preference.dpo_loss(torch.ones(3, 2), torch.ones(2, 2), 0.1),
        r"\(3, 2\) and \(2, 2\)",
    ),
    (own_reference, r"give copy\.deepcopy\(model\)"),
    (lambda: reward([[1, 2]], [[1, 0]]), "must be booleans .* got torch.int64"),
    (lambda: reward([[1, 2]], [[False, True]]), "padding only after its last one"),
    (lambda: reward([[1, 2]], [[False, False]]), "each text needs a token"),
)
