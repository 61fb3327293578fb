"""The page `book/published.md`: published models as configurations of ours, printed and counted."""

from __future__ import annotations

from unrolled.accounting import cost
from unrolled.models.architectures import ARCHITECTURES, Architecture, printed

from book.tools.notebooks import ROOT

TARGET = ROOT / "book" / "published.md"
SHORT = {"rotary-interleaved": "rotary", "gelu-tanh": "gelu", "geglu-tanh": "geglu"}
HEAD = """\
# Published models, counted

Each row is a published model as a configuration of the book's one Transformer, built at full size
without memory and counted ([chapter 22](../chapters/22_scale.ipynb) says how). “=” means that the
count comes out to the printed digits; where it does not, the reason stands below. This page is
generated: what is printed comes from the papers, what is counted from the library.

## Parameters, and tokens read for each of them

"""
CHOICES = """
## What they chose

As built here: the real OLMo 2 norms what a sub-layer gives, Gemma 2 both. A norm that stands *both*
is one for attention and feed-forward layer side by side. Heads are queries/keys where these differ;
the context is in thousands (1,024).

"""
REASONS = """
## Where the count does not come out

"""


def table(rows: list[dict[str, str]]) -> str:
    """A Markdown table; numbers, all columns but the first, stand on the right."""
    columns = list(rows[0])
    lines = [columns, [":--", *["--:"] * (len(columns) - 1)]]
    lines += [[row[column] for column in columns] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def counts(model: Architecture, n: int) -> dict[str, str]:
    """What is printed of a model and what we count, in its own digits."""
    ours, each = printed(n, model.parameters), (model.tokens or 0) / n
    return {
        "model": model.name,
        "year": str(model.year),
        "printed": model.parameters,
        "counted": "=" if ours == model.parameters else ours,
        "tokens a parameter": f"{each:,.0f}" if each >= 100 else f"{each:.3g}" if each else "",
    }


def choices(model: Architecture) -> dict[str, str]:
    """Norm, position, units and sizes of a model."""
    c = model.config
    where = "both" if c.parallel else "first" if c.norm_first else "last"
    return {
        "model": model.name,
        "norm": f"{c.norm}, {where}",
        "position": SHORT.get(c.position, c.position),
        "units": SHORT.get(c.activation, c.activation) + " + bias" * c.bias,
        "layers": str(c.n_layers),
        "width": f"{c.d_model:,}",
        "heads": f"{c.n_heads}" + f"/{c.n_kv_heads}" * (c.n_kv_heads != c.n_heads),
        "context": f"{c.context_length / 1024:g}k",
    }


def page() -> str:
    """The page as the library would have it."""
    models = list(ARCHITECTURES.values())
    n_of = {model.name: cost.counted(model) for model in models}
    missed = [m for m in models if printed(n_of[m.name], m.parameters) != m.parameters]
    told = "".join(f"- **{m.name}** ({m.source}). {m.miss}\n" for m in missed)
    rows = table([counts(m, n_of[m.name]) for m in models])
    return HEAD + rows + CHOICES + table([choices(m) for m in models]) + REASONS + told
