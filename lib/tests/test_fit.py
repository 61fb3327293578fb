"""The loop, step for step against loops written by hand; and how it ends when things go wrong."""

from __future__ import annotations

import itertools
import math
import os
import signal
import stat
import sys
import threading
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from unrolled.data.batches import IGNORE, ContiguousBatches
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.training import checkpoint as checkpoints
from unrolled.training.fit import (
    DivergedError,
    FitConfig,
    Trainer,
    cross_entropy,
    fit,
    next_token_loss,
    per_target,
)
from unrolled.training.schedule import cosine

VOCAB, B, T = 7, 2, 5


def bigram(dropout=0.0, dtype=torch.float32, seed=1):
    """(B, T) ids → (B, T, V) logits: embedding, dropout, linear."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Embedding(VOCAB, 3), torch.nn.Dropout(dropout), torch.nn.Linear(3, VOCAB)
        ).to(dtype)


def batches(n=10**9, seed=0):
    """Each token is followed by its successor, two times in three."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        tokens = rng.integers(VOCAB, size=(B, T))
        yield tokens, np.where(rng.random((B, T)) < 2 / 3, (tokens + 1) % VOCAB, tokens)


def parameters(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


class Sum(SimpleNamespace):
    """What `Running` carries: the sum of all embeddings, (B, 3), or None."""

    def detach(self):
        self.total = self.total.detach()


class Running(torch.nn.Module):
    """Logits from the running sum of embeddings."""

    def __init__(self):
        super().__init__()
        self.body, self.states = bigram(), []

    def new_cache(self):
        return Sum(total=None)

    def forward(self, tokens, *, cache):
        self.states.append(cache.total)
        x = self.body[0](tokens).cumsum(1)
        x = x if cache.total is None else x + cache.total[:, None]
        cache.total = x[:, -1]
        return self.body[2](x)


def test_a_fit_learns_what_can_be_learned():
    """The best loss is the entropy of the source: one of two tokens, two times in three."""
    model = bigram()
    config = FitConfig(n_steps=250, lr=0.2, schedule="cosine")
    result = fit(model, batches(), config, valid=list(batches(50, 1)))
    best = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    assert result.history.train_loss[0] > math.log(VOCAB) - 0.5
    assert best - 0.1 < result.best_loss < best + 0.1
    assert result.note == f"the model holds the parameters of step {result.best_step}, " \
                          "the best on validation"  # fmt: skip


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("clip", [0.2, None])
def test_the_loop_equals_one_written_by_hand_bit_for_bit(device, accumulate, clip):
    config = FitConfig(n_steps=13, lr=0.05, betas=(0.9, 0.99), weight_decay=0.1, grad_clip=clip,
                       schedule="cosine", warmup_steps=3, min_lr_ratio=0.05, seed=5,
                       grad_accum_steps=accumulate, precision="off")  # fmt: skip
    ours, theirs = bigram(dropout=0.2).to(device), bigram(dropout=0.2).to(device)
    history = fit(ours, batches(), config).history
    matrices, vectors = [theirs[0].weight, theirs[2].weight], [theirs[2].bias]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.05, betas=(0.9, 0.99), fused=device == "cuda")
    source, losses, norms, rates = batches(), [], [], []
    torch.manual_seed(5)
    for step in range(13):
        for group in optimizer.param_groups:
            group["lr"] = 0.05 * cosine(step, 13, warmup_steps=3, min_lr_ratio=0.05)
        optimizer.zero_grad()
        losses.append(0.0)
        for _ in range(accumulate):
            inputs, targets = (torch.tensor(x, device=device) for x in next(source))
            logits = theirs(inputs).reshape(-1, VOCAB)
            loss = F.cross_entropy(logits, targets.reshape(-1), reduction="sum")
            loss = loss / (B * T * accumulate)
            loss.backward()
            losses[-1] += loss.item()
        norms.append(torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip or math.inf).item())
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert torch.equal(parameters(ours), parameters(theirs))
    assert history.grad_norm == norms
    assert clip is None or max(norms) > clip  # clipping did something
    assert history.lr == rates
    assert history.train_loss == pytest.approx(losses, rel=1e-6)
    assert history.step == list(range(1, 14))


