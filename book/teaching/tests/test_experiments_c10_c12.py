"""The recorded experiments of chapters 10 to 12: how far networks look back, what cells keep."""

import math
from dataclasses import replace
from statistics import fmean
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from test_experiments import best, ex, small
from torch.nn.functional import one_hot
from torch.testing import assert_close
from unrolled.data.batches import IGNORE
from unrolled.data.tokens import CharTokenizer
from unrolled.models.gradcheck import numerical_jacobian
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.training.fit import cross_entropy
from unrolled_book.experiments import record
from unrolled_book.experiments.c10_tickets import HIDDEN, STARTS, network, reach
from unrolled_book.experiments.c11_parentheses import Arm, HeldOut, NeighbourRule, is_right
from unrolled_book.tasks.parentheses import is_balanced
from unrolled_book.tasks.symbols import parentheses


def test_a_row_holds_the_networks_of_the_learning_rate_that_validation_prefers(monkeypatch):
    valid = {(0.1, 0): 0.2, (0.1, 1): 0.9, (0.3, 0): 0.6, (0.3, 1): 0.7}

    def train(start, delay, lr, seed, **_):
        row = {"start": start, "delay": delay, "lr": lr, "seed": seed}
        row |= {"valid_accuracy": valid[lr, seed], "accuracy": 1 - valid[lr, seed]}
        return None, row | {"reach_before": lr + seed, "reach_after": 10 * lr + seed}

    monkeypatch.setattr(ex.c10_tickets, "train", train)
    (row,) = ex.c10_tickets.run(("default",), (7,), (0.1, 0.3), (0, 1))["metrics"]["rows"]
    assert (row["lr"], row["accuracy"]) == (0.3, pytest.approx([0.4, 0.3]))
    assert (row["reach_before"], row["reach_after"]) == (pytest.approx(0.8), pytest.approx(3.5))


def test_the_starts_differ_where_they_say_and_nowhere_else():
    cells = [network(start, 2).recurrent.cells[0] for start in STARTS]
    default, orthogonal, identity, *with_relu = cells
    sizes = torch.linalg.svdvals(orthogonal.weight_hh)
    assert_close(sizes, torch.ones(HIDDEN), atol=1e-5, rtol=0)
    assert torch.equal(identity.weight_hh, torch.eye(HIDDEN))
    for cell in (orthogonal, identity):
        assert torch.equal(cell.weight_ih, default.weight_ih)
        assert not cell.bias_ih.any() | cell.bias_hh.any()
    assert [cell.nonlinearity for cell in cells] == ["tanh"] * 3 + ["relu"] * 2
    for cell, same in zip(with_relu, (default, identity), strict=True):
        assert_close(dict(cell.named_parameters()), dict(same.named_parameters()), rtol=0, atol=0)
    with pytest.raises(ValueError, match="default, orthogonal, identity"):
        network("zero", 0)


@pytest.mark.parametrize("start", STARTS)
def test_reach_is_the_gradient_of_the_loss_at_each_tokens_vector(start):
    model = network(start, 0).double()
    task = ex.c10_tickets.examples(np.random.default_rng(0), 2, 3)
    vectors = model.embedding(torch.from_numpy(task.tokens)).detach()

    def loss(moved: np.ndarray) -> float:
        logits = model.head(model.recurrent(torch.from_numpy(moved))[0])
        return cross_entropy(logits, torch.from_numpy(task.targets)).sum().item()

    norms = np.linalg.norm(numerical_jacobian(loss, vectors.numpy()), axis=(0, 2))  # (T,)
    np.testing.assert_allclose(reach(model, task), norms / norms[-1], rtol=1e-4)


class Stack(torch.nn.Module):
    """Tells every string right, by the definition."""

    def forward(self, tokens):
        verdicts = torch.tensor([int(is_balanced(row)) for row in tokens.tolist()])
        return one_hot(verdicts, 2)[:, None].float()


def test_the_curve_has_every_number_of_pairs_and_its_mean_is_the_error():
    result = small("c11_parentheses")
    for run in result["metrics"]["runs"]:
        arm, model = run["arm"], run["model"]
        k = result["config"]["arms"][arm]["seeds"].index(run["seed"])
        rows = [c for c in result["curve"] if (c["arm"], c["model"]) == (arm, model)]
        errors = {row["pairs"]: row["errors"][k] for row in rows}
        assert [*errors] == [*range(2 + arm, 7)]  # a deep swap needs three pairs
        for name, within in (("error", True), ("error_beyond", False)):
            mean = fmean(error for n, error in errors.items() if (n <= 4) == within)
            assert run[name] == pytest.approx(mean, abs=1e-4)


def test_batches_hold_one_length_and_ask_for_the_verdict_at_the_end():
    batches = ex.c11_parentheses.draw_batches(5, 40, negatives=("deep",), pairs=(2, 7))
    assert {tokens.shape[1] for tokens, _ in batches} == {6, 8, 10, 12, 14}
    for tokens, targets in batches:
        assert tokens.shape == targets.shape
        assert (targets[:, :-1] == IGNORE).all()
        assert targets[:, -1].tolist() == [int(is_balanced(row)) for row in tokens]


