"""The recorded experiments of chapters 16 to 18: heads, positions, and the depth of the stack."""

import json

import numpy as np
import pytest
import torch
from test_experiments import ex, small
from torch.testing import assert_close
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled_book.experiments.c18_depth import Arm, fresh, train

ablation, heads, line_ends = ex.c16_ablation, ex.c16_heads, ex.c16_line_ends
c17, c18 = ex.c17_extrapolation, ex.c18_depth


def tiny(n_layers: int = 2, n_heads: int = 3) -> TransformerLM:
    sizes = {"vocab_size": 11, "d_model": 15, "n_layers": n_layers, "n_heads": n_heads}
    return TransformerLM(TransformerConfig(**sizes, context_length=23, init_std=0.5)).eval()


def test_the_answers_stand_where_the_sources_say():
    tokens, answers = heads.texts(np.random.default_rng(3), 5, 4)
    places = tokens[:, ::-1], np.roll(tokens, 1, 1), np.roll(tokens, -1, 1), tokens
    assert np.array_equal(answers, np.stack(places, axis=-1))


def test_reads_is_the_weight_on_the_answer_where_no_other_answer_stands():
    model = heads.fresh(2, 2, seed=1)
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


def test_without_a_head_the_layer_gives_what_the_other_heads_add():
    model, tokens = tiny(n_layers=1).double(), torch.arange(7)[None]
    before = {key: value.clone() for key, value in model.state_dict().items()}
    seen = []
    hook = model.stack.blocks[0].attention.o_proj.register_forward_hook(
        lambda module, inputs, output: seen.append((inputs[0], output))
    )
    model(tokens)
    ablation.without_heads(model, [(0, 1)])(tokens)  # a copy carries the hook, too
    hook.remove()
    (z, full), (same, less) = seen
    assert_close(z, same)
    W = before["stack.blocks.0.attention.o_proj.weight"]
    assert_close(full - less, z[..., 5:10] @ W[:, 5:10].T)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    for head, message in (((1, 0), "1 layers, got layer 1"), ((0, 3), "3 heads, got head 3")):
        with pytest.raises(ValueError, match=message):
            ablation.without_heads(model, [head])


def test_places_by_a_worked_case():
    newline, space, a, b = 0, 1, 2, 3
    tokens = torch.tensor([[a, b, space, a, newline, b, b]])
    marks = ablation.places(tokens, newline, space)
    for habit, query, expected in (
        ("itself", 3, [3]), ("one back", 3, [2]), ("one back", 0, []),
        ("word start", 1, [0]), ("word start", 2, [0]), ("word start", 4, [3]),
        ("word start", 6, [5]), ("spaces", 5, [2]), ("line ends", 5, [4]),
        ("same letter", 6, [1, 5]), ("after same", 6, [2, 6]), ("after same", 3, [1]),
    ):  # fmt: skip
        assert marks[habit][0, query].nonzero().flatten().tolist() == expected, (habit, query)


def test_a_head_that_attends_to_all_alike_has_the_habits_of_chance():
    model = tiny(n_layers=1)
    with torch.no_grad():
        model.stack.blocks[0].attention.q_proj.weight.zero_()
        model.stack.blocks[0].attention.q_proj.bias.zero_()
    tokens = torch.randint(11, (3, 19), generator=torch.Generator().manual_seed(0))
    found = ablation.habits(model, tokens, newline=0, space=1, skip=5)
    for habit in ablation.HABITS:
        assert_close(found[habit][0], [found["chance"][habit]] * 3, atol=1e-6, rtol=1e-6)


NEWLINE, SPACE = 0, 1


@pytest.fixture
def verse(monkeypatch) -> np.ndarray:
    """Random words of the characters 2 to 10, and a measurement of the size for such texts."""
    sizes = {"LONG": 3, "WINDOW": 10, "N_WINDOWS": 60, "FIRST_WINDOW": 0, "CONTEXT": 13,
             "N_PLACES": 5, "FIRST_PLACE": 20, "GAP": (2, 5)}  # fmt: skip
    for name, size in sizes.items():
        monkeypatch.setattr(line_ends, name, size)
    rng = np.random.default_rng(0)
    return np.where(rng.random(900) < 0.3, rng.integers(2, size=900), rng.integers(2, 11, size=900))


def test_columns_and_kinds_by_a_worked_case(verse):
    """Kinds are of the characters 1 to 10; the first five are only context."""
    text = "aa||a|aaa|a", "aaa|aa||a|a"
    tokens = torch.tensor([[NEWLINE if c == "|" else 5 for c in row] for row in text])
    assert line_ends.columns(tokens, NEWLINE)[0].tolist() == [1, 2, 0, 0, 1, 0, 1, 2, 3, 0, 1]
    found = [{k: [] for k in line_ends.KINDS} for _ in text]
    for kind, mark in line_ends.kinds(tokens, NEWLINE).items():
        for row, i in mark.nonzero().tolist():
            found[row][kind].append(i + 1)
    assert found == [
        {"blank line": [], "short line": [], "long line": [9], "other": [6, 7, 8, 10]},
        {"blank line": [7], "short line": [6, 9], "long line": [], "other": [8, 10]},
    ]


def test_an_edited_text_differs_in_one_character_and_ends_with_a_word(verse):
    given, longer, control = line_ends.edited(verse, NEWLINE, SPACE)
    assert given.shape == (5, 13)
    for before, after, other in zip(given.tolist(), longer.tolist(), control.tolist(), strict=True):
        assert bytes(before) in bytes(verse.tolist())
        last = max(i for i, token in enumerate(before) if token == NEWLINE)
        assert 2 <= 12 - last <= 5
        assert before[-1] > SPACE
        assert NEWLINE not in before[last - 3 : last]  # the line before is long
        assert after == [*before[:last], SPACE, *before[last + 1 :]]
        gap = max(i for i in range(last) if before[i] == SPACE)
        assert other == [*before[:gap], NEWLINE, *before[gap + 1 :]]
    assert not torch.equal(given, line_ends.edited(verse, NEWLINE, SPACE, seed=1)[0])


