"""Speculative sampling has the large model's distribution, whatever the small model guesses."""

from __future__ import annotations

import itertools

import pytest
import torch
from scipy.stats import chi2
from torch import nn
from unrolled.generation.generate import generate
from unrolled.generation.samplers import Sampling
from unrolled.generation.speculative import speculate
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

V = 3
DTYPE = torch.float64
START = torch.tensor([[1]])


class Bigrams(nn.Module):
    """Logits that depend on the last token."""

    def __init__(self, seed):
        super().__init__()
        self.table = torch.randn(V, V, generator=torch.Generator().manual_seed(seed))

    def forward(self, tokens):
        return self.table[tokens]


def transformer(seed, vocab_size=11):
    torch.manual_seed(seed)
    model = TransformerLM(
        TransformerConfig(vocab_size=vocab_size, d_model=12, n_layers=2, n_heads=3,
                          context_length=19, position="rotary", init_std=0.3)
    )  # fmt: skip
    return model.eval()


@pytest.mark.parametrize("n_ahead", [1, 2, 5])
@pytest.mark.parametrize("options", [{}, {"temperature": 0.6, "top_k": 2}])
def test_frequencies_are_those_of_the_large_model(n_ahead, options):
    """All texts of three tokens, against the product of the model's own probabilities."""
    model, draft, n = Bigrams(0), Bigrams(1), 1500
    rng, sampling = torch.Generator().manual_seed(0), Sampling(**options)
    settings = {"n_ahead": n_ahead, "rng": rng, "cache": False, **options}
    runs = [speculate(model, draft, START, 3, **settings) for _ in range(n)]
    texts = [tuple(run.tokens[0, 1:].tolist()) for run in runs]
    p, q = sampling.probs(model.table), sampling.probs(draft.table)
    assert (p - q).abs().max() > 0.2  # the guesses are bad
    expected = {
        (a, b, c): n * (p[1, a] * p[a, b] * p[b, c]).item()
        for a, b, c in itertools.product(range(V), repeat=3)
    }
    assert all(expected[text] > 0 for text in texts)
    cells = [(texts.count(text), e) for text, e in expected.items() if e >= 5]
    rest = n - sum(c for c, _ in cells), n - sum(e for _, e in cells)
    cells += [rest] if rest[1] > 1 else []
    assert len(cells) > 3
    distance = sum((count - wanted) ** 2 / wanted for count, wanted in cells)
    assert chi2(len(cells) - 1).sf(distance) > 1e-3
    assert 0 < sum(run.n_accepted for run in runs) < 2 * n


def test_the_share_of_kept_guesses_is_the_overlap_of_both_distributions():
    model, draft, rng = Bigrams(0), Bigrams(1), torch.Generator().manual_seed(0)
    runs = [speculate(model, draft, START, 2, rng=rng, cache=False) for _ in range(2000)]
    share = sum(run.n_accepted for run in runs) / 2000
    overlap = torch.minimum(model.table[1].softmax(0), draft.table[1].softmax(0)).sum().item()
    assert share == pytest.approx(overlap, abs=0.04)


@pytest.mark.parametrize("n_ahead", [1, 3, 7])
@pytest.mark.parametrize("cache", [True, False])
def test_greedy_text_is_the_large_models(n_ahead, cache):
    model, draft = transformer(0).train(), transformer(1)
    prompt = torch.tensor([[3, 1, 4]])
    found = speculate(
        model, draft, prompt, 16, n_ahead=n_ahead, temperature=0, cache=cache,
        repetition_penalty=1.2,
    )  # fmt: skip
    assert model.training
    expected = generate(model, prompt, 16, temperature=0, repetition_penalty=1.2)
    assert torch.equal(found.tokens, expected)
    assert found.n_reads + found.n_accepted == 16  # a read gives one token beside the kept guesses


def test_a_cache_changes_no_token_and_a_perfect_draft_saves_reads():
    model, draft, prompt = transformer(0), transformer(1), torch.tensor([[3, 1, 4]])
    texts = [
        speculate(model, draft, prompt, 16, rng=torch.Generator().manual_seed(5), cache=cache)
        for cache in (True, False)
    ]
    assert torch.equal(texts[0].tokens, texts[1].tokens)
    assert texts[0][1:] == texts[1][1:]
    same = speculate(model, model, prompt, 16, n_ahead=3)
    assert (same.n_reads, same.n_accepted) == (4, 12)
    assert speculate(model, draft, prompt, 0).tokens.tolist() == prompt.tolist()


def test_it_comes_back_on_the_device_of_its_prompt(device):
    model, draft = transformer(0).to(device), transformer(1).to(device)
    found = speculate(model, draft, START.to(device), 9, rng=torch.Generator().manual_seed(5))
    expected = speculate(
        transformer(0), transformer(1), START, 9, rng=torch.Generator().manual_seed(5)
    )
    assert found.tokens.device.type == device
    assert torch.equal(found.tokens.cpu(), expected.tokens)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"prompt": START.expand(2, 1)}, ValueError, r"prompt must be one, \(1, T\), got .*2, 1"),
        ({"n_new": 19}, ValueError, "20 tokens do not fit into the context of 19"),
        ({"n_ahead": 0}, ValueError, "n_ahead must be at least 1, got 0"),
        ({"draft": transformer(0, 13)}, ValueError, "draft has 13 tokens, model 11"),
        ({"draft": Bigrams(0)}, TypeError, r"Bigrams has no new_cache\(\)"),
        (
            {"draft": RecurrentLM(11, embedding_dim=2, hidden_size=2)},
            TypeError,
            "a RecurrentCache cannot be cropped: pass cache=False",
        ),
    ],
)
def test_what_does_not_fit_is_refused(change, error, message):
    given = {"model": transformer(0), "draft": transformer(1), "prompt": START, "n_new": 5}
    with pytest.raises(error, match=message):
        speculate(**given | change)
