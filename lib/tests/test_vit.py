"""The Vision Transformer against convolutions, published sizes and the library `transformers`."""

import torch
from comparing import close, randomised, refuses, with_gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from unrolled.models.transformer_config import TransformerConfig
from unrolled.models.vit import VIT_B16, VisionTransformer, patches

B, C, P, DOWN, ACROSS, D, H, HIDDEN, LAYERS, CLASSES = 2, 3, 5, 2, 3, 14, 7, 11, 2, 13
HEIGHT, WIDTH, N = P * DOWN, P * ACROSS, DOWN * ACROSS
DTYPE = torch.float64


def config(**changes) -> TransformerConfig:
    sizes = {"d_model": D, "n_layers": LAYERS, "n_heads": H, "d_ff": HIDDEN}
    return TransformerConfig(
        **sizes | {"context_length": N + 1, "activation": "gelu", "init_std": 0.5} | changes
    )


def vision(**changes) -> VisionTransformer:
    return VisionTransformer(
        config(**changes), image_size=(HEIGHT, WIDTH), patch_size=P, n_classes=CLASSES
    ).eval()


def images() -> torch.Tensor:
    return torch.randn(B, C, HEIGHT, WIDTH)


@settings(max_examples=10, deadline=None)
@given(
    size=st.integers(1, 4), down=st.integers(1, 3), across=st.integers(1, 3), n=st.integers(1, 3)
)
def test_patches_are_torchs_and_a_map_of_them_is_a_convolution(size, down, across, n):
    x = torch.randn(2, n, size * down, size * across)
    close(patches(x, size), F.unfold(x, size, stride=size).transpose(1, 2), 0)
    kernel = torch.randn(7, n, size, size)
    by_convolution = F.conv2d(x, kernel, stride=size).flatten(2).transpose(1, 2)
    close(patches(x, size) @ kernel.flatten(1).T, by_convolution)


def load_transformers(theirs, ours: VisionTransformer) -> None:
    """Copy the weights of a ViTForImageClassification."""
    embeddings, state = theirs.vit.embeddings, {}
    projection = embeddings.patch_embeddings.projection
    state["embedding.weight"] = projection.weight.flatten(1)
    state["embedding.bias"] = projection.bias
    state["class_token"] = embeddings.cls_token[0, 0]
    state["stack.position.weight"] = embeddings.position_embeddings[0]
    names = {
        "layernorm_before": "norm_attention", "layernorm_after": "norm_feed_forward",
        "mlp.fc1": "feed_forward.up", "mlp.fc2": "feed_forward.down", "attention": "attention",
    }  # fmt: skip
    for i, layer in enumerate(theirs.vit.layers):
        for theirs_name, our_name in names.items():
            for name, tensor in layer.get_submodule(theirs_name).state_dict().items():
                state[f"stack.blocks.{i}.{our_name}.{name}"] = tensor
    for kind in ("weight", "bias"):
        state[f"stack.final_norm.{kind}"] = getattr(theirs.vit.layernorm, kind)
        state[f"head.{kind}"] = getattr(theirs.classifier, kind)
    ours.load_state_dict(state)


def test_logits_and_gradients_are_those_of_transformers(transformers, device):
    config = transformers.ViTConfig(
        hidden_size=D, num_hidden_layers=LAYERS, num_attention_heads=H, layer_norm_eps=1e-5,
        intermediate_size=HIDDEN, image_size=(HEIGHT, WIDTH), patch_size=P, num_channels=C,
        num_labels=CLASSES, attn_implementation="sdpa",
    )  # fmt: skip
    theirs = randomised(transformers.ViTForImageClassification(config).double().eval(), 0.4)
    ours = vision()
    load_transformers(theirs, ours)
    ours, theirs = ours.to(device), theirs.to(device)
    x = images().to(device).requires_grad_()
    got = with_gradients(lambda x: ours(x), x)
    assert got[0].shape == (B, CLASSES)
    close(got, with_gradients(lambda x: theirs(x).logits, x), 1e-11)
    assert torch.autograd.grad(ours(x).sum(), ours.class_token)[0].all()


def test_vit_b16_has_as_many_parameters_as_published():
    with torch.device("meta"):
        model = VisionTransformer(VIT_B16, image_size=(224, 224), patch_size=16, n_classes=1000)
    assert sum(p.numel() for p in model.parameters()) == 86_567_656


test_what_does_not_fit_is_refused_with_the_numbers = refuses(
    (lambda: patches(torch.zeros(1, 3, 4), 2), r"\(B, C, height, width\), got \(1, 3, 4\)"),
    (lambda: patches(torch.zeros(1, 3, 4, 5), 2), "2 × 2 do not tile 4 × 5"),
    (lambda: vision(context_length=N), f"context_length={N + 1}.* got None and {N}"),
    (lambda: vision(vocab_size=7), "vocab_size=None .* got 7"),
    (lambda: VisionTransformer(config(), image_size=(9, 15), patch_size=5, n_classes=2),
     "5 × 5 do not tile 9 × 15"),
    (lambda: vision()(torch.zeros(1, C, WIDTH, HEIGHT)),
     r"expected images \(B, 3, 10, 15\), got \(1, 3, 15, 10\)"),
)  # fmt: skip
