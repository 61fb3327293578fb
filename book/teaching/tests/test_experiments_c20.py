"""Chapter 20's recorded experiments: copying names, equal characters, telling authors apart."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_experiments import best, ex, small
from test_experiments import tiny as small_model
from torch import nn
from torch.testing import assert_close
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled_book.experiments import record, trained
from unrolled_book.experiments._climb import climb
from unrolled_book.experiments.c20_authors import Classifier, Passages


def recorded(result: dict, folder: Path) -> dict:
    record.save("any", **result, seconds=1.0, folder=folder)
    return record.load("any", folder)


def test_copying_has_three_rows_at_the_rates_of_the_search_and_ships_the_first_model(tmp_path):
    lrs = {"transformer": (1e-3, 1e-2), "lstm": (1e-2, 1e-1)}
    result = ex.c20_copy.run(
        n_steps=4, search_steps=2, longer=2.0, seeds=(3, 5), lrs=lrs, n_looked=7, n_trial=2
    )
    model, copied = result.pop("model"), recorded(result, tmp_path)
    rows = copied["metrics"]["rows"]
    assert [row["model"] for row in rows] == ["Transformer", "LSTM", "LSTM, longer"]
    transformer, lstm, longer = rows
    assert longer["n_steps"] == 2 * lstm["n_steps"]
    for row, kind in zip(rows, ("transformer", "lstm", "lstm"), strict=True):
        assert [found["seed"] for found in row["by_seed"]] == [3, 5]
        assert row["lr"] == best(copied["config"]["search"][kind])
    assert abs(transformer["parameters"] / lstm["parameters"] - 1) < 0.05
    ends = [p["step"] for p in copied["curve"] if p["model"] == "Transformer"]
    assert ends == [1, 2, 3, 4] * 2
    for where, batch in ex.c20_copy.tests(7).items():
        assert ex.c20_copy.score(model, batch) == transformer["by_seed"][0][where]


def test_a_head_silenced_in_one_path_leaves_the_others_and_the_model_as_they_were():
    model, batch = trained.load("c20_copy"), ex.c20_copy.tests(20)["names"]
    tokens = torch.from_numpy(batch.inputs)
    with torch.no_grad():
        complete = model(tokens)
    keys = ex.c20_patch.silenced_in(model, 1, "keys", batch)
    assert keys < 0.2 < ex.c20_copy.score(model, batch)["exact"]
    with torch.no_grad():
        assert torch.equal(model(tokens), complete)
        model.stack.blocks[0].attention.o_proj.weight[:, 16:32] = 0  # nothing left to silence
    silent = ex.c20_copy.score(model, batch)["exact"]
    assert all(ex.c20_patch.silenced_in(model, 1, p, batch) == silent for p in ex.c20_patch.PATHS)


def test_held_out_lines_are_always_the_same_and_no_training_name_is_among_them():
    train = set(ex.c20_copy.names("train"))
    for of in (lambda: ex.c20_copy.tests(11), lambda: {"valid": ex.c20_copy.validation(11)}):
        for batch, again in zip(of().values(), of().values(), strict=True):
            assert len(batch.lines) == 11
            assert batch.lines == again.lines
            assert not train & set(" ".join(batch.lines).replace("=", " ").split())


@pytest.fixture(scope="module")
def tokenizer():
    return CharTokenizer.train(corpora.load("shakespeare").train)


@pytest.fixture(scope="module")
def tiny(tokenizer):
    sizes = {"d_model": 12, "n_layers": 2, "n_heads": 3, "context_length": 101}
    return small_model(vocab_size=tokenizer.vocab_size, **sizes)


def test_passages_are_plain_held_out_and_evenly_drawn():
    passages = ex.c20_authors.draw(np.random.default_rng(0), 60, "test")
    assert (len(passages), passages.labels.sum()) == (60, 30)
    sources = [ex.c20_authors.plain(corpora.load(name).test) for name in ("shakespeare", "austen")]
    for text, label in zip(passages.texts, passages.labels, strict=True):
        assert len(text) == ex.c20_authors.LENGTH
        assert [text in source for source in sources] == [label == 0, label == 1]
    assert ex.c20_authors.draw(np.random.default_rng(0), 60, "test").texts == passages.texts
    with pytest.raises(ValueError, match="even n"):
        ex.c20_authors.draw(np.random.default_rng(0), 5, "test")


def test_a_classifier_begins_as_a_copy_and_reads_at_extract(tiny, tokenizer):
    before = {key: value.clone() for key, value in tiny.state_dict().items()}
    classifier = Classifier(tiny, 2, "extract")
    nn.init.normal_(classifier.head.weight)
    tokens = torch.from_numpy(ex.c20_authors.encode(tokenizer, ["a passage", "or two of"]))
    assert tokens[:, 0].tolist() == 2 * tokenizer.encode("\n").tolist()
    assert tokens[:, -1].tolist() == [tokenizer.vocab_size] * 2
    h = torch.cat([tiny.embed(tokens[:, :-1]), classifier.embedding.weight[-1].expand(2, 1, -1)], 1)
    assert_close(classifier(tokens), classifier.head(tiny.stack(h)[:, -1]))
    classifier.reading = "mean"
    assert_close(classifier(tokens), classifier.head(tiny.stack(h).mean(1)))
    with pytest.raises(ValueError, match=r"one of .*'extract'.*, got 'last'"):
        Classifier(tiny, 2, "last")
    classifier(tokens).sum().backward()
    assert classifier.embedding.weight.grad[-1].abs().sum() > 0
    quiz = Passages(("a passage", "or two of"), np.array([0, 1]))
    ex.c20_authors.finetune(tiny, quiz, tokenizer, seed=0, lr=1e-2, n_steps=2)
    assert all(torch.equal(value, before[key]) for key, value in tiny.state_dict().items())


def test_fine_tuning_learns_what_can_be_told_from_one_letter(tiny, tokenizer):
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=40)
    texts = tuple("".join(rng.choice([*("ab", "cd")[k]], size=13)) for k in labels)
    quiz = Passages(texts, labels)
    model = ex.c20_authors.finetune(tiny, quiz, tokenizer, seed=0, lr=1e-2, n_steps=25)
    assert ex.c20_authors.accuracy(model, quiz, tokenizer) == 1
    assert ex.c20_authors.by_counting(quiz, quiz, tokenizer) == 1


def test_the_longer_ones_can_be_recorded_side_by_side(short_texts, monkeypatch, tmp_path):
    def in_turn(n_processes, mp_context):  # a process of its own would read the whole texts
        assert (
            pickle.loads(pickle.dumps((climb, ex.c20_longer.RECIPES)))[1] == ex.c20_longer.RECIPES
        )
        return ThreadPoolExecutor(1)

    monkeypatch.setattr(ex.c20_longer, "ProcessPoolExecutor", in_turn)
    sizes = {"n_steps": 2, "batch_size": 3, "window": 5, "hidden_size": 7, "width": 5}
    recipes = [replace(ex.c20_longer.RECIPES[1], name=name, **sizes) for name in "ab"]
    result = ex.c20_longer.run(recipes, corpus="shakespeare-small", seeds=(3, 5))
    result = recorded(result, tmp_path)
    rows = [(row["model"], row["seeds"]) for row in result["metrics"]["rows"]]
    assert rows == [("a", [3, 5]), ("b", [3, 5])]
    assert [config["search"] for config in result["config"].values()] == [[], []]
    curve = [(p["model"], p["seed"], p["step"]) for p in result["curve"]]
    assert curve == [(name, seed, step) for name in "ab" for seed in (3, 5) for step in (1, 2)]


def test_a_text_is_described_by_its_known_words_and_the_form_of_its_words_and_lines():
    text = "A thing\n\nthat thing is\nnot whole"
    found = ex.c20_learning.described(text, {"thing", "is"})
    assert found["known"] == 3 / 5  # the first and last word may be cut off
    assert (found["line_length"], found["line_spread"]) == ((7 + 13) / 2, 3)
    assert found["capitals"] == 1 / 2
    assert found["word_length"] == (1 + 5 + 4 + 5 + 2 + 3 + 5) / 7
    nothing = ex.c20_learning.described("?!", {"thing"})
    form = {"line_length": 2, "line_spread": 0, "capitals": 0}
    assert nothing == {"known": 0, "word_length": 0} | form


def test_the_looks_are_at_the_steps_that_were_asked_for_and_only_the_first_seed_is_shown():
    rows, curve = small("c20_learning")["metrics"]["rows"], small("c20_learning")["curve"]
    looks = [(row.get("seed"), row.get("step")) for row in rows[:4]]
    assert looks == [(seed, step) for seed in (0, 3) for step in (0, 2)]
    assert ["text" in row for row in rows] == [True, True, False, False, True, True, False]
    bits = {(point["seed"], point["step"]): point["bits"] for point in curve}
    assert [*bits] == [(seed, step) for seed in (0, 3) for step in (0, 1, 2)]
    assert [row["bits"] for row in rows[:4]] == [bits[look] for look in looks]
    lines = small("c20_learning")["metrics"]["lines"]
    asked = [(row["model"], row["seed"]) for row in lines]
    assert asked == [("GPT", 0), ("GPT", 3), ("7-gram", 0), ("7-gram", 3)]
    assert all(row["line_spread"] >= 0 < row["line_length"] for row in lines)


def test_what_counting_writes_after_a_character_it_has_counted_there():
    counted = ex.c20_learning.NGram.fit(np.array([0, 1, 2, 0, 1, 2, 0]), 2, 3, "mle")
    text = ex.c20_learning.write(ex.c20_learning.Counting(counted), 0, 6)
    assert text.tolist() == [1, 2, 0, 1, 2, 0]
