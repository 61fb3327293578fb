"""The recorded experiments of chapters 4 to 6: tokens, vectors of words, deep stacks."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_experiments import best, ex, frequent, searches, small
from torch.testing import assert_close
from unrolled.data.bpe import BPETokenizer
from unrolled_book.experiments import record
from unrolled_book.experiments.c05_renamed import found_again
from unrolled_book.experiments.c05_vectors import LINK, link, nearest, overlap
from unrolled_book.experiments.c06_depth import Arm, deepen, fresh, train


def test_bytes_inside_counts_what_stands_before_a_byte_in_its_own_token():
    tokenizer = BPETokenizer([(b"a", b"b"), (b"ab", b"c")])
    assert ex.c04_context.inside(tokenizer.encode("abc"), tokenizer) == 1  # (0 + 1 + 2) / 3
    assert ex.c04_context.inside(np.array([256, 0]), tokenizer) == pytest.approx(1 / 3)
    assert ex.c04_context.inside(tokenizer.encode("xyz"), tokenizer) == 0


def test_c04_recorded_rows_come_out_again():
    recorded = record.load("c04_context")
    assert recorded["config"]["train_bytes"] == ex.c04_context.TRAIN_BYTES
    found = ex.c04_context.measure("shakespeare-small", 250, recorded["config"]["orders"][:2])
    of_it = {"corpus": "shakespeare-small", "merges": 250}
    rows = [r for r in recorded["metrics"]["runs"] if of_it.items() <= r.items()]
    for row, expected in zip(found, [r for r in rows if r["order"] <= 2], strict=True):
        texts = ("corpus", "split", "merges", "order")
        assert [row.pop(name) for name in texts] == [expected.pop(name) for name in texts]
        assert row == pytest.approx(expected, rel=2e-3)


def test_the_text_has_its_most_frequent_words_first_and_those_that_get_a_new_name_often():
    vocab, tokens = ex.c05_vectors.text()
    counts = np.bincount(tokens[tokens >= 0], minlength=len(vocab))
    assert vocab[:3] == ("the", "and", "i")
    assert (np.diff(counts) <= 0).all()
    assert (counts.min(), tokens.min()) == (ex.c05_vectors.MIN_COUNT, -1)
    assert set(ex.c05_vectors.PROBES) < set(vocab)
    assert len(ex.c05_renamed.WORDS) == 40
    assert counts[list(ex.c05_renamed.WORDS)].min() == 153 > max(ex.c05_renamed.OCCURRENCES)


def test_overlap_is_ten_with_itself_and_small_with_chance():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 300, 7))
    assert overlap(a, a) == overlap(a, 3 * a) == 10
    assert overlap(a, b) < 1
    assert not (nearest(a, 10) == np.arange(300)[:, None]).any()


def test_a_word_is_compared_with_its_nearest_other_word_in_both_texts():
    """In the text words 2i and 2i + 1 have the cosine 0.6; shuffled, all words have 0."""
    pairs, null = np.zeros((1500, 1500)), np.eye(1500)
    pairs[np.arange(1500), np.arange(1500) // 2 * 2] = 1
    pairs[1::2] = 0.6 * pairs[1::2] + 0.8 * null[1::2]
    found = ex.c05_vectors.against_shuffled(pairs, null)
    assert [band.pop("ranks") for band in found] == [[1, 100], [101, 500], [501, 1500]]
    assert found == [{"text": 0.6, "shuffled": 0, "nearer": 1}] * 3


def test_expected_counts_are_those_of_drawn_windows():
    """a b c with windows drawn from 1 and 2: neighbours always, the far pair half of the time."""
    settings = replace(LINK, window=2, negatives=1, power=1.0)
    pairs, counts, target = ex.c05_vectors.expected_pmi(np.array([0, 1, 2]), 3, settings)
    found = {tuple(pair): n for pair, n in zip(pairs.tolist(), counts, strict=True)}
    assert found == {(0, 1): 1, (1, 0): 1, (1, 2): 1, (2, 1): 1, (0, 2): 0.5, (2, 0): 0.5}
    np.testing.assert_allclose(target[(pairs == [0, 1]).all(1)], np.log(1 * 5 / (1.5 * 2)))


def test_a_run_has_all_seeds_and_products_follow_pmi_more_closely_after_training(monkeypatch):
    metrics = small("c05_vectors")["metrics"]
    assert [run["seed"] for run in metrics["runs"]] == [0, 3]
    assert all(set(run["neighbours"]) == set(ex.c05_vectors.PROBES) for run in metrics["runs"])
    assert [r["n_epochs"] for r in metrics["longer"]] == [2, 2]
    monkeypatch.setattr(ex.c05_vectors, "text", frequent)
    short = replace(LINK, n_epochs=1, batch_size=20_000, lr=1e-4)
    longer = replace(LINK, n_epochs=6, batch_size=500)
    assert link(20, 0, short)["slope"] < 0.1 < link(20, 0, longer)["slope"]


def test_a_new_name_finds_the_old_word_only_where_words_keep_company(monkeypatch):
    """In a text of 77 words in eleven groups of seven, where each is met only inside its group."""
    rng = np.random.default_rng(0)
    parts = [rng.permutation(np.arange(7 * b, 7 * b + 7)) for b in rng.integers(0, 11, 6_000)]
    words, tokens = tuple(map(str, range(77))), np.concatenate(parts)
    monkeypatch.setattr(ex.c05_renamed, "text", lambda: (words, tokens))
    before = tokens.copy()
    for seed in range(3):
        real = found_again(200, seed, words=(3, 30))
        null = found_again(200, seed, words=(3, 30), shuffled=True)
        assert max(real["ranks"]) <= 7 < max(null["ranks"])
    assert real == found_again(200, seed, words=(3, 30))
    np.testing.assert_array_equal(tokens, before)


def plain(depth: int, seed: int = 1, **options) -> ex.c06_depth.DeepNet:
    return fresh(Arm(depth=depth, residual=False, **options), seed)


def test_layers_are_inserted_at_the_best_rates_where_the_short_stack_stood():
    result = small("c06_depth")
    assert [len(c["bits"]) for c in result["curve"]] == [1] * 4
    rates = [best(search) for search in searches(result["config"]["inserted_searches"])]
    rows = result["metrics"]["inserted"]
    assert [(row["depth"], row["lr"]) for row in rows] == [*zip((5, 7), rates, strict=True)] * 2
    assert rows[0]["before"] == rows[1]["before"] != rows[2]["before"]


def test_starts_are_what_they_are_called():
    of = {kind: plain(4, 0, start=kind) for kind in ex.c06_depth.STARTS}
    he, little, identity = (of[kind].stack.layers[1].weight for kind in ex.c06_depth.STARTS)
    assert_close(he.std().item(), (2 / 64) ** 0.5, rtol=0.05, atol=0)
    assert_close(little, he / 2)
    assert torch.equal(identity, torch.eye(64))
    assert all(not layer.bias.any() for model in of.values() for layer in model.stack.layers)
    smaller = ex.c06_longer.smaller(0).stack.layers[7].weight
    assert_close(smaller.std().item(), (2 / 64) ** 0.5 / 40, rtol=0.05, atol=0)


def test_inserted_identity_layers_change_no_output_or_are_refused_where_they_would():
    model = plain(2)
    deeper = deepen(model, 9)
    tokens = torch.arange(16).view(2, 8)
    assert (len(deeper.stack.layers), len(model.stack.layers)) == (9, 2)
    assert torch.equal(deeper(tokens), model(tokens))
    residual = fresh(Arm(depth=2, residual=True), 1)
    for model in (residual, plain(2, batch_norm=True), ex.c06_layers.fresh("tanh", 1)):
        with pytest.raises(ValueError, match="only a plain stack of ReLU layers"):
            deepen(model, 9)
    with pytest.raises(ValueError, match="has 3 layers, got n_layers = 2"):
        deepen(plain(3), 2)


@pytest.mark.parametrize(("residual", "start"), [(True, "small"), (False, "he")])
def test_the_first_points_of_a_recorded_arm_come_out_again(residual, start):
    recorded = record.load("c06_depth")
    kind = {"depth": 5, "residual": residual, "start": start, "seed": 0}
    runs = recorded["metrics"]["runs"]
    (place,) = [i for i, row in enumerate(runs) if kind.items() <= row.items()]
    model = fresh(Arm(depth=5, residual=residual, start=start), 0)
    losses = train(model, runs[place]["lr"], 0, 2 * ex.c06_depth.EVERY)
    found = np.reshape(losses, (2, -1)).mean(1) / np.log(2)
    assert found == pytest.approx(recorded["curve"][place]["bits"][:2], abs=0.01)


@pytest.mark.parametrize("name", ex.c06_layers.TRAININGS)
def test_the_first_layers_of_the_record_come_out_again(name):
    recorded = record.load("c06_layers")["curve"]
    wanted = [r for r in recorded if r["training"] == name and r["seed"] == 0][:2]
    found = ex.c06_layers.train(ex.c06_layers.TRAININGS[name], 0, ex.c06_layers.EVERY)
    for row, expected in zip(found, wanted, strict=True):
        assert row["bits"] == pytest.approx(expected["bits"], rel=0.01)
        assert row["mean"] == pytest.approx(expected["mean"], abs=0.01)
