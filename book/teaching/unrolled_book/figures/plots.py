"""Two drawings for any axes: names at the ends of lines, and a matrix as cells."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import PolyCollection

from unrolled_book.figures.palette import PALETTE


def label_lines(ax: mpl.axes.Axes, *, gap: float = 1.25) -> None:
    """Write each labelled line's name at its right end, in its colour, instead of a legend.

    Overlapping names move apart to `gap` times the font size. Call it last, after the limits of the
    axes are set.
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
            color=mpl.colors.to_hex(line.get_color()),
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

    Zero shows the page itself, so a signed matrix is centred at zero and both signs are legible on
    light and dark pages.

    Args:
        matrix: (R, C) finite numbers.
        rows: R names beside the rows, or None.
        columns: C names above the columns, or None.
        limit: the magnitude drawn at full strength, by default the largest in `matrix`.
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
    """The positions (n,) closest to the given ones, in their order and at least `gap` apart."""
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
