"""The files of an EPUB beside its chapters, and their container: same input, same bytes."""

from __future__ import annotations

import html
import itertools
import uuid
import zipfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from book.extensions.imprint import Imprint

TYPES = {".xhtml": "application/xhtml+xml", ".svg": "image/svg+xml", ".css": "text/css",
         ".png": "image/png", ".ncx": "application/x-dtbncx+xml"}  # fmt: skip
HEAD = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" lang="en" xml:lang="en">
<head><meta charset="utf-8"/><title>{title}</title>
<link rel="stylesheet" type="text/css" href="{up}style.css"/></head>
"""  # noqa: E501
CONTAINER = """<?xml version="1.0" encoding="utf-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="EPUB/package.opf" media-type="application/oebps-package+xml"/>
</rootfiles></container>
"""
ACCESS = {
    "accessMode": ("textual", "visual"),
    "accessModeSufficient": ("textual", "textual,visual"),
    "accessibilityFeature": (
        "alternativeText", "MathML", "latex", "displayTransformability", "readingOrder",
        "structuralNavigation", "tableOfContents", "unlocked",
    ),
    "accessibilityHazard": ("none",),
    "accessibilitySummary": (
        "The text reflows. Formulas are MathML with their TeX beside it. Every drawing has an "
        "alternative text, and nothing is said by colour alone. Figures that move in the web book "
        "stand here as stills.",
    ),
}  # fmt: skip


@dataclass
class Page:
    """An XHTML file of the book, and what the table of contents says of it."""

    name: str  # "text/14_attention.xhtml"
    title: str
    body: str  # the <body> element
    part: str = ""
    sections: list[tuple[str, str]] = field(default_factory=list)  # (id, title)

    @property
    def content(self) -> str:
        return HEAD.format(title=_text(self.title), up="../") + self.body + "\n</html>\n"


def files(
    pages: list[Page], pictures: dict[str, str], base: str, when: datetime, imprint: Imprint
) -> dict[str, str]:
    """Every text file below EPUB/: the pages, their pictures, the contents, the package."""
    found = {page.name: page.content for page in pages}
    found |= {f"pictures/{name}": content for name, content in sorted(pictures.items())}
    found["style.css"] = (Path(__file__).parent / "style.css").read_text("utf8")
    found["nav.xhtml"] = navigation(pages)
    found["toc.ncx"] = ncx(pages, base, imprint.title)
    found["package.opf"] = package([*found, "cover.png"], pages, base, when, imprint)
    return found


def identifier(base: str) -> str:
    """The book's name among all books: made from its address, the same in every edition."""
    return uuid.uuid5(uuid.NAMESPACE_URL, base).urn


def navigation(pages: list[Page]) -> str:
    """The contents: parts, pages, and the sections of each page."""
    entries = []
    for part, members in _parts(pages):
        items = "".join(_entry(page) for page in members)
        entries.append(f"<li><span>{_text(part)}</span><ol>{items}</ol></li>" if part else items)
    marks = [("toc", "nav.xhtml#toc", "Contents")]
    for kind, name in (("bodymatter", "01_chain_rule"), ("glossary",) * 2, ("bibliography",) * 2):
        marks += [(kind, p.name, p.title) for p in pages if p.name == f"text/{name}.xhtml"]
    items = "".join(f'<li><a epub:type="{kind}" href="{href}">{_text(title)}</a></li>'
                    for kind, href, title in marks)  # fmt: skip
    return (
        HEAD.format(title="Contents", up="")
        + '<body><nav epub:type="toc" role="doc-toc" id="toc"><h1>Contents</h1>\n<ol>'
        + "\n".join(entries)
        + '</ol></nav>\n<nav epub:type="landmarks" id="landmarks" hidden=""><h2>Landmarks</h2>'
        + f"<ol>{items}</ol></nav></body>\n</html>\n"
    )


def _entry(page: Page) -> str:
    inner = "".join(f'<li><a href="{page.name}#{name}">{_text(title)}</a></li>'
                    for name, title in page.sections)  # fmt: skip
    inner = f"<ol>{inner}</ol>" if inner else ""
    return f'<li><a href="{page.name}">{_text(page.title)}</a>{inner}</li>\n'


