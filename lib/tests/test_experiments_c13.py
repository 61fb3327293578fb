"""Chapter 13's recorded experiment: what is trained, what is swapped, what the record says."""

from __future__ import annotations

import json

import pytest
import torch
from unrolled.data import number_words
from unrolled.teaching.behaviour import BehaviourError, check_permutation
from unrolled.teaching.experiments import c13_seq2seq, record
from unrolled.teaching.experiments.c13_seq2seq import (
    ARMS,
    HIDDEN,
    Arm,
    PlaceAttention,
    arrows,
    batches,
    exact,
    fresh,
    run,
    swaps,
    tensors,
    train,
)


def test_the_result_is_json_with_a_row_for_every_arm_and_seed(monkeypatch):
    monkeypatch.setattr(c13_seq2seq, "PER_LENGTH", 2)
    monkeypatch.setattr(c13_seq2seq, "N_SWAPS", 3)
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
    assert ["points" in row for row in rows] == [False, False, True, True]


def test_batches_hold_training_numbers_of_one_length():
    train_on = {number_words.tokens(n, "de") for n in number_words.numbers("train")}
    for _, (source, _, _, _) in zip(range(3), batches(5), strict=False):
        read = [number_words.decode(row.tolist(), "de") for row in source]
        assert set(read) <= train_on


def test_a_swap_changes_one_token_on_each_side():
    pairs = swaps(1, 40)
    (source, _, _, targets), (source_2, _, _, targets_2) = (
        tensors(numbers) for numbers in zip(*pairs, strict=True)
    )
    assert (source != source_2).sum(1).eq(1).all()
    assert (targets != targets_2).sum(1).eq(1).all()


def test_arrows_of_a_model_that_points_right_late_and_nowhere():
    pairs = swaps(2, 20)
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
    model = fresh(ARMS[1], 0)
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
    check_permutation(lambda h: fresh(ARMS[1], 0).attention(states, h)[1].mT, rows)
    fake = PlaceAttention(HIDDEN)
    with pytest.raises(BehaviourError, match="change places"):
        check_permutation(lambda h: fake(states, h)[1].mT, rows)


def test_weights_that_never_look_leave_padding_out():
    fake, mask = PlaceAttention(4), torch.tensor([[True, True, False]])
    _, weights = fake(torch.randn(1, 2, 4), torch.randn(1, 3, 4), mask)
    assert not weights[..., 2].any()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2))


def test_training_lowers_the_loss():
    losses = train(fresh(ARMS[1], 0), seed=0, n_steps=25)
    assert losses[-1] < 0.8 * losses[0]


def test_the_record_says_what_the_chapter_says():
    recorded = record.load("c13_seq2seq")
    rows = recorded["metrics"]["runs"]
    assert [(r["arm"], r["seed"]) for r in rows] == [
        (arm.name, seed) for arm in ARMS for seed in (0, 1, 2)
    ]
    six, nine, twelve = (recorded["config"]["digits"].index(d) for d in (6, 9, 12))
    for row in rows:
        if row["arm"] == "none":
            assert row["exact"][six] > 60
            assert row["exact"][nine] < 20
            assert row["exact"][twelve] < 5
        else:
            assert min(row["exact"]) > 90
            assert row["answers"] > 99
