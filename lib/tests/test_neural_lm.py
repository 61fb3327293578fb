"""The feed-forward language model: equation 1, causal, readable in pieces, used as others are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from unrolled.data.batches import ContiguousBatches
from unrolled.generation.generate import generate
from unrolled.models.neural_lm import NeuralLM, NeuralLMConfig
from unrolled.training.evaluate import evaluate
from unrolled.training.fit import FitConfig, fit
from unrolled_book.behaviour import check_batch, check_causal

V, WORDS, M, H, B, T = 11, 3, 5, 7, 2, 13
TOKENS = torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))
SIZES = {"vocab_size": V, "context_length": WORDS, "embedding_dim": M, "hidden_size": H}
KINDS = [
    {},
    {"direct_connections": True},
    {"tie_embeddings": True},
    {"tie_embeddings": True, "embedding_dim": H, "direct_connections": True},
]


def model(**options) -> NeuralLM:
    """Random values of size 1 in every parameter, so that each one matters."""
    lm = NeuralLM(NeuralLMConfig(**SIZES | options)).double()
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in lm.parameters():
            parameter.normal_(generator=rng)
    return lm


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
    expected = torch.from_numpy(equation(lm, TOKENS.numpy()))
    assert_close(lm(TOKENS.to(device)).cpu(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", KINDS)
def test_logits_are_those_of_a_convolution(options):
    """A layer that reads n − 1 words at each position is torch's conv1d over the positions."""
    lm = model(**options)

    def convolved(weight):
        kernel = weight.view(-1, WORDS, lm.config.embedding_dim).flip(1).transpose(1, 2)
        x = nn.functional.embedding(TOKENS, lm.embedding.weight).transpose(1, 2)  # (B, m, T)
        return nn.functional.conv1d(nn.functional.pad(x, (WORDS - 1, 0)), kernel).transpose(1, 2)

    hidden = (convolved(lm.hidden_layer.weight) + lm.hidden_layer.bias).tanh()
    expected = nn.functional.linear(lm.project(hidden), lm.head.weight, lm.head.bias)
    expected = expected if lm.direct is None else expected + convolved(lm.direct.weight)
    assert_close(lm(TOKENS), expected, rtol=0, atol=1e-12)


