"""Chapter 20's recorded experiments: copying names, equal characters, telling authors apart."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from torch import nn
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled_book.experiments import (
    c20_authors,
    c20_copy,
    c20_equal_tokens,
    c20_longer,
    record,
)
from unrolled_book.experiments._climb import climb
from unrolled_book.experiments.c20_authors import Classifier, Passages
from unrolled_book.tasks.copying import NEWLINE, TOKENIZER, as_batch

TESTS = c20_copy.tests(7)


@pytest.fixture(scope="module")
def copied():
    lrs = {"transformer": (1e-3, 1e-2), "lstm": (1e-2, 1e-1)}
    return c20_copy.run(
        n_steps=4, search_steps=2, longer=2.0, seeds=(3, 5), lrs=lrs, n_looked=7, n_trial=2
    )


def test_the_copying_can_be_recorded(copied, tmp_path):
    fields = {name: field for name, field in copied.items() if name != "model"}
    record.save("c20_copy", **fields, seconds=1.0, folder=tmp_path)
    assert record.load("c20_copy", tmp_path)["metrics"] == copied["metrics"]


def test_three_rows_over_the_same_seeds_at_the_rate_that_the_search_found(copied):
    transformer, lstm, longer = copied["metrics"]["rows"]
    assert [row["model"] for row in copied["metrics"]["rows"]] == [
        "Transformer", "LSTM", "LSTM, longer",
    ]  # fmt: skip
    assert longer["n_steps"] == 2 * lstm["n_steps"]
    for row, kind in ((transformer, "transformer"), (lstm, "lstm"), (longer, "lstm")):
        assert [found["seed"] for found in row["by_seed"]] == [3, 5]
        tried = copied["config"]["search"][kind]
        assert row["lr"] == min(tried, key=lambda found: found["valid_bits"])["lr"]
    assert abs(transformer["parameters"] / lstm["parameters"] - 1) < 0.05
    ends = [p["step"] for p in copied["curve"] if p["model"] == "Transformer"]
    assert ends == [1, 2, 3, 4] * 2


def test_the_model_that_ships_is_the_first_seed_s_transformer(copied):
    transformer = copied["metrics"]["rows"][0]["by_seed"][0]
    found = {where: c20_copy.score(copied["model"], batch) for where, batch in TESTS.items()}
    assert found == {where: transformer[where] for where in TESTS}


class Copier(nn.Module):
    """Logits of one who knows the line, but for one letter of the lines in `slips`."""

    def __init__(self, batch, slips=()):
        super().__init__()
        self.logits = torch.full((*batch.inputs.shape, TOKENIZER.vocab_size), -9.0)
        answers = torch.from_numpy(np.where(batch.copied, batch.targets, NEWLINE))
        self.logits.scatter_(-1, answers[..., None], 9.0)
        for b in slips:
            place = int(np.flatnonzero(batch.copied[b])[-2])
            self.logits[b, place] = self.logits[b, place].roll(1)

    def forward(self, tokens):
        return self.logits


def test_a_line_counts_when_every_letter_after_the_sign_is_right():
    batch = as_batch(["ab c", "d", "ef gh", "a"])
    assert c20_copy.score(Copier(batch), batch)["exact"] == 1
    assert c20_copy.score(Copier(batch), batch)["bits"] < 1e-3
    assert c20_copy.score(Copier(batch, slips=(1, 2, 3)), batch)["exact"] == 0.25


def test_held_out_lines_are_always_the_same_and_no_training_name_is_among_them():
    one, two = c20_copy.tests(11), c20_copy.tests(11)
    assert {where: batch.lines for where, batch in one.items()} == {
        where: batch.lines for where, batch in two.items()
    }
    train = set(c20_copy.names("train"))
    for batch in (*one.values(), c20_copy.validation(11)):
        assert len(batch.lines) == 11
        assert not train & {name for line in batch.lines for name in line.replace("=", " ").split()}


@pytest.fixture(scope="module")
def tokenizer():
    return CharTokenizer.train(corpora.load("shakespeare").train)


@pytest.fixture(scope="module")
def tiny(tokenizer):
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, d_model=12, n_layers=2, n_heads=3, context_length=101
    )
    return TransformerLM(config)


def test_passages_are_plain_held_out_and_evenly_drawn():
    passages = c20_authors.draw(np.random.default_rng(0), 60, "test")
    assert len(passages) == 60
    assert passages.labels.sum() == 30
    sources = [c20_authors.plain(corpora.load(name).test) for name in ("shakespeare", "austen")]
    for text, label in zip(passages.texts, passages.labels, strict=True):
        assert len(text) == c20_authors.LENGTH
        assert text in sources[label]
        assert text not in sources[1 - label]
    again = c20_authors.draw(np.random.default_rng(0), 60, "test")
    assert again.texts == passages.texts
    with pytest.raises(ValueError, match="even n"):
        c20_authors.draw(np.random.default_rng(0), 5, "test")


def test_a_classifier_begins_as_a_copy_and_reads_at_extract(tiny, tokenizer):
    before = {key: value.clone() for key, value in tiny.state_dict().items()}
    torch.manual_seed(1)
    classifier = Classifier(tiny, 2, "extract")
    nn.init.normal_(classifier.head.weight)
    tokens = torch.from_numpy(c20_authors.encode(tokenizer, ["a passage", "or two of"]))
    assert tokens[:, 0].tolist() == 2 * tokenizer.encode("\n").tolist()
    assert tokens[:, -1].tolist() == [tokenizer.vocab_size] * 2
    h = torch.cat([tiny.embed(tokens[:, :-1]), classifier.embedding.weight[-1].expand(2, 1, -1)], 1)
    expected = classifier.head(tiny.stack(h)[:, -1])
    torch.testing.assert_close(classifier(tokens), expected)
    classifier.reading = "mean"
    torch.testing.assert_close(classifier(tokens), classifier.head(tiny.stack(h).mean(1)))
    with pytest.raises(ValueError, match=r"one of .*'extract'.*, got 'last'"):
        Classifier(tiny, 2, "last")
    classifier(tokens).sum().backward()
    assert classifier.embedding.weight.grad[-1].abs().sum() > 0
    c20_authors.finetune(
        tiny, Passages(("a passage", "or two of"), np.array([0, 1])), tokenizer,
        seed=0, lr=1e-2, n_steps=2,
    )  # fmt: skip
    assert all(torch.equal(value, before[key]) for key, value in tiny.state_dict().items())


def test_fine_tuning_learns_what_can_be_told_from_one_letter(tiny, tokenizer):
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=40)
    texts = tuple(
        "".join(rng.choice([["a", "b"], ["c", "d"]][k], size=13)) for k in map(int, labels)
    )
    quiz = Passages(texts, labels)
    model = c20_authors.finetune(tiny, quiz, tokenizer, seed=0, lr=1e-2, n_steps=25)
    assert c20_authors.accuracy(model, quiz, tokenizer) == 1
    assert c20_authors.by_counting(quiz, quiz, tokenizer) == 1


def test_authors_can_be_recorded(tiny, tmp_path):
    result = c20_authors.run(
        model=tiny, n_labelled=(2, 6), seeds=(0, 1, 2), lrs=(1e-3, 1e-2), n_steps=2, n_test=20
    )
    record.save("c20_authors", **result, seconds=1.0, folder=tmp_path)
    rows = record.load("c20_authors", tmp_path)["metrics"]["rows"]
    kinds = [*c20_authors.KINDS, c20_authors.COUNTING]
    assert [(row["n_labelled"], row["kind"]) for row in rows] == [
        (n, kind) for n in (2, 6) for kind in kinds
    ]
    assert all(len(row["accuracy"]) == 3 for row in rows)
    assert set(result["config"]["lr"]) == set(c20_authors.KINDS)


def test_the_shorter_lstm_reads_as_much_as_the_transformer_at_the_rate_of_its_own_row():
    read = record.load("ladder_transformer")["config"]["recipe"]
    own, short = record.load("ladder_lstm")["config"]["recipe"], c20_equal_tokens.SHORT
    n_tokens = short.n_steps * short.batch_size * short.window
    assert n_tokens == read["n_steps"] * read["batch_size"] * read["window"]
    assert (short.hidden_size, short.lr) == (own["hidden_size"], own["lr"])


def test_the_shorter_lstm_can_be_recorded(tmp_path, short_texts):
    short = c20_equal_tokens.SHORT
    tiny = replace(short, n_steps=2, batch_size=3, window=5, hidden_size=7, width=5)
    result = c20_equal_tokens.run(tiny, corpus="shakespeare-small", seeds=(3, 5))
    record.save("c20_equal_tokens", **result, seconds=1.0, folder=tmp_path)
    (row,) = record.load("c20_equal_tokens", tmp_path)["metrics"]["rows"]
    assert row["seeds"] == [3, 5]
    assert len(set(row["test_bits_per_byte_by_seed"])) == 2
    assert {p["step"] for p in result["curve"]} == {1, 2}


def test_the_longer_ones_are_the_rows_with_twice_the_updates_and_nothing_else_changed():
    for longer, name in zip(c20_longer.RECIPES, ("ladder_transformer", "ladder_lstm"), strict=True):
        row = record.load(name)["config"]["recipe"]
        assert asdict(longer) == {"windows": {}} | row | {"n_steps": 2 * row["n_steps"]}


def test_the_longer_ones_can_be_recorded(tmp_path, short_texts, monkeypatch):
    def in_turn(n_processes, mp_context):  # a process of its own would read the whole texts
        assert pickle.loads(pickle.dumps((climb, c20_longer.RECIPES)))[1] == c20_longer.RECIPES
        return ThreadPoolExecutor(1)

    monkeypatch.setattr(c20_longer, "ProcessPoolExecutor", in_turn)
    small = {"n_steps": 2, "batch_size": 3, "window": 5}
    transformer, lstm = c20_longer.RECIPES
    tiny = (
        replace(transformer, **small, d_model=8, n_layers=1, n_heads=1, d_ff=8),
        replace(lstm, **small, hidden_size=7, width=5),
    )
    result = c20_longer.run(tiny, corpus="shakespeare-small", seeds=(3, 5))
    record.save("c20_longer", **result, seconds=1.0, folder=tmp_path)
    rows = record.load("c20_longer", tmp_path)["metrics"]["rows"]
    assert [(row["model"], row["seeds"]) for row in rows] == [(t.name, [3, 5]) for t in tiny]
    for row in rows:
        curve = [p for p in result["curve"] if p["model"] == row["model"]]
        assert [(p["seed"], p["step"]) for p in curve] == [(3, 1), (3, 2), (5, 1), (5, 2)]