def test_a_source_that_fails_loses_no_step(device, tmp_path):
    """On a GPU the next batches are drawn before the step is made."""

    def source(end):
        yield from batches(end)
        raise OSError("the disk is gone")

    config = FitConfig(n_steps=13, lr=0.05, grad_accum_steps=2, checkpoint_seconds=0)
    whole, part, again = (bigram(dropout=0.2).to(device) for _ in range(3))
    fit(whole, batches(), config)
    with pytest.raises(OSError, match="the disk is gone"):
        fit(part, source(end=15), config, checkpoint=tmp_path / "fit")
    assert checkpoints.read(tmp_path / "fit")[0]["step"] == 7
    fit(again, batches(), config, checkpoint=tmp_path / "fit")
    assert torch.equal(parameters(whole), parameters(again))


def test_a_fit_holds_no_gradient_and_no_second_model_on_a_gpu(device):
    model, held = bigram().to(device), []

    def valid(model):
        held.append([p.grad for p in model.parameters()])
        return float(-len(held))

    config = FitConfig(n_steps=4, lr=0.05, eval_every=2)
    trainer = Trainer(model, batches(), config, next_token_loss, valid)
    for _ in range(2):
        trainer.train_step()
    trainer.validate()
    assert held == [[None] * 3]
    assert {x.device.type for x in trainer.best["model"].values()} == {"cpu"}
    best = parameters(model).clone()
    trainer.train_step()
    trainer.finish()
    assert torch.equal(parameters(model), best)


def test_the_loop_equals_the_plainest_one():
    ours, theirs = bigram(dtype=torch.float64), bigram(dtype=torch.float64)
    fit(ours, batches(), FitConfig(n_steps=11, lr=0.5, optimizer="sgd", grad_clip=None))
    for inputs, targets in batches(11):
        loss = F.cross_entropy(theirs(torch.tensor(inputs)).mT, torch.tensor(targets))
        gradients = torch.autograd.grad(loss, list(theirs.parameters()))
        with torch.no_grad():
            for p, gradient in zip(theirs.parameters(), gradients, strict=True):
                p -= 0.5 * gradient
    torch.testing.assert_close(parameters(ours), parameters(theirs), rtol=0, atol=1e-12)


