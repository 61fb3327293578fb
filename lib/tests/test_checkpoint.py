"""Checkpoints: whole or not at all, the same bits again, and nothing in a file is run."""

from __future__ import annotations

import io
import os
import pickle
import random
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from unrolled.models.recurrent_lm import RecurrentCache
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training import batch_iterator, checkpoint
from unrolled.training.fit import FitConfig, fit, next_token_loss, per_target

VOCAB = 7
CONFIG = {"lr": 0.1, "optimizer": "adamw"}


class Model(torch.nn.Module):
    """Embedding, dropout, recurrence with a carried state: all that a resumed fit must restore."""

    def __init__(self, d_model=3):
        super().__init__()
        with torch.random.fork_rng([]):
            torch.manual_seed(1)
            self.embed = torch.nn.Embedding(VOCAB, d_model)
            self.norm = torch.nn.BatchNorm1d(d_model)  # has buffers
            self.rnn = torch.nn.RNN(d_model, 5, batch_first=True)
            self.out = torch.nn.Linear(5, VOCAB)
        self.dropout = torch.nn.Dropout(0.3)

    def new_cache(self):
        return RecurrentCache()

    def forward(self, tokens, *, cache):
        hidden = self.dropout(self.norm(self.embed(tokens).mT).mT)
        outputs, state = self.rnn(hidden, cache.state and cache.state[0])
        cache.state, cache.length = (state,), cache.length + tokens.shape[1]
        return self.out(outputs)


def batches(seed=0, stop_after=None):
    """Five batches a pass, endless; Ctrl-C after stop_after."""
    rng = np.random.default_rng(seed)
    kept = [rng.integers(VOCAB, size=(2, 2, 11)) for _ in range(5)]

    class Passes:
        drawn = 0

        def __iter__(self):
            for tokens in kept:
                self.drawn += 1
                if self.drawn == stop_after:
                    signal.raise_signal(signal.SIGINT)
                yield tokens[0], tokens[1]

    return Passes()


def settings(**changes):
    defaults = dict(n_steps=26, lr=0.02, weight_decay=0.1, schedule="cosine", warmup_steps=4,
                    grad_accum_steps=2, eval_every=13, carry_state=True, seed=3)  # fmt: skip
    return FitConfig(**defaults | changes)


def full_rate(step):
    return 1.0


VALID = [(np.arange(22).reshape(2, 11) % VOCAB, np.arange(22).reshape(2, 11) % 5)]


def same(a, b):
    """Equal to the bit, all the way down."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize(
    ("optimizer", "stop_after"), [("adamw", 26), ("adamw", 37), ("sgd", 26), ("object", 31)]
)
def test_a_resumed_fit_continues_bit_for_bit(tmp_path, optimizer, stop_after):
    """N steps against some, Ctrl-C (within a pass or at its end), and the rest resumed."""

    def run(name, stop_after=None):
        model = Model()
        change = dict(optimizer=optimizer, momentum=0.9 if optimizer == "sgd" else 0.0)
        if optimizer == "object":
            adam = torch.optim.Adam(model.parameters(), lr=0.02)
            change = dict(optimizer=adam, lr=None, weight_decay=0.0)
        path = tmp_path / name
        result = fit(model, batches(stop_after=stop_after), settings(**change), valid=VALID,
                     checkpoint=path)  # fmt: skip
        return model, result, checkpoint.load(path)

    whole, expected, whole_file = run("whole")
    _, first, _ = run("parts", stop_after)
    assert first.interrupted
    assert len(first.history.step) == (stop_after + 1) // 2
    torch.manual_seed(12345)  # the state outside must not matter
    resumed, result, resumed_file = run("parts")
    assert same(resumed.state_dict(), whole.state_dict())
    for name in ("step", "train_loss", "lr", "grad_norm", "valid_step", "valid_loss"):
        assert getattr(result.history, name) == getattr(expected.history, name)
    assert (result.best_step, result.best_loss) == (expected.best_step, expected.best_loss)
    assert result.history.seconds == sorted(result.history.seconds)
    for file in (whole_file, resumed_file):
        file["history"].pop("seconds")
    assert same(resumed_file, whole_file)  # optimizer, generators, carried state and all


def test_a_finished_fit_is_not_run_again(tmp_path):
    model, again = Model(), Model()
    first = fit(model, batches(), settings(), valid=VALID, checkpoint=tmp_path / "c")
    second = fit(again, batches(), settings(), valid=VALID, checkpoint=tmp_path / "c")
    assert same(again.state_dict(), model.state_dict())
    assert second == first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(config=settings(lr=0.03)), "lr: 0.02 in the file, 0.03 now$"),
        (
            dict(config=settings(schedule=full_rate, warmup_steps=0)),
            "schedule: 'cosine' in the file, '.*full_rate' now; warmup_steps: 4 in the file, 0 now",
        ),
        (dict(batches=batches(seed=1)), r"first batch: \d+ in the file, \d+ now$"),
        (dict(model=Model(4)), r"embed.weight: '\(7, 3\) torch.float32' in the file, '\(7, 4\)"),
        (
            dict(loss=per_target(lambda x, y: x.sum(-1))),
            r"loss: 'unrolled.training.losses.next_token_loss' in the file, .partial of .*lambda",
        ),
    ],
)
def test_a_file_of_another_fit_is_refused_with_both_values(tmp_path, change, message):
    path = tmp_path / "c"
    fit(Model(), batches(), settings(), checkpoint=path)
    before = path.read_bytes()
    new = dict(model=Model(), batches=batches(), config=settings()) | change
    untouched = {k: v.clone() for k, v in new["model"].state_dict().items()}
    with pytest.raises(ValueError, match=message):
        fit(**new, checkpoint=path)
    assert path.read_bytes() == before
    assert same(new["model"].state_dict(), untouched)


def test_check_config_names_all_differences_and_absent_settings():
    found, expected = {"lr": 0.1, "n": 3, "seed": 1}, {"lr": 0.2, "n": 3, "grad_clip": None}
    with pytest.raises(
        ValueError, match=r"lr: 0.1 in the file, 0.2 now; seed: 1 in the file, '.abs"
    ):
        checkpoint.check_config("c", found, expected)
    with pytest.raises(ValueError, match=r"grad_clip: '\(absent\)' in the file, None now"):
        checkpoint.check_config("c", found, expected)
    checkpoint.check_config("c", found, dict(reversed(found.items())))


def test_contents_come_back_as_they_were_saved(tmp_path):
    contents = {"x": torch.randn(3, 5, dtype=torch.float64), "n": 3, "t": (1, [None, "ä"], {})}
    path = tmp_path / "new" / "folders" / "c"
    checkpoint.save(path, contents, config=CONFIG)  # the folders are made
    assert same(checkpoint.load(path, config=dict(CONFIG)), contents)
    with pytest.raises(ValueError, match=r"lr: 0.1 in the file, 0.5 now"):
        checkpoint.load(path, config=CONFIG | {"lr": 0.5})


KILLER = """
import os, random, signal, sys, time, torch
from unrolled.training import checkpoint
path, rng = sys.argv[1], random.Random(0)
temporary = os.path.join(os.path.dirname(path), ".c.tmp")

