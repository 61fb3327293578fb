"""The recorded experiments of chapters 13 and 19: translators of number words, and filled gaps."""

import numpy as np
import pytest
import torch
from test_experiments import small
from torch.nn.functional import one_hot
from torch.testing import assert_close
from unrolled.data.batches import IGNORE
from unrolled_book.behaviour import BehaviourError, check_padding, check_permutation
from unrolled_book.experiments import _number_words as shared
from unrolled_book.experiments import c13_seq2seq as c13
from unrolled_book.experiments import c19_masked
from unrolled_book.experiments import c19_translation as c19
from unrolled_book.experiments._common import n_parameters
from unrolled_book.tasks import number_words

DOT = next(arm for arm in c13.ARMS if arm.name == "dot")


def test_every_arm_is_measured_at_the_rate_of_its_kind():
    result = small("c13_seq2seq")
    assert result["config"]["lrs"] == {"a": 0.01, "b": 0.02}
    rows = result["metrics"]["runs"]
    assert [set(row.get("arrows", ())) for row in rows] == [set()] * 2 + [set(c13.KINDS)] * 2
    assert {(len(r["exact"]), len(r["words"])) for r in rows} == {(len(c13.DIGITS),) * 2}
    metrics = small("c19_translation")["metrics"]
    assert [len(metrics[name]) for name in ("longer", "forgot")] == [4, 2]
    assert ["predicted" in row for row in metrics["runs"]] == [False, False, True, True]


def test_rates_are_searched_on_validation_numbers_with_the_arms_own_steps(monkeypatch):
    seen = []
    monkeypatch.setattr(c13, "train", lambda model, *a: seen.append(a))
    scores = iter([[90.0, 80.0], [100.0, 90.0], [70.0, 80.0], [60.0, 60.0]])
    monkeypatch.setattr(c13, "by_length", lambda model, split: {"valid": next(scores)}[split])
    (row,) = c13.rates(c13.SEARCHED[:1])
    assert row["arm"] == "none"
    assert [r["wrong"] for r in row["rates"]] == [15.0, 5.0, 25.0, 40.0]
    assert seen == [(0, c13.SEARCHED[0].n_steps, lr) for lr in c13.LRS]


@pytest.mark.parametrize("arm", c13.ARMS, ids=lambda arm: arm.name)
def test_every_arm_is_built_as_it_says(arm):
    model = c13.fresh(arm, 0)
    assert (model.attention is None) == (arm.attention in (None, "every step"))
    assert model.previous == (arm.query == "previous")
    assert model.encoder.n_directions == 1 + arm.bidirectional
    assert model.head.in_features == arm.hidden
    assert arm.rate_of in {searched.name for searched in c13.SEARCHED}


def test_the_vector_reaches_every_step_and_padding_and_a_cache_change_nothing():
    source, mask, inputs, _ = c13.tensors([345, 67])
    model = c13.fresh(c13.Arm(name="x", attention="every step"), 0)
    expected, (_, state) = model(source, inputs, mask), model.encode(source, mask)
    cache = model.new_cache()
    steps = [model(source, x, mask, cache=cache) for x in inputs.split(1, dim=1)]
    assert_close(torch.cat(steps, 1), expected)
    vector = state[-1][:, None].expand(-1, inputs.shape[1], -1)
    x = torch.cat([model.target_embedding(inputs), vector], -1)
    assert_close(model.head(model.decoder(x, state)[0]), expected)
    alone = c13.tensors([67])
    assert_close(model(alone[0], alone[2], alone[1])[0], expected[1, : alone[2].shape[1]])


def test_the_wider_pair_has_as_many_parameters_as_the_vector_at_every_step():
    sizes = {arm.name: n_parameters(c13.fresh(arm, 0)) for arm in c13.ARMS}
    assert sizes["wider"] == pytest.approx(sizes["every step"], rel=0.01)


def test_words_count_with_the_end_mark_and_an_answer_only_as_a_whole(monkeypatch):
    right = c13.tensors([345, 7])[3].clamp(min=number_words.END)  # six tokens and two
    broken = right.clone()
    broken[0, 1] = 5
    for said, exact, words in ((right, 100, 8), (broken, 50, 7)):
        monkeypatch.setattr(shared, "written", lambda *_, said=said: said)
        assert c13.exact(None, [345, 7]) == exact
        found = c13.words(lambda *_, said=said: one_hot(said, 40).float(), [345, 7])
        assert found == pytest.approx(100 * words / 8)
    monkeypatch.undo()
    assert c13.exact(c13.fresh(DOT, 0), [345, 67]) == 0