@pytest.mark.parametrize(("model", "block"), [("LSTM", "f"), ("GRU", "z"), ("minimal gated", "z")])
def test_gates_begin_open_for_keeping(model, block):
    cell = ex.c11_parentheses.ParenthesesReader(model).recurrent.cells[0]
    rows = cell.rows(block)
    assert torch.equal(cell.bias_ih[rows] + cell.bias_hh[rows], torch.full((50,), 2.0))
    assert (cell.bias_ih != 2).sum() == cell.bias_ih.numel() - 50
    held = torch.rand(1, 50)
    new = cell.step(torch.zeros(1, 10), (torch.zeros(1, 50), held) if model == "LSTM" else held)
    memory = new[1] if model == "LSTM" else new
    assert torch.corrcoef(torch.cat([held, memory]))[0, 1] > 0.8
    identity = ex.c11_parentheses.ParenthesesReader("Elman, identity").recurrent.cells[0]
    assert torch.equal(identity.step(torch.zeros(1, 10), held), held)


def test_an_arm_says_where_the_gates_begin(monkeypatch):
    begun = []
    monkeypatch.setattr(ex.c11_parentheses, "_start", lambda model, cell, keep: begun.append(keep))
    arms = Arm(models=("GRU",), seeds=(0,)), Arm(models=("GRU",), seeds=(0,), keep=0.5)
    ex.c11_parentheses.run(arms, n_steps=1, pairs=(2, 4), beyond=(5, 6), n_held_out=4)
    assert begun[:2] == [2.0, 0.5]


def test_right_verdicts_are_counted_string_by_string_over_lengths():
    strings = parentheses(np.random.default_rng(2), 60, pairs=(2, 5))
    turned = np.where(np.arange(60) < 13, 1 - strings.labels, strings.labels)
    found = is_right(Stack(), replace(strings, labels=turned)).tolist()
    assert found == [False] * 13 + [True] * 47
    judged = HeldOut.draw(("swap",), 8, (2, 5), (6, 7)).judge(Stack(), 5)
    assert judged["error"] == judged["error_beyond"] == 0
    assert judged["by_pairs"] == [0] * 6
    kinds = ("balanced", "shuffle", "invert", "swap", "deep")
    assert judged["probe"] == judged["probe_beyond"] == dict.fromkeys(kinds, 1.0)


def test_the_neighbour_rule_sees_an_opener_and_the_closer_after_it_and_no_more():
    rng, rule = np.random.default_rng(3), NeighbourRule()
    for string, verdict in (
        ([0, 9, 1, 8], 1),
        ([0, 8, 1, 9], 0),  # both pairs of neighbours clash
        ([0, 1, 9, 8], 0),  # 1 is closed by 9
        ([0, 1, 2, 7, 9, 8], 1),  # wrong, but no neighbours tell
        ([9, 0], 1),  # nor here
    ):
        assert rule(torch.tensor([string]))[0, -1].argmax() == verdict, string
    deep = parentheses(rng, 200, pairs=(3, 9), negatives=("deep",))
    assert is_right(rule, deep).tolist() == (deep.labels == 1).tolist()
    assert is_right(rule, parentheses(rng, 50, pairs=2)).all()


def test_every_seed_is_scored_at_the_best_rate_and_the_row_is_their_mean(short_texts, tmp_path):
    """One rate diverges: it is reported, and not chosen."""
    result = ex.c12_words.run(
        corpus="shakespeare-small", vocab_size=101, n_steps=7, search_steps=2, seeds=(3, 5),
        lrs=(1e30, 1e-2, 2e-2), exhibit_lr=1e-4, orders=(2, 3),
    )  # fmt: skip
    record.save("c12_words", **result, seconds=1.0, folder=tmp_path)
    assert record.load("c12_words", tmp_path)["metrics"] == result["metrics"]
    rows = [*result["metrics"]["rows"][2:], result["metrics"]["exhibit"]]
    for row in rows:
        assert row["seeds"] == [3, 5]
        for split in ("valid", "test"):
            scores = row[f"{split}_perplexity_by_seed"]
            assert len(set(scores)) == 2
            assert row[f"{split}_perplexity"] == pytest.approx(np.mean(scores))
    search = result["config"]["search"]
    assert [row["lr"] for row in rows] == [best(search["elman"]), best(search["lstm"]), 1e-4]
    assert [f["valid_perplexity"] is None for f in search["lstm"]] == [True, False, False]
    runs = {(p["model"], p["lr"], p["seed"]) for p in result["curve"]}
    assert (len(runs), len(result["curve"])) == (6, 6 * 7)
    assert all(1 <= p["valid_perplexity"] < math.inf for p in result["curve"])


