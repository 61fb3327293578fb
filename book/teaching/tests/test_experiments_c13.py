"""Chapter 13's recorded experiment: what is trained, what is swapped, what the record says."""

from __future__ import annotations

import json

import pytest
import torch
from unrolled_book.behaviour import BehaviourError, check_permutation
from unrolled_book.experiments import c13_seq2seq, record
from unrolled_book.experiments.c13_seq2seq import (
    ARMS,
    DIGITS,
    HIDDEN,
    KINDS,
    LRS,
    SEARCHED,
    Arm,
    PlaceAttention,
    arrows,
    batches,
    exact,
    fresh,
    rates,
    run,
    shuffled,
    swaps,
    tensors,
    train,
    words,
)
from unrolled_book.tasks import number_words


def test_the_result_is_json_with_a_row_for_every_arm_and_seed(monkeypatch):
    monkeypatch.setattr(c13_seq2seq, "PER_LENGTH", 2)
    monkeypatch.setattr(c13_seq2seq, "N_SWAPS", 3)
    found = [
        {"arm": name, "rates": [{"lr": 0.1, "wrong": 9.0}, {"lr": lr, "wrong": 8.0}]}
        for name, lr in (("without", 0.01), ("with", 0.02))
    ]
    monkeypatch.setattr(c13_seq2seq, "rates", lambda: found)
    arms = Arm(name="a", attention=None, n_steps=1), Arm(name="b", attention="dot", n_steps=2)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    result = json.loads(json.dumps(run(arms, seeds=(0, 4)), allow_nan=False))
    assert torch.equal(torch.rand(2), expected), "torch's generator was used"
    rows = result["metrics"]["runs"]
    assert [(r["arm"], r["seed"], r["n_steps"]) for r in rows] == [
        ("a", 0, 1), ("a", 4, 1), ("b", 0, 2), ("b", 4, 2),
    ]  # fmt: skip
    assert all(len(row["exact"]) == len(c13_seq2seq.DIGITS) for row in rows)
    assert all(len(row["words"]) == len(DIGITS) for row in rows)
    assert all(len(row["said"]) == 2 for row in rows), "as many as there are, up to SHOWN"
    assert all(type(said["said"]) is str for row in rows for said in row["said"])
    assert ["arrows" in row for row in rows] == [False, False, True, True]
    assert rows[-1]["arrows"].keys() == set(KINDS)
    assert result["config"]["lrs"] == {"a": 0.01, "b": 0.02}
    assert result["metrics"]["rates"] == found


def test_rates_are_searched_on_validation_numbers_with_the_arms_own_steps(monkeypatch):
    seen = []
    monkeypatch.setattr(c13_seq2seq, "train", lambda model, *a: seen.append(a))
    scores = iter([[90.0, 80.0], [100.0, 90.0], [70.0, 80.0]])
    monkeypatch.setattr(
        c13_seq2seq, "by_length", lambda model, split: {"valid": next(scores)}[split]
    )
    (row,) = rates(SEARCHED[:1])
    assert row["arm"] == "none"
    assert [r["wrong"] for r in row["rates"]] == [15.0, 5.0, 25.0]
    assert seen == [(0, SEARCHED[0].n_steps, lr) for lr in LRS]


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_every_arm_is_built_as_it_says(arm):
    model = fresh(arm, 0)
    assert model.head.in_features == HIDDEN
    assert (model.attention is None) == (arm.attention is None)
    assert model.previous == (arm.query == "previous")
    assert model.encoder.n_directions == 1 + arm.bidirectional
    if arm.attention == "equal weights":
        source, mask, inputs, _ = tensors([345, 67])
        _, weights = model(source, inputs, mask, return_weights=True)
        expected = mask / mask.sum(1, keepdim=True)
        torch.testing.assert_close(weights, expected[:, None].expand_as(weights))


def test_words_are_counted_with_the_end_mark_and_without_padding():
    right = tensors([345, 7])[3]  # six tokens and two

    def model(source, inputs, mask):
        said = right.clamp(min=0).clone()
        said[0, 0] += 1
        return torch.nn.functional.one_hot(said, 40).float()

    assert words(model, [345, 7]) == pytest.approx(100 * 7 / 8)


def test_shuffling_the_rows_changes_nothing_for_weights_that_read_them(monkeypatch):
    numbers = [345_678, 23, 999_999]
    source, mask, inputs, _ = tensors(numbers)
    monkeypatch.setattr(c13_seq2seq, "exact", lambda model, _: model(source, inputs, mask))
    for name, moves in (("dot", False), ("equal weights", False), ("never looks", True)):
        model = fresh(Arm(name=name, attention=name), 0)
        expected, encode = model(source, inputs, mask), model.encode
        change = (shuffled(model, numbers) - expected).abs().amax((1, 2))
        assert (change > 1e-4).tolist() == [moves] * 3, (name, change)
        assert model.encode == encode, "the model is left shuffled"


def test_batches_hold_training_numbers_of_one_length():
    train_on = {number_words.tokens(n, "de") for n in number_words.numbers("train")}
    for _, (source, _, _, _) in zip(range(3), batches(5), strict=False):
        read = [number_words.decode(row.tolist(), "de") for row in source]
        assert set(read) <= train_on


