"""Records: what is written comes back, and nothing broken is written or read."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from unrolled_book.experiments import record

GOOD = dict(config={"order": 5}, seeds=[1, 2, 3], metrics={"bits": 2.17}, seconds=1.5)


def test_a_record_comes_back_as_it_was_saved(tmp_path):
    curve = [[0, 5.5], [10, 3.25]]
    path = record.save("lstm_1", **GOOD, curve=curve, device="cuda, H200", folder=tmp_path)
    loaded = record.load("lstm_1", tmp_path)
    assert path == tmp_path / "lstm_1.json"
    assert {key: loaded[key] for key in GOOD} == GOOD
    assert loaded["curve"] == curve
    assert loaded["device"].startswith("cuda, H200")
    assert set(loaded["versions"]) >= {"python", "numpy", "torch"}
    assert loaded["commit"]


def test_numpy_scalars_are_saved_as_plain_numbers(tmp_path):
    numbers = {"loss": np.float32(0.5), "n": np.int64(7), "better": np.bool_(True)}
    record.save("numbers", **GOOD | dict(metrics=numbers), folder=tmp_path)
    loaded = record.load("numbers", tmp_path)["metrics"]
    assert loaded == {"loss": 0.5, "n": 7, "better": True}
    assert loaded["better"] is True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            dict(metrics={"a": [1.0, float("nan")]}),
            r"record.metrics.a\[1\] must be finite, got nan",
        ),
        (dict(seconds=float("inf")), "record.seconds must be finite, got inf"),
        (dict(curve=[[0, np.float64("-inf")]]), r"record.curve\[0\]\[1\] must be finite"),
        (dict(metrics={}), "has no metrics"),
        (dict(seeds=[1.5]), "seeds must be integers, got 1.5"),
        (dict(config={"a": np.zeros(3)}), "record.config.a must be a number.*got ndarray"),
        (dict(curve=np.zeros((3, 2))), "record.curve must be a number, .* list .*got ndarray"),
        (dict(metrics={"by order": {5: 2.1}}), "a key of record.metrics.by order must be.*got 5"),
        (dict(seconds="1.5"), "seconds must be a number, got '1.5'"),
    ],
)
def test_a_broken_record_is_refused_and_not_written(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        record.save("broken", **GOOD | change, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_record_that_cannot_be_saved_leaves_the_old_one(tmp_path, monkeypatch):
    path = record.save("kept", **GOOD, folder=tmp_path)
    before = path.read_bytes()
    with pytest.raises(UnicodeEncodeError):  # half a character, which UTF-8 does not know
        record.save("kept", **GOOD | dict(config={"text": "\ud800"}), folder=tmp_path)

    def half_of_it(path, data):
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "write_bytes", half_of_it)
    monkeypatch.setattr(Path, "write_text", lambda path, t, **_: half_of_it(path, t.encode()))
    with pytest.raises(OSError, match="the disk is full"):
        record.save("kept", **GOOD | dict(seconds=2.5), folder=tmp_path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_who_reads_while_it_is_saved_never_sees_half_a_record(tmp_path):
    def save(n: int) -> None:
        record.save("busy", **GOOD | dict(config={"text": str(n) * 300_000}), folder=tmp_path)

    save(0)
    writer = threading.Thread(target=lambda: [save(n) for n in range(1, 8)])
    writer.start()
    n_read = 0
    while writer.is_alive() or not n_read:
        assert len(record.load("busy", tmp_path)["config"]["text"]) == 300_000
        n_read += 1
    writer.join()
    assert record.load("busy", tmp_path)["config"]["text"][0] == "7"


@pytest.mark.parametrize("text", ["", "{", "5", "[]", '"a"', "\x80"])
def test_a_damaged_file_is_named(tmp_path, text):
    path = tmp_path / "torn.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"torn\.json is damaged: "):
        record.load("torn", tmp_path)


def test_a_name_that_would_leave_the_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"got '\.\./x'"):
        record.save("../x", **GOOD, folder=tmp_path)


@pytest.mark.parametrize("field", record.REQUIRED)
def test_a_file_without_a_field_is_refused_and_the_field_named(tmp_path, field):
    path = record.save("whole", **GOOD, folder=tmp_path)
    whole = json.loads(path.read_text())
    del whole[field]
    path.write_text(json.dumps(whole))
    with pytest.raises(ValueError, match=f"lacks {field}"):
        record.load("whole", tmp_path)


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    record.save("beta", **GOOD, folder=tmp_path)
    record.save("alpha", **GOOD, folder=tmp_path)
    with pytest.raises(KeyError, match=r"no record 'gamma'.*known: alpha, beta"):
        record.load("gamma", tmp_path)


def test_save_writes_into_the_checkout_that_the_library_lies_in(tmp_path, monkeypatch):
    folder = tmp_path / "book/teaching/unrolled_book/experiments/results"
    monkeypatch.setattr(record, "RESULTS", folder)
    (tmp_path / "chapters").mkdir()
    (tmp_path / "lib/unrolled").mkdir(parents=True)
    assert record.save("here", **GOOD) == folder / "here.json"
    assert record.names() == ("here",)


def test_an_installed_library_reads_its_records_and_refuses_to_save(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages/unrolled_book/experiments/results"
    record.save("shipped", **GOOD, folder=folder)
    monkeypatch.setattr(record, "RESULTS", folder)
    assert record.load("shipped")["metrics"] == GOOD["metrics"]
    with pytest.raises(FileNotFoundError, match=r"in a checkout of the book.*installed in"):
        record.save("new", **GOOD)


@pytest.mark.parametrize("name", record.names())
def test_a_record_of_the_book_can_be_read(name):
    assert record.load(name)["name"] == name


def test_the_records_have_one_home():
    root = Path(__file__).parents[2]
    assert list(record.RESULTS.glob("*.json"))
    assert not list(root.glob("chapters/**/*.json")) + list(root.glob("chapters/**/*.npz"))
