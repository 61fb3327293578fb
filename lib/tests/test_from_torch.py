"""torch.nn.Transformer's weights in our encoder–decoder: outputs and gradients are torch's."""

import pytest
import torch
from comparing import close, refuses, up_to
from torch import nn
from unrolled.models.masks import causal_mask
from unrolled.models.pretrained import from_torch

V, B, S, T, D, H, HIDDEN, LAYERS = 17, 3, 11, 7, 10, 5, 13, 2
DTYPE = torch.float64
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # torch's on its own speed


def torchs(**changes) -> nn.Transformer:
    """With random weights, norms and biases included; in training mode, where it takes no
    shortcut, and without dropout."""
    options = dict(
        dim_feedforward=HIDDEN, dropout=0.0, batch_first=True, num_encoder_layers=LAYERS,
        num_decoder_layers=LAYERS,
    )  # fmt: skip
    model = nn.Transformer(D, H, **options | changes)
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.4)
    return model


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("bias", [True, False])
def test_outputs_and_gradients_are_torchs(norm_first, activation, bias, device):
    theirs = torchs(norm_first=norm_first, activation=activation, bias=bias).to(device)
    ours = from_torch(theirs, V, position="none", context_length=S)
    assert ours.training
    source, target = (torch.randint(V, (B, n), device=device) for n in (S, T))
    may = up_to(S, 4, 9, width=S, device=device)
    got = ours.hidden(source, target, may)
    embed = nn.Embedding.from_pretrained(ours.embedding.weight.detach().clone(), freeze=False)
    expected = theirs(
        embed(source), embed(target), tgt_mask=~causal_mask(T, device=device),
        src_key_padding_mask=~may, memory_key_padding_mask=~may,
    )  # fmt: skip
    close(got, expected)
    weights = torch.linspace(-1, 2, got.numel(), device=device).view(got.shape)
    (weights * got).sum().backward()
    (weights * expected).sum().backward()
    close(ours.embedding.weight.grad, embed.weight.grad, 1e-11)
    with torch.no_grad():  # their gradients as weights, brought into our order
        for parameter in theirs.parameters():
            parameter.copy_(parameter.grad)
    gradients = from_torch(theirs, V, position="none", context_length=S)
    for name, parameter in ours.named_parameters():
        if not name.startswith(("embedding", "head")):
            close(parameter.grad, gradients.get_parameter(name).data, 1e-11)


def test_the_parts_that_torch_does_not_have_are_as_asked_for():
    theirs = torchs(dropout=0.25).eval().float()
    ours = from_torch(theirs, V, position="rotary", tie_embeddings=False, context_length=5)
    assert (ours.config.dropout, ours.config.context_length) == (0.25, 5)
    assert (ours.training, ours.embedding.weight.dtype) == (False, torch.float32)
    assert ours.head.weight is not ours.embedding.weight
    assert ours.config.final_norm
    assert not ours.config.norm_first


test_what_ours_cannot_be_is_refused = refuses(
    ({"num_decoder_layers": 3}, r"stacks alike, got layers \[2, 3\]"),
    ({"activation": torch.tanh}, "activation must be relu or gelu, got .*tanh"),
    of=lambda changes: from_torch(torchs(**changes), V),
)
