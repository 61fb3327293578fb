"""Checkpoints: whole or not at all, the same bits again, and nothing in a file is run."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from unrolled.training import checkpoint
from unrolled.training.fit import FitConfig, fit

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

    def forward(self, tokens, state):
        hidden = self.dropout(self.norm(self.embed(tokens).mT).mT)
        outputs, state = self.rnn(hidden, state[0] if state else None)
        return self.out(outputs), (state,)


def batches(seed=0, stop_after=None):
    """Five batches a pass, endless; Ctrl-C after stop_after."""
    rng = np.random.default_rng(seed)
    kept = [rng.integers(VOCAB, size=(2, 2, 11)) for _ in range(5)]

    class Passes:
        drawn = 0

        def __iter__(self):
            for tokens in kept:
                if self.drawn == stop_after:
                    raise KeyboardInterrupt
                self.drawn += 1
                yield tokens[0], tokens[1]

    return Passes()


def settings(**changes):
    defaults = dict(n_steps=26, lr=0.02, weight_decay=0.1, schedule="cosine", warmup=4,
                    accumulate=2, eval_every=13, carry_state=True, seed=3)  # fmt: skip
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
    """2N updates against N, Ctrl-C (at once or some updates later), and N resumed."""

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
    assert len(first.history.step) == stop_after // 2
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
            dict(config=settings(schedule=full_rate, warmup=0)),
            "schedule: 'cosine' in the file, '.*full_rate' now; warmup: 4 in the file, 0 now",
        ),
        (dict(batches=batches(seed=1)), r"first batch: \d+ in the file, \d+ now$"),
        (dict(model=Model(4)), r"embed.weight: '\(7, 3\) torch.float32' in the file, '\(7, 4\)"),
        (
            dict(loss=lambda x, y: torch.nn.functional.cross_entropy(x.mT, y, reduction="none")),
            "loss: 'unrolled.training.fit.cross_entropy' in the file, '.*lambda.*' now",
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
    found, expected = {"lr": 0.1, "n": 3, "seed": 1}, {"lr": 0.2, "n": 3, "clip": None}
    with pytest.raises(
        ValueError, match=r"lr: 0.1 in the file, 0.2 now; seed: 1 in the file, '.abs"
    ):
        checkpoint.check_config("c", found, expected)
    with pytest.raises(ValueError, match=r"clip: '\(absent\)' in the file, None now"):
        checkpoint.check_config("c", found, expected)
    checkpoint.check_config("c", found, dict(reversed(found.items())))


def test_contents_come_back_as_they_were_saved(tmp_path):
    contents = {"x": torch.randn(3, 5, dtype=torch.float64), "n": 3, "t": (1, [None, "ä"], {})}
    checkpoint.save(tmp_path / "new" / "c", contents, config=CONFIG)  # the folder is made
    assert same(checkpoint.load(tmp_path / "new" / "c", config=dict(CONFIG)), contents)
    with pytest.raises(ValueError, match=r"lr: 0.1 in the file, 0.5 now"):
        checkpoint.load(tmp_path / "new" / "c", config=CONFIG | {"lr": 0.5})


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
for trial in range(8):
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
    """Eight writers, each killed in the middle of its work."""
    path = tmp_path / "c"
    done = subprocess.run(
        [sys.executable, "-c", KILLER, path],
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # a fork must not inherit a pool of threads
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    unfinished, seen = map(int, done.stdout.split())
    assert unfinished > 0  # kills did fall into the writing
    assert seen == 8  # and every writer had got something done
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


def test_a_state_of_another_kind_is_refused():
    state = ({"h": torch.ones(2, requires_grad=True)}, [None])
    detached = checkpoint.map_tensors(torch.Tensor.detach, state)
    assert same(detached, state)
    assert not detached[0]["h"].requires_grad
    with pytest.raises(TypeError, match=r"a carried state is None, a tensor, .* got int"):
        checkpoint.map_tensors(torch.Tensor.detach, (3,))
