"""Best-first search finds what enumeration finds, with far fewer reads."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from unrolled.generation.beam import beam_search
from unrolled.generation.exact import exact_mode
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

V, STOP = 5, 4
DTYPE = torch.float64
PROMPT = torch.tensor([[1, 3]])
SOURCE = {"source": torch.tensor([[2, 0, 3]])}
KINDS = {"recurrent": {}, "decoder": {}, "encoder-decoder": SOURCE}


def make(kind, seed=0, scale=3):
    torch.manual_seed(seed)
    config = TransformerConfig(vocab_size=V, d_model=12, n_layers=2, n_heads=3, context_length=7)
    if kind == "recurrent":
        model = RecurrentLM(V, "gru", embedding_dim=5, hidden_size=6)
    else:
        model = (EncoderDecoder if kind == "encoder-decoder" else TransformerLM)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= scale if parameter.ndim > 1 else 1
    return model.eval()


def enumerate_mode(model, n_new, source=None):
    """(nats, new tokens) of the likeliest of all texts."""
    texts = list(itertools.product(range(V), repeat=n_new))
    new = torch.tensor(texts)
    tokens = torch.cat([PROMPT.expand(len(new), 2), new[:, :-1]], 1)
    before = () if source is None else (source.expand(len(new), -1),)
    with torch.no_grad():
        log_probs = model(*before, tokens).log_softmax(-1)[:, 1:].gather(2, new[..., None])
    lengths = [text.index(STOP) + 1 if STOP in text else n_new for text in texts]
    pairs = zip(texts, log_probs, lengths, strict=True)
    return max((nats[:n].sum().item(), text[:n]) for text, nats, n in pairs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cache", [True, False])
def test_it_is_the_best_of_all_texts(kind, cache):
    for seed in range(2):
        model = make(kind, seed).train()
        found = exact_mode(model, PROMPT, 4, stop=STOP, cache=cache, **KINDS[kind])
        assert model.training
        nats, new = enumerate_mode(model.eval(), 4, **KINDS[kind])
        assert found.log_prob == pytest.approx(nats, abs=1e-12)
        assert found.tokens.tolist() == [[*PROMPT[0].tolist(), *new]]
        assert 1 <= found.n_reads < (V**4 - 1) // (V - 1)  # fewer than all beginnings


@given(st.integers(0, 99), st.integers(1, 5), st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_no_beam_search_finds_a_likelier_text(seed, n_new, n_beams):
    model = make("recurrent", seed)
    mode = exact_mode(model, PROMPT, n_new, stop=STOP)
    beams = beam_search(model, PROMPT, n_new, n_beams=n_beams, stop=STOP)
    assert mode.log_prob >= beams.scores[0, 0].item() - 1e-12


class Fixed(nn.Module):
    """The same probabilities after any text."""

    def __init__(self, *probs):
        super().__init__()
        self.logits = torch.tensor(probs).log()

    def forward(self, tokens):
        return self.logits.expand(*tokens.shape, -1)


def test_a_case_for_the_hand():
    """Stop at once: 0.3. Write 0 three times: 0.6³ = 0.216, though greedy text writes it."""
    start = torch.zeros(1, 1, dtype=torch.int64)
    found = exact_mode(Fixed(0.6, 0.1, 0.3), start, 3, stop=2, cache=False)
    assert found.tokens.tolist() == [[0, 2]]
    assert found.log_prob == pytest.approx(math.log(0.3))
    assert found.n_reads == 3  # nothing, 0 (0.6), 00 (0.36); then 2 (0.3) is whole
    found = exact_mode(Fixed(0.7, 0.1, 0.2), start, 3, stop=2, cache=False)
    assert found.tokens.tolist() == [[0, 0, 0, 0]]
    found = exact_mode(Fixed(0.5, 0.5, 0.0), start, 2, cache=False)
    assert found.tokens.tolist() == [[0, 0, 0]]  # of equal ones the first


def test_what_cannot_be_found_says_how_far_it_came():
    with pytest.raises(RuntimeError, match=r"after 5 reads a text may have up to -2\.4"):
        exact_mode(Fixed(0.3, 0.3, 0.2, 0.2), PROMPT, 20, max_reads=5, cache=False)


def test_it_comes_back_on_the_device_of_its_prompt(device):
    found = exact_mode(make("decoder").to(device), PROMPT.to(device), 3, stop=STOP)
    assert found.tokens.device.type == device
    assert torch.equal(found.tokens.cpu(), exact_mode(make("decoder"), PROMPT, 3, stop=STOP)[0])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"prompt": PROMPT.expand(2, 2)}, ValueError, r"prompt must be one, \(1, T\), got .*2, 2"),
        ({"n_new": 7}, ValueError, r"2 \+ 7 tokens do not fit into the context of 7"),
        ({"n_new": 0}, ValueError, "n_new must be at least 1, got 0"),
        ({"stop": V}, ValueError, "stop must be ids below 5"),
        ({"max_reads": 0}, ValueError, "max_reads must be at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, message):
    with pytest.raises(error, match=message):
        exact_mode(**{"model": make("decoder"), "prompt": PROMPT, "n_new": 3} | change)
