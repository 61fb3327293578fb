"""The workbench: its models against torch, its runs against what they promise."""

import json
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from unrolled.accounting import cost
from unrolled.data import corpora
from unrolled.models import autograd as ag
from unrolled.training.evaluate import evaluate
from unrolled_book.experiments import record
from unrolled_book.experiments import workbench as recorded
from unrolled_book.workbench import page
from unrolled_book.workbench.models import MODELS
from unrolled_book.workbench.run import HELD_OUT, OPTIMIZERS, SHORTEST, Run, Settings, Text
from unrolled_book.workbench.twins import twin

from lib.tests.comparing import refuses

V, WIDTH, WINDOW = 11, 16, 8


@pytest.fixture(scope="module")
def text():
    return Text(corpora.load("chesterton").train[: SHORTEST + 5000])


@pytest.mark.parametrize("model", MODELS)
def test_logits_and_gradients_equal_those_of_the_library_in_torch(model):
    rng, shapes = np.random.default_rng(3), MODELS[model].shapes(V, WIDTH, WINDOW)
    arrays = {name: rng.normal(scale=0.5, size=shape) for name, shape in shapes.items()}
    ids = np.random.default_rng(4).integers(V, size=(3, WINDOW + 1))
    p = {name: ag.Tensor(array) for name, array in arrays.items()}
    logits = MODELS[model].forward(p, ids[:, :-1])
    ag.cross_entropy(logits, ids[:, 1:]).backward()

    theirs = twin(model, arrays)
    by_torch = theirs(torch.tensor(ids[:, :-1]))
    F.cross_entropy(by_torch.flatten(0, 1), torch.tensor(ids[:, 1:]).flatten()).backward()
    assert np.abs(logits.value - by_torch.detach().numpy()).max() < 1e-10
    # The twin's own names for the gradients: those of the parameters, sent through the same map.
    with_grads = twin(model, {name: tensor.grad for name, tensor in p.items()})
    named = dict(with_grads.named_parameters())
    for name, parameter in theirs.named_parameters():
        if not name.endswith("bias_hh"):
            assert (parameter.grad - named[name]).abs().max() < 1e-10, name
    assert sum(t.grad.size for t in p.values()) == sum(
        q.numel() for n, q in theirs.named_parameters() if not n.endswith("bias_hh")
    )
    assert all(np.abs(t.grad).max() > 0 for n, t in p.items() if n != "0.keys.bias")


def test_a_feed_forward_network_sees_its_last_characters_and_no_other(text):
    run = Run(text, Settings(model="feed-forward", window=16))
    ids = np.arange(16)[None]
    far, near = ids.copy(), ids.copy()
    far[0, 7], near[0, 8] = 20, 20
    before = run.logits(ids)[0, -1]
    assert (run.logits(far)[0, -1] == before).all()
    assert (run.logits(near)[0, -1] != before).any()


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("sgd", lambda p: torch.optim.SGD(p, lr=0.02)),
        ("momentum", lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9)),
        ("adam", lambda p: torch.optim.Adam(p, lr=0.02)),
    ],
)
def test_optimizers_equal_torchs(name, theirs):
    rng = np.random.default_rng(0)
    ours, state = rng.normal(size=(3, 5)), {}
    parameter = torch.tensor(ours, requires_grad=True)
    optimizer = theirs([parameter])
    for _ in range(30):
        grad = rng.normal(size=(3, 5))
        ours = OPTIMIZERS[name](ours, grad, state, 0.02)
        parameter.grad = torch.tensor(grad)
        optimizer.step()
    assert np.abs(ours - parameter.detach().numpy()).max() < 1e-12


@pytest.mark.parametrize("model", ["bigram", "elman", "one-layer-gpt"])
def test_held_out_bits_are_those_of_the_library(text, model):
    run = Run(text, Settings(model=model, width=WIDTH, window=16, seed=1))
    for _ in range(3):
        run.step(0.01)
    ids = np.concatenate([text.before[-8:], text.held_out])
    rows = np.stack([ids[start : start + 16] for start in range(0, HELD_OUT, 8)])
    with torch.no_grad():
        logits = twin(model, run.arrays)(torch.tensor(rows[:, :-1]))[:, 7:]
    nats = F.cross_entropy(
        logits.flatten(0, 1), torch.tensor(rows[:, 8:]).flatten(), reduction="sum"
    )
    assert abs(run.bits() - float(nats) / math.log(2) / text.n_bytes) < 1e-10


