"""The recorded experiments of chapters 21 and 22: ways to write, and budgets that are spent."""

import json

import numpy as np
import pytest
import torch
from test_experiments import small
from unrolled_book.experiments import c21_mode as mode
from unrolled_book.experiments import c21_writing as writing
from unrolled_book.experiments import c22_scaling as scaling
from unrolled_book.experiments import c22_times as times
from unrolled_book.experiments import record
from unrolled_book.scaling import Law, power_law


def test_repeated_counts_pieces_of_the_same_text_and_shared_those_of_another():
    for texts, repeated, shared in (
        (["abcdefghij"], 0, 0),
        (["a" * 9], 1 / 2, 0),  # two pieces, one of them new
        (["a" * 9, "abcdefghi"], 1 / 4, 0),
        (["abcdefgh", "abcdefgh", "ijklmnop"], 0, 2 / 3),
        (["a" * 9, "bcdefghij"], 1 / 4, 0),  # twice in one text is not shared
    ):
        assert writing.repeated(texts) == pytest.approx(repeated), texts
        assert writing.shared(texts) == pytest.approx(shared), texts
    known = writing.known(["ct the KING is, king's xyz"], {"the", "king"})
    assert known == pytest.approx(3 / 5)  # the first and the last may be cut off


def test_each_method_keeps_the_prompt_and_its_cost_is_that_of_the_new_characters():
    rows = small("c21_writing")["metrics"]["rows"]
    assert len({(r["seed"], r["example"][: writing.PROMPT]) for r in rows}) == 2
    for row in rows:
        assert len(row["by_position"]) == writing.N_NEW
        assert row["nats"] == pytest.approx(np.mean(row["by_position"]))


def test_the_mode_is_at_least_as_likely_as_what_any_search_finds():
    for row in small("c21_mode")["metrics"]["rows"]:
        assert len(row["context"]) == mode.CONTEXT
        assert row["context"][-1] == row["human"]["text"][-1] == "\n"
        best = max(row[key]["log_prob"] for key in ("1", "2", "human"))
        assert row["mode"] is None or row["mode"]["log_prob"] >= best - 1e-4


def simulated(d_model, compute, lr, seed):
    """A training that follows a law; a rate other than 0.02 costs something."""
    law = Law(floor=1.2, A=60.0, alpha=0.5, B=400.0, beta=0.4)
    n = scaling.n_parameters(d_model)
    bits = law.loss(n, compute / (6 * n)) + 0.1 * np.log(lr / 0.02) ** 2
    return {"d_model": d_model, "compute": compute, "lr": lr, "seed": seed, "bits": float(bits)}


def test_the_rates_are_the_best_and_the_held_out_widths_lie_around_the_prediction():
    budgets = {1e10: (8, 12, 16, 24, 32), 1e11: (12, 16, 24, 32, 48)}
    result = json.loads(json.dumps(scaling.run(budgets, (0, 5), 4e11, train=simulated)))
    rows = result["metrics"]["runs"]
    assert len(rows) == 2 * 2 * 5
    assert {row["lr"] for row in rows} == {0.02}
    assert {s["d_model"]: s["compute"] for s in result["config"]["searches"]} == {
        8: 1e9, 12: 1e10, 16: 1e10, 24: 1e10, 32: 1e10, 48: 1e10,
    }  # fmt: skip
    last = [row["d_model"] for row in result["metrics"]["held_out"]]
    predicted = result["metrics"]["predicted"]
    assert len(last) == 3
    assert last[1] == scaling.nearest((12, 16, 24, 32), predicted)
    assert [row["lr"] for row in result["metrics"]["control"]] == [0.01, 0.04] * 2
    best = scaling.lowest(rows)
    k, a = power_law([b["compute"] for b in best], [b["parameters"] for b in best])
    assert predicted == pytest.approx(k * 4e11**a, rel=1e-3)
    assert 0.3 < a < 0.6


def test_the_search_goes_on_until_the_best_rate_is_inside():
    for given, tried in (
        ((0.0025, 0.005), [0.0025, 0.005, 0.01, 0.02, 0.04]),
        ((0.04, 0.08), [0.01, 0.02, 0.04, 0.08]),
    ):
        (found,) = scaling.rates({1e10: (8,)}, given, simulated)
        assert [each["lr"] for each in found["search"]] == tried


def test_a_training_spends_its_budget_and_leaves_torchs_generator_alone():
    before = torch.get_rng_state()
    row = scaling.train(12, 5e8, 1e-2, 7)
    assert torch.equal(torch.get_rng_state(), before)
    assert row["flops"] == pytest.approx(5e8, rel=0.05)
    n = scaling.n_parameters(12)
    assert 6 * n * row["tokens"] < row["flops"] < 2.5 * 6 * n * row["tokens"]
    assert 3 < row["bits"] < np.log2(70)
    assert scaling.train(12, 5e8, 1e-2, 7) == row
    assert scaling.train(12, 5e8, 1e-2, 8) != row


def test_what_is_timed_reads_as_far_as_its_name_says():
    x, w = times.inputs(23, 5)
    near, far, all_of_it = [*range(16 - times.REACH, 16)], [*range(16)], [*range(23)]
    wanted = dict(zip(times.KINDS, (all_of_it, near, near, far), strict=True))
    for kind, function in times.KINDS.items():
        x.requires_grad_(True)
        (gradient,) = torch.autograd.grad(function(x, w)[15].sum(), x)
        assert gradient.abs().sum(1).nonzero()[:, 0].tolist() == wanted[kind], kind


def test_exponents_of_exact_powers_come_back():
    """The seconds of `small` are n d²."""
    found = small("c22_times")["metrics"]["exponents"]
    assert found == {kind: {"length": [1, 1], "width": [2, 2]} for kind in times.KINDS}
    recorded = record.load("c22_times")["metrics"]
    assert recorded["exponents"] == times.exponents(recorded["rows"])


def test_the_smallest_recorded_training_comes_out_again():
    rows = record.load("c22_scaling")["metrics"]["runs"]
    row = min(rows, key=lambda row: (row["compute"], -row["d_model"]))
    again = scaling.train(row["d_model"], row["compute"], row["lr"], row["seed"])
    assert again == row | {"bits": pytest.approx(row["bits"], abs=0.02)}
