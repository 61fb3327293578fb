"""One configuration for the family: from the Transformer of 2017 to LLaMA, and what each chose.

Chapters 14 to 18 derive the choices, chapter 20 counts what they cost.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from unrolled.models.attention import IMPLEMENTATIONS
from unrolled.models.layers import ACTIVATIONS, GATED, NORM_EPS
from unrolled.validate import checked, one_of, real, whole

POSITIONS = ("learned", "sinusoidal", "rotary", "rotary-interleaved", "alibi", "relative", "none")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """What a Transformer is made of. The defaults are GPT-2's choices.

    vocab_size: V; a block or a stack alone needs none.
    d_model: D, the width of x.
    n_layers: how many blocks; in an encoder–decoder, in each of the two.
    n_heads: H, heads in each attention.
    context_length: the longest input.
    n_kv_heads: G; None: H, multi-head attention. 1: multi-query.
    head_dim: K; None: D/H.
    d_ff: F, the width inside the feed-forward layer; None: 4·D.
    activation: of the feed-forward layer; see `FeedForward`.
    norm: "layer" or "rms".
    norm_first: x + f(norm(x)), then a last norm; otherwise norm(x + f(x)).
    final_norm: after the last block; None: with norm_first. torch: always.
    norm_eps: ε in the norm.
    parallel: x + attention(n) + feed_forward(n), one n = norm(x) (GPT-J, PaLM).
    embedding_norm: a norm on the embeddings (BERT, BLOOM).
    position: one of POSITIONS.
    rope_theta: the base of the angles.
    rotary_dim: how many of each head's entries turn; None: K.
    n_buckets: of "relative".
    max_distance: of "relative".
    window: causal attention reaches so many positions; None: all.
    n_token_types: an `Encoder` adds a vector for the type of each token (BERT: 2).
    bias: in linear maps and norms.
    tie_embeddings: the head is the embedding's matrix.
    scale_embedding: embeddings times √D (2017).
    scale_scores: scores divided by √K; T5 does not.
    scale_logits: logits divided by √D (T5, where tied).
    dropout: in training, of the three kinds that follow.
    attention_dropout: of the weights; None: dropout.
    residual_dropout: of each f(x); None: dropout.
    embedding_dropout: of the embeddings; None: dropout.
    init_std: of every matrix; of the last one in f divided by √(2·n_layers).
    implementation: of attention and norms; "reference" follows the formulas.

    What is None is filled in from the other settings. Raises ValueError or TypeError for a setting
    that cannot be, ValueError for those that exclude each other, with the numbers.
    """

    vocab_size: int | None = None
    d_model: int
    n_layers: int = 1
    n_heads: int
    context_length: int = 1024
    n_kv_heads: int | None = None
    head_dim: int | None = None
    d_ff: int | None = None
    activation: str = "gelu-tanh"
    norm: str = "layer"
    norm_first: bool = True
    final_norm: bool | None = None
    norm_eps: float = NORM_EPS
    parallel: bool = False
    embedding_norm: bool = False
    position: str = "learned"
    rope_theta: float = 10_000.0
    rotary_dim: int | None = None
    n_buckets: int = 32
    max_distance: int = 128
    window: int | None = None
    n_token_types: int = 0
    bias: bool = True
    tie_embeddings: bool = True
    scale_embedding: bool = False
    scale_scores: bool = True
    scale_logits: bool = False
    dropout: float = 0.0
    attention_dropout: float | None = None
    residual_dropout: float | None = None
    embedding_dropout: float | None = None
    init_std: float = 0.02
    implementation: str = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "_given", {f.name: getattr(self, f.name) for f in fields(self)})
        for f in fields(self):
            value = self._given[f.name]
            if value is None and f.default is None:
                continue
            if f.type.startswith("bool"):
                one_of(f.name, value, (True, False))
            elif f.type.startswith("int"):
                whole(f.name, value, at_least=0 if f.name == "n_token_types" else 1)
            elif f.type.startswith("float"):
                real(f.name, value, at_least=0, below=1 if "dropout" in f.name else None)
        real("rope_theta", self.rope_theta, above=0)
        one_of("activation", self.activation, (*ACTIVATIONS, *GATED))
        one_of("norm", self.norm, ("layer", "rms"))
        one_of("position", self.position, POSITIONS)
        one_of("implementation", self.implementation, IMPLEMENTATIONS)
        if self.head_dim is None and self.d_model % self.n_heads:
            raise ValueError(f"n_heads={self.n_heads} does not divide d_model={self.d_model}")
        self._fill(n_kv_heads=self.n_heads, head_dim=self.d_model // self.n_heads)
        self._fill(d_ff=4 * self.d_model, rotary_dim=self.head_dim, final_norm=self.norm_first)
        for kind in ("attention", "residual", "embedding"):
            self._fill(**{f"{kind}_dropout": self.dropout})
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_kv_heads={self.n_kv_heads} does not divide n_heads={self.n_heads}")
        if self.parallel and not self.norm_first:
            raise ValueError("parallel=True needs norm_first=True: one norm stands before both")
        if self.position == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"sinusoidal positions need an even d_model, got {self.d_model}")
        if self.has_rotary and (self.rotary_dim % 2 or self.rotary_dim > self.head_dim):
            limit = f"even and at most head_dim={self.head_dim}"
            raise ValueError(f"rotary_dim must be {limit}, got {self.rotary_dim}")

    def _fill(self, **values: object) -> None:
        for name, value in values.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    @property
    def has_rotary(self) -> bool:
        """Whether positions turn queries and keys."""
        return self.position.startswith("rotary")

    def replace(self, **changes: object) -> TransformerConfig:
        """The configuration with changes; what was None is filled in again."""
        return TransformerConfig(**self._given | changes)


_GPT2 = TransformerConfig(
    vocab_size=50_257, d_model=768, n_layers=12, n_heads=12, context_length=1024, dropout=0.1
)
_LLAMA = TransformerConfig(
    vocab_size=32_000, d_model=4096, n_layers=32, n_heads=32, context_length=2048, d_ff=11_008,
    activation="swiglu", norm="rms", norm_eps=1e-6, position="rotary", bias=False,
    tie_embeddings=False,
)  # fmt: skip

# Sizes as published; "transformer-2017" and "t5-small" are for `EncoderDecoder`, "bert-base" is for
# `Encoder`.
PRESETS = {
    "transformer-2017": TransformerConfig(
        vocab_size=37_000, d_model=512, n_layers=6, n_heads=8, context_length=512,
        activation="relu", norm_first=False, position="sinusoidal", scale_embedding=True,
        dropout=0.1,
    ),
    "bert-base": _GPT2.replace(
        vocab_size=30_522, context_length=512, activation="gelu", norm_first=False, norm_eps=1e-12,
        embedding_norm=True, n_token_types=2,
    ),
    "gpt2": _GPT2,
    # without the locally banded attention of every other layer
    "gpt3": _GPT2.replace(d_model=12_288, n_layers=96, n_heads=96, context_length=2048),
    "llama-7b": _LLAMA,
    "llama2-70b": _LLAMA.replace(
        d_model=8192, n_layers=80, n_heads=64, n_kv_heads=8, d_ff=28_672, context_length=4096,
        norm_eps=1e-5,
    ),
    "t5-small": TransformerConfig(
        vocab_size=32_128, d_model=512, n_layers=6, n_heads=8, context_length=512, d_ff=2048,
        activation="relu", norm="rms", norm_eps=1e-6, position="relative", bias=False,
        scale_scores=False, scale_logits=True, dropout=0.1,
    ),
}  # fmt: skip


@checked
def preset(name: str, **changes: object) -> TransformerConfig:
    """A published configuration by name, with changes: preset("gpt2", n_layers=2, d_model=60, …).

    Raises KeyError with the known names, TypeError for an unknown field, and ValueError where the
    changes do not fit.
    """
    if name not in PRESETS:
        raise KeyError(f"there is no preset {name!r}; there are {', '.join(PRESETS)}")
    return PRESETS[name].replace(**changes)
