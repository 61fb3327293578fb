"""The recurrent language model is torch's parts in a row; `test_models` has what all models do."""

import pytest
import torch
from comparing import close
from torch.nn import functional as F
from unrolled.models.recurrent_lm import RecurrentLM

V, D, H, B, T = 11, 5, 7, 3, 13
DTYPE = torch.float64
TOKENS = torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))


def model(**options) -> RecurrentLM:
    return RecurrentLM(V, "lstm", **{"embedding_dim": D, "hidden_size": H} | options)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_logits_are_those_of_torch_modules_with_the_same_weights(n_layers):
    ours = model(n_layers=n_layers)
    outputs, _ = ours.recurrent.as_torch()(F.embedding(TOKENS, ours.embedding.weight))
    close(ours(TOKENS), F.linear(outputs, ours.head.weight, ours.head.bias))


@pytest.mark.parametrize("hidden_size", [D, H])
@pytest.mark.parametrize("tied", [False, True])
def test_a_tied_head_is_the_embedding_itself_and_parameters_are_as_many_as_said(tied, hidden_size):
    lm = model(tie_embeddings=tied, hidden_size=hidden_size)
    assert (lm.head.weight is lm.embedding.weight) == tied
    outputs, _ = lm.recurrent(lm.embedding(TOKENS))
    close(lm(TOKENS), lm.project(outputs) @ lm.head.weight.T + lm.head.bias)
    n_map = H * D + D if tied and hidden_size != D else 0
    n_head = V if tied else hidden_size * V + V
    lstm = 4 * hidden_size * (D + hidden_size + 2)
    assert sum(p.numel() for p in lm.parameters()) == V * D + lstm + n_map + n_head
