"""Chapter 8's recorded experiments: who reads what, how tokens are sorted, what is mixed."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_experiments import best
from torch.nn import functional as F
from unrolled_book.experiments import _c08_words as shared
from unrolled_book.experiments import c08_longer, c08_steps, c08_unseen, record
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


def test_every_model_has_a_row_for_every_seed_at_the_rate_that_was_searched(tmp_path):
    before = torch.get_rng_state()
    unseen = c08_unseen.run(seeds=(3, 5), lrs=(1e-3, 1e-2), n_steps=9)
    assert torch.equal(torch.get_rng_state(), before), "torch's generator was used"
    rows = unseen["metrics"]["rows"]
    kinds = [f"{kind}{name}" for kind in ("", "half ", "tuned ") for name in c08_unseen.NETS]
    expected = [("kneser-ney", None)] + [(n, s) for n in [*kinds, "two nets"] for s in (3, 5)]
    assert sorted(map(str, ((r["model"], r["seed"]) for r in rows))) == sorted(map(str, expected))
    record.save("c08_unseen", **unseen, seconds=1.0, folder=tmp_path)
    for name, net in unseen["config"]["nets"].items():
        assert net["lr"] == best(unseen["config"]["search"][name])


@given(
    st.lists(st.integers(0, 2), min_size=4, max_size=60), st.lists(st.integers(0, 3), min_size=1)
)
@settings(max_examples=50, deadline=None)
def test_contexts_are_counted_as_a_loop_counts_them(text, ids):
    before = [3, 3, 3, *ids]
    expected = [
        sum(text[i : i + 3] == before[t : t + 3] for i in range(len(text) - 2))
        for t in range(len(ids))
    ]
    found = c08_unseen.times_seen(np.array(text), np.array(ids), 3)
    assert found.tolist() == expected


def test_a_mixture_averages_probabilities_and_its_share_leans_to_the_better_model():
    one, other = np.log([0.5, 0.1]), np.log([0.1, 0.3])
    assert np.exp(c08_unseen.mixed(one, other, 0.75)) == pytest.approx([0.4, 0.15])
    good, bad = np.log(np.full(5, 0.5)), np.log(np.full(5, 0.1))
    assert c08_unseen.best_share(good, bad) == pytest.approx(0.95)
    assert c08_unseen.best_share(bad, good) == pytest.approx(0.05)


def test_a_frozen_table_stays_as_it_was_drawn_and_the_rest_learns():
    net = Net(learn_table=False, lr=1e-2, n_steps=3)
    before, after = fresh(net, 7), train(net, 7)
    assert torch.equal(before.embedding.weight, after.embedding.weight)
    assert not torch.equal(before.hidden_layer.weight, after.hidden_layer.weight)


def test_tokens_are_scored_one_by_one_after_the_end_of_a_line(monkeypatch):
    model, ids = fresh(Net(context_length=2), 0), words().test[:23]
    tokens = torch.from_numpy(np.append(words().eos, ids))
    with torch.no_grad():
        logits = model(tokens[None, :-1])[0].double()
    expected = -F.cross_entropy(logits, tokens[1:], reduction="none")
    for at_once in (5, 100):
        monkeypatch.setattr(shared, "AT_ONCE", at_once)
        assert log_probs(model, ids) == pytest.approx(expected.numpy(), abs=1e-6)


def test_a_longer_context_adds_a_block_to_the_hidden_layer_and_nothing_else():
    result = c08_longer.run(seeds=(3,), lengths=(1, 2, 4), lrs=(1e-3, 1e-2), n_steps=2)
    rows, config = result["metrics"]["rows"], result["config"]
    block = shared.WIDTH * shared.HIDDEN
    assert [row["parameters"] - rows[0]["parameters"] for row in rows] == [0, block, 3 * block]
    assert [row["hidden_layer"] for row in rows] == [k * block + shared.HIDDEN for k in (1, 2, 4)]
    assert [row["lr"] for row in rows] == [best(found["search"]) for found in config["searches"]]
    assert config["n_steps"] == config["search_steps"] == 2  # unlike those of `c08_context`
    counting = result["metrics"]["kneser_ney"]
    assert [row["context"] for row in counting] == [1, 2, 4]
    assert all(row["test_perplexity"] < words().vocab_size for row in [*rows, *counting])


def test_windows_of_names_begin_and_end_with_line_ends_and_no_rate_is_at_the_edge():
    contexts, targets = c08_steps.windows("train")
    assert contexts[:2].tolist() == [[0, 0, 0], [0, 0, 1]]  # three line ends before Aaban
    assert contexts[5].tolist() == [2, 1, 14]
    assert targets[:6].tolist() == [1, 1, 2, 1, 14, 0]
    assert int(targets.max()) == 26
    for searched in record.load("c08_steps")["config"]["searches"]:
        lrs = [found["lr"] for found in searched["search"]]
        assert best(searched["search"]) not in (lrs[0], lrs[-1]), searched
