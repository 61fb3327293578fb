"""Mixtures of experts against loops, transformers' Mixtral, and balance worked by hand."""

import math

import pytest
import torch
from comparing import close, passes_gradcheck, randomised, refuses, with_gradients
from torch import nn
from unrolled.models.moe import MixtureOfExperts, balance_loss, routings, with_balance
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.batch_iterator import to_device
from unrolled.training.fit import next_token_loss

B, T, D, HIDDEN, E, V = 3, 7, 5, 11, 4, 13
DTYPE = torch.float64


def mixture(**changes) -> MixtureOfExperts:
    sizes = {"d_model": D, "d_ff": HIDDEN, "n_experts": E}
    return randomised(MixtureOfExperts(**sizes | changes), 0.7)


def with_experts(**options) -> TransformerLM:
    sizes = {"vocab_size": V, "d_model": 2 * D, "n_layers": 2, "n_heads": 2, "context_length": T}
    model = TransformerLM(TransformerConfig(**sizes, d_ff=HIDDEN, init_std=0.3))
    for block in model.stack.blocks:
        block.feed_forward = mixture(d_model=2 * D, **options)
    return model


@pytest.mark.usefixtures("exact_floats")
def test_the_layer_and_its_gradients_are_those_of_mixtral(transformers, device):
    from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

    sizes = {"hidden_size": D, "intermediate_size": HIDDEN, "num_local_experts": E}
    theirs = MixtralSparseMoeBlock(transformers.MixtralConfig(**sizes, num_experts_per_tok=2))
    ours, theirs = mixture().to(device), theirs.double().to(device)
    with torch.no_grad():
        theirs.gate.weight.copy_(ours.router.weight)
        for i, expert in enumerate(ours.experts):
            theirs.experts.gate_up_proj[i] = expert.up.weight  # both have the gate's rows first
            theirs.experts.down_proj[i] = expert.down.weight
    x = torch.randn(B, T, D).to(device).requires_grad_()
    got, expected = (
        with_gradients(lambda x, _, f=f: f(x), x, router.weight)
        for f, router in ((ours, ours.router), (theirs, theirs.gate))
    )
    close(got, expected, 1e-11)


@pytest.mark.parametrize(
    ("top_k", "renormalise"), [(1, None), (2, None), (3, None), (2, False), (3, True)]
)
@pytest.mark.parametrize("factor", [None, 0.6, 0.01, 9.0])
def test_the_layer_is_a_loop_over_tokens(top_k, renormalise, factor):
    """With a factor of 1/100 each expert takes one token; with 9 all that come."""
    options = {"activation": "relu", "bias": True, "renormalise": renormalise}
    layer = mixture(top_k=top_k, capacity_factor=factor, **options)
    x = torch.randn(B, T, D)
    tokens, expected = x.flatten(0, 1), torch.zeros(B * T, D)
    probs = (tokens @ layer.router.weight.T).softmax(-1)
    capacity = math.inf if factor is None else math.ceil(factor * top_k * B * T / E)
    room = [capacity] * E
    for choice in range(top_k):
        for n, p in enumerate(probs):
            chosen = p.sort(descending=True)
            i, w = int(chosen.indices[choice]), chosen.values[choice]
            w = w / chosen.values[:top_k].sum() if top_k > 1 and renormalise is not False else w
            if room[i] > 0:
                room[i] -= 1
                expected[n] += w * layer.experts[i](tokens[n])
    close(layer(x).flatten(0, 1), expected)


@pytest.mark.parametrize("top_k", [1, 2])
def test_gradients_are_those_of_finite_differences(top_k):
    layer, x = mixture(top_k=top_k), torch.randn(T, D)
    assert passes_gradcheck(layer, x, fast_mode=True)
    assert torch.autograd.gradcheck(
        lambda x: balance_loss(*layer.route(x)[:2]), x.requires_grad_(), fast_mode=True
    )
    layer(x).sum().backward()
    assert layer.router.weight.grad.abs().max() > 1e-3


def test_balance_by_hand():
    """Three of five tokens choose expert 0 at .52, two choose expert 1 at 1: f = .6, .4,
    P = .312, .688, and 2 (.6 · .312 + .4 · .688) = .9248, below the even 1.
    """
    probs = torch.tensor([[0.52, 0.48]] * 3 + [[0.0, 1.0]] * 2)
    experts = probs.argmax(-1, keepdim=True)
    close(balance_loss(probs, experts), torch.tensor(0.9248))
    both = probs.sort(descending=True).indices  # every token takes both: f = 1/2, 1/2
    close(balance_loss(probs, both), torch.tensor(1.0))
    close(balance_loss(probs, both, form="mixtral"), torch.tensor(2.0))
    one = torch.eye(E)[:1].expand(5, -1)  # all choose one expert of E
    close(balance_loss(one, torch.zeros(5, 1).long()), torch.tensor(float(E)))


@pytest.mark.parametrize("masked", [False, True])
def test_mixtrals_form_is_that_of_transformers(transformers, masked):
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    logits, mask = torch.randn(B * T, E), torch.rand(B, T) < 0.6 if masked else None
    probs = logits.softmax(-1)
    ours = balance_loss(
        probs, probs.topk(2).indices, form="mixtral", mask=mask.flatten() if masked else None
    )
    theirs = load_balancing_loss_func((logits,), E, 2, mask)
    close(ours, theirs.double(), 1e-6)  # theirs adds up in float32


def test_the_loss_for_fit_adds_the_mean_balance_of_the_layers():
    model, tokens = with_experts(), torch.randint(V, (B, T + 1))
    batch = to_device((tokens[:, :-1], tokens[:, 1:]), torch.device("cpu"), DTYPE)
    total, weight = next_token_loss(model, batch)
    with routings(model) as records:
        model(tokens[:, :-1])
    assert [tuple(r.experts.shape) for r in records] == [(B * T, 2)] * 2
    balance = sum(balance_loss(r.probs, r.experts) for r in records) / 2
    got, same = with_balance(next_token_loss, 0.3)(model, batch)
    assert same == weight == B * T
    expected, parameters = total / weight + 0.3 * balance, list(model.parameters())
    close(got / weight, expected)
    close(*(torch.autograd.grad(x, parameters) for x in (got / weight, expected)))
    assert all(block.feed_forward.recorded is None for block in model.stack.blocks)


test_what_cannot_be_is_refused_with_the_numbers = refuses(
    (lambda: mixture(top_k=5), "top_k must be at least 1 and at most 4, got 5"),
    (lambda: mixture(top_k=1, renormalise=True), "top_k=1 leaves the router without a grad"),
    (lambda: balance_loss(torch.ones(2, 3), torch.zeros(1, 1).long()),
     r"experts \(N, k\), got \(2, 3\) and \(1, 1\)"),
    (lambda: with_balance(lambda *_: (0.0, 1.0))(nn.Linear(2, 2), None),
     "Linear has no MixtureOfExperts"),
)  # fmt: skip
