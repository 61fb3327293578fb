"""Published models as configurations of our one Transformer, with the numbers their papers print.

A row of architectures.toml says what the paper prints; where our count differs, it says why.
Chapter 22 counts them.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from unrolled.models.transformer_config import PRESETS, TransformerConfig
from unrolled.validate import checked

TABLE = Path(__file__).with_suffix(".toml")
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


def _read() -> dict[str, Architecture]:
    """The rows of architectures.toml by name, as they stand there: by year."""
    found = {}
    for row in tomllib.loads(TABLE.read_text("utf8"))["model"]:
        config = PRESETS[row.pop("base")].replace(**row.pop("config", {}))
        row["uncounted"] = tuple(row.get("uncounted", ()))
        found[row["name"]] = Architecture(config=config, **row)
    return found


ARCHITECTURES = _read()
