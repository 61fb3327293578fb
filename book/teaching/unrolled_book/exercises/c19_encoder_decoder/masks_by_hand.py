r"""Three masks and a layer, counted

A source of 4 tokens is padded to 6. The decoder's input, with its start mark, has 5 tokens and no
padding. The model has D = 8, H = 2 heads, a feed-forward width F = 16, and biases in all linear
maps and norms.

- `encoder`, `cross`, `decoder`: how many entries of the 6 × 6, 5 × 6 and 5 × 5 masks are True (may
  attend), for this sentence. Rows of padding count too.
- `weights`: the shape (B, H, T, S) of the cross-attention's weights, with B = 1.
- `layer`: the number of parameters of one decoder layer. The four maps of an attention are D × D.
"""

kind, level, points = "paper", 1, 2

# %% solution
masks_by_hand = {
    "encoder": 24,
    "cross": 20,
    "decoder": 15,
    "weights": (1, 2, 5, 6),
    "layer": 904,
}

# %% explanation
explanation = r"""
The padding mask hides columns, not rows: each of the 6 queries of the encoder may read the 4 real
tokens, $6 \cdot 4 = 24$. (What the padded rows compute, nobody reads.) Each of the 5 queries of the
decoder may read them too, $5 \cdot 4 = 20$. The causal mask has $1 + 2 + 3 + 4 + 5 = 15$.

The weights have a row for each query and a column for each key, masked or not: (1, 2, 5, 6).

An attention has four maps of $8 \cdot 8 + 8 = 72$ parameters, whatever the number of heads: 288,
and there are two. The feed-forward layer has $8 \cdot 16 + 16 + 16 \cdot 8 + 8 = 280$, the three
norms $3 \cdot 2 \cdot 8 = 48$. Together $576 + 280 + 48 = 904$.
"""


# %% oracle
def oracle():
    """Counted on the masks and on torch's layer."""
    import torch
    from torch import nn

    real = torch.tensor([[True] * 4 + [False] * 2])
    layer = nn.TransformerDecoderLayer(8, 2, 16)
    return {
        "encoder": int(real.expand(6, 6).sum()),
        "cross": int(real.expand(5, 6).sum()),
        "decoder": int(torch.ones(5, 5).tril().sum()),
        "weights": (1, 2, 5, 6),
        "layer": sum(p.numel() for p in layer.parameters()),
    }


# %% wrong
wrong = {
    "padded positions still ask: the padding mask hides columns, not rows": {"encoder": 16},
    "no padding is hidden in the encoder": {"encoder": 36},
    "the cross-attention is not causal: the whole source is there": {"cross": 14},
    "the cross-attention must not read the padding of the source": {"cross": 30},
    "a position may attend to itself": {"decoder": 10},
    "the decoder's own mask is causal": {"decoder": 25},
    "rows are queries, columns keys": {"weights": (1, 2, 6, 5)},
    "padding keeps its column; its weight is 0": {"weights": (1, 2, 5, 4)},
    "a decoder layer has two attentions": {"layer": 616},
    "a decoder layer has three norms, each with gain and bias": {"layer": 888},
    "the biases are missing": {"layer": 904 - 8 * 8 - 24 - 24},
    "heads share the four maps: their number does not matter": {"layer": 1480},
}