def save(n):
    checkpoint.save(path, {"n": n, "x": torch.full((100_000,), float(n))}, config={})

def wait_until(happened):
    while not happened():
        time.sleep(0.0002)

save(0)
unfinished, seen, n = 0, set(), 0
for trial in range(5):
    before = os.stat(path).st_mtime_ns
    writer = os.fork()
    while not writer:
        n += 1
        save(n)
    wait_until(lambda: os.stat(path).st_mtime_ns != before)
    wait_until(lambda: os.path.exists(temporary))
    time.sleep(rng.uniform(0, 0.005))
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    unfinished += os.path.exists(temporary)
    contents = checkpoint.load(path)
    assert torch.equal(contents["x"], torch.full((100_000,), float(contents["n"])))
    n = contents["n"]
    seen.add(n)
print(unfinished, len(seen))
"""


def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path):
    """Five writers, each killed in the middle of its work."""
    path = tmp_path / "c"
    done = subprocess.run(
        [sys.executable, "-c", KILLER, path],
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # a fork must not inherit a pool of threads
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    unfinished, seen = map(int, done.stdout.split())
    assert unfinished > 0  # kills did fall into the writing
    assert seen == 5  # and every writer had got something done
    assert {p.name for p in tmp_path.iterdir()} <= {"c", ".c.tmp"}
    checkpoint.save(path, {}, config={})
    assert [p.name for p in tmp_path.iterdir()] == ["c"]  # what a kill left is cleared away


@pytest.mark.parametrize("where", ["save", "fsync", "replace"])
def test_a_failure_at_any_stage_leaves_the_old_file(tmp_path, monkeypatch, where):
    path = tmp_path / "c"
    checkpoint.save(path, {"n": 1}, config={})
    before = path.read_bytes()

    def fail(*_, **__):
        assert path.read_bytes() == before
        raise OSError("the disk is full")

    monkeypatch.setattr(torch if where == "save" else os, where, fail)
    with pytest.raises(OSError, match="the disk is full"):
        checkpoint.save(path, {"n": 2}, config={})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_new_file_is_on_the_disk_before_it_takes_the_name(tmp_path, monkeypatch):
    calls, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("fsync"), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("replace"), replace(a, b)))
    checkpoint.save(tmp_path / "c", {}, config={})
    assert calls[:2] == ["fsync", "replace"]


def test_a_damaged_file_is_named_wherever_the_damage_is(tmp_path):
    path, rng = tmp_path / "c.pt", random.Random(0)
    contents = {"x": torch.randn(1009), "name": "value"}
    checkpoint.save(path, contents, config={})
    whole, messages = path.read_bytes(), []
    for _ in range(40):
        at = rng.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        try:
            assert same(checkpoint.load(path), contents)  # a bit of padding that means nothing
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 20
    assert all(message.startswith(f"{path} is damaged") for message in messages)
    for broken in (b"", whole[:-1], whole[: len(whole) // 2], b"not a checkpoint"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"c\.pt is damaged or no checkpoint of this library"):
            checkpoint.load(path)


def test_another_programs_file_and_a_missing_one_are_told_apart(tmp_path):
    torch.save({"weights": torch.zeros(2)}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=r"other.pt .* does not say 'unrolled checkpoint 1'"):
        checkpoint.load(tmp_path / "other.pt")
    with pytest.raises(FileNotFoundError, match="absent"):
        checkpoint.load(tmp_path / "absent")


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_code_in_a_file_is_not_run(tmp_path):
    sprung = tmp_path / "sprung"
    inside = {"format": checkpoint.FORMAT, "config": {}, "contents": Trap(sprung)}
    torch.save(inside, tmp_path / "zip.pt")
    (tmp_path / "bare.pt").write_bytes(pickle.dumps(inside))
    for name in ("zip.pt", "bare.pt"):
        with pytest.raises(ValueError, match=name):
            checkpoint.load(tmp_path / name)
    assert not sprung.exists()
    torch.load(tmp_path / "zip.pt", weights_only=False)
    assert sprung.exists()  # the trap does work


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    checkpoint.save(tmp_path / "c", {"n": 1}, config={})
    with pytest.raises(TypeError, match=r"numbers, strings, tensors, .*got .*PCG64"):
        checkpoint.save(tmp_path / "c", {"rng": np.random.default_rng(0)}, config={})
    assert checkpoint.load(tmp_path / "c") == {"n": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_file_object_takes_a_checkpoint_and_gives_it_back_and_no_config_is_needed(tmp_path):
    contents, file = {"x": torch.arange(5.0), "n": 3}, io.BytesIO()
    checkpoint.save(file, contents)
    file.seek(0)
    assert same(checkpoint.load(file), contents)
    checkpoint.save(tmp_path / "c", contents)
    assert same(checkpoint.load(tmp_path / "c", config={}), contents)


def test_checkpoints_are_saved_by_the_clock_and_at_the_end(tmp_path, monkeypatch):
    saved, save = [], checkpoint.save

    def counted(path, contents, **options):
        saved.append(contents["step"])
        save(path, contents, **options)

    monkeypatch.setattr("unrolled.training._resume.checkpoints.save", counted)
    for seconds, expected in ((0.0, [1, 2, 3, 4, 5]), (1e9, [5])):
        saved.clear()
        config = settings(n_steps=5, checkpoint_seconds=seconds, eval_every=1)
        fit(Model(), batches(), config, checkpoint=tmp_path / f"c{seconds}")
        assert saved == expected


def test_batches_that_a_resumed_fit_leaves_out_are_not_moved(tmp_path, monkeypatch):
    moved, to_device = [], batch_iterator.to_device

    def counted(*arguments):
        moved.append(arguments)
        return to_device(*arguments)

    monkeypatch.setattr(batch_iterator, "to_device", counted)
    for expected in (2 * 26, 0):
        moved.clear()
        fit(Model(), batches(), settings(n_steps=26), checkpoint=tmp_path / "c")
        assert len(moved) == expected


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("first_compiled", [True, False])
def test_a_compiled_models_checkpoint_fits_the_plain_one_and_the_other_way(
    tmp_path, first_compiled
):
    def run(n_steps, compiled):
        model = Model()
        if compiled:  # inside and outside
            model.out = torch.compile(model.out, backend="eager")
            model = torch.compile(model, backend="eager")
        return fit(model, batches(), settings(n_steps=n_steps, decay_steps=20), valid=VALID,
                   checkpoint=tmp_path / "c")  # fmt: skip

    run(4, first_compiled)
    contents, config = checkpoint.read(tmp_path / "c")
    assert contents["model"].keys() == Model().state_dict().keys()
    assert not [name for name in config if "_orig_mod" in name]
    checkpoint.save(tmp_path / "c", contents, config=config | {"n_steps": 9})
    resumed = run(9, not first_compiled)
    whole = fit(Model(), batches(), settings(n_steps=9, decay_steps=20), valid=VALID)
    assert resumed.history.train_loss == pytest.approx(whole.history.train_loss, abs=1e-6)


def test_a_cache_of_keys_and_values_is_refused_before_the_first_step(tmp_path):
    model = TransformerLM(TransformerConfig(vocab_size=5, d_model=4, n_heads=1))
    config, x = FitConfig(n_steps=2, lr=0.1, carry_state=True), np.ones((1, 2), dtype=int)
    with pytest.raises(ValueError, match="cannot hold a KVCache"):
        fit(model, [(x, x)], config, checkpoint=tmp_path / "k.pt")


class Doubled:
    """A loss that is an object without a repr of its own."""

    def __call__(self, model, batch, cache):
        nats, weight = next_token_loss(model, batch, cache)
        return 2 * nats, weight


def test_a_loss_that_is_an_object_is_the_same_in_the_next_process(tmp_path):
    x = np.arange(4).reshape(1, 4)
    for _ in range(2):  # an object of its own, at another place in memory
        model = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5))
        config = FitConfig(n_steps=1, lr=0.1)
        fit(model, [(x, x)], config, loss=Doubled(), checkpoint=tmp_path / "k.pt")
