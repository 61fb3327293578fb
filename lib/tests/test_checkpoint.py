"""Checkpoints: whole or not at all, the same bits again, and nothing in a file is run."""

import io
import os
import pickle
import random
import signal
from functools import partial

import numpy as np
import pytest
import torch
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training import batch_iterator, checkpoint
from unrolled.training.fit import FitConfig, fit, per_target

VOCAB = 7


class Model(RecurrentLM):
    """Dropout, a carried state, a buffer: all that a resumed fit must restore."""

    def __init__(self, width=3):
        with torch.random.fork_rng([]):
            torch.manual_seed(1)
            super().__init__(VOCAB, "elman", embedding_dim=width, hidden_size=5, dropout=0.3)
        self.register_buffer("n_read", torch.zeros(()))

    def forward(self, tokens, cache=None):
        self.n_read += tokens.numel()
        return super().forward(tokens, cache=cache)


class Batches:
    """Five batches a pass, endless; Ctrl-C after stop_after."""

    def __init__(self, seed=0, stop_after=None):
        self.kept = np.random.default_rng(seed).integers(VOCAB, size=(5, 2, 2, 11))
        self.drawn, self.stop_after = 0, stop_after

    def __iter__(self):
        for inputs, targets in self.kept:
            self.drawn += 1
            if self.drawn == self.stop_after:
                signal.raise_signal(signal.SIGINT)
            yield inputs, targets


def settings(**changes):
    defaults = dict(n_steps=26, lr=0.02, weight_decay=0.1, schedule="cosine", warmup_steps=4,
                    grad_accum_steps=2, eval_every=13, carry_state=True, seed=3)  # fmt: skip
    return FitConfig(**defaults | changes)


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


@pytest.mark.parametrize(("optimizer", "stop_after"), [("adamw", 37), ("sgd", 26), ("object", 30)])
def test_a_resumed_fit_continues_bit_for_bit(tmp_path, monkeypatch, optimizer, stop_after):
    """Some steps, Ctrl-C (within a pass or at its end), the rest; and then not one step more."""

    def run(name, stop_after=None):
        model = Model()
        change = dict(optimizer=optimizer, momentum=0.9 if optimizer == "sgd" else 0.0)
        if optimizer == "object":
            adam = torch.optim.Adam(model.parameters(), lr=0.02)
            change = dict(optimizer=adam, lr=None, weight_decay=0.0)
        path = tmp_path / name
        result = fit(model, Batches(stop_after=stop_after), settings(**change), valid=VALID,
                     checkpoint=path)  # fmt: skip
        return model, result, checkpoint.load(path)

    whole, expected, whole_file = run("whole")
    _, first, _ = run("parts", stop_after)
    assert first.interrupted
    assert len(first.history.step) == (stop_after + 1) // 2
    torch.manual_seed(12345)  # the state outside must not matter
    resumed, result, resumed_file = run("parts")
    assert same(resumed.state_dict(), whole.state_dict())
    assert (result.best_step, result.best_loss) == (expected.best_step, expected.best_loss)
    seconds = [file["history"].pop("seconds") for file in (resumed_file, whole_file)]
    assert seconds[0] == result.history.seconds == sorted(seconds[0])
    assert same(resumed_file, whole_file)  # history, optimizer, generators, carried state and all
    monkeypatch.setattr(batch_iterator, "to_device", None)  # no batch is moved any more
    again, finished, _ = run("whole")
    assert finished == expected
    assert same(again.state_dict(), whole.state_dict())


def test_a_file_of_another_fit_is_refused_with_both_values(tmp_path):
    path, given = tmp_path / "c", dict(model=Model(), batches=Batches(), config=settings())
    fit(**given, checkpoint=path)
    before = path.read_bytes()
    for change, message in (
        (dict(config=settings(lr=0.03)), "lr: 0.02 in the file, 0.03 now$"),
        (dict(config=settings(schedule=abs, warmup_steps=0)), "abs' now; warmup_steps: 4 in"),
        (dict(batches=Batches(seed=1)), r"first batch: \d+ in the file, \d+ now$"),
        (dict(model=Model(4)), r"embedding.weight: '\(7, 3\) torch.float32' in the file, '\(7, 4"),
        (dict(loss=per_target(len)), r"loss: '.*next_token_loss' in the file, .partial of .*len"),
    ):
        new = given | dict(model=Model()) | change
        untouched = {name: x.clone() for name, x in new["model"].state_dict().items()}
        with pytest.raises(ValueError, match=message):
            fit(**new, checkpoint=path)
        assert path.read_bytes() == before
        assert same(new["model"].state_dict(), untouched)


def test_contents_come_back_as_they_were_saved_and_another_config_is_named(tmp_path):
    contents = {"x": torch.randn(3, 5, dtype=torch.float64), "n": 3, "t": (1, [None, "ä"], {})}
    path, config = tmp_path / "new" / "folders" / "c", {"lr": 0.1, "n": 3, "seed": 1}
    checkpoint.save(path, contents, config=config)  # the folders are made
    assert same(checkpoint.load(path, config=dict(reversed(config.items()))), contents)
    with pytest.raises(
        ValueError,
        match=r"lr: 0.1 in the file, 0.2 now; seed: 1 in the file, '\(absent\)' now; "
        r"grad_clip: '\(absent\)' in the file, None now",
    ):
        checkpoint.load(path, config={"lr": 0.2, "n": 3, "grad_clip": None})
    file = io.BytesIO()
    for to in (file, path):  # a file object, too, and no config is needed
        checkpoint.save(to, contents)
        file.seek(0)
        assert same(checkpoint.load(to, config={}), contents)


