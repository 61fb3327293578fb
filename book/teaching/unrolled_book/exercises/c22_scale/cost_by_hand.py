r"""A small model's bill

A decoder has $L = 3$ layers of width $D = 64$ with $F = 256$ and two matrices in the
feed-forward layer, a vocabulary of $V = 100$, and a head that is the embedding's matrix. It
reads texts of $T = 32$ tokens. Leave out biases, norms and positions, and count every query with
every key. With pencil and paper:

- `weights`: parameters in the matrices of one layer;
- `model`: parameters in the matrices of the whole model;
- `layer`: operations of one layer's forward pass for one token, scores included;
- `head`: operations of the head for one token;
- `step`: operations of one training step on 8 texts;
- `even`: the context at which the scores of a layer cost as much as its weights.
"""

kind, level, points = "paper", 1, 3
tolerance = 1e-4


# %% solution
cost_by_hand = {
    "weights": 49_152,
    "model": 153_856,
    "layer": 106_496,
    "head": 12_800,
    "step": 255_197_184,
    "even": 384,
}

# %% explanation
explanation = r"""
Four projections of $64 \cdot 64$ and two maps of $64 \cdot 256$ are $12 D^2 = 49\,152$ weights.
Three layers and one embedding of $100 \cdot 64$ make 153,856; the head has no matrix of its own.

A token meets 32 keys and mixes 32 values, $2TD = 4\,096$ multiplications beside the 49,152 of
the weights. Each comes with an addition: 106,496 operations. The head costs $2VD = 12\,800$,
whoever owns the matrix; the look-up costs nothing.

A step reads $8 \cdot 32 = 256$ tokens, each for $3 \cdot 106\,496 + 12\,800 = 332\,288$
operations forward, and three times that with the way back.

The scores cost $2TD$ multiplications and the weights $12D^2$, so they are even at $T = 6D = 384$.
"""


# %% oracle
def oracle():
    """Counted on models without memory."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from unrolled.models.transformer import TransformerLM
    from unrolled.models.transformer_config import TransformerConfig

    sizes = {"d_model": 64, "n_heads": 4, "position": "none", "bias": False}

    def model(n_layers, vocab_size, context):
        config = TransformerConfig(
            n_layers=n_layers, vocab_size=vocab_size, context_length=context, **sizes
        )
        with torch.device("meta"):
            return TransformerLM(config)

    def operations(n_layers, vocab_size, batch=1, context=32, training=False):
        tokens = torch.zeros(batch, context, dtype=torch.long, device="meta")
        with FlopCounterMode(display=False) as counter:
            logits = model(n_layers, vocab_size, context)(tokens)
            if training:
                logits.sum().backward()
        return counter.get_total_flops()

    matrices = [
        sum(p.numel() for p in model(n, 100, 32).parameters() if p.ndim == 2) for n in (3, 2)
    ]
    one, two = operations(1, 100), operations(2, 100)
    scores = [operations(2, 100, context=T) / T - operations(1, 100, context=T) / T for T in (1, 2)]
    a_key, weights = scores[1] - scores[0], 2 * scores[0] - scores[1]
    return {
        "weights": matrices[0] - matrices[1],
        "model": matrices[0],
        "layer": (two - one) // 32,
        "head": (2 * one - two) // 32,
        "step": operations(3, 100, batch=8, training=True),
        "even": weights / a_key,
    }


# %% wrong
wrong = {
    "attention has four projections, the output's among them": {"weights": 45_056},
    "the feed-forward layer has two matrices, one in and one out": {"weights": 32_768},
    "the head is the embedding's matrix and adds no parameter": {"model": 160_256},
    "the embedding's parameters count, though a look-up costs nothing": {"model": 147_456},
    "a multiplication comes with an addition: two operations for each": {
        "layer": 53_248,
        "head": 6_400,
    },
    "the scores cost operations, though they have no parameters": {"layer": 98_304},
    "there are two products with T rows, scores and mixing": {"layer": 102_400},
    "a tied head still multiplies": {"head": 0},
    "the backward pass costs twice the forward pass, together three": {"step": 85_065_728},
    "the backward pass has two products for each one forward": {"step": 170_131_456},
    "a step reads 8 texts of 32 tokens each": {"step": 7_974_912},
    "scores and mixing together cost 2TD": {"even": 768},
}
