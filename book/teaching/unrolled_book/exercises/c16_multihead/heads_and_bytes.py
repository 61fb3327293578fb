r"""Heads and bytes

A Transformer has 40 layers of width $d = 5120$ with 40 heads. Its attention layers have no biases.
With pencil and paper:

- `d_k`: how wide is a head?
- `weights`: how many parameters has one attention layer ($W_q$, $W_k$, $W_v$, $W_o$)?
- `one_head`: how many parameters of one layer belong to one head, its slices of all four matrices?
- `cache_mb`: how many megabytes (of $10^6$ bytes) does the key–value cache of *one token* take, all
  layers together, with 16-bit numbers?
- `tokens`: how many tokens fit into a cache of 32 GB ($32 \cdot 10^9$ bytes), rounded down?
- `tokens_grouped`: and with 8 groups of keys and values instead of 40 heads of them?
- `weights_grouped`: how many parameters has one attention layer then?
"""

kind, level, points = "paper", 1, 2
tolerance = 1e-6


# %% solution
heads_and_bytes = {
    "d_k": 128,
    "weights": 104_857_600,
    "one_head": 2_621_440,
    "cache_mb": 0.8192,
    "tokens": 39_062,
    "tokens_grouped": 195_312,
    "weights_grouped": 62_914_560,
}

# %% explanation
explanation = r"""
$d_k = 5120 / 40 = 128$. Four matrices of $5120^2$ are 104,857,600 parameters whatever the number of
heads, and a fortieth of them belongs to each head: three slices of $5120 \times 128$ and one of
$128 \times 5120$.

A token leaves a key and a value of 5120 numbers in each of 40 layers: $2 \cdot 40 \cdot 5120 =
409\,600$ numbers of two bytes, 0.8192 MB. So 32 GB hold $32\,000 / 0.8192 = 39\,062.5$ tokens, and
five times as many when eight sets stand in for forty.

Of the parameters only $W_k$ and $W_v$ shrink, to $5120 \times 1024$ each. The layer keeps three
fifths of its parameters while the cache keeps one fifth of its size: what sharing is for is the
cache.
"""


# %% oracle
def oracle():
    """The layer of the library, built without memory, and one token through its keys and values."""
    import torch
    from unrolled.models.heads import MultiHeadAttention

    with torch.device("meta"):
        full = MultiHeadAttention(5120, 40, bias=False)
        grouped = MultiHeadAttention(5120, 40, n_kv_heads=8, bias=False)
        token = torch.empty(1, 1, 5120)
        bytes_full, bytes_grouped = (40 * 2 * 2 * a.k_proj(token).numel() for a in (full, grouped))
    one_head = 4 * full.q_proj.weight[: full.head_dim].numel()
    return {
        "d_k": full.head_dim,
        "weights": sum(p.numel() for p in full.parameters()),
        "one_head": one_head,
        "cache_mb": bytes_full / 1e6,
        "tokens": int(32e9 // bytes_full),
        "tokens_grouped": int(32e9 // bytes_grouped),
        "weights_grouped": sum(p.numel() for p in grouped.parameters()),
    }


# %% wrong
wrong = {
    "every head has its own slice of each matrix: 40 slices together are one matrix, not 40": {
        "weights": 4_194_304_000, "one_head": 104_857_600
    },
    "keys and values are two vectors, and 16 bits are two bytes; one of these twos is missing": {
        "cache_mb": 0.4096, "tokens": 78_125, "tokens_grouped": 390_625
    },
    "the cache is kept in every one of the 40 layers": {
        "cache_mb": 0.02048, "tokens": 1_562_500, "tokens_grouped": 7_812_500
    },
    "16 bits are two bytes, not sixteen": {
        "cache_mb": 6.5536, "tokens": 4_882, "tokens_grouped": 24_414
    },
    "the head's slice of W_o counts, too": {"one_head": 1_966_080},
    "all groups together keep 8 keys and 8 values a token; here it is one of each, as if g = 1": {
        "tokens_grouped": 1_562_500, "weights_grouped": 53_739_520
    },
    "queries and the output map keep all heads: only W_k and W_v shrink": {
        "weights_grouped": 20_971_520
    },
    "a megabyte is a million bytes here, not 2 to the 20th": {
        "cache_mb": 0.78125, "tokens": 41_943, "tokens_grouped": 209_715
    },
}  # fmt: skip
