"""The ladder's evaluation: every token once, whatever the windows, for every kind of model."""

import importlib
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from unrolled.training.evaluate import evaluate
from unrolled_book.experiments import _climb as climbing
from unrolled_book.experiments import ladder, record
from unrolled_book.experiments._climb_feedforward import Shape


def test_the_recorded_ladder_descends_on_the_corpus_that_ships():
    rows, recorded = ladder.rows(), record.load("ladder_ngram")
    assert recorded["config"]["sha256"] == ladder.corpora.load(ladder.CORPUS).sha256
    *counted, five = [row["test_bits_per_byte"] for row in rows[:6]]  # from uniform to 5-gram
    assert all(a > b for a, b in pairwise(counted))
    kneser_ney = [row for row in rows if "Kneser" in row["model"]]
    assert all(row["test_bits_per_byte"] < min(counted[-1], five) for row in kneser_ney)
    best = min(recorded["curve"], key=lambda point: point["valid_bits_per_byte"])
    assert kneser_ney[-1]["model"].startswith(f"{best['order']}-gram")


def test_the_table_shows_every_row_and_keeps_a_place_for_what_is_not_recorded(monkeypatch):
    monkeypatch.setitem(ladder.RECORDS, "ladder_oracle", "an oracle")
    *lines, waiting = ladder.table().splitlines()[2:]
    assert "an oracle" in waiting
    for line, row in zip(lines, ladder.rows(), strict=True):
        assert row["model"] in line
        assert f"{row['test_bits_per_byte']:.3f}" in line


SMALL = {"n_steps": 60, "batch_size": 4, "window": 11}
SHAPES = Shape(context_length=1, width=1), Shape(context_length=2, width=5)
NEURAL = {
    "ladder_feedforward": SMALL | {"hidden_size": 7},
    "ladder_rnn": SMALL | {"hidden_size": 7, "width": 5},
    "ladder_lstm": SMALL | {"hidden_size": 7, "width": 5},
    "ladder_transformer": SMALL | {"d_model": 6, "n_layers": 1, "n_heads": 3, "d_ff": 7,
                                   "windows": {"context_length": 11, "overlap": 5}},
}  # fmt: skip


@pytest.mark.parametrize("name", NEURAL)
def test_a_neural_row_is_searched_trained_over_seeds_and_scored_as_all_rows_are(name, monkeypatch):
    """Its shape and rate are the best on validation, and the first seed's Transformer ships."""
    module = importlib.import_module(f"unrolled_book.experiments.{name}")
    text = np.tile([0, 1, 2], 400)  # what a model of any kind learns at once
    held_out = {"valid": (text[:300], 300), "test": (text[:150], 150)}

    class Cycle(ladder.Course):
        load = classmethod(lambda cls, corpus: cls(text, held_out, 3, 2))

    for place in (climbing, module):
        monkeypatch.setattr(place, "Course", Cycle, raising=False)
    recipe = replace(module.RECIPE, **NEURAL[name])
    searched = {"shapes": SHAPES, "shape_steps": 20} if name == "ladder_feedforward" else {}
    files = {path: path.stat().st_mtime_ns for path in record.RESULTS.iterdir()}
    lrs = (1e-9, 1e30, 3e-2)
    result = module.run(recipe, seeds=(3, 4), lrs=lrs, search_steps=20, **searched)
    assert {path: path.stat().st_mtime_ns for path in record.RESULTS.iterdir()} == files
    config, (row,) = result["config"], result["metrics"]["rows"]
    assert config["recipe"]["lr"] == 3e-2
    found = {each["lr"]: each[climbing.LOSS] for each in config["search"]}
    assert found.keys() == set(lrs)
    assert found[1e30] is None  # it diverges
    if searched:
        best = min(config["shapes"], key=lambda each: each[climbing.LOSS])
        assert config["recipe"]["shape"].items() <= best.items()
        assert (best["context_length"], len(config["shapes"])) == (2, 2)
    scores = row["test_bits_per_byte_by_seed"]
    assert row["seeds"] == result["seeds"] == [3, 4]
    assert len(set(scores)) == 2
    assert row["test_bits_per_byte"] == pytest.approx(np.mean(scores))
    assert max(scores) < 0.5 < np.log2(3)
    assert ("model" in result) == (name == "ladder_transformer")
    if "model" in result:
        again = evaluate(result["model"], *held_out["test"], start=2, **recipe.windows)
        assert again.bits_per_byte == scores[0]
    assert {point["seed"] for point in result["curve"]} == {3, 4}
    assert result["curve"][-1]["step"] == 60


def test_a_corpus_that_does_not_survive_the_tokeniser_is_refused(monkeypatch):
    texts = SimpleNamespace(train="ab\n", valid="ab", test="ä")
    monkeypatch.setattr(ladder.corpora, "load", lambda name: texts)
    with pytest.raises((ValueError, KeyError)):
        ladder.Course.load("any")
