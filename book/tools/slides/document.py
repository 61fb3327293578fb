"""The slides of a chapter → one HTML page for reveal.js, which lies beside the book's scripts."""

from __future__ import annotations

import re
from pathlib import Path

from book.extensions.versions import version
from book.tools.epub.leaves import SITE
from book.tools.live.packages import Package
from book.tools.slides.blocks import Chapter
from book.tools.slides.deck import Slide

HERE = Path(__file__).parent
OUT = SITE / "slides"
REVEAL = Package(
    "reveal.js",
    "5.2.1",
    "afbfffea620ce69df884588332f61f5e0ca35ea191b5afbfa6c77d62dcadb204"
    "65ae947316fe116c7efa4d7776a83fbb64f6446e904385d46125a1607d0ef335",
)
TAKEN = ("dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js", "LICENSE")
THEME = """<script>
const page = document.documentElement, chosen = localStorage.getItem("theme");
page.dataset.theme = /^(light|dark)$/.test(chosen) ? chosen :
  matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
</script>"""


def write_engine() -> dict[str, str]:
    """Put reveal.js and the book's part of it into the site; their addresses, from a deck, by name.

    Raises NoBundle where npm does not deliver.
    """
    folder = SITE / "_static" / "reveal"
    folder.mkdir(parents=True, exist_ok=True)
    members = REVEAL.members()
    files = {Path(name).name: members[f"package/{name}"] for name in TAKEN}
    files |= {name: (HERE / name).read_bytes() for name in ("slides.css", "slides.js")}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return {name: f"../_static/reveal/{name}?v={version(data)}" for name, data in files.items()}


def page(chapter: Chapter, slides: list[Slide], engine: dict[str, str]) -> str:
    """The deck as a page of the site."""
    head = (SITE / "chapters" / f"{chapter.name}.html").read_text("utf8").partition("</head>")[0]
    styles = re.findall(r'<link\b[^>]*rel="stylesheet"[^>]*>', head)
    icon = re.findall(r'<link\b[^>]*rel="icon"[^>]*>', head)
    title = re.search(r"<title>(.*?)</title>", head, re.S)[1]
    canonical = re.search(r'<link\b[^>]*rel="canonical"[^>]*>', head)[0]
    sections = "\n".join(_sections(chapter, slides))
    # The empty corner of a table is no heading (on the pages a script says so).
    sections = re.sub(r"<th\b[^>]*>(?:\s|</?p>)*</th>", "<td></td>", sections)
    # Each figure brings its style and its script; a page needs each of them once.
    once = {kind: list(dict.fromkeys(re.findall(rf"<{kind}>.*?</{kind}>", sections, re.S)))
            for kind in ("style", "script")}  # fmt: skip
    for kind in once:
        sections = re.sub(rf"<{kind}>.*?</{kind}>", "", sections, flags=re.S)
    return f"""<!DOCTYPE html>
<html lang="en" data-content_root="../">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Slides: {title}</title>
{canonical}
{"".join(icon)}
{"".join(styles)}
<link rel="stylesheet" href="{engine["reveal.css"]}">
<link rel="stylesheet" href="{engine["slides.css"]}">
{"".join(once["style"])}
{THEME}
</head>
<body>
<main><div class="reveal bd-content"><div class="slides bd-article">
{sections}
</div></div></main>
<script src="{engine["reveal.js"]}"></script>
<script src="{engine["notes.js"]}"></script>
{"".join(once["script"])}
<script src="{engine["slides.js"]}"></script>
</body>
</html>
"""


def _sections(chapter: Chapter, slides: list[Slide]) -> list[str]:
    made, until = [], 0.0
    for slide in slides:
        until += slide.minutes
        level = "h1" if slide.kind == "title" else "h2"
        head = f"<{level}>{chapter.whole(slide.heading)}</{level}>"
        foot = ""
        if slide.kind == "title":
            foot = (
                f'<p class="s-foot"><a href="../chapters/{chapter.name}.html">The chapter</a> · '
                "keys: → on, ← back, S notes, D dark, F full screen, Esc all slides</p>"
            )
        time = f"<p><b>{slide.minutes:g} min</b>, until minute {until:g}</p>"
        notes = re.sub(r"<figure\b.*?</figure>", "", "".join(slide.notes), flags=re.S)
        notes = re.sub(r' (?:id|class|data-[\w-]+)="[^"]*"', "", chapter.spoken(notes))
        made.append(
            f'<section class="s-slide s-{slide.kind}" data-minutes="{slide.minutes:g}">{head}\n'
            f'<div class="s-body">{chapter.whole(slide.body)}</div>{foot}\n'
            f'<aside class="notes">{time}{notes}</aside></section>'
        )
    return made


def link(name: str, text: str = "Slides") -> str:
    """A link to a deck from a page in a folder of the site."""
    return f'<a href="../slides/{name}.html">{text}</a>'