@given(sizes=st.lists(st.integers(1, 11), min_size=1, max_size=5), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_accumulated_batches_of_unequal_size_equal_the_big_batch(sizes, seed):
    """Also with weights: an average of averages would count a token of a short batch more."""
    rng = np.random.default_rng(seed)
    small = [(rng.integers(VOCAB, size=n), rng.integers(VOCAB, size=n), rng.random(n) + 0.1)
             for n in sizes]  # fmt: skip
    big = tuple(np.concatenate(parts) for parts in zip(*small, strict=True))
    models, norms = [], []
    for data, accumulate in ((small, len(sizes)), ([big], 1)):
        models.append(bigram(dtype=torch.float64))
        config = FitConfig(n_steps=3, lr=0.1, optimizer="sgd", grad_accum_steps=accumulate)
        norms.append(fit(models[-1], data, config).history.grad_norm)
    torch.testing.assert_close(*map(parameters, models), rtol=0, atol=1e-12)
    assert norms[0] == pytest.approx(norms[1], abs=1e-12)


def test_padding_behind_a_mask_changes_nothing_whatever_stands_there():
    config = FitConfig(n_steps=7, lr=0.1, optimizer="sgd")
    short = list(batches(3))
    long = [
        (np.pad(x, ((0, 0), (0, 2))), np.pad(y, ((0, 0), (0, 2)), constant_values=-1),
         np.arange(T + 2) < np.full((B, 1), T)) for x, y in short
    ]  # fmt: skip
    ignored = [(x, np.where(mask, y, IGNORE)) for x, y, mask in long]
    both = [(x, np.where([[1], [0]], y, IGNORE), mask) for x, y, mask in long]  # row 0 only
    first = [(x[:1], y[:1]) for x, y in short]
    for left, right in ((short, long), (short, ignored), (first, both)):
        plain, padded = bigram(dtype=torch.float64), bigram(dtype=torch.float64)
        results = [fit(plain, left, config, valid=left), fit(padded, right, config, valid=right)]
        torch.testing.assert_close(parameters(plain), parameters(padded), rtol=0, atol=1e-12)
        assert results[0].best_loss == pytest.approx(results[1].best_loss, abs=1e-12)


def test_weight_decay_shrinks_matrices_and_leaves_vectors():
    """With a gradient of zero, AdamW's decay is all that happens: w ← (1 − lr·λ)·w."""
    model = bigram(dtype=torch.float64)
    before = [p.detach().clone() for p in model.parameters()]
    config = FitConfig(n_steps=3, lr=0.1, weight_decay=0.5)
    fit(model, batches(), config, loss=per_target(lambda logits, targets: 0 * logits.sum(-1)))
    embedding, weight, bias = model.parameters()
    torch.testing.assert_close(embedding.detach(), before[0] * 0.95**3, rtol=1e-12, atol=0)
    torch.testing.assert_close(weight.detach(), before[1] * 0.95**3, rtol=1e-12, atol=0)
    assert torch.equal(bias, before[2])


def test_the_best_parameters_are_kept_and_restored():
    model, seen, losses = bigram(), [], iter([3.0, 1.0, 2.0, 1.0, 5.0])

    def valid(m):
        assert not m.training
        seen.append(parameters(m).clone())
        return next(losses)

    config = FitConfig(n_steps=14, lr=0.1, eval_every=3)
    result = fit(model, batches(), config, valid=valid)
    assert result.history.valid_step == [3, 6, 9, 12, 14]
    assert result.history.valid_loss == [3.0, 1.0, 2.0, 1.0, 5.0]
    assert (result.best_step, result.best_loss) == (6, 1.0)  # the first of equals
    assert torch.equal(parameters(model), seen[1])
    assert not torch.equal(seen[1], seen[4])


def test_validation_is_weighted_by_tokens_and_measured_in_evaluation_mode():
    model = bigram(dropout=0.5, dtype=torch.float64)
    data = [(np.array([1, 2, 3]), np.array([2, 3, 4])), (np.array([5]), np.array([0]))]
    result = fit(model, data, FitConfig(n_steps=1, lr=0.01), valid=data)
    inputs, targets = (torch.tensor(np.concatenate(x)) for x in zip(*data, strict=True))
    expected = F.cross_entropy(model.eval()(inputs), targets).item()
    assert result.best_loss == pytest.approx(expected, abs=1e-12)


def test_validating_does_not_change_the_training():
    def noisy(model):
        return float(torch.rand(()))

    config = dict(n_steps=9, lr=0.1)
    often, seldom = bigram(dropout=0.5), bigram(dropout=0.5)
    a = fit(often, batches(), FitConfig(eval_every=1, **config), valid=noisy)
    b = fit(seldom, batches(), FitConfig(eval_every=9, **config))
    assert a.history.train_loss == b.history.train_loss


def test_a_seed_decides_everything_and_nothing_outside_is_touched():
    def run(seed, outside):
        torch.manual_seed(outside)
        before, model = torch.get_rng_state(), bigram(dropout=0.5)
        np_before = np.random.get_state()[1].copy()  # noqa: NPY002
        model.eval()
        fit(model, batches(), FitConfig(n_steps=5, lr=0.1, seed=seed), progress=False)
        assert torch.equal(torch.get_rng_state(), before)
        assert (np.random.get_state()[1] == np_before).all()  # noqa: NPY002
        assert not model.training  # the mode it had
        return parameters(model)

    assert torch.equal(run(0, 1), run(0, 2))
    assert not torch.equal(run(0, 1), run(3, 1))


def test_each_part_has_its_own_mode_back_also_after_an_error():
    model, seen = bigram(dropout=0.5), []
    model[1].eval()
    model[0].register_forward_hook(lambda *_: seen.append([m.training for m in model.modules()]))
    before = [module.training for module in model.modules()]
    assert before == [True, True, False, True]
    data = list(batches(1))
    fit(model, data, FitConfig(n_steps=2, lr=0.1, eval_every=1), valid=data)
    assert seen == [[True] * 4, [False] * 4] * 2
    assert [module.training for module in model.modules()] == before
    with pytest.raises(DivergedError):
        fit(model, data, FitConfig(n_steps=2, lr=0.1), loss=lambda *_: (model[2].bias.sum() / 0, 1))
    assert [module.training for module in model.modules()] == before


def test_an_optimizer_object_has_its_rates_scheduled_and_then_back():
    model = bigram()
    optimizer = torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.3},
                                 {"params": model[2].parameters(), "lr": 0.1}])  # fmt: skip
    config = FitConfig(n_steps=4, optimizer=optimizer, schedule=lambda step: 1 / (step + 1))
    history = fit(model, batches(), config).history
    assert history.lr == pytest.approx([0.3, 0.15, 0.1, 0.075])
    assert [group["lr"] for group in optimizer.param_groups] == [0.3, 0.1]


