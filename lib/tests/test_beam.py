"""Beam search finds what enumeration finds, and what transformers finds, ids and scores."""

from __future__ import annotations

import itertools
import math
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from unrolled.generation.beam import DIVISORS, beam_search
from unrolled.generation.generate import generate
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.pretrained import config_from, load
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

B, T, S, V = 3, 2, 5, 7
DTYPE = torch.float64
PROMPT = torch.tensor([[1, 0], [4, 2], [3, 3]])
SOURCE = torch.tensor([[5, 2, 6, 1, 1], [0, 0, 3, 4, 6], [2, 5, 5, 1, 3]])
SOURCE_MASK = torch.arange(S) < torch.tensor([[5], [3], [4]])
FROM_SOURCE = {"source": SOURCE, "source_mask": SOURCE_MASK}
KINDS = {"recurrent": {}, "decoder": {}, "encoder-decoder": FROM_SOURCE}


def make(kind, position="rotary"):
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=V, d_model=12, n_layers=2, n_heads=3, context_length=11, position=position
    )
    if kind == "recurrent":
        model = RecurrentLM(V, "lstm", embedding_dim=5, hidden_size=6)
    else:
        model = (EncoderDecoder if kind == "encoder-decoder" else TransformerLM)(config)
    with torch.no_grad():
        for parameter in model.parameters():  # away from the uniform distribution
            parameter *= 5 if parameter.ndim > 1 else 1
    return model.eval()


class Tree(nn.Module):
    """A distribution after each text of letters, given as a dict."""

    def __init__(self, probs):
        super().__init__()
        self.probs = probs

    def forward(self, tokens):
        rows = [self.probs["".join("ab$"[i] for i in row)] for row in tokens[:, 1:].tolist()]
        return torch.tensor(rows).log()[:, None]


def test_a_case_for_the_hand():
    """Greedy takes a and then finds nothing likely: 0.6 · 0.4; the best text begins with b."""
    end = [0.0, 0.0, 1.0]
    tree = {"": [0.6, 0.4, 0.0], "a": [0.4, 0.25, 0.35], "b": [0.9, 0.0, 0.1]}
    model = Tree(tree | {x + y: end for x in "ab" for y in "ab"})
    start = torch.zeros(1, 1, dtype=torch.int64)
    options = {"stop": 2, "cache": False}
    one = beam_search(model, start, 3, n_beams=1, **options)
    assert one.tokens.tolist() == [[[0, 0, 0, 2]]]
    assert one.scores.exp().tolist() == [[pytest.approx(0.24)]]
    two = beam_search(model, start, 3, n_beams=2, n_best=2, **options)
    assert two.tokens.tolist() == [[[0, 1, 0, 2], [0, 0, 0, 2]]]
    assert two.scores[0].exp().tolist() == pytest.approx([0.36, 0.24])
    # a$ has probability 0.21: only a third beam keeps it
    three = beam_search(model, start, 3, n_beams=3, n_best=3, alpha=-2.0, **options)
    assert three.tokens[0, 0].tolist() == [0, 0, 2, 2]
    assert three.scores[0, 0].item() == pytest.approx(math.log(0.21) * 4)
    assert three.lengths.tolist() == [[2, 3, 3]]


