"""What is drawn follows the exact probabilities, and a cache changes no token."""

from __future__ import annotations

import itertools
import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import nn
from torch.testing import assert_close
from unrolled.generation.generate import generate, stream
from unrolled.generation.samplers import Sampling
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.recurrent import CELLS
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

V, D, H, B, T, CONTEXT = 5, 6, 7, 3, 2, 11
PROMPT = torch.tensor([[1, 0], [4, 2], [3, 3]])


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def recurrent(cell="gru", dropout=0.0):
    torch.manual_seed(0)
    lm = RecurrentLM(V, cell, embedding_dim=D, hidden_size=H, dropout=dropout).double()
    return _sharpened(lm)


def transformer(position="learned", **changes):
    torch.manual_seed(0)
    options = dict(vocab_size=V, d_model=12, n_layers=2, n_heads=3, context_length=CONTEXT)
    model = TransformerLM(TransformerConfig(**options, position=position, **changes)).double()
    return _sharpened(model)


def encoder_decoder():
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=V, d_model=12, n_layers=2, n_heads=3, context_length=17)
    return _sharpened(EncoderDecoder(config).double())


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
        self.weight = nn.Parameter(torch.randn(V, V, generator=rng(1), dtype=torch.float64))
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


class Fixed(nn.Module):
    """The same logits after any text."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(torch.as_tensor(logits, dtype=torch.float64))

    def forward(self, tokens):
        return self.logits.expand(*tokens.shape, -1)


# The distribution that is drawn from


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0.5}, {"temperature": 3.0, "top_k": 3}, {"top_p": 0.7}, {"cache": False}],
)
def test_frequencies_of_pairs_are_their_exact_probabilities(options):
    """Two new tokens after one prompt, against the product of conditional probabilities."""
    model, n = recurrent(), 5000
    drawn = generate(model, PROMPT[:1].expand(n, -1), 2, rng=rng(), **options)[:, T:]
    sampling = Sampling(**{k: v for k, v in options.items() if k != "cache"})
    probs = {}
    for pair in itertools.product(range(V), repeat=2):
        tokens, probs[pair] = PROMPT[:1], 1.0
        for token in pair:
            probs[pair] *= sampling.probs(model(tokens)[0, -1])[token].item()
            tokens = torch.cat([tokens, torch.tensor([[token]])], 1)
    assert sum(probs.values()) == pytest.approx(1)
    counts = [int((drawn == torch.tensor(pair)).all(1).sum()) for pair in probs]
    expected = [n * p for p in probs.values()]
    assert all(c == 0 for c, e in zip(counts, expected, strict=True) if e == 0)
    enough = [(c, e) for c, e in zip(counts, expected, strict=True) if e >= 5]
    rest = [n - sum(column) for column in zip(*enough, strict=True)]
    assert len(enough) > 3
    observed, wanted = zip(*enough, *([rest] if rest[1] > 1e-6 else []), strict=True)
    assert chisquare(observed, wanted).pvalue > 1e-3


def test_temperature_divides_the_logits_and_zero_takes_the_largest():
    model = Fixed([0.0, 2.0, 2.0, -1.0])  # of two equal ones the first
    many = torch.zeros(4000, 1, dtype=torch.int64)
    assert (generate(model, many, 1, temperature=0, cache=False)[:, 1] == 1).all()
    for temperature in (1e-300, 0.5, 100.0):
        drawn = generate(model, many, 1, temperature=temperature, rng=rng(), cache=False)[:, 1]
        share = torch.bincount(drawn, minlength=4) / len(many)
        scaled = (model.logits - 2).detach() / temperature
        assert_close(share.double(), scaled.softmax(0), rtol=0, atol=0.03)


def test_a_word_that_is_impossible_is_never_drawn():
    model = Fixed([-math.inf, 0.0, -math.inf, 1.0, -math.inf])
    drawn = generate(model, PROMPT, 200, rng=rng(), cache=False)[:, T:]
    assert set(drawn.flatten().tolist()) == {1, 3}


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


# Greedy, the cache, the context


def plain_generate(model, tokens, n_new, limit=None):
    """Greedy, reading everything anew each time."""
    for _ in range(n_new):
        seen = tokens if limit is None else tokens[:, -limit:]
        tokens = torch.cat([tokens, model(seen)[:, -1:].argmax(-1)], 1)
    return tokens


@pytest.mark.parametrize("cache", [True, False])
def test_greedy_text_is_that_of_a_plain_loop(cache):
    for model, limit in ((recurrent(), None), (transformer(), CONTEXT), (Memory(), None)):
        expected = plain_generate(model, PROMPT, 17, limit)
        assert len(set(expected.flatten().tolist())) > 1
        assert torch.equal(generate(model, PROMPT, 17, temperature=0, cache=cache), expected)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("options", [{"temperature": 0}, {}, {"top_k": 3, "top_p": 0.9}])
def test_a_cache_changes_no_token_of_a_recurrent_model(cell, options):
    model = recurrent(cell)
    with_cache, without = (
        generate(model, PROMPT, 29, rng=rng(1), cache=cache, **options) for cache in (True, False)
    )
    assert torch.equal(with_cache, without)


@pytest.mark.parametrize(
    "position", ["learned", "sinusoidal", "rotary", "alibi", "relative", "none"]
)
@pytest.mark.parametrize("n_prompt", [1, 4, CONTEXT - 1, CONTEXT, CONTEXT + 3])
def test_a_cache_changes_no_token_of_a_transformer_even_past_its_context(position, n_prompt):
    model = transformer(position)
    prompt = torch.randint(V, (B, n_prompt), generator=rng(n_prompt))
    for options in ({"temperature": 0}, {"temperature": 0.8}):
        texts = [
            generate(model, prompt, CONTEXT + 4, rng=rng(1), cache=cache, **options)
            for cache in (True, False)
        ]
        assert torch.equal(*texts)
        assert texts[0].shape == (B, n_prompt + CONTEXT + 4)


@given(
    st.integers(1, 9),
    st.integers(0, 12),
    st.none() | st.integers(1, 8),
    st.integers(0, 99),
)
@settings(max_examples=30, deadline=None)
def test_with_any_context_the_text_is_that_of_a_plain_loop(n_prompt, n_new, limit, seed):
    prompt = torch.randint(V, (B, n_prompt), generator=rng(seed))
    model = Memory(limit)
    expected = plain_generate(model, prompt, n_new, limit)
    for cache in (True, False):
        assert torch.equal(generate(model, prompt, n_new, temperature=0, cache=cache), expected)


def test_with_a_cache_each_token_is_read_once_until_the_context_is_full():
    model = Memory(6)
    generate(model, PROMPT, 7)
    reads, windows = [("read", T), *[("read", 1)] * 4], [("whole", 6)] * 2
    assert model.calls == reads + windows
    model.calls.clear()
    generate(model, PROMPT, 3, cache=False)
    assert model.calls == [("whole", 2), ("whole", 3), ("whole", 4)]


def test_an_attribute_of_the_model_says_its_context_as_well():
    model = Fixed([0.0, 1.0])
    model.context_length, seen = 3, []
    model.register_forward_hook(lambda module, args, out: seen.append(args[0].shape[1]))
    generate(model, torch.zeros(1, 2, dtype=torch.int64), 4, cache=False)
    assert seen == [2, 3, 3, 3]


# Stopping


def test_a_sequence_that_stops_repeats_its_last_token_and_all_end_together():
    class Count(nn.Module):
        def forward(self, tokens):
            return nn.functional.one_hot((tokens + 1).clamp(max=V - 1), V).double()

    prompt = torch.tensor([[3, 1], [3, 2]])  # a stop in the prompt does not count
    for stop in (3, [3], {3, 4}, torch.tensor([3])):
        text = generate(Count(), prompt, 9, temperature=0, cache=False, stop=stop)
        assert text.tolist() == [[3, 1, 2, 3], [3, 2, 3, 3]]
    text = generate(Count(), prompt, 2, temperature=0, cache=False, stop=[3, 4])
    assert text.tolist() == [[3, 1, 2, 3], [3, 2, 3, 3]]
    assert generate(Count(), prompt, 3, temperature=0, cache=False, stop=[]).shape == (2, 5)


@pytest.mark.parametrize("cache", [True, False])
def test_a_stopped_sequence_changes_nothing_for_the_others(cache):
    model = recurrent()
    free = generate(model, PROMPT, 15, temperature=0, cache=cache)
    stop = int(free[0, T + 1])
    stopped = generate(model, PROMPT, 15, temperature=0, cache=cache, stop=stop)
    for row, whole in zip(stopped.tolist(), free.tolist(), strict=True):
        n = T + whole[T:].index(stop) + 1 if stop in whole[T:] else len(whole)
        assert row[:n] == whole[:n][: len(row)]
        assert set(row[n:]) <= {stop}


LETTERS = "abcde"


def spell(ids):
    return "".join(LETTERS[i] for i in ids)


@pytest.mark.parametrize("cache", [True, False])
def test_a_text_ends_where_its_new_tokens_complete_a_stop_string(cache):
    model = recurrent()
    prompts = [torch.randint(V, (n,), generator=rng(n)) for n in (3, 7, 1, 4)]
    options = {"rng": None, "temperature": 0, "cache": cache}
    free = generate(model, prompts, 12, **options)
    new = [spell(row[len(p) :].tolist()) for row, p in zip(free, prompts, strict=True)]
    strings = [new[0][2:5], new[1][5:7]]
    text = generate(model, prompts, 12, stop_strings=strings, decode=spell, **options)
    for row, prompt, whole in zip(text, prompts, new, strict=True):
        ends = [whole.find(s) + len(s) for s in strings if s in whole]
        assert spell(row[len(prompt) :].tolist()) == whole[: min(ends, default=12)]
    assert len(text[0]) < len(free[0])
    one, same = (
        generate(model, prompts, 12, stop_strings=given, decode=spell, **options)
        for given in (strings[0], strings[:1])
    )
    assert all(map(torch.equal, one, same))


def test_a_stop_string_that_begins_in_the_prompt_does_not_count():
    prompt = torch.tensor([[0, 1, 2]])
    model = Fixed([0.0, 0.0, 0.0, 9.0, 0.0])
    options = {"temperature": 0, "cache": False, "decode": spell}
    assert generate(model, prompt, 4, stop_strings="cd", **options).shape == (1, 7)
    assert generate(model, prompt, 4, stop_strings=["cd", "dd"], **options).shape == (1, 5)


# Penalties


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
    prompts = [torch.tensor([1, 0]), torch.tensor([2, 1, 1])]
    texts = generate(model, prompts, 14, temperature=0, cache=False, **options)
    for prompt, text in zip(prompts, texts, strict=True):
        expected = prompt.tolist()
        for _ in range(14):
            new = expected[len(prompt) :]
            logits = [change(x, i in prompt, new.count(i)) for i, x in enumerate(model.logits)]
            expected.append(logits.index(max(logits)))
        assert text.tolist() == expected
    assert len(set(texts[0].tolist()[2:])) > 1


def plain_texts(tokens, size):
    """The n-grams of a text that stand in it more than once."""
    ngrams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return {ngram for ngram in ngrams if ngrams.count(ngram) > 1}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_stands_twice_in_a_text_or_its_prompt(size):
    model = Fixed([2.0, 1.9, 0.4, 0.0, 0.0, -1.0, -1.0, -1.0])
    prompts = [torch.tensor([0, 1]), torch.tensor([3, 1, 4])]
    n_new = {1: 4, 2: 9, 3: 12}[size]
    options = {"cache": False, "temperature": 0}
    texts = generate(model, prompts, n_new, no_repeat_ngram_size=size, **options)
    assert not any(plain_texts(text.tolist(), size) for text in texts)
    free = generate(model, prompts, 12, **options)
    assert any(plain_texts(text.tolist(), size) for text in free)


def test_a_suppressed_token_is_never_drawn():
    model = Fixed([2.0, 1.0, 0.5])
    prompt = torch.tensor([[0]]).expand(4, 1)
    text = generate(model, prompt, 50, cache=False, rng=rng(0), suppress_tokens=(0,))
    assert set(text[:, 1:].flatten().tolist()) == {1, 2}


@pytest.mark.parametrize("cache", [True, False])
def test_no_text_stops_before_its_least_number_of_new_tokens(cache):
    model = transformer()
    prompts = [torch.randint(V, (n,), generator=rng(n)) for n in (3, 7, 1)]
    options = {"cache": cache, "stop": [2, 3], "rng": rng(5)}
    early = generate(model, prompts, 12, **options)
    texts = generate(model, prompts, 12, min_new_tokens=6, **options | {"rng": rng(5)})
    n_new = [len(text) - len(prompt) for text, prompt in zip(texts, prompts, strict=True)]
    assert min(len(e) - len(p) for e, p in zip(early, prompts, strict=True)) < 6 <= min(n_new)
    assert any(6 <= n < 12 for n in n_new)  # and then it may
    for text, prompt in zip(texts, prompts, strict=True):
        assert not {2, 3} & set(text[len(prompt) :][:6].tolist()[:5])


# Streaming


@pytest.mark.parametrize("options", [{}, {"stop": 2}, {"stop_strings": "ab", "decode": spell}])
def test_what_is_streamed_is_what_is_generated(options):
    model = transformer().train()
    prompts = [torch.randint(V, (n,), generator=rng(n)) for n in (3, 7, 1, 4)]
    texts = generate(model, prompts, 12, rng=rng(1), **options)
    steps = stream(model, prompts, 12, rng=rng(1), **options)
    rows = [prompt.tolist() for prompt in prompts]
    for tokens in steps:
        assert model.training
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
        assert len(tokens) == len(prompts)
        for row, token in zip(rows, tokens, strict=True):
            row.extend([] if token is None else [token])
    assert rows == [text.tolist() for text in texts]


def test_a_stream_reads_no_further_than_it_is_asked():
    model = Memory()
    steps = stream(model, PROMPT, 9, temperature=0)
    assert not model.calls
    first = next(steps)
    assert model.calls == [("read", T)]
    assert first == generate(model, PROMPT, 1, temperature=0)[:, -1].tolist()
    with pytest.raises(ValueError, match="n_new must be at least 0"):
        stream(model, PROMPT, -1)  # at the call, not at the first step


# What stays as it is


def test_modes_and_gradients_are_left_as_they_were_and_dropout_is_off():
    model = recurrent(dropout=0.5).train()
    model.recurrent.eval()
    torch.manual_seed(1)
    text = generate(model, PROMPT, 9, temperature=0)
    assert torch.equal(text, generate(model, PROMPT, 9, temperature=0))
    assert [model.training, model.recurrent.training, model.dropout.training] == [True, False, True]
    assert all(p.grad is None for p in model.parameters())
    broken = Fixed([math.nan])
    with pytest.raises(ValueError, match="largest logit after 2 tokens is nan"):
        generate(broken, PROMPT, 1, cache=False)
    assert broken.training


def test_the_prompt_is_a_copy_and_the_text_may_be_trained_on():
    model, prompt = transformer("rotary").train(), PROMPT.clone()
    text = generate(model, prompt, 4, rng=rng())
    assert torch.equal(prompt, PROMPT)
    assert torch.equal(text[:, :T], PROMPT)
    model(text).sum().backward()  # an inference tensor could not be
    again = generate(model, PROMPT.int(), 0)
    again += 1
    assert again.dtype == torch.int64
    assert torch.equal(prompt, PROMPT)


def test_text_comes_back_on_the_device_of_its_prompt(device):
    model = recurrent().to(device)
    text = generate(model, PROMPT.to(device), 9, rng=rng(), stop=[V - 1])
    assert text.device.type == device
    assert torch.equal(text.cpu(), generate(recurrent(), PROMPT, 9, rng=rng(), stop=[V - 1]))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_new": -1}, ValueError, "n_new must be at least 0, got -1"),
        ({"n_new": 2.5}, TypeError, r"n_new must be an integer, got 2\.5"),
        ({"temperature": -0.5}, ValueError, "temperature must be at least 0, got -0.5"),
        ({"temperature": math.inf}, ValueError, "temperature .* got inf"),
        ({"temperature": "1"}, TypeError, "temperature must be a number"),
        ({"temperature": math.nan}, ValueError, "temperature .* got nan"),
        ({"top_k": 0}, ValueError, "top_k must be at least 1, got 0"),
        ({"top_k": 2.5}, TypeError, r"top_k must be an integer, got 2\.5"),
        ({"top_k": math.nan}, TypeError, "top_k must be an integer, got nan"),
        ({"top_p": 0.0}, ValueError, r"top_p must be .*above 0, got 0.0"),
        ({"top_p": math.nan}, ValueError, "top_p must be finite"),
        ({"top_p": 1.01}, ValueError, r"top_p must be at most 1 .*got 1.01"),
        ({"temperature": 0, "top_p": 2}, ValueError, "top_p must be"),
        ({"prompt": PROMPT[0]}, ValueError, r"prompt must be \(B, T\) or .* got \[\(2,\)"),
        ({"prompt": []}, ValueError, r"got \[\]"),
        ({"prompt": [PROMPT]}, ValueError, r"got \[\(3, 2\)\]"),
        ({"prompt": [[1, 2]]}, TypeError, "integers or a list of them, got list"),
        ({"prompt": PROMPT[:, :0]}, ValueError, r"none of them 0, got \[\(3, 0\)"),
        ({"prompt": PROMPT[:0]}, ValueError, r"got \[\(0, 2\)"),
        ({"prompt": PROMPT.double()}, TypeError, "integers or a list of them, got torch.float64"),
        ({"prompt": PROMPT.numpy()}, TypeError, "integers or a list of them, got ndarray"),
        ({"top_q": 0.5}, TypeError, "unexpected keyword argument 'top_q'"),
        ({"stop_strings": "a"}, ValueError, r"stop_strings \['a'\] need a decode"),
        ({"stop_strings": ["a", ""], "decode": spell}, ValueError, "none may be empty"),
        ({"stop": 1.5}, TypeError, "stop must be an integer"),
        ({"stop": [V]}, ValueError, r"stop must be ids below 5, got \[5\]"),
        ({"stop": -1}, ValueError, "stop must be at least 0"),
        ({"stop": range(V), "min_new_tokens": 1}, ValueError, "nothing is left to draw"),
        ({"min_new_tokens": -1}, ValueError, "min_new_tokens must be at least 0"),
        ({"suppress_tokens": (V,)}, ValueError, r"suppressed ids must be below 5, got \[5\]"),
        ({"suppress_tokens": range(V)}, ValueError, "nothing is left to draw"),
        ({"suppress_tokens": (1.5,)}, TypeError, "suppress_tokens must be an integer"),
        ({"no_repeat_ngram_size": 0}, ValueError, "no_repeat_ngram_size must be at least 1"),
        ({"no_repeat_ngram_size": 1, "n_new": 9}, ValueError, "nothing is left to draw"),
        ({"model": Fixed([0.0, 1.0])}, TypeError, r"Fixed has no new_cache\(\): pass cache=False"),
        ({"model": Fixed([-math.inf] * 3), "cache": False}, ValueError, "2 tokens is -inf"),
        ({"model": Fixed([math.inf, 0]), "cache": False}, ValueError, "2 tokens is inf"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, message):
    with pytest.raises(error, match=message):
        generate(**{"model": Memory(), "prompt": PROMPT, "n_new": 3} | change)


# Prompts of several lengths, sources, weights that are not finite


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("make", [recurrent, transformer, partial(transformer, "rotary"), Memory])
@pytest.mark.parametrize("stop", [None, 2])
def test_prompts_of_several_lengths_are_continued_as_one_by_one(make, cache, stop):
    """Also past the context of the Transformer, which the longer ones reach first."""
    model = make()
    prompts = [torch.randint(V, (n,), generator=rng(n)) for n in (3, 7, 1, 4, 7)]
    together = generate(model, prompts, 9, temperature=0, cache=cache, stop=stop)
    assert len({len(row) for row in together}) > 1
    for row, prompt in zip(together, prompts, strict=True):
        alone = generate(model, prompt[None], 9, temperature=0, cache=cache, stop=stop)
        assert torch.equal(row, alone[0])


@pytest.mark.parametrize("cache", [True, False])
def test_an_encoder_decoder_writes_what_a_plain_loop_writes(cache):
    model = encoder_decoder()
    source = torch.randint(V, (B, 5), generator=rng())
    mask = torch.arange(5) < torch.tensor([[5], [3], [4]])
    expected = PROMPT
    for _ in range(9):
        new = model(source, expected, mask)[:, -1:].argmax(-1)
        expected = torch.cat([expected, new], 1)
    options = {"source": source, "source_mask": mask, "temperature": 0, "cache": cache}
    text = generate(model, PROMPT, 9, **options)
    assert torch.equal(text, expected)
    text = generate(model, [PROMPT[0], PROMPT[1], PROMPT[2, :1]], 9, **options)
    assert torch.equal(text[0], expected[0])


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("make", [recurrent, transformer, encoder_decoder])
def test_the_head_reads_the_last_position_only(make, cache):
    model, shapes = make(), []
    source = PROMPT if make is encoder_decoder else None
    model.head.register_forward_hook(lambda module, args, out: shapes.append(args[0].shape[:-1]))
    generate(model, PROMPT, 5, cache=cache, source=source)
    assert shapes == [(B, 1)] * 5


@pytest.mark.parametrize("where", [0, V - 1])
def test_a_nan_anywhere_among_the_logits_is_refused(where):
    logits = torch.zeros(V)
    logits[where] = math.nan
    with pytest.raises(ValueError, match="the largest logit after 2 tokens is nan"):
        generate(Fixed(logits), PROMPT, 1, temperature=0, cache=False)


@pytest.mark.parametrize("position", ["learned", "rotary", "relative", "alibi"])
@pytest.mark.parametrize("part", ["q_proj", "k_proj", "v_proj"])
def test_a_nan_in_any_weight_of_attention_is_refused_however_short_the_prompt(part, position):
    model = transformer(position).float()
    with torch.no_grad():
        getattr(model.stack.blocks[0].attention, part).weight[0, 0] = math.nan
    for n in (1, 3, 7):
        for cache in (True, False):
            with pytest.raises(ValueError, match=f"the largest logit after {n} tokens is nan"):
                generate(model, torch.zeros(1, n).long(), 2, cache=cache)
