"""A PDF whose small objects stand together in compressed streams: a third of the bytes.

Chromium and pypdf write each object by itself. A tagged book has some hundred thousand of them.
"""

from __future__ import annotations

import io
from pathlib import Path

from pypdf import PdfWriter
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    NameObject,
    NumberObject,
    PdfObject,
    StreamObject,
)

TOGETHER = 200
HEAD = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
Row = tuple[int, int, int]  # of the table of objects: its kind, where it stands, its rank there


def write(writer: PdfWriter, out: Path) -> None:
    """Write the document that `writer` holds."""
    rows: dict[int, Row] = {0: (0, 0, 255)}
    body, small = io.BytesIO(), []
    body.write(HEAD)
    for number, one in enumerate(writer._objects, 1):
        if isinstance(one, StreamObject):
            rows[number] = (1, _put(body, number, one), 0)
        elif one is not None:
            small.append((number, one))
    last = len(writer._objects)
    for i in range(0, len(small), TOGETHER):
        last += 1
        group = small[i : i + TOGETHER]
        rows[last] = (1, _put(body, last, _stream(group)), 0)
        rows |= {number: (2, last, rank) for rank, (number, _) in enumerate(group)}
    begin = body.tell()
    rows[last + 1] = (1, begin, 0)
    _put(body, last + 1, _table(writer, rows, last + 2))
    body.write(b"startxref\n%d\n%%%%EOF\n" % begin)
    out.write_bytes(body.getvalue())


def _put(body: io.BytesIO, number: int, one: StreamObject) -> int:
    begin = body.tell()
    body.write(b"%d 0 obj\n" % number)
    one.write_to_stream(body)
    body.write(b"\nendobj\n")
    return begin


def _stream(group: list[tuple[int, PdfObject]]) -> StreamObject:
    texts, places = io.BytesIO(), []
    for number, one in group:
        places.append(f"{number} {texts.tell()}")
        one.write_to_stream(texts)
        texts.write(b"\n")
    head = (" ".join(places) + "\n").encode()
    entries = {"/N": len(group), "/First": len(head)}
    return _compressed(head + texts.getvalue(), "/ObjStm", entries)


def _table(writer: PdfWriter, rows: dict[int, Row], size: int) -> StreamObject:
    data = b"".join(
        kind.to_bytes(1, "big") + at.to_bytes(4, "big") + rank.to_bytes(2, "big")
        for kind, at, rank in (rows.get(number, (0, 0, 255)) for number in range(size))
    )
    table = _compressed(data, "/XRef", {"/Size": size})
    table[NameObject("/W")] = ArrayObject(map(NumberObject, (1, 4, 2)))
    table[NameObject("/Root")] = writer.root_object.indirect_reference
    table[NameObject("/Info")] = writer._info.indirect_reference
    return table


def _compressed(data: bytes, kind: str, entries: dict[str, int]) -> StreamObject:
    stream = DecodedStreamObject()
    stream.set_data(data)
    packed = stream.flate_encode()
    packed[NameObject("/Type")] = NameObject(kind)
    packed.update({NameObject(name): NumberObject(n) for name, n in entries.items()})
    return packed
