"""The recorded experiments: found by name, refused by a wrong one, written as records."""

from __future__ import annotations

import importlib
from inspect import signature

import pytest
from unrolled.teaching import experiments
from unrolled.teaching.experiments import __main__ as command
from unrolled.teaching.experiments import record


@pytest.mark.parametrize("name", command.names())
def test_an_experiment_has_a_run_that_needs_no_argument_and_says_how_long_it_takes(name):
    module = importlib.import_module(f"{experiments.__name__}.{name}")
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


def test_what_run_returns_is_recorded_under_the_module_s_name(monkeypatch, capsys):
    module = importlib.import_module(f"{experiments.__name__}.ladder_ngram")
    saved = {}
    monkeypatch.setattr(module, "run", lambda: {"config": {}, "seeds": [], "metrics": {"a": 1}})
    monkeypatch.setattr(record, "save", lambda name, **fields: saved.update({name: fields}))
    assert command.main(["ladder_ngram"]) == 0
    assert saved["ladder_ngram"].pop("seconds") >= 0
    assert saved == {"ladder_ngram": {"config": {}, "seeds": [], "metrics": {"a": 1}}}
    assert "recorded" in capsys.readouterr().out
