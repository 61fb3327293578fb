"""Losses of model and batch: one at a time, in chunks, compiled; and how often a device is read."""

from __future__ import annotations

import copy
import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from unrolled.data.batches import IGNORE, ContiguousBatches
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import preset
from unrolled.training.batch_iterator import to_device
from unrolled.training.fit import DivergedError, FitConfig, cross_entropy, fit
from unrolled.training.losses import next_token_loss, per_target

V, B, T = 29, 3, 7


def lm(dtype=torch.float32, **changes):
    torch.manual_seed(0)
    options = dict(n_layers=2, d_model=12, n_heads=2, vocab_size=V, context_length=T, dropout=0.0)
    return TransformerLM(preset("gpt2", **options | changes)).to(dtype)


def bigram():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Embedding(V, 5), torch.nn.Linear(5, V))


def rnn(dtype=torch.float32):
    torch.manual_seed(0)
    return RecurrentLM(V, "gru", embedding_dim=5, hidden_size=11, tie_embeddings=True).to(dtype)


def batch(kind="plain", dtype=torch.float32):
    rng = np.random.default_rng(1)
    tokens = rng.integers(V, size=(B, T + 1))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    if kind == "ignored":
        targets = np.where(rng.random((B, T)) < 0.4, IGNORE, targets)
    weights = {"masked": rng.random((B, T)) < 0.5, "weighted": rng.random((B, T))}.get(kind)
    given = (inputs, targets) if weights is None else (inputs, targets, weights)
    return to_device(given, torch.device("cpu"), dtype)


def test_the_default_is_the_sum_of_cross_entropies_and_its_weight():
    model, given = lm(torch.float64), batch("weighted", torch.float64)
    total, weight = next_token_loss(model, given, None)
    nats = cross_entropy(model(*given.inputs), given.targets)
    assert_close(total, (nats * given.weights).sum(), rtol=0, atol=1e-12)
    assert weight == pytest.approx(float(given.weights.sum()))
    assert next_token_loss(model, batch())[1] == B * T


@pytest.mark.parametrize("kind", ["plain", "ignored", "masked", "weighted"])
@pytest.mark.parametrize("rows", [5, 1000])
@pytest.mark.parametrize("make", [lm, partial(lm, scale_logits=True), rnn])
@pytest.mark.parametrize("older", [False, True])
def test_a_loss_in_chunks_and_its_gradients_are_those_of_all_logits(
    kind, rows, make, older, monkeypatch
):
    if older:  # torch before 2.13
        monkeypatch.delattr(torch.nn.functional, "linear_cross_entropy", raising=False)
    given, results = batch(kind, torch.float64), []
    for loss in (next_token_loss, partial(next_token_loss, chunk_rows=rows)):
        model = make(torch.float64)
        total, weight = loss(model, given, None)
        (total / weight).backward()
        gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
        results.append((total.detach(), torch.tensor(weight), gradients))
    for ours, theirs in zip(*results, strict=True):
        assert_close(ours, theirs, rtol=0, atol=1e-10)


def test_a_loss_in_chunks_computes_in_bfloat16_where_autocast_does():
    model, given = lm(), batch()
    exact, _ = next_token_loss(model, given)
    with torch.autocast("cpu", torch.bfloat16):
        rough, _ = next_token_loss(model, given, chunk_rows=5)
    assert_close(rough.float(), exact, rtol=0.02, atol=0)
    assert rough != exact


