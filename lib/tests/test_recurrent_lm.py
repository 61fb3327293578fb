"""The recurrent language model: equal to torch's parts, causal, and readable in pieces."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from unrolled.models.recurrent import CELLS
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled_book.behaviour import check_causal

V, D, H, B, T = 11, 5, 7, 3, 13


def model(cell="lstm", **options) -> RecurrentLM:
    torch.manual_seed(0)
    options = {"embedding_dim": D, "hidden_size": H} | options
    return RecurrentLM(V, cell, **options).double()


TOKENS = torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))


def test_logits_are_those_of_torch_modules_with_the_same_weights():
    ours = model(n_layers=2)
    outputs, _ = ours.recurrent.as_torch()(nn.functional.embedding(TOKENS, ours.embedding.weight))
    expected = nn.functional.linear(outputs, ours.head.weight, ours.head.bias)
    assert_close(ours(TOKENS), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_no_output_reads_a_later_token(cell):
    check_causal(model(cell).eval(), TOKENS)


@given(st.sampled_from(sorted(CELLS)), st.integers(1, T - 1), st.integers(1, 2))
@settings(max_examples=15, deadline=None)
def test_reading_in_pieces_gives_the_logits_of_reading_at_once(cell, cut, n_layers):
    lm = model(cell, n_layers=n_layers)
    cache = lm.new_cache()
    pieces = [lm(TOKENS[:, :cut], cache=cache), lm(TOKENS[:, cut:], cache=cache)]
    assert cache.length == T
    assert_close(torch.cat(pieces, 1), lm(TOKENS), rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", ["elman", "lstm"])
def test_a_fork_of_the_cache_goes_on_by_itself(cell):
    lm = model(cell)
    cache = lm.new_cache()
    lm(TOKENS[:, :4], cache=cache)
    fork = cache.fork()
    other = lm((TOKENS[:, 4:] + 1) % V, cache=fork)
    assert (cache.length, fork.length) == (4, T)
    assert not torch.equal(other, lm(TOKENS)[:, 4:])
    assert_close(lm(TOKENS[:, 4:], cache=cache), lm(TOKENS)[:, 4:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", ["elman", "lstm"])
def test_chosen_rows_of_the_cache_go_on_as_if_they_had_been_read_alone(cell):
    lm, rows = model(cell, n_layers=2), torch.tensor([1, 0, 1])
    cache = lm.new_cache()
    cache.select(rows)  # nothing was read yet
    lm(TOKENS[:, :4], cache=cache)
    fork = cache.fork()
    fork.select(rows)
    assert_close(lm(TOKENS[rows, 4:], cache=fork), lm(TOKENS[rows])[:, 4:], rtol=0, atol=1e-12)
    assert_close(lm(TOKENS[:, 4:], cache=cache), lm(TOKENS)[:, 4:], rtol=0, atol=1e-12)


def test_gradients_flow_through_the_cache_until_it_is_detached():
    lm, gradients = model("gru"), []
    for cut in (False, True):
        cache = lm.new_cache()
        cache.detach()  # a new cache has nothing to cut
        lm(TOKENS[:, :1], cache=cache)
        if cut:
            cache.detach()
        lm.zero_grad()
        lm(TOKENS[:, 1:], cache=cache).logsumexp(-1).sum().backward()
        gradients.append(lm.embedding.weight.grad.clone())
    assert not torch.allclose(gradients[0], gradients[1])


@pytest.mark.parametrize("cell", ["elman", "lstm"])
@pytest.mark.parametrize("implementation", ["reference", "auto"])
def test_a_cache_begun_in_inference_mode_may_be_read_on_with_gradients(cell, implementation):
    lm = model(cell, n_layers=2, implementation=implementation)
    cache = lm.new_cache()
    with torch.inference_mode():
        lm(TOKENS[:, :4], cache=cache)
    logits = lm(TOKENS[:, 4:], cache=cache)
    assert_close(logits, lm(TOKENS)[:, 4:], rtol=0, atol=1e-12)
    got = torch.autograd.grad(logits.logsumexp(-1).sum(), list(lm.parameters()))
    cut = lm.new_cache()
    lm(TOKENS[:, :4], cache=cut)
    cut.detach()
    expected = lm(TOKENS[:, 4:], cache=cut).logsumexp(-1).sum()
    assert_close(got, torch.autograd.grad(expected, list(lm.parameters())), rtol=0, atol=1e-12)


def test_a_refused_piece_leaves_the_cache_as_it_was():
    lm = model()
    cache = lm.new_cache()
    lm(TOKENS, cache=cache)
    before = cache.fork()
    with pytest.raises(ValueError, match="the state must have shape"):
        lm(TOKENS[:1], cache=cache)
    assert cache.length == before.length
    assert cache.state is before.state


def test_parameters_are_as_many_as_the_formula_says():
    count = sum(p.numel() for p in model().parameters())
    assert count == V * D + 4 * H * (D + H + 2) + H * V + V


@pytest.mark.parametrize("hidden_size", [D, H])
def test_a_tied_head_is_the_embedding_itself(hidden_size):
    lm = model(tie_embeddings=True, hidden_size=hidden_size)
    assert lm.head.weight is lm.embedding.weight
    outputs, _ = lm.recurrent(lm.embedding(TOKENS))
    expected = lm.project(outputs) @ lm.embedding.weight.T + lm.head.bias
    assert_close(lm(TOKENS), expected, rtol=0, atol=1e-12)
    n_map = 0 if hidden_size == D else H * D + D
    lstm = 4 * hidden_size * (D + hidden_size + 2)
    assert sum(p.numel() for p in lm.parameters()) == V * D + lstm + n_map + V


def test_gradients_agree_with_finite_differences():
    lm = model("gru")
    names = [name for name, _ in lm.named_parameters()]

    def loss(*parameters):
        logits = torch.func.functional_call(
            lm, dict(zip(names, parameters, strict=True)), (TOKENS[:2, :3],)
        )
        return nn.functional.cross_entropy(logits.flatten(0, 1), TOKENS[:2, 1:4].flatten())

    parameters = tuple(p.detach().clone().requires_grad_() for p in lm.parameters())
    assert torch.autograd.gradcheck(loss, parameters)


def test_dropout_acts_in_training_and_not_in_evaluation():
    lm = model(dropout=0.5)
    assert not torch.equal(lm(TOKENS), lm(TOKENS))
    assert torch.equal(lm.eval()(TOKENS), lm(TOKENS))


def test_a_fresh_model_is_nearly_uniform():
    log_probs = model()(TOKENS).log_softmax(-1)
    assert -log_probs.mean().item() == pytest.approx(torch.tensor(V).log().item(), abs=0.1)


@pytest.mark.parametrize(
    ("tokens", "error", "words"),
    [
        (TOKENS[0], ValueError, r"\(B, T\), got shape \(13,\)"),
        (TOKENS + 1, IndexError, "between 0 and 10, got 1 to 11"),
        (TOKENS - 1, IndexError, "got -1 to 9"),
    ],
)
def test_tokens_that_do_not_fit_are_refused(tokens, error, words):
    with pytest.raises(error, match=words):
        model()(tokens)


@pytest.mark.parametrize("sizes", [(0, D, H), (V, 0, H), (V, D, 0)])
def test_sizes_below_one_are_refused(sizes):
    with pytest.raises(ValueError, match="at least 1"):
        RecurrentLM(sizes[0], embedding_dim=sizes[1], hidden_size=sizes[2])
