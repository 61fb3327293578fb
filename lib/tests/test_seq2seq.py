"""Recurrent translators: the whole as a plain loop, and their attention of any sizes."""

import itertools

import pytest
import torch
from comparing import close, randomised, refuses, up_to
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.models.seq2seq import QUERIES, SCORES, MemoryAttention, Seq2Seq

VS, VT, D, H, B, S, T = 13, 11, 5, 6, 3, 7, 4
DTYPE = torch.float64
KINDS = [(None, "current"), *itertools.product(SCORES, QUERIES)]
ALL = pytest.mark.parametrize(("score", "query"), KINDS)
every_score = pytest.mark.parametrize("score", SCORES)
RNG = torch.Generator().manual_seed(3)
SOURCE = torch.randint(VS, (B, S), generator=RNG)
TARGET = torch.randint(VT, (B, T), generator=RNG)
MASK = up_to(S, 3, 1, width=S)


def model(score=None, query="current", **options) -> Seq2Seq:
    sizes = {"embedding_dim": D, "hidden_size": H}
    return randomised(Seq2Seq(VS, VT, attention=score, query=query, **sizes | options))


def attention(score: str, Q: int = 5, M: int = 5, **options) -> MemoryAttention:
    return randomised(MemoryAttention(Q, M, score, **options), 1.0)


@every_score
@settings(max_examples=12, deadline=None)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 99))
def test_contexts_are_weighted_means_of_what_the_mask_allows(score, n_queries, size, seed):
    torch.manual_seed(seed)
    M, width = 5 if score == "dot" else 3, 7 if score == "additive" else None
    ours, query = attention(score, 5, M, width=width), torch.randn(2, n_queries, 5)
    memory = torch.randn(2, size, M, requires_grad=True)
    mask = torch.rand(2, n_queries, size) < 0.6
    mask[1] = False  # this one may attend to nothing
    context, weights = ours(query, memory, mask)
    assert not weights[~mask].any()
    close(weights.sum(-1), mask.any(-1).double())
    close(context, torch.einsum("bts,bsm->btm", weights, memory))
    close(ours(query, memory, mask, keys=ours.key(memory))[0], context, 0)
    (gradient,) = torch.autograd.grad(context.sum(), memory)
    assert gradient.isfinite().all()
    assert not gradient[1].any()


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
    ahead, last = run(forward, xs, torch.zeros(H // 2))
    behind, first = run(backward, xs[::-1], torch.zeros(H // 2))
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
        close(logits[b], expected)
        if score is not None:
            close(weights[b, :, :n], torch.stack(their_weights))
            assert not weights[b, :, n:].any()


def test_a_source_is_read_once():
    ours = model("additive")
    cache, calls = ours.new_cache(), []
    ours.encoder.register_forward_hook(lambda *_: calls.append(1))
    for t in range(T):
        ours(SOURCE, TARGET[:, t : t + 1], MASK, cache=cache)
    assert len(calls) == 1


def test_with_one_direction_the_decoder_begins_in_the_encoders_last_output():
    memory, c = model("dot", bidirectional=False).encode(SOURCE, MASK)
    close(c[0], memory[torch.arange(B), MASK.sum(1) - 1])


def asked(Q, M, mask=None):
    return attention("dot")(torch.randn(Q), torch.randn(M), mask)


test_what_does_not_fit_is_refused = refuses(
    (lambda: model(None, "previous"), "needs an attention"),
    (lambda: model(hidden_size=5), "must be even, got 5"),
    (lambda: model()(SOURCE[0], TARGET), r"source must be \(B, T\)"),
    (lambda: model()(SOURCE, TARGET + 11), IndexError, "target must lie between 0 and 10"),
    (lambda: model()(SOURCE, TARGET, ~MASK), "True up to a sequence's end"),
    (lambda: model()(SOURCE, TARGET, return_weights=True), "no attention"),
    (lambda: MemoryAttention(3, 5), "got query 3 and memory 5"),
    (lambda: MemoryAttention(3, 3, "dot", width=2), "only the additive score"),
    (lambda: asked((2, 5), (2, S, 5)), r"query \(B, T, Q\)"),
    (lambda: asked((2, T, 5), (3, S, 5)), "expected query"),
    (lambda: asked((2, T, 5), (2, S, 5), torch.ones(2, S)), TypeError, "a mask is boolean"),
    (lambda: asked((2, T, 5), (2, S, 5), MASK[:, :3]), r"mask \(3, 1, 3\) does"),
)
