"""The feed-forward language model: equation 1, its context, and how it is trained and scored."""

import numpy as np
import pytest
import torch
from comparing import close, randomised
from torch import nn
from unrolled.models.neural_lm import NeuralLM, NeuralLMConfig

V, WORDS, M, H, B, T = 11, 3, 5, 7, 2, 13
DTYPE = torch.float64
TOKENS = torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))
SIZES = {"vocab_size": V, "context_length": WORDS, "embedding_dim": M, "hidden_size": H}
KINDS = [
    {}, {"direct_connections": True}, {"tie_embeddings": True},
    {"tie_embeddings": True, "embedding_dim": H, "direct_connections": True},
]  # fmt: skip


def model(**options) -> NeuralLM:
    """Random values of size 1 in every parameter, so that each one matters."""
    torch.manual_seed(0)
    return randomised(NeuralLM(NeuralLMConfig(**SIZES | options)), 1.0)


def equation(lm: NeuralLM, tokens: np.ndarray) -> np.ndarray:
    """Equation 1, one prediction after another, in numpy."""
    of = {name: p.detach().cpu().numpy() for name, p in lm.named_parameters(remove_duplicate=False)}
    C, m = of["embedding.weight"], lm.config.embedding_dim
    logits = np.empty((*tokens.shape, lm.config.vocab_size))
    for row, t in np.ndindex(tokens.shape):
        places = [t - k for k in range(lm.config.context_length)]  # the latest first
        words = [C[tokens[row, place]] if place >= 0 else np.zeros(m) for place in places]
        x = np.concatenate(words)
        hidden = np.tanh(of["hidden_layer.bias"] + of["hidden_layer.weight"] @ x)
        if "project.weight" in of:
            hidden = of["project.bias"] + of["project.weight"] @ hidden
        y = of["head.bias"] + of["head.weight"] @ hidden
        logits[row, t] = y + of["direct.weight"] @ x if "direct.weight" in of else y
    return logits


@pytest.mark.parametrize("options", KINDS)
def test_logits_are_those_of_the_equation(options, device):
    lm = model(**options).to(device)
    close(lm(TOKENS.to(device)).cpu(), torch.from_numpy(equation(lm, TOKENS.numpy())))
    assert (lm.head.weight is lm.embedding.weight) == lm.config.tie_embeddings
    needs_map = options == {"tie_embeddings": True}
    assert isinstance(lm.project, nn.Linear) == needs_map


@pytest.mark.parametrize("n_words", [1, 2, 3, 5])
@pytest.mark.parametrize("cut", [0, 1, 6])
def test_an_output_reads_the_last_n_minus_1_tokens_and_no_other(n_words, cut):
    lm, before = model(context_length=n_words), 6
    changed = TOKENS.clone()
    changed[:, before] = (changed[:, before] + 1) % V
    differs = (lm(TOKENS) != lm(changed)).any(-1).any(0)
    assert differs.nonzero().flatten().tolist() == [*range(before, before + n_words)]
    cache = lm.new_cache()
    pieces = [lm(piece, cache=cache) for piece in TOKENS.tensor_split([cut], 1)]
    assert cache.tokens.shape == (B, n_words - 1)
    close(torch.cat(pieces, 1), lm(TOKENS))


@pytest.mark.parametrize("options", KINDS)
def test_what_a_fresh_tanh_reads_keeps_the_size_of_the_embeddings(options):
    sizes = {"vocab_size": 211, "embedding_dim": 61, "hidden_size": 61}
    lm = NeuralLM(NeuralLMConfig(**SIZES | options | sizes))
    tokens = torch.randint(211, (B, 101))
    size = (lm.context(tokens) @ lm.hidden_layer.weight.T).std().item()
    assert size == pytest.approx(lm.config.init_std / 3**0.5, rel=0.1)
