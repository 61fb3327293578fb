"""From batches to losses: what becomes of a batch; one loss at a time, in chunks, compiled."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from comparing import bigram, close
from torch._dynamo.utils import counters
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from unrolled.data.batches import IGNORE, ContiguousBatches
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import preset
from unrolled.training.batch_iterator import BatchIterator, to_device
from unrolled.training.fit import FitConfig, cross_entropy, fit
from unrolled.training.losses import next_token_loss

V, B, T = 29, 3, 7
bigram = partial(bigram, V)
CPU = torch.device("cpu")
ONE = (np.array(1), np.array(1))


def lm(dtype=torch.float32, **changes):
    torch.manual_seed(0)
    options = dict(n_layers=2, d_model=12, n_heads=2, vocab_size=V, context_length=T, dropout=0.0)
    return TransformerLM(preset("gpt2", **options | changes)).to(dtype)


def rnn(dtype=torch.float32):
    torch.manual_seed(0)
    return RecurrentLM(V, "gru", embedding_dim=5, hidden_size=11, tie_embeddings=True).to(dtype)


def given(kind="plain", seed=1):
    """(inputs, targets), or with the weights as well."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(V, size=(B, T + 1))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    if kind == "ignored":
        targets = np.where(rng.random((B, T)) < 0.4, IGNORE, targets)
    weights = {"masked": rng.random((B, T)) < 0.5, "weighted": rng.random((B, T))}.get(kind)
    return (inputs, targets) if weights is None else (inputs, targets, weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kinds_are_made_fit_and_a_batch_is_a_copy_wherever_it_lay(dtype, device):
    """Whoever made the batch fills its tensors and arrays again."""
    x, keep, y = np.ones((3, 2)), np.ones((3, 2), bool), np.ones(3, dtype=np.int16)
    tensors = tuple(torch.ones(3, device=device).to(kind) for kind in (dtype, int, float))
    first = to_device(((x, keep), y), torch.device(device), dtype)
    second = to_device(tensors, torch.device(device), dtype)
    assert [t.dtype for t in (*first.inputs, first.targets)] == [dtype, torch.bool, torch.int64]
    assert (first.weights, first.weight) == (None, 3)
    for source in (x, keep, y, *tensors):
        source[:] = 0
    parts = *first.inputs, first.targets, *second.inputs, second.targets, second.weights
    assert all((part == 1).all() for part in parts)


def test_ignored_targets_and_weights_of_zero_count_nothing_whatever_stands_there():
    y, weights = np.array([4, IGNORE, 6, 99]), np.array([0.5, 2.0, 1.0, 0.0])
    batch = to_device((y, y, weights), CPU, torch.float64)
    assert batch.targets.tolist() == [4, 0, 6, 0]
    assert batch.weights.tolist() == [0.5, 0.0, 1.0, 0.0]
    assert batch.weight == 1.5
    again = to_device(batch, CPU, torch.float64)  # a Batch is a batch, too
    assert again.weights.tolist() == batch.weights.tolist()
    masked = to_device((y, y, weights > 0), CPU, torch.float64)
    assert (masked.weights.dtype, masked.weight) == (torch.bool, 2)
    with pytest.raises(ValueError, match="weights must have"):
        to_device((y, y, weights * np.nan), CPU, torch.float64)


def test_passes_prefetch_and_left_out_batches_come_in_order():
    def numbers(batches):
        return [(int(batch.targets), begins) for batch, begins in batches]

    data = [(np.array(i), np.array(i)) for i in range(3)]
    iterator = BatchIterator(data, CPU, torch.float32)
    plain = numbers(iterator.draw() for _ in range(7))
    assert plain == [(0, True), (1, False), (2, False)] * 2 + [(0, True)]
    other = BatchIterator(data, CPU, torch.float32)
    other.prefetch(2)
    other.skip(1)
    other.prefetch(1)
    assert numbers(other.draw() for _ in range(6)) == plain[1:]
    assert (other.drawn, other.first) == (7, iterator.first)
    third = BatchIterator(data[1:], CPU, torch.float32)
    third.skip(1)
    assert third.first != iterator.first


def test_what_the_source_raises_is_raised_by_the_draw_that_it_was_drawn_for():
    def breaks_down():
        yield from [ONE] * 2
        raise OSError("the disk is gone")

    for source, error, message in (
        (breaks_down(), OSError, "the disk is gone"),
        (iter([ONE] * 2), ValueError, "the batches ended after 2: give a list, an endless"),
    ):
        iterator = BatchIterator(source, CPU, torch.float32)
        iterator.prefetch(3)
        assert [int(iterator.draw()[0].targets) for _ in range(2)] == [1, 1]
        with pytest.raises(error, match=message):
            iterator.draw()


@pytest.mark.parametrize("kind", ["plain", "ignored", "masked", "weighted"])
@pytest.mark.parametrize("make", [lm, partial(lm, scale_logits=True), rnn])
def test_a_loss_and_its_gradients_are_torchs_at_once_and_in_chunks(kind, make, monkeypatch):
    model, batch = make(torch.float64), to_device(given(kind), CPU, torch.float64)
    weights = torch.ones(B, T) if batch.weights is None else batch.weights
    nats = F.cross_entropy(model(*batch.inputs).mT, batch.targets, reduction="none")
    expected = torch.autograd.grad((nats * weights).sum(), list(model.parameters()))
    losses = [partial(next_token_loss, chunk_rows=rows) for rows in (None, 5, 1000)]
    for older in (False, True):
        if older:  # torch before 2.13
            monkeypatch.delattr(F, "linear_cross_entropy", raising=False)
        for loss in losses[older:]:
            total, weight = loss(model, batch)
            close(total, (nats * weights).sum(), 1e-10)
            close(torch.autograd.grad(total, list(model.parameters())), expected, 1e-10)
            assert weight == pytest.approx(float(weights.sum()))


def test_chunks_compute_in_bfloat16_where_autocast_does_and_add_up_in_float32():
    model, tokens = lm().eval(), torch.randint(V, (2, 40, T))
    batch = to_device(tuple(tokens), CPU, torch.float32)
    with torch.no_grad():
        exact, _ = next_token_loss(model, batch)
        with torch.autocast("cpu", torch.bfloat16):
            whole, _ = next_token_loss(model, batch)
            chunked, _ = next_token_loss(model, batch, chunk_rows=7)
    assert chunked.dtype == torch.float32
    assert_close(chunked, whole, rtol=1e-3, atol=0)  # logits are rounded to bfloat16
    assert_close(chunked, exact, rtol=0.02, atol=0)
    assert chunked != exact


def test_a_fit_takes_a_loss_of_model_and_batch_that_counts_otherwise():
    """A step minimises the ratio of the two sums over all its batches."""

    def first_position(model, batch, cache):
        nats = cross_entropy(model(*batch.inputs), batch.targets)
        return nats[:, 0].sum(), len(nats)

    ours, theirs = lm(torch.float64), lm(torch.float64)
    config = FitConfig(n_steps=2, lr=0.1, optimizer="sgd", grad_accum_steps=2)
    data, first = [given(), given(seed=2)], np.arange(T) == np.zeros((B, 1))
    found = fit(ours, data, config, loss=first_position)
    expected = fit(theirs, [(*pair, first) for pair in data], config)
    assert found.history.train_loss == pytest.approx(expected.history.train_loss, abs=1e-12)
    close(list(ours.parameters()), list(theirs.parameters()))


@pytest.fixture
def graphs(monkeypatch):
    """What torch.compile traces; it is run without generated code, so without a C compiler."""
    found, original = [], torch.compile

    def backend(graph, inputs):
        found.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(original, backend=backend))
    return found


