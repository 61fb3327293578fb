"""One configuration for the family: from the Transformer of 2017 to LLaMA, and what each chose."""

from __future__ import annotations

from dataclasses import dataclass, replace

from unrolled.models.layers import check_activation

POSITIONS = ("learned", "sinusoidal", "rotary", "rotary-interleaved", "alibi", "relative", "none")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """What a Transformer is made of. The defaults are GPT-2's choices.

    Raises ValueError for settings that exclude each other, with the numbers.
    """

    vocab_size: int  # V
    d_model: int  # D
    n_layers: int  # of an encoder–decoder: in each of the two
    n_heads: int  # H
    context_length: int  # the longest input
    n_kv_heads: int | None = None  # G; None: H, multi-head attention. 1: multi-query
    head_dim: int | None = None  # K; None: D/H
    d_ff: int | None = None  # F; None: 4·D
    activation: str = "gelu-tanh"  # of the feed-forward layer; see `FeedForward`
    norm: str = "layer"  # or "rms"
    norm_place: str = "pre"  # x + f(norm(x)), then a last norm; "post": norm(x + f(x))
    norm_eps: float = 1e-5
    embedding_norm: bool = False  # a norm on the embeddings (BLOOM)
    parallel: bool = False  # attention and feed-forward read one norm, side by side (PaLM)
    position: str = "learned"  # one of POSITIONS
    rotary_base: float = 10_000.0
    rotary_width: int | None = None  # of each head's entries; None: all of them
    n_buckets: int = 32  # of "relative"
    max_distance: int = 128  # of "relative"
    window: int | None = None  # causal attention reaches so many positions; None: all
    bias: bool = True  # in linear maps and norms
    tied: bool = True  # the head is the embedding's matrix
    scale_embedding: bool = False  # embeddings times √D (2017)
    scale_scores: bool = True  # scores divided by √K; T5 does not
    scale_logits: bool = False  # logits divided by √D (T5, where tied)
    dropout: float = 0.0  # in training: of embeddings, weights of attention, and each f(x)
    init_std: float = 0.02  # of every matrix; of the last one in f divided by √(2·n_layers)

    def __post_init__(self) -> None:
        check_activation(self.activation)
        heads, groups, width = self.n_heads, self.n_kv_heads, self.rotary_width
        sizes = (self.vocab_size, self.d_model, self.n_layers, heads, self.context_length)
        optional = (groups, self.head_dim, self.d_ff, width, self.window)
        if min(sizes) < 1 or any(size is not None and size < 1 for size in optional):
            raise ValueError(f"every size must be at least 1, in {self}")
        for bad, message in (
            (self.head_dim is None and self.d_model % heads,
             f"n_heads={heads} does not divide d_model={self.d_model}"),
            (groups and heads % groups, f"n_kv_heads={groups} does not divide n_heads={heads}"),
            (self.norm not in ("layer", "rms"), f"norm must be layer or rms, got {self.norm!r}"),
            (self.norm_place not in ("pre", "post"),
             f"norm_place must be pre or post, got {self.norm_place!r}"),
            (self.parallel and self.norm_place == "post", "parallel blocks have their norm before"),
            (self.position not in POSITIONS,
             f"position must be one of {POSITIONS}, got {self.position!r}"),
            (not 0 <= self.dropout < 1, f"dropout must lie in [0, 1), got {self.dropout}"),
            (self.init_std < 0 or self.norm_eps < 0, "init_std and norm_eps must be at least 0"),
            (self.position == "sinusoidal" and self.d_model % 2,
             f"sinusoidal positions need an even d_model, got {self.d_model}"),
        ):  # fmt: skip
            if bad:
                raise ValueError(f"{message}, in {self}")
        if self.position.startswith("rotary") and (self.turned % 2 or self.turned > self.width):
            raise ValueError(
                f"a rotary width must be even and at most the head's, got {self.turned} of "
                f"{self.width}, in {self}"
            )

    @property
    def width(self) -> int:
        """K, the width of a head."""
        return self.head_dim or self.d_model // self.n_heads

    @property
    def inner(self) -> int:
        """F, the width of the feed-forward layer."""
        return self.d_ff or 4 * self.d_model

    @property
    def turned(self) -> int:
        """How many entries of each head a rotary embedding turns."""
        return self.rotary_width or self.width


