"""Full disks, damaged files, wrong clocks: nothing is lost, and the word is clear.

Killed writers are in test_checkpoint.py, killed processes in test_distributed.py.
"""

from __future__ import annotations

import bz2
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from unrolled.data import corpora
from unrolled.training import checkpoint
from unrolled.training.fit import FitConfig, fit
from unrolled_book import word_vectors
from unrolled_book.experiments import record, trained

MEGABYTE = 2**20
SMALL, LARGE = {"x": torch.zeros(1000)}, {"x": torch.zeros(500_000)}
RECORD = {"config": {}, "seeds": [0], "metrics": {"loss": 2.5}, "seconds": 1.0}


def bigram():
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5))


def batches():
    rng = np.random.default_rng(0)
    while True:
        yield rng.integers(5, size=(2, 3)), rng.integers(5, size=(2, 3))


# A disk that is full


@pytest.fixture
def no_large_files():
    """In this process no file can grow over a megabyte: writing fails as on a full disk."""
    resource = pytest.importorskip("resource", reason="Windows limits no file's size")
    signals = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEGABYTE, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, signals)


def test_a_checkpoint_too_large_for_the_disk_leaves_the_old_one(tmp_path, no_large_files):
    path = tmp_path / "c.pt"
    checkpoint.save(path, SMALL)
    before = path.read_bytes()
    with pytest.raises(OSError, match=r"File too large; an older .* untouched: '.*/c\.pt'"):
        checkpoint.save(path, LARGE)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_record_too_large_for_the_disk_leaves_the_old_one(tmp_path, no_large_files):
    path = record.save("a", **RECORD, folder=tmp_path)
    before = path.read_bytes()
    with pytest.raises(OSError, match=r"File too large: '.*/a\.json'"):
        record.save("a", **RECORD | {"config": {"long": "7" * MEGABYTE}}, folder=tmp_path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


ON_A_FULL_DISK = """
import sys
import torch
from unrolled.training import checkpoint
checkpoint.save(sys.argv[1], {"n": 1})
try:
    checkpoint.save(sys.argv[1], {"x": torch.zeros(500_000)})
except OSError as error:
    print(error)
print(checkpoint.load(sys.argv[1]))
"""
ON_A_READ_ONLY_DISK = """
import sys
import torch
from unrolled.training.fit import FitConfig, fit
def batches():
    raise AssertionError("a batch was drawn")
    yield
try:
    fit(torch.nn.Linear(1, 1), batches(), FitConfig(n_steps=1, lr=1.0), checkpoint=sys.argv[1])
except OSError as error:
    print(error)
"""


def on_a_disk_of_its_own(folder, options, program):
    """What the program prints about c.pt on a small disk that only it and its shell see."""
    mount = f"mount -t tmpfs -o {options} none {folder}"
    alone = ["unshare", "--mount", "sh", "-c"]
    try:
        subprocess.run([*alone, mount], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs Linux and the right to mount a small disk")
    then = f'{mount} && "$0" -c "$1" {folder}/c.pt'
    done = subprocess.run(
        [*alone, then, sys.executable, program], capture_output=True, encoding="utf8"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path):
    said = on_a_disk_of_its_own(tmp_path, "size=1m", ON_A_FULL_DISK)
    assert "No space left on device; an older checkpoint there is untouched" in said
    assert f"'{tmp_path}/c.pt'" in said
    assert said.endswith("{'n': 1}\n")


# A place that cannot be written


def test_a_fit_says_before_its_first_step_that_the_disk_is_read_only(tmp_path):
    said = on_a_disk_of_its_own(tmp_path, "ro", ON_A_READ_ONLY_DISK)
    assert "Read-only file system" in said
    assert f"'{tmp_path}/" in said


def test_a_fit_says_before_its_first_step_that_a_name_is_taken(tmp_path):
    (tmp_path / "folder" / "c.pt").mkdir(parents=True)
    (tmp_path / "file").write_text("mine", "utf8")
    (tmp_path / ".taken.pt.tmp").mkdir()
    for path, named in (
        ("folder/c.pt", r"folder/c\.pt'"),
        ("file/c.pt", "file'"),
        ("taken.pt", r"\.taken\.pt\.tmp'"),
    ):
        model = bigram()
        before = model[1].weight.tolist()
        with pytest.raises(OSError, match=named):
            fit(model, batches(), FitConfig(n_steps=3, lr=0.1), checkpoint=tmp_path / path)
        assert model[1].weight.tolist() == before
    assert (tmp_path / "file").read_text("utf8") == "mine"


def test_a_finished_fit_is_read_from_where_nothing_can_be_written(tmp_path):
    path, config = tmp_path / "c.pt", FitConfig(n_steps=3, lr=0.1)
    done = fit(bigram(), batches(), config, checkpoint=path)
    (tmp_path / ".c.pt.tmp").mkdir()  # nothing can be written
    assert fit(bigram(), batches(), config, checkpoint=path).history == done.history


# Damaged files


def torn(data, rng):
    """The bytes cut off, with one bit turned, or with a block of zeros, as disks leave them."""
    at = rng.randrange(len(data))
    yield data[:at]
    yield data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    yield data[:at] + bytes(min(512, len(data) - at)) + data[at + 512 :]


def test_a_damaged_corpus_is_named_with_both_checksums(tmp_path):
    rng, path = random.Random(0), tmp_path / "a.txt.bz2"
    text = "".join(rng.choices("abcdefgh \n", k=4000)).encode()
    whole, sha256 = bz2.compress(text), "0" * 64
    for _ in range(10):
        for data in torn(whole, rng):
            path.write_bytes(data)
            with pytest.raises(ValueError, match=rf"{path} is damaged: .* expected {sha256}"):
                corpora.read_text(path, sha256)


def test_a_corpus_that_is_not_there_is_not_called_damaged(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a\.txt\.bz2"):
        corpora.read_text(tmp_path / "a.txt.bz2", "0" * 64)
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        corpora.read_text(tmp_path, "0" * 64)


def test_damaged_questions_are_named(tmp_path, monkeypatch):
    rng, whole = random.Random(0), (word_vectors._TEXTS / "analogies.txt").read_bytes()
    monkeypatch.setattr(word_vectors, "_TEXTS", tmp_path)
    path, ask = tmp_path / "analogies.txt", word_vectors.analogy_pairs.__wrapped__
    for _ in range(3):
        for data in torn(whole, rng):
            path.write_bytes(data)
            with pytest.raises(ValueError, match=rf"{path} is damaged: .* expected [0-9a-f]{{64}}"):
                ask()
    path.write_bytes(whole.replace(b"\n", b"\r\n"))  # another system's ends of lines are no damage
    assert len(ask()) == 5


def test_a_damaged_record_is_named_or_says_what_it_said(tmp_path):
    """JSON has no checksum: a digit that becomes another passes, and git shows it."""
    rng, kept = random.Random(0), record.save("a", **RECORD, folder=tmp_path)
    whole, said = kept.read_bytes(), []
    for _ in range(50):
        for data in torn(whole, rng):
            kept.write_bytes(data)
            try:
                assert set(record.load("a", tmp_path)) >= set(record.REQUIRED)
            except ValueError as error:
                said.append(str(error))
    assert len(said) > 100
    assert all(message.startswith(f"{kept} is damaged: ") for message in said)


def test_a_damaged_model_is_named_with_both_checksums(tmp_path):
    rng, path = random.Random(0), tmp_path / "a.npz"
    record.save("a", **RECORD, weights_sha256="0" * 64, folder=tmp_path)
    for data in torn(rng.randbytes(5000), rng):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=rf"{path} has the SHA-256 .* says {'0' * 64}"):
            trained.load("a", tmp_path)
    (tmp_path / "a.json").write_text(json.dumps({"name": "a"}), "utf8")
    with pytest.raises(ValueError, match=r"a\.json is damaged: the record lacks config"):
        trained.load("a", tmp_path)


# A clock that goes back


def test_a_clock_that_goes_back_changes_nothing(tmp_path, monkeypatch):
    """The fit reads no clock of the wall, and a file's age decides nothing."""
    config = FitConfig(n_steps=8, lr=0.1, checkpoint_seconds=0)
    whole = fit(bigram(), batches(), config)
    path, now = tmp_path / "c.pt", iter(range(2**31, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(now)))

    def stops_at(step):
        for i, batch in enumerate(batches()):
            if i == step:
                raise InterruptedError
            yield batch

    with pytest.raises(InterruptedError):
        fit(bigram(), stops_at(5), config, checkpoint=path)
    os.utime(path, (0, 0))  # older than all that is read with it
    gone_on = fit(bigram(), batches(), config, checkpoint=path)
    assert gone_on.history.train_loss == whole.history.train_loss
    assert gone_on.history.seconds == sorted(gone_on.history.seconds)
    assert checkpoint.load(path)["step"] == 8
