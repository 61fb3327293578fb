"""Chapter 8's recorded experiments: who reads what, how tokens are sorted, what is mixed."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from unrolled_book.experiments import _c08_words as shared
from unrolled_book.experiments import c08_context, c08_longer, c08_unseen, record
from unrolled_book.experiments._c08_words import Net, fresh, log_probs, train, words


@pytest.fixture(scope="module", autouse=True)
def _few_words(short_texts):
    """The texts cut short, and few words; the streams of the whole text stay for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "VOCAB_SIZE", 101)
        patch.setattr(shared, "PEEK", 500)
        words.cache_clear()
        yield
    words.cache_clear()


@pytest.fixture(scope="module")
def unseen():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    result = c08_unseen.run(seeds=(3, 5), lrs=(1e-3, 1e-2), n_steps=9)
    assert torch.equal(torch.rand(2), expected), "torch's generator was used"
    return json.loads(json.dumps(result, allow_nan=False))


def test_every_model_has_a_row_for_every_seed(unseen, tmp_path):
    rows = unseen["metrics"]["rows"]
    names = [
        *c08_unseen.NETS,
        *(f"{kind} {n}" for n in c08_unseen.NETS for kind in ("half", "tuned")),
    ]
    expected = {("kneser-ney", None)} | {(n, s) for n in [*names, "two nets"] for s in (3, 5)}
    assert {(row["model"], row["seed"]) for row in rows} == expected
    assert len(rows) == len(expected)
    record.save("c08_unseen", **unseen, seconds=1.0, folder=tmp_path)


def test_rates_are_those_that_the_searches_found(unseen):
    nets, searches = unseen["config"]["nets"], unseen["config"]["search"]
    for name, net in nets.items():
        assert net["lr"] == min(searches[name], key=lambda f: f["valid_perplexity"])["lr"]


def test_the_bins_divide_the_test_tokens_and_give_back_their_perplexity(unseen):
    bins = unseen["metrics"]["bins"]
    assert sum(b["tokens"] for b in bins) == len(words().test)
    assert sum(b["part"] for b in bins) == pytest.approx(1)
    parts = [b["part"] for b in bins]
    for row in unseen["metrics"]["rows"]:
        mean = np.exp(np.dot(parts, np.log(row["test_perplexity_by_bin"])))
        assert row["test_perplexity"] == pytest.approx(mean)


@given(
    st.lists(st.integers(0, 2), min_size=4, max_size=60), st.lists(st.integers(0, 3), min_size=1)
)
@settings(max_examples=50, deadline=None)
def test_contexts_are_counted_as_a_loop_counts_them(text, ids):
    before, text = [3, 3, 3, *ids], list(text)
    expected = [
        sum(text[i : i + 3] == before[t : t + 3] for i in range(len(text) - 2))
        for t in range(len(ids))
    ]
    found = c08_unseen.times_seen(np.array(text), np.array(ids), 3)
    assert found.tolist() == expected


def test_a_mixture_averages_probabilities():
    one, other = np.log([0.5, 0.1]), np.log([0.1, 0.3])
    assert np.exp(c08_unseen.mixed(one, other)) == pytest.approx([0.3, 0.2])
    assert np.exp(c08_unseen.mixed(one, other, 0.75)) == pytest.approx([0.4, 0.15])


@pytest.mark.parametrize(("better", "share"), [(0, 0.95), (1, 0.05)])
def test_the_chosen_share_leans_to_the_better_model(better, share):
    both = [np.log(np.full(5, 0.5)), np.log(np.full(5, 0.1))]
    assert c08_unseen.best_share(both[better], both[1 - better]) == pytest.approx(share)


def test_a_mixture_is_no_worse_than_the_worse_of_the_two(unseen):
    of = {(row["model"], row["seed"]): row["test_perplexity"] for row in unseen["metrics"]["rows"]}
    for seed in (3, 5):
        assert of["half net", seed] < max(of["net", seed], of["kneser-ney", None])


def test_a_frozen_table_stays_as_it_was_drawn_and_the_rest_learns():
    net = Net(learn_table=False, lr=1e-2, n_steps=3)
    before, after = fresh(net, 7), train(net, 7)
    assert torch.equal(before.embedding.weight, after.embedding.weight)
    assert not torch.equal(before.hidden_layer.weight, after.hidden_layer.weight)


def test_tokens_are_scored_one_by_one_after_the_end_of_a_line(monkeypatch):
    model, ids = fresh(Net(context_length=2), 0), words().test[:23]
    tokens = torch.from_numpy(np.append(words().eos, ids))
    with torch.no_grad():
        expected = -F.cross_entropy(
            model(tokens[None, :-1])[0].double(), tokens[1:], reduction="none"
        )
    for at_once in (5, 100):
        monkeypatch.setattr(shared, "AT_ONCE", at_once)
        assert log_probs(model, ids) == pytest.approx(expected.numpy(), abs=1e-6)


def test_a_longer_context_adds_a_block_to_the_hidden_layer_and_nothing_else():
    result = c08_context.run(seeds=(3,), lengths=(1, 2, 4), lrs=(1e-2,), n_steps=2, search_steps=1)
    rows = result["metrics"]["rows"]
    block = shared.WIDTH * shared.HIDDEN
    assert [row["parameters"] - rows[0]["parameters"] for row in rows] == [0, block, 3 * block]
    assert [row["hidden_layer"] for row in rows] == [k * block + shared.HIDDEN for k in (1, 2, 4)]
    counting = result["metrics"]["kneser_ney"]
    assert [row["context"] for row in counting] == [1, 2, 4]
    assert all(row["test_perplexity"] < words().vocab_size for row in [*rows, *counting])
    assert json.dumps(result, allow_nan=False)


def test_the_longer_training_searches_its_rates_with_all_of_its_steps():
    result = c08_longer.run(seeds=(3,), lengths=(2,), lrs=(1e-3, 1e-2), n_steps=3)
    assert result["config"]["n_steps"] == result["config"]["search_steps"] == 3
    found = {f["lr"]: f["valid_perplexity"] for f in result["config"]["searches"][0]["search"]}
    (row,) = result["metrics"]["rows"]
    assert row["lr"] == min(found, key=found.get)
    assert c08_longer.N_STEPS == 3000
