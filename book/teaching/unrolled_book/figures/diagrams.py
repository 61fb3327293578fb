"""Diagrams: what a teacher draws on the board, from the numbers of the chapter.

A `Board` is a matplotlib figure measured in points, with the origin at the top left. Its methods
draw one thing each (a matrix, tokens, a box, an arrow) and return where it stands, so that arrows
can start and end there:

    board = figures.Board(400, 150)
    x = board.matrix(20, 40, X, name="X", shape="(T, D)")
    q = board.matrix(200, 40, Q, name="Q", shape="(T, K)", colour="query")
    board.arrow(x, q, "W_q")
    figures.show(board.figure, alt="X times W_q gives Q.")

A diagram in stages is a function of `stage`: what stands under `with board.at(2):` appears at stage
2. `explore(draw, stage=[1, 2, 3], alt=…)` lets the reader step through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.textpath import TextPath

from unrolled_book.figures.inline_svg import PLACE
from unrolled_book.figures.palette import PALETTE

WIDEST = 440  # points; on a phone of 375 px a wider drawing's text is smaller than 8 px
SIZE, SMALL = 11.5, 10.0  # points of text
TOUCH = 32  # points: 24 pixels and more on a phone, whatever the board's width
Point = tuple[float, float]


@dataclass(frozen=True)
class Part:
    """A thing on a board: the rectangle it fills, in points, y downward.

    `clear` is the room that its labels take on the left, on the top, on the right and below: an
    arrow ends outside them.
    """

    x: float
    y: float
    width: float
    height: float
    clear: tuple[float, float, float, float] = (0, 0, 0, 0)

    centre = property(lambda self: (self.x + self.width / 2, self.y + self.height / 2))
    left = property(lambda self: (self.x - self.clear[0], self.centre[1]))
    top = property(lambda self: (self.centre[0], self.y - self.clear[1]))
    right = property(lambda self: (self.x + self.width + self.clear[2], self.centre[1]))
    bottom = property(lambda self: (self.centre[0], self.y + self.height + self.clear[3]))

    def towards(self, other: Part) -> Point:
        """The middle of the side that faces `other`."""
        x, y = self.centre
        dx, dy = other.centre[0] - x, other.centre[1] - y
        if abs(dx) * (self.height + other.height) >= abs(dy) * (self.width + other.width):
            return self.right if dx >= 0 else self.left
        return self.bottom if dy >= 0 else self.top


@dataclass(frozen=True)
class Grid(Part):
    """A matrix on a board; its cells, rows and columns are parts too."""

    shape: tuple[int, int] = (1, 1)

    def cell(self, i: int, j: int) -> Part:
        width, height = self.width / self.shape[1], self.height / self.shape[0]
        return Part(self.x + j * width, self.y + i * height, width, height)

    def row(self, i: int) -> Part:
        first = self.cell(i, 0)
        clear = (self.clear[0], 0, self.clear[2], 0)
        return Part(first.x, first.y, self.width, first.height, clear)

    def column(self, j: int) -> Part:
        first = self.cell(0, j)
        clear = (0, self.clear[1], 0, self.clear[3])
        return Part(first.x, first.y, first.width, self.height, clear)


class Board:
    """A drawing of `width` × `height` points, at `stage` (None: everything is drawn).

    Every `colour` is a role of `PALETTE`. Texts between `$` signs are mathematics.

    Raises:
        ValueError: for a board wider than 440 points, which no phone can show, or an unknown role.
    """

    def __init__(self, width: float, height: float, *, stage: int | None = None):
        if not 0 < width <= WIDEST:
            raise ValueError(f"a board is at most {WIDEST} points wide, got {width}")
        self.figure = Figure(figsize=(width / 72, height / 72), layout="none")
        self.axes = self.figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()
        self.stage, self._from = stage, 0
        self._places: dict[str, Part] = {}

    @contextmanager
    def at(self, stage: int) -> Iterator[None]:
        """What is drawn inside appears from `stage` on; before, its boxes and cells are faint."""
        outer, self._from = self._from, max(stage, self._from)
        try:
            yield
        finally:
            self._from = outer

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        colour: str = "ink",
        size: float = SIZE,
        align: str = "center",
        mono: bool = False,
        bold: bool = False,
    ) -> Part:
        """Text with its middle at height y; its centre, left or right end is at x."""
        width = text_width(text, size, mono=mono)
        font = {"family": "monospace"} if mono else {}
        weight = "bold" if bold else "normal"
        self._draw(self.axes.text, x, y, text, color=_role(colour), fontsize=size, ha=align,
                   va="center_baseline", fontweight=weight, **font)  # fmt: skip
        start = x - {"left": 0, "center": width / 2, "right": width}[align]
        return Part(start, y - size / 2, width, size)

    def box(
        self,
        x: float,
        y: float,
        text: str,
        *,
        width: float | None = None,
        height: float = 24,
        colour: str = "ink",
    ) -> Part:
        """A rounded box around text, by default as wide as the text needs."""
        width = text_width(text, SIZE) + 16 if width is None else width
        self._rounded(x, y, width, height, colour)
        self.text(x + width / 2, y + height / 2, text)
        return Part(x, y, width, height)

    def tokens(
        self, x: float, y: float, words: Sequence[str], *, gap: float = 6, colour: str = "ink"
    ) -> list[Part]:
        """A row of tokens, each in a box of its own."""
        boxes = []
        for word in words:
            boxes.append(self.box(x, y, word, colour=colour))
            x += boxes[-1].width + gap
        return boxes

    def matrix(
        self,
        x: float,
        y: float,
        values: Any,
        *,
        name: str = "",
        shape: str = "",
        rows: Sequence[str] = (),
        columns: Sequence[str] = (),
        colour: Any = "accent",
        form: str = ".3g",
        cell: Point = (30, 20),
        limit: float | None = None,
        behind: int = 0,
    ) -> Grid:
        """A matrix as cells with their entries: the darker a cell, the larger its number.

        Args:
            values: (R, C) numbers or texts; a vector is one row. NaN leaves a cell empty.
            name: written above; shape: written below, such as `"(T, K)"`.
            rows, columns: names at the left and above.
            colour: a role, or (R, C) roles. Negative numbers have the colour of `test`.
            form: the format of numbers; "" draws the cells without them.
            cell: width and height of a cell, in points.
            limit: the number that gets the darkest cell, by default the largest magnitude.
            behind: how many further layers peep out behind (the other members of a batch).
        """
        values = np.atleast_2d(np.asarray(values))
        if values.ndim != 2 or values.size == 0:
            raise ValueError(f"a matrix has two axes, got shape {values.shape}")
        (n_rows, n_columns), (width, height) = values.shape, cell
        for what, names, n in (("rows", rows, n_rows), ("columns", columns, n_columns)):
            if len(names) not in (0, n):
                raise ValueError(f"{what} needs {n} names, got {list(names)}")
        roles = np.broadcast_to(np.asarray(colour, dtype=object), values.shape)
        for k in range(behind, 0, -1):
            self._frame(x + 5 * k, y - 5 * k, n_columns * width, n_rows * height, roles[0, 0])
        if behind:
            self._fill(x, y, n_columns * width, n_rows * height, "page", 1)
        numbers = np.issubdtype(values.dtype, np.number)
        if limit is None:
            limit = (np.nanmax(np.abs(values)) or 1) if numbers else 1
        for (i, j), entry in np.ndenumerate(values):
            at = (x + j * width, y + i * height)
            if numbers and np.isnan(entry):
                self._fill(*at, width, height, "grid", 0.25)
                continue
            role = "test" if numbers and entry < 0 else roles[i, j]
            strength = 0.06 + 0.4 * min(1, abs(entry) / limit) if numbers else 0.22
            self._fill(*at, width, height, role, strength, faint=True)
            written = format(entry, form).replace("-", "−") if numbers and form else ""
            written = written if numbers else str(entry)
            if written:
                middle = (at[0] + width / 2, at[1] + height / 2)
                fits = SMALL * (width - 3) / text_width(written, SMALL)
                self.text(*middle, written, size=round(min(SMALL, 0.55 * height, fits), 1))
        left = self._names(rows, x, y, height)
        above = 0.0
        for j, column in enumerate(columns):
            self.text(x + (j + 0.5) * width, y - 8, column, size=SMALL, colour="muted")
            above = 16
        if name:
            self.text(x + n_columns * width / 2, y - above - 10 - 5 * behind, name, bold=True,
                      colour=roles[0, 0])  # fmt: skip
            above += 18
        if shape:
            below = y + n_rows * height
            self.text(x + n_columns * width / 2, below + 10, shape, size=SMALL, mono=True,
                      colour="muted")  # fmt: skip
        clear = (left, above + 5 * behind, 5 * behind, 16 if shape else 0)
        return Grid(x, y, n_columns * width, n_rows * height, clear, (n_rows, n_columns))

    def frame(self, part: Part, *, colour: str = "ink", width: float = 1.6) -> Part:
        """A line around a part: look here."""
        self._frame(part.x, part.y, part.width, part.height, colour, width)
        return part

    def place(self, part: Part, letter: str) -> Part:
        """Mark where option `letter` of the next prediction stands: it is answered by pointing.

        The mark is not drawn. It is at least 32 points wide and high, for fingers on a phone.
        Returns the mark. Raises ValueError where two marks overlap, or have the same letter.
        """
        width, height = max(part.width, TOUCH), max(part.height, TOUCH)
        x, y = part.centre[0] - width / 2, part.centre[1] - height / 2
        made = Part(x, y, width, height)
        for other, old in self._places.items():
            apart = abs(made.centre[0] - old.centre[0]) >= (width + old.width) / 2 - 0.01
            apart |= abs(made.centre[1] - old.centre[1]) >= (height + old.height) / 2 - 0.01
            if other == letter or not apart:
                raise ValueError(f"the places {other!r} and {letter!r} overlap, or are one")
        self._places[letter] = made
        mark = Rectangle((x, y), width, height, fill=False, linewidth=0, gid=PLACE + letter)
        self._draw(self.axes.add_patch, mark)
        return made

    def arrow(
        self,
        start: Part | Point,
        end: Part | Point,
        text: str = "",
        *,
        colour: str = "muted",
        bend: float = 0,
        strong: bool = False,
    ) -> None:
        """An arrow between two parts (or points), with a text in its middle.

        Args:
            bend: how far it bulges, as a share of its length; positive: to its left.
            strong: a thicker line, for the path in question.
        """
        a = start.towards(end) if isinstance(start, Part) and isinstance(end, Part) else start
        b = end.towards(start) if isinstance(start, Part) and isinstance(end, Part) else end
        a = a.towards(Part(*b, 0, 0)) if isinstance(a, Part) else a
        b = b.towards(Part(*a, 0, 0)) if isinstance(b, Part) else b
        line = FancyArrowPatch(
            a, b, arrowstyle="-|>,head_length=5,head_width=2.6", shrinkA=2, shrinkB=2,
            connectionstyle=f"arc3,rad={-bend}", color=_role(colour),
            linewidth=2.2 if strong else 1.2, mutation_scale=1,
        )  # fmt: skip
        self._draw(self.axes.add_patch, line)
        if text:
            (x0, y0), (x1, y1) = a, b
            x, y = (x0 + x1) / 2 + bend / 2 * (y1 - y0), (y0 + y1) / 2 - bend / 2 * (x1 - x0)
            self.label(x, y, text, colour)

    def path(
        self,
        points: Sequence[Point],
        text: str = "",
        *,
        colour: str = "muted",
        strong: bool = False,
    ) -> None:
        """An arrow along straight lines through `points`; the text stands on the longest."""
        line = FancyArrowPatch(
            path=Path(points), arrowstyle="-|>,head_length=5,head_width=2.6", fill=False,
            color=_role(colour), linewidth=2.2 if strong else 1.2, mutation_scale=1,
        )  # fmt: skip
        self._draw(self.axes.add_patch, line)
        if text:
            pieces = list(pairwise(points))
            (x0, y0), (x1, y1) = max(pieces, key=lambda p: np.hypot(*np.subtract(*p)))
            self.label((x0 + x1) / 2, (y0 + y1) / 2, text, colour)

    def label(self, x: float, y: float, text: str, colour: str) -> None:
        """A small text that covers the line behind it."""
        width = text_width(text, SMALL) + 6
        self._fill(x - width / 2, y - 7, width, 14, "page", 1, line=0)
        self.text(x, y, text, size=SMALL, colour=colour)

    def brace(self, a: Point, b: Point, text: str, *, colour: str = "muted") -> None:
        """A bracket under (from left to right) or beside (from top to bottom) a stretch."""
        (x0, y0), (x1, y1) = a, b
        d = 5.0
        if y0 == y1:
            points = [(x0, y0), (x0, y0 + d), (x1, y0 + d), (x1, y0)]
            self.text((x0 + x1) / 2, y0 + d + 9, text, size=SMALL, colour=colour)
        else:
            points = [(x0, y0), (x0 + d, y0), (x0 + d, y1), (x0, y1)]
            self.text(x0 + d + 5, (y0 + y1) / 2, text, size=SMALL, colour=colour, align="left")
        line = PathPatch(Path(points), fill=False, edgecolor=_role(colour), linewidth=1.2)
        self._draw(self.axes.add_patch, line)

    def number(self, x: float, y: float, n: int) -> None:
        """A numbered mark for a stage, such as ①, to which a caption or text can point."""
        mark = Circle((x, y), 8, facecolor=_role("accent"), linewidth=0)
        self._draw(self.axes.add_patch, mark)
        self.text(x, y, str(n), colour="page", size=SMALL, bold=True)

    def _names(self, names: Sequence[str], x: float, y: float, height: float) -> float:
        widest = 0.0
        for i, name in enumerate(names):
            middle = y + (i + 0.5) * height
            part = self.text(x - 6, middle, name, size=SMALL, colour="muted", align="right")
            widest = max(widest, part.width + 8)
        return widest

    def _fill(
        self, x: float, y: float, width: float, height: float, role: str, alpha: float,
        line: float = 1.5, faint: bool = False,
    ) -> None:  # fmt: skip
        face = mpl.colors.to_rgba(_role(role), round(float(alpha), 2))
        patch = Rectangle((x, y), width, height, facecolor=face, edgecolor=_role("page"),
                          linewidth=line)  # fmt: skip
        self._draw(self.axes.add_patch, patch, faint=faint)

    def _frame(
        self, x: float, y: float, width: float, height: float, role: str, line: float = 1.0
    ) -> None:
        patch = Rectangle((x, y), width, height, fill=False, edgecolor=_role(role), linewidth=line)
        self._draw(self.axes.add_patch, patch)

    def _rounded(self, x: float, y: float, width: float, height: float, role: str) -> None:
        face = mpl.colors.to_rgba(_role(role), 0.1)
        patch = FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=5",
                               facecolor=face, edgecolor=_role(role), linewidth=1.2)  # fmt: skip
        self._draw(self.axes.add_patch, patch, faint=True)

    def _draw(self, method: Any, *args: Any, faint: bool = False, **kwargs: Any) -> None:
        """Draw it, if its stage has come; before, a `faint` patch is an outline behind the rest."""
        if self.stage is None or self._from <= self.stage:
            method(*args, **kwargs)
        elif faint:
            (patch,) = args
            patch.set(facecolor="none", edgecolor=_role("grid"), linewidth=0.8, zorder=0.5)
            method(patch)


@cache  # the outline of a text takes milliseconds, and a figure that moves repeats its texts
def text_width(text: str, size: float, *, mono: bool = False) -> float:
    """How wide a text is, in points, in matplotlib's own font (most pages' fonts are narrower)."""
    family = "DejaVu Sans Mono" if mono else "DejaVu Sans"
    if not text.strip():
        return size * 0.3 * len(text)
    return TextPath((0, 0), text, size=size, prop={"family": family}).get_extents().x1


def _role(name: str) -> str:
    if name not in PALETTE:
        raise ValueError(f"{name!r} is no colour of the book; the roles are {sorted(PALETTE)}")
    return PALETTE[name]