@pytest.mark.parametrize("kind", KINDS)
def test_a_swap_changes_one_token_on_each_side(kind):
    pairs = swaps(kind, 1, 40)
    (source, _, _, targets), (source_2, _, _, targets_2) = (
        tensors(numbers) for numbers in zip(*pairs, strict=True)
    )
    assert (source != source_2).sum(1).eq(1).all()
    assert (targets != targets_2).sum(1).eq(1).all()
    places = {"hundreds": {1}, "tens": {5}, "units": {3}}[kind]  # "drei hundert fünf und vierzig"
    found = {int(row) % 6 for row in (source != source_2).int().argmax(1)}
    assert {(place - 1) % 6 for place in places} == found


def test_arrows_of_a_model_that_points_right_late_and_nowhere():
    pairs = swaps("units", 2, 20)
    source = tensors([p[0] for p in pairs])[0]
    changed = (source != tensors([p[1] for p in pairs])[0]).int().argmax(1)

    def pointing(offset):
        def model(source, inputs, mask, return_weights=False):
            right = tensors(
                [
                    p[0] if torch.equal(tensors([p[0] for p in pairs])[0], source) else p[1]
                    for p in pairs
                ]
            )[3]
            logits = torch.nn.functional.one_hot(right.clamp(min=0), 35).float()
            if not return_weights:
                return logits
            where = torch.nn.functional.one_hot(changed + offset, source.shape[1] + 3).float()
            return logits, where[:, None].expand(-1, inputs.shape[1], -1)

        return model

    assert arrows(pointing(0), pairs) == {"answers": 100.0, "points": 100.0, "late": 0.0}
    assert arrows(pointing(1), pairs) == {"answers": 100.0, "points": 0.0, "late": 100.0}
    assert arrows(pointing(2), pairs)["late"] == 0


def test_an_answer_counts_only_as_a_whole():
    model = fresh(ARMS[2], 0)
    assert exact(model, [345, 67]) == 0
    said = iter([])

    def always(source, tokens, mask):
        return torch.nn.functional.one_hot(next(said), 35)[:, None].float()

    right = tensors([345, 67])[3]
    right = right.where(right >= 0, 2)
    said = iter(right.T)

    class Parrot(torch.nn.Module):
        def new_cache(self):
            return object()

        def forward(self, source, tokens, mask, cache=None):
            return always(source, tokens, mask)

    assert exact(Parrot(), [345, 67]) == 100
    broken = right.clone()
    broken[0, 1] = 5
    said = iter(broken.T)
    assert exact(Parrot(), [345, 67]) == 50


def test_weights_that_never_look_fail_the_check_and_the_others_pass():
    states, rows = torch.randn(2, 3, HIDDEN), torch.randn(2, 5, HIDDEN)
    check_permutation(lambda h: fresh(ARMS[2], 0).attention(states, h)[1].mT, rows)
    fake = PlaceAttention(HIDDEN)
    with pytest.raises(BehaviourError, match="change places"):
        check_permutation(lambda h: fake(states, h)[1].mT, rows)


def test_weights_that_never_look_leave_padding_out():
    fake, mask = PlaceAttention(4), torch.tensor([[True, True, False]])
    _, weights = fake(torch.randn(1, 2, 4), torch.randn(1, 3, 4), mask)
    assert not weights[..., 2].any()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2))


def test_training_lowers_the_loss():
    losses = train(fresh(ARMS[2], 0), seed=0, n_steps=25, lr=5e-3)
    assert losses[-1] < 0.8 * losses[0]


def test_the_record_says_what_the_chapter_says():
    recorded = record.load("c13_seq2seq")
    rows = recorded["metrics"]["runs"]
    assert [(r["arm"], r["seed"]) for r in rows] == [
        (arm.name, seed) for arm in ARMS for seed in (0, 1, 2)
    ]
    assert [row["arm"] for row in recorded["metrics"]["rates"]] == ["none", "dot"]
    six, nine, twelve = (recorded["config"]["digits"].index(d) for d in (6, 9, 12))
    arms = {arm.name: [r for r in rows if r["arm"] == arm.name] for arm in ARMS}
    for row in arms["none"]:
        assert row["exact"][six] > 60
        assert row["exact"][nine] < 20
        assert row["exact"][twelve] < 5
        assert row["words"][twelve] < 85 < 96 < row["words"][six]
    for row in arms["none, longer"] + arms["equal weights"]:
        assert row["exact"][six] > 80
        assert row["exact"][twelve] < 30
    for score in ("dot", "bilinear", "additive"):
        for row in arms[score]:
            assert min(row["exact"]) > 93
            assert row["shuffled"] > 96
            assert all(a["points"] >= 97 for a in row["arrows"].values())
    for row in arms["additive, one direction"]:
        found = {kind: row["arrows"][kind] for kind in KINDS}
        assert (found["tens"]["points"], found["units"]["points"] < 2) == (100, True)
        assert all(a["points"] + a["late"] == 100 for a in found.values())
    assert [row["shuffled"] for row in arms["never looks"]] == [0, 0, 0]
    assert sum(row["exact"][nine] == 100 for row in arms["never looks"]) == 2
