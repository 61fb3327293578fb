"""A table of results: HTML on the page, aligned text elsewhere."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from numbers import Number
from pathlib import Path
from typing import Any

from unrolled_book.figures.style import css, figcaption

_RANGE, _JOINED = re.compile(r"(?<=[\d%])–(?=\d)"), "–\N{WORD JOINER}"  # keep 56–64 on one line


def table(
    rows: Sequence[Mapping[str, Any]],
    *,
    caption: str = "",
    form: str | Mapping[str, str] = ".3g",
    mark: int | None = None,
) -> None:
    """Display records as a table; the keys of the first row are the header.

    Numbers stand at the right, texts at the left; the first column names the row. The text form,
    for readers without HTML and for tests, has the same columns.

    Args:
        rows: one mapping for each row, all with the same keys; a key may hold a unit
            ("seconds", "loss (nats)"). None stays empty.
        caption: the finding, above the table; `$…$` is mathematics.
        form: the format of floats, or one for each column; integers are written in full.
        mark: the index of a row to stress.

    Raises:
        ValueError: without rows, or if a row has other keys than the first.
    """
    from IPython.display import display

    rows = [dict(row) for row in rows]
    if not rows or not rows[0]:
        raise ValueError("a table needs at least one row with at least one column")
    header = list(rows[0])
    for k, row in enumerate(rows):
        if list(row) != header:
            raise ValueError(f"row {k} has the columns {list(row)}, the first row {header}")
    forms = form if isinstance(form, Mapping) else dict.fromkeys(header, form)
    if unknown := sorted(set(forms) - set(header)):
        raise ValueError(f"form names the columns {unknown}; the table has {header}")
    texts = [[_written(row[key], forms.get(key, ".3g")) for key in header] for row in rows]
    right = [
        all(isinstance(row[key], Number | None) for row in rows) and k > 0
        for k, key in enumerate(header)
    ]
    display(
        {
            "text/html": _html(header, texts, right, caption, mark),
            "text/plain": _plain(header, texts, right, caption),
        },
        raw=True,
    )


def _written(value: Any, form: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, Number):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if form == ".3g" else format(value, form)
    return format(float(value), form).replace("-", "−")


def _html(
    header: list[str], texts: list[list[str]], right: list[bool], caption: str, mark: int | None
) -> str:
    side = [' class="u-number"' if number else "" for number in right]
    head = "".join(
        f'<th scope="col"{s}>{_RANGE.sub(_JOINED, html.escape(name))}</th>'
        for name, s in zip(header, side, strict=True)
    )
    lines = []
    for k, row in enumerate(texts):
        cells = "".join(
            f"<td{s}>{_RANGE.sub(_JOINED, html.escape(text))}</td>"
            for text, s in zip(row[1:], side[1:], strict=True)
        )
        marked = ' class="u-mark"' if k == mark else ""
        lines.append(f'<tr{marked}><th scope="row">{html.escape(row[0])}</th>{cells}</tr>')
    rules = Path(__file__).with_name("tables.css").read_text(encoding="utf-8")
    above = figcaption(caption).replace("figcaption", "caption")
    return (
        f'<figure class="u-figure u-table">\n<style>\n{css()}{rules}</style>\n<table>\n'
        f"{above}<thead><tr>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(lines)
        + "\n</tbody>\n</table>\n</figure>"
    )


def _plain(header: list[str], texts: list[list[str]], right: list[bool], caption: str) -> str:
    width = [max(map(len, column)) for column in zip(header, *texts, strict=True)]

    def line(row: list[str]) -> str:
        cells = (
            text.rjust(w) if number else text.ljust(w)
            for text, w, number in zip(row, width, right, strict=True)
        )
        return "  ".join(cells).rstrip()

    rule = "  ".join("─" * w for w in width)
    body = [line(header), rule, *map(line, texts)]
    return "\n".join([*([caption] if caption else []), *body])
