"""Speculative sampling has the large model's distribution, whatever the small model guesses."""

import itertools

import pytest
import torch
from comparing import refuses
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
START, PROMPT = torch.tensor([[1]]), torch.tensor([[3, 1, 4]])


def rng(seed):
    return torch.Generator().manual_seed(seed)


class Bigrams(nn.Module):
    """Logits that depend on the last token."""

    def __init__(self, seed):
        super().__init__()
        self.table = torch.randn(V, V, generator=rng(seed))

    def forward(self, tokens):
        return self.table[tokens]


def transformer(seed, vocab_size=11):
    torch.manual_seed(seed)
    config = TransformerConfig(vocab_size=vocab_size, d_model=12, n_layers=2, n_heads=3,
                               context_length=19, position="rotary", init_std=0.3)  # fmt: skip
    return TransformerLM(config).eval()


@pytest.mark.parametrize(
    ("n_ahead", "options"), [(1, {}), (5, {}), (2, {"temperature": 0.6, "top_k": 2})]
)
def test_frequencies_and_kept_guesses_are_as_the_models_probabilities_say(n_ahead, options):
    """All texts of three tokens, against the product of the large model's own probabilities.

    A first guess is kept as often as both distributions overlap.
    """
    model, draft, n, sampling = Bigrams(0), Bigrams(1), 1000, Sampling(**options)
    settings = {"n_ahead": n_ahead, "rng": rng(0), "cache": False, **options}
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
    runs = [speculate(model, draft, START, 2, **settings) for _ in range(n)]
    share = sum(run.n_accepted for run in runs) / n
    assert share == pytest.approx(torch.minimum(p[1], q[1]).sum().item(), abs=0.06)


@pytest.mark.parametrize("n_ahead", [1, 3, 7])
def test_greedy_text_is_the_large_models_and_a_cache_changes_no_token(n_ahead):
    model, draft = transformer(0).train(), transformer(1)
    for options in ({"temperature": 0, "repetition_penalty": 1.2}, {"temperature": 0.9}):
        found, without = (
            speculate(model, draft, PROMPT, 16, n_ahead=n_ahead, rng=rng(5), cache=cache, **options)
            for cache in (True, False)
        )
        assert torch.equal(found.tokens, without.tokens)
        assert found[1:] == without[1:]
        assert found.n_reads + found.n_accepted == 16  # a read gives one beside the kept guesses
        if options["temperature"] == 0:
            assert torch.equal(found.tokens, generate(model, PROMPT, 16, **options))
    assert model.training


def test_a_perfect_draft_saves_reads():
    model = transformer(0)
    same = speculate(model, model, PROMPT, 16, n_ahead=3)
    assert (same.n_reads, same.n_accepted) == (4, 12)
    assert speculate(model, model, PROMPT, 0).tokens.tolist() == PROMPT.tolist()


def test_it_comes_back_on_the_device_of_its_prompt(device):
    model, draft = transformer(0).to(device), transformer(1).to(device)
    found = speculate(model, draft, START.to(device), 9, rng=rng(5))
    expected = speculate(transformer(0), transformer(1), START, 9, rng=rng(5))
    assert found.tokens.device.type == device
    assert torch.equal(found.tokens.cpu(), expected.tokens)


GOOD = {"model": transformer(0), "draft": transformer(1), "prompt": START, "n_new": 5}


test_what_does_not_fit_is_refused = refuses(
    ({"prompt": START.expand(2, 1)}, r"prompt must be one, \(1, T\), got .*2, 1"),
    ({"n_new": 19}, "20 tokens do not fit into the context of 19"),
    ({"draft": transformer(0, 13)}, "draft has 13 tokens, model 11"),
    ({"draft": Bigrams(0)}, TypeError, r"Bigrams has no new_cache\(\)"),
    ({"draft": RecurrentLM(11, embedding_dim=2, hidden_size=2)}, TypeError,
     "a RecurrentCache cannot be cropped: pass cache=False"),
    of=lambda change: speculate(**GOOD | change),
)  # fmt: skip
