"""The recorded experiments: found by name, refused by a wrong one, written as records."""

from __future__ import annotations

import inspect
import re
from inspect import signature

import pytest
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled_book.experiments import __main__ as command
from unrolled_book.experiments import record, trained


@pytest.mark.parametrize("name", command.names())
def test_an_experiment_has_a_run_that_needs_no_argument_and_says_how_long_it_takes(name):
    module = command.module(name)
    required = [p for p in signature(module.run).parameters.values() if p.default is p.empty]
    assert not [p for p in required if p.kind is not p.VAR_KEYWORD]
    assert "second" in module.__doc__ or "minute" in module.__doc__


def test_helpers_are_no_experiments():
    assert not any(name.startswith("_") for name in command.names())


def test_every_record_has_an_experiment_that_makes_it_again():
    assert set(record.names()) <= set(command.names())


@pytest.mark.parametrize("arguments", [[], ["ladder_ngrams"], ["ladder_ngram", "nonsense"]])
def test_an_unknown_experiment_is_refused_with_the_known_ones(arguments, capsys):
    assert command.main(arguments) == 2
    message = capsys.readouterr().err
    assert "ladder_ngram" in message
    assert all(f"no experiment {a}" in message for a in arguments[-1:])


def test_an_experiment_runs_after_those_it_needs():
    order = command.in_order(list(command.names()))
    assert sorted(order) == sorted(command.names())
    assert order.index("ladder_transformer") < order.index("c20_authors")
    assert command.in_order(["c20_authors"]) == ["c20_authors"]


@pytest.mark.parametrize("name", command.names())
def test_what_an_experiment_reads_of_others_it_needs(name):
    module = command.module(name)
    read = re.findall(r"(?:trained|record)\.load\(\"(\w+)\"", inspect.getsource(module))
    assert set(read) - {name} <= set(getattr(module, "NEEDS", ())) <= set(command.names())


def test_a_model_is_saved_and_its_checksum_recorded(monkeypatch, tmp_path, capsys):
    result = {"config": {}, "seeds": [0], "metrics": {"a": 1}, "model": tiny()}
    monkeypatch.setattr(command.module("ladder_transformer"), "run", lambda: result)
    monkeypatch.setattr(
        record, "RESULTS", tmp_path / "book/teaching/unrolled_book/experiments/results"
    )
    (tmp_path / "chapters").mkdir()
    (tmp_path / "lib/unrolled").mkdir(parents=True)
    assert command.main(["ladder_transformer"]) == 0
    assert trained.load("ladder_transformer").config == tiny().config
    assert "ladder_transformer.json" in capsys.readouterr().out


def tiny() -> TransformerLM:
    sizes = {"vocab_size": 7, "d_model": 10, "n_layers": 2, "n_heads": 5, "context_length": 11}
    return TransformerLM(TransformerConfig(**sizes))


def test_what_run_returns_is_recorded_under_the_module_s_name(monkeypatch, capsys):
    module = command.module("ladder_ngram")
    saved = {}
    monkeypatch.setattr(module, "run", lambda: {"config": {}, "seeds": [], "metrics": {"a": 1}})
    monkeypatch.setattr(record, "save", lambda name, **fields: saved.update({name: fields}))
    assert command.main(["ladder_ngram"]) == 0
    assert saved["ladder_ngram"].pop("seconds") >= 0
    assert saved == {"ladder_ngram": {"config": {}, "seeds": [], "metrics": {"a": 1}}}
    assert "recorded" in capsys.readouterr().out
