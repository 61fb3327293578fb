"""Low-rank adapters against their formula, full matrices and the models they are put onto."""

import copy

import pytest
import torch
from comparing import close
from torch import nn
from unrolled.models import lora
from unrolled.models.nf4 import QuantisedLinear, dequantise, quantise
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

V, D, H, HIDDEN, LAYERS, B, T, R = 13, 10, 2, 7, 3, 2, 5, 3
DTYPE = torch.float64
QV = "*.attention.[qv]_proj"


def model(**changes) -> TransformerLM:
    sizes = {"vocab_size": V, "d_model": D, "n_layers": LAYERS, "n_heads": H, "d_ff": HIDDEN}
    sizes |= {"context_length": T, "init_std": 0.4}
    return TransformerLM(TransformerConfig(**sizes | changes))


def tokens() -> torch.Tensor:
    return torch.randint(V, (B, T))


def adapted(names=QV, **options) -> TransformerLM:
    """A model with adapters that no longer are zero."""
    ours = model()
    lora.add_lora(ours, names, **{"rank": R, "alpha": 5.0} | options)
    for _, layer in lora.adapters(ours):
        nn.init.normal_(layer.lora_b)
    return ours


def test_a_layer_by_hand():
    """W = I, A = (1 2), B = (3, 0)ᵀ, α/r = 2: (1, 1) gives (1, 1) + 2 · 3 · (3, 0)ᵀ."""
    layer = lora.LoRALinear(nn.Linear(2, 2, bias=False), rank=1, alpha=2.0, dropout=0.5).eval()
    with torch.no_grad():
        layer.base.weight.copy_(torch.eye(2))
        layer.lora_a.copy_(torch.tensor([[1.0, 2.0]]))
        layer.lora_b.copy_(torch.tensor([[3.0], [0.0]]))
    close(layer(torch.ones(2)), torch.tensor([19.0, 1.0]), 0)
    close(layer.update, torch.tensor([[6.0, 12.0], [0.0, 0.0]]), 0)
    outputs = layer.train()(torch.ones(99, 2))  # dropout is on the adapter's input
    assert {tuple(y) for y in outputs.tolist()} == {(y, 1.0) for y in (1.0, 13.0, 25.0, 37.0)}


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_at_first_nothing_changes_and_only_adapters_train(quantised, training):
    ours, x = model().train(training), tokens()
    before = copy.deepcopy(ours)
    names = lora.add_lora(ours, QV, rank=R, quantise=quantised, dropout=0.1)
    assert names == [f"stack.blocks.{i}.attention.{m}_proj" for i in range(LAYERS) for m in "qv"]
    assert all(m.training is training for m in ours.modules())
    if quantised:  # as with matrices rounded to four bits
        for name in names:
            linear = before.get_submodule(name)
            linear.weight.data = dequantise(quantise(linear.weight)).double()
    close(ours(x), before(x))
    trained = [name for name, p in ours.named_parameters() if p.requires_grad]
    assert trained == [f"{name}.lora_{kind}" for name in names for kind in "ab"]
    assert sum(p.numel() for p in ours.parameters() if p.requires_grad) == LAYERS * 2 * 2 * D * R


def test_merged_unmerged_and_removed_a_model_gives_the_same(device):
    ours, x = adapted().to(device), tokens().to(device)
    _, layer = next(lora.adapters(ours))
    logits, matrix = ours(x), layer.base.weight.clone()
    lora.merge(ours)
    with pytest.raises(ValueError, match="unmerge before loading: stack"):
        lora.load_lora_state(ours, lora.lora_state(ours))
    close(layer.base.weight, matrix + 5 / R * layer.lora_b @ layer.lora_a)
    close(ours(x), logits, 1e-11)
    lora.merge(ours)  # what is merged stays
    close(ours(x), logits, 1e-11)
    lora.unmerge(ours)
    lora.unmerge(ours)
    close(layer.base.weight, matrix)
    close(ours(x), logits, 1e-11)
    without, plain = copy.deepcopy(ours), model().to(device)
    lora.remove_lora(without)
    plain.load_state_dict(without.state_dict())  # the names are those of a model without adapters
    close(plain.stack.blocks[0].attention.q_proj.weight, matrix)
    lora.merge(ours)
    lora.remove_lora(ours)
    close(ours(x), logits, 1e-11)
    assert all(p.requires_grad for p in ours.parameters())
    assert not list(lora.adapters(ours))


