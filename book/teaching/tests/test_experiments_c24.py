"""Chapter 24's recorded experiments: what is measured, on cases counted by hand."""

from __future__ import annotations

import itertools
import json
import math
from functools import partial

import numpy as np
import pytest
import torch
from unrolled.data import corpora
from unrolled.data.batches import IGNORE
from unrolled_book.experiments import c24_contamination as contamination
from unrolled_book.experiments import c24_countable as countable
from unrolled_book.experiments import c24_instructions as instructions
from unrolled_book.experiments import c24_lora as lora
from unrolled_book.experiments import record
from unrolled_book.experiments.ladder import CORPUS

# --- strings that can be counted ------------------------------------------------------------------


def test_the_taste_by_hand():
    expected = {"": 0, "a": 0, "as": 1, "see": 0, "sate": 3, "ss": -1, "atesa": 0, "sssss": -8}
    assert {s: countable.taste(s) for s in expected} == expected


def test_probabilities_of_all_strings_sum_to_one():
    torch.manual_seed(0)
    log_p = countable.log_probs(countable.Speller())
    assert len(log_p) == 1365 == sum(4**n for n in range(6))
    assert log_p.exp().sum().item() == pytest.approx(1, abs=1e-6)


def uneven() -> torch.Tensor:
    return torch.randn(1365, generator=torch.Generator().manual_seed(0)).double().log_softmax(0)


def test_pairs_are_different_strings_and_the_better_one_wins_more_often():
    chosen, rejected = countable.draw_pairs(uneven(), 0, 4000)
    assert (chosen != rejected).all()
    lead = (countable.REWARD[chosen] - countable.REWARD[rejected]).numpy()
    for size in (1, 2):
        won = (lead == size).sum() / (np.abs(lead) == size).sum()
        assert won == pytest.approx(1 / (1 + math.exp(-size)), abs=0.04)


def test_best_of_two_by_listing_all_pairs():
    log_p, reward = uneven()[:5].log_softmax(0), torch.tensor([1.0, 3, 2, 0, 4]).double()
    expected = torch.zeros(5).double()
    for i, j in itertools.product(range(5), repeat=2):
        expected[i if reward[i] > reward[j] else j] += (log_p[i] + log_p[j]).exp()
    torch.testing.assert_close(countable.best_of(log_p, reward, 2).exp(), expected)


def test_no_policy_within_the_distance_has_more_reward_than_the_best():
    log_p = uneven()
    for beta in (0.5, 2.0):
        log_q = countable.tilted(log_p, countable.REWARD, beta)
        mean, distance = (log_q.exp() @ countable.REWARD).item(), countable.kl(log_q, log_p)
        assert countable.best_reward(log_p, distance) == pytest.approx(mean, abs=1e-6)
        mixed = (0.5 * (log_q.exp() + log_p.exp())).log()
        within = countable.best_reward(log_p, countable.kl(mixed, log_p))
        assert (mixed.exp() @ countable.REWARD).item() < within


def test_a_policy_that_has_not_moved_has_changed_nothing():
    log_p, pairs = uneven(), (np.array([3, 4]), np.array([5, 3]))
    row = countable.measured(log_p, log_p, *pairs)
    assert (row["chosen"], row["rejected"], row["other"], row["fell"], row["kl"]) == (0,) * 5
    assert row["mass"] == pytest.approx(1 - log_p[[3, 4, 5]].exp().sum().item())


def test_a_row_for_each_seed_price_and_step():
    metrics = countable.run(seeds=(3,), betas=(0.5,), lrs=(1e-3,), steps=(0, 2, 4))["metrics"]
    rows = json.loads(json.dumps(metrics))["tuning"]
    assert [(r["beta"], r["step"]) for r in rows] == [
        (b, s) for b in (0.5, None) for s in (0, 2, 4)
    ]
    assert all(r["reward"] <= r["best"] + 1e-6 for r in rows)
    assert [r["n"] for r in metrics["best_of"]] == 2 * [*countable.BEST_OF]


def test_the_first_recorded_world_comes_out_again():
    recorded = record.load("c24_countable")["metrics"]
    world, first = recorded["worlds"][0], recorded["optimum"][0]
    log_p = countable.log_probs(countable.base_model(world["seed"]))
    assert (log_p.exp() @ countable.REWARD).item() == pytest.approx(world["reward"], abs=0.02)
    log_q = countable.tilted(log_p, countable.REWARD, first["beta"])
    assert countable.kl(log_q, log_p) == pytest.approx(first["kl"], abs=0.05)