def test_an_n_gram_is_scored_on_the_same_characters(text):
    from unrolled.models.ngram import NGram

    model = NGram.fit([text.train], 3, text.vocab_size, "kneser-ney")
    score = evaluate(model, text.held_out, text.n_bytes, start=int(text.before[-1]))
    # evaluate gives the model one character before the text, the workbench two: one character less
    assert abs(text.n_gram(3) - score.bits_per_byte) < 10 / HELD_OUT
    assert text.n_gram(1) > text.n_gram(2) > text.n_gram(3)


def test_bytes_are_counted_where_a_character_has_two():
    plain = "ab cd\n" * (SHORTEST // 6 + 1)
    accented = plain.replace("a", "ä")
    one, two = Text(plain), Text(accented)
    assert one.n_bytes == HELD_OUT < two.n_bytes
    ratio = Run(one, Settings(model="bigram")).bits() / Run(two, Settings(model="bigram")).bits()
    assert abs(ratio - two.n_bytes / one.n_bytes) < 0.02


@pytest.mark.parametrize("model", MODELS)
def test_the_same_seed_trains_the_same_and_a_snapshot_brings_it_back(text, model):
    settings = Settings(model=model, width=WIDTH, window=8, batch=4)
    one, other = Run(text, settings), Run(text, settings)
    first = [one.step(0.01) for _ in range(3)]
    assert first == [other.step(0.01) for _ in range(3)]
    kept = one.snapshot()
    later = [one.step(0.01) for _ in range(2)]
    one.restore(kept)
    assert one.n_steps == 3
    assert [one.step(0.01) for _ in range(2)] == later
    assert Run(text, Settings(**vars(settings) | {"seed": 1})).step(0.01) != first[0]
    assert "".join(one.sample(5)) == "".join(one.sample(5))


def test_a_gradient_longer_than_one_is_shortened_to_one(text):
    run = Run(text, Settings(model="bigram", optimizer="sgd"))
    run.arrays["logits"] = 50 * run.arrays["logits"] / 0.02
    before = run.arrays["logits"].copy()
    _, norm = run.step(1.0)
    moved = np.linalg.norm(run.arrays["logits"] - before)
    assert abs(moved - min(norm, 1)) < 1e-12


def test_operations_are_those_that_the_library_counts(text):
    run = Run(text, Settings(model="two-layer-gpt", width=WIDTH, window=16, batch=4))
    config = twin("two-layer-gpt", run.arrays).config
    assert run.flops() == cost.flops(config, 16, batch=4, training=True)["total"]
    assert run.n_steps == 0
    assert run.n_parameters == cost.parameters(config)["total"]
    assert Run(text, Settings(model="bigram")).flops() == 0  # a table is looked up


def test_what_can_be_looked_at_is_what_the_model_computes(text):
    line = "It was a bright"
    ids = text.tokenizer.encode(line)
    (first, second), p = Run(text, Settings(model="two-layer-gpt", width=WIDTH)).look(ids)
    assert abs(p.sum() - 1) < 1e-12
    assert first["name"] == "layer 0"
    assert second["values"].shape == (4, len(line), len(line))
    assert np.allclose(second["values"].sum(-1), 1)
    assert (np.triu(second["values"], 1) == 0).all()
    gates, _ = Run(text, Settings(model="lstm", width=WIDTH)).look(ids)
    assert [g["name"] for g in gates] == ["input gate", "forget gate", "output gate"]
    assert all(g["values"].shape == (len(line), WIDTH) for g in gates)
    assert gates[1]["values"].mean() > 0.6 > gates[0]["values"].mean()  # a bias of 1 keeps it open


test_sizes_that_are_not_offered_are_refused = refuses(
    ({"model": "gpt-3"}, "model must be one of bigram.*got 'gpt-3'"),
    ({"optimizer": "adamw"}, "one of sgd, momentum, adam"),
    ({"width": 48}, "width must be one of 16, 32, 64, 128, 256, got 48"),
    ({"window": 7}, "window must be"),
    ({"batch": 0}, "batch must be"),
    of=lambda settings: Settings(**settings),
)


def ask(**request):
    return json.loads(page.handle(json.dumps(request)))


def scored():
    """The bits of the run, asked for until they are there."""
    score = ask(do="score", first=True)
    while "bits" not in score:
        score = ask(do="score", first=False)
    return score["bits"]


def test_the_page_asks_and_is_answered():
    assert "60,000" in ask(do="read", text="too short")["error"]
    assert "read, n_gram" in ask(do="train")["error"]
    assert ask(do="read", corpus="names")["characters"] > SHORTEST
    assert ask(do="n_gram", order=2)["bits"] < ask(do="n_gram", order=1)["bits"]
    assert len(ask(do="n_gram_sample", order=2, n=30)["text"]) == 30
    sizes = ask(do="begin", model="bigram", batch=8)
    assert sizes["parameters"] == page.BENCH.text.vocab_size**2
    assert "above 0" in ask(do="step", lr=0)["error"]
    steps = ask(do="step", lr=0.03, seconds=0)["steps"]
    assert [n for n, _, _ in steps] == [1]
    assert abs(steps[0][1] - math.log2(page.BENCH.text.vocab_size)) < 0.05
    assert ask(do="mark") == {"n": 1, "left": 1}
    ask(do="step", lr=0.03, seconds=0)
    assert abs(scored() - page.BENCH.run.bits()) < 1e-12
    assert ask(do="undo") == {"n": 1, "left": 0}
    assert ask(do="undo") == {"n": 1, "left": 0}
    written = ask(do="sample", first=True, n=10, seconds=60)
    assert written["done"]
    assert len(written["text"]) == 10
    seen = ask(do="look", line="Mary")
    assert seen["line"] == "Mary"
    assert 0 < sum(p for _, p in seen["next"]) <= 1


def test_states_are_kept_up_to_a_number_and_a_run_keeps_its_own_text():
    ask(do="read", corpus="names")
    ask(do="begin", model="bigram", batch=4, window=8)
    assert [ask(do="mark")["left"] for _ in range(page.KEPT + 2)][-2:] == [page.KEPT] * 2
    before = page.BENCH.run.bits()
    ask(do="read", text="ä b\n" * SHORTEST)  # another text has been read, and no run begun on it
    assert abs(scored() - before) < 1e-12


def test_a_run_that_breaks_says_so():
    ask(do="read", corpus="names")
    ask(do="begin", model="elman", width=16, window=8, batch=4, optimizer="sgd")
    assert ask(do="step", lr=1e308, seconds=5)["broken"]


def test_the_record_has_a_row_for_each_model_and_a_score_for_each_seed():
    found = recorded.run(["bigram"], seeds=(0, 1), steps=(1, 2), longest={"bigram": 3})
    (row,) = found["metrics"]["rows"].values()
    assert row["steps"] == [1, 2, 3]
    assert np.shape(row["bits"]) == (3, 2)
    assert row["bits"][0] > row["bits"][1] > row["bits"][2]
    kept = record.load("workbench")
    assert kept["config"] == recorded.config(tuple(MODELS))
    assert all(len(bits) == 5 for r in kept["metrics"]["rows"].values() for bits in r["bits"])


@pytest.mark.parametrize("model", MODELS)
def test_a_run_with_the_recorded_settings_falls_into_the_recorded_spread(model):
    row = record.load("workbench")["metrics"]["rows"][model]
    n_steps = min(row["steps"])
    bits = recorded.train_here(model, seed=100, n_steps=n_steps)
    low, high = min(row["bits"][0]), max(row["bits"][0])
    assert low - (high - low) <= bits <= high + (high - low)