def losses_plain_and_compiled(make, data, loss=next_token_loss, valid=None, **options):
    found = []
    for compiled in (False, True):
        config = FitConfig(lr=0.01, compile=compiled, **options)
        found.append(fit(make(), data, config, loss=loss, valid=valid).history.train_loss)
    return found


@pytest.mark.filterwarnings("ignore")  # of the compiler itself
@pytest.mark.parametrize(("chunk_rows", "validates", "programs"), [(None, True, 2), (5, False, 1)])
def test_compiled_steps_are_the_plain_ones_by_one_program_and_validation_is_another(
    chunk_rows, validates, programs, graphs
):
    """What changes from step to step, as the weight of a batch does, compiles nothing again."""
    data = [given("ignored", seed) for seed in range(5)]
    counters.clear()
    plain, compiled = losses_plain_and_compiled(
        partial(lm, n_layers=1), data, partial(next_token_loss, chunk_rows=chunk_rows),
        valid=data[:2] if validates else None, n_steps=12, schedule="cosine", warmup_steps=3,
        grad_accum_steps=2, eval_every=5,
    )  # fmt: skip
    assert compiled == pytest.approx(plain, abs=1e-5)
    assert len(graphs) == programs
    assert not counters["graph_break"]


@pytest.mark.filterwarnings("ignore")  # of the compiler itself
@pytest.mark.parametrize(
    ("make", "programs"), [(rnn, 2), (partial(lm, n_layers=1, context_length=100), 3)]
)
def test_a_cache_that_grows_needs_no_further_compilation(make, programs, graphs):
    """The first of seven batches begins without a state, which is a program of its own; keys and
    values, which grow, have one for their first length and one for all others."""
    data = ContiguousBatches(np.arange(2 * 49 + 1) * 3 % V, batch_size=2, seq_len=7)
    plain, compiled = losses_plain_and_compiled(make, data, n_steps=len(data), carry_state=True)
    assert compiled == pytest.approx(plain, abs=1e-5)
    assert len(graphs) == programs


