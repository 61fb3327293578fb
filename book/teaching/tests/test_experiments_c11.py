"""Chapter 11's recorded experiment: what it trains on, how it judges, what it hands over."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from unrolled.data.batches import IGNORE
from unrolled_book.experiments import c11_parentheses as experiment
from unrolled_book.experiments.c11_parentheses import (
    CELLS,
    Arm,
    HeldOut,
    NeighbourRule,
    ParenthesesReader,
    draw_batches,
    is_right,
    run,
    train,
)
from unrolled_book.tasks.parentheses import is_balanced
from unrolled_book.tasks.symbols import Parentheses, parentheses


class Stack(torch.nn.Module):
    """Tells every string right, by the definition."""

    def forward(self, tokens):
        verdicts = torch.tensor([int(is_balanced(row)) for row in tokens.tolist()])
        return torch.nn.functional.one_hot(verdicts, 2)[:, None].float()


def small(**changes) -> dict:
    arms = (Arm(seeds=(0, 1), models=("Elman", "LSTM")), Arm(negatives=("deep",), seeds=(2,)))
    settings = {"n_steps": 2, "pairs": (2, 4), "beyond": (5, 6), "n_held_out": 4}
    return run(**({"arms": arms} | settings | changes))


def test_the_result_is_json_with_a_run_for_every_model_and_seed_of_every_arm():
    result = json.loads(json.dumps(small()))
    runs = result["metrics"]["runs"]
    assert sorted((r["arm"], r["model"], r["seed"]) for r in runs) == [
        *((0, "Elman", seed) for seed in (0, 1)),
        *((0, "LSTM", seed) for seed in (0, 1)),
        *sorted((1, model, 2) for model in experiment.MAIN),
    ]
    assert result["seeds"] == [0, 1, 2]
    assert {row["pairs"] for row in result["curve"] if row["arm"] == 0} == {2, 3, 4, 5, 6}
    assert {row["pairs"] for row in result["curve"] if row["arm"] == 1} == {3, 4, 5, 6}
    assert [len(r["errors"]) for r in result["curve"] if r["arm"] == 0] == [2] * 10


def test_the_mean_error_is_that_of_the_curve():
    result = small()
    for r in result["metrics"]["runs"]:
        seeds = result["config"]["arms"][r["arm"]]["seeds"]
        rows = [c for c in result["curve"] if (c["arm"], c["model"]) == (r["arm"], r["model"])]
        within = [c["errors"][seeds.index(r["seed"])] for c in rows if c["pairs"] <= 4]
        assert r["error"] == pytest.approx(np.mean(within), abs=1e-4)


def test_the_same_call_gives_the_same_result_and_leaves_torchs_generator_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    assert small() == small()
    assert torch.equal(torch.rand(2), expected)


def test_batches_hold_one_length_and_ask_for_the_verdict_at_the_end():
    batches = draw_batches(5, 40, negatives=("deep",), pairs=(2, 7))
    assert {tokens.shape[1] for tokens, _ in batches} == {6, 8, 10, 12, 14}
    for tokens, targets in batches:
        assert tokens.shape == targets.shape
        assert (targets[:, :-1] == IGNORE).all()
        assert targets[:, -1].tolist() == [int(is_balanced(row)) for row in tokens]


@pytest.mark.parametrize(
    ("model", "block", "bias"),
    [("LSTM", "f", 2.0), ("GRU", "z", 2.0), ("minimal gated", "z", 2.0)],
)
def test_gates_begin_open_for_keeping(model, block, bias):
    cell = ParenthesesReader(model).recurrent.cells[0]
    rows = cell.rows(block)
    assert torch.equal(cell.bias_ih[rows] + cell.bias_hh[rows], torch.full((50,), bias))
    assert (cell.bias_ih != bias).sum() == cell.bias_ih.numel() - 50
    state = cell.initial_state(1)
    held = torch.rand(1, 50)
    state = (torch.zeros(1, 50), held) if model == "LSTM" else held
    new = cell.step(torch.zeros(1, 10), state)
    memory = new[1] if model == "LSTM" else new
    assert torch.corrcoef(torch.cat([held, memory]))[0, 1] > 0.8


@pytest.mark.parametrize("model", ["LSTM", "GRU", "minimal gated"])
def test_an_arm_says_where_the_gates_begin(model, monkeypatch):
    begun = []
    monkeypatch.setattr(experiment, "_start", lambda model, cell, keep: begun.append(keep))
    small(arms=(Arm(models=(model,), seeds=(0,)), Arm(models=(model,), seeds=(0,), keep=0.5)))
    assert begun[:2] == [2.0, 0.5]


def test_the_identity_network_begins_as_a_memory():
    cell = ParenthesesReader("Elman, identity").recurrent.cells[0]
    held = torch.rand(3, 50)
    assert torch.equal(cell.step(torch.zeros(3, 10), held), held)


@pytest.mark.parametrize("model", CELLS)
def test_every_model_trains_for_one_update_per_batch(model):
    batches = draw_batches(7, 2, negatives=("swap",), pairs=(2, 3))
    reader, n_steps = train(model, batches, seed=11, clip=None)
    assert n_steps == 2
    torch.manual_seed(11)
    fresh = ParenthesesReader(model)
    assert not torch.equal(reader.head.weight, fresh.head.weight)
    assert (reader.head.weight - fresh.head.weight).abs().max() < 2 * 2 * 3e-3


def test_a_diverged_training_is_counted_and_judged_all_the_same():
    batches = draw_batches(0, 3, negatives=("swap",), pairs=(2, 3))
    reader, n_steps = train("Elman", batches, seed=0, clip=None, lr=1e30)
    assert n_steps < 3
    assert set(is_right(reader, parentheses(np.random.default_rng(0), 6)).tolist()) <= {True, False}


def test_right_verdicts_are_counted_string_by_string_over_lengths():
    strings = parentheses(np.random.default_rng(2), 60, pairs=(2, 5))
    assert is_right(Stack(), strings).all()
    turned = Parentheses(
        sequences=strings.sequences,
        labels=np.where(np.arange(60) < 13, 1 - strings.labels, strings.labels),
        kinds=strings.kinds,
    )
    assert is_right(Stack(), turned).tolist() == [False] * 13 + [True] * 47


def test_a_perfect_judge_has_no_error_on_any_probe():
    held_out = HeldOut.draw(("swap",), 8, (2, 5), (6, 7))
    judged = held_out.judge(Stack(), 5)
    assert judged["error"] == judged["error_beyond"] == 0
    assert judged["by_pairs"] == [0] * 6
    assert set(judged["probe"].values()) == set(judged["probe_beyond"].values()) == {1.0}
    assert set(judged["probe"]) == {"balanced", "shuffle", "invert", "swap", "deep"}


@pytest.mark.parametrize(
    ("string", "verdict"),
    [
        ([0, 9, 1, 8], 1),
        ([0, 8, 1, 9], 0),  # both pairs of neighbours clash
        ([0, 1, 9, 8], 0),  # 1 is closed by 9
        ([0, 1, 8, 2, 7, 9], 1),
        ([0, 1, 2, 7, 9, 8], 1),  # wrong, but no neighbours tell
        ([9, 0], 1),  # nor here
    ],
)
def test_the_neighbour_rule_sees_an_opener_and_the_closer_after_it_and_no_more(string, verdict):
    assert NeighbourRule()(torch.tensor([string]))[0, -1].argmax() == verdict


def test_the_neighbour_rule_never_finds_a_deep_swap_and_finds_a_swap_of_two_pairs():
    rng, rule = np.random.default_rng(3), NeighbourRule()
    deep = parentheses(rng, 200, pairs=(3, 9), negatives=("deep",))
    assert is_right(rule, deep).tolist() == (deep.labels == 1).tolist()
    assert is_right(rule, parentheses(rng, 50, pairs=2)).all()


def test_of_six_pairs_training_meets_hardly_a_string_twice():
    rng = np.random.default_rng(0)
    drawn = parentheses(rng, 2_000, pairs=6).sequences
    assert len({s.tobytes() for s in drawn}) > 1_990
