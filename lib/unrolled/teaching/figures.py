"""The book's one house style: a palette by role, and figures as inline SVG that follow the page.

A figure is drawn with matplotlib in the light colours of `PALETTE`. `svg` writes it as a fragment
in which every one of those colours is a CSS variable with the light colour as its fallback,
`fill: var(--u-accent, #4f46e5)`, so the same drawing is read on a white and on a dark page, in the
web book, in JupyterLab and in Colab. Text stays text, in the font of the page around it.
"""

from __future__ import annotations

import html
import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from unrolled.teaching.inline_svg import inline

# Each role's colour on a light and on a dark page; contrast with the page at least 4.5 to 1, and
# told apart by colour-blind readers too (`grid` and `page` are furniture).
_COLOURS = {
    "ink": ("#1f2328", "#e6e6ea"),
    "muted": ("#5f6773", "#9aa3af"),
    "grid": ("#d9dce1", "#3a3f47"),
    "page": ("#ffffff", "#14181e"),
    "accent": ("#4f46e5", "#9b95ff"),
    "data": ("#28845d", "#32dfaa"),
    "test": ("#b14728", "#cf7a32"),
    "gradient": ("#7f097a", "#f03986"),
    "value": ("#3e3311", "#f2d232"),
}
# A concept keeps its colour through the book, so several concepts share one.
_ALIASES = {
    "model": "accent",
    "query": "accent",
    "train": "data",
    "key": "data",
    "validation": "test",
}
PALETTE: dict[str, str] = {role: light for role, (light, _) in _COLOURS.items()}
PALETTE |= {alias: PALETTE[role] for alias, role in _ALIASES.items()}

_VARIABLE = {light: f"var(--u-{role}, {light})" for role, (light, _) in _COLOURS.items()}
_VARIABLE["#000000"] = _VARIABLE[PALETTE["ink"]]

# Where a page says that it is dark: the web book, JupyterLab, Colab, VS Code.
_DARK = (
    "html[data-theme=dark]",
    'body[data-jp-theme-light="false"]',
    "html[theme=dark]",
    "body.vscode-dark",
)


def use_house_style() -> None:
    """Set matplotlib's defaults to the book's: call it once, after the imports of a chapter."""
    mpl.rcParams.update(
        {
            "figure.figsize": (5.6, 3.2),  # inches; real ones on a wide page, less on a phone
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

    The same figure gives the same bytes on every run. Identifiers start with `prefix`; without one
    it is taken from a hash of the drawing, so two figures on a page do not share an identifier.

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
        alt: what is to be seen, for readers who do not see it.
        caption: plain text under the figure; `$…$` is set as mathematics.

    Raises:
        ValueError: if `alt` is blank.
        TypeError: if `caption` is no text.
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
    """A caption as HTML, empty when there is none; the class asks MathJax to look inside."""
    if not isinstance(caption, str):
        raise TypeError(f"a caption is a text, got {caption!r}")
    if not caption:
        return ""
    return f'<figcaption class="tex2jax_process">{html.escape(caption, quote=False)}</figcaption>\n'


def css() -> str:
    """The style every figure carries: the dark page's colours, and a figure's place in the text."""
    dark = ";".join(f"--u-{role}:{colour}" for role, (_, colour) in _COLOURS.items())
    rules = Path(__file__).with_name("figures.css").read_text(encoding="utf-8")
    return f"@media screen{{{','.join(_DARK)}{{{dark};--u-scheme:dark}}}}\n{rules.strip()}\n"


def label_lines(ax: mpl.axes.Axes, *, gap: float = 1.25) -> None:
    """Write each labelled line's name at its right end, in its colour, instead of a legend.

    Names that would overlap are pushed apart to `gap` times the font size. Call it last, when the
    limits of the axes stand.
    """
    lines = [line for line in ax.get_lines() if not line.get_label().startswith("_")]
    if not lines:
        return
    ends = [ax.transData.transform(line.get_xydata()[-1])[1] for line in lines]
    points = np.array(ends) * 72 / ax.figure.dpi
    size = mpl.rcParams["font.size"]
    for line, shift in zip(lines, _spread(points, gap * size) - points, strict=True):
        ax.annotate(
            line.get_label(),
            xy=line.get_xydata()[-1],
            xytext=(7, shift),
            textcoords="offset points",
            va="center",
            color=line.get_color(),
            annotation_clip=False,
        )


def heatmap(
    ax: mpl.axes.Axes,
    matrix: Any,
    *,
    rows: Any = None,
    columns: Any = None,
    limit: float | None = None,
    annotate: str = "",
    colour: str = "accent",
    negative: str = "test",
) -> None:
    """Draw a small matrix, row 0 on top, as cells whose opacity is |entry| / `limit`.

    Zero is the page itself, so a signed matrix is centred at zero and both signs are read on light
    and dark pages.

    Args:
        matrix: (R, C) finite numbers.
        rows: R names beside the rows, or None.
        columns: C names above the columns, or None.
        limit: the magnitude drawn at full strength; the largest one in `matrix` by default.
        annotate: a format such as `".2f"` to write the entries into the cells.
        colour: the palette's role for positive entries.
        negative: the palette's role for negative entries.

    Raises:
        ValueError: if `matrix` is not a matrix of finite numbers or the names do not fit it.
    """
    matrix = np.asarray(matrix, dtype=float)
    if matrix.ndim != 2 or matrix.size == 0 or not np.isfinite(matrix).all():
        raise ValueError(f"expected a matrix of finite numbers, got shape {matrix.shape}")
    n_rows, n_columns = matrix.shape
    limit = float(np.abs(matrix).max()) or 1.0 if limit is None else limit
    # Ink is legible on a cell up to half strength, on a light page and on a dark one.
    strength = np.clip(np.abs(matrix) / limit, 0, 1) * (0.5 if annotate else 1)
    cells, faces = [], []
    for (i, j), entry in np.ndenumerate(matrix):
        cells.append([(j - 0.47, i - 0.47), (j + 0.47, i - 0.47), (j + 0.47, i + 0.47),
                      (j - 0.47, i + 0.47)])  # fmt: skip
        role = PALETTE[colour if entry >= 0 else negative]
        faces.append(mpl.colors.to_rgba(role, round(float(strength[i, j]), 2)))
        if annotate:
            ax.text(j, i, format(entry, annotate).replace("-", "−"), ha="center", va="center")
    ax.add_collection(PolyCollection(cells, facecolors=faces, linewidths=0))
    ax.set(xlim=(-0.5, n_columns - 0.5), ylim=(n_rows - 0.5, -0.5), aspect="equal")
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.xaxis.set_ticks_position("top")
    ax.xaxis.set_label_position("top")
    for axis, names, n in ((ax.xaxis, columns, n_columns), (ax.yaxis, rows, n_rows)):
        if names is not None and len(names) != n:
            raise ValueError(f"{len(names)} names for {n} of a {n_rows} × {n_columns} matrix")
        axis.set_ticks(range(n) if names is not None else [], names)


def _spread(positions: np.ndarray, gap: float) -> np.ndarray:
    """The positions nearest to the given ones in the same order, at least `gap` apart (n,)."""
    order = np.argsort(positions, kind="stable")
    # x_i − i·gap must not decrease: pool neighbours that break it into their mean.
    blocks: list[list[float]] = []
    for rank, index in enumerate(order):
        blocks.append([positions[index] - rank * gap])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    flat = np.concatenate([np.full(len(block), np.mean(block)) for block in blocks])
    spread = np.empty_like(flat)
    spread[order] = flat + gap * np.arange(len(flat))
    return spread
