"""Tables that people have saved: with commas or semicolons, in UTF-8 or as Excel writes them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sheet:
    """A CSV file as it stands. lines: the number of each row's last line in the file."""

    path: str
    head: list[str]
    rows: list[list[str]]
    lines: list[int]
    separator: str

    def dicts(self) -> list[dict[str, str]]:
        """The rows by the names of their columns; what is missing at a row's end is ""."""
        blank = [""] * len(self.head)
        return [dict(zip(self.head, [*row, *blank], strict=False)) for row in self.rows]


def sheet(path: str | Path, expected: str = "expected a CSV file") -> Sheet:
    """The file's first row and all others. ValueError names the file where it is no text."""
    text = _text(Path(path).read_bytes())
    if text is None:
        raise ValueError(f"{path} is no text; {expected}")
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        head = [name.strip() for name in next(reader, [])]
        both = [(row, reader.line_num) for row in reader]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}; {expected}") from error
    rows, lines = [row for row, _ in both], [line for _, line in both]
    return Sheet(str(path), head, rows, lines, separator)


def read(path: str | Path, columns: Iterable[str]) -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV file, each with the number of its last line. Blank rows are left out.

    ValueError names the file where a column is missing or it is no text.
    """
    columns = tuple(columns)
    expected = f"expected a CSV file with the columns {', '.join(columns)}"
    found = sheet(path, expected)
    if missing := [name for name in columns if name not in found.head]:
        raise ValueError(f"{path} has no column {missing[0]}; {expected}")
    rows = zip(found.lines, found.dicts(), strict=True)
    return [(n, row) for n, row in rows if any(value.strip() for value in row.values())]


def _text(body: bytes) -> str | None:
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):  # Excel's "Unicode text"
        return body.decode("utf-16", errors="replace")
    if b"\0" in body:
        return None
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            return body.decode(encoding)
        except UnicodeDecodeError:
            continue
    return body.decode("latin-1")