def test_the_state_is_carried_detached_and_reset_at_every_pass():
    model, data = Running(), list(batches(3))
    config = FitConfig(n_steps=4, lr=0.0001, carry_state=True, grad_accum_steps=2, eval_every=4)
    fit(model, data, config, valid=data)
    training, validation = model.states[:8], model.states[8:]
    assert [s is None for s in training] == [True, False, False, True, False, False, True, False]
    assert [s is None for s in validation] == [True, False, False]
    assert not any(s.requires_grad for s in training if s is not None)
    embeddings = model.body[0].weight[torch.tensor(data[0][0])].sum(1)
    torch.testing.assert_close(training[1], embeddings.detach(), rtol=0, atol=0.01)


def test_contiguous_batches_of_a_text_carry_the_state_to_its_end():
    text = ContiguousBatches(np.arange(60) % VOCAB, batch_size=B, seq_len=T)
    model = Running()
    fit(model, text, FitConfig(n_steps=2 * len(text), lr=0.01, carry_state=True))
    assert [s is None for s in model.states] == ([True] + [False] * (len(text) - 1)) * 2


def test_the_librarys_recurrent_model_carries_its_state_through_a_text():
    """Two passes over three batches, against a loop by hand."""
    text = ContiguousBatches(np.arange(31) * 3 % VOCAB, batch_size=B, seq_len=T)
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(RecurrentLM(VOCAB, "gru", embedding_dim=3, hidden_size=5))
    ours, theirs = models
    config = FitConfig(n_steps=2 * len(text), lr=0.1, optimizer="sgd", grad_clip=None,
                       carry_state=True)  # fmt: skip
    fit(ours, text, config)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for _ in range(2):
        cache = theirs.new_cache()
        for inputs, targets in text:
            logits = theirs(torch.tensor(inputs), cache=cache)
            cache.detach()
            optimizer.zero_grad()
            F.cross_entropy(logits.mT, torch.tensor(targets)).backward()
            optimizer.step()
    torch.testing.assert_close(parameters(ours), parameters(theirs), rtol=0, atol=1e-6)


def test_inputs_that_are_a_tuple_are_spread_and_types_are_made_fit():
    class Two(torch.nn.Linear):
        def forward(self, x, keep):
            assert (x.dtype, keep.dtype) == (torch.float32, torch.bool)
            return super().forward(x * keep)

    rng, seen = np.random.default_rng(0), []
    x, keep, y = rng.random((5, 3)), rng.random((5, 3)) < 0.5, np.arange(5, dtype=np.int32) % 2
    x.flags.writeable = False

    def loss(logits, targets):
        seen.append(targets.dtype)
        return cross_entropy(logits, targets)

    fit(Two(3, 2), [[(x, keep), y]], FitConfig(n_steps=2, lr=0.1), loss=per_target(loss))
    assert seen == [torch.int64] * 2