_GPT2 = TransformerConfig(
    vocab_size=50_257, d_model=768, n_layers=12, n_heads=12, context_length=1024, dropout=0.1
)
_OPT = replace(_GPT2, vocab_size=50_272, context_length=2048, activation="relu")
_LLAMA = TransformerConfig(
    vocab_size=32_000, d_model=4096, n_layers=32, n_heads=32, context_length=2048, d_ff=11_008,
    activation="swiglu", norm="rms", norm_eps=1e-6, position="rotary", bias=False, tied=False,
)  # fmt: skip
_T5 = TransformerConfig(
    vocab_size=32_128, d_model=512, n_layers=6, n_heads=8, context_length=512, head_dim=64,
    d_ff=2048, activation="relu", norm="rms", norm_eps=1e-6, position="relative", bias=False,
    scale_scores=False, scale_logits=True, dropout=0.1,
)  # fmt: skip

# Sizes as published; the two in the encoder–decoder form are for `EncoderDecoder`.
PRESETS = {
    "transformer-2017": TransformerConfig(
        vocab_size=37_000, d_model=512, n_layers=6, n_heads=8, context_length=512,
        activation="relu", norm_place="post", position="sinusoidal", scale_embedding=True,
        dropout=0.1,
    ),
    "gpt": replace(_GPT2, vocab_size=40_478, context_length=512, norm_place="post"),
    "gpt2": _GPT2,
    "gpt2-medium": replace(_GPT2, d_model=1024, n_layers=24, n_heads=16),
    "gpt2-large": replace(_GPT2, d_model=1280, n_layers=36, n_heads=20),
    "gpt2-xl": replace(_GPT2, d_model=1600, n_layers=48, n_heads=25),
    # without the locally banded attention of every other layer
    "gpt3": replace(_GPT2, d_model=12_288, n_layers=96, n_heads=96, context_length=2048),
    "opt-125m": _OPT,
    "opt-175b": replace(_OPT, d_model=12_288, n_layers=96, n_heads=96),
    "palm-540b": TransformerConfig(
        vocab_size=256_000, d_model=18_432, n_layers=118, n_heads=48, n_kv_heads=1, head_dim=256,
        context_length=2048, d_ff=73_728, activation="swiglu", parallel=True, position="rotary",
        bias=False,
    ),
    "bloom-176b": TransformerConfig(
        vocab_size=250_880, d_model=14_336, n_layers=70, n_heads=112, context_length=2048,
        embedding_norm=True, position="alibi",
    ),
    "llama-7b": _LLAMA,
    "llama-13b": replace(_LLAMA, d_model=5120, n_layers=40, n_heads=40, d_ff=13_824),
    "llama2-70b": replace(
        _LLAMA, d_model=8192, n_layers=80, n_heads=64, n_kv_heads=8, d_ff=28_672,
        context_length=4096, norm_eps=1e-5,
    ),
    "t5-small": _T5,
    "t5-base": replace(_T5, d_model=768, n_layers=12, n_heads=12, d_ff=3072),
    "t5-v1.1-base": replace(
        _T5, d_model=768, n_layers=12, n_heads=12, activation="geglu-tanh", tied=False,
        scale_logits=False,
    ),
}  # fmt: skip


def preset(name: str, **changes: object) -> TransformerConfig:
    """A published configuration by name, with changes: preset("gpt2", n_layers=2, d_model=64, …).

    Raises KeyError with the known names, TypeError for a field there is none of, and ValueError
    where the changes do not fit.
    """
    if name not in PRESETS:
        raise KeyError(f"there is no preset {name!r}; there are {', '.join(PRESETS)}")
    return replace(PRESETS[name], **changes)