@pytest.mark.filterwarnings("ignore")  # of the compiler itself
@torch._dynamo.config.patch(cache_size_limit=2)
def test_every_fit_of_a_process_is_compiled(graphs):
    """torch keeps so many versions of a function; one model more would share them."""
    for width in range(5, 8):
        graphs.clear()
        fit(bigram(width=width), [given()], FitConfig(n_steps=2, lr=0.01, compile=True))
        assert len(graphs) == 1


@pytest.mark.parametrize("log_every", [1, 7])
def test_the_losses_are_read_once_an_interval_and_none_is_lost(log_every, monkeypatch):
    settings = dict(n_steps=20, lr=0.01, grad_accum_steps=3)
    expected = fit(bigram(), [given()], FitConfig(**settings)).history
    data = [tuple(torch.tensor(x) for x in given())]
    model, config, reads = bigram(), FitConfig(**settings, log_every=log_every), []
    monkeypatch.setattr("torch.optim.AdamW.step", lambda self: None)  # it reads its own counters
    for name in ("item", "tolist", "__bool__", "__float__", "__int__"):
        method = getattr(torch.Tensor, name)
        monkeypatch.setattr(torch.Tensor, name, lambda *x, f=method: reads.append(1) or f(*x))
    history = fit(model, data, config).history
    monkeypatch.undo()
    # Each of the 60 batches, which are on the CPU, is asked whether a target is to be left out.
    assert len(reads) == math.ceil(20 / log_every) + 60
    assert history.step == list(range(1, 21))
    assert history.train_loss[0] == expected.train_loss[0]


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


@pytest.mark.parametrize(
    ("make", "chunk_rows", "shape", "message"),
    [(lm, 4, (T, B), r"shape of the model's output, \(3, 7\), got \(7, 3\)"),
     (bigram, 4, (B, T), "needs a model with `hidden` and a linear `head`")],
)  # fmt: skip
def test_chunks_refuse_what_does_not_fit(make, chunk_rows, shape, message):
    batch = to_device((torch.randint(V, (B, T)), torch.randint(V, shape)), CPU, torch.float32)
    with pytest.raises((ValueError, TypeError), match=message):
        next_token_loss(make(), batch, chunk_rows=chunk_rows)