STAGES = "save", "fsync", "replace"
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=FORKS)])
@pytest.mark.parametrize("where", STAGES)
def test_a_failure_or_a_kill_at_any_stage_leaves_the_old_file(tmp_path, monkeypatch, where, killed):
    """The new one is on the disk before it takes the name."""
    path, stages = tmp_path / "c", []
    checkpoint.save(path, {"n": 1}, config={})
    before = path.read_bytes()

    def staged(*given, name, original):
        stages.append(name)
        assert path.read_bytes() == before
        if name == where and killed:
            os.kill(os.getpid(), signal.SIGKILL)
        if name == where:
            raise OSError("the disk is full")
        return original(*given)

    with monkeypatch.context() as patch:
        for module, name in zip((torch, os, os), STAGES, strict=True):
            patch.setattr(module, name, partial(staged, name=name, original=getattr(module, name)))
        if killed:
            writer = os.fork()
            if not writer:
                try:
                    checkpoint.save(path, {"n": 2}, config={})
                finally:
                    os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) == -signal.SIGKILL
        else:
            with pytest.raises(OSError, match="the disk is full"):
                checkpoint.save(path, {"n": 2}, config={})
            assert stages == [*STAGES[: STAGES.index(where)], where]
    assert path.read_bytes() == before
    assert {p.name for p in tmp_path.iterdir()} == ({"c", ".c.tmp"} if killed else {"c"})
    checkpoint.save(path, {}, config={})
    assert [p.name for p in tmp_path.iterdir()] == ["c"]  # what a kill left is cleared away


def test_a_damaged_file_is_named_wherever_the_damage_is(tmp_path):
    path, rng = tmp_path / "c.pt", random.Random(0)
    contents = {"x": torch.randn(1009), "name": "value"}
    checkpoint.save(path, contents, config={})
    whole, said = path.read_bytes(), []
    damaged = [b"", whole[:-1], whole[: len(whole) // 2], b"not a checkpoint"]
    for _ in range(30):
        at = rng.randrange(len(whole))
        damaged.append(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
    for data in damaged:
        path.write_bytes(data)
        try:
            assert same(checkpoint.load(path), contents)  # a bit of padding that means nothing
        except ValueError as error:
            said.append(str(error))
    assert len(said) > 20
    assert all(x.startswith(f"{path} is damaged or no checkpoint of this library") for x in said)


class Trap:
    def __reduce__(self):
        return os.mkdir, ("sprung",)


def test_other_files_are_told_apart_and_code_in_a_file_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inside = {"format": checkpoint.FORMAT, "config": {}, "contents": Trap()}
    torch.save(inside, tmp_path / "zip.pt")
    (tmp_path / "bare.pt").write_bytes(pickle.dumps(inside))
    torch.save({"weights": torch.zeros(2)}, tmp_path / "other.pt")
    for name, error, message in (
        ("zip.pt", ValueError, "zip.pt"),
        ("bare.pt", ValueError, "bare.pt"),
        ("other.pt", ValueError, r"other.pt .* does not say 'unrolled checkpoint 1'"),
        ("absent.pt", FileNotFoundError, "absent"),
    ):
        with pytest.raises(error, match=message):
            checkpoint.load(tmp_path / name)
    assert not os.path.exists("sprung")
    torch.load(tmp_path / "zip.pt", weights_only=False)
    assert os.path.exists("sprung")  # the trap does work


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    checkpoint.save(tmp_path / "c", {"n": 1}, config={})
    with pytest.raises(TypeError, match=r"numbers, strings, tensors, .*got .*PCG64"):
        checkpoint.save(tmp_path / "c", {"rng": np.random.default_rng(0)}, config={})
    assert checkpoint.load(tmp_path / "c") == {"n": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["c"]
    model = TransformerLM(TransformerConfig(vocab_size=5, d_model=4, n_heads=1))
    config, x = FitConfig(n_steps=2, lr=0.1, carry_state=True), np.ones((1, 2), dtype=int)
    with pytest.raises(ValueError, match="cannot hold a KVCache"):  # before the first step
        fit(model, [(x, x)], config, checkpoint=tmp_path / "k.pt")


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, [1, 2, 3, 4, 5]), (1e9, [5])])
def test_checkpoints_are_saved_by_the_clock_and_at_the_end(
    tmp_path, monkeypatch, seconds, expected
):
    saved = []
    monkeypatch.setattr(checkpoint, "save", lambda to, new, **_: saved.append(new["step"]))
    config = settings(n_steps=5, checkpoint_seconds=seconds, eval_every=1)
    fit(Model(), Batches(), config, checkpoint=tmp_path / "c")
    assert saved == expected


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_a_compiled_models_checkpoint_fits_the_plain_one_and_the_other_way(tmp_path):
    path = tmp_path / "c"
    for n_steps, compiled in ((4, True), (7, False), (10, True)):
        model = Model()
        if compiled:  # inside and outside
            model.head = torch.compile(model.head, backend="eager")
            model = torch.compile(model, backend="eager")
        config = settings(n_steps=n_steps, decay_steps=20)
        resumed = fit(model, Batches(), config, valid=VALID, checkpoint=path)
        contents, config = checkpoint.read(path)
        assert contents["model"].keys() == Model().state_dict().keys()
        assert not [name for name in config if "_orig_mod" in name]
        checkpoint.save(path, contents, config=config | {"n_steps": n_steps + 3})
    whole = fit(Model(), Batches(), settings(n_steps=10, decay_steps=20), valid=VALID)
    assert resumed.history.train_loss == pytest.approx(whole.history.train_loss, abs=1e-6)