def test_shuffling_the_rows_changes_nothing_for_weights_that_read_them(monkeypatch):
    numbers = [345_678, 23, 999_999]
    source, mask, inputs, _ = c13.tensors(numbers)
    monkeypatch.setattr(c13, "exact", lambda model, _: model(source, inputs, mask))
    for name, moves in (("dot", False), ("never looks", True)):
        model = c13.fresh(c13.Arm(name=name, attention=name), 0)
        expected, encode = model(source, inputs, mask), model.encode
        change = (c13.shuffled(model, numbers) - expected).abs().amax((1, 2))
        assert (change > 1e-4).tolist() == [moves] * 3, (name, change)
        assert model.encode == encode, "the model is left shuffled"


def test_batches_hold_training_numbers():
    train_on = {number_words.tokens(n, "de") for n in number_words.numbers("train")}
    for seed in (5, 6):
        batch = next(shared.batches(c13.tensors, seed))
        assert {number_words.decode(row.tolist(), "de") for row in batch[0]} <= train_on
    source, mask, *_ = next(shared.batches(c19.tensors, 5))
    assert {tuple(WORDS[i] for i in row[real]) for row, real in zip(source, mask, strict=True)} <= (
        train_on
    )


def swapped(module, pairs):
    """(where the source changes, where the target does, a model that knows the answers)."""
    (source, _, _, targets), (source_2, _, _, targets_2) = (
        module.tensors(numbers) for numbers in zip(*pairs, strict=True)
    )

    def perfect(read, inputs, mask):
        right = targets if torch.equal(read, source) else targets_2
        return one_hot(right.clamp(min=0), 99).float()

    return source != source_2, targets != targets_2, perfect


@pytest.mark.parametrize(("kind", "place"), [("hundreds", 0), ("tens", 4), ("units", 2)])
def test_a_swap_changes_one_token_on_each_side(kind, place):
    """At its place in "drei hundert fünf und vierzig tausend"."""
    source, target, _ = swapped(c13, c13.swaps(kind, seed=1, n=40))
    assert (source.sum(1) == 1).all()
    assert (target.sum(1) == 1).all()
    assert set((source.int().argmax(1) % 6).tolist()) == {place}


@pytest.mark.parametrize(("offset", "points", "late"), [(0, 100, 0), (1, 0, 100), (2, 0, 0)])
def test_arrows_of_a_model_that_points_right_late_and_nowhere(offset, points, late):
    pairs = c13.swaps("units", seed=2, n=20)
    source, _, perfect = swapped(c13, pairs)

    def model(read, inputs, mask, return_weights=False):
        logits = perfect(read, inputs, mask)
        where = one_hot(source.int().argmax(1) + offset, read.shape[1] + 3).float()
        weights = where[:, None].expand(-1, inputs.shape[1], -1)
        return (logits, weights) if return_weights else logits

    assert c13.arrows(model, pairs) == {"answers": 100, "points": points, "late": late}


def test_weights_that_never_look_fail_the_check_and_the_others_pass():
    states, rows = torch.randn(2, 3, c13.HIDDEN), torch.randn(2, 5, c13.HIDDEN)
    check_permutation(lambda h: c13.fresh(DOT, 0).attention(states, h)[1].mT, rows)
    fake = c13.PlaceAttention(c13.HIDDEN)
    with pytest.raises(BehaviourError, match="change places"):
        check_permutation(lambda h: fake(states, h)[1].mT, rows)
    mask = (torch.arange(5) < 4).expand(2, 5)
    _, weights = fake(states, rows, mask)
    assert not weights[..., 4].any()
    assert_close(weights.sum(-1), torch.ones(2, 3))


WORDS = c19.VOCABULARY


def test_one_table_holds_both_languages():
    source, _, inputs, targets = ([WORDS[i] for i in row] for (row,) in c19.tensors([45]))
    assert len(set(WORDS)) == len(WORDS)
    assert source == ["fünf", "und", "vierzig"]
    assert (inputs, targets) == (["<s>", "forty", "five"], ["forty", "five", "</s>"])