def test_a_classifier_with_a_loss_of_its_own_learns():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(53, 3))
    y = (x @ [1, -2, 3] > 0).astype(float)
    model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0))

    def loss(logits, targets):
        return F.binary_cross_entropy_with_logits(logits, targets, reduction="none")

    config = FitConfig(n_steps=100, lr=0.1)
    history = fit(model, [(x, y)], config, loss=per_target(loss)).history
    assert history.train_loss[-1] < 0.2 < history.train_loss[0]


def test_bfloat16_is_used_inside_the_model_and_not_in_the_loss(device):
    model, seen = bigram().to(device), []
    model.register_forward_hook(lambda module, args, out: seen.append(out.dtype))

    def loss(logits, targets):
        assert logits.dtype == torch.float32
        return cross_entropy(logits, targets)

    config = FitConfig(n_steps=200, lr=0.03, precision="bf16")
    result = fit(model, batches(), config, loss=per_target(loss))
    assert set(seen) == {torch.bfloat16}
    assert result.dtype == "bfloat16"
    assert parameters(model).dtype == torch.float32
    assert np.mean(result.history.train_loss[-20:]) < 1.0 < result.history.train_loss[0]


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("validated", [True, False])
def test_ctrl_c_ends_the_fit_after_the_step_with_the_best_parameters(capfd, validated):
    def source():
        for n, batch in enumerate(batches(), 1):
            if n == 8:
                press()
            yield batch

    model, seen, losses = bigram(), [], iter([2.0, 1.0, 3.0, 4.0])
    before = signal.getsignal(signal.SIGINT)

    def valid(m):
        seen.append(parameters(m).clone())
        return next(losses)

    config = FitConfig(n_steps=20, lr=0.1, eval_every=2)
    result = fit(model, source(), config, valid=valid if validated else None)
    assert result.interrupted
    assert result.history.step == list(range(1, 9))
    held = "4, the best on validation" if validated else "8"
    assert result.note == (
        f"interrupted after step 8 of 20; the model holds the parameters of step {held}"
    )
    if validated:
        assert torch.equal(parameters(model), seen[1])
    assert capfd.readouterr() == ("", "")  # nothing is printed
    assert signal.getsignal(signal.SIGINT) is before


class PressedDuringStep(torch.optim.SGD):
    """Ctrl-C, once or more often, after the first of the parameters of step 4."""

    def __init__(self, groups, times):
        super().__init__(groups)
        self.n, self.times, self.handlers = 0, times, []

    @torch.no_grad()
    def step(self):
        self.n += 1
        self.handlers.append(signal.getsignal(signal.SIGINT))
        for i, p in enumerate(p for group in self.param_groups for p in group["params"]):
            p -= 0.1 * p.grad
            for _ in range(self.times if (self.n, i) == (4, 0) else 0):
                press()


def pressed(model, times, **options):
    config = FitConfig(n_steps=9, lr=0.1, optimizer=partial(PressedDuringStep, times=times),
                       eval_every=2)  # fmt: skip
    return fit(model, batches(), config, **options)


def test_ctrl_c_in_the_middle_of_a_step_waits_for_its_end():
    model, whole = bigram(), bigram()
    result = pressed(model, times=1)
    config = FitConfig(n_steps=4, lr=0.1, optimizer=partial(PressedDuringStep, times=0))
    fit(whole, batches(), config)
    assert result.note == "interrupted after step 4 of 9; the model holds the parameters of step 4"
    assert result.history.step == [1, 2, 3, 4]
    assert len(result.history.train_loss) == len(result.history.seconds) == 4
    assert torch.equal(parameters(model), parameters(whole))


