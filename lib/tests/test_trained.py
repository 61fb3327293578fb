"""Trained models that ship: what is saved comes back, in half precision, and nothing else does."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.teaching.experiments import trained

TOKENS = torch.arange(10).reshape(2, 5) % 7


def model(**changes) -> TransformerLM:
    torch.manual_seed(3)
    sizes = {"vocab_size": 7, "d_model": 10, "n_layers": 2, "n_heads": 5, "context_length": 11}
    return TransformerLM(TransformerConfig(**sizes | {"init_std": 0.3} | changes))


@pytest.mark.parametrize("changes", [{}, {"tied": False}, {"position": "rotary"}])
def test_what_is_saved_comes_back_in_half_precision(changes, tmp_path):
    ours = model(**changes)
    trained.save("any", ours, tmp_path)
    again = trained.load("any", tmp_path)
    assert again.config == ours.config
    assert not again.training
    assert (again.head.weight is again.embedding.weight) == ours.config.tied
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
    trained.save("one", model(), tmp_path)
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