def test_rows_names_the_row_that_predicts_and_the_next(monkeypatch):
    pairs = c19.swaps(n=5)
    source, target, perfect = swapped(c19, pairs)
    i, changed, step = torch.arange(5), source.int().argmax(1), target.int().argmax(1)
    weights = torch.zeros(5, 2, target.shape[1], source.shape[1])
    weights[i, 0, step, changed] = 3.0  # one head points, in the predicting row
    weights[i, 1, step, (changed + 1) % source.shape[1]] = 1.0
    monkeypatch.setattr(c19, "cross_weights", lambda *_: [weights])
    found = c19.rows(perfect, pairs)
    assert found["follows"] == found["predicted"][0] == 100
    assert found["heads"] == [[100, 0]]
    assert found["heads by digit"] == {"tens": [[100, 0]], "units": [[100, 0]]}
    assert found["input"][0] < 50


def test_the_cross_attention_reads_no_padding_and_with_the_fault_it_does():
    model = c19.fresh(c19.Arm(name="x", n_layers=2, lrs=()), 3).eval()
    source, mask, inputs, _ = c19.tensors([345, 7])  # the second source is one token long
    weights = c19.cross_weights(model, source, mask, inputs)
    assert [w.shape for w in weights] == [(2, 4, inputs.shape[1], source.shape[1])] * 2
    assert_close(weights[0].sum(-1), torch.ones(weights[0].shape[:3]))
    assert not weights[1][1, ..., 1:].any()
    other = c19.forgetful(model)
    assert_close(*(m(source[:1], inputs[:1], mask[:1]) for m in (model, other)))  # no padding here

    def reading(m):
        start = inputs[:1, :2]
        return lambda ids, real: m(ids, start.expand(len(ids), 2), real).flatten(1)

    check_padding(reading(model), source, mask, tolerance=1e-4)
    with pytest.raises(BehaviourError, match="padding"):
        check_padding(reading(other), source, mask, tolerance=1e-4)


def test_hiding_follows_80_10_10_and_never_a_mark():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 500, size=(2_000, 33))
    ids[:, 0] = c19_masked.CLS
    read, say = c19_masked.hide(ids, rng, 500)
    chosen = say != IGNORE
    assert not chosen[ids < c19_masked.N_MARKS].any()
    assert np.array_equal(say[chosen], ids[chosen])
    assert np.array_equal(read[~chosen], ids[~chosen])
    assert chosen[ids >= c19_masked.N_MARKS].mean() == pytest.approx(c19_masked.CHOSEN, abs=0.01)
    assert (read[chosen] == c19_masked.MASK).mean() == pytest.approx(c19_masked.HIDDEN, abs=0.01)
    assert (read[chosen] == ids[chosen]).mean() == pytest.approx(c19_masked.CHANGED, abs=0.01)


def test_passages_hold_no_name_that_gives_the_author_away():
    words = c19_masked.vocabulary()
    assert len(words) == len(set(words)) == c19_masked.VOCAB_SIZE
    assert not {"emma", "ahab", "queequeg", "syme", "turnbull", "elinor"} & set(words)
    ids, labels = c19_masked.passages("test")
    assert ids.shape == (len(labels), c19_masked.LENGTH)
    assert set(labels) == {0, 1, 2}
    assert ids.max() < len(words)


def test_the_accuracy_weighs_every_author_alike_and_counting_does_not_see_the_order():
    labels, guess = np.array([0, 0, 0, 1, 2]), np.array([0, 0, 0, 0, 0])
    assert c19_masked.balanced(guess, labels) == 33.3
    table = c19_masked.counts(np.array([[5, 6, 6, 9], [6, 9, 5, 6]]))
    assert np.array_equal(table[0], table[1])
    assert table[0, [5, 6, 7, 9]].tolist() == [1, 2, 0, 1]


def test_the_loss_of_a_gap_looks_at_chosen_words_only():
    encoder = c19_masked.fresh(1)
    ids = torch.full((2, 4), 7)
    say = torch.tensor([[IGNORE, 9, IGNORE, IGNORE], [IGNORE] * 4])
    logits = encoder(ids) @ encoder.embedding.weight.T
    assert_close(c19_masked.gap_loss(encoder, ids, say), -logits.log_softmax(-1)[0, 1, 9])