def test_a_second_ctrl_c_does_not_wait_and_the_best_parameters_are_whole():
    model, seen, before = bigram().eval(), [], signal.getsignal(signal.SIGINT)

    def valid(m):
        seen.append(parameters(m).clone())
        return 1.0

    with pytest.raises(KeyboardInterrupt):
        pressed(model, times=2, valid=valid)
    assert torch.equal(parameters(model), seen[0])
    assert not model.training
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_in_the_middle_of_a_checkpoint_leaves_a_whole_one(monkeypatch, tmp_path, times):
    path, model, whole, saves = tmp_path / "run", bigram(0.5), bigram(0.5), itertools.count(1)
    config, sync = FitConfig(n_steps=9, lr=0.1, checkpoint_seconds=0), os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):  # the folder, after the file
            return sync(descriptor)
        for _ in range(times if next(saves) == 2 else 0):
            press()
        return sync(descriptor)

    monkeypatch.setattr("unrolled.training.checkpoint.os.fsync", fsync)
    if times == 1:
        result = fit(model, batches(), config, checkpoint=path)
        assert result.note.startswith("interrupted after step 3 of 9")  # the flag is seen there
    else:
        with pytest.raises(KeyboardInterrupt):
            fit(model, batches(), config, checkpoint=path)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    assert checkpoints.load(path)["step"] == (3 if times == 1 else 1)
    again = bigram(0.5)
    fit(again, batches(), config, checkpoint=path)
    fit(whole, batches(), config)
    assert torch.equal(parameters(again), parameters(whole))


def test_ctrl_c_while_the_best_parameters_are_put_back_still_puts_all_back():
    model, seen, losses = bigram(), [], iter([1.0, 2.0])
    model[0].register_load_state_dict_post_hook(lambda module, keys: press())

    def valid(m):
        seen.append(parameters(m).clone())
        return next(losses)

    fit(model, batches(), FitConfig(n_steps=4, lr=0.1, eval_every=2), valid=valid)
    assert torch.equal(parameters(model), seen[0])


def test_the_handler_of_someone_else_is_left_in_place():
    model, calls = bigram(), []
    before = signal.signal(signal.SIGINT, lambda *arguments: calls.append(arguments[0]))
    try:
        assert not pressed(model, times=2).interrupted  # it does not raise, so the fit goes on
        assert calls == [signal.SIGINT] * 2
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_fit_in_a_thread_leaves_the_handlers_alone():
    optimizers, before = [], signal.getsignal(signal.SIGINT)

    def make(groups):
        optimizers.append(PressedDuringStep(groups, times=0))
        return optimizers[0]

    config = FitConfig(n_steps=3, lr=0.1, optimizer=make)
    thread = threading.Thread(target=fit, args=(bigram(), batches(), config))
    thread.start()
    thread.join()
    assert optimizers[0].handlers == [before] * 3


@pytest.mark.parametrize(("value", "name"), [(math.nan, "nan"), (math.inf, "inf")])
def test_a_loss_that_is_not_finite_stops_the_fit_before_it_spoils_the_model(value, name):
    model, seen, count = bigram(), [], itertools.count(1)

    def loss(logits, targets):
        seen.append(parameters(model).clone())
        return cross_entropy(logits, targets) * (value if next(count) == 5 else 1)

    message = rf"the training loss at step 5 is {name} \(last finite loss: \d\.\d+ at step 4\)"
    with pytest.raises(DivergedError, match=message) as error:
        fit(model, batches(), FitConfig(n_steps=9, lr=0.1), loss=per_target(loss))
    assert error.value.history.step == [1, 2, 3, 4]
    assert torch.equal(parameters(model), seen[-1])
    infinite = per_target(lambda logits, targets: logits.exp().sum(-1) / 0)
    with pytest.raises(FloatingPointError, match=r"step 1 is inf .there was no finite loss"):
        fit(model, batches(), FitConfig(n_steps=9, lr=0.1), loss=infinite)


