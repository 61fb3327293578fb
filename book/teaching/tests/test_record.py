"""Records and the models that ship with them come back as saved; nothing broken is written."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled_book.experiments import record, trained

GOOD = dict(config={"order": 5}, seeds=[1, 2, 3], metrics={"bits": 2.17}, seconds=1.5)


def test_a_record_comes_back_as_it_was_saved(tmp_path):
    numbers = {"loss": np.float32(0.5), "n": np.int64(7), "better": np.bool_(True)}
    given = GOOD | {"metrics": numbers, "curve": [[0, 5.5], [10, 3.25]]}
    path = record.save("lstm_1", **given, device="cuda, H200", folder=tmp_path)
    loaded = record.load("lstm_1", tmp_path)
    assert path == tmp_path / "lstm_1.json"
    assert given.items() <= loaded.items()
    assert loaded["metrics"]["better"] is True
    assert loaded["device"].startswith("cuda, H200")
    assert set(loaded["versions"]) >= {"python", "numpy", "torch"}
    assert loaded["commit"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": {"a": [1.0, np.nan]}}, r"record.metrics.a\[1\] must be finite, got nan"),
        ({"seconds": float("inf")}, "record.seconds must be finite, got inf"),
        ({"curve": [[0, np.float64("-inf")]]}, r"record.curve\[0\]\[1\] must be finite"),
        ({"metrics": {}}, "has no metrics"),
        ({"seeds": [1.5]}, "seeds must be integers, got 1.5"),
        ({"config": {"a": np.zeros(3)}}, "record.config.a must be a number.*got ndarray"),
        ({"curve": np.zeros((3, 2))}, "record.curve must be a number, .* list .*got ndarray"),
        ({"metrics": {"by order": {5: 2.1}}}, "a key of record.metrics.by order must be.*got 5"),
        ({"seconds": "1.5"}, "seconds must be a number, got '1.5'"),
        ({"name": "../x"}, r"got '\.\./x'"),
    ],
)
def test_a_broken_record_is_refused_and_not_written(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        record.save(**{"name": "broken", **GOOD, **change}, folder=tmp_path / "here")
    assert not list(tmp_path.iterdir())


def test_a_record_or_model_that_cannot_be_saved_leaves_the_old_one(tmp_path, monkeypatch):
    def half_of_it(path, data, **_):
        with path.open("wb") as file:
            file.write(data[: len(data) // 2] if isinstance(data, bytes) else b"{")
        raise OSError("the disk is full")

    path = ship("kept", model(), tmp_path)
    files = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(files) == {path, tmp_path / "kept.json"}
    with pytest.raises(UnicodeEncodeError):  # half a character, which UTF-8 does not know
        record.save("kept", **GOOD | dict(config={"text": "\ud800"}), folder=tmp_path)
    monkeypatch.setattr(Path, "write_bytes", half_of_it)
    monkeypatch.setattr(Path, "write_text", half_of_it)
    with pytest.raises(OSError, match="the disk is full"):
        record.save("kept", **GOOD | dict(seconds=2.5), folder=tmp_path)
    with pytest.raises(OSError, match="the disk is full"):
        trained.save("kept", model(init_std=0.1), tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == files


def test_a_damaged_file_is_named(tmp_path):
    path = record.save("torn", **GOOD, folder=tmp_path)
    whole = json.loads(path.read_text("utf8"))
    for text in ("", "{", "5", "[]", '"a"', "\x80"):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(ValueError, match=r"torn\.json is damaged: "):
            record.load("torn", tmp_path)
    for field in record.REQUIRED:
        path.write_text(json.dumps({key: whole[key] for key in whole if key != field}), "utf8")
        with pytest.raises(ValueError, match=f"lacks {field}"):
            record.load("torn", tmp_path)


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    ship("beta", model(), tmp_path)
    record.save("alpha", **GOOD, folder=tmp_path)
    with pytest.raises(KeyError, match=r"no record 'gamma'.*known: alpha, beta"):
        record.load("gamma", tmp_path)
    with pytest.raises(KeyError, match=r"'alpha'.*known: beta"):
        trained.load("alpha", tmp_path)


def test_an_installed_library_reads_its_records_and_only_a_checkout_saves_them(
    tmp_path, monkeypatch
):
    folder = tmp_path / "book/teaching/unrolled_book/experiments/results"
    monkeypatch.setattr(record, "RESULTS", folder)
    record.save("shipped", **GOOD, folder=folder)
    assert record.load("shipped")["metrics"] == GOOD["metrics"]
    with pytest.raises(FileNotFoundError, match=r"in a checkout of the book.*installed in"):
        record.save("new", **GOOD)
    (tmp_path / "chapters").mkdir()
    (tmp_path / "lib/unrolled").mkdir(parents=True)
    assert record.save("new", **GOOD) == folder / "new.json"
    assert record.names() == ("new", "shipped")


def test_the_records_of_the_book_can_be_read_and_have_one_home():
    assert record.names()
    assert all(record.load(name)["name"] == name for name in record.names())
    chapters = Path(__file__).parents[3] / "chapters"
    assert chapters.is_dir()
    assert not [*chapters.glob("**/*.json"), *chapters.glob("**/*.npz")]


def model(**changes) -> TransformerLM:
    torch.manual_seed(3)
    sizes = {"vocab_size": 7, "d_model": 10, "n_layers": 2, "n_heads": 5, "context_length": 11}
    return TransformerLM(TransformerConfig(**sizes | {"init_std": 0.3} | changes))


def ship(name: str, model: TransformerLM, folder: Path) -> Path:
    """Write the model and its record, as the experiments' command does."""
    path = trained.save(name, model, folder)
    record.save(name, **GOOD, weights_sha256=trained.checksum(path), folder=folder)
    return path


