"""Low-rank adapters against their formula, full matrices and the models they are put onto."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.lora import (
    LoRALinear,
    adapters,
    add_lora,
    load_lora_state,
    lora_state,
    merge,
    remove_lora,
    unmerge,
)
from unrolled.models.nf4 import QuantisedLinear, dequantise, quantise
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.fit import FitConfig, fit

V, D, H, HIDDEN, LAYERS, B, T, R = 13, 10, 2, 7, 3, 2, 5, 3
DTYPE = torch.float64
QV = "*.attention.[qv]_proj"


def close(got, expected, tolerance=1e-12):
    assert_close(got, expected, rtol=0, atol=tolerance)


def model(**changes) -> TransformerLM:
    sizes = {"vocab_size": V, "d_model": D, "n_layers": LAYERS, "n_heads": H, "d_ff": HIDDEN}
    return TransformerLM(
        TransformerConfig(**sizes | {"context_length": T, "init_std": 0.4} | changes)
    )


def tokens() -> torch.Tensor:
    return torch.randint(V, (B, T))


def adapted(names=QV, **options) -> TransformerLM:
    """A model with adapters that no longer are zero."""
    ours = model()
    add_lora(ours, names, **{"rank": R, "alpha": 5.0} | options)
    for _, layer in adapters(ours):
        nn.init.normal_(layer.lora_b)
    return ours


# --- one layer -----------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(rank=st.integers(1, 9), alpha=st.floats(0.5, 40), bias=st.booleans())
def test_a_layer_is_that_of_one_matrix_with_the_product_added(rank, alpha, bias):
    """Outputs, and the gradients that B (α/r) Gᵀ and Aᵀ make of the whole matrix's G."""
    base = nn.Linear(7, 5, bias=bias)
    whole, layer = copy.deepcopy(base), LoRALinear(base, rank=rank, alpha=alpha)
    nn.init.normal_(layer.lora_b)
    a, b, x = layer.lora_a.detach(), layer.lora_b.detach(), torch.randn(B, T, 7, requires_grad=True)
    whole.weight.data += alpha / rank * b @ a
    results = []
    for module in (layer, whole):
        output = module(x)
        module.zero_grad()
        loss = (torch.linspace(-1, 2, output.numel()).view_as(output) * output).sum()
        results.append((output, torch.autograd.grad(loss, x, retain_graph=True)[0]))
        loss.backward()
    for got, expected in zip(*results, strict=True):
        close(got, expected, 1e-10)
    close(layer.lora_a.grad, alpha / rank * b.T @ whole.weight.grad, 1e-9)
    close(layer.lora_b.grad, alpha / rank * whole.weight.grad @ a.T, 1e-9)
    assert base.weight.grad is None


def test_a_layer_by_hand():
    """W = I, A = (1 2), B = (3, 0)ᵀ, α/r = 2: (1, 1) gives (1, 1) + 2 · 3 · (3, 0)ᵀ."""
    layer = LoRALinear(nn.Linear(2, 2, bias=False), rank=1, alpha=2.0)
    with torch.no_grad():
        layer.base.weight.copy_(torch.eye(2))
        layer.lora_a.copy_(torch.tensor([[1.0, 2.0]]))
        layer.lora_b.copy_(torch.tensor([[3.0], [0.0]]))
    close(layer(torch.ones(2)), torch.tensor([19.0, 1.0]), 0)
    close(layer.update, torch.tensor([[6.0, 12.0], [0.0, 0.0]]), 0)


def test_dropout_is_on_the_adapters_input_and_in_training_only():
    layer, x = LoRALinear(nn.Linear(7, 5), rank=R, dropout=0.5), torch.randn(B, 7)
    close(layer(x), layer.base(x), 0)
    nn.init.normal_(layer.lora_b)
    assert (layer(x) - layer(x)).abs().max() > 1e-3
    layer.eval()
    close(layer(x), layer(x), 0)
    close(layer(x), layer.base(x) + x @ layer.update.T)


def test_gradients_are_those_of_finite_differences():
    layer = LoRALinear(nn.Linear(5, 4), rank=2)
    nn.init.normal_(layer.lora_b)
    x = torch.randn(3, 5, requires_grad=True)

    def f(x, a, b):
        return torch.func.functional_call(layer, {"lora_a": a, "lora_b": b}, x)

    assert torch.autograd.gradcheck(f, (x, layer.lora_a, layer.lora_b))


