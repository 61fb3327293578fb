"""Chapter 16's recorded experiments: readers and their heads, and what ablation measures."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled_book.experiments import c16_ablation as ablation
from unrolled_book.experiments import c16_heads as heads
from unrolled_book.experiments import c16_line_ends as line_ends


def tiny(n_layers: int = 2, n_heads: int = 3, seed: int = 0, **changes) -> TransformerLM:
    torch.manual_seed(seed)
    config = {"vocab_size": 11, "d_model": 15, "n_layers": n_layers, "n_heads": n_heads,
              "context_length": 23, "init_std": 0.5}  # fmt: skip
    return TransformerLM(TransformerConfig(**(config | changes))).eval()


def test_the_answers_stand_where_the_sources_say():
    tokens, answers = heads.texts(np.random.default_rng(3), 5, 4)
    assert_close(answers[:, :, 0], tokens[:, ::-1].copy())
    assert_close(answers[:, 1:, 1], tokens[:, :-1])
    assert_close(answers[:, 0, 1], tokens[:, -1])
    assert_close(answers[:, :-1, 2], tokens[:, 1:])
    assert_close(answers[:, :, 3], tokens)


def test_who_knows_the_mixture_only_guesses_right_as_often_as_counted_by_hand():
    # Two different places: 1/2, and 1 where the digits are equal, 1/10 of the time. At two of the
    # twelve places mirror and left are one place.
    two = (10 * (0.5 + 0.5 / 10) + 2) / 12
    assert heads.mixture(1) == 1
    assert heads.mixture(2, n=200_000) == pytest.approx(two, abs=5e-3)


def test_the_record_of_the_readers_is_json_with_a_row_for_each():
    result = heads.run(heads=(1, 2), questions=(1, 2), readouts=("hidden",), seeds=(3,), n_steps=2)
    rows = json.loads(json.dumps(result))["metrics"]["readers"]
    assert [(r["questions"], r["heads"]) for r in rows] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert all(np.shape(r["reads"]) == (r["heads"], r["questions"]) for r in rows)
    assert all(0 <= weight <= 1 for r in rows for row in r["reads"] for weight in row)


def test_reads_is_the_weight_on_the_answer_where_no_other_answer_stands():
    model = heads.reader(2, 2, seed=1)
    with torch.no_grad():  # head 1: place i reads i, 11 − i and i − 1 alike; head 2 reads all alike
        model.symbols.weight.zero_()
        model.places.weight.copy_(torch.eye(heads.LENGTH, heads.WIDTH))
        for linear in (model.attention.q_proj, model.attention.k_proj, model.attention.v_proj):
            linear.weight.zero_()
            linear.bias.zero_()
        asks = sum(np.eye(12)[row] for row in heads.sources(2)) + np.eye(12)
        model.attention.q_proj.weight[:12, :12] = 200 * torch.from_numpy(asks > 0).T
        model.attention.k_proj.weight[:12, :12] = torch.eye(12)
    reads = heads.score(model)["reads"]
    assert_close(reads[0], [1 / 3, 1 / 3], atol=1e-6, rtol=0)
    assert_close(reads[1], [1 / 12, 1 / 12], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("wrong", "why"), [({"readout": "deep"}, "readout"), ({"n_heads": 5}, "divide"),
                       ({"n_kv_heads": 3}, "divide")],
)  # fmt: skip
def test_a_reader_that_cannot_be_built_is_refused(wrong, why):
    with pytest.raises(ValueError, match=why):
        heads.reader(**({"n_heads": 4, "n_questions": 2} | wrong))


def test_without_a_head_the_layer_gives_what_the_other_heads_add():
    model, tokens = tiny(n_layers=1).double(), torch.arange(7)[None]
    seen = []
    hook = model.stack.blocks[0].attention.o_proj.register_forward_hook(
        lambda module, inputs, output: seen.append((inputs[0], output))
    )
    model(tokens)
    ablation.without_heads(model, [])  # a copy carries the hook, too, and leaves the model alone
    without = ablation.without_heads(model, [(0, 1)])
    without(tokens)
    hook.remove()
    (z, full), (same, less) = seen[0], seen[-1]
    assert_close(z, same)
    W = model.stack.blocks[0].attention.o_proj.weight
    assert_close(full - less, z[..., 5:10] @ W[:, 5:10].T)


def test_ablation_leaves_the_model_itself_as_it_was():
    model = tiny()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    ablation.without_heads(model, [(0, 0), (1, 2)])
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


@pytest.mark.parametrize("head", [(2, 0), (0, 3), (-1, 0)])
def test_a_head_that_is_not_there_is_refused(head):
    with pytest.raises(ValueError, match="layer"):
        ablation.without_heads(tiny(), [head])


def test_all_single_heads_and_all_pairs_are_measured():
    tokens = np.random.default_rng(0).integers(11, size=100)
    result = ablation.ablate(tiny(), tokens, start=0)
    assert len(result["single"]) == 6
    assert len(result["pairs"]) == 15
    whole = ablation.bits_per_character(tiny(), tokens, 0, 23)
    assert result["whole"] == pytest.approx(whole)
    last = ablation.bits_per_character(ablation.without_heads(tiny(), [(1, 2)]), tokens, 0, 23)
    assert result["single"][-1]["lost"] == pytest.approx(last - whole)


def test_places_by_a_worked_case():
    newline, space, a, b = 0, 1, 2, 3
    tokens = torch.tensor([[a, b, space, a, newline, b, b]])
    marks = {name: mark[0] for name, mark in ablation.places(tokens, newline, space).items()}

    def read(habit, query):
        return marks[habit][query].nonzero().flatten().tolist()

    assert read("itself", 3) == [3]
    assert read("one back", 3) == [2]
    assert read("one back", 0) == []
    assert [read("word start", i) for i in (1, 2, 4, 6)] == [[0], [0], [3], [5]]
    assert read("spaces", 5) == [2]
    assert read("line ends", 5) == [4]
    assert read("same letter", 6) == [1, 5]
    assert read("after same", 6) == [2, 6]
    assert read("after same", 3) == [1]


def test_a_head_that_attends_to_all_alike_has_the_habits_of_chance():
    model = tiny(n_layers=1)
    with torch.no_grad():
        model.stack.blocks[0].attention.q_proj.weight.zero_()
        model.stack.blocks[0].attention.q_proj.bias.zero_()
    tokens = torch.randint(11, (3, 19), generator=torch.Generator().manual_seed(0))
    found = ablation.habits(model, tokens, newline=0, space=1, skip=5)
    for habit in ablation.HABITS:
        assert_close(found[habit][0], [found["chance"][habit]] * 3, atol=1e-6, rtol=1e-6)


def test_the_record_of_the_ablation_is_json(monkeypatch):
    monkeypatch.setattr(ablation, "WINDOW", 8)
    monkeypatch.setattr(ablation, "language_model", lambda vocab, seed: tiny(1, 2, seed,
                        vocab_size=vocab, d_model=8, context_length=8))  # fmt: skip
    result = ablation.run(seeds=(0, 1), n_steps=2, n_characters=64)
    models = json.loads(json.dumps(result))["metrics"]["models"]
    assert [m["seed"] for m in models] == [0, 1]
    assert all(len(m["single"]) == 2 and len(m["pairs"]) == 1 for m in models)


# --- how long the line is -----------------------------------------------------------------------

NEWLINE, SPACE = 0, 1


@pytest.fixture
def short_lines(monkeypatch):
    """The measurement at a size for texts of a few hundred characters."""
    sizes = {"LONG": 3, "WINDOW": 10, "N_WINDOWS": 60, "FIRST_WINDOW": 0, "CONTEXT": 13,
             "N_PLACES": 5, "FIRST_PLACE": 20, "GAP": (2, 5)}  # fmt: skip
    for name, size in sizes.items():
        monkeypatch.setattr(line_ends, name, size)


def verse(n: int, seed: int = 0) -> np.ndarray:
    """Random words of the characters 2 to 10, with a space or a line end behind most of them."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.3, rng.integers(2, size=n), rng.integers(2, 11, size=n))


