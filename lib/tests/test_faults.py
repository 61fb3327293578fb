"""Full disks, closed places, wrong clocks: nothing is lost, and the word is clear.

Killed writers are in test_checkpoint.py, killed processes in test_distributed.py, damaged files
with what reads them.
"""

import os
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
import torch
from comparing import bigram
from unrolled.data import corpora
from unrolled.training import checkpoint
from unrolled.training.fit import FitConfig, fit

MEGABYTE = 2**20
bigram = partial(bigram, 5)
SMALL, LARGE = {"x": torch.zeros(1000)}, {"x": torch.zeros(500_000)}


def batches():
    rng = np.random.default_rng(0)
    while True:
        yield rng.integers(5, size=(2, 3)), rng.integers(5, size=(2, 3))


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
        before = model[2].weight.tolist()
        with pytest.raises(OSError, match=named):
            fit(model, batches(), FitConfig(n_steps=3, lr=0.1), checkpoint=tmp_path / path)
        assert model[2].weight.tolist() == before
    assert (tmp_path / "file").read_text("utf8") == "mine"


def test_a_finished_fit_is_read_from_where_nothing_can_be_written(tmp_path):
    path, config = tmp_path / "c.pt", FitConfig(n_steps=3, lr=0.1)
    done = fit(bigram(), batches(), config, checkpoint=path)
    (tmp_path / ".c.pt.tmp").mkdir()  # nothing can be written
    assert fit(bigram(), batches(), config, checkpoint=path).history == done.history


def test_a_corpus_that_is_not_there_is_not_called_damaged(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a\.txt\.bz2"):
        corpora.read_text(tmp_path / "a.txt.bz2", "0" * 64)
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        corpora.read_text(tmp_path, "0" * 64)


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