def test_what_a_head_is_worth_is_measured_for_each_kind(verse):
    model = tiny()
    found = line_ends.measure(model, verse, NEWLINE, SPACE)
    assert sum(found["count"].values()) == 60 * 5
    windows, last = line_ends.cut(verse), found["heads"][-1]
    rest = ablation.without_heads(model, [last["head"]])
    added = line_ends.costs(rest, windows) - line_ends.costs(model, windows)
    other = line_ends.kinds(windows, NEWLINE)["other"]
    assert last["lost"]["other"] == pytest.approx(added[other].mean().item())
    given = line_ends.edited(verse, NEWLINE, SPACE)[0]
    chance = rest(given)[:, -1].softmax(-1)[:, NEWLINE].mean().item()
    assert last["line_end"]["given"] == pytest.approx(chance)


def test_every_seed_is_scored_at_every_length_reach_and_bin_of_positions():
    result = small("c17_extrapolation")
    for row in result["metrics"]["rows"]:
        assert np.shape(row["bits"]) == np.shape(result["metrics"]["reach"]) == (2, 2)
        assert len(set(row["train_bits"])) == 2
    assert np.shape(result["metrics"]["ring"]) == (2, 2)
    assert [p["position"] for p in result["curve"]] == 8 * [0, 16, 32]
    table = np.array(result["metrics"]["table"])
    assert np.diagonal(table) == pytest.approx(np.ones(16), abs=1e-3)
    assert np.abs(table).max() < 1 + 1e-3
    models = [c17.build(scheme, 11, 23, 0) for scheme in ("relative", "relative, 128")]
    assert [model.stack.position.max_distance for model in models] == [32, 128]


def test_a_key_beyond_the_reach_is_not_read():
    model = c17.build("rotary", 11, 48, seed=0).eval()
    texts = np.random.default_rng(0).integers(11, size=(3, 49))
    begin = texts.copy()
    begin[:, 0] = (begin[:, 0] + 1) % 11
    # two layers: the first token reaches the scored ones, from 16 on, over 2 · (reach − 1) steps
    ours, changed = (c17.by_reach(model, t, (8, 9, 48)) for t in (texts, begin))
    assert [a == b for a, b in zip(ours, changed, strict=True)] == [True, False, False]
    assert ours[2] == pytest.approx(c17.losses(model, texts)[:, -32:].mean(), abs=1e-5)
    near, far, none = c17.by_ring(model, texts, (32, 40, 48))  # the oldest key is 47 back
    assert [near, none] == c17.by_reach(model, texts, (64, 32))
    assert len({near, far, none}) == 3


def test_the_same_tokens_are_scored_at_every_length_and_windows_end_with_a_target():
    """A model that looks at the last token only loses the same, however long the window."""
    bigram = torch.nn.Embedding(7, 7)
    texts = c17.windows(np.random.default_rng(0).integers(7, size=997), 11, 64)
    assert np.ptp(c17.by_length(bigram, texts, (32, 41, 64))) < 1e-9
    texts = c17.windows(np.arange(101), 3, 7)
    assert texts[[0, -1]].tolist() == [list(range(8)), list(range(93, 101))]


def test_untouched_rows_of_a_table_stay_as_they_began():
    tokens = np.random.default_rng(0).integers(5, size=200)
    model, fresh = (c17.build("learned", 5, 31, seed=1) for _ in range(2))
    c17.train(model, tokens, length=7, n_steps=2, seed=1)
    before, after = (m.stack.position.weight for m in (fresh, model))
    assert torch.equal(before[7:], after[7:])
    assert not (before[:7] == after[:7]).any()


def test_a_training_that_diverges_is_told():
    arm = Arm(place="pre", depth=1, lr=1e30, warmup=0)
    row = json.loads(json.dumps(train(arm, seed=0, n_steps=4), allow_nan=False))
    assert row["updates"] < 4
    assert (row["bits"], row["gradients"]) == (None, [None])


def test_gradients_are_norms_over_all_matrices_of_a_block_and_leave_none_behind():
    model = fresh("post", 3, seed=1)
    found = c18.gradients(model)
    assert all(p.grad is None for p in model.parameters())
    tokens, targets = map(torch.from_numpy, c18.held_out())
    torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()).backward()
    for norm, block in zip(found, model.stack.blocks, strict=True):
        matrices = [p.grad.flatten() for p in block.parameters() if p.ndim == 2]
        assert norm == pytest.approx(torch.cat(matrices).norm().item(), rel=1e-5)


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_every_matrix_starts_with_variance_2_over_inputs_and_outputs(activation):
    model = fresh("post", 3, seed=1, activation=activation)
    D, F = c18.WIDTH, c18.inner_width(activation)
    for name, parameter in model.stack.blocks.named_parameters():
        if parameter.ndim == 2:
            other = F if "feed_forward" in name else D
            expected = (2 / (D + other)) ** 0.5
            assert parameter.std().item() == pytest.approx(expected, rel=0.06), name
    embedded = model.embedding.weight[:, None] + model.stack.position.weight
    assert embedded.std().item() == pytest.approx(1, rel=0.05)
    small_start = fresh("pre", 2, seed=0, init="small", activation=activation)
    assert small_start.stack.blocks[0].attention.q_proj.weight.std() < 0.03