def test_columns_and_kinds_by_a_worked_case(monkeypatch):
    monkeypatch.setattr(line_ends, "LONG", 3)
    a = 5
    text = torch.tensor([[a, a, NEWLINE, NEWLINE, a, NEWLINE, a, a, a, NEWLINE, a]])
    assert line_ends.columns(text, NEWLINE)[0].tolist() == [1, 2, 0, 0, 1, 0, 1, 2, 3, 0, 1]
    marks = line_ends.kinds(text, NEWLINE)  # characters 1 to 10; the first five are context
    at = {kind: (mark[0].nonzero().flatten() + 1).tolist() for kind, mark in marks.items()}
    assert at == {"blank line": [], "short line": [], "long line": [9], "other": [6, 7, 8, 10]}
    turned = torch.tensor([[a, a, a, NEWLINE, a, a, NEWLINE, NEWLINE, a, NEWLINE, a]])
    marks = line_ends.kinds(turned, NEWLINE)
    at = {kind: (mark[0].nonzero().flatten() + 1).tolist() for kind, mark in marks.items()}
    assert at == {"blank line": [7], "short line": [6, 9], "long line": [], "other": [8, 10]}


def test_an_edited_text_differs_in_one_character_and_ends_with_a_word(short_lines):
    tokens = verse(900)
    given, longer, control = line_ends.edited(tokens, NEWLINE, SPACE)
    assert given.shape == (5, 13)
    for before, after, other in zip(given.tolist(), longer.tolist(), control.tolist(), strict=True):
        last = max(i for i, token in enumerate(before) if token == NEWLINE)
        assert 2 <= 12 - last <= 5
        assert before[-1] > SPACE
        assert NEWLINE not in before[last - 3 : last]  # the line before is long
        assert after == [*before[:last], SPACE, *before[last + 1 :]]
        gap = max(i for i in range(last) if before[i] == SPACE)
        assert other == [*before[:gap], NEWLINE, *before[gap + 1 :]]