def _parts(pages: list[Page]) -> list[tuple[str, list[Page]]]:
    parts: list[tuple[str, list[Page]]] = []
    for page in pages:
        if not parts or parts[-1][0] != page.part:
            parts.append((page.part, []))
        parts[-1][1].append(page)
    return parts


def ncx(pages: list[Page], base: str, title: str) -> str:
    """The contents for readers of EPUB 2: pages and their sections."""
    order = itertools.count(1)
    points = "".join(
        _point(next(order), page.title, page.name, "".join(
            _point(next(order), section, f"{page.name}#{name}")
            for name, section in page.sections
        ))
        for page in pages
    )  # fmt: skip
    return f"""<?xml version="1.0" encoding="utf-8"?>
<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1" xml:lang="en">
<head><meta name="dtb:uid" content="{identifier(base)}"/></head>
<docTitle><text>{_text(title)}</text></docTitle>
<navMap>{points}</navMap>
</ncx>
"""


def _point(order: int, title: str, target: str, inner: str = "") -> str:
    return (
        f'<navPoint id="n{order}" playOrder="{order}"><navLabel><text>{_text(title)}</text>'
        f'</navLabel><content src="{target}"/>{inner}</navPoint>\n'
    )


def package(
    names: list[str], pages: list[Page], base: str, when: datetime, imprint: Imprint
) -> str:
    """The package document: what the book is, its files, and the order in which they are read."""
    math = {page.name for page in pages if "<math" in page.body}
    items = []
    for i, name in enumerate(names):
        also = {"nav.xhtml": "nav", "cover.png": "cover-image"}.get(name, "mathml" * (name in math))
        properties = f' properties="{also}"' if also else ""
        kind = TYPES[Path(name).suffix]
        items.append(f'<item id="f{i}" href="{name}" media-type="{kind}"{properties}/>')
    ids = {name: f"f{i}" for i, name in enumerate(names)}
    order = [pages[0].name, pages[1].name, "nav.xhtml", *(page.name for page in pages[2:])]
    spine = "".join(f'<itemref idref="{ids[name]}"/>' for name in order)
    access = "\n".join(f'<meta property="schema:{name}">{value}</meta>'
                       for name, values in ACCESS.items() for value in values)  # fmt: skip
    written = f"{when:%Y-%m-%dT%H:%M:%SZ}"
    listed = "\n".join(items)
    return f"""<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">{identifier(base)}</dc:identifier>
<dc:title id="title">{_text(imprint.whole)}</dc:title>
<dc:creator id="author">{_text(imprint.author)}</dc:creator>
<meta refines="#author" property="role" scheme="marc:relators">aut</meta>
<dc:language>en</dc:language>
<dc:date>{when:%Y-%m-%d}</dc:date>
<dc:source>{html.escape(base)}</dc:source>
<dc:subject>Language models</dc:subject>
<dc:subject>Neural networks</dc:subject>
<dc:rights>{_text(imprint.licence)}</dc:rights>
<meta property="dcterms:modified">{written}</meta>
{access}
<meta name="cover" content="{ids["cover.png"]}"/>
</metadata>
<manifest>
{listed}
</manifest>
<spine toc="{ids["toc.ncx"]}">{spine}</spine>
</package>
"""


def _text(words: str) -> str:
    return html.escape(words, quote=False)


def write(out: Path, content: dict[str, str | bytes], when: datetime) -> None:
    """The container: the media type first and stored, then each file."""
    everything = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER}
    archive(out, everything | {f"EPUB/{name}": data for name, data in content.items()}, when)


def archive(out: Path, content: dict[str, str | bytes], when: datetime) -> None:
    """A zip file of these files, all with one date; a media type and pictures are stored."""
    date = max(when.astimezone(UTC), datetime(1980, 1, 1, tzinfo=UTC)).timetuple()[:6]
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w") as packed:
        for name, data in content.items():
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = 0o644 << 16
            stored = name == "mimetype" or name.endswith(".png")
            entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            packed.writestr(entry, data, compresslevel=9)
