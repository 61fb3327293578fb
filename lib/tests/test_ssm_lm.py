"""The selective language model is transformers' Mamba; `test_models` has what all models do."""

import pytest
import torch
from comparing import close, randomised
from unrolled.data.batches import ContiguousBatches
from unrolled.models.recurrent_lm import SelectiveLM
from unrolled.training.fit import FitConfig, fit

V, D, INNER, N, RANK, WIDTH, LAYERS, B, T = 13, 5, 7, 3, 2, 4, 3, 2, 11
SIZES = {"d_inner": INNER, "d_state": N, "step_rank": RANK, "conv_width": WIDTH}
DTYPE = torch.float64


def model(**changes) -> SelectiveLM:
    return randomised(SelectiveLM(V, d_model=D, n_layers=LAYERS, **SIZES | changes))


@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_transformers(transformers, tied):
    config = transformers.MambaConfig(
        vocab_size=V, hidden_size=D, state_size=N, num_hidden_layers=LAYERS, time_step_rank=RANK,
        conv_kernel=WIDTH, tie_word_embeddings=tied,
    )  # fmt: skip
    config.intermediate_size = INNER
    ours, theirs = model(tie_embeddings=tied), transformers.MambaForCausalLM(config).double().eval()
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


def test_its_cache_does_not_grow():
    ours, x = model(), torch.randint(V, (B, T))
    cache = ours.new_cache()
    for t in range(T):
        ours(x[:, t : t + 1], cache=cache)
        sizes = [tuple(s.shape) for s in cache.state]
        assert sizes == [(LAYERS, B, INNER, WIDTH - 1), (LAYERS, B, INNER, N)]
    assert cache.length == T


def test_it_learns_a_text_with_carried_state():
    ours = SelectiveLM(V, d_model=8, n_layers=1)
    text = torch.arange(5).repeat(60).numpy()
    batches = ContiguousBatches(text, batch_size=4, seq_len=10)
    config = FitConfig(n_steps=60, lr=0.02, carry_state=True)
    losses = fit(ours, batches, config, progress=False).history.train_loss
    assert losses[-1] < 0.1 < 2 < losses[0]
