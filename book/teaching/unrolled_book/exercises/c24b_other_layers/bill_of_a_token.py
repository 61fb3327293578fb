r"""What one token pays

A decoder has 2 layers of width D = 64, multi-head attention with all its key heads, and numbers of
4 bytes. Its feed-forward layer is a gated one: three matrices of 64 × 128, no biases. Somebody
replaces it by 8 such experts, two for each token, with a router without bias; and, in another
model, attention by a selective layer of F = 128 channels with M = 16 numbers each.

- `held`: how many weights the experts and the router of one layer hold.
- `used`: how many of them work for one token.
- `cache`: how many bytes the two layers' cache of keys and values needs for each token.
- `state`: how many bytes the two layers' states need.
- `even`: from how many tokens on the cache needs at least as many bytes as the states.
"""

kind, level, points = "paper", 1, 3
tolerance = 1e-4

# %% starter
starter = """
bill_of_a_token = {
    "held": ...,
    "used": ...,
    "cache": ...,
    "state": ...,
    "even": ...,
}
"""

# %% solution
bill_of_a_token = {
    "held": 197_120,
    "used": 49_664,
    "cache": 1024,
    "state": 16_384,
    "even": 16,
}

# %% explanation
explanation = r"""
An expert has $3 \cdot 64 \cdot 128 = 24{,}576$ weights, the router $64 \cdot 8 = 512$. Eight
experts and the router hold $197{,}120$; two experts and the whole router, which has to score all
experts, work for a token: $49{,}664$.

Each layer keeps a key and a value of 64 numbers: $2 \cdot 2 \cdot 64 \cdot 4 = 1{,}024$ bytes a
token. A state has $128 \cdot 16$ numbers a layer, $2 \cdot 2{,}048 \cdot 4 = 16{,}384$ bytes,
however long the text is. After $16{,}384 / 1{,}024 = 16$ tokens the cache has caught up, and it
goes on.
"""


# %% oracle
def oracle():
    """Count the library's layers, and the cache by its own formula."""
    from unrolled.accounting import cost
    from unrolled.models.moe import MixtureOfExperts
    from unrolled.models.ssm import Mamba
    from unrolled.models.transformer_config import TransformerConfig

    layer = MixtureOfExperts(64, 128, n_experts=8, top_k=2)
    held = sum(p.numel() for p in layer.parameters())
    expert = sum(p.numel() for name, p in layer.named_parameters() if "experts.0." in name)
    config = TransformerConfig(vocab_size=2, d_model=64, n_layers=2, n_heads=4, context_length=64)
    a_token = cost.cache_bytes(config, 1)
    state = Mamba(64, d_inner=128, d_state=16, conv_width=1)
    kept = 2 * 4 * state.log_decay.numel()
    n = next(n for n in range(1, 999) if cost.cache_bytes(config, n) >= kept)
    return {
        "held": held, "used": held - 6 * expert, "cache": a_token, "state": kept, "even": n,
    }  # fmt: skip


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
    "a key and a value are kept, and both layers keep them": {"cache": 512},
    "a number has 4 bytes: cache": {"cache": 256},
    "both layers have a state": {"state": 8192},
    "a number has 4 bytes: state": {"state": 4096},
    "each of the F channels has M numbers": {"state": 128},
    "the states are divided by what a token adds to the cache of both layers": {"even": 32},
}
