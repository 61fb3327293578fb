"""What is drawn follows the exact probabilities, and a cache changes no token."""

import itertools
import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from comparing import Fixed, close, refuses
from scipy.stats import chisquare
from torch import nn
from unrolled.generation.generate import generate, stream
from unrolled.generation.samplers import Sampling
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.recurrent import CELLS
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

V, D, H, B, T, CONTEXT = 5, 6, 7, 3, 2, 11
DTYPE = torch.float64
PROMPT = torch.tensor([[1, 0], [4, 2], [3, 3]])
both = pytest.mark.parametrize("cache", [True, False])


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def prompts(*lengths):
    return [torch.randint(V, (n,), generator=rng(n)) for n in lengths]


def recurrent(cell="gru", dropout=0.0):
    torch.manual_seed(0)
    return _sharpened(RecurrentLM(V, cell, embedding_dim=D, hidden_size=H, dropout=dropout))


def transformer(position="learned", make=TransformerLM):
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=V, d_model=12, n_layers=2, n_heads=3,
                               context_length=CONTEXT, position=position)  # fmt: skip
    return _sharpened(make(config))


encoder_decoder = partial(transformer, make=EncoderDecoder)


def _sharpened(model):
    """Away from the uniform distribution of fresh parameters, so that what is read matters."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 5 if parameter.ndim > 1 else 1
    return model.eval()


class Memory(nn.Module):
    """Logits that depend on how often each token stands in the text; counts its calls."""

    def __init__(self, context_length=None):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(V, V, generator=rng(1)))
        self.calls, self.config = [], SimpleNamespace(context_length=context_length)

    def new_cache(self):
        return SimpleNamespace(counts=0)

    def forward(self, tokens, cache=None):
        self.calls.append(("whole" if cache is None else "read", tokens.shape[1]))
        assert self.config.context_length is None or tokens.shape[1] <= self.config.context_length
        counts = nn.functional.one_hot(tokens, V).double().cumsum(1)
        if cache is not None:
            counts = counts + cache.counts
            cache.counts = counts[:, -1:]
        return counts @ self.weight


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 3.0, "top_k": 3}, {"temperature": 3.0, "top_p": 0.7}]
)
@both
def test_frequencies_of_pairs_are_their_exact_probabilities(options, cache):
    model, n, sampling = recurrent(), 5000, Sampling(**options)
    prompt = PROMPT[:1].expand(n, -1)
    drawn = generate(model, prompt, 2, rng=rng(), cache=cache, **options)[:, T:]
    pairs = torch.tensor([*itertools.product(range(V), repeat=2)])
    texts = torch.cat([PROMPT[:1].expand(len(pairs), -1), pairs[:, :1]], 1)
    logits = model(texts).detach()
    first, second = (sampling.probs(logits[:, -i]).gather(1, pairs[:, [2 - i]]) for i in (2, 1))
    expected, counts = n * (first * second)[:, 0], (drawn[:, None] == pairs).all(-1).sum(0)
    close(expected.sum().item(), float(n), 1e-8)
    assert not counts[expected == 0].any()
    enough = expected >= 5
    assert enough.sum() > 3
    seen, wanted = ([*x[enough].tolist(), x[~enough].sum().item()] for x in (counts, expected))
    cells = slice(None if wanted[-1] else -1)  # the rare ones in one, if there are any
    assert chisquare(seen[cells], wanted[cells]).pvalue > 1e-3


def test_temperature_divides_the_logits_and_zero_takes_the_first_of_the_largest():
    model = Fixed([0.0, 2.0, 2.0, -1.0, -math.inf])  # the last is impossible
    many = torch.zeros(4000, 1, dtype=torch.int64)
    for temperature in (0, 1e-300, 0.5, 100.0):
        drawn = generate(model, many, 1, temperature=temperature, rng=rng(), cache=False)[:, 1]
        share = torch.bincount(drawn, minlength=5).double() / len(many)
        probs = ((model.logits - 2).detach() / (temperature or 1)).softmax(0)
        close(share, probs if temperature else torch.eye(5)[1], 0.03)
        assert share[4] == 0


def test_one_seed_decides_everything_and_no_other_generator_is_touched():
    model = recurrent()
    before = torch.get_rng_state()
    first = generate(model, PROMPT, 20, rng=rng(3))
    assert torch.equal(first, generate(model, PROMPT, 20, rng=rng(3)))
    assert not torch.equal(first, generate(model, PROMPT, 20, rng=rng(4)))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    drawn = generate(model, PROMPT, 20)
    torch.manual_seed(5)
    assert torch.equal(drawn, generate(model, PROMPT, 20))


def plain_generate(model, tokens, n_new, limit=None):
    """Greedy, reading everything anew each time."""
    for _ in range(n_new):
        seen = tokens if limit is None else tokens[:, -limit:]
        tokens = torch.cat([tokens, model(seen)[:, -1:].argmax(-1)], 1)
    return tokens


POSITIONS = ["learned", "sinusoidal", "rotary", "alibi", "relative", "none"]


@pytest.mark.parametrize(
    ("make", "limit"),
    [(partial(recurrent, cell), None) for cell in CELLS]
    + [(partial(transformer, position), CONTEXT) for position in POSITIONS],
    ids=[*CELLS, *POSITIONS],
)
def test_a_cache_changes_no_token_even_past_the_context_and_greedy_is_plain(make, limit):
    model = make()
    for n_prompt in (1, CONTEXT - 1, CONTEXT + 3):
        prompt = torch.randint(V, (B, n_prompt), generator=rng(n_prompt))
        expected = plain_generate(model, prompt, CONTEXT + 4, limit)
        for options in ({"temperature": 0}, {"temperature": 0.8, "top_k": 3, "top_p": 0.9}):
            texts = [
                generate(model, prompt, CONTEXT + 4, rng=rng(1), cache=cache, **options)
                for cache in (True, False)
            ]
            assert torch.equal(*texts)
            assert options != {"temperature": 0} or torch.equal(texts[0], expected)


def test_with_a_cache_each_token_is_read_once_until_the_context_is_full_and_when_it_is_asked_for():
    model = Memory(6)
    steps = stream(model, PROMPT, 9, temperature=0)
    generate(model, PROMPT, 7)
    reads, windows = [("read", T), *[("read", 1)] * 4], [("whole", 6)] * 2
    assert model.calls == reads + windows
    first = next(steps)
    assert model.calls == [*reads, *windows, ("read", T)]
    assert first == generate(model, PROMPT, 1, temperature=0)[:, -1].tolist()
    model.calls, model.context_length = [], 3  # which the model may say itself
    generate(model, PROMPT, 3, cache=False)
    assert model.calls == [("whole", 2), ("whole", 3), ("whole", 3)]
    with pytest.raises(ValueError, match="n_new must be at least 0"):
        stream(model, PROMPT, -1)  # at the call, not at the first step


@both
@pytest.mark.parametrize("make", [recurrent, transformer, encoder_decoder])
def test_the_head_reads_the_last_position_only(make, cache):
    model, shapes = make(), []
    source = PROMPT if make is encoder_decoder else None
    model.head.register_forward_hook(lambda module, args, out: shapes.append(args[0].shape[:-1]))
    generate(model, PROMPT, 5, cache=cache, source=source)
    assert shapes == [(B, 1)] * 5


@both
@pytest.mark.parametrize("make", [recurrent, transformer, partial(transformer, "rotary"), Memory])
@pytest.mark.parametrize("stop", [None, 2])
def test_prompts_of_several_lengths_are_continued_as_one_by_one(make, cache, stop):
    """Also past the context of the Transformer, which the longer ones reach first."""
    model, given = make(), prompts(3, 7, 1, 4, 7)
    together = generate(model, given, 9, temperature=0, cache=cache, stop=stop)
    assert len({len(row) for row in together}) > 1
    for row, prompt in zip(together, given, strict=True):
        alone = generate(model, prompt[None], 9, temperature=0, cache=cache, stop=stop)
        assert torch.equal(row, alone[0])


def test_a_sequence_that_stops_repeats_its_last_token_and_all_end_together():
    class Count(nn.Module):
        def forward(self, tokens):
            return nn.functional.one_hot((tokens + 1).clamp(max=V - 1), V).double()

    prompt = torch.tensor([[3, 1], [3, 2]])  # a stop in the prompt does not count
    for stop, n_new in ((3, 9), ([3], 9), ({3, 4}, 9), (torch.tensor([3]), 9), ([3, 4], 2)):
        text = generate(Count(), prompt, n_new, temperature=0, cache=False, stop=stop)
        assert text.tolist() == [[3, 1, 2, 3], [3, 2, 3, 3]]
    assert generate(Count(), prompt, 3, temperature=0, cache=False, stop=[]).shape == (2, 5)


LETTERS = "abcde"


def spell(ids):
    return "".join(LETTERS[i] for i in ids)


@both
def test_a_text_ends_where_its_new_tokens_complete_a_stop_or_a_stop_string(cache):
    model, given = recurrent(), prompts(3, 7, 1, 4)
    options = {"temperature": 0, "cache": cache, "decode": spell}
    free = generate(model, given, 12, **options)
    new = [spell(row[len(p) :].tolist()) for row, p in zip(free, given, strict=True)]
    strings = [new[0][2:5], new[1][5:7]]
    for stops, how in (
        (strings, {"stop_strings": strings}),
        (strings[:1], {"stop_strings": strings[0]}),
        (new[0][1], {"stop": LETTERS.index(new[0][1])}),
    ):
        text = generate(model, given, 12, **options, **how)
        assert len(text[0]) < len(free[0])
        for row, prompt, whole in zip(text, given, new, strict=True):
            ends = [whole.find(s) + len(s) for s in stops if s in whole]
            assert spell(row[len(prompt) :].tolist()) == whole[: min(ends, default=12)]
    text = generate(Fixed([0.0, 0.0, 0.0, 9.0, 0.0]), torch.tensor([[0, 1, 2]]), 4,
                    **options | {"cache": False}, stop_strings=["cd", "dd"])  # fmt: skip
    assert spell(text[0]) == "abcdd"  # the cd that begins in the prompt does not count


def test_no_text_stops_before_its_least_number_of_new_tokens():
    model, given = Fixed([0.0, 9.0, 0.0]), [torch.tensor([0]), torch.tensor([2, 1, 2])]
    texts = generate(model, given, 9, temperature=0, cache=False, stop=1, min_new_tokens=5)
    assert texts[0].tolist() == [0, 0, 0, 0, 0, 0, 1]  # it wants to stop, and the sixth token may
    assert texts[1].tolist() == [2, 1, 2, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"repetition_penalty": 1.3}, lambda x, prompt, new: x / 1.3 if prompt + new else x),
        ({"presence_penalty": 0.7}, lambda x, prompt, new: x - 0.7 * (new > 0)),
        ({"frequency_penalty": 0.4}, lambda x, prompt, new: x - 0.4 * new),
    ],
)
def test_penalties_are_for_the_text_or_for_what_is_new_in_it(options, change):
    model = Fixed([1.0, 1.1, 0.9, 0.5, 0.2])  # all positive
    given = [torch.tensor([1, 0]), torch.tensor([2, 1, 1])]
    texts = generate(model, given, 14, temperature=0, cache=False, **options)
    for prompt, text in zip(given, texts, strict=True):
        expected = prompt.tolist()
        for _ in range(14):
            new = expected[len(prompt) :]
            logits = [change(x, i in prompt, new.count(i)) for i, x in enumerate(model.logits)]
            expected.append(logits.index(max(logits)))
        assert text.tolist() == expected
    assert len(set(texts[0].tolist()[2:])) > 1


@pytest.mark.parametrize(("size", "n_new"), [(1, 4), (2, 9), (3, 12)])
def test_no_ngram_stands_twice_in_a_text_or_its_prompt_and_no_suppressed_token(size, n_new):
    def repeats(text):
        ngrams = [*zip(*(text.tolist()[i:] for i in range(size)), strict=False)]
        return len(set(ngrams)) < len(ngrams)

    model = Fixed([2.0, 1.9, 0.4, 0.0, 0.0, -1.0, -1.0, -1.0])
    given, options = [torch.tensor([0, 1]), torch.tensor([3, 1, 4])], {"cache": False}
    texts = generate(model, given, n_new, temperature=0, no_repeat_ngram_size=size, **options)
    assert not any(map(repeats, texts))
    texts = generate(model, given, 50, rng=rng(), suppress_tokens=(0, 4), **options)
    assert {*texts[0][2:].tolist(), *texts[1][3:].tolist()} == {1, 2, 3, 5, 6, 7}
    assert any(map(repeats, generate(model, given, 12, temperature=0, **options)))


def test_a_model_whose_arguments_are_not_named_may_read_a_source_or_none():
    class Hidden(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, *given):
            return self.model(*given)

    options = {"temperature": 0, "cache": False}
    for model, source in ((transformer(), None), (encoder_decoder(), PROMPT)):
        expected = generate(model, PROMPT, 3, source=source, **options)
        assert torch.equal(generate(Hidden(model), PROMPT, 3, source=source, **options), expected)


@pytest.mark.parametrize("options", [{}, {"stop": 2}, {"stop_strings": "ab", "decode": spell}])
def test_what_is_streamed_is_what_is_generated(options):
    model, given = transformer().train(), prompts(3, 7, 1, 4)
    texts = generate(model, given, 12, rng=rng(1), **options)
    rows = [prompt.tolist() for prompt in given]
    for tokens in stream(model, given, 12, rng=rng(1), **options):
        assert model.training
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
        for row, token in zip(rows, tokens, strict=True):
            row.extend([] if token is None else [token])
    assert rows == [text.tolist() for text in texts]


def test_modes_gradients_and_prompt_are_left_as_they_were_and_dropout_is_off(device):
    model = recurrent(dropout=0.5).to(device).train()
    model.recurrent.eval()
    prompt, options = PROMPT.to(device), {"temperature": 0, "stop": V - 1}
    text = generate(model, prompt, 9, **options)
    assert text.device.type == device
    assert torch.equal(text.cpu(), generate(recurrent(), PROMPT, 9, **options))
    assert [model.training, model.recurrent.training, model.dropout.training] == [True, False, True]
    assert all(p.grad is None for p in model.parameters())
    model(text).sum().backward()  # an inference tensor could not be
    text += 1
    generate(model, prompt, 0).add_(1)
    assert torch.equal(prompt.cpu(), PROMPT)
    assert generate(model, prompt.int(), 0).dtype == torch.int64
    broken = Fixed([math.nan])
    with pytest.raises(ValueError, match="largest logit after 2 tokens is nan"):
        generate(broken, PROMPT, 1, cache=False)
    assert broken.training


test_what_does_not_fit_is_refused = refuses(
    ({"top_q": 0.5}, TypeError, "unexpected keyword argument 'top_q'"),
    ({"prompt": PROMPT[:, :0]}, r"none of them 0, got \[\(3, 0\)"),
    ({"stop_strings": ["a", ""], "decode": spell}, "none may be empty"),
    ({"stop": [V]}, r"stop must be ids below 5, got \[5\]"),
    ({"stop": range(V), "min_new_tokens": 1}, "nothing is left to draw"),
    ({"suppress_tokens": (V,)}, r"suppressed ids must be below 5, got \[5\]"),
    ({"no_repeat_ngram_size": 1, "n_new": 9}, "nothing is left to draw"),
    ({"model": Fixed([0.0, 1.0])}, TypeError, r"Fixed has no new_cache\(\): pass cache=False"),
    ({"model": Fixed([-math.inf] * 3), "cache": False}, "2 tokens is -inf"),
    ({"model": Fixed([0, math.nan, 9]), "cache": False}, "2 tokens is nan"),
    of=lambda change: generate(**{"model": Memory(), "prompt": PROMPT, "n_new": 3} | change),
)
