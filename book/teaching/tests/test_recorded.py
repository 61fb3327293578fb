"""Every recorded number comes out again: first points of the records, and what was trained.

Where a few seconds are enough, a training of the record runs again as far as the first recorded
point; the tolerance leaves room for the rounding of other processors. For the longer trainings the
recorded settings must still build the recorded model and the recorded way of training.
"""

from dataclasses import asdict, fields, replace
from itertools import pairwise

import numpy as np
import pytest
from test_experiments import ex
from unrolled.data.tokens import CharTokenizer
from unrolled.models.ngram import NGram
from unrolled_book.experiments import _c08_words, record, trained
from unrolled_book.experiments._climb import Course, Recipe, evaluate
from unrolled_book.experiments._climb_feedforward import Shape
from unrolled_book.experiments._common import n_parameters as size

pytestmark = pytest.mark.stored


@pytest.fixture(scope="module")
def course() -> Course:
    return Course.load()


class Seen(Exception):
    """Training has come as far as is asked for."""


def row_of(rows: list[dict], **wanted) -> dict:
    (found,) = [row for row in rows if wanted.items() <= row.items()]
    return found


def climbs() -> list[tuple[Recipe, dict, dict]]:
    """(recipe, its config, its row) of all models that climb the ladder."""
    shape = Shape(**record.load("ladder_feedforward")["config"]["recipe"]["shape"])
    found = []
    for name, *recipes in (
        ("ladder_feedforward", ex.ladder_feedforward.shaped(ex.ladder_feedforward.RECIPE, shape)),
        ("ladder_rnn", ex.ladder_rnn.RECIPE), ("ladder_lstm", ex.ladder_lstm.RECIPE),
        ("ladder_transformer", ex.ladder_transformer.RECIPE),
        ("c12_wide_search", ex.ladder_lstm.RECIPE),
        ("c20_equal_tokens", ex.c20_equal_tokens.SHORT), ("c20_longer", *ex.c20_longer.RECIPES),
    ):  # fmt: skip
        config, metrics = (record.load(name)[part] for part in ("config", "metrics"))
        for recipe, row in zip(recipes, metrics["rows"], strict=True):
            found.append((recipe, config.get(recipe.name, config), row))
    return found


@pytest.mark.parametrize(("recipe", "config", "row"), climbs())
def test_a_recipe_of_the_ladder_is_the_recorded_one(recipe, config, row, course):
    chosen = config["recipe"]["lr"]
    assert recipe.lr in (None, chosen)
    recipe = replace(recipe, lr=chosen)
    assert config["recipe"].items() <= asdict(recipe).items()
    assert config["fit"].items() <= recipe.config(0).to_dict().items()
    assert size(recipe.build(course.vocab_size, 0)) == row["parameters"]


def test_the_rates_and_shapes_that_were_searched_are_the_recorded_ones():
    kinds = ("feedforward", "rnn", "lstm", "transformer")
    for name in (*(f"ladder_{kind}" for kind in kinds), "c12_wide_search"):
        found = record.load(name)["config"]["search"]
        assert [each["lr"] for each in found] == [*getattr(ex, name).LRS]
    config = record.load("ladder_feedforward")["config"]
    keys = [field.name for field in fields(Shape)]
    found = [{key: each[key] for key in keys} for each in config["shapes"]]
    assert found == [asdict(shape) for shape in ex.ladder_feedforward.SHAPES]
    best = min(config["shapes"], key=lambda each: each["valid_bits_per_character"])
    assert config["recipe"]["shape"].items() <= best.items()


def test_networks_of_words_have_as_many_parameters_as_recorded(monkeypatch):
    kept = record.load("c08_unseen")["config"]
    nets = [(_c08_words.Net(**net), kept["parameters"]) for net in kept["nets"].values()]
    for name in ("c08_context", "c08_longer"):
        for row in record.load(name)["metrics"]["rows"]:
            nets.append((_c08_words.Net(context_length=row["context"]), row["parameters"]))
    for net, n in nets:
        assert size(_c08_words.fresh(net, 0)) == n
    monkeypatch.setattr(ex.c12_words, "fit", lambda model, *_, **__: None)
    tokens, tokenizer = ex.c12_words.tokens_of("shakespeare", 2000)
    for cell, name in ex.c12_words.NAMES.items():
        model, _ = ex.c12_words.train(cell, tokens, tokenizer, lr=1.0, n_steps=20, seed=0)
        row = row_of(record.load("c12_words")["metrics"]["rows"], model=name)
        assert size(model) == row["parameters"]


