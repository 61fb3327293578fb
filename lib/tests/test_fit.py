"""The loop, step for step against loops written by hand; and how it ends when things go wrong."""

import itertools
import math
import os
import signal
import stat
import sys
import threading
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from comparing import bigram, close, refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from unrolled.data.batches import ContiguousBatches
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.training import checkpoint as checkpoints
from unrolled.training.fit import DivergedError, FitConfig, Trainer, fit
from unrolled.training.losses import cross_entropy, next_token_loss, per_target
from unrolled.training.schedule import cosine

VOCAB, B, T = 7, 2, 5
bigram = partial(bigram, VOCAB)


def batches(n=10**9):
    """Each token is followed by its successor, two times in three."""
    rng = np.random.default_rng(0)
    for _ in range(n):
        tokens = rng.integers(VOCAB, size=(B, T))
        yield tokens, np.where(rng.random((B, T)) < 2 / 3, (tokens + 1) % VOCAB, tokens)


def parameters(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def notes(losses, into):
    """A validation that says these losses one after the other, and notes the parameters."""
    losses = iter(losses)

    def valid(model):
        assert not model.training
        assert all(p.grad is None for p in model.parameters())  # none is held meanwhile
        into.append(parameters(model).clone())
        return next(losses)

    return valid


@pytest.mark.parametrize(("accumulate", "clip"), [(3, 0.2), (1, None)])
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
    assert (history.grad_norm, history.lr, history.step) == (norms, rates, list(range(1, 14)))
    assert clip is None or max(norms) > clip  # clipping did something
    assert history.train_loss == pytest.approx(losses, rel=1e-6)


@given(sizes=st.lists(st.integers(1, 11), min_size=1, max_size=5), seed=st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_accumulated_batches_of_unequal_size_equal_the_big_batch(sizes, seed):
    """Also with weights: an average of averages would count a token of a short batch more."""
    rng = np.random.default_rng(seed)
    small = [(rng.integers(VOCAB, size=n), rng.integers(VOCAB, size=n), rng.random(n) + 0.1)
             for n in sizes]  # fmt: skip
    big = tuple(np.concatenate(parts) for parts in zip(*small, strict=True))
    models, found = [], []
    for data, accumulate in ((small, len(sizes)), ([big], 1)):
        models.append(bigram(dtype=torch.float64))
        config = FitConfig(n_steps=3, lr=0.1, optimizer="sgd", grad_accum_steps=accumulate)
        result = fit(models[-1], data, config, valid=data)
        found.append([*result.history.grad_norm, result.best_loss])
    close(*map(parameters, models))
    assert found[0] == pytest.approx(found[1], abs=1e-12)


def test_inputs_that_are_a_tuple_are_spread_and_a_loss_of_ones_own_is_learned():
    class Two(torch.nn.Linear):
        def forward(self, x, keep):
            assert (x.dtype, keep.dtype) == (torch.float32, torch.bool)
            return super().forward(x * keep)[:, 0]

    rng = np.random.default_rng(0)
    x, keep = rng.normal(size=(53, 3)), rng.random((53, 3)) < 0.5
    y = (x * keep @ [1, -2, 3] > 0).astype(float)
    x.flags.writeable = False
    loss = per_target(partial(F.binary_cross_entropy_with_logits, reduction="none"))
    history = fit(Two(3, 1), [[(x, keep), y]], FitConfig(n_steps=60, lr=0.2), loss=loss).history
    assert history.train_loss[-1] < 0.3 < history.train_loss[0]


def test_bfloat16_is_used_inside_the_model_and_not_in_the_loss(device):
    plain, model, seen = bigram().to(device), bigram().to(device), []
    model.register_forward_hook(lambda module, args, out: seen.append(out.dtype))

    def loss(logits, targets):
        assert logits.dtype == torch.float32
        return cross_entropy(logits, targets)

    config = FitConfig(n_steps=9, lr=0.03, precision="bf16")
    result = fit(model, batches(), config, loss=per_target(loss))
    assert (set(seen), result.dtype) == ({torch.bfloat16}, "bfloat16")
    assert parameters(model).dtype == torch.float32
    expected = fit(plain, batches(), FitConfig(n_steps=9, lr=0.03, precision="off")).history
    assert result.history.train_loss == pytest.approx(expected.train_loss, abs=0.02)


def test_the_best_parameters_do_not_fill_a_gpus_memory(device):
    config = FitConfig(n_steps=1, lr=0.1)
    trainer = Trainer(bigram().to(device), batches(), config, next_token_loss, lambda model: 1.0)
    trainer.validate()
    assert {x.device.type for x in trainer.best["model"].values()} == {"cpu"}


def test_the_best_parameters_are_kept_and_restored():
    model, seen = bigram(), []
    config = FitConfig(n_steps=14, lr=0.1, eval_every=3)
    result = fit(model, batches(), config, valid=notes([3.0, 1.0, 2.0, 1.0, 5.0], seen))
    assert result.history.valid_step == [3, 6, 9, 12, 14]
    assert result.history.valid_loss == [3.0, 1.0, 2.0, 1.0, 5.0]
    assert (result.best_step, result.best_loss) == (6, 1.0)  # the first of equals
    assert torch.equal(parameters(model), seen[1])
    assert not torch.equal(seen[1], seen[4])


def test_a_seed_decides_everything_and_nothing_outside_is_touched():
    def run(seed, outside, valid=None):
        torch.manual_seed(outside)
        before, model = torch.get_rng_state(), bigram(dropout=0.5)
        config = FitConfig(n_steps=5, lr=0.1, seed=seed, eval_every=1)
        history = fit(model, batches(), config, valid=valid).history
        assert torch.equal(torch.get_rng_state(), before)
        return history.train_loss

    expected = run(0, 1)
    assert run(0, 2) == run(0, 1, valid=lambda model: float(torch.rand(()))) == expected
    assert run(3, 1) != expected


def test_each_part_has_its_own_mode_back_also_after_an_error():
    model, seen = bigram(dropout=0.5), []
    model[1].eval()
    model[0].register_forward_hook(lambda *_: seen.append([m.training for m in model.modules()]))
    before = [module.training for module in model.modules()]
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


def test_a_state_is_carried_detached_and_reset_at_every_pass():
    """Two passes over three batches, two of them in a step, against a loop by hand."""
    text = ContiguousBatches(np.arange(31) * 3 % VOCAB, batch_size=B, seq_len=T)
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(RecurrentLM(VOCAB, "gru", embedding_dim=3, hidden_size=5))
    ours, theirs = models
    config = FitConfig(n_steps=3, lr=0.1, optimizer="sgd", grad_clip=None, grad_accum_steps=2,
                       carry_state=True)  # fmt: skip
    result = fit(ours, text, config, valid=text)

    def losses():
        cache = theirs.new_cache()
        for inputs, targets in text:
            yield F.cross_entropy(
                theirs(torch.tensor(inputs), cache=cache).mT, torch.tensor(targets)
            )
            cache.detach()

    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for i, loss in enumerate(itertools.chain(losses(), losses())):
        (loss / 2).backward()
        if i % 2:
            optimizer.step()
            optimizer.zero_grad()
    close(parameters(ours), parameters(theirs), 1e-6)
    with torch.no_grad():
        assert result.best_loss == pytest.approx(float(sum(losses())) / 3, abs=1e-6)


def press():
    signal.raise_signal(signal.SIGINT)


class PressedDuringStep(torch.optim.SGD):
    """Ctrl-C, once or more often, after the first of the parameters of step 4."""

    def __init__(self, groups, times, handlers):
        super().__init__(groups)
        self.n, self.times, self.handlers = 0, times, handlers

    @torch.no_grad()
    def step(self):
        self.n += 1
        self.handlers.append(signal.getsignal(signal.SIGINT))
        for i, p in enumerate(p for group in self.param_groups for p in group["params"]):
            p -= 0.1 * p.grad
            for _ in range(self.times if (self.n, i) == (4, 0) else 0):
                press()


def pressed(model, times, n_steps=9, handlers=None, **options):
    """A fit with Ctrl-C, which notes the handlers that it meets."""
    handlers = [] if handlers is None else handlers
    optimizer = partial(PressedDuringStep, times=times, handlers=handlers)
    config = FitConfig(n_steps=n_steps, lr=0.1, eval_every=2, optimizer=optimizer)
    return fit(model, batches(), config, **options)


def test_ctrl_c_ends_the_fit_after_the_step_with_the_best_parameters(capfd):
    model, whole, seen, before = bigram(), bigram(), [], signal.getsignal(signal.SIGINT)
    result = pressed(model, times=1, valid=notes([1.0, 2.0], seen))
    pressed(whole, times=0, n_steps=4)
    assert result.note == "interrupted after step 4 of 9; the model holds the parameters of " \
                          "step 2, the best on validation"  # fmt: skip
    assert result.history.step == [1, 2, 3, 4]
    assert torch.equal(parameters(model), seen[0])
    assert torch.equal(parameters(whole), seen[1])
    assert capfd.readouterr() == ("", "")  # nothing is printed
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_while_the_best_parameters_are_put_back_still_puts_all_back():
    model, seen = bigram(), []
    model[0].register_load_state_dict_post_hook(lambda module, keys: press())
    pressed(model, times=0, n_steps=4, valid=notes([1.0, 2.0], seen))
    assert torch.equal(parameters(model), seen[0])


def test_a_second_ctrl_c_does_not_wait_and_the_best_parameters_are_whole():
    model, seen, before = bigram().eval(), [], signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        pressed(model, times=2, valid=notes([1.0], seen))
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
    with pytest.raises(KeyboardInterrupt) if times == 2 else nullcontext():
        fit(model, batches(), config, checkpoint=path)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    assert checkpoints.load(path)["step"] == (3 if times == 1 else 1)  # the flag is seen there
    again = bigram(0.5)
    fit(again, batches(), config, checkpoint=path)
    fit(whole, batches(), config)
    assert torch.equal(parameters(again), parameters(whole))


def test_the_handler_of_someone_else_is_left_in_place():
    calls = []
    before = signal.signal(signal.SIGINT, lambda *arguments: calls.append(arguments[0]))
    try:
        assert not pressed(bigram(), times=2).interrupted  # nothing raises, so the fit goes on
        assert calls == [signal.SIGINT] * 2
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_fit_in_a_thread_leaves_the_handlers_alone():
    before, handlers = signal.getsignal(signal.SIGINT), []
    thread = threading.Thread(target=pressed, args=(bigram(), 0, 3, handlers))
    thread.start()
    thread.join()
    assert handlers == [before] * 3


@pytest.mark.parametrize(
    ("log_every", "eval_every", "noticed"), [(10, 100, 10), (10, 5, 5), (1, 100, 3)]
)
def test_a_loss_that_is_not_finite_is_noticed_at_the_interval_and_before_a_validation(
    log_every, eval_every, noticed
):
    model, seen = bigram(), []

    def loss(logits, targets):
        seen.append(parameters(model).clone())
        return cross_entropy(logits, targets) * (math.inf if len(seen) == 3 else 1)

    config = FitConfig(n_steps=20, lr=0.01, log_every=log_every, eval_every=eval_every)
    message = r"training loss at step 3 is inf \(last finite loss: \d\.\d+ at step 2\)"
    with pytest.raises(DivergedError, match=message) as error:
        fit(model, batches(), config, loss=per_target(loss), valid=lambda model: 1 / 0)
    assert error.value.history.step == [1, 2]
    assert len(seen) == noticed
    assert log_every > 1 or torch.equal(parameters(model), seen[-1]), "the model is spoiled"


def test_a_gradient_or_validation_loss_that_is_not_finite_stops_the_fit_too():
    model, config = bigram(), FitConfig(n_steps=9, lr=0.1, eval_every=3)
    before = parameters(model)
    steep = per_target(lambda logits, _: (logits - logits.detach()).abs().sum(-1).sqrt())
    with pytest.raises(FloatingPointError, match=r"gradients at step 1 is (inf|nan) \(there was"):
        fit(model, batches(), config, loss=steep)
    assert torch.equal(parameters(model), before)
    with pytest.raises(DivergedError, match="the validation loss before step 7 is nan"):
        fit(model, batches(), config, valid=notes([1.5, math.nan], []))


X = np.zeros((2, 5), int)
GOOD = dict(batches=[(X, X)], config=FitConfig(n_steps=3, lr=0.1))


test_what_does_not_fit_is_refused = refuses(
    (dict(batches=[]), "the batches ended after 0"),
    (dict(batches=[(X,)]), r"a batch is \(inputs, targets\) or"),
    (dict(batches=[(X, X[0])]), r"shape of the targets, \(5,\).*got \(2, 5, 7\)"),
    (dict(batches=[(X, X, X[0])]), r"shape \(2, 5\) .*got the shape \(5,\)"),
    (dict(batches=[(X, X, X)]), "no target has a weight at step 1"),
    (dict(batches=[(X, X + 7)]), IndexError, "Target 7 is out of bounds"),
    (dict(loss=per_target(lambda x, y: x.mean())), r"targets' shape \(2, 5\), got"),
    (dict(valid=iter([(X, X)])), TypeError, "give a list, not an iterator"),
    (dict(valid=[(X, X, X)]), "no target of the validation batches has a weight"),
    (dict(model=torch.nn.Identity()), "Identity has no parameter that requires"),
    (dict(model=torch.nn.LSTM(5, 7), batches=[(X / 1.0, X)]), TypeError, "got a tuple"),
    of=lambda change: fit(**GOOD | dict(model=bigram()) | change),
)


@pytest.mark.parametrize(
    ("terminal", "static", "installed", "progress", "shown"),
    [(True, "0", True, None, True), (False, "0", True, None, False), (True, "1", True, None, False),
     (True, "0", False, None, False), (True, "0", True, False, False),
     (False, "1", True, True, True), (False, "0", False, True, None)],
)  # fmt: skip
def test_the_bar_shows_where_someone_looks_and_stays_out_of_stored_outputs(
    monkeypatch, capsys, terminal, static, installed, progress, shown
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("UNROLLED_STATIC", static)
    if not installed:
        monkeypatch.setitem(sys.modules, "tqdm", None)
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    missing = pytest.raises(ModuleNotFoundError, match="tqdm") if shown is None else nullcontext()
    with missing:  # a bar that was asked for
        fit(bigram(), batches(), FitConfig(n_steps=3, lr=0.1), progress=progress)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("0/3" in err) == bool(shown)
    assert shown or not err
