"""The ladder of `book/ladder.md`, between the page's two marks, from the recorded runs."""

from __future__ import annotations

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from unrolled_book import figures
from unrolled_book.experiments import ladder

from book.tools.notebooks import ROOT

TARGET = ROOT / "book" / "ladder.md"
BEGIN, END = "<!-- ladder:begin -->", "<!-- ladder:end -->"
CAPTION = (
    "What every recorded model needs for the same held-out text, in the order of the chapters."
)


def drawing() -> str:
    """The ladder as bars, in the house style."""
    rows = ladder.rows()
    figures.use_house_style()
    fig, ax = plt.subplots(figsize=(4.4, 0.5 * len(rows)))  # narrow: legible on a phone
    scores = [row["test_bits_per_byte"] for row in rows]
    bars = ax.barh(range(len(rows)), scores, 0.36, color=figures.PALETTE["model"])
    ax.bar_label(bars, [f"{score:.2f}" for score in scores], padding=4)
    for place, row in enumerate(rows):
        ax.text(0, place - 0.25, row["model"], va="bottom", color=figures.PALETTE["muted"])
    ax.set(xlabel="bits per byte on the test text", xlim=(0, 1.12 * max(scores)))
    ax.set_ylim(len(rows) - 0.7, -0.8)
    ax.grid(False)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set(xticks=[], yticks=[])
    alt = "Bars, one for each model: " + "; ".join(
        f"{row['model']} {score:.2f}" for row, score in zip(rows, scores, strict=True)
    )
    markup = figures.markup(figures.svg(fig), alt + " bits per byte.", CAPTION)
    plt.close(fig)
    return markup


def page() -> str:
    """The page as the records would have it."""
    text = TARGET.read_text("utf8")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    return f"{head}{BEGIN}\n```{{raw}} html\n{drawing()}\n```\n\n{ladder.table()}\n{END}{tail}"