@cache
def every_text(kind, b, n_new, stop):
    """(log-probability, length, tokens) of every text there is, for prompt b; read all at once."""
    model, found = make(kind), []
    new = torch.tensor(list(itertools.product(range(V), repeat=n_new)))
    tokens = torch.cat([PROMPT[b].expand(len(new), T), new], 1)
    given = [x[b].expand(len(new), S) for x in KINDS[kind].values()]
    with torch.no_grad():
        logits = model(*given[:1], tokens[:, :-1], *given[1:])
    log_probs = logits.log_softmax(-1)[:, T - 1 :].gather(2, new[..., None])[..., 0]
    for text, row, nats in zip(tokens.tolist(), new.tolist(), log_probs, strict=True):
        n = row.index(stop) + 1 if stop in row else n_new
        if row[n:] == [stop] * (n_new - n):
            found.append((nats[:n].sum().item(), n, text))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_with_as_many_beams_as_texts_it_is_enumeration(kind, divisor, alpha):
    model, n_new = make(kind), 3
    found = beam_search(
        model, PROMPT, n_new, n_beams=V**n_new, n_best=20, stop=6, alpha=alpha, divisor=divisor,
        early_stopping="never", **KINDS[kind],
    )  # fmt: skip
    for b in range(B):
        texts = every_text(kind, b, n_new, 6)
        expected = sorted(((p / DIVISORS[divisor](n, alpha), n, x) for p, n, x in texts))[:-21:-1]
        scores, lengths, tokens = zip(*expected, strict=True)
        assert found.scores[b].tolist() == pytest.approx(scores, abs=1e-12)
        assert found.lengths[b].tolist() == list(lengths)
        assert found.tokens[b].tolist() == list(tokens)


def plain_beam_search(model, prompt, n_new, k, stop, alpha):
    """One prompt, in words, without a cache; (score, tokens) of the finished ones."""
    limit = 11 if isinstance(model, TransformerLM) else 99
    beams, finished = [(0.0, prompt)], []
    for n in range(1, n_new + 1):
        extended = []
        for total, tokens in beams:
            with torch.no_grad():
                log_probs = model(torch.tensor([tokens[-limit:]]))[0, -1].log_softmax(-1).tolist()
            extended += [(total + x, [*tokens, i]) for i, x in enumerate(log_probs)]
        extended.sort(reverse=True)
        ends = [n == n_new or tokens[-1] == stop for _, tokens in extended]
        finished += [
            (p / n**alpha, x) for (p, x), e in zip(extended[:k], ends[:k], strict=True) if e
        ]
        finished = sorted(finished, reverse=True)[:k]
        beams = [pair for pair, end in zip(extended, ends, strict=True) if not end][:k]
        best = beams[0][0] / n**alpha if beams else -math.inf
        if len(finished) == k and best <= finished[-1][0]:
            break
    return finished


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["recurrent", "decoder"]),
    st.integers(1, 5),
    st.integers(1, 13),
    st.sampled_from([0.0, 1.0, -0.5]),
    st.sampled_from([None, 2, 6]),
    st.booleans(),
)
def test_it_is_what_a_plain_loop_finds_also_past_the_context(kind, k, n_new, alpha, stop, cache):
    model = make(kind)
    found = beam_search(
        model, PROMPT, n_new, n_beams=k, n_best=k, stop=stop, alpha=alpha, cache=cache
    )
    for b, row in enumerate(PROMPT.tolist()):
        expected = plain_beam_search(model, row, n_new, k, stop, alpha)
        n = len(expected)
        assert found.scores[b, :n].tolist() == pytest.approx([p for p, _ in expected], abs=1e-12)
        assert found.scores[b, n:].isneginf().all()
        got = zip(found.tokens[b].tolist(), found.lengths[b].tolist(), strict=True)
        assert [x[: T + m] for x, m in got][:n] == [x for _, x in expected]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("position", ["learned", "alibi", "relative"])
