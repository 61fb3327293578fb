"""Beam search and best-first search find what enumeration finds; beam search is transformers'."""

import itertools
import math
from collections import defaultdict
from functools import cache

import pytest
import torch
from comparing import Fixed, close, randomised, up_to
from torch import nn
from unrolled.generation.generate import generate
from unrolled.generation.search import DIVISORS, beam_search, exact_mode
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.pretrained import config_from, load
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

B, T, S, V, STOP, CONTEXT = 3, 2, 5, 5, 4, 11
DTYPE = torch.float64
PROMPT = torch.tensor([[1, 0], [4, 2], [3, 3]])
SOURCE = torch.tensor([[3, 2, 4, 1, 1], [0, 0, 3, 4, 1], [2, 0, 4, 1, 3]])
SOURCE_MASK = up_to(5, 3, 4, width=S)
FROM_SOURCE = {"source": SOURCE, "source_mask": SOURCE_MASK}
KINDS = {"recurrent": {}, "decoder": {}, "encoder-decoder": FROM_SOURCE}
every_kind = pytest.mark.parametrize("kind", KINDS)
START_TEXT = torch.zeros(1, 1, dtype=torch.int64)


def make(kind, position="rotary", seed=0):
    torch.manual_seed(seed)
    config = TransformerConfig(vocab_size=V, d_model=12, n_layers=2, n_heads=3,
                               context_length=CONTEXT, position=position)  # fmt: skip
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


def fixed(*probs, **options) -> Fixed:
    return Fixed(torch.tensor(probs).log(), **options)


def test_a_search_that_never_stops_early_judges_by_the_length_that_is_best_for_a_text():
    """With an alpha below 0 by the present one: $ has 0.3, a$ 0.24; aa, still open, has 0.36, and
    ends next: better than a$. Judged by the 20 tokens that it might get, it would look worse.
    With one above 0 by the 20: b has 0.35 now, less than $, but ends with more per token.
    """
    ends = defaultdict(lambda: [0.0, 0.0, 1.0])
    options = {"stop": 2, "cache": False, "early_stopping": "never"}
    for alpha, n, probs, expected in (
        (-0.3, 2, {"": [0.6, 0.1, 0.3], "a": [0.6, 0.0, 0.4]}, ((0.3, 1), (0.36, 3))),
        (0.5, 1, {"": [0.25, 0.35, 0.4]}, ((0.35, 2),)),
    ):
        found = beam_search(
            Tree(ends | probs), START_TEXT, 20, n_beams=n, n_best=n, alpha=alpha, **options
        )
        assert found.lengths.tolist() == [[length for _, length in expected]]
        nats = [math.log(p) / length**alpha for p, length in expected]
        assert found.scores[0].tolist() == pytest.approx(nats)


def test_the_exact_mode_for_the_hand():
    """Stop at once: 0.3. Write 0 three times: 0.6³ = 0.216, though greedy text writes it."""
    options = {"stop": 2, "cache": False}
    found = exact_mode(fixed(0.6, 0.1, 0.3), START_TEXT, 3, **options)
    assert found.tokens.tolist() == [[0, 2]]
    assert found.log_prob == pytest.approx(math.log(0.3))
    assert found.n_reads == 3  # nothing, 0 (0.6), 00 (0.36); then 2 (0.3) is whole
    fits = fixed(0.7, 0.1, 0.2, context_length=3)  # nobody reads the last token
    assert exact_mode(fits, START_TEXT, 3, **options).tokens.tolist() == [[0, 0, 0, 0]]
    found = exact_mode(fixed(0.5, 0.5, 0.0), START_TEXT, 2, cache=False)
    assert found.tokens.tolist() == [[0, 0, 0]]  # of equal ones the first


@cache
def every_text(kind, b, n_new):
    """(log-probability, length, tokens) of every text there is, for prompt b; read all at once."""
    model, found = make(kind), []
    new = torch.tensor(list(itertools.product(range(V), repeat=n_new)))
    tokens = torch.cat([PROMPT[b].expand(len(new), T), new], 1)
    given = [x[b].expand(len(new), S) for x in KINDS[kind].values()]
    with torch.no_grad():
        logits = model(*given[:1], tokens[:, :-1], *given[1:])
    log_probs = logits.log_softmax(-1)[:, T - 1 :].gather(2, new[..., None])[..., 0]
    for text, row, nats in zip(tokens.tolist(), new.tolist(), log_probs, strict=True):
        n = row.index(STOP) + 1 if STOP in row else n_new
        if row[n:] == [STOP] * (n_new - n):
            found.append((nats[:n].sum().item(), n, text))
    return found


