"""The book's one house style: `figures.use_house_style()`, then matplotlib, then `figures.show`."""

from unrolled_book.figures.curves import training_curves
from unrolled_book.figures.diagrams import Board
from unrolled_book.figures.graphs import computation_graph, module_graph
from unrolled_book.figures.palette import PALETTE
from unrolled_book.figures.plots import heatmap, label_lines
from unrolled_book.figures.style import (
    css,
    figcaption,
    label,
    markup,
    show,
    svg,
    use_house_style,
)
from unrolled_book.figures.tables import table

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