def test_a_cache_changes_no_text_even_past_the_context(kind, position):
    model = make(kind, position)
    n_new = 8 if kind == "encoder-decoder" else 14
    found = [
        beam_search(model, PROMPT, n_new, n_beams=4, n_best=3, stop=2, alpha=1.0, cache=cache,
                    **KINDS[kind])
        for cache in (True, False)
    ]  # fmt: skip
    assert torch.equal(found[0].tokens, found[1].tokens)
    assert_close(found[0].scores, found[1].scores, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_of_a_batch_are_searched_as_one_by_one(kind):
    model, options = make(kind), {"n_beams": 4, "n_best": 2, "stop": 2, "alpha": 0.6}
    together = beam_search(model, PROMPT, 8, **options, **KINDS[kind])
    for b in range(B):
        given = {name: x[b : b + 1] for name, x in KINDS[kind].items()}
        alone = beam_search(model, PROMPT[b : b + 1], 8, **options, **given)
        n = alone.tokens.shape[-1]
        assert torch.equal(together.tokens[b, :, :n], alone.tokens[0])
        assert_close(together.scores[b], alone.scores[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_one_beam_is_greedy_text_with_its_probability(kind):
    model = make(kind)
    found = beam_search(model, PROMPT, 8, n_beams=1, **KINDS[kind])
    assert torch.equal(found.tokens[:, 0], generate(model, PROMPT, 8, temperature=0, **KINDS[kind]))
    text, given = found.tokens[:, 0], KINDS[kind].values()
    source, mask = (SOURCE,) if given else (), (SOURCE_MASK,) if given else ()
    log_probs = model(*source, text[:, :-1], *mask).log_softmax(-1)
    total = log_probs.gather(-1, text[:, 1:, None])[:, T - 1 :, 0].sum(1)
    assert_close(found.scores[:, 0], total.detach(), rtol=0, atol=1e-12)


def test_the_longer_text_wins_by_one_formula_and_the_shorter_by_the_other():
    """Scores −4 for 4 tokens and −4.6 for 6, alpha = 0.6."""
    by = {name: (-4 / divide(4, 0.6), -4.6 / divide(6, 0.6)) for name, divide in DIVISORS.items()}
    assert by["n**alpha"][0] < by["n**alpha"][1]
    assert by["((5+n)/6)**alpha"][0] > by["((5+n)/6)**alpha"][1]


# transformers


SIZES = {
    "gpt2": ("GPT2LMHeadModel", dict(n_embd=20, n_layer=2, n_head=5, n_positions=31)),
    "llama": ("LlamaForCausalLM", dict(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        intermediate_size=37, max_position_embeddings=31)),
    "t5": ("T5ForConditionalGeneration", dict(
        d_model=24, d_kv=5, d_ff=37, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
        relative_attention_max_distance=11)),
}  # fmt: skip
THEIR_V, START, PAD, STOPS = 53, 0, 1, list(range(3, 53, 5))


@pytest.fixture(scope="module", params=SIZES)
def pair(request, transformers):
    """(ours, theirs), of equal random weights."""
    name, sizes = SIZES[request.param]
    ends = {"bos_token_id": START, "eos_token_id": STOPS, "pad_token_id": PAD}
    kind = getattr(transformers, name)
    config = kind.config_class(
        vocab_size=THEIR_V, **sizes, **ends, decoder_start_token_id=START
    )  # fmt: skip
    torch.manual_seed(6)
    theirs = kind(config).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            nn.init.normal_(parameter, std=0.25)
            if parameter.ndim == 1:
                parameter.add_(1)
    ours = EncoderDecoder if request.param == "t5" else TransformerLM
    ours = ours(config_from(config, request.param)).double().eval()
    load(ours, theirs.state_dict(), request.param)
    return ours, theirs


@pytest.mark.parametrize("alpha", [0.0, 1.0, 1.5, -1.0])
@pytest.mark.parametrize("early_stopping", [False, True, "never"])
def test_ids_and_scores_are_those_of_transformers(pair, alpha, early_stopping):
    ours, theirs = pair
    settings = {"num_beams": 4, "num_return_sequences": 4, "length_penalty": alpha,
                "early_stopping": early_stopping, "max_new_tokens": 13, "do_sample": False,
                "return_dict_in_generate": True, "output_scores": True}  # fmt: skip
    mask = torch.ones_like(THEIR_PROMPT)
    expected = theirs.generate(THEIR_PROMPT, attention_mask=mask, **settings)
    tokens, scores, lengths = search(ours, alpha, early_stopping)
    padding = (
        torch.arange(tokens.shape[-1]) >= tokens.shape[-1] - lengths.max() + lengths[..., None]
    )
    assert torch.equal(tokens.masked_fill(padding, PAD).flatten(0, 1), expected.sequences)
    theirs_scores = expected.sequences_scores.double()  # they add up in single precision
    assert_close(scores.flatten(), theirs_scores, rtol=2e-6, atol=2e-6)


THEIR_PROMPT = torch.randint(THEIR_V, (7, 4), generator=torch.Generator().manual_seed(4))


def search(ours, alpha, early_stopping):
    prompt, given = THEIR_PROMPT, {}
    if isinstance(ours, EncoderDecoder):
        prompt, given = torch.full((7, 1), START), {"source": THEIR_PROMPT}
    return beam_search(
        ours, prompt, 13, n_beams=4, n_best=4, alpha=alpha, stop=STOPS,
        early_stopping=early_stopping, **given,
    )  # fmt: skip


def test_the_ways_to_stop_differ_on_these_models(pair):
    """So the test above can tell them apart."""
    sums = [search(pair[0], 1.0, early).scores.sum() for early in (True, False, "never")]
    assert sums[0] < sums[1] < sums[2]
    assert (search(pair[0], 0.0, False).lengths < 13).any()


# What stays as it is, what is refused


def test_modes_and_gradients_are_left_as_they_were():
    model = make("decoder").train()
    found = beam_search(model, PROMPT, 4, n_beams=2)
    assert model.training
    assert found.tokens.dtype == torch.int64
    model(found.tokens[:, 0]).sum().backward()  # an inference tensor could not be


def test_texts_come_back_on_the_device_of_the_prompt(device):
    given = {name: x.to(device) for name, x in KINDS["encoder-decoder"].items()}
    found = beam_search(make("encoder-decoder").to(device), PROMPT.to(device), 6, n_beams=3,
                        stop=2, **given)  # fmt: skip
    expected = beam_search(make("encoder-decoder"), PROMPT, 6, n_beams=3, stop=2,
                           **KINDS["encoder-decoder"])  # fmt: skip
    assert found.tokens.device.type == device
    assert torch.equal(found.tokens.cpu(), expected.tokens)
    assert_close(found.scores.cpu(), expected.scores)


def test_where_there_are_fewer_texts_than_beams_the_rest_have_no_probability():
    class Two(nn.Module):
        def forward(self, tokens):
            return torch.zeros(*tokens.shape, 2)

    found = beam_search(Two(), torch.zeros(1, 1, dtype=torch.int64), 1, n_beams=5, n_best=5,
                        cache=False)  # fmt: skip
    assert found.scores[0, :2].tolist() == pytest.approx([-math.log(2)] * 2)
    assert found.scores[0, 2:].isneginf().all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_beams": 0}, ValueError, "n_beams must be at least 1, got 0"),
        ({"n_best": 4}, ValueError, "n_best must be at least 1 and at most 3, got 4"),
        ({"n_new": 0}, ValueError, "n_new must be at least 1, got 0"),
        ({"alpha": "1"}, TypeError, "alpha must be a number, got '1'"),
        ({"divisor": "n"}, ValueError, r"divisor must be one of n\*\*alpha, .*, got 'n'"),
        ({"early_stopping": "always"}, ValueError, "one of True, False, never, got 'always'"),
        ({"stop": V}, ValueError, r"stop must be ids below 7, got \[7\]"),
        ({"prompt": PROMPT[0]}, ValueError, r"prompt must be \(B, T\)"),
        ({"model": nn.Identity()}, TypeError, r"Identity has no new_cache\(\)"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, message):
    with pytest.raises(error, match=message):
        beam_search(
            **{"model": make("decoder"), "prompt": PROMPT, "n_new": 3, "n_beams": 3} | change
        )