@every_kind
@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_with_as_many_beams_as_texts_beam_search_is_enumeration(kind, divisor, alpha):
    n_new = 3
    found = beam_search(
        make(kind), PROMPT, n_new, n_beams=V**n_new, n_best=20, stop=STOP, alpha=alpha,
        divisor=divisor, early_stopping="never", **KINDS[kind],
    )  # fmt: skip
    for b in range(B):
        texts = every_text(kind, b, n_new)
        expected = sorted(((p / DIVISORS[divisor](n, alpha), n, x) for p, n, x in texts))[:-21:-1]
        scores, lengths, tokens = zip(*expected, strict=True)
        assert found.scores[b].tolist() == pytest.approx(scores, abs=1e-12)
        assert found.lengths[b].tolist() == list(lengths)
        assert found.tokens[b].tolist() == list(tokens)


@every_kind
@pytest.mark.parametrize("cache", [True, False])
def test_the_exact_mode_is_the_best_of_all_texts(kind, cache, device):
    model = make(kind).to(device).train()
    for b in range(B):
        given = {name: x[b : b + 1].to(device) for name, x in KINDS[kind].items()}
        prompt = PROMPT[b : b + 1].to(device)
        found = exact_mode(model, prompt, 4, stop=STOP, cache=cache, **given)
        nats, n, text = max(every_text(kind, b, 4))
        assert found.log_prob == pytest.approx(nats, abs=1e-12)
        assert (found.tokens.tolist(), found.tokens.device.type) == ([text[: T + n]], device)
        assert 1 <= found.n_reads < (V**4 - 1) // (V - 1)  # fewer than all beginnings
    assert model.training


def test_a_mode_that_cannot_be_found_says_how_far_it_came():
    with pytest.raises(RuntimeError, match=r"after 5 reads a text may have up to -2\.4"):
        exact_mode(fixed(0.3, 0.3, 0.2, 0.2), PROMPT[:1], 20, max_reads=5, cache=False)


@pytest.mark.parametrize(
    ("kind", "position"),
    [("recurrent", "none"), *itertools.product([*KINDS][1:], ["learned", "alibi", "relative"])],
)
def test_no_cache_batch_or_device_changes_a_text_even_past_the_context(kind, position, device):
    model, n_new = make(kind, position), 8 if kind == "encoder-decoder" else 14
    options = {"n_beams": 4, "n_best": 3, "stop": 2, "alpha": 1.0}
    found = beam_search(model, PROMPT, n_new, **options, **KINDS[kind])
    model, prompt = model.to(device), PROMPT.to(device)
    given = {name: x.to(device) for name, x in KINDS[kind].items()}
    without = beam_search(model, prompt, n_new, **options, cache=False, **given)
    assert without.tokens.device.type == device
    assert torch.equal(found.tokens, without.tokens.cpu())
    close(found.scores, without.scores.cpu(), 1e-10)
    for b in range(B):
        here = {name: x[b : b + 1] for name, x in given.items()}
        alone = beam_search(model, prompt[b : b + 1], n_new, **options, **here)
        n = alone.tokens.shape[-1]
        assert torch.equal(found.tokens[b, :, :n], alone.tokens[0].cpu())
        close(found.scores[b], alone.scores[0].cpu(), 1e-10)


@every_kind
def test_one_beam_is_greedy_text_with_its_probability_and_may_be_trained_on(kind):
    model, n_new = make(kind).train(), 14 if kind == "recurrent" else 9
    found = beam_search(model, PROMPT, n_new, n_beams=1, **KINDS[kind])
    text, given = found.tokens[:, 0], [*KINDS[kind].values()]
    assert torch.equal(text, generate(model, PROMPT, n_new, temperature=0, **KINDS[kind]))
    assert model.training
    assert text.dtype == torch.int64
    log_probs = model.eval()(*given[:1], text[:, :-1], *given[1:]).log_softmax(-1)
    total = log_probs.gather(-1, text[:, 1:, None])[:, T - 1 :, 0].sum(1)
    close(found.scores[:, 0], total.detach())
    if kind == "decoder":  # past the context as well
        text = beam_search(model, PROMPT, 14, n_beams=1).tokens[:, 0]
        assert torch.equal(text, generate(model, PROMPT, 14, temperature=0, cache=False))
    total.sum().backward()  # an inference tensor could not be


