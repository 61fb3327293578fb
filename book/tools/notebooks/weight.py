"""How heavy a chapter is: the minutes an honest reader needs, and how much code stands open.

    python -m book.tools.notebooks.weight            all chapters, or those named
    python -m book.tools.notebooks.weight --write    also write the minutes into the openings
    python -m book.tools.notebooks.weight --wide     only name the open lines that are too wide

The main road is everything but the sections "Going further…" and "Exercises". Its minutes are
words / 180 + visible lines of code / 12 + one for each figure or table. Visible is the code of
cells that are not folded (`hide-input`); the first cell, the set-up, does not count.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from book.tools.notebooks import chapter_paths, read, tags, write

WORDS_A_MINUTE, LINES_A_MINUTE = 180, 12
COLUMNS = 80
SAID = re.compile(r"\b(\d+)(?= minutes to read)")
_BESIDE = re.compile(r"## +(Going further|Exercises)")
_FIGURE = re.compile("<svg|<img|<figure")


@dataclass
class Weight:
    """What was counted. `cells` has the visible lines of each open cell of the main road."""

    words: int = 0
    figures: int = 0
    folded: int = 0
    cells: list[int] = field(default_factory=list)
    wide: list[str] = field(default_factory=list)

    lines = property(lambda self: sum(self.cells))

    @property
    def minutes(self) -> int:
        """Minutes of the main road, rounded."""
        code = self.lines / LINES_A_MINUTE
        return round(self.words / WORDS_A_MINUTE + code + self.figures)

    def quantile(self, share: float) -> int:
        """The visible lines that this share of the open cells does not exceed."""
        cells = sorted(self.cells) or [0]
        return cells[int(share * (len(cells) - 1))]


def weigh(notebook: NotebookNode) -> Weight:
    """Count a chapter's main road; wide lines are looked for in the exercises too."""
    weight, beside, is_setup = Weight(), False, True
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            for line in cell.source.splitlines():
                if line.startswith("## "):
                    beside = _BESIDE.match(line) is not None
                weight.words += 0 if beside else len(line.split())
            continue
        if is_setup:
            is_setup = False
            continue
        lines = [line for line in cell.source.splitlines() if line.strip()]
        folded = "hide-input" in tags(cell)
        texts = [output.get("text", "") for output in cell.outputs]
        for line in [*([] if folded else lines), *"\n".join(texts).splitlines()]:
            if len(line) > COLUMNS:
                weight.wide.append(f"cell {index}: {len(line)} columns in {line.strip()[:50]!r}…")
        if beside:
            continue
        pages = (output.get("data", {}).get("text/html", "") for output in cell.outputs)
        weight.figures += sum(bool(_FIGURE.search(page)) for page in pages)
        if folded:
            weight.folded += len(lines)
        else:
            weight.cells.append(len(lines))
    return weight


def state_minutes(notebook: NotebookNode) -> None:
    """Write the counted minutes into the sentence '… minutes to read' of the opening, in place."""
    opening = notebook.cells[0]
    opening.source = SAID.sub(str(weigh(notebook).minutes), opening.source, count=1)


def wide(paths: list[Path]) -> int:
    """Name the open lines of code that are wider than a page shows; how many there are."""
    lines = [f"{path.name}, {line}" for path in paths for line in weigh(read(path)).wide]
    print(*lines, sep="\n", end="\n" * bool(lines))
    return len(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m book.tools.notebooks.weight")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("chapters", nargs="*", help="such as 07; default: all")
    options = parser.parse_args()
    if options.wide:
        return int(wide(chapter_paths(options.chapters)) > 0)
    print(f"{'chapter':24} minutes  words  lines  folded  figures  median  p90  max  wide")
    for path in chapter_paths(options.chapters):
        notebook = read(path)
        w = weigh(notebook)
        quantiles = f"{w.quantile(0.5):6}  {w.quantile(0.9):3}  {w.quantile(1):3}"
        print(
            f"{path.stem:24} {w.minutes:7}  {w.words:5}  {w.lines:5}  {w.folded:6}  {w.figures:7}"
            f"  {quantiles}  {len(w.wide):4}"
        )
        if options.write:
            state_minutes(notebook)
            write(notebook, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
