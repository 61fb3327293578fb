"""The ladder's evaluation: every token once, whatever the windows, for every kind of model."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.models.ngram import NGram
from unrolled.training.evaluate import evaluate
from unrolled.training.settings import DivergedError, History
from unrolled_book.experiments import _climb as climbing
from unrolled_book.experiments import ladder, record
from unrolled_book.experiments._climb_feedforward import Shape

TEXT = np.random.default_rng(0).integers(0, 7, 211)
MODEL = NGram.fit(np.random.default_rng(1).integers(0, 7, 307), 3, 7, "kneser-ney")
ALL = -MODEL.score(np.append(3, TEXT))[1:].sum()  # the text after the token 3


@given(st.integers(3, 250) | st.just(211), st.integers(2, 7), st.integers(5, 17))
@settings(max_examples=25, deadline=None)
def test_windows_that_overlap_by_the_order_score_like_one_pass(width, overlap, batch_size):
    windows = dict(context_length=width, overlap=min(overlap, width - 1), batch_size=batch_size)
    result = evaluate(MODEL, TEXT, 211, start=3, **windows)
    assert result.nats == pytest.approx(ALL, rel=1e-12)
    assert result.n_tokens == 211


def test_windows_without_overlap_cost_more_because_context_is_lost():
    assert evaluate(MODEL, TEXT, 211, start=3, context_length=5, overlap=0).nats != ALL


@pytest.mark.parametrize("n", [1, 2, 5, 6, 13])
def test_every_token_is_scored_once_even_in_short_texts(n):
    def uniform(tokens):
        return np.zeros((*tokens.shape, 4))  # logits of a uniform model: 2 bits per token

    text = np.arange(n) % 4
    result = evaluate(uniform, text, 2 * n, start=0, context_length=5, overlap=2)
    assert result.bits_per_byte == pytest.approx(1.0)
    assert result.perplexity == pytest.approx(4.0)


class Copy(torch.nn.Module):
    """Logits that depend on the last token; dropout would show if evaluation forgot to end it."""

    def __init__(self):
        super().__init__()
        self.table, self.dropout = torch.nn.Embedding(7, 7), torch.nn.Dropout(0.5)

    def forward(self, tokens):
        return self.dropout(self.table(tokens))


def test_a_torch_module_is_scored_in_evaluation_mode_and_left_as_it_was():
    torch.manual_seed(0)
    model = Copy()
    result = evaluate(model, TEXT, 211, start=3, context_length=13, overlap=1)
    assert model.training
    previous = torch.from_numpy(np.append(3, TEXT[:-1]))
    expected = torch.nn.functional.cross_entropy(
        model.table(previous), torch.from_numpy(TEXT), reduction="sum"
    )
    assert result.nats == pytest.approx(expected.item(), rel=1e-6)


def test_a_module_that_fails_is_left_as_it_was():
    model = Copy().train()
    with pytest.raises(IndexError):
        evaluate(model, np.array([3, 99, 3]), 3, start=3)
    assert model.training


def test_maximum_likelihood_pays_an_infinite_price_for_an_unseen_context():
    model = NGram.fit(np.array([0, 1, 2]), 2, 4)
    assert evaluate(model, np.array([1, 3, 2, 0]), 4, start=0).bits_per_byte == np.inf


def test_impossible_lengths_are_refused():
    with pytest.raises(ValueError, match="overlap must be at least 0 and at most 4, got 5"):
        evaluate(MODEL, TEXT, 211, start=0, context_length=5, overlap=5)
    for batch_size in (0, -1):
        with pytest.raises(ValueError, match=f"batch_size must be at least 1, got {batch_size}"):
            evaluate(MODEL, TEXT, 211, start=0, batch_size=batch_size)
    with pytest.raises(ValueError, match="number of tokens must be at least 1, got 0"):
        evaluate(MODEL, TEXT[:0], 0, start=0)


def test_the_recorded_ladder_descends_and_its_choices_were_made_on_the_validation_text():
    rows = ladder.rows()
    by_name = {row["model"].split(",")[0]: row["test_bits_per_byte"] for row in rows[:6]}
    assert list(by_name) == ["uniform", "unigram", "2-gram", "3-gram", "4-gram", "5-gram"]
    test = list(by_name.values())
    assert all(a > b for a, b in pairwise(test[:5]))
    kneser_ney = [row for row in rows if "Kneser" in row["model"]]
    assert all(row["test_bits_per_byte"] < min(test) for row in kneser_ney)
    curve = ladder.record.load("ladder_ngram")["curve"]
    best = min(curve, key=lambda point: point["valid_bits_per_byte"])
    assert kneser_ney[-1]["model"].startswith(f"{best['order']}-gram")


def test_the_recorded_rows_come_from_the_corpus_that_ships():
    recorded = ladder.record.load("ladder_ngram")["config"]["sha256"]
    assert recorded == ladder.corpora.load(ladder.CORPUS).sha256, "run `make results`"


def test_the_table_shows_every_row_and_keeps_a_place_for_what_is_not_recorded():
    lines = ladder.table().splitlines()[2:]
    recorded = ladder.record.names()
    waiting = [label for name, label in ladder.RECORDS.items() if name not in recorded]
    assert len(lines) == len(ladder.rows()) + len(waiting)
    assert all(any(label in line for line in lines) for label in waiting)
    scored = [line for line in lines if not any(label in line for label in waiting)]
    for line, row in zip(scored, ladder.rows(), strict=True):
        assert row["model"] in line
        assert f"{row['test_bits_per_byte']:.3f}" in line


SMALL = {"n_steps": 60, "batch_size": 4, "window": 11}
SHAPES = {"shapes": (Shape(context_length=1, width=5), Shape(context_length=2, width=3))}
NEURAL = {
    "ladder_feedforward": SMALL | {"hidden_size": 7},
    "ladder_rnn": SMALL | {"hidden_size": 7, "width": 5},
    "ladder_lstm": SMALL | {"hidden_size": 7, "width": 5},
    "ladder_transformer": SMALL | {"d_model": 6, "n_layers": 1, "n_heads": 3, "d_ff": 7,
                                   "windows": {"context_length": 11, "overlap": 5}},
}  # fmt: skip


@pytest.mark.parametrize("name", NEURAL)
def test_a_neural_row_is_searched_trained_over_seeds_and_scored_as_all_rows_are(name, monkeypatch):
    module = importlib.import_module(f"unrolled_book.experiments.{name}")
    text = np.tile([0, 1, 2], 400)  # what a model of any kind learns at once

    class Cycle(ladder.Course):
        load = classmethod(lambda cls, corpus: cls(text, held_out, 3, 2))

    held_out = {"valid": (text[:300], 300), "test": (text[:150], 150)}
    for place in (climbing, module):
        monkeypatch.setattr(place, "Course", Cycle, raising=False)
    recipe = replace(module.RECIPE, **NEURAL[name])
    searched = SHAPES | {"shape_steps": 20} if name == "ladder_feedforward" else {}
    result = module.run(recipe, seeds=(3, 4), lrs=(1e-9, 3e-2), search_steps=20, **searched)
    assert ("model" in result) == (name == "ladder_transformer")
    assert result["config"]["recipe"]["lr"] == 3e-2
    assert [f["lr"] for f in result["config"]["search"]] == [1e-9, 3e-2]
    (row,) = result["metrics"]["rows"]
    scores = row["test_bits_per_byte_by_seed"]
    assert row["seeds"] == result["seeds"] == [3, 4]
    assert len(set(scores)) == 2
    assert row["test_bits_per_byte"] == pytest.approx(np.mean(scores))
    assert max(scores) < 0.5 < np.log2(3)
    assert {point["seed"] for point in result["curve"]} == {3, 4}
    assert result["curve"][-1]["step"] == 60


def test_the_feed_forward_shape_is_the_best_on_validation_of_those_tried(monkeypatch):
    module = importlib.import_module("unrolled_book.experiments.ladder_feedforward")
    losses = iter([2.5, 2.25, 2.75])
    monkeypatch.setattr(module.Course, "load", lambda corpus: None)
    monkeypatch.setattr(
        module, "search", lambda course, recipe, lrs: [{"lr": lrs[0], module.LOSS: next(losses)}]
    )
    monkeypatch.setattr(module, "climb", lambda recipe, lrs: {"config": {"shape": recipe.shape}})
    config = module.run(shapes=module.SHAPES[:3])["config"]
    assert config["shape"] is module.SHAPES[1]
    assert [found[module.LOSS] for found in config["shapes"]] == [2.5, 2.25, 2.75]


def test_the_first_seed_s_model_ships_and_a_run_by_itself_writes_nothing(monkeypatch):
    built = {}

    def climb(recipe, keep, **options):
        for seed in (7, 8):
            keep(seed, built.setdefault(seed, object()))
        return {"seeds": [7, 8]}

    module = importlib.import_module("unrolled_book.experiments.ladder_transformer")
    monkeypatch.setattr(module, "climb", climb)
    before = {path: path.stat().st_mtime_ns for path in record.RESULTS.iterdir()}
    assert module.run(seeds=(7, 8))["model"] is built[7]
    assert {path: path.stat().st_mtime_ns for path in record.RESULTS.iterdir()} == before


def test_a_recipe_with_a_learning_rate_is_not_searched(monkeypatch):
    recipe = climbing.Recipe(name="any", lr=0.5)
    monkeypatch.setattr(climbing.Course, "load", lambda corpus: None)
    monkeypatch.setattr(climbing, "over_seeds", lambda rows: {})
    result = climbing.climb(recipe, seeds=())
    assert result["config"]["search"] == []
    assert result["config"]["recipe"]["lr"] == 0.5


def test_a_learning_rate_that_diverges_is_recorded_as_such(monkeypatch):
    def lost(course, recipe, seed):
        raise DivergedError("the loss", np.nan, History())

    monkeypatch.setattr(climbing, "train", lost)
    recipe = climbing.Recipe(name="any")
    found = climbing.search(None, recipe, [1.0])
    assert found == [{"lr": 1.0, "valid_bits_per_character": None}]


def test_a_corpus_that_does_not_survive_the_tokeniser_is_refused(monkeypatch):
    class Corpus:
        train, valid, test = "ab\n", "ab", "ä"

    monkeypatch.setattr(ladder.corpora, "load", lambda name: Corpus)
    with pytest.raises((ValueError, KeyError)):
        ladder.Course.load("any")


def test_records_hold_plain_json():
    assert json.loads(json.dumps(ladder.rows())) == ladder.rows()