# --- instructions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def template():
    return instructions.Template()


def test_every_demonstration_complies_and_the_kinds_are_equally_frequent():
    shown = instructions.demonstrations(corpora.load(CORPUS).valid, 800, 0)
    assert all(instructions.RULES[ask](line) for ask, line in shown)
    assert sum(ask == "Cry out." for ask, _ in shown) == pytest.approx(200, abs=45)
    assert sum(ask.startswith("Begin") for ask, _ in shown) == pytest.approx(200, abs=45)


def test_what_counts_as_a_target(template):
    shown = [("Cry out.", "Fie!"), ("Be brief.", "O no.")]
    for (ask, line), kind in itertools.product(shown, instructions.TARGETS):
        inputs, targets = instructions.batch_of(template, [(ask, line)], kind)
        prompt, answer = template.encode(ask, line)
        text, n = [*prompt, *answer], len(prompt)
        expected = text[1:] if kind == "prompt too" else [IGNORE] * (n - 1) + answer
        if kind == "end masked":
            expected = [*expected[:-1], IGNORE]
        assert inputs.tolist() == [text[:-1]]
        assert targets.tolist() == [expected]


def test_three_tokens_more_change_no_logit_of_the_base_model(template):
    base, old = instructions.base_model(0), instructions.trained.load(*instructions.NEEDS)
    tokens = torch.from_numpy(template.tokenizer.encode("My lord"))[None]
    with torch.no_grad():
        torch.testing.assert_close(base(tokens)[..., :-3], old(tokens))


def test_an_answer_ends_where_it_stops(template):
    _, answer = template.encode("", "Fie!")
    assert template.decode(answer) == "Fie!"
    assert template.decode([template.ask, *answer[:2]]) == "⟨ask⟩Fi"


def test_a_row_for_the_base_and_each_kind_of_target(monkeypatch):
    monkeypatch.setattr(instructions, "N_NEW", 5)
    monkeypatch.setattr(instructions, "text_nats", partial(instructions.text_nats, n=2))
    result = instructions.run(seeds=(0,), n_steps=1, lrs=(1e-3,), n_asked=1)
    rows = json.loads(json.dumps(result))["metrics"]["rows"]
    assert [r["targets"] for r in rows] == ["base", *instructions.TARGETS]
    assert all(r["both"] <= min(r["stops"], r["complies"]) for r in rows)


@pytest.mark.parametrize("table", [True, False])
def test_adapters_learn_and_the_table_where_it_should(template, table):
    model = lora.tuned(template, 2, table, 1e-2, 0, 1)
    before = instructions.base_model(0)
    names = {name for name, p in model.named_parameters() if p.requires_grad}
    assert {name for name in names if ".lora_" not in name} == {"embedding.weight"} & names
    assert ("embedding.weight" in names) == table
    assert torch.equal(model.embedding.weight, before.embedding.weight) != table
    assert model.head.weight is model.embedding.weight
    old = before.stack.blocks[0].attention.q_proj.weight
    assert torch.equal(model.stack.blocks[0].attention.q_proj.base.weight, old)


# --- contamination --------------------------------------------------------------------------------


def test_the_share_of_altered_letters():
    text = "abc, " * 4000
    new = contamination.altered(text, 0)
    changed = sum(a != b for a, b in zip(text, new, strict=True)) / (3 * 4000)
    assert changed == pytest.approx(contamination.ALTERED * 25 / 26, abs=0.01)
    assert all(a == b for a, b in zip(text, new, strict=True) if not a.isalpha())


def test_a_reworded_text_keeps_four_words_in_five():
    text = "the king and the queen walk to the old house and see a good man there " * 3
    old, new = contamination.words(text), contamination.words(contamination.reworded(text))
    changed = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    assert changed == list(range(4, len(old), 5))


def test_windows_and_passages_by_hand():
    known = set(contamination.windows("a b c d".split(), 2))
    assert contamination.overlap("b c x a b", known, 2) == pytest.approx(2 / 4)
    assert contamination.flagged("b c x y y y", known, 2, size=3) == pytest.approx(1 / 2)
    assert contamination.flagged("c x b y b a", known, 2, size=3) == 0


def test_a_copy_is_found_and_helps():
    rows = contamination.run(which=(2,), n_train=50_000)["metrics"]["rows"]
    none, full, *_ = rows
    assert [r["copy"] for r in rows] == [*contamination.COPIES]
    assert full["flagged"] == 1 > none["flagged"]
    assert full["bits"] < none["bits"]