def test_a_gradient_or_validation_loss_that_is_not_finite_stops_the_fit_too():
    model, config = bigram(), FitConfig(n_steps=9, lr=0.1, eval_every=3)
    before = parameters(model)
    steep = per_target(lambda logits, _: (logits - logits.detach()).abs().sum(-1).sqrt())
    with pytest.raises(DivergedError, match=r"norm of the gradients at step 1 is (inf|nan)"):
        fit(model, batches(), config, loss=steep)
    assert torch.equal(parameters(model), before)
    losses = iter([1.5, math.nan])
    with pytest.raises(DivergedError, match="the validation loss before step 7 is nan"):
        fit(model, batches(), config, valid=lambda m: next(losses))


def test_a_list_is_run_over_again_and_an_iterator_that_ends_is_an_error():
    config = FitConfig(n_steps=7, lr=0.1)
    once, thrice = bigram(), bigram()
    fit(once, list(batches(3)) * 3, config)
    fit(thrice, list(batches(3)), config)
    assert torch.equal(parameters(once), parameters(thrice))
    with pytest.raises(ValueError, match="the batches ended after 3: give a list, an endless"):
        fit(bigram(), batches(3), config)
    with pytest.raises(ValueError, match="the batches ended after 0"):
        fit(bigram(), [], config)


X = np.zeros((2, 5), int)
CARRYING = FitConfig(n_steps=3, lr=0.1, carry_state=True)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (dict(batches=[(X,)]), ValueError, r"a batch is \(inputs, targets\) or"),
        (dict(batches=[(X, X[0])]), ValueError, r"shape of the targets, \(5,\).*got \(2, 5, 7\)"),
        (dict(batches=[(X, X, X[0])]), ValueError, r"shape \(2, 5\) .*got the shape \(5,\)"),
        (dict(batches=[(X, X, X - 1)]), ValueError, r"at least 0, got .* smallest -1"),
        (dict(batches=[(X, X, X)]), ValueError, "no target has a weight at step 1"),
        (dict(batches=[(X, X + 7)]), IndexError, "Target 7 is out of bounds"),
        (dict(batches=[(X, X - 1)]), IndexError, "Target -1 is out of bounds"),
        (dict(batches=[(X, X + IGNORE)]), ValueError, "no target has a weight at step 1"),
        (dict(loss=per_target(F.cross_entropy)), (ValueError, RuntimeError), "size|shape"),
        (dict(loss=per_target(lambda x, y: x.mean())), ValueError, r"targets' shape \(2, 5\), got"),
        (dict(valid=iter([(X, X)])), TypeError, "give a list, not an iterator"),
        (dict(valid=[(X, X, X)]), ValueError, "no target of the validation batches has a weight"),
        (dict(model=torch.nn.Identity()), ValueError, "Identity has no parameter that requires"),
        (dict(model=Running()), TypeError, "missing 1 required keyword-only argument: 'cache'"),
        (dict(config=CARRYING, model=Running().body), AttributeError, "new_cache"),
        (dict(model=torch.nn.LSTM(5, 7), batches=[(X / 1.0, X)]), TypeError, "got a tuple"),
    ],
)
def test_what_does_not_fit_is_refused(change, kind, message):
    good = dict(model=bigram(), batches=[(X, X)], config=FitConfig(n_steps=3, lr=0.1))
    with pytest.raises(kind, match=message):
        fit(**good | change)


@pytest.mark.parametrize(
    ("terminal", "static", "installed", "progress", "shown"),
    [
        (True, "0", True, None, True),
        (False, "0", True, None, False),
        (True, "1", True, None, False),
        (True, "0", False, None, False),
        (True, "0", True, False, False),
        (False, "1", True, True, True),
    ],
)
def test_the_bar_shows_where_someone_looks_and_stays_out_of_stored_outputs(
    monkeypatch, capsys, terminal, static, installed, progress, shown
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("UNROLLED_STATIC", static)
    if not installed:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    fit(bigram(), batches(), FitConfig(n_steps=3, lr=0.1), progress=progress)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("0/3" in err) == shown
    assert shown or not err


def test_a_bar_that_was_asked_for_and_is_not_installed_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ModuleNotFoundError, match="tqdm"):
        fit(bigram(), batches(), FitConfig(n_steps=3, lr=0.1), progress=True)
