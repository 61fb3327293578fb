r"""A state or a cache

A decoder has 2 layers of width D = 64, multi-head attention with all its key heads, and numbers of
4 bytes. Somebody replaces attention by a selective layer of F = 128 channels with M = 16 numbers
each, without a short convolution.

- `cache`: how many bytes the two layers' cache of keys and values needs for each token.
- `state`: how many bytes the two layers' states need.
- `even`: from how many tokens on the cache needs at least as many bytes as the states.
- `long`: how many times as much memory as the states the cache needs after 4,096 tokens.
"""

kind, level, points = "paper", 1, 3
tolerance = 1e-4

# %% starter
starter = """
state_or_cache = {"cache": ..., "state": ..., "even": ..., "long": ...}
"""

# %% solution
state_or_cache = {"cache": 1024, "state": 16_384, "even": 16, "long": 256}

# %% explanation
explanation = r"""
Each layer keeps a key and a value of 64 numbers: $2 \cdot 2 \cdot 64 \cdot 4 = 1{,}024$ bytes a
token. A state has $128 \cdot 16$ numbers a layer, $2 \cdot 2{,}048 \cdot 4 = 16{,}384$ bytes,
however long the text is. After $16{,}384 / 1{,}024 = 16$ tokens the cache has caught up, and it
goes on: after 4,096 tokens it needs $4{,}096 / 16 = 256$ times as much.
"""


# %% oracle
def oracle():
    """Count the library's state, and the cache by its own formula."""
    from unrolled.accounting import cost
    from unrolled.models.ssm import Mamba
    from unrolled.models.transformer_config import TransformerConfig

    config = TransformerConfig(vocab_size=2, d_model=64, n_layers=2, n_heads=4, context_length=4096)
    layer = Mamba(64, d_inner=128, d_state=16, conv_width=1)
    kept = 2 * 4 * layer.log_decay.numel()
    even = next(n for n in range(1, 999) if cost.cache_bytes(config, n) >= kept)
    return {
        "cache": cost.cache_bytes(config, 1), "state": kept, "even": even,
        "long": cost.cache_bytes(config, 4096) / kept,
    }  # fmt: skip


# %% wrong
wrong = {
    "a key and a value are kept, and both layers keep them": {"cache": 512},
    "a number has 4 bytes: cache": {"cache": 256},
    "both layers have a state": {"state": 8192},
    "a number has 4 bytes: state": {"state": 4096},
    "each of the F channels has M numbers": {"state": 1024},
    "a state has one number for each channel and each of the M, and no second one to read": {
        "state": 32_768
    },
    "the states are divided by what a token adds to the cache of both layers": {"even": 32},
    "at this number of tokens the cache is still smaller": {"even": 15},
    "the states do not grow with the text": {"long": 1 / 16},
    "both the cache and the states are counted in both layers": {"long": 128},
}