# --- on a model ----------------------------------------------------------------------------------


@pytest.mark.parametrize("quantised", [False, True])
def test_at_first_nothing_changes_and_only_adapters_train(quantised):
    ours, x = model(), tokens()
    before = copy.deepcopy(ours)
    names = add_lora(ours, QV, rank=R, quantise=quantised)
    assert names == [f"stack.blocks.{i}.attention.{m}_proj" for i in range(LAYERS) for m in "qv"]
    if quantised:  # as with matrices rounded to four bits
        for name in names:
            linear = before.get_submodule(name)
            linear.weight.data = dequantise(quantise(linear.weight)).double()
    close(ours(x), before(x))
    trained = [name for name, p in ours.named_parameters() if p.requires_grad]
    assert trained == [f"{name}.lora_{kind}" for name in names for kind in "ab"]
    assert sum(p.numel() for p in ours.parameters() if p.requires_grad) == LAYERS * 2 * 2 * D * R


@pytest.mark.parametrize("quantised", [False, True])
def test_a_fit_moves_adapters_alone_and_lowers_the_loss(quantised):
    ours, x = model(init_std=0.1), tokens()
    add_lora(ours, ["*.attention.*", "*.feed_forward.*"], rank=R, quantise=quantised)
    before = copy.deepcopy(ours.state_dict())
    config = FitConfig(n_steps=40, lr=0.02)
    losses = fit(ours, [(x[:, :-1], x[:, 1:])], config, progress=False).history.train_loss
    assert losses[-1] < losses[0] - 0.5
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, before[name]) == ("lora" not in name), name


def test_adapters_take_the_mode_of_the_map_they_are_put_onto():
    for training in (True, False):
        ours = model().train(training)
        add_lora(ours, QV, quantise=True, dropout=0.1)
        assert all(m.training is training for m in ours.modules())


def test_merged_and_unmerged_a_model_gives_the_same(device):
    ours, x = adapted().to(device), tokens().to(device)
    _, layer = next(adapters(ours))
    logits, matrix = ours(x), layer.base.weight.clone()
    merge(ours)
    close(layer.base.weight, matrix + 5 / R * layer.lora_b @ layer.lora_a)
    close(ours(x), logits, 1e-11)
    merge(ours)  # what is merged stays
    close(ours(x), logits, 1e-11)
    unmerge(ours)
    unmerge(ours)
    close(layer.base.weight, matrix)
    close(ours(x), logits, 1e-11)


def test_removed_after_a_merge_adapters_leave_a_plain_model():
    ours, x = adapted(), tokens()
    logits, plain = ours(x), model()
    merge(ours)
    remove_lora(ours)
    plain.load_state_dict(ours.state_dict())  # the names are those of a model without adapters
    close(plain(x), logits, 1e-11)
    assert all(p.requires_grad for p in ours.parameters())
    assert not list(adapters(ours))


def test_removed_without_a_merge_they_leave_the_model_as_it_was():
    ours, x = model(), tokens()
    logits = ours(x)
    add_lora(ours, QV)
    for _, layer in adapters(ours):
        nn.init.normal_(layer.lora_b)
    remove_lora(ours)
    close(ours(x), logits, 0)


def test_adapters_are_saved_alone_and_loaded_into_another_copy(device):
    ours, x = adapted().to(device), tokens().to(device)
    other = copy.deepcopy(ours)
    for _, layer in adapters(other):
        nn.init.zeros_(layer.lora_b)
    state = lora_state(ours)
    assert len(state) == 4 * LAYERS
    assert all(name.endswith((".lora_a", ".lora_b")) for name in state)
    load_lora_state(other, state)
    close(other(x), ours(x), 0)
    next(iter(state.values())).zero_()  # a copy
    close(other(x), ours(x), 0)