def test_a_fit_takes_a_loss_of_model_and_batch_that_counts_otherwise():
    """A step minimises the ratio of the two sums over all its batches."""

    def first_position(model, batch, cache):
        nats = cross_entropy(model(*batch.inputs), batch.targets)
        return nats[:, 0].sum(), len(nats)

    ours, theirs = lm(torch.float64), lm(torch.float64)
    config = FitConfig(n_steps=2, lr=0.1, optimizer="sgd", grad_accum_steps=2, grad_clip=None)
    given = [batch(), batch("weighted")]
    data = [tuple(x for x in (b.inputs[0], b.targets, b.weights) if x is not None) for b in given]
    history = fit(ours, data, config, loss=first_position).history
    for step in range(2):
        nats = torch.cat([cross_entropy(theirs(*b.inputs), b.targets)[:, 0] for b in given])
        assert history.train_loss[step] == pytest.approx(nats.mean().item(), abs=1e-12)
        gradients = torch.autograd.grad(nats.mean(), list(theirs.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(theirs.parameters(), gradients, strict=True):
                parameter -= 0.1 * gradient
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(a, b, rtol=0, atol=1e-12)


@pytest.fixture
def graphs(monkeypatch):
    """What torch.compile traces; it is run without generated code, so without a C compiler."""
    found, original = [], torch.compile

    def backend(graph, inputs):
        found.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(original, backend=backend))
    return found


@pytest.mark.parametrize("loss", [next_token_loss, partial(next_token_loss, chunk_rows=5)])
@pytest.mark.filterwarnings("ignore")  # of the compiler itself
def test_a_compiled_fit_trains_as_a_plain_one(loss, graphs):
    given, losses = batch(), []
    for compiled in (False, True):
        config = FitConfig(n_steps=3, lr=0.01, compile=compiled)
        data = [(given.inputs[0], given.targets)]
        losses.append(fit(lm(n_layers=1), data, config, loss=loss).history.train_loss)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert len(graphs) == 1  # model and loss together


@pytest.mark.filterwarnings("ignore")  # of the compiler itself
@pytest.mark.parametrize("loss", [next_token_loss, partial(next_token_loss, chunk_rows=5)])
@pytest.mark.parametrize(("validates", "programs"), [(False, 1), (True, 2)])
def test_thirty_compiled_steps_are_one_program_and_validation_is_another(
    loss, validates, programs, graphs
):
    """What changes from step to step, as the weight of a batch does, compiles nothing again."""
    rng, data = np.random.default_rng(2), []
    for _ in range(5):
        tokens = rng.integers(V, size=(B, T + 1))
        targets = np.where(rng.random((B, T)) < 0.3, IGNORE, tokens[:, 1:])
        data.append((tokens[:, :-1], targets))
    counters.clear()
    config = FitConfig(
        n_steps=30, lr=0.01, schedule="cosine", warmup_steps=3, grad_accum_steps=2, eval_every=10,
        compile=True,
    )  # fmt: skip
    fit(lm(n_layers=1), data, config, loss=loss, valid=data[:2] if validates else None)
    assert len(graphs) == programs
    assert not counters["graph_break"]


@pytest.mark.filterwarnings("ignore")  # of the compiler itself
@pytest.mark.parametrize(
    ("make", "programs"), [(rnn, 2), (partial(lm, n_layers=1, context_length=100), 3)]
)
def test_a_cache_that_grows_needs_no_further_compilation(make, programs, graphs):
    """Fourteen batches. The first begins without a state, which is a program of its own; keys and
    values, which grow, have one for their first length and one for all others."""
    data = ContiguousBatches(np.arange(2 * 98 + 1) * 3 % V, batch_size=2, seq_len=7)
    losses = []
    for compiled in (False, True):
        config = FitConfig(n_steps=len(data), lr=0.01, carry_state=True, compile=compiled)
        losses.append(fit(make(), data, config).history.train_loss)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert len(losses[1]) == 14
    assert len(graphs) == programs


@pytest.mark.filterwarnings("ignore")  # of the compiler itself
def test_every_fit_of_a_process_is_compiled(graphs):
    """torch keeps eight versions of a function; nine models would share them."""
    data = [(batch().inputs[0], batch().targets)]
    for width in range(5, 14):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Embedding(V, width), torch.nn.Linear(width, V))
        graphs.clear()
        fit(model, data, FitConfig(n_steps=2, lr=0.01, compile=True))
        assert len(graphs) == 1


class Reads:
    """Counts how often numbers are taken from tensors."""

    def __init__(self, monkeypatch):
        self.n = 0
        for name in ("item", "tolist", "__bool__", "__float__", "__int__"):
            monkeypatch.setattr(torch.Tensor, name, self.counted(getattr(torch.Tensor, name)))

    def counted(self, method):
        def count(tensor, *arguments):
            self.n += 1
            return method(tensor, *arguments)

        return count


