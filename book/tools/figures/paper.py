"""A drawing as a page of PDF, of its own size; Chromium sets it, so its text stays text."""

from __future__ import annotations

import io
from datetime import datetime
from html import escape
from xml.etree import ElementTree as ET

from playwright.sync_api import Page
from pypdf import PdfReader, PdfWriter

from book.extensions.imprint import Imprint
from book.tools.figures.figure import Figure


def pdf(figure: Figure, page: Page, imprint: Imprint, when: datetime) -> bytes:
    """The figure as a PDF that says what it is. page: of Chromium, on which nothing else is.

    Raises:
        ValueError: if it does not fit on its page.
    """
    root = ET.fromstring(figure.svg)
    width, height = root.get("width"), root.get("height")
    style = f"@page{{size:{width} {height};margin:0}}body{{margin:0}}svg{{display:block}}"
    drawn = figure.svg.partition("\n")[2]
    page.set_content(
        f'<!DOCTYPE html><html lang="en"><title>{escape(figure.name)}</title>'
        f"<style>{style}</style>{drawn}"
    )
    reader = PdfReader(io.BytesIO(page.pdf(prefer_css_page_size=True, tagged=True)))
    if len(reader.pages) != 1:
        raise ValueError(f"{figure.name} has {len(reader.pages)} pages of {width} × {height}")
    writer = PdfWriter(clone_from=reader)
    written = f"D:{when:%Y%m%d%H%M%S}Z"
    writer.add_metadata({
        "/Title": figure.name, "/Author": imprint.author, "/Subject": figure.citation(imprint),
        "/Keywords": imprint.licence, "/CreationDate": written, "/ModDate": written,
    })  # fmt: skip
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()