@pytest.mark.parametrize("changes", [{}, {"tie_embeddings": False}, {"position": "rotary"}])
def test_what_is_saved_comes_back_in_half_precision_and_nothing_else_does(changes, tmp_path):
    ours, tokens = model(**changes), torch.arange(10).reshape(2, 5) % 7
    with np.load(ship("any", ours, tmp_path), allow_pickle=False) as file:
        weights = [file[key] for key in file if key != "config"]
    assert {array.dtype for array in weights} == {np.dtype(np.float16)}
    assert sum(array.size for array in weights) == sum(p.numel() for p in ours.parameters())
    again = trained.load("any", tmp_path)
    assert again.config == ours.config
    assert not again.training
    assert (again.head.weight is again.embedding.weight) == ours.config.tie_embeddings
    for parameter, saved in zip(ours.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(saved, parameter.half().float(), rtol=0, atol=0)
    torch.testing.assert_close(again(tokens), ours(tokens), rtol=0.02, atol=0.02)


def test_other_models_and_weights_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(TypeError, match="TransformerLM, got Linear"):
        trained.save("any", torch.nn.Linear(2, 3), tmp_path)
    ours = model()
    with torch.no_grad():
        ours.stack.final_norm.weight[0] = 1e6
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="weight does not fit"):
        trained.save("any", ours, tmp_path)
    assert trained.names(tmp_path) == ()


def test_a_file_that_is_not_the_record_s_is_refused_and_both_are_named(tmp_path):
    path = ship("any", model(), tmp_path)
    kept = trained.checksum(path)
    trained.save("any", model(d_model=15, init_std=0.1), tmp_path)  # a trial run in its place
    other = trained.checksum(path)
    with pytest.raises(ValueError, match=rf"any\.npz has the SHA-256 {other}.*any\.json .* {kept}"):
        trained.load("any", tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"any\.npz has the SHA-256"):
        trained.load("any", tmp_path)


def test_every_trained_model_of_the_book_is_the_one_its_record_names():
    recorded = {name: record.load(name) for name in record.names()}
    shipped = {name: r for name, r in recorded.items() if "weights_sha256" in r}
    assert (*shipped,) == trained.names() != ()
    models = {name: trained.load(name) for name in shipped}
    for name, found in models.items():
        row = shipped[name]["metrics"]["rows"][0]
        assert sum(p.numel() for p in found.parameters()) == row["parameters"]
    recipe = shipped["ladder_transformer"]["config"]["recipe"]
    assert models["ladder_transformer"].config.d_model == recipe["d_model"]
