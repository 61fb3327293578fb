"""The selective language model against transformers' Mamba, and in pieces."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from unrolled.data.batches import ContiguousBatches
from unrolled.generation.generate import generate
from unrolled.models.ssm_lm import SelectiveLM
from unrolled.training.fit import FitConfig, fit
from unrolled_book.behaviour import check_cache, check_causal

V, D, INNER, N, RANK, WIDTH, LAYERS, B, T = 13, 5, 7, 3, 2, 4, 3, 2, 11
SIZES = {"d_inner": INNER, "d_state": N, "step_rank": RANK, "conv_width": WIDTH}
DTYPE = torch.float64


def model(**changes) -> SelectiveLM:
    ours = SelectiveLM(V, **{"d_model": D, "n_layers": LAYERS} | SIZES | changes)
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.5)
    return ours


def tokens() -> torch.Tensor:
    return torch.randint(V, (B, T))


@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_transformers(transformers, tied):
    config = transformers.MambaConfig(
        vocab_size=V, hidden_size=D, state_size=N, num_hidden_layers=LAYERS, time_step_rank=RANK,
        conv_kernel=WIDTH, tie_word_embeddings=tied,
    )  # fmt: skip
    config.intermediate_size = INNER
    ours, theirs = model(tie_embeddings=tied), transformers.MambaForCausalLM(config).double().eval()
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
    x = tokens()
    logits = ours(x)
    assert logits.abs().max() > 0.5
    assert_close(logits, theirs(x).logits.double(), rtol=0, atol=2e-5)  # norms in float32 there


def test_head_and_embedding_are_one_matrix_unless_asked_otherwise():
    ours, untied = model(), model(tie_embeddings=False)
    assert ours.head.weight is ours.embedding.weight
    assert untied.head.weight is not untied.embedding.weight


def test_it_is_causal_and_reads_in_pieces():
    ours, x = model(), tokens()
    check_causal(ours, x)
    check_cache(ours, x)


def test_its_cache_does_not_grow_and_can_be_forked_and_selected():
    ours, x, sizes = model(), tokens(), []
    cache = ours.new_cache()
    for t in range(T):
        ours(x[:, t : t + 1], cache=cache)
        sizes.append([s.shape for s in cache.state])
    assert sizes == [[(LAYERS, B, INNER, WIDTH - 1), (LAYERS, B, INNER, N)]] * T
    assert cache.length == T
    fork = cache.fork()
    fork.select(torch.tensor([1, 1, 0]))
    again = ours(x[[1, 1, 0]][:, :1], cache=fork)
    whole = ours(torch.cat([x, x[:, :1]], 1)[[1, 1, 0]])[:, -1:]
    assert_close(again, whole, rtol=0, atol=1e-11)
    assert (cache.length, fork.length) == (T, T + 1)


def test_it_writes_the_same_with_and_without_a_cache():
    ours, x = model(), tokens()
    texts = [
        generate(ours, x, 9, rng=torch.Generator().manual_seed(3), cache=cache)
        for cache in (True, False)
    ]
    assert texts[0].shape == (B, T + 9)
    assert torch.equal(*texts)


def test_it_learns_a_text_with_carried_state():
    torch.manual_seed(0)
    ours = SelectiveLM(V, d_model=8, n_layers=1)
    text = torch.arange(5).repeat(60).numpy()
    batches = ContiguousBatches(text, batch_size=4, seq_len=10)
    config = FitConfig(n_steps=60, lr=0.02, carry_state=True)
    losses = fit(ours, batches, config, progress=False).history.train_loss
    assert losses[-1] < 0.1 < 2 < losses[0]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"tokens must be \(B, T\), got shape \(3,\)"):
        model()(torch.zeros(3, dtype=torch.long))
    with pytest.raises(IndexError, match="tokens must lie between 0 and 12, got 0 to 13"):
        model()(torch.tensor([[0, 13]]))
    with pytest.raises(ValueError, match="n_layers must be at least 1, got 0"):
        model(n_layers=0)
