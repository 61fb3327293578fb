"""Models with a state: their parts, and transformers' Mamba; `test_models` has what all do."""

import pytest
import torch
from comparing import close, randomised
from unrolled.models.recurrent_lm import RecurrentLM, SelectiveLM

V, D, H, INNER, N, RANK, WIDTH, LAYERS, B, T = 13, 5, 7, 7, 3, 2, 4, 3, 2, 11
SIZES = {"d_inner": INNER, "d_state": N, "step_rank": RANK, "conv_width": WIDTH}
DTYPE = torch.float64


@pytest.mark.parametrize("hidden_size", [D, H])
@pytest.mark.parametrize("tied", [False, True])
def test_a_tied_head_is_the_embedding_itself_and_parameters_are_as_many_as_said(tied, hidden_size):
    lm = RecurrentLM(V, "lstm", embedding_dim=D, hidden_size=hidden_size, tie_embeddings=tied)
    tokens = torch.randint(V, (B, T))
    assert (lm.head.weight is lm.embedding.weight) == tied
    outputs, _ = lm.recurrent(lm.embedding(tokens))
    close(lm(tokens), lm.project(outputs) @ lm.head.weight.T + lm.head.bias)
    n_map = H * D + D if tied and hidden_size != D else 0
    n_head = V if tied else hidden_size * V + V
    lstm = 4 * hidden_size * (D + hidden_size + 2)
    assert sum(p.numel() for p in lm.parameters()) == V * D + lstm + n_map + n_head


@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_transformers(transformers, tied):
    config = transformers.MambaConfig(
        vocab_size=V, hidden_size=D, state_size=N, num_hidden_layers=LAYERS, time_step_rank=RANK,
        conv_kernel=WIDTH, tie_word_embeddings=tied,
    )  # fmt: skip
    config.intermediate_size = INNER
    theirs = transformers.MambaForCausalLM(config).double().eval()
    ours = randomised(SelectiveLM(V, d_model=D, n_layers=LAYERS, **SIZES, tie_embeddings=tied))
    assert (ours.head.weight is ours.embedding.weight) == tied
    names = {
        "embedding.": "backbone.embeddings.", "final_norm.": "backbone.norm_f.",
        "head.": "lm_head.", "conv.": "conv1d.", "step_proj.": "dt_proj.", "log_decay": "A_log",
        "skip": "D",
    }  # fmt: skip
    state = {}
    for name, tensor in ours.state_dict().items():
        kind, i, rest = (*name.split(".", 2), "", "")[:3]
        before = {"norms": f"backbone.layers.{i}.norm.", "layers": f"backbone.layers.{i}.mixer."}
        name = rest if kind in before else name
        old = next((old for old in names if name.startswith(old)), "")
        state[before.get(kind, "") + names.get(old, "") + name.removeprefix(old)] = tensor
    theirs.load_state_dict(state)
    x = torch.randint(V, (B, T))
    logits = ours(x)
    assert logits.abs().max() > 0.5
    close(logits, theirs(x).logits.double(), 2e-5)  # norms in float32 there