def test_the_longer_text_wins_by_one_formula_and_the_shorter_by_the_other():
    """Scores −4 for 4 tokens and −4.6 for 6, alpha = 0.6."""
    by = {name: (-4 / divide(4, 0.6), -4.6 / divide(6, 0.6)) for name, divide in DIVISORS.items()}
    assert by["n**alpha"][0] < by["n**alpha"][1]
    assert by["((5+n)/6)**alpha"][0] > by["((5+n)/6)**alpha"][1]


THEIR_V, START, PAD, STOPS = 53, 0, 1, list(range(3, 53, 5))
THEIR_PROMPT = torch.randint(THEIR_V, (7, 4), generator=torch.Generator().manual_seed(4))


@pytest.fixture(scope="module")
def pair(transformers):
    """(ours, theirs), a GPT-2 of equal random weights."""
    config = transformers.GPT2Config(vocab_size=THEIR_V, n_embd=20, n_layer=2, n_head=5,
                                     n_positions=31, bos_token_id=START, eos_token_id=STOPS,
                                     pad_token_id=PAD)  # fmt: skip
    torch.manual_seed(6)
    theirs = randomised(transformers.GPT2LMHeadModel(config).double().eval(), 0.25)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(parameter.ndim == 1)
    ours = TransformerLM(config_from(config, "gpt2")).double().eval()
    load(ours, theirs.state_dict(), "gpt2")
    return ours, theirs


@pytest.mark.parametrize("alpha", [0.0, 1.5, -1.0])
def test_ids_and_scores_are_those_of_transformers_however_a_search_stops(pair, alpha):
    ours, theirs = pair
    sums, mask = [], torch.ones_like(THEIR_PROMPT)
    for early_stopping in (True, False, "never"):
        settings = {"num_beams": 4, "num_return_sequences": 4, "length_penalty": alpha,
                    "early_stopping": early_stopping, "max_new_tokens": 13, "do_sample": False,
                    "return_dict_in_generate": True, "output_scores": True}  # fmt: skip
        expected = theirs.generate(THEIR_PROMPT, attention_mask=mask, **settings)
        tokens, scores, lengths = beam_search(
            ours, THEIR_PROMPT, 13, n_beams=4, n_best=4, alpha=alpha, stop=STOPS,
            early_stopping=early_stopping,
        )  # fmt: skip
        n_before = tokens.shape[-1] - lengths.max()
        padding = torch.arange(tokens.shape[-1]) >= n_before + lengths[..., None]
        assert torch.equal(tokens.masked_fill(padding, PAD).flatten(0, 1), expected.sequences)
        ratio = scores.flatten() / expected.sequences_scores.double()  # they add up in float32
        close(ratio, torch.ones(28), 2e-6)
        sums.append(scores.sum())
        assert alpha or (lengths < 13).any()
    assert alpha != 1.5 or sums[0] < sums[1] < sums[2]  # the ways to stop can be told apart


def test_where_there_are_fewer_texts_than_beams_the_rest_have_no_probability():
    found = beam_search(fixed(0.5, 0.5), START_TEXT, 1, n_beams=5, n_best=5, cache=False)
    assert found.scores[0, :2].tolist() == pytest.approx([-math.log(2)] * 2)
    assert found.scores[0, 2:].isneginf().all()


@pytest.mark.parametrize(
    ("search", "change", "message"),
    [
        (beam_search, {"n_best": 4}, "n_best must be at least 1 and at most 3, got 4"),
        (beam_search, {"stop": V}, r"stop must be ids below 5, got \[5\]"),
        (exact_mode, {"prompt": PROMPT}, r"prompt must be one, \(1, T\), got \(3, 2\)"),
        (exact_mode, {"n_new": CONTEXT}, r"2 \+ 11 tokens do not fit into the context of 11"),
    ],
)
def test_what_does_not_fit_is_refused(search, change, message):
    given = {"model": make("decoder"), "prompt": PROMPT[:1], "n_new": 3}
    given |= {"n_beams": 3} if search is beam_search else {}
    with pytest.raises(ValueError, match=message):
        search(**given | change)
