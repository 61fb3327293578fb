r"""Two sizes of patches

A Vision Transformer reads pictures of 224 × 224 pixels with three channels. Its vectors have
D = 768 numbers. Once its patches have 32 × 32 pixels, once 16 × 16. A class token stands in front.

- `tokens`: how many tokens the stack reads, for 32 and for 16.
- `numbers`: how many numbers one patch holds, for 32 and for 16.
- `embedding`: how many weights the map from patches to vectors has, without its bias, for 32 and
  for 16.
- `scores`: by what factor the attention scores of one head grow from 32 to 16, the class token
  counted.
- `maps`: by what factor the multiplications in the linear maps of the stack grow from 32 to 16.
"""

kind, level, points = "paper", 1, 3
tolerance = 5e-3

# %% solution
patches_on_paper = {
    "tokens": (50, 197),
    "numbers": (3072, 768),
    "embedding": (2_359_296, 589_824),
    "scores": (197 / 50) ** 2,
    "maps": 197 / 50,
}

# %% explanation
explanation = r"""
$224/32 = 7$ and $224/16 = 14$: there are $7^2 + 1 = 50$ and $14^2 + 1 = 197$ tokens. A patch holds
$3 \cdot 32^2 = 3072$ and $3 \cdot 16^2 = 768$ numbers, and the map to 768 numbers has
$3072 \cdot 768$ and $768 \cdot 768$ weights: here the map shrinks by more than the positions grow.

Each token has a score for each, so the scores grow by $(197/50)^2 \approx 15.5$; without the class
token it would be exactly 16. A linear map is done once for each token: $197/50 = 3.94$ times the
work. Weights and work part here. Half the side costs four times the linear maps and sixteen times
the scores.
"""


# %% oracle
def oracle():
    """Count the library's own shapes, on the device that holds no numbers."""
    import torch
    from unrolled.models.transformer_config import TransformerConfig
    from unrolled.models.vit import VisionTransformer, patches

    found = {"tokens": [], "numbers": [], "embedding": []}
    with torch.device("meta"):
        for size in (32, 16):
            cut = patches(torch.empty(1, 3, 224, 224), size)
            config = TransformerConfig(
                d_model=768, n_layers=1, n_heads=12, context_length=cut.shape[1] + 1
            )
            model = VisionTransformer(config, image_size=(224, 224), patch_size=size, n_classes=10)
            found["tokens"].append(cut.shape[1] + 1)
            found["numbers"].append(cut.shape[2])
            found["embedding"].append(model.embedding.weight.numel())
    coarse, fine = found["tokens"]
    found = {name: tuple(both) for name, both in found.items()}
    return found | {"scores": fine**2 / coarse**2, "maps": fine / coarse}


# %% wrong
wrong = {
    "the class token is a token too": {"tokens": (49, 196)},
    "the sides are divided, and there are two of them": {"tokens": (8, 15)},
    "a patch has three channels": {"numbers": (1024, 256)},
    "a patch has two sides: its pixels are side times side": {"numbers": (96, 48)},
    "the map goes from all numbers of a patch, its channels too": {"embedding": (786_432, 196_608)},
    "the matrix has 768 rows, one for each number of a vector": {"embedding": (3072, 768)},
    "the class token has scores, too": {"scores": 16.0},
    "scores are pairs of tokens, so they grow with the square": {"scores": 3.94},
    "a linear map is done once a token, not once a pair": {"maps": 15.52},
    "the stack's maps are done for the class token as well": {"maps": 4.0},
    "the map from patches stands before the stack": {"maps": 1.0},
}
