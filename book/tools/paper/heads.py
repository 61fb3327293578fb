"""Running heads and page numbers: printed on pages of their own, and laid over those of the book.

Chromium numbers pages in margin boxes, but a head cannot name the section of its page.
"""

from __future__ import annotations

import html
from bisect import bisect_right

import pikepdf

from book.tools.paper.document import Document, Pages

STYLE = """@page { size: 203mm 254mm; margin: 0; }
body { margin: 0; font: 9pt/1 "Libertinus Serif", serif; color: #000; }
div { position: relative; height: 254mm; break-after: page; overflow: hidden; }
svg { display: block; width: 203mm; height: 254mm; background: #1b1936; print-color-adjust: exact; }
div:last-child { break-after: auto; }
p { position: absolute; margin: 0; top: 9.5mm; left: 20mm; right: 25mm; display: flex; gap: 6mm; }
.r p { left: 25mm; right: 20mm; justify-content: end; }
.f p { top: auto; bottom: 7.5mm; justify-content: center; }
p i { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }"""


def document(book: Document, pages: Pages, blanks: set[int], count: int, faces: str) -> str:
    """The heads of the `count` pages of the book, as a document of as many pages.

    pages: the page of each id; blanks: the pages that are left empty.
    """
    found = [("c", book.edition.imprint.cover()), *heads(book, pages, blanks, count)[1:]]
    leaves = "".join(f'<div class="{kind}">{text}</div>' for kind, text in found)
    head = f'<meta charset="utf-8"><style>{faces}{STYLE}</style>'
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{leaves}</body></html>'


def heads(book: Document, pages: Pages, blanks: set[int], count: int) -> list[tuple[str, str]]:
    """(kind, HTML) of each page: its chapter on the left, its section on the right.

    A page on which a chapter begins has its number alone, at the foot.
    """
    blocks = [block for block in book.blocks if block.key in pages]
    starts = [pages[block.key] for block in blocks]
    sections: dict[str, list[tuple[int, str]]] = {block.key: [] for block in blocks}
    for key, block, title in book.sections():
        if key in pages:
            sections[block].append((pages[key], title))
    found = []
    for page in range(1, count + 1):
        block = blocks[bisect_right(starts, page) - 1]
        if page in blanks or not block.head:
            found.append(("", ""))
        elif page in starts:
            found.append(("f", f"<p>{page}</p>"))
        elif page % 2 == 0:
            found.append(("l", f"<p><b>{page}</b><i>{html.escape(block.head)}</i></p>"))
        else:
            section = _section(sections[block.key], page) or block.head
            found.append(("r", f"<p><i>{html.escape(section)}</i><b>{page}</b></p>"))
    return found


def _section(sections: list[tuple[int, str]], page: int) -> str:
    """The first section that begins on the page, or else the one that goes on."""
    begun = [title for at, title in sections if at == page]
    before = [title for at, title in sections if at < page]
    return (begun[:1] or before[-1:] or [""])[0]


def stamp(pdf: pikepdf.Pdf, over: pikepdf.Pdf) -> None:
    """Lay each page of `over` on the page of the book, as what a screen reader passes over."""
    begin = pdf.make_stream(b"q\n")
    end = pdf.make_stream(b"\nQ\n/Artifact <</Type /Pagination>> BDC q /Head Do Q EMC\n")
    for page, head in zip(pdf.pages, over.pages, strict=True):
        if b"BT" in head.Contents.read_bytes():
            page.add_resource(
                pdf.copy_foreign(head.as_form_xobject()), pikepdf.Name.XObject, pikepdf.Name.Head
            )
            page.contents_add(begin, prepend=True)
            page.contents_add(end)