def test_readers_and_small_transformers_have_as_many_parameters_as_recorded():
    for name, n in record.load("c11_parentheses")["config"]["parameters"].items():
        assert size(ex.c11_parentheses.ParenthesesReader(name)) == n
    ablated, recorded = (record.load(name) for name in ("c16_ablation", "c17_extrapolation"))
    n_characters = Course.load(ablated["config"]["corpus"]).vocab_size
    model = ex.c16_ablation.language_model(n_characters, 0)
    assert size(model) == ablated["config"]["parameters"]
    for scheme in ex.c17_extrapolation.SCHEMES:
        longest = max(recorded["config"]["lengths"])
        model = ex.c17_extrapolation.build(scheme, n_characters, longest, 0)
        assert size(model) == row_of(recorded["metrics"]["rows"], scheme=scheme)["parameters"]


def test_c08_the_test_tokens_fall_into_the_recorded_bins_and_counting_scores_them_as_recorded():
    text, recorded = _c08_words.words(), record.load("c08_unseen")
    seen = ex.c08_unseen.times_seen(text.train, text.test, text.eos)
    bins = recorded["metrics"]["bins"]
    edges = [*(b["at_least"] for b in bins), np.inf]
    assert np.histogram(seen, edges)[0].tolist() == [b["tokens"] for b in bins]
    log_probs = _c08_words.counted(_c08_words.kneser_ney(4), text.test)
    wanted = row_of(recorded["metrics"]["rows"], model="kneser-ney")["test_perplexity_by_bin"]
    for (least, end), expected in zip(pairwise(edges), wanted, strict=True):
        nats = -log_probs[(seen >= least) & (seen < end)].mean()
        assert np.exp(nats) == pytest.approx(expected, rel=1e-9)
    row = row_of(record.load("c08_context")["metrics"]["kneser_ney"], context=2)
    assert ex.c08_context.counting_row(2) == pytest.approx(row, rel=1e-9)
    n_steps = recorded["config"]["nets"]["net"]["n_steps"]
    assert record.load("c08_longer")["config"]["n_steps"] == n_steps


def test_c16_the_probability_of_a_line_end_is_the_recorded_one(course):
    recorded, space = record.load("c16_line_ends"), ex.c16_ablation._space("shakespeare")
    model = trained.load(recorded["config"]["large"])
    given = ex.c16_line_ends.edited(course.held_out["valid"][0], course.newline, space)[0]
    found = ex.c16_line_ends.chance_of(course.newline, model, given).mean().item()
    wanted = recorded["metrics"]["large"]["whole"]["line_end"]["given"]
    assert found == pytest.approx(wanted, rel=1e-3)


@pytest.mark.trains
def test_c10_a_network_of_the_copy_task_comes_out_again():
    of_it = {"start": "identity relu", "delay": 10, "lr": 1e-2, "seed": 0}
    recorded = record.load("c10_tickets")
    wanted = row_of(recorded["curve"], **of_it)
    _, found = ex.c10_tickets.train(**of_it, n_steps=400, batch_size=32)
    assert found["reach_before"] == pytest.approx(wanted["reach_before"], rel=1e-3)
    assert found["accuracy"] == pytest.approx(wanted["accuracy"], abs=0.02)
    assert found["loss"] == pytest.approx(wanted["loss"], rel=0.1, abs=1e-3)


@pytest.mark.trains
def test_c16_a_reader_comes_out_again():
    of_it = {"heads": 2, "questions": 4, "readout": "linear", "seed": 0}
    recorded = record.load("c16_heads")
    wanted = row_of(recorded["metrics"]["readers"], **of_it)
    _, found = ex.c16_heads.train(*of_it.values(), n_steps=600, batch_size=64)
    # After 600 steps the loss itself differs by a third between processors.
    assert found["accuracy"] == pytest.approx(wanted["accuracy"], abs=0.02)


@pytest.mark.trains
@pytest.mark.parametrize("arm", [
    ex.c18_depth.Arm(place="pre", depth=2, lr=1e-2, warmup=0, activation="swiglu"),
    ex.c18_depth.Arm(place="post", depth=6, lr=1e-3, warmup=0),
    ex.c18_depth.Arm(place="pre", depth=12, lr=1e-2, warmup=0, init="small"),
])  # fmt: skip
def test_c18_the_first_points_of_a_curve_come_out_again(arm):
    recorded = record.load("c18_depth")
    runs = recorded["metrics"]["runs"]
    place = runs.index(row_of(runs, seed=0, **asdict(arm)))
    found = ex.c18_depth.train(arm, seed=0, n_steps=2 * ex.c18_depth.EVERY)["curve"]
    assert found == pytest.approx(recorded["curve"][place]["bits"][:2], abs=0.005)


