"""Chapter 19's recorded experiments: what is trained, what is hidden, what the records say."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from unrolled.data.batches import IGNORE
from unrolled_book.behaviour import BehaviourError, check_padding, check_shift
from unrolled_book.experiments import c19_masked, c19_translation, record
from unrolled_book.experiments.c19_masked import CHANGED, CHOSEN, CLS, HIDDEN, MASK, N_MARKS
from unrolled_book.experiments.c19_translation import Arm, fresh, tensors
from unrolled_book.tasks import number_words


@pytest.fixture
def one():
    """A small Transformer, and a batch of two lengths."""
    model = fresh(Arm(name="x", n_layers=2, lrs=()), 3).eval()
    return model, tensors([345, 7])


def test_the_translation_s_result_is_json_with_a_row_for_every_arm_and_seed(monkeypatch):
    monkeypatch.setattr(c19_translation, "PER_LENGTH", 2)
    monkeypatch.setattr(c19_translation, "BATCH_SIZE", 4)
    monkeypatch.setattr(c19_translation, "DIGITS", (2, 12))
    monkeypatch.setattr(c19_translation, "mixed", lambda: (345, 12_345))
    arms = [Arm(name="a", n_layers=0, lrs=(1e-3,)), Arm(name="b", n_layers=1, lrs=(1e-3, 1e-9))]
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    result = c19_translation.run(arms, seeds=(0, 4), n_steps=10, n_longer=11)
    assert torch.equal(torch.rand(2), expected), "torch's generator was used"
    result = json.loads(json.dumps(result, allow_nan=False))
    rows = result["metrics"]["runs"]
    assert [(r["arm"], r["seed"]) for r in rows] == [("a", 0), ("a", 4), ("b", 0), ("b", 4)]
    assert [len(result["metrics"][name]) for name in ("longer", "forgot")] == [4, 2]
    assert ["predicted" in row for row in rows] == [False, False, True, True]
    assert result["config"]["lr"]["b"] == 1e-3


def test_one_table_holds_both_languages():
    source, _, inputs, targets = tensors([45])
    words = c19_translation.VOCABULARY
    assert len(set(words)) == len(words)
    assert [words[i] for i in source[0]] == ["fünf", "und", "vierzig"]
    assert [words[i] for i in inputs[0]] == ["<s>", "forty", "five"]
    assert [words[i] for i in targets[0]] == ["forty", "five", "</s>"]
    check_shift(inputs, targets)


def test_every_model_of_the_translation_reads_the_same_batches():
    batches = [next(c19_translation.batches(5)) for _ in range(2)]
    for a, b in zip(*batches, strict=True):
        assert torch.equal(a, b)
    train_on = {number_words.tokens(n, "de") for n in number_words.numbers("train")}
    words = c19_translation.VOCABULARY
    for row, real in zip(*batches[0][:2], strict=True):
        assert tuple(words[i] for i in row[real]) in train_on


def test_cross_weights_are_those_of_the_decoder(one):
    model, (source, mask, inputs, _) = one
    weights = c19_translation.cross_weights(model, source, mask, inputs)
    assert [w.shape for w in weights] == [(2, 4, inputs.shape[1], source.shape[1])] * 2
    assert_close(weights[0].sum(-1), torch.ones(weights[0].shape[:3]))
    assert not weights[1][1, ..., 1:].any()  # the second source is one token long


def test_rows_names_the_row_that_predicts_and_the_next(monkeypatch):
    pairs = c19_translation.swaps(n=5)
    _, _, inputs, targets = tensors([a for a, _ in pairs])
    _, _, _, targets_2 = tensors([b for _, b in pairs])
    source, source_2 = (tensors(numbers)[0] for numbers in zip(*pairs, strict=True))
    changed = (source != source_2).int().argmax(1)
    step = (targets != targets_2).int().argmax(1)
    weights = torch.zeros(5, 2, inputs.shape[1], source.shape[1])
    weights[torch.arange(5), 0, step, changed] = 3.0  # one head points, in the predicting row
    weights[torch.arange(5), 1, step, (changed + 1) % source.shape[1]] = 1.0
    monkeypatch.setattr(c19_translation, "cross_weights", lambda *_: [weights])

    def perfect(source, inputs, mask):
        right = targets if torch.equal(source, tensors([a for a, _ in pairs])[0]) else targets_2
        return torch.nn.functional.one_hot(right.clamp(min=0), 99).float()

    found = c19_translation.rows(perfect, pairs)
    assert found["follows"] == found["predicted"][0] == found["heads"][0][0] == 100
    assert found["heads"][0][1] == 0
    assert {kind: heads[0][0] for kind, heads in found["heads by digit"].items()} == {
        "tens": 100,
        "units": 100,
    }
    assert found["input"][0] < 50


def test_the_fault_changes_what_padding_may_not_change(one):
    model, (source, mask, inputs, _) = one
    other = c19_translation.forgetful(model)
    whole = [m(source[:1], inputs[:1], mask[:1]) for m in (model, other)]
    assert_close(*whole)  # nothing is padded

    def reading(m):
        start = inputs[:1, :2]
        return lambda ids, real: m(ids, start.expand(len(ids), 2), real).flatten(1)

    check_padding(reading(model), source, mask, tolerance=1e-4)
    with pytest.raises(BehaviourError, match="padding"):
        check_padding(reading(other), source, mask, tolerance=1e-4)


def test_hiding_follows_80_10_10_and_never_a_mark():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 500, size=(2_000, 33))
    ids[:, 0] = CLS
    read, say = c19_masked.hide(ids, rng, 500)
    chosen = say != IGNORE
    assert not chosen[ids < N_MARKS].any()
    assert np.array_equal(say[chosen], ids[chosen])
    assert np.array_equal(read[~chosen], ids[~chosen])
    assert chosen[ids >= N_MARKS].mean() == pytest.approx(CHOSEN, abs=0.01)
    assert (read[chosen] == MASK).mean() == pytest.approx(HIDDEN, abs=0.01)
    assert (read[chosen] == ids[chosen]).mean() == pytest.approx(CHANGED, abs=0.01)


def test_passages_hold_no_name_that_gives_the_author_away():
    words = c19_masked.vocabulary()
    assert len(words) == len(set(words)) == c19_masked.VOCAB_SIZE
    assert not {"emma", "ahab", "queequeg", "syme", "turnbull", "elinor"} & set(words)
    ids, labels = c19_masked.passages("test")
    assert ids.shape == (len(labels), c19_masked.LENGTH)
    assert set(labels) == {0, 1, 2}
    assert ids.max() < len(words)


def test_the_accuracy_weighs_every_author_alike():
    labels, guess = np.array([0, 0, 0, 1, 2]), np.array([0, 0, 0, 0, 0])
    assert c19_masked.balanced(guess, labels) == 33.3


def test_counting_sees_the_words_and_not_their_order():
    ids = np.array([[5, 6, 6, 9], [6, 9, 5, 6]])
    table = c19_masked.counts(ids)
    assert np.array_equal(table[0], table[1])
    assert table[0, [5, 6, 7, 9]].tolist() == [1, 2, 0, 1]


def test_the_loss_of_a_gap_looks_at_chosen_words_only():
    encoder = c19_masked.fresh(1)
    ids = np.full((2, 4), 7)
    say = torch.tensor([[IGNORE, 9, IGNORE, IGNORE], [IGNORE] * 4])
    loss = c19_masked.gap_loss(encoder, torch.from_numpy(ids), say)
    logits = encoder(torch.from_numpy(ids)) @ encoder.embedding.weight.T
    assert_close(loss, -logits.log_softmax(-1)[0, 1, 9])


@pytest.mark.parametrize("name", ["c19_translation", "c19_masked"])
def test_records_have_three_seeds(name):
    assert len(record.load(name)["seeds"]) >= 3
