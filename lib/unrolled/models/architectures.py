"""Published models as configurations of our one Transformer, with the numbers their papers print.

A row says what the paper prints; where our count differs, it says why. Chapter 22 counts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import starmap

from unrolled.models.transformer_config import PRESETS, TransformerConfig
from unrolled.validate import checked

UNITS = {"M": 1e6, "B": 1e9}


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A published model: what was printed of it, and the configuration of ours nearest to it."""

    name: str
    year: int
    source: str
    parameters: str  # as printed: "175.0B"
    config: TransformerConfig
    kind: str = "decoder"  # as in `cost.parameters`
    uncounted: tuple[str, ...] = ()  # parts of `cost.parameters` that the printed number leaves out
    tokens: float | None = None  # read in training, as published
    compute: float | None = None  # floating-point operations of training, as published
    miss: str = ""  # why our count does not come out to the digits printed; "": it does
    note: str = ""  # what our Transformer lacks of it, and which numbers no second source confirmed


@checked
def printed(count: int, like: str) -> str:
    """A count with the unit, the digits and the commas of a printed one: "6.7B", "1,234"."""
    unit = like[-1] if like[-1] in UNITS else ""
    digits = len(like.removesuffix(unit).partition(".")[2])
    comma = "," if "," in like else ""
    return f"{count / UNITS.get(unit, 1):{comma}.{digits}f}{unit}"


@checked
def tiny(config: TransformerConfig) -> TransformerConfig:
    """The configuration with small sizes and all its switches as they are."""
    own_width = config.head_dim * config.n_heads != config.d_model
    return config.replace(
        vocab_size=29, d_model=16, n_layers=2, n_heads=4, d_ff=24, context_length=12,
        n_kv_heads={1: 1, config.n_heads: 4}.get(config.n_kv_heads, 2),
        head_dim=6 if own_width else 4,
        rotary_dim=None if config.rotary_dim == config.head_dim else 2,
        window=config.window and 3, n_buckets=8, max_distance=16,
    )  # fmt: skip


_SPARSE = "Every other layer attends to a band of positions only, which costs no parameter."
_TABLE = "Brown et al. (2020), tables 2.1 and D.1"
_GPT3 = PRESETS["gpt2"].replace(context_length=2048, dropout=0.0)
_LLAMA, _T5 = PRESETS["llama-7b"], PRESETS["t5-small"]
_PALM = TransformerConfig(
    vocab_size=256_000, d_model=4096, n_layers=32, n_heads=16, n_kv_heads=1, head_dim=256,
    context_length=2048, activation="swiglu", position="rotary", bias=False, parallel=True,
    scale_logits=True,
)  # fmt: skip
_GOPHER = TransformerConfig(
    vocab_size=32_000, d_model=16_384, n_layers=80, n_heads=128, context_length=2048, norm="rms",
    position="relative",
)  # fmt: skip
_XL = (
    "Positions as in Transformer-XL project every distance by a D × D matrix in each layer; ours "
    "have one number for each bucket and head."
)


def _gpt2(size: str, n_layers: int, d_model: int, n_heads: int, corrected: str) -> Architecture:
    sizes = {"n_layers": n_layers, "d_model": d_model, "n_heads": n_heads}
    return Architecture(
        name=f"GPT-2 {size}",
        year=2019,
        source="Radford et al. (2019), table 2",
        parameters=size,
        config=PRESETS["gpt2"].replace(**sizes),
        miss=f"The authors' README says the paper's counts are wrong, and gives {corrected}.",
    )


def _gpt3(
    size: str,
    n_layers: int,
    d_model: int,
    n_heads: int,
    head_dim: int,
    compute: float,
    miss: str = "",
) -> Architecture:
    sizes = {"n_layers": n_layers, "d_model": d_model, "n_heads": n_heads, "head_dim": head_dim}
    return Architecture(
        name=f"GPT-3 {size.replace('.0B', 'B')}", year=2020, source=_TABLE, parameters=size,
        config=_GPT3.replace(**sizes), tokens=300e9, compute=compute, miss=miss, note=_SPARSE,
    )  # fmt: skip


