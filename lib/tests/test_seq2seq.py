"""Recurrent translators: equal to a plain loop, blind to padding, readable in pieces."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from unrolled.generation.beam import beam_search
from unrolled.generation.generate import generate
from unrolled.models.seq2seq import QUERIES, SCORES, MemoryAttention, Seq2Seq
from unrolled.training.fit import FitConfig, fit
from unrolled_book.behaviour import (
    BehaviourError,
    check_causal,
    check_permutation,
    check_source,
)

VS, VT, D, H, B, S, T = 13, 11, 5, 6, 3, 7, 4
KINDS = [(None, "current"), *itertools.product(SCORES, QUERIES)]
ALL = pytest.mark.parametrize(("score", "query"), KINDS)
RNG = torch.Generator().manual_seed(3)
SOURCE = torch.randint(VS, (B, S), generator=RNG)
TARGET = torch.randint(VT, (B, T), generator=RNG)
MASK = torch.arange(S) < torch.tensor([[S], [3], [1]])


def model(score=None, query="current", **options) -> Seq2Seq:
    """In float64, every parameter a random number."""
    torch.manual_seed(0)
    sizes = {"embedding_dim": D, "hidden_size": H}
    built = Seq2Seq(VS, VT, attention=score, query=query, **sizes | options).double()
    for parameter in built.parameters():
        nn.init.normal_(parameter, std=0.5)
    return built


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=RNG)


def attention(score: str, Q: int = 5, M: int = 5, **options) -> MemoryAttention:
    built = MemoryAttention(Q, M, score, **options).double()
    for parameter in built.parameters():
        nn.init.normal_(parameter)
    return built


# Scores and contexts.


def test_a_step_worked_by_hand():
    ours = MemoryAttention(2, 2, "dot").double()
    memory = torch.tensor([[[0.0, 3.0], [1.0, 0.0], [2.0, 6.0]]], dtype=torch.float64)
    query = torch.tensor([[[2.0, 0.0]]], dtype=torch.float64).log().clamp(min=0)  # (ln 2, 0)
    context, weights = ours(query, memory)
    assert_close(weights[0, 0], torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64) / 7)
    assert_close(context[0, 0], torch.tensor([10.0, 27.0], dtype=torch.float64) / 7)


def test_bilinear_scores_are_those_of_torchs_bilinear_layer():
    ours, theirs = attention("bilinear", 5, 3), nn.Bilinear(5, 3, 1, bias=False).double()
    theirs.weight.data[0] = ours.query.weight.T
    query, memory = random(B, T, 5), random(B, S, 3)
    pairs = (
        query[:, :, None].expand(-1, -1, S, -1).contiguous(),
        memory[:, None].expand(-1, T, -1, -1).contiguous(),
    )
    assert_close(ours.scores(query, ours.key(memory)), theirs(*pairs)[..., 0], rtol=0, atol=1e-12)


def test_additive_scores_are_those_of_a_network_on_both_side_by_side():
    ours = attention("additive", 5, 3, width=7)
    net = nn.Sequential(nn.Linear(8, 7, bias=False), nn.Tanh(), nn.Linear(7, 1, bias=False))
    net = net.double()
    net[0].weight.data = torch.cat([ours.query.weight, ours.key.weight], 1)
    net[2].weight.data = ours.v[None]
    query, memory = random(B, T, 5), random(B, S, 3)
    both = torch.cat(
        [query[:, :, None].expand(-1, -1, S, -1), memory[:, None].expand(-1, T, -1, -1)], -1
    )
    assert_close(ours.scores(query, ours.key(memory)), net(both)[..., 0], rtol=0, atol=1e-12)


def test_keras_itself_gave_these_numbers():
    """Weights and contexts by keras.layers.AdditiveAttention, Keras 3.15.1 on torch.

    It adds what it is given, so query @ W.T and memory @ U.T went in, and v was its scale. Its
    contexts come in single precision.
    """
    ours = MemoryAttention(2, 3, "additive", width=4).double()

    def wave(*shape):
        return torch.arange(1.0, 1 + math.prod(shape), dtype=torch.float64).sin().reshape(shape)

    ours.query.weight.data, ours.key.weight.data, ours.v.data = wave(4, 2), wave(4, 3), wave(4)
    mask = torch.tensor([[True, True, True, False]])
    contexts, weights = ours(wave(1, 2, 2), wave(1, 4, 3), mask)
    expected = [
        [0.343538943266, 0.276348463585, 0.380112593149, 0.0],
        [0.448793487808, 0.109266172423, 0.441940339770, 0.0],
    ]
    assert_close(weights[0], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)
    expected = [[0.329665690, 0.423449308, 0.127915591], [0.585302651, 0.740546107, 0.214934856]]
    assert_close(contexts[0].float(), torch.tensor(expected), rtol=0, atol=1e-7)


def test_with_dot_products_it_is_torchs_attention_without_the_divisor():
    query, memory = random(B, T, 5), random(B, S, 5)
    context, _ = attention("dot")(query, memory, MASK)
    expected = F.scaled_dot_product_attention(query, memory, memory, MASK[:, None], scale=1.0)
    assert_close(context, expected, rtol=0, atol=1e-12)


@given(st.sampled_from(SCORES), st.integers(1, 5), st.integers(1, 6), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_contexts_are_weighted_means_of_what_the_mask_allows(score, n_queries, size, seed):
    torch.manual_seed(seed)
    ours, query, memory = attention(score), random(2, n_queries, 5), random(2, size, 5)
    mask = torch.rand(2, n_queries, size) < 0.6
    context, weights = ours(query, memory, mask)
    assert not weights[~mask].any()
    assert_close(weights.sum(-1), mask.any(-1).double())
    assert_close(context, torch.einsum("bts,bsm->btm", weights, memory), rtol=0, atol=1e-12)
    again = ours(query, memory, mask, keys=ours.key(memory))
    assert torch.equal(again[0], context)


@pytest.mark.parametrize("score", SCORES)
def test_a_query_that_may_attend_to_nothing_gets_zeros_and_finite_gradients(score):
    ours, query, memory = attention(score), random(2, T, 5), random(2, S, 5)
    query.requires_grad_(), memory.requires_grad_()
    mask = torch.tensor([[True] * S, [False] * S])
    context, weights = ours(query, memory, mask)
    assert not context[1].any()
    assert not weights[1].any()
    context.sum().backward()
    assert query.grad.isfinite().all()
    assert not memory.grad[1].any()


@pytest.mark.parametrize("score", SCORES)
def test_gradients_of_each_score_agree_with_finite_differences(score):
    ours = attention(score)
    names = [name for name, _ in ours.named_parameters()]
    given = [p.detach().clone().requires_grad_() for p in ours.parameters()]
    inputs = random(1, 2, 5).requires_grad_(), random(1, 3, 5).requires_grad_()

    def run(query, memory, *parameters):
        weights = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(ours, weights, (query, memory))

    assert torch.autograd.gradcheck(run, (*inputs, *given))


@pytest.mark.parametrize("score", SCORES)
def test_the_weights_move_with_the_rows_of_the_memory(score):
    ours, query = attention(score), random(2, T, 5)
    check_permutation(lambda memory: ours(query, memory)[1].mT, random(2, S, 5))


def test_weights_that_never_look_at_the_memory_do_not_move():
    place, query = nn.Linear(5, S).double(), random(2, T, 5)
    with pytest.raises(BehaviourError, match="change places"):
        check_permutation(lambda memory: place(query).softmax(-1).mT, random(2, S, 5))


# The whole.


def by_loop(m: Seq2Seq, source, target):
    """One sentence, one token at a time, from the parameters; GRU, one layer, two directions."""

    def run(cell, xs, h):
        states = []
        for x in xs:
            h = cell.step(x, h)
            states.append(h)
        return states, h

    forward, backward = m.encoder.cells
    xs = [m.source_embedding.weight[i] for i in source]
    zero = torch.zeros(H // 2, dtype=torch.float64)
    ahead, last = run(forward, xs, zero)
    behind, first = run(backward, xs[::-1], zero)
    memory = [torch.cat(pair) for pair in zip(ahead, behind[::-1], strict=True)]
    s, logits, all_weights = torch.cat([last, first]), [], []

    def look(s):
        a, scores = m.attention, []
        for h in memory:
            if a.score == "dot":
                scores.append(s @ h)
            elif a.score == "bilinear":
                scores.append(s @ a.query.weight.T @ h)
            else:
                scores.append(a.v @ (a.query.weight @ s + a.key.weight @ h).tanh())
        weights = torch.stack(scores).softmax(0)
        all_weights.append(weights)
        return sum(w * h for w, h in zip(weights, memory, strict=True))

    (cell,) = m.decoder.cells
    for i in target:
        y = m.target_embedding.weight[i]
        if m.attention is None:
            s = out = cell.step(y, s)
        elif m.previous:
            context = look(s)
            s = cell.step(torch.cat([y, context]), s)
            out = m.combine(torch.cat([s, context])).tanh()
        else:
            s = cell.step(y, s)
            out = m.combine(torch.cat([s, look(s)])).tanh()
        logits.append(m.head(out))
    return torch.stack(logits), all_weights


@ALL
@pytest.mark.parametrize("implementation", ["reference", "fused"])
def test_the_whole_is_a_plain_loop(score, query, implementation):
    ours = model(score, query, implementation=implementation)
    options = {} if score is None else {"return_weights": True}
    found = ours(SOURCE, TARGET, MASK, **options)
    logits, weights = (found, None) if score is None else found
    for b, n in enumerate(MASK.sum(1).tolist()):
        expected, their_weights = by_loop(ours, SOURCE[b, :n], TARGET[b])
        assert_close(logits[b], expected, rtol=0, atol=1e-12)
        if score is not None:
            assert_close(weights[b, :, :n], torch.stack(their_weights), rtol=0, atol=1e-12)
            assert not weights[b, :, n:].any()


@ALL
def test_what_stands_at_padding_changes_nothing(score, query):
    ours = model(score, query)
    expected = ours(SOURCE, TARGET, MASK)
    other = SOURCE.where(MASK, (SOURCE + 5) % VS)
    assert_close(ours(other, TARGET, MASK), expected, rtol=0, atol=1e-12)
    wider = F.pad(SOURCE, (0, 4)), TARGET, F.pad(MASK, (0, 4))
    assert_close(ours(*wider), expected, rtol=0, atol=1e-12)
    alone = ours(SOURCE[1:2, :3], TARGET[1:2])
    assert_close(expected[1:2], alone, rtol=0, atol=1e-12)


@ALL
def test_each_output_reads_the_whole_source_and_no_later_token(score, query):
    ours = model(score, query)
    check_source(ours, SOURCE, TARGET)
    check_causal(lambda target: ours(SOURCE, target), TARGET)


@pytest.mark.parametrize("cell", ["elman", "minimal", "lstm"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_other_cells_layers_and_one_direction_read_their_source(cell, bidirectional):
    ours = model("additive", "previous", cell=cell, n_layers=2, bidirectional=bidirectional)
    check_source(ours, SOURCE, TARGET)
    assert ours(SOURCE, TARGET, MASK).shape == (B, T, VT)


def test_a_reader_without_attention_hears_of_the_source_through_one_vector_only():
    ours = model(None)
    memory, c = ours.encode(SOURCE)
    assert memory.shape == (B, S, H)
    assert c.shape == (1, B, H)
    expected = ours.head(ours.decoder(ours.target_embedding(TARGET), c)[0])
    assert_close(ours(SOURCE, TARGET), expected, rtol=0, atol=1e-12)


def test_with_one_direction_the_decoder_begins_in_the_encoders_last_output():
    ours = model("dot", bidirectional=False)
    memory, c = ours.encode(SOURCE, MASK)
    lengths = MASK.sum(1)
    assert_close(c[0], memory[torch.arange(B), lengths - 1], rtol=0, atol=1e-12)


# In pieces, and as generation wants it.


@ALL
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_reading_in_pieces_gives_the_logits_of_reading_at_once(score, query, cell):
    ours = model(score, query, cell=cell, n_layers=2)
    expected = ours(SOURCE, TARGET, MASK)
    cache = ours.new_cache()
    first = ours(SOURCE, TARGET[:, :1], MASK, cache=cache)
    fork = cache.fork()
    ours(SOURCE, (TARGET[:, 1:] + 1) % VT, MASK, cache=fork)
    rest = ours(SOURCE, TARGET[:, 1:], MASK, cache=cache)
    assert (cache.length, fork.length) == (T, T)
    assert_close(torch.cat([first, rest], 1), expected, rtol=0, atol=1e-12)


@ALL
def test_chosen_rows_of_a_cache_go_on_as_if_they_had_been_read_alone(score, query):
    ours, rows = model(score, query), torch.tensor([2, 0, 2])
    cache = ours.new_cache()
    cache.select(rows)  # nothing was read yet
    ours(SOURCE, TARGET[:, :2], MASK, cache=cache)
    fork = cache.fork()
    fork.select(rows)
    expected = ours(SOURCE, TARGET, MASK)[:, 2:]
    found = ours(SOURCE[rows], TARGET[rows, 2:], MASK[rows], cache=fork)
    assert_close(found, expected[rows], rtol=0, atol=1e-12)
    assert_close(ours(SOURCE, TARGET[:, 2:], MASK, cache=cache), expected, rtol=0, atol=1e-12)


def test_a_source_is_read_once():
    ours = model("additive")
    cache, calls = ours.new_cache(), []
    ours.encoder.register_forward_hook(lambda *_: calls.append(1))
    for t in range(T):
        ours(SOURCE, TARGET[:, t : t + 1], MASK, cache=cache)
    assert len(calls) == 1


def test_a_detached_cache_sends_no_gradient_back():
    ours, found = model("bilinear"), []
    for cut in (False, True):
        cache = ours.new_cache()
        cache.detach()  # a new cache has nothing to cut
        ours(SOURCE, TARGET[:, :1], cache=cache)
        if cut:
            cache.detach()
        ours.zero_grad(set_to_none=True)
        ours(SOURCE, TARGET[:, 1:], cache=cache).logsumexp(-1).sum().backward()
        found.append(ours.source_embedding.weight.grad)
    assert found[0].any()
    assert found[1] is None


def test_a_refused_piece_leaves_the_cache_as_it_was():
    ours = model("dot")
    cache = ours.new_cache()
    ours(SOURCE, TARGET, cache=cache)
    before = cache.fork()
    with pytest.raises(ValueError, match="the state must have shape"):
        ours(SOURCE[:1], TARGET[:1], cache=cache)
    assert vars(cache) == vars(before)


@ALL
def test_generation_with_a_cache_writes_the_same_tokens_as_without(score, query):
    ours, start = model(score, query), torch.ones(B, 1, dtype=torch.int64)
    given = {"source": SOURCE, "source_mask": MASK, "stop": 2, "temperature": 0.0}
    cached = generate(ours, start, 9, **given)
    assert torch.equal(cached, generate(ours, start, 9, cache=False, **given))
    logits = ours(SOURCE, cached[:, :-1], MASK)
    for row, found in zip(cached[:, 1:].tolist(), logits.argmax(-1).tolist(), strict=True):
        stop = row.index(2) + 1 if 2 in row else len(row)
        assert row[:stop] == found[:stop]


@ALL
def test_beam_search_finds_the_likeliest_text_of_all(score, query):
    ours, start = model(score, query), torch.ones(B, 1, dtype=torch.int64)
    given = {"source": SOURCE, "source_mask": MASK}
    found = beam_search(ours, start, 3, n_beams=VT**2, **given)
    texts = torch.cartesian_prod(*[torch.arange(VT)] * 3)
    for b in range(B):
        source, mask = (x[b : b + 1].expand(len(texts), -1) for x in (SOURCE, MASK))
        inputs = F.pad(texts[:, :2], (1, 0), value=1)
        log_probs = (
            ours(source, inputs, mask).log_softmax(-1).gather(2, texts[..., None]).sum((1, 2))
        )
        assert found.tokens[b, 0, 1:].tolist() == texts[log_probs.argmax()].tolist()
        assert found.scores[b, 0].item() == pytest.approx(log_probs.max().item(), abs=1e-12)


# Training.


@pytest.mark.parametrize(("score", "query"), [(None, "current"), ("dot", "previous")])
def test_gradients_agree_with_finite_differences(score, query):
    ours = model(score, query)
    names = [name for name, _ in ours.named_parameters()]

    def loss(*parameters):
        inputs = SOURCE[:2, :3], TARGET[:2, :2], MASK[1:, :3]
        weights = dict(zip(names, parameters, strict=True))
        logits = torch.func.functional_call(ours, weights, inputs)
        return F.cross_entropy(logits.flatten(0, 1), TARGET[:2, 1:3].flatten())

    parameters = tuple(p.detach().clone().requires_grad_() for p in ours.parameters())
    assert torch.autograd.gradcheck(loss, parameters, fast_mode=True)


@ALL
def test_fit_lowers_the_loss(score, query):
    ours = model(score, query).float()
    batches = [((SOURCE, TARGET[:, :-1], MASK), TARGET[:, 1:])]
    losses = fit(ours, batches, FitConfig(n_steps=25, lr=3e-2)).history.train_loss
    assert losses[-1] < 0.7 * losses[0]


def test_parameters_are_as_many_as_the_formula_says():
    def gru(inputs, h):
        return 3 * h * (inputs + h + 2)

    plain = VS * D + VT * D + 2 * gru(D, H // 2) + gru(D, H) + H * VT + VT
    combine = 2 * H * H + H
    sizes = {
        None: 0,
        "dot": combine,
        "bilinear": combine + H * H,
        "additive": combine + 2 * H * H + H,
    }
    for score, extra in sizes.items():
        assert sum(p.numel() for p in model(score).parameters()) == plain + extra
    asking = sum(p.numel() for p in model("dot", "previous").parameters())
    assert asking == plain + combine + 3 * H * H


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: model("cosine"), ValueError, "one of dot, bilinear, additive"),
        (lambda: model("dot", "next"), ValueError, "one of current, previous"),
        (lambda: model(None, "previous"), ValueError, "needs an attention"),
        (lambda: model(hidden_size=5), ValueError, "must be even, got 5"),
        (lambda: model(cell="rnn"), ValueError, "cell must be one of"),
        (lambda: model()(SOURCE[0], TARGET), ValueError, r"source must be \(B, T\)"),
        (lambda: model()(SOURCE, TARGET + 11), IndexError, "target must lie between 0 and 10"),
        (lambda: model()(SOURCE, TARGET, ~MASK), ValueError, "True up to a sequence's end"),
        (lambda: model()(SOURCE, TARGET, return_weights=True), ValueError, "no attention"),
        (lambda: MemoryAttention(3, 5), ValueError, "got query 3 and memory 5"),
        (lambda: MemoryAttention(3, 3, "dot", width=2), ValueError, "only the additive score"),
        (lambda: attention("dot")(random(2, 5), random(2, S, 5)), ValueError, r"query \(B, T, Q\)"),
        (lambda: attention("dot")(random(2, T, 5), random(3, S, 5)), ValueError, "expected query"),
        (
            lambda: attention("dot")(random(2, T, 5), random(2, S, 5), torch.ones(2, S)),
            TypeError,
            "a mask is boolean",
        ),
        (
            lambda: attention("dot")(random(2, T, 5), random(2, S, 5), MASK[:, :3]),
            ValueError,
            r"mask \(3, 1, 3\) does not fit",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
