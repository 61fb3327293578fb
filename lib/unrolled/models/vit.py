"""A Transformer that reads images: patches are its tokens. Chapter 24c builds and trains it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unrolled.models.tensors import check_floats
from unrolled.models.transformer import Stack, initialise
from unrolled.models.transformer_config import TransformerConfig
from unrolled.validate import checked, whole

# ViT-B/16 for images of 224 × 224: 14 · 14 patches and the class token.
VIT_B16 = TransformerConfig(
    d_model=768, n_layers=12, n_heads=12, context_length=197, activation="gelu", norm_eps=1e-6
)


def patches(images: Tensor, size: int) -> Tensor:
    """Images (B, C, height, width) cut into squares: (B, N, C·size²), N = height·width / size².

    Patches come in reading order, left to right, then down. Each holds its first channel row by
    row, then the next channel, as the kernel of a convolution does: a linear map of patches is a
    convolution with stride `size`. Raises ValueError for another rank, and where size divides
    height or width not.
    """
    check_floats(images=images)
    if images.ndim != 4:
        raise ValueError(f"images must be (B, C, height, width), got {tuple(images.shape)}")
    B, C, height, width = images.shape
    if height % whole("size", size) or width % size:
        raise ValueError(f"patches of {size} × {size} do not tile {height} × {width}")
    grid = images.reshape(B, C, height // size, size, width // size, size)
    return grid.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (B, N, C·size²)


class VisionTransformer(nn.Module):
    """P(class | image) = softmax(head(h₀)), h = stack([class token; patches · Wᵀ + b]).

    A bidirectional stack as in `Encoder`; `embedding` (D, C·P²) maps patches of P × P to vectors.
    The class token, a learned vector (D,), is the first in the sequence; what the stack makes of
    it, h₀, is all that the `head` (n_classes, D) reads. Source: Dosovitskiy et al. (2021),
    equations 1 to 4. We begin with N(0, init_std²) as our other models do, and the class token
    with 0.
    """

    @checked
    def __init__(
        self,
        config: TransformerConfig,
        *,
        image_size: tuple[int, int],
        patch_size: int,
        n_classes: int,
        n_channels: int = 3,
    ):
        """config: without vocab_size; its context_length is the number of patches + 1.
        image_size: (height, width). patch_size: P. n_channels: C. Raises ValueError for another
        vocab_size or context_length and where P divides height or width not, TypeError or
        ValueError for sizes that are no integers from 1 on.
        """
        super().__init__()
        height, width = (whole("image_size", n) for n in image_size)
        if height % whole("patch_size", patch_size) or width % patch_size:
            tiled = f"{patch_size} × {patch_size} do not tile {height} × {width}"
            raise ValueError(f"patches of {tiled}")
        n_tokens = height * width // patch_size**2 + 1
        if (config.vocab_size, config.context_length) != (None, n_tokens):
            expected = f"vocab_size=None and context_length={n_tokens}, all patches and one"
            got = f"{config.vocab_size} and {config.context_length}"
            raise ValueError(f"expected {expected}, got {got}")
        self.config, self.patch_size = config, patch_size
        self.image_shape = (whole("n_channels", n_channels), height, width)
        self.embedding = nn.Linear(n_channels * patch_size**2, config.d_model)
        self.class_token = nn.Parameter(torch.zeros(config.d_model))
        self.stack = Stack(config, causal=False)
        self.head = nn.Linear(config.d_model, whole("n_classes", n_classes))
        initialise(self, config)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, n_classes) of images (B, C, height, width), floats of the parameters' dtype.

        Raises ValueError for another shape.
        """
        return self.logits(self.hidden(images)[:, 0])

    def hidden(self, images: Tensor) -> Tensor:
        """(B, 1 + N, D): the vectors of the class token and of each patch."""
        check_floats(images=images)
        if images.shape[1:] != self.image_shape:
            expected = f"(B, {', '.join(map(str, self.image_shape))})"
            raise ValueError(f"expected images {expected}, got {tuple(images.shape)}")
        x = self.embedding(patches(images, self.patch_size))  # (B, N, D)
        first = self.class_token.expand(len(x), 1, -1)
        return self.stack(torch.cat([first, x], 1))

    def logits(self, x: Tensor) -> Tensor:
        """(…, n_classes) from (…, D)."""
        return self.head(x)