@pytest.mark.parametrize("log_every", [1, 10, 7])
def test_the_losses_are_read_once_an_interval_and_none_is_lost(log_every, monkeypatch):
    torch.manual_seed(0)
    tokens = torch.randint(V, (B, T + 1))
    data = [(tokens[:, :-1], tokens[:, 1:])]
    config = FitConfig(n_steps=20, lr=0.01, grad_accum_steps=3)
    expected = fit(bigram(), data, config).history
    model, config = bigram(), copy.copy(config)  # a model that itself looks at no number
    object.__setattr__(config, "log_every", log_every)
    monkeypatch.setattr("torch.optim.AdamW.step", lambda self: None)  # it reads its own counters
    reads = Reads(monkeypatch)
    history = fit(model, data, config).history
    monkeypatch.undo()
    # Each of the 60 batches, which are on the CPU, is asked whether a target is to be left out.
    assert reads.n == math.ceil(20 / log_every) + 60
    assert history.step == list(range(1, 21))
    assert history.train_loss[0] == expected.train_loss[0]


@pytest.mark.cuda
def test_the_host_waits_for_a_gpu_once_an_interval():
    given = batch()
    data = [(given.inputs[0].numpy(), given.targets.numpy())]
    config = FitConfig(n_steps=40, lr=0.01, log_every=10, precision="off")
    model = lm().cuda()
    fit(model, data, config)  # what is set up only once
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit(model, data, config)
    finally:
        torch.cuda.set_sync_debug_mode(before)
    assert len([w for w in caught if "synchroniz" in str(w.message)]) <= 40 // 10 + 2


def test_nothing_in_double_precision_reaches_the_device():
    """MPS has no float64: what is not for the CPU is refused here if it is one."""

    class NoDouble(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            result = function(*arguments, **(options or {}))
            if isinstance(result, torch.Tensor) and result.device.type != "cpu":
                assert result.dtype != torch.float64, function
            return result

    x, y = np.zeros((B, T)), np.zeros((B, T), int)
    with NoDouble():
        found = to_device((x, y, np.ones((B, T))), torch.device("meta"), torch.float32)
        assert found.weight == B * T
        found = to_device(found, torch.device("meta"), torch.float32)  # from the device itself
    assert isinstance(found.weight, torch.Tensor)
    assert [t.dtype for t in (found.inputs[0], found.weights)] == [torch.float32] * 2


def test_a_loss_that_is_lost_is_noticed_at_the_interval_and_before_a_validation():
    calls = []

    def loss(logits, targets):
        calls.append(1)
        return cross_entropy(logits, targets) * (math.nan if len(calls) == 3 else 1)

    given, validated = batch(), []
    data = [(given.inputs[0], given.targets)]

    def valid(model):
        validated.append(len(calls))
        return 1.0

    for log_every, eval_every, noticed in ((10, 100, 10), (10, 5, 5), (1, 100, 3)):
        calls.clear()
        config = FitConfig(n_steps=20, lr=0.01, log_every=log_every, eval_every=eval_every)
        with pytest.raises(DivergedError, match="training loss at step 3 is nan") as error:
            fit(lm(), data, config, loss=per_target(loss), valid=valid)
        assert error.value.history.step == [1, 2]
        assert len(calls) == noticed
    assert not validated


def test_chunks_in_bfloat16_add_up_in_float32():
    model, (x, y) = lm().eval(), torch.randint(V, (2, 40, T))
    batch = to_device((x, y), torch.device("cpu"), torch.float32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        whole, _ = next_token_loss(model, batch)
        chunked, _ = next_token_loss(model, batch, chunk_rows=7)
    assert chunked.dtype == torch.float32
    assert_close(chunked, whole, rtol=1e-3, atol=0)  # logits are rounded to bfloat16


@pytest.mark.parametrize(
    ("chunk_rows", "shape", "error", "message"),
    [
        (4, (T, B), ValueError, r"shape of the model's output, \(3, 7\), got \(7, 3\)"),
        (0, (B, T), ValueError, "chunk_rows must be at least 1"),
    ],
)
def test_chunks_refuse_what_does_not_fit(chunk_rows, shape, error, message):
    x, y = torch.randint(V, (B, T)), torch.randint(V, shape)
    batch = to_device((x, y), torch.device("cpu"), torch.float32)
    with pytest.raises(error, match=message):
        next_token_loss(lm(), batch, chunk_rows=chunk_rows)


def test_chunks_need_a_model_with_a_head():
    batch = to_device((torch.randint(V, (B, T)),) * 2, torch.device("cpu"), torch.float32)
    with pytest.raises(TypeError, match="needs a model with `hidden` and a linear `head`"):
        next_token_loss(bigram(), batch, chunk_rows=4)