def test_the_places_are_in_the_text_and_another_seed_draws_others(short_lines):
    tokens = verse(900)
    text = "".join(map(chr, tokens + 97))
    given = line_ends.edited(tokens, NEWLINE, SPACE)[0]
    assert all("".join(map(chr, row + 97)) in text for row in given.numpy())
    assert not torch.equal(given, line_ends.edited(tokens, NEWLINE, SPACE, seed=1)[0])


def test_what_a_head_is_worth_is_measured_for_each_kind(short_lines):
    model, tokens = tiny(), verse(900)
    found = line_ends.measure(model, tokens, NEWLINE, SPACE)
    assert sum(found["count"].values()) == 60 * 5
    assert [row["head"] for row in found["heads"]] == [
        [0, 0],
        [0, 1],
        [0, 2],
        [1, 0],
        [1, 1],
        [1, 2],
    ]
    windows = line_ends.cut(tokens)
    rest = ablation.without_heads(model, [(1, 2)])
    added = line_ends.costs(rest, windows) - line_ends.costs(model, windows)
    other = line_ends.kinds(windows, NEWLINE)["other"]
    assert found["heads"][-1]["lost"]["other"] == pytest.approx(added[other].mean().item())
    given = line_ends.edited(tokens, NEWLINE, SPACE)[0]
    chance = rest(given)[:, -1].softmax(-1)[:, NEWLINE].mean().item()
    assert found["heads"][-1]["line_end"]["given"] == pytest.approx(chance)


def test_the_record_has_the_small_models_beside_the_large_one(monkeypatch):
    size = {"d_model": 8, "context_length": 96}
    monkeypatch.setattr(line_ends, "N_WINDOWS", 30)
    monkeypatch.setattr(line_ends, "N_PLACES", 5)
    monkeypatch.setattr(line_ends.trained, "load", lambda name: tiny(1, 2, vocab_size=70, **size))
    monkeypatch.setattr(ablation, "language_model",
                        lambda vocab, seed: tiny(1, 2, seed, vocab_size=vocab, **size))  # fmt: skip
    result = line_ends.run(seeds=(3, 5), n_steps=2)
    metrics = json.loads(json.dumps(result))["metrics"]
    assert [model["seed"] for model in metrics["small"]] == [3, 5] == result["seeds"]
    for model in (metrics["large"], *metrics["small"]):
        assert [row["head"] for row in model["heads"]] == [[0, 0], [0, 1]]
    assert metrics["small"][0]["whole"] != metrics["small"][1]["whole"]