def test_a_case_by_hand():
    """C(0) = 1, C(1) = 2. The hidden unit is tanh(0) after the token 0, and tanh(1) after 0, 1."""
    config = NeuralLMConfig(
        vocab_size=2, context_length=2, embedding_dim=1, hidden_size=1, direct_connections=True
    )
    lm = NeuralLM(config).double()
    values = {
        "embedding.weight": [[1.0], [2.0]], "hidden_layer.weight": [[2.0, -1.0]],
        "hidden_layer.bias": [-2.0], "head.weight": [[1.0], [-1.0]], "head.bias": [0.5, 0.0],
        "direct.weight": [[1.0, 0.0], [0.0, 3.0]],
    }  # fmt: skip
    lm.load_state_dict({name: torch.tensor(value) for name, value in values.items()})
    one = np.tanh(1)
    expected = torch.tensor([[[1.5, 0.0], [2.5 + one, 3 - one]]], dtype=torch.float64)
    assert_close(lm(torch.tensor([[0, 1]])), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", KINDS)
def test_no_output_reads_a_later_token_or_another_row(options):
    check_causal(model(**options).eval(), TOKENS)
    check_batch(model(**options).eval(), TOKENS)


@pytest.mark.parametrize("n_words", [1, 2, 3, 5])
def test_an_output_reads_the_last_n_minus_1_tokens_and_no_other(n_words):
    lm, before = model(context_length=n_words), 6
    changed = TOKENS.clone()
    changed[:, before] = (changed[:, before] + 1) % V
    differs = (lm(TOKENS) != lm(changed)).any(-1).any(0)
    assert differs.nonzero().flatten().tolist() == [*range(before, before + n_words)]


def test_a_text_begins_as_if_tokens_with_embedding_zero_stood_before_it():
    lm = model(direct_connections=True)
    with torch.no_grad():
        lm.embedding.weight[4] = 0
    longer = torch.cat([torch.full((B, WORDS - 1), 4), TOKENS], 1)
    assert_close(lm(TOKENS), lm(longer)[:, WORDS - 1 :], rtol=0, atol=1e-12)


PIECE = st.integers(0, 9)


@given(st.integers(1, 5), st.integers(1, 4), PIECE, PIECE, st.sampled_from(KINDS))
@settings(max_examples=40, deadline=None)
def test_reading_in_pieces_gives_the_logits_of_reading_at_once(n_words, rows, one, two, options):
    lm = model(context_length=n_words, **options)
    tokens = torch.randint(V, (rows, one + two), generator=torch.Generator().manual_seed(2))
    cache = lm.new_cache()
    pieces = [lm(tokens[:, :one], cache=cache), lm(tokens[:, one:], cache=cache)]
    assert cache.length == one + two
    assert cache.tokens.shape == (rows, min(n_words - 1, one + two))
    assert_close(torch.cat(pieces, 1), lm(tokens), rtol=0, atol=1e-12)
    assert lm(tokens).shape == (rows, one + two, V)


def test_a_fork_of_the_cache_goes_on_by_itself():
    lm = model()
    cache = lm.new_cache()
    lm(TOKENS[:, :4], cache=cache)
    fork = cache.fork()
    lm((TOKENS[:, 4:] + 1) % V, cache=fork)
    assert (cache.length, fork.length) == (4, T)
    assert_close(lm(TOKENS[:, 4:], cache=cache), lm(TOKENS)[:, 4:], rtol=0, atol=1e-12)


def test_a_cache_begun_in_inference_mode_may_be_read_on_with_gradients():
    lm = model()
    cache = lm.new_cache()
    with torch.inference_mode():
        lm(TOKENS[:, :4].clone(), cache=cache)
    logits = lm(TOKENS[:, 4:], cache=cache)
    logits.logsumexp(-1).sum().backward()
    assert_close(logits, lm(TOKENS)[:, 4:], rtol=0, atol=1e-12)


def test_a_refused_piece_leaves_the_cache_as_it_was():
    lm = model()
    cache = lm.new_cache()
    lm(TOKENS, cache=cache)
    before = cache.fork()
    with pytest.raises(ValueError, match="the cache has read 2 rows, got 1"):
        lm(TOKENS[:1], cache=cache)
    assert cache.length == before.length
    assert cache.tokens is before.tokens


@pytest.mark.parametrize("options", KINDS)
def test_gradients_agree_with_finite_differences(options):
    lm = model(**options)
    names = [name for name, _ in lm.named_parameters()]

    def loss(*parameters):
        values = dict(zip(names, parameters, strict=True))
        logits = torch.func.functional_call(lm, values, (TOKENS[:2, :4],))
        return nn.functional.cross_entropy(logits.flatten(0, 1), TOKENS[:2, 1:5].flatten())

    parameters = tuple(p.detach().clone().requires_grad_() for p in lm.parameters())
    assert torch.autograd.gradcheck(loss, parameters)


@pytest.mark.parametrize("width", [M, H])
def test_a_tied_head_is_the_embedding_itself(width):
    lm = model(tie_embeddings=True, embedding_dim=width)
    assert lm.head.weight is lm.embedding.weight
    assert isinstance(lm.project, nn.Identity) == (width == H)


@pytest.mark.parametrize("options", KINDS)
def test_a_fresh_model_is_nearly_uniform_and_what_its_tanh_reads_keeps_the_embeddings_size(options):
    sizes = {"vocab_size": 211, "embedding_dim": 61, "hidden_size": 61}
    lm = NeuralLM(NeuralLMConfig(**SIZES | options | sizes))
    tokens = torch.randint(211, (B, 101))
    log_probs = lm(tokens).log_softmax(-1)
    assert -log_probs.mean().item() == pytest.approx(np.log(211), abs=0.3)
    size = (lm.context(tokens) @ lm.hidden_layer.weight.T).std().item()
    assert size == pytest.approx(lm.config.init_std / 3**0.5, rel=0.1)


# As the other language models: fit, evaluate, generate

CYCLE = np.tile([0, 1, 2, 1, 3], 60)


def trained(device="cpu", **options):
    sizes = {"vocab_size": 5, "context_length": 2, "embedding_dim": 3, "hidden_size": 7}
    torch.manual_seed(0)
    lm = NeuralLM(NeuralLMConfig(**sizes)).to(device)
    batches = ContiguousBatches(CYCLE, batch_size=3, seq_len=11)
    config = FitConfig(n_steps=90, lr=0.05, eval_every=30, **options)
    return lm, fit(lm, batches, config, valid=batches, progress=False)


@pytest.mark.parametrize("carry_state", [False, True])
def test_it_is_trained_scored_and_continued_like_any_language_model(carry_state, device):
    """What follows 1 depends on the token before it: one token of context would not do."""
    lm, result = trained(device, carry_state=carry_state)
    assert result.best_loss < 0.3 < np.log(2)
    assert evaluate(lm, CYCLE, len(CYCLE), start=3).bits_per_byte < 0.2
    prompt = torch.tensor([[0, 1, 2], [1, 3, 0]], device=device)
    expected = [[0, 1, 2, 1, 3, 0, 1, 2, 1], [1, 3, 0, 1, 2, 1, 3, 0, 1]]
    for cache in (False, True):
        assert generate(lm, prompt, 6, temperature=0, cache=cache).tolist() == expected


def test_carried_state_joins_the_pieces_of_a_row():
    """With it a row's loss is that of the row read at once; without, each piece begins anew."""
    lm, config = model(), FitConfig(n_steps=1, lr=1e-9, carry_state=True, grad_accum_steps=3)
    text = torch.randint(V, (1, 16), generator=torch.Generator().manual_seed(3))
    batches = ContiguousBatches(text[0].numpy(), batch_size=1, seq_len=5)
    result = fit(lm, batches, config, progress=False)
    at_once = nn.functional.cross_entropy(lm(text[:, :-1]).flatten(0, 1), text[0, 1:])
    assert result.history.train_loss[0] == pytest.approx(at_once.item(), rel=1e-5)


def test_a_fit_with_carried_state_goes_on_from_its_checkpoint(tmp_path):
    class Stop(Exception):
        pass

    def stop(_):
        raise Stop

    config = FitConfig(n_steps=5, lr=0.05, carry_state=True, checkpoint_seconds=0, eval_every=3)
    batches = ContiguousBatches(CYCLE, batch_size=3, seq_len=11)
    at_once = fit(model(), batches, config, progress=False)
    options = {"checkpoint": tmp_path / "fit.pt", "progress": False}
    with pytest.raises(Stop):
        fit(model(), batches, config, valid=stop, **options)
    resumed = fit(model(), batches, config, **options)
    assert resumed.history.train_loss == at_once.history.train_loss


@given(st.integers(1, 4), st.integers(4, 40), st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_windows_that_overlap_by_the_context_score_like_one_pass(n_words, width, more):
    lm = model(context_length=n_words)
    text = TOKENS.flatten()
    windows = {"context_length": width, "overlap": min(n_words - 1 + more, width - 1)}
    result = evaluate(lm, text.numpy(), 26, start=3, **windows)
    inputs = torch.cat([torch.tensor([3]), text[:-1]])
    at_once = nn.functional.cross_entropy(lm(inputs[None])[0], text, reduction="sum")
    assert result.nats == pytest.approx(at_once.item(), rel=1e-9)


# Errors


@pytest.mark.parametrize(
    ("tokens", "error", "words"),
    [
        (TOKENS[0], ValueError, r"\(B, T\), got shape \(13,\)"),
        (TOKENS + 1, IndexError, "between 0 and 10, got 1 to 11"),
        (TOKENS - 1, IndexError, "got -1 to 9"),
    ],
)
def test_tokens_that_do_not_fit_are_refused(tokens, error, words):
    with pytest.raises(error, match=words):
        model()(tokens)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"vocab_size": 0}, ValueError, "vocab_size must be at least 1, got 0"),
        ({"context_length": 0}, ValueError, "context_length must be at least 1, got 0"),
        ({"embedding_dim": 2.0}, TypeError, "embedding_dim must be an integer, got 2.0"),
        ({"hidden_size": -1}, ValueError, "hidden_size must be at least 1, got -1"),
        ({"direct_connections": "yes"}, ValueError, "direct_connections must be one of"),
        ({"tie_embeddings": None}, ValueError, "tie_embeddings must be one of"),
        ({"init_std": -0.1}, ValueError, "init_std must be at least 0, got -0.1"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        model(**options)
