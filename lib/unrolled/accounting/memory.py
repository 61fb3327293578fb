"""Bytes that training a Transformer holds: its state, and what the backward pass needs."""

from __future__ import annotations

import torch

from unrolled.accounting.cost import parameters
from unrolled.models.layers import GATED
from unrolled.models.transformer_config import TransformerConfig
from unrolled.validate import checked, one_of, whole

# How many numbers an optimiser keeps for each parameter, all in single precision.
OPTIMISERS = {"sgd": 0, "momentum": 1, "adamw": 2}


@checked
def state_bytes(
    config: TransformerConfig,
    kind: str = "decoder",
    *,
    dtype: torch.dtype = torch.float32,
    optimiser: str = "adamw",
) -> dict[str, int]:
    """Bytes of weights, gradients and the optimiser's numbers, and the total.

    kind: as in `parameters`. dtype: of weights and gradients. Where it is narrower than single
    precision, the optimiser keeps a copy of the weights in single precision besides: with Adam 16
    bytes for each parameter either way. optimiser: a name of OPTIMISERS. Raises ValueError for
    another kind or optimiser. Source: Rajbhandari et al. (2020), section 3.1.
    """
    n = parameters(config, kind)["total"]
    kept = OPTIMISERS[one_of("optimiser", optimiser, OPTIMISERS)] + (dtype.itemsize < 4)
    held = {
        "weights": n * dtype.itemsize,
        "gradients": n * dtype.itemsize,
        "optimiser": n * kept * 4,
    }
    return held | {"total": sum(held.values())}


@checked
def activation_bytes(
    config: TransformerConfig,
    n_tokens: int,
    *,
    batch: int = 1,
    dtype: torch.dtype = torch.float32,
    stored_scores: bool = False,
    checkpointing: bool = False,
) -> dict[str, int]:
    """Bytes that a `TransformerLM` keeps from its forward pass for the backward pass.

    "layers" is what the blocks keep, "scores" their attention weights, "head" what the last norm,
    the head and the cross-entropy keep; then the total. Counted is every tensor with a number or
    more for each token and entry of a head: inputs and outputs of norms, queries, keys, values,
    what attention gives, the feed-forward layer's insides, log-probabilities. What several
    operations keep counts once; so does what attention gives, of which torch's CPU kernel keeps a
    second copy where positions are rotary. Not counted: two statistics for each token and norm, one
    for each head, tables of angles, masks of attention, weights.

    stored_scores: the weights of attention are kept, as without a fused kernel, which computes them
        again; and grouped keys and values are repeated for each head.
    checkpointing: of each block only the input is kept; its other tensors exist for one block at a
        time, while its backward pass runs.
    Dropout, where the configuration has it, keeps a byte for each number, as on a GPU; on a CPU
    torch keeps the mask in the numbers' own type, and the scores as soon as weights are dropped.

    In 16 bits, with stored scores and F = 4·D, a layer keeps 32·D + 2·H·T bytes for each token, and
    with dropout 34·D + 5·H·T: the formula of Korthikanti et al. (2022), equation 1.
    """
    c, tokens = config, whole("batch", batch) * whole("n_tokens", n_tokens)
    D, heads, size = c.d_model, c.n_heads * c.head_dim, dtype.itemsize
    groups = heads if stored_scores else c.n_kv_heads * c.head_dim
    norms = 1 if c.parallel else 2
    inside = 4 if c.activation in GATED else 1 if c.activation == "relu" else 2
    block = size * (2 * norms * D + 2 * heads + 2 * groups + inside * c.d_ff)
    block += 2 * D * (c.residual_dropout > 0)
    scores = c.n_heads * n_tokens * stored_scores
    scores *= 2 * size + 1 if c.attention_dropout else size
    first = size * D * c.embedding_norm + D * (c.embedding_dropout > 0)
    repeated, waiting = (1, c.n_layers - 1) if checkpointing else (c.n_layers, 0)
    last = size * (D * c.final_norm + D + whole("vocab_size", c.vocab_size))
    held = {
        "layers": first + repeated * block + waiting * size * D,
        "scores": repeated * scores,
        "head": last,
    }
    held = {part: tokens * n for part, n in held.items()}
    return held | {"total": sum(held.values())}
