"""The house style: matplotlib's defaults, and figures as inline SVG in the colours of the page.

Draw with matplotlib in the light colours of `PALETTE`. `svg` turns each of them into a CSS variable
with the light colour as its fallback, `fill: var(--u-accent, #4f46e5)`. So one drawing is legible
on a white and on a dark page, in the web book, in JupyterLab and in Colab. Text stays text, in the
font of the page.
"""

from __future__ import annotations

import html
import io
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from cycler import cycler
from matplotlib.figure import Figure

from unrolled_book.figures.inline_svg import inline
from unrolled_book.figures.palette import COLOURS, PALETTE

_VARIABLE = {light: f"var(--u-{role}, {light})" for role, (light, _) in COLOURS.items()}
_VARIABLE["#000000"] = _VARIABLE[PALETTE["ink"]]

# Where a page says that it is dark: the web book, JupyterLab, Colab, VS Code.
_DARK = (
    "html[data-theme=dark]",
    'body[data-jp-theme-light="false"]',
    "html[theme=dark]",
    "body.vscode-dark",
)


def use_house_style() -> None:
    """Set matplotlib's defaults to the book's. Call it once, after the imports of a chapter."""
    mpl.rcParams.update(
        {
            "figure.figsize": (5.6, 3.2),  # inches on a wide page, less on a phone
            "figure.constrained_layout.use": True,
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "axes.prop_cycle": cycler(
                color=[PALETTE[r] for r in ("accent", "data", "test", "gradient", "value", "muted")]
            ),
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "mathtext.fontset": "dejavusans",
            "font.size": 11.5,
            "text.color": PALETTE["ink"],
            "axes.titlesize": 12,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.titlepad": 9,
            "axes.labelsize": 11.5,
            "axes.labelcolor": PALETTE["muted"],
            "axes.edgecolor": PALETTE["muted"],
            "axes.linewidth": 0.8,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
            "axes.grid": True,
            "axes.grid.axis": "y",
            "grid.color": PALETTE["grid"],
            "grid.linewidth": 0.8,
            "xtick.labelsize": 11,
            "ytick.labelsize": 11,
            "xtick.color": PALETTE["muted"],
            "ytick.color": PALETTE["muted"],
            "xtick.major.size": 0,
            "ytick.major.size": 0,
            "xtick.minor.size": 0,
            "ytick.minor.size": 0,
            "lines.linewidth": 2.2,
            "lines.solid_capstyle": "round",
            "patch.linewidth": 0,
            "legend.frameon": False,
            "legend.fontsize": 11,
        }
    )


def svg(fig: Figure, *, prefix: str | None = None) -> str:
    """A figure as one `<svg>` element for an HTML page, one drawn element per line.

    The same figure gives the same bytes on every run. Identifiers start with `prefix`, by default a
    hash of the drawing, so that two figures on a page share no identifier.

    Raises:
        TypeError: if `fig` is not a matplotlib figure.
        ValueError: if one of its texts holds a control character.
    """
    if not isinstance(fig, Figure):
        raise TypeError(f"expected a matplotlib figure, got {type(fig).__name__}")
    written = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "savefig.bbox": None}):
        fig.savefig(written, format="svg", metadata={"Date": None})
    return inline(written.getvalue(), _VARIABLE, prefix)


def show(fig: Figure, *, alt: str, caption: str = "") -> None:
    """Display a figure with its alternative text and a caption that states the finding.

    Args:
        fig: the matplotlib figure; it is closed, so a notebook does not show it a second time.
        alt: what the figure shows, for readers who cannot see it.
        caption: plain text under the figure; `$…$` is mathematics.

    Raises:
        ValueError: if `alt` is blank.
        TypeError: if `caption` is not a string.
    """
    from IPython.display import display

    if not isinstance(alt, str) or not alt.strip():
        raise ValueError(f"a figure needs alt=…, a sentence that says what it shows; got {alt!r}")
    drawing = svg(fig)
    plt.close(fig)
    plain = f"[Figure: {alt}]\n{caption}".strip()
    display({"text/html": markup(drawing, alt, caption), "text/plain": plain}, raw=True)


def markup(drawing: str, alt: str, caption: str = "") -> str:
    """An `<svg>` element as a `<figure>` with its style, alternative text and caption."""
    return (
        f'<figure class="u-figure">\n<style>\n{css()}</style>\n'
        f"{label(drawing, alt)}\n{figcaption(caption)}</figure>"
    )


def label(drawing: str, alt: str) -> str:
    """The `<svg>` element `drawing` as an image with alternative text."""
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" ', 1)


def figcaption(caption: str) -> str:
    """A caption as HTML, empty when there is none; the class says where formulas stand."""
    if not isinstance(caption, str):
        raise TypeError(f"a caption is a text, got {caption!r}")
    if not caption:
        return ""
    return f'<figcaption class="tex2jax_process">{html.escape(caption, quote=False)}</figcaption>\n'


def css() -> str:
    """The style in every figure: the colours of a dark page, and the figure's place in the text."""
    dark = ";".join(f"--u-{role}:{colour}" for role, (_, colour) in COLOURS.items())
    rules = Path(__file__).with_name("figures.css").read_text(encoding="utf-8")
    return f"@media screen{{{','.join(_DARK)}{{{dark};--u-scheme:dark}}}}\n{rules.strip()}\n"
