"""Filters and penalties: the plain loop, the library transformers, ties, and cases by hand."""

import math

import pytest
import torch
from comparing import close
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from unrolled.generation import samplers

B, T, V = 3, 7, 13
DTYPE = torch.float64
GONE = -math.inf
FILTERS = {name: getattr(samplers, f"{name}_filter") for name in ("top_k", "top_p", "min_p")}
FILTERS["typical_p"] = samplers.typical_filter


def keep(logits, **options):
    """Filters in the order given."""
    for name, value in options.items():
        logits = FILTERS[name](logits, value)
    return logits


def kept(probs, **options):
    """The ids that stay, of a distribution."""
    return keep(torch.as_tensor(probs).log(), **options).isfinite().nonzero()[:, 0].tolist()


def random_logits(seed, n, *, ties=False):
    """(2, 3, n); with ties most of them stand several times."""
    logits = 3 * torch.randn(2, 3, n, generator=torch.Generator().manual_seed(seed))
    return logits.round() if ties else logits


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_mass_at_the_mark_is_not_below_it_whatever_the_rounding(dtype):
    """0.6 + 0.3 is 0.8999… in floats, and softmax of logarithms rounds as well."""
    for probs, mark, expected in (
        ((0.6, 0.3, 0.1), 0.9, 2), ((0.5, 0.41, 0.09), 0.9, 2), ((0.1,) * 10, 0.7, 7),
        ((0.7, 0.2, 0.1), 0.9, 2), ((0.5, 0.25, 0.25), 0.75, 2),
    ):  # fmt: skip
        assert kept(torch.tensor(probs, dtype=dtype), top_p=mark) == [*range(expected)]
    assert kept([0.9, 0.09, 0.01], min_p=0.1) == [0, 1]  # 0.1 · 0.9 is above 0.09 in floats
    for name in ("top_p", "typical_p"):  # a tail far below rounding is not cut by a mass of one
        logits = torch.tensor([0.0, -30.0, -50.0], dtype=dtype)
        assert keep(logits, **{name: 1.0}).isfinite().all()


def plain_filter(logits, name, value):
    """Probabilities after a filter, in words: sort, count, add up, stop, divide."""
    total = sum(math.exp(x) for x in logits)
    probs = [math.exp(x) / total for x in logits]
    order = sorted(range(len(probs)), key=lambda i: -probs[i])
    if name == "typical_p":
        entropy = -sum(p * math.log(p) for p in probs if p)
        order = sorted(range(len(probs)), key=lambda i: abs(-math.log(probs[i]) - entropy))
    chosen, mass = [], 0.0
    for i in order:
        if name == "min_p" and probs[i] < value * max(probs) - 1e-12:
            break
        chosen.append(i)
        mass += probs[i]
        if len(chosen) == value if name == "top_k" else name != "min_p" and mass >= value - 1e-12:
            break
    return [probs[i] / sum(probs[j] for j in chosen) * (i in chosen) for i in range(len(probs))]


