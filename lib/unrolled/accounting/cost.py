"""What a model costs, from its configuration alone: parameters, operations, bytes.

Chapters 8, 16, 20 and 22 count them by hand.
"""

from __future__ import annotations

import torch

from unrolled.models.architectures import Architecture
from unrolled.models.encoder_decoder import EncoderDecoder
from unrolled.models.layers import GATED
from unrolled.models.neural_lm import NeuralLM, NeuralLMConfig
from unrolled.models.transformer import Encoder, TransformerLM
from unrolled.models.transformer_config import TransformerConfig
from unrolled.validate import checked, one_of, whole

MODELS = {
    "decoder": TransformerLM, "encoder": Encoder, "encoder-decoder": EncoderDecoder,
    "feed-forward": NeuralLM,
}  # fmt: skip
# The part of a parameter is the first whose mark is in its name.
MARKS = {
    ".position": "position", ".cross.": "cross_attention", ".attention.": "attention",
    ".feed_forward.": "feed_forward", "norm": "norms", "embedding.": "embedding",
    "token_types.": "embedding", "head.": "head", "hidden_layer.": "feed_forward",
    "project.": "head", "direct.": "head",
}  # fmt: skip
# How many numbers an optimiser keeps for each parameter, all in single precision.
OPTIMISERS = {"sgd": 0, "momentum": 1, "adamw": 2}
PARTS = ("embedding", "position", "attention", "cross_attention", "feed_forward", "norms", "head")


@checked
def parameters(config: TransformerConfig | NeuralLMConfig, kind: str = "decoder") -> dict[str, int]:
    """How many parameters each of PARTS has, and the total, counted on a model without memory.

    kind: "decoder" for a `TransformerLM`, "encoder" for an `Encoder`, "encoder-decoder" for an
        `EncoderDecoder`; "feed-forward" for a `NeuralLM`, from a NeuralLMConfig, whose head has all
        that leads to the logits. A matrix that is used twice counts once. ValueError for another
        kind.
    """
    with torch.device("meta"):
        model = MODELS[one_of("kind", kind, MODELS)](config)
    counts = dict.fromkeys(PARTS, 0)
    for name, parameter in model.named_parameters():
        counts[next(MARKS[mark] for mark in MARKS if mark in name)] += parameter.numel()
    return counts | {"total": sum(counts.values())}


@checked
def counted(architecture: Architecture) -> int:
    """The parameters of its configuration that the published number counts."""
    counts = parameters(architecture.config, architecture.kind)
    return counts["total"] - sum(counts[part] for part in architecture.uncounted)


@checked
def cache_bytes(
    config: TransformerConfig,
    n_tokens: int,
    *,
    batch: int = 1,
    n_source: int = 0,
    dtype: torch.dtype = torch.float32,
) -> int:
    """Bytes of the keys and values that a `KVCache` holds: 2 · layers · G · K for each token.

    G heads of keys and values, not the H of queries, each K wide. n_tokens: of each of the batch's
    texts. n_source: tokens of an encoder–decoder's source, which each layer holds once more. What
    the encoder gave, and room kept for tokens to come, do not count. ValueError for counts below
    0 and a batch below 1.
    """
    positions = whole("n_tokens", n_tokens, 0) + whole("n_source", n_source, 0)
    numbers = 2 * config.n_layers * config.n_kv_heads * config.head_dim
    return whole("batch", batch) * positions * numbers * dtype.itemsize


@checked
def flops(
    config: TransformerConfig,
    n_tokens: int,
    *,
    batch: int = 1,
    kind: str = "decoder",
    n_source: int = 0,
    n_cached: int = 0,
    pairs: str = "all",
    training: bool = False,
    checkpointing: bool = False,
) -> dict[str, int]:
    """Floating-point operations of a pass over `batch` texts of n_tokens, by part, and the total.

    Counted are products of matrices alone, as `torch.utils.flop_counter` counts them, two
    operations for each multiplication with its addition; a look-up in a table costs none, the head
    costs even where it is tied. "attention" and "cross_attention" are the projections, "scores" and
    "cross_scores" are Q Kᵀ and A V.

    kind: of `parameters`, besides "feed-forward". n_source: tokens of an encoder–decoder's source.
    n_cached: tokens before these whose keys and values, and whose source, a cache holds.
    pairs: which scores of self-attention count. "all": every query with every key, as without a
        kernel that skips what is masked. "allowed": what causality and the window let through; with
        causality alone T(T + 1)/2 of T².
    training: forward and backward pass, three times the forward pass: for each product the backward
        pass has two. A kernel that computes the scores again in its backward pass does more.
    checkpointing: in training, each block's forward pass is done a second time.

    Raises ValueError for another kind or pairs, counts below their least, a source or a cache
    where the model or the training has none.
    """
    one_of("kind", kind, ("decoder", "encoder", "encoder-decoder"))
    one_of("pairs", pairs, ("all", "allowed"))
    has_source = kind == "encoder-decoder"
    T, V = whole("n_tokens", n_tokens), whole("vocab_size", config.vocab_size)
    S = whole("n_source", n_source, int(has_source), None if has_source else 0)
    whole("n_cached", n_cached, 0, 0 if training or kind == "encoder" else None)
    read = 0 if n_cached else S  # by the encoder
    seen = T * (n_cached + T)
    if pairs == "allowed" and kind != "encoder":
        reach = config.window or n_cached + T
        seen = sum(min(i, reach) for i in range(n_cached + 1, n_cached + T + 1))
    D, F = config.d_model, config.d_ff
    heads, groups = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    of_a_layer = {
        "attention": (T + read) * D * 2 * (heads + groups),
        "scores": (seen + read**2) * 2 * heads,
        "cross_attention": has_source * D * 2 * (T * heads + read * groups),
        "cross_scores": T * S * 2 * heads,
        "feed_forward": (T + read) * D * F * (3 if config.activation in GATED else 2),
    }
    passes = (3 + checkpointing if training else 1) * 2 * whole("batch", batch)
    counts = {part: passes * config.n_layers * n for part, n in of_a_layer.items()}
    head = 0 if kind == "encoder" else T * D * V
    counts["head"] = (3 if training else 1) * 2 * batch * head
    return counts | {"total": sum(counts.values())}


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
