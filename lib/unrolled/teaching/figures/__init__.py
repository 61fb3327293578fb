"""The book's one house style: `figures.use_house_style()`, then matplotlib, then `figures.show`."""

from unrolled.teaching.figures.curves import training_curves
from unrolled.teaching.figures.diagrams import Board
from unrolled.teaching.figures.graphs import computation_graph, module_graph
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
from unrolled.teaching.figures.tables import table

__all__ = [
    "PALETTE",
    "Board",
    "computation_graph",
    "css",
    "figcaption",
    "heatmap",
    "label",
    "label_lines",
    "markup",
    "module_graph",
    "show",
    "svg",
    "table",
    "training_curves",
    "use_house_style",
]