def _palm(
    name: str, size: str, n_layers: int, d_model: int, n_heads: int, **rest: object
) -> Architecture:
    sizes = {"n_layers": n_layers, "d_model": d_model, "n_heads": n_heads}
    return Architecture(
        name=f"PaLM {name}",
        year=2022,
        source="Chowdhery et al. (2022), table 1",
        parameters=size,
        config=_PALM.replace(**sizes),
        tokens=780e9,
        **rest,
    )


def _t5(name: str, size: str, miss: str, **sizes: int) -> Architecture:
    return Architecture(
        name=f"T5 {name}",
        year=2020,
        source="Raffel et al. (2020), section 3.7",
        parameters=size,
        config=_T5.replace(**sizes),
        kind="encoder-decoder",
        tokens=1e12,
        miss=miss,
    )


_ROWS = (
    Architecture(
        name="GPT-1",
        year=2018,
        source="Radford et al. (2018); the count: Radford et al. (2019), table 2",
        parameters="117M",
        config=PRESETS["gpt2"].replace(vocab_size=40_478, context_length=512, norm_first=False),
    ),
    *starmap(
        _gpt2,
        (
            ("117M", 12, 768, 12, "124M"),
            ("345M", 24, 1024, 16, "355M"),
            ("762M", 36, 1280, 20, "774M"),
            ("1542M", 48, 1600, 25, "1558M"),
        ),
    ),
    *starmap(
        _gpt3,
        (
            ("125M", 12, 768, 12, 64, 2.25e20),
            ("350M", 24, 1024, 16, 64, 6.41e20, "Rounded: table D.1 prints 356M."),
            ("760M", 24, 1536, 16, 96, 1.37e21),
            ("1.3B", 24, 2048, 24, 128, 2.38e21,
             "24 heads of 128 are 3,072 wide, not 2,048; 16 heads give 1.3B."),
            ("2.7B", 32, 2560, 32, 80, 4.77e21),
            ("6.7B", 32, 4096, 32, 128, 1.20e22),
            ("13.0B", 40, 5140, 40, 128, 2.31e22,
             "40 heads of 128 are 5,120 wide, not 5,140; that width gives 12,850M, as table D.1 "
             "prints. Neither is 13.0B."),
            ("175.0B", 96, 12_288, 96, 128, 3.14e23,
             "Rounded: table D.1 prints 174,600M, which comes out."),
        ),
    ),
    Architecture(
        name="MT-NLG",
        year=2022,
        source="Smith et al. (2022), section 3",
        parameters="530B",
        config=_GPT3.replace(d_model=20_480, n_layers=105, n_heads=128),
        tokens=270e9,
    ),
    Architecture(
        name="PanGu-α",
        year=2021,
        source="Zeng et al. (2021), table 1",
        parameters="207.0B",
        config=_GPT3.replace(
            vocab_size=40_000, d_model=16_384, n_layers=64, n_heads=128, context_length=1024
        ),
        miss="Not explained: its top layer takes queries from learned positions, but these are "
        "1,024 · 16,384, 0.02B.",
        note="Our top layer is like the others. No second source for the printed count.",
    ),
    Architecture(
        name="Jurassic-1 Large",
        year=2021,
        source="Lieber et al. (2021), table 1",
        parameters="7.5B",
        config=_GPT3.replace(vocab_size=256_000, d_model=4096, n_layers=32, n_heads=32),
        tokens=300e9,
        note="No second source for layers, width and heads.",
    ),
    Architecture(
        name="Jurassic-1 Jumbo",
        year=2021,
        source="Lieber et al. (2021), table 1",
        parameters="178B",
        config=_GPT3.replace(vocab_size=256_000, d_model=13_824, n_layers=76, n_heads=96),
        tokens=300e9,
        note="No second source for width and heads.",
    ),
    Architecture(
        name="Gopher",
        year=2021,
        source="Rae et al. (2021), table 1; compute: table A26",
        parameters="280B",
        config=_GOPHER,
        tokens=300e9,
        compute=6.31e23,
        miss=f"{_XL} With these, 80 · 16,384², it is 280B.",
        note="Hoffmann et al. (2022) give 5.76e23 operations. No second source for biases.",
    ),
    Architecture(
        name="Chinchilla",
        year=2022,
        source="Hoffmann et al. (2022), table 4",
        parameters="70B",
        config=_GOPHER.replace(d_model=8192, n_heads=64),
        tokens=1.4e12,
        compute=5.76e23,
        miss=f"{_XL} With these, 80 · 8,192², it is 70B.",
        note="As Gopher; no second source for biases.",
    ),
    Architecture(
        name="LaMDA",
        year=2022,
        source="Thoppilan et al. (2022), sections 3 and 10",
        parameters="137B",
        config=TransformerConfig(
            vocab_size=32_000, d_model=8192, n_layers=64, n_heads=128, head_dim=128, d_ff=65_536,
            activation="geglu", position="relative", bias=False,
        ),
        uncounted=("embedding",),
        compute=3.55e23,
        note="The paper names neither the norm nor the tokens read; Hoffmann et al. (2022) say 168 "
        "billion.",
    ),
    _palm("8B", "8.63B", 32, 4096, 16),
    _palm("62B", "62.50B", 64, 8192, 32),
    _palm(
        "540B", "540.35B", 118, 18_432, 48, compute=2.53e24,
        miss="Cut, or counted without the norms' 2.2M.",
    ),
    Architecture(
        name="OPT-175B",
        year=2022,
        source="Zhang et al. (2022), table 1",
        parameters="175B",
        config=_GPT3.replace(
            vocab_size=50_272, d_model=12_288, n_layers=96, n_heads=96, activation="relu"
        ),
        tokens=180e9,
        note="The tokens are the corpus's. The files have two more positions, which none reads.",
    ),
    Architecture(
        name="GPT-J",
        year=2021,
        source="Wang & Komatsuzaki (2021), the model card",
        parameters="6,053,381,344",
        config=TransformerConfig(
            vocab_size=50_400, d_model=4096, n_layers=28, n_heads=16, context_length=2048,
            position="rotary-interleaved", rotary_dim=64, parallel=True, tie_embeddings=False,
        ),
        miss="The public weights hold 6,050,882,784: no biases in attention (28 · 4 · 4,096 less), "
        "one in the head (50,400 more). The card's 2,498,560 more are, as it seems, norms and "
        "biases in a copy for each of eight devices.",
        note="With us all linear maps have a bias or none, the head never.",
    ),
    Architecture(
        name="BLOOM",
        year=2022,
        source="BigScience (2022), table 3 and the model card",
        parameters="176,247,271,424",
        config=_GPT3.replace(
            vocab_size=250_880, d_model=14_336, n_layers=70, n_heads=112, position="alibi",
            embedding_norm=True,
        ),
        tokens=366e9,
    ),
    Architecture(
        name="GLM-130B",
        year=2022,
        source="Zeng et al. (2023), and the authors' configuration",
        parameters="130B",
        config=TransformerConfig(
            vocab_size=150_528, d_model=12_288, n_layers=70, n_heads=96, d_ff=32_768,
            context_length=2048, activation="geglu", norm_first=False, position="rotary",
        ),
        tokens=400e9,
        miss="The name is rounded.",
        note="DeepNorm multiplies x before it adds, ours does not; the prefix of a text is read in "
        "both directions, which takes a `prefix_mask`.",
    ),
    Architecture(
        name="Galactica",
        year=2022,
        source="Taylor et al. (2022), table 5",
        parameters="120.0B",
        config=_GPT3.replace(
            vocab_size=50_000, d_model=10_240, n_layers=96, n_heads=80, activation="gelu",
            bias=False,
        ),
        tokens=450e9,
        miss="Rounded: 96 layers of 12 · 10,240² alone are 120.8B.",
    ),
    _t5("Base", "220M", "Rounded to tens.", d_model=768, n_layers=12, n_heads=12, d_ff=3072),
    _t5(
        "Large", "770M",
        "With the embedding's 32,128 · 1,024 counted twice it is 770.6M; 220M counts them once.",
        d_model=1024, n_layers=24, n_heads=16, d_ff=4096,
    ),
    _t5("11B", "11B", "", d_model=1024, n_layers=24, n_heads=128, head_dim=128, d_ff=65_536),
    Architecture(
        name="LLaMA 7B",
        year=2023,
        source="Touvron et al. (2023a), table 2",
        parameters="6.7B",
        config=_LLAMA,
        tokens=1.0e12,
    ),
    Architecture(
        name="LLaMA 65B",
        year=2023,
        source="Touvron et al. (2023a), table 2",
        parameters="65.2B",
        config=_LLAMA.replace(d_model=8192, n_layers=80, n_heads=64, d_ff=22_016),
        tokens=1.4e12,
        miss="Cut, not rounded: the files hold 65,285,660,672.",
    ),
    Architecture(
        name="Llama 2 7B",
        year=2023,
        source="Touvron et al. (2023b), table 1",
        parameters="7B",
        config=_LLAMA.replace(context_length=4096, norm_eps=1e-5),
        tokens=2.0e12,
    ),
    Architecture(
        name="Llama 2 70B",
        year=2023,
        source="Touvron et al. (2023b), table 1",
        parameters="70B",
        config=PRESETS["llama2-70b"],
        tokens=2.0e12,
        miss="The name is rounded: the files hold 68,976,648,192.",
    ),
    Architecture(
        name="Mistral 7B",
        year=2023,
        source="Jiang et al. (2023), table 1",
        parameters="7B",
        config=_LLAMA.replace(
            n_kv_heads=8, d_ff=14_336, context_length=8192, window=4096, norm_eps=1e-5
        ),
    ),
    Architecture(
        name="Llama 3 8B",
        year=2024,
        source="Grattafiori et al. (2024), table 3",
        parameters="8B",
        config=_LLAMA.replace(
            vocab_size=128_256, n_kv_heads=8, d_ff=14_336, context_length=8192, norm_eps=1e-5,
            rope_theta=500_000.0,
        ),
        tokens=15e12,
    ),
    Architecture(
        name="Llama 3 405B",
        year=2024,
        source="Grattafiori et al. (2024), table 3",
        parameters="405B",
        config=_LLAMA.replace(
            vocab_size=128_256, d_model=16_384, n_layers=126, n_heads=128, n_kv_heads=8,
            d_ff=53_248, context_length=8192, norm_eps=1e-5, rope_theta=500_000.0,
        ),
        tokens=15.6e12,
        compute=3.8e25,
        miss="Cut, not rounded.",
    ),
    Architecture(
        name="Gemma 2 2B",
        year=2024,
        source="Gemma team (2024), tables 1 and 2",
        parameters="2,024,517,888",
        config=TransformerConfig(
            vocab_size=256_128, d_model=2304, n_layers=26, n_heads=8, n_kv_heads=4, head_dim=256,
            d_ff=9216, context_length=8192, activation="geglu-tanh", norm="rms", norm_eps=1e-6,
            position="rotary", bias=False, scale_embedding=True,
        ),
        uncounted=("embedding",),
        tokens=2e12,
        miss="Theirs has a norm after each sub-layer, too: 26 · 2 · 2,304 more.",
        note="Ours has no norm after a sub-layer, no bound on scores and logits (tanh), and one "
        "window for all layers, where theirs has one in every other.",
    ),
    Architecture(
        name="Qwen2.5 7B",
        year=2024,
        source="Qwen team (2024), and the model card",
        parameters="7.61B",
        config=_LLAMA.replace(
            vocab_size=152_064, d_model=3584, n_layers=28, n_heads=28, n_kv_heads=4, d_ff=18_944,
            context_length=32_768, rope_theta=1_000_000.0,
        ),
        tokens=18e12,
        miss="Cut, not rounded: 7,615,616,512 with the biases of queries, keys and values.",
        note="Ours has biases in all linear maps or in none.",
    ),
    Architecture(
        name="OLMo 2 7B",
        year=2024,
        source="OLMo team (2024), table 1",
        parameters="7B",
        config=_LLAMA.replace(vocab_size=100_352, context_length=4096, rope_theta=500_000.0),
        tokens=4.05e12,
        note="Theirs norms what a sub-layer gives, x + norm(f(x)), and queries and keys; ours "
        "norms x.",
    ),
)  # fmt: skip

# By year.
ARCHITECTURES = {row.name: row for row in sorted(_ROWS, key=lambda row: row.year)}
