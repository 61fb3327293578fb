"""Trained models that ship: what is saved comes back, in half precision, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled_book.experiments import record, trained

TOKENS = torch.arange(10).reshape(2, 5) % 7


def model(**changes) -> TransformerLM:
    torch.manual_seed(3)
    sizes = {"vocab_size": 7, "d_model": 10, "n_layers": 2, "n_heads": 5, "context_length": 11}
    return TransformerLM(TransformerConfig(**sizes | {"init_std": 0.3} | changes))


def ship(name: str, model: TransformerLM, folder: Path) -> Path:
    """Write the model and its record, as the experiments' command does."""
    path = trained.save(name, model, folder)
    checksum = trained.checksum(path)
    fields = {"config": {}, "seeds": [], "metrics": {"a": 1}, "seconds": 1.0}
    record.save(name, **fields, weights_sha256=checksum, folder=folder)
    return path


@pytest.mark.parametrize("changes", [{}, {"tie_embeddings": False}, {"position": "rotary"}])
def test_what_is_saved_comes_back_in_half_precision(changes, tmp_path):
    ours = model(**changes)
    ship("any", ours, tmp_path)
    again = trained.load("any", tmp_path)
    assert again.config == ours.config
    assert not again.training
    assert (again.head.weight is again.embedding.weight) == ours.config.tie_embeddings
    for parameter, saved in zip(ours.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(saved, parameter.half().float(), rtol=0, atol=0)
    torch.testing.assert_close(again(TOKENS), ours(TOKENS), rtol=0.02, atol=0.02)


def test_a_file_holds_numbers_and_the_configuration_only(tmp_path):
    ours = model()
    with np.load(trained.save("any", ours, tmp_path), allow_pickle=False) as file:
        assert json.loads(file["config"].tobytes())["d_model"] == 10
        kinds = {file[key].dtype for key in file if key != "config"}
        count = sum(file[key].size for key in file if key != "config")
    assert kinds == {np.dtype(np.float16)}
    assert count == sum(p.numel() for p in ours.parameters())


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path):
    ship("one", model(), tmp_path)
    with pytest.raises(KeyError, match=r"'two'.*known: one"):
        trained.load("two", tmp_path)


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


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = ship("any", model(), tmp_path)

    def full(file, data):
        with open(file, "wb") as half:
            half.write(data[: len(data) // 2])
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="the disk is full"):
        trained.save("any", model(init_std=0.1), tmp_path)
    assert trained.load("any", tmp_path)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "any.json", path]


def test_every_trained_model_of_the_book_is_the_one_its_record_names():
    shipped = [name for name in record.names() if "weights_sha256" in record.load(name)]
    assert shipped
    assert (*shipped,) == trained.names()
    for name in shipped:
        row = record.load(name)["metrics"]["rows"][0]
        assert sum(p.numel() for p in trained.load(name).parameters()) == row["parameters"]


def test_the_ladder_s_model_has_the_width_of_its_recipe():
    recipe = record.load("ladder_transformer")["config"]["recipe"]
    assert trained.load("ladder_transformer").config.d_model == recipe["d_model"]
