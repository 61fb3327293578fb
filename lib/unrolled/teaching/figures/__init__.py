"""The book's one house style: `figures.use_house_style()`, then matplotlib, then `figures.show`."""

from unrolled.teaching.figures.curves import training_curves
from unrolled.teaching.figures.palette import PALETTE
from unrolled.teaching.figures.plots import heatmap, label_lines
from unrolled.teaching.figures.style import (
    css,
    figcaption,
    label,
    markup,
    show,
    svg,
    use_house_style,
)

__all__ = [
    "PALETTE",
    "css",
    "figcaption",
    "heatmap",
    "label",
    "label_lines",
    "markup",
    "show",
    "svg",
    "training_curves",
    "use_house_style",
]