def test_every_seed_has_its_cell_and_its_looks(short_texts, monkeypatch, tmp_path):
    monkeypatch.setattr(ex.c12_cells, "LENGTH", 300)
    trained = ex.c12_cells.run(n_steps=3, seeds=(3, 5), n_looks=3)
    record.save("c12_cells", **trained, seconds=1.0, folder=tmp_path)
    looks = [(p["seed"], p["step"]) for p in trained["curve"]]
    assert looks == [(seed, step) for seed in (3, 5) for step in (1, 2, 3)]
    for seed, found in zip((3, 5), trained["metrics"]["by_seed"], strict=True):
        assert found["seed"] == seed
        assert 0 <= found["cell"] < 128
        assert abs(found["chosen"]) <= 1 + 1e-9
        assert 0 < found["line_ends"][0] < 1


def test_a_model_of_the_character_before_listens_to_it_alone():
    tokenizer = CharTokenizer.train("\nabcdefghijklmnopqrstuvwxyz")
    table = torch.randn(27, 27)
    moved = ex.c12_cells.listened(lambda ids: table[torch.roll(ids, 1, dims=1)], tokenizer, "abz")
    for kind in ("letter", "newline"):
        assert [m > 0 for m in moved[kind]] == [False, True, False]
    p = table.softmax(-1).numpy()
    letters = tokenizer.encode("b" + ex.c12_cells.OTHERS + "\n")
    expected = np.abs(p[letters[1:]] - p[letters[0]]).sum(-1) / 2
    assert moved["letter"][1] == pytest.approx(expected[:-1].mean(), abs=1e-6)
    assert moved["newline"][1] == pytest.approx(expected[-1], abs=1e-6)


def test_reading_by_steps_is_the_models_own_reading_and_a_clamped_cell_moves_it(monkeypatch):
    monkeypatch.setattr(ex.c12_cells, "LENGTH", 150)
    model = RecurrentLM(11, "lstm", embedding_dim=3, hidden_size=5)
    ids = np.random.default_rng(0).integers(11, size=ex.c12_cells.N_ROWS * 150)
    states, logits = ex.c12_cells.read(model, ids)
    rows = torch.from_numpy(ids.reshape(ex.c12_cells.N_ROWS, -1))
    whole = model(rows)[:, ex.c12_cells.WARM_UP :].flatten(0, 1)
    torch.testing.assert_close(logits, whole, atol=1e-5, rtol=1e-5)
    held, moved = ex.c12_cells.read(model, ids, clamp=(2, 0.5))
    assert (held[:, 2] == 0.5).all()
    assert not torch.equal(logits, moved)
    assert states[:, 2].std() > 0


def test_a_cell_that_counts_from_the_last_new_line_correlates_fully():
    ids = np.array([7, 0, 5, 5, 0, 0, 5])
    assert ex.c12_cells.places(ids, newline=0).tolist() == [1, 0, 1, 2, 0, 0, 1]
    noise, feature = np.random.default_rng(0).normal(size=(2, 503))
    states = np.stack([noise, -2 * feature + 1, np.zeros(503)], axis=1)
    r = ex.c12_cells.correlations(states, feature)
    assert r[1:] == pytest.approx([-1, 0], abs=1e-6)
    assert abs(r[0]) < 0.2


def test_a_page_is_described_by_its_words_its_whole_lines_and_what_is_copied():
    plays = SimpleNamespace(train="To be, or not\nto be")
    texts = ["cut\nTo be zub\n\n'Not so much\nor\ncut", "cut\nbe\ncut"]
    found = ex.c12_page.described(texts, plays)
    assert found["capital"] == 2 / 4
    assert found["lines"] == [2, 5.5, 9.75]
    assert found["known"] == pytest.approx(5 / 8)  # the first and last word of a text do not count
    assert ex.c12_page.copied(["xnot", "tobe"], "or not", n=3) == 1 / 4


def test_a_program_is_described_and_cut_by_its_indents_brackets_and_docstrings():
    found = ex.c12_program.described(["cut\n    f(x)]\n  [a)\n" + 30 * "z"], "f(x) is read")
    assert found["four"] == found["indented"] / 2 == 1 / 2
    assert found["fits"] == 1 / 2  # a bracket that closes nothing does not count
    found = ex.c12_program.features('a"""b"""\nc')
    assert found["description"].tolist() == [0, 0, 0, 1, 1, 1, 1, 0, 0, 0]
    assert found["position in the line"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 0, 1]
    lines = ["x = 1", "def f():", '    """Say."""', *(f"    y = {k}" for k in range(7))]
    text = "\n".join(lines)
    assert text[ex.c12_program.excerpt(text)].split("\n") == lines[1:9]


def test_a_program_is_read_written_on_and_looked_into(monkeypatch, tmp_path):
    text = 'def f(x):\n    """Say x."""\n    return [x]\n\n\n'
    monkeypatch.setattr(ex.c12_program, "program", lambda: (20 * text, 30 * text))
    result = ex.c12_program.run(n_steps=2, hidden_size=3, n_pages=2)
    record.save("c12_program", **result, seconds=1.0, folder=tmp_path)
    metrics = record.load("c12_program", tmp_path)["metrics"]
    assert [len(page) for page in metrics["pages"]] == 2 * [ex.c12_program.PAGE]
    for cell in metrics["cells"]["cells"]:
        assert len(cell["values"]) == len(metrics["cells"]["text"])