@pytest.mark.parametrize("kind", [TransformerLM, Encoder, EncoderDecoder, RecurrentLM])
def test_they_go_onto_every_kind_of_model(kind):
    if kind is RecurrentLM:
        ours, given = RecurrentLM(V, "gru", embedding_dim=D, hidden_size=HIDDEN), (tokens(),)
    else:
        ours = kind(model().config)
        given = (tokens(), tokens()) if kind is EncoderDecoder else (tokens(),)
    before = ours(*given)
    names = add_lora(ours, "head" if kind is RecurrentLM else "*_proj")
    close(ours(*given), before)
    for name, layer in adapters(ours):
        nn.init.normal_(layer.lora_b)
        assert name in names
    assert (ours(*given) - before).abs().max() > 1e-3


@pytest.mark.parametrize("names", [QV, ["*.attention.*", "*.feed_forward.*"]])
def test_outputs_gradients_and_merged_matrices_are_those_of_peft(names, transformers):
    """The library `peft`, at r = 3 and α = 5, with our A and B in its adapters."""
    peft = pytest.importorskip("peft")
    ours, x = model(), tokens()
    theirs = copy.deepcopy(ours)
    chosen = add_lora(ours, names, rank=R, alpha=5.0)
    config = peft.LoraConfig(r=R, lora_alpha=5.0, target_modules=chosen)
    theirs = peft.get_peft_model(theirs, config)
    inner = theirs.get_base_model()
    with torch.no_grad():
        for name, layer in adapters(ours):
            nn.init.normal_(layer.lora_b)
            twin = inner.get_submodule(name)
            twin.lora_A["default"].weight.copy_(layer.lora_a)
            twin.lora_B["default"].weight.copy_(layer.lora_b)
    close(ours(x), theirs(x), 1e-11)
    for of in (ours, theirs):
        of(x).pow(2).sum().backward()
    for name, layer in adapters(ours):
        twin = inner.get_submodule(name)
        close(layer.lora_a.grad, twin.lora_A["default"].weight.grad, 1e-9)
        close(layer.lora_b.grad, twin.lora_B["default"].weight.grad, 1e-9)
    trained = [p.numel() for p in theirs.parameters() if p.requires_grad]
    assert sum(trained) == sum(p.numel() for p in ours.parameters() if p.requires_grad)
    merge(ours)
    remove_lora(ours)
    merged = theirs.merge_and_unload().state_dict()
    assert merged.keys() == ours.state_dict().keys()
    for name, tensor in ours.state_dict().items():
        close(tensor, merged[name])


def test_a_quantised_model_is_small_and_keeps_its_bias():
    ours = model(d_model=64, d_ff=256)
    add_lora(ours, "*.feed_forward.*", quantise=True, double=True)
    for _, layer in adapters(ours):
        assert isinstance(layer.base, QuantisedLinear)
        assert layer.base.quantised.n_bytes < 64 * 256 * 4.2 / 8
        assert not layer.base.bias.requires_grad
        assert layer.lora_a.dtype == DTYPE


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: add_lora(model(), [QV, "query"]), "no linear map is called 'query'; there"),
        (lambda: add_lora(adapted(), QV), "this TransformerLM has adapters already"),
        (lambda: add_lora(model(), "*"),
         "embedding.weight and head.weight are one matrix: leave head out"),
        (lambda: add_lora(model(), QV, rank=0), "rank must be at least 1, got 0"),
        (lambda: add_lora(model(), QV, alpha=0), "alpha must be above 0, got 0"),
        (lambda: add_lora(model(), QV, dropout=1.0), "dropout must be at least 0 and below 1"),
        (lambda: merge(adapted(quantise=True)), "q_proj has four bits a weight"),
        (lambda: load_lora_state(adapted(), lora_state(adapted("*.q_proj"))),
         "the same adapters; one alone has .*v_proj.lora_a"),
        (lambda: load_lora_state(adapted(), lora_state(adapted(rank=2))),
         r"lora_a must be \(3, 10\), got \(2, 10\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_refused_changes_nothing():
    ours = model()
    with pytest.raises(ValueError, match="one matrix"):
        add_lora(ours, "*")
    with pytest.raises(ValueError, match="rank"):
        add_lora(ours, QV, rank=0)
    assert all(p.requires_grad for p in ours.parameters())
    merged = adapted()
    merge(merged)
    with pytest.raises(ValueError, match="unmerge before loading: stack"):
        load_lora_state(merged, lora_state(merged))
