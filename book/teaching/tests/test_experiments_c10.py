"""Chapter 10's recorded experiment: five starts, how they are measured, what is handed over."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from unrolled.models.gradcheck import numerical_jacobian
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.training.fit import cross_entropy
from unrolled_book.experiments import c10_tickets as experiment
from unrolled_book.experiments.c10_tickets import (
    HIDDEN,
    N_SYMBOLS,
    STARTS,
    batches,
    examples,
    network,
    reach,
    run,
    score,
)


def small(**changes) -> dict:
    settings = {"delays": (0, 2), "lrs": (1e-3, 1e-2), "seeds": (3, 5), "n_steps": 2}
    return run(**({"starts": ("default", "identity")} | settings | changes))


def weights(start: str, seed: int = 2):
    return network(start, seed).recurrent.cells[0]


def test_the_result_is_json_with_every_network_and_a_row_for_every_start_and_delay():
    result = json.loads(json.dumps(small()))
    rows, curve = result["metrics"]["rows"], result["curve"]
    assert len(curve) == len({(r["start"], r["delay"], r["lr"], r["seed"]) for r in curve}) == 16
    assert [(row["start"], row["delay"]) for row in rows] == [
        (start, delay) for start in ("default", "identity") for delay in (0, 2)
    ]
    assert result["seeds"] == [3, 5]
    assert all(len(row["accuracy"]) == 2 and row["lr"] in (1e-3, 1e-2) for row in rows)


def test_a_row_holds_the_networks_of_the_learning_rate_that_validation_prefers():
    accuracies = {(0.1, 0): 0.2, (0.1, 1): 0.9, (0.3, 0): 0.6, (0.3, 1): 0.7}
    curve = [
        {"start": "default", "delay": 7, "lr": lr, "seed": seed, "valid_accuracy": accuracy,
         "accuracy": 1 - accuracy, "reach_before": lr + seed, "reach_after": 10 * lr + seed}
        for (lr, seed), accuracy in accuracies.items()
    ]  # fmt: skip
    curve.append(curve[0] | {"delay": 5, "valid_accuracy": 1.0})
    row = experiment._summary(curve, "default", 7)
    assert (row["lr"], row["accuracy"]) == (0.3, pytest.approx([0.4, 0.3]))
    assert (row["reach_before"], row["reach_after"]) == (pytest.approx(0.8), pytest.approx(3.5))


def test_the_same_run_gives_the_same_numbers_and_leaves_torchs_generator_alone():
    before = torch.get_rng_state()
    assert small() == small()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_starts_differ_where_they_say_and_nowhere_else():
    default, orthogonal, identity, *with_relu = map(weights, STARTS)
    sizes = torch.linalg.svdvals(orthogonal.weight_hh)
    assert_close(sizes, torch.ones(HIDDEN), atol=1e-5, rtol=0)
    assert torch.equal(identity.weight_hh, torch.eye(HIDDEN))
    for cell in (orthogonal, identity):
        assert torch.equal(cell.weight_ih, default.weight_ih)
        assert not cell.bias_ih.any()
        assert not cell.bias_hh.any()
    assert {cell.nonlinearity for cell in (default, orthogonal, identity)} == {"tanh"}
    for cell, same in zip(with_relu, (default, identity), strict=True):
        assert cell.nonlinearity == "relu"
        assert_close(dict(cell.named_parameters()), dict(same.named_parameters()), rtol=0, atol=0)


def test_the_default_start_is_what_the_library_draws():
    torch.manual_seed(11)
    plain = RecurrentLM(N_SYMBOLS + 4, "elman", embedding_dim=16, hidden_size=HIDDEN)
    assert_close(dict(plain.named_parameters()), dict(network("default", 11).named_parameters()))


def test_an_unknown_start_is_refused():
    with pytest.raises(ValueError, match="default, orthogonal, identity"):
        network("zero", 0)


@pytest.mark.parametrize("start", STARTS)
def test_reach_is_the_gradient_of_the_loss_at_each_tokens_vector(start):
    """Finite differences on the vectors of one sequence, and torch's reference loop on several."""
    model = network(start, 0).double()
    task = examples(np.random.default_rng(0), 1, 3)
    vectors = model.embedding(torch.from_numpy(task.tokens)).detach()

    def loss(moved: np.ndarray) -> float:
        logits = model.head(model.recurrent(torch.from_numpy(moved))[0])
        return cross_entropy(logits, torch.from_numpy(task.targets)).sum().item()

    norms = np.linalg.norm(numerical_jacobian(loss, vectors.numpy())[0], axis=1)  # (T,)
    np.testing.assert_allclose(reach(model, task), norms / norms[-1], rtol=1e-4)


def test_the_last_token_counts_as_one_and_an_identity_lets_the_gradient_pass():
    """With W_hh = 1 and units that are all positive, every Jacobian is the identity."""
    model = network("identity relu", 0)
    cell = model.recurrent.cells[0]
    with torch.no_grad():
        cell.weight_ih.abs_()
        model.embedding.weight.abs_()
    assert_close(
        reach(model, examples(np.random.default_rng(1), 5, 23)), np.ones(25), rtol=1e-5, atol=0
    )


def test_who_knows_the_answer_scores_one_and_who_guesses_one_in_seven():
    task = examples(np.random.default_rng(0), 700, 4)

    class Oracle(torch.nn.Module):
        def forward(self, tokens):
            return 50 * torch.nn.functional.one_hot(tokens[:, :1], 11).float()

    assert score(Oracle(), task) == (1.0, pytest.approx(0, abs=1e-6))

    class Guess(torch.nn.Module):
        def forward(self, tokens):
            logits = torch.full((len(tokens), 1, 11), -50.0)
            logits[..., :N_SYMBOLS] = 0
            return logits

    accuracy, loss = score(Guess(), task)
    assert accuracy == pytest.approx(1 / 7)
    assert loss == pytest.approx(np.log(7))


def test_batches_are_fresh_and_repeat_with_the_seed():
    first, again, other = (batches(seed, 13, 5) for seed in (1, 1, 2))
    tokens, targets = next(first)
    assert tokens.shape == targets.shape == (13, 7)
    np.testing.assert_array_equal(next(again)[0], tokens)
    assert (next(other)[0] != tokens).any()
    assert (next(first)[0] != tokens).any()


def test_training_learns_a_short_delay():
    result = run(("orthogonal",), (1,), (1e-2,), (0,), n_steps=150)
    assert result["metrics"]["rows"][0]["accuracy"][0] > 0.9
