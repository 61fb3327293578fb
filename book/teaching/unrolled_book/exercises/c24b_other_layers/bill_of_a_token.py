r"""What one token pays

A decoder has 2 layers of width D = 64. The feed-forward layer of each is a gated one: three
matrices of 64 × 128, no biases. Somebody replaces it by 8 such experts, two for each token, with a
router without bias.

- `held`: how many weights the experts and the router of one layer hold.
- `used`: how many of them work for one token.
- `wide`: how wide, in place of 128, is the dense gated layer that holds as many weights as the
  eight experts, without the router.
- `idle`: how many weights of both layers' experts do nothing for a token.
"""

kind, level, points = "paper", 1, 3
tolerance = 1e-4

# %% starter
starter = """
bill_of_a_token = {"held": ..., "used": ..., "wide": ..., "idle": ...}
"""

# %% solution
bill_of_a_token = {"held": 197_120, "used": 49_664, "wide": 1024, "idle": 294_912}

# %% explanation
explanation = r"""
An expert has $3 \cdot 64 \cdot 128 = 24{,}576$ weights, the router $64 \cdot 8 = 512$. Eight
experts and the router hold $197{,}120$; two experts and the whole router, which has to score all
experts, work for a token: $49{,}664$.

A dense layer with as many weights as eight experts is eight times as wide: $8 \cdot 128 = 1{,}024$.
All of them would work for every token. Of the experts six rest in each layer:
$2 \cdot 6 \cdot 24{,}576 = 294{,}912$ weights.
"""


# %% oracle
def oracle():
    """Count the library's layers."""
    from unrolled.models.layers import FeedForward
    from unrolled.models.moe import MixtureOfExperts

    def size(module):
        return sum(p.numel() for p in module.parameters())

    layer = MixtureOfExperts(64, 128, n_experts=8, top_k=2)
    expert = size(layer.experts[0])
    wide = next(
        n for n in range(64, 4096, 64)
        if size(FeedForward(64, n, activation="swiglu", bias=False)) == 8 * expert
    )  # fmt: skip
    held = size(layer)
    return {"held": held, "used": held - 6 * expert, "wide": wide, "idle": 2 * 6 * expert}


# %% wrong
wrong = {
    "the router has weights, too: held": {"held": 196_608},
    "a gated layer has three matrices": {"held": 131_584},
    "all eight experts lie in memory": {"held": 49_664},
    "the router scores all experts: its weights work for each token": {"used": 49_152},
    "two experts work for a token, not one": {"used": 25_088},
    "two experts and two columns of the router are not all: the router scores all eight": {
        "used": 49_280
    },
    "all eight experts count, not the two that work": {"wide": 256},
    "each expert is as wide as the layer that it replaces": {"wide": 128},
    "both layers have experts that rest": {"idle": 147_456},
    "six experts of eight rest, not two": {"idle": 98_304},
    "two experts of eight work: six rest, not eight": {"idle": 393_216},
}