def test_adapters_are_saved_alone_and_loaded_into_another_copy(device):
    ours, x = adapted().to(device), tokens().to(device)
    other = copy.deepcopy(ours)
    for _, layer in lora.adapters(other):
        nn.init.zeros_(layer.lora_b)
    state = lora.lora_state(ours)
    assert len(state) == 4 * LAYERS
    assert all(name.endswith((".lora_a", ".lora_b")) for name in state)
    lora.load_lora_state(other, state)
    close(other(x), ours(x), 0)
    next(iter(state.values())).zero_()  # a copy
    close(other(x), ours(x), 0)


@pytest.mark.parametrize("names", [QV, ["*.attention.*", "*.feed_forward.*"]])
def test_outputs_gradients_and_merged_matrices_are_those_of_peft(names, transformers):
    peft = pytest.importorskip("peft")
    ours, x = model(), tokens()
    theirs = copy.deepcopy(ours)
    chosen = lora.add_lora(ours, names, rank=R, alpha=5.0)
    config = peft.LoraConfig(r=R, lora_alpha=5.0, target_modules=chosen)
    theirs = peft.get_peft_model(theirs, config)
    inner = theirs.get_base_model()
    with torch.no_grad():
        for name, layer in lora.adapters(ours):
            nn.init.normal_(layer.lora_b)
            twin = inner.get_submodule(name)
            twin.lora_A["default"].weight.copy_(layer.lora_a)
            twin.lora_B["default"].weight.copy_(layer.lora_b)
    close(ours(x), theirs(x), 1e-11)
    for of in (ours, theirs):
        of(x).pow(2).sum().backward()
    for name, layer in lora.adapters(ours):
        twin = inner.get_submodule(name)
        close(layer.lora_a.grad, twin.lora_A["default"].weight.grad, 1e-9)
        close(layer.lora_b.grad, twin.lora_B["default"].weight.grad, 1e-9)
    trained = [p.numel() for p in theirs.parameters() if p.requires_grad]
    assert sum(trained) == sum(p.numel() for p in ours.parameters() if p.requires_grad)
    lora.merge(ours)
    lora.remove_lora(ours)
    merged = theirs.merge_and_unload().state_dict()
    assert merged.keys() == ours.state_dict().keys()
    for name, tensor in ours.state_dict().items():
        close(tensor, merged[name])


def test_a_quantised_model_is_small_and_keeps_its_bias():
    ours = model(d_model=64, d_ff=256)
    lora.add_lora(ours, "*.feed_forward.*", quantise=True, double=True)
    for _, layer in lora.adapters(ours):
        assert isinstance(layer.base, QuantisedLinear)
        assert layer.base.quantised.n_bytes < 64 * 256 * 4.2 / 8
        assert not layer.base.bias.requires_grad
        assert layer.lora_a.dtype == DTYPE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: lora.add_lora(m, [QV, "query"]), "no linear map is called 'query'; there"),
        (lambda m: lora.add_lora(adapted(), QV), "this TransformerLM has adapters already"),
        (lambda m: lora.add_lora(m, "*"),
         "embedding.weight and head.weight are one matrix: leave head out"),
        (lambda m: lora.add_lora(m, QV, dropout=1.0), "dropout must be at least 0 and below 1"),
        (lambda m: lora.merge(adapted(quantise=True)), "q_proj has four bits a weight"),
        (lambda m: lora.load_lora_state(adapted(), lora.lora_state(adapted("*.q_proj"))),
         "the same adapters; one alone has .*v_proj.lora_a"),
        (lambda m: lora.load_lora_state(adapted(), lora.lora_state(adapted(rank=2))),
         r"lora_a must be \(3, 10\), got \(2, 10\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_and_changes_nothing(change, message):
    ours = model()
    with pytest.raises(ValueError, match=message):
        change(ours)
    assert all(p.requires_grad for p in ours.parameters())
    assert not list(lora.adapters(ours))