@given(
    st.integers(0, 2**31), st.integers(1, 13), st.sampled_from(list(FILTERS)),
    st.floats(0.01, 0.99), st.booleans(),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
@example(seed=0, n=13, name="top_k", share=0.99, ties=False)
def test_what_is_kept_is_what_the_plain_loop_and_transformers_keep(
    transformers, seed, n, name, share, ties
):
    """Of equal tokens at the mark we keep the first; transformers keeps at least as many, of the
    same values, and as many by top-p and min-p."""
    value = math.ceil(15 * share) if name == "top_k" else share
    logits = random_logits(seed, n, ties=ties).flatten(0, 1)
    before, filtered = logits.clone(), keep(logits, **{name: value})
    kind = {"top_k": "TopK", "top_p": "TopP", "min_p": "MinP", "typical_p": "Typical"}[name]
    theirs = getattr(transformers, f"{kind}LogitsWarper")(value)(None, logits)
    plain = torch.tensor([plain_filter(row, name, value) for row in logits.tolist()])
    ours, others = filtered.isfinite(), theirs.isfinite()
    # distances from the entropy may tie by rounding
    assume(not ties or name != "typical_p" or torch.equal(ours, plain > 0))
    assert torch.equal(logits, before)
    assert torch.equal(filtered[ours], logits[ours])
    close(filtered.softmax(-1), plain)
    if not ties:
        close(filtered.softmax(-1), theirs.softmax(-1))
    for row, mine, other in zip(logits, ours, others, strict=True):
        assert set(row[mine].tolist()) == set(row[other].tolist())
        for x in row.unique():
            stays = mine[row == x].tolist()
            assert stays == sorted(stays, reverse=True)  # the first of equal ones
    assert (ours.sum(-1) <= others.sum(-1)).all()
    assert name not in ("top_p", "min_p") or torch.equal(ours.sum(-1), others.sum(-1))


@given(st.integers(0, 2**31), st.floats(0.1, 5), st.integers(1, 4), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_temperature_and_penalties_are_those_of_transformers(
    transformers, seed, value, size, length
):
    rng = torch.Generator().manual_seed(seed)
    tokens = torch.randint(17, (3, length), generator=rng).remainder(4)
    logits = torch.randn(3, 17, generator=rng)
    theirs = transformers.TemperatureLogitsWarper(value)(None, logits)
    ours = samplers.divide_by_temperature(logits, value)
    close(ours.softmax(-1), theirs.softmax(-1))
    theirs = transformers.RepetitionPenaltyLogitsProcessor(value)(tokens, logits)
    close(
        samplers.penalise_repetition(logits, samplers.token_counts(tokens, 17) > 0, value),
        theirs,
        0,
    )
    theirs = transformers.NoRepeatNGramLogitsProcessor(size)(tokens, logits.clone())
    close(samplers.no_repeat_ngram_filter(logits, tokens, size), theirs, 0)


def test_all_together_act_in_the_order_of_transformers(transformers):
    rng = torch.Generator().manual_seed(0)
    logits, tokens = 3 * torch.randn(B, V, generator=rng), torch.randint(V, (B, T), generator=rng)
    options = dict(
        repetition_penalty=1.4, temperature=1.7, top_k=11, top_p=0.9, min_p=0.05, typical_p=0.8
    )
    sampling = samplers.Sampling(**options)
    ours = sampling.probs(sampling.penalise(logits, tokens, tokens < 0))
    processors = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=V, n_embd=2, n_layer=1, n_head=1)
    )._get_logits_processor(transformers.GenerationConfig(do_sample=True, **options), T)
    assert len(processors) == len(options)
    theirs = processors(tokens, logits)
    close(ours, theirs.softmax(-1))
    assert 1 < (ours > 0).sum(-1).min() < V


def test_a_token_that_was_impossible_stays_so():
    logits = torch.tensor([GONE, 1.0, GONE, 0.0, 0.5])
    for options in ({"top_k": 4}, {"top_p": 0.999}, {"min_p": 0.0}, {"typical_p": 0.999}):
        assert keep(logits, **options).isfinite().tolist() == [False, True, False, True, True]
    assert samplers.penalise_repetition(logits, logits > GONE, 2.0)[0] == GONE


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_sums_are_taken_in_single_precision_at_least(dtype):
    logits = torch.zeros(1000, dtype=dtype)  # a sum of halves would stop growing
    for name in ("top_p", "typical_p"):
        assert keep(logits, **{name: 0.5}).isfinite().sum() == 500
        assert keep(logits, **{name: 0.5}).dtype == dtype


def test_filters_act_on_the_device_of_the_logits(device):
    logits = random_logits(0, V).to(device)
    for name, value in {"top_k": 5, "top_p": 0.7, "min_p": 0.2, "typical_p": 0.7}.items():
        filtered = keep(logits, **{name: value})
        assert filtered.device.type == device
        assert torch.equal(filtered.cpu(), keep(logits.cpu(), **{name: value}))


def test_a_temperature_of_zero_is_a_distribution_as_well():
    logits = torch.tensor([[0.0, 2.0, 2.0], [3.0, 1.0, 3.0]])  # of two equal ones the first
    assert samplers.Sampling(temperature=0).probs(logits).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert samplers.Sampling(temperature=0).draw(logits).tolist() == [1, 0]
    with pytest.raises(ValueError, match="temperature must be above 0, got 0"):
        samplers.divide_by_temperature(logits, 0)