@pytest.mark.trains
@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_c20_the_first_point_of_a_copying_curve_comes_out_again(kind):
    def look(model) -> float:
        raise Seen(ex.c20_copy.score(model, valid))

    recorded = record.load("c20_copy")
    row = recorded["metrics"]["rows"][kind == "lstm"]
    wanted = row_of(recorded["curve"], model=row["model"], seed=0, step=row["n_steps"] // 15)
    valid = ex.c20_copy.validation(recorded["config"]["n_looked"])
    settings = {"n_steps": row["n_steps"], "lr": row["lr"], "eval_every": wanted["step"]}
    with pytest.raises(Seen) as seen:
        ex.c20_copy.train(kind, seed=0, look=look, **settings)
    assert seen.value.args[0]["bits"] == pytest.approx(wanted["bits"], abs=0.01)


@pytest.mark.trains
def test_c20_the_small_model_writes_and_learns_its_first_steps_as_recorded(monkeypatch):
    kept, count, texts, costs = record.load("c20_learning"), ex.c20_learning.bits, [], []

    def bits(nats: float) -> float:
        costs.append(count(nats))
        if len(costs) == 2:
            raise Seen
        return costs[-1]

    monkeypatch.setattr(ex.c20_learning, "bits", bits)
    monkeypatch.setattr(ex.c20_learning, "described", lambda text, _: texts.append(text) or {})
    with pytest.raises(Seen):
        ex.c20_learning.run(n_written=ex.c20_learning.N_SHOWN)
    assert costs == pytest.approx([point["bits"] for point in kept["curve"][:2]], abs=0.01)
    wanted = row_of(kept["metrics"]["rows"], model="GPT", seed=0, step=0)["text"]
    assert np.mean([a == b for a, b in zip(texts[0], wanted, strict=True)]) > 0.98


def test_c20_the_settings_that_learn_to_write_are_the_recorded_ones():
    kept, settings = record.load("c20_learning")["config"], ex.c20_learning.Settings()
    assert kept["settings"] == asdict(settings)
    assert kept["fit"].items() <= settings.fit(0).to_dict().items()
    vocab_size = Course.load(kept["corpus"]).vocab_size
    assert size(settings.model(vocab_size, 0)) == kept["parameters"]
    assert kept["looks"] == [*ex.c20_learning.LOOKS]
    assert kept["temperature"] == ex.c20_learning.TEMPERATURE


def test_c20_the_copier_that_ships_scores_as_the_recorded_seeds():
    recorded, copier = record.load("c20_copy"), trained.load("c20_copy")
    for where, batch in ex.c20_copy.tests(recorded["config"]["n_looked"]).items():
        seeds = [found[where] for found in recorded["metrics"]["rows"][0]["by_seed"]]
        found = ex.c20_copy.score(copier, batch)
        assert found["exact"] == pytest.approx(np.mean([s["exact"] for s in seeds]), abs=0.02)
        assert found["bits"] == pytest.approx(np.mean([s["bits"] for s in seeds]), abs=0.15)


@pytest.mark.trains
def test_c21_what_shakespeare_and_greedy_text_cost_comes_out_again():
    wanted = record.load("c21_writing")["metrics"]["rows"]
    methods, seed = (ex.c21_writing.HUMAN, "greedy"), 1
    for found in ex.c21_writing.run(seeds=[seed], methods=methods)["metrics"]["rows"]:
        row = row_of(wanted, method=found["method"], seed=seed)
        assert found["nats"] == pytest.approx(row["nats"], abs=0.01)
        assert found["repeated"] == pytest.approx(row["repeated"], abs=0.02)


def test_c21_an_exact_next_line_comes_out_again():
    rows = record.load("c21_mode")["metrics"]["rows"]
    at = next(i for i, row in enumerate(rows) if row["mode"] and 100 < row["mode"]["reads"] < 600)
    row = rows[at]
    tokenizer = CharTokenizer.train(ex.c21_mode.corpora.load(ex.c21_mode.CORPUS).train)
    tokens = tokenizer.encode(ex.c21_mode.corpora.load(ex.c21_mode.CORPUS).test)
    newline = int(tokenizer.encode("\n")[0])
    end = ex.c21_mode.line_ends(tokens, newline, len(rows))[at]
    prompt = tokens[end + 1 - ex.c21_mode.CONTEXT : end + 1]
    assert tokenizer.decode(prompt) == row["context"]
    model, given = trained.load("ladder_transformer"), ex.c21_mode.torch.from_numpy(prompt)[None]
    found = ex.c21_mode.searched(model, given.long(), newline, (1,), row["mode"]["reads"] + 50)
    assert tokenizer.decode(found["mode"]["tokens"].numpy()) == row["mode"]["text"]
    assert found["mode"]["log_prob"] == pytest.approx(row["mode"]["log_prob"], abs=0.01)
    assert found["1"]["log_prob"] == pytest.approx(row["1"]["log_prob"], abs=0.1)


def test_a_kneser_ney_row_of_the_ladder_comes_out_again(course):
    wanted = row_of(record.load("ladder_ngram")["curve"], order=2)
    model = NGram.fit(course.train, 2, course.vocab_size, "kneser-ney", modified=True)
    assert model.n_parameters == wanted["parameters"]
    for split, (ids, n_bytes) in course.held_out.items():
        scored = evaluate(model, ids, n_bytes, start=course.newline, overlap=1)
        expected = wanted[f"{split}_bits_per_byte"]
        assert scored.bits_per_byte == pytest.approx(expected, rel=1e-9)
