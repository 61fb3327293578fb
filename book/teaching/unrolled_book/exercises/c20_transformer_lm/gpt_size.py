r"""How large is this GPT?

A GPT has a vocabulary of $V = 100$ tokens, width $D = 256$, $L = 6$ blocks of 8 heads, feed-forward
layers of $4D$ units, and learned positions for 128 tokens. Linear maps and norms have biases, the
norms stand before attention and feed-forward layer and once at the end, and the head is the
embedding's matrix, without a bias. With pencil and paper:

- `block`: the parameters of one block;
- `total`: those of the model;
- `untied`: those of the model if the head has a matrix of its own;
- `more_positions`, `more_heads`, `more_blocks`: how many are *added* to `total` by positions for
  256 tokens instead of 128, by 16 heads instead of 8, and by 12 blocks instead of 6;
- `wider`: by what *factor* does a block grow if $D$ is doubled? Give a fraction or five digits.
"""

kind, level, points = "paper", 1, 2
tolerance = 1e-5


# %% starter
starter = """
gpt_size = {
    "block": ...,
    "total": ...,
    "untied": ...,
    "more_positions": ...,
    "more_heads": ...,
    "more_blocks": ...,
    "wider": ...,
}
"""

# %% solution
gpt_size = {
    "block": 789_760,
    "total": 4_797_440,
    "untied": 4_823_040,
    "more_positions": 32_768,
    "more_heads": 0,
    "more_blocks": 4_738_560,
    "wider": 3_152_384 / 789_760,
}

# %% explanation
explanation = r"""
A block has $12D^2 + 13D = 786\,432 + 3\,328$ parameters: $4D^2 + 4D$ for the four maps of
attention, $8D^2 + 5D$ for the feed-forward layer, $4D$ for two norms. Six of them, with $VD =
25\,600$ for the embedding, $128\,D = 32\,768$ for the positions and $2D = 512$ for the last norm,
make the total.

Heads cost nothing: they cut the same $D$ columns into narrower pieces. Positions cost little. What
costs is depth, linearly, and width, by its square: doubling $D$ multiplies a block by almost four,
not by four exactly, since the $13D$ only double.
"""


# %% oracle
def oracle():
    """The models are built without memory and their parameters counted."""
    import torch
    from unrolled.models.transformer import TransformerLM
    from unrolled.models.transformer_config import TransformerConfig

    def count(part=lambda model: model, **changes):
        size = dict(vocab_size=100, d_model=256, n_layers=6, n_heads=8, context_length=128)
        with torch.device("meta"):
            model = TransformerLM(TransformerConfig(**(size | changes)))
        return sum(p.numel() for p in part(model).parameters())

    def block(model):
        return model.stack.blocks[0]

    return {
        "block": count(block),
        "total": count(),
        "untied": count(tie_embeddings=False),
        "more_positions": count(context_length=256) - count(),
        "more_heads": count(n_heads=16) - count(),
        "more_blocks": count(n_layers=12) - count(),
        "wider": count(block, d_model=512) / count(block),
    }


# %% wrong
wrong = {
    "the biases are left out: attention has four of D, the feed-forward layer 4D + D": {
        "block": 786_432 + 4 * 256, "total": 4_783_616, "untied": 4_809_216,
        "more_blocks": 4_724_736,
    },
    "attention has four maps, the one after the heads among them, not three": {
        "block": 723_968, "total": 4_402_688, "untied": 4_428_288, "more_blocks": 4_343_808
    },
    "the two norms of a block are left out: each has D weights and D biases": {
        "block": 788_736, "total": 4_791_296, "untied": 4_816_896, "more_blocks": 4_732_416
    },
    "the last norm is left out": {"total": 4_796_928, "untied": 4_822_528},
    "the learned positions are left out": {"total": 4_764_672, "untied": 4_790_272},
    "tied, the matrix counts once; here it counts twice": {"total": 4_823_040},
    "heads share the D columns: more of them add nothing": {"more_heads": 6 * 4 * 256 * 256},
    "a linear map costs D², so doubling D costs nearly four times, not twice": {"wider": 2.0},
    "give what is added, not the new total": {
        "more_positions": 4_830_208, "more_heads": 4_797_440, "more_blocks": 9_536_000
    },
}  # fmt: skip
