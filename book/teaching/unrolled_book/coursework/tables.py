"""Tables that people have saved: with commas or semicolons, in UTF-8 or as Excel writes them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path


def read(path: str | Path, columns: Iterable[str]) -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV file, each with the number of its last line. Blank rows are left out.

    ValueError names the file where a column is missing or it is no text.
    """
    body, columns = Path(path).read_bytes(), tuple(columns)
    text = _text(body)
    expected = f"expected a CSV file with the columns {', '.join(columns)}"
    if text is None:
        raise ValueError(f"{path} is no text; {expected}")
    first = text.partition("\n")[0]
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    try:
        head = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = head
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}; {expected}") from error
    if missing := [name for name in columns if name not in head]:
        raise ValueError(f"{path} has no column {missing[0]}; {expected}")
    plain = [
        (
            n,
            {
                k: (v or "")
                for k, v in row.items()
                if isinstance(k, str) and not isinstance(v, list)
            },
        )
        for n, row in rows
    ]
    return [(n, row) for n, row in plain if any(value.strip() for value in row.values())]


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
