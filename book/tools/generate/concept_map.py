"""The page `book/map.md`: what each chapter defines and needs, drawn and listed, and paths.

All of it is read from the chapters: the terms that they set in bold and link, the terms that they
use, what "You need" links to, and the minutes. The ways stand in `book/paths.toml`.
"""

from __future__ import annotations

import html
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import yaml

from book.tools.notebooks import PACKAGES, ROOT, number, published, read, tags
from book.tools.notebooks.weight import weigh

TARGET = ROOT / "book" / "map.md"
PATHS = ROOT / "book" / "paths.toml"
SYLLABI = PACKAGES["unrolled_book"] / "unrolled_book" / "coursework" / "syllabi"
IN_A_ROW = 6  # circles of the drawing; a longer part of the book has a second row
WIDE, HIGH, LEFT = 56, 92, 34
_DEFINED = re.compile(r"\[\*\*([^\]]+)\*\*\]\(term:([\w-]+)\)")
_USED = re.compile(r"\]\(term:([\w-]+)\)")


@dataclass(frozen=True)
class Chapter:
    """A chapter as the map sees it. needs: the earlier chapters that it builds on, by number."""

    number: str
    stem: str
    title: str
    minutes: int
    terms: dict[str, str]
    needs: tuple[str, ...]


@dataclass(frozen=True)
class Way:
    """A way through the book. knows: what its reader brings along, as chapters' numbers."""

    name: str
    title: str
    who: str
    chapters: tuple[str, ...]
    knows: tuple[str, ...]


def chapters() -> dict[str, Chapter]:
    """All chapters by number, in the book's order."""
    texts = {path.stem: _prose(path) for path in published()}
    home: dict[str, str] = {}  # of a term: the chapter that defines it
    for stem, text in texts.items():
        for _, key in _DEFINED.findall(text):
            home.setdefault(key, stem)
    found = {}
    for path in published():
        stem, text = path.stem, texts[path.stem]
        said = re.search(r"\*\*You need\*\*.*?(?=\n\n)", text, re.DOTALL)[0]
        linked = set(re.findall(r"\((\d\w*)\.ipynb", said)) | {
            home[key]
            for key in set(_USED.findall(text)) - {key for _, key in _DEFINED.findall(text)}
            if key in home
        }
        found[number(stem)] = Chapter(
            number(stem), stem, text.partition("\n")[0].partition(". ")[2].strip(),
            weigh(read(path)).minutes,
            {k: " ".join(name.split()) for name, k in _DEFINED.findall(text) if home[k] == stem},
            tuple(number(s) for s in texts if s in linked and s < stem),
        )  # fmt: skip
    return found


def _prose(path: Path) -> str:
    cells = [c for c in read(path).cells if c.cell_type == "markdown" and "exercise" not in tags(c)]
    return "\n\n".join(cell.source.lstrip() for cell in cells)


def ways() -> list[Way]:
    """The ways of paths.toml, and the syllabi as ways; what these take for granted is computed."""
    given = tomllib.loads(PATHS.read_text("utf8"))["path"]
    listed = [
        Way(**{k: tuple(v) if isinstance(v, list) else v for k, v in one.items()}) for one in given
    ]
    return listed + [_course(path.stem) for path in sorted(SYLLABI.glob("*.toml"))]


def _course(stem: str) -> Way:
    text, every = (SYLLABI / f"{stem}.toml").read_text("utf8"), chapters()
    asked = set(re.findall(r'"c(\d\w+)/', text))
    on = tuple(n for n, one in every.items() if one.stem in asked)
    title = tomllib.loads(text)["title"]
    return Way(stem.replace("_", "-"), f"A course: {title}", "", on, missing(on, every))


def missing(on: tuple[str, ...], every: dict[str, Chapter]) -> tuple[str, ...]:
    """The chapters that a way needs and does not have before the chapter that needs them."""
    open_ = {need for i, n in enumerate(on) for need in every[n].needs if need not in on[:i]}
    return tuple(n for n in every if n in open_)


# ---- the page -----------------------------------------------------------------------------------


def page() -> str:
    """The page: the drawing, the ways, the list."""
    every, roads = chapters(), ways()
    told = {
        "chapters": {n: {"page": f"../chapters/{c.stem}.html", "title": c.title, "needs": c.needs,
                         "minutes": c.minutes, "terms": c.terms} for n, c in every.items()},
        "paths": [{"name": w.name, "title": w.title, "chapters": w.chapters} for w in roads],
    }  # fmt: skip
    data = json.dumps(told, ensure_ascii=False).replace("</", "<\\/")
    return f"""<!-- Written by `make pages` from the chapters and book/paths.toml. -->
# The map

What needs what, read from the chapters themselves. Choose a chapter: what it needs stays dark, what
builds on it gets a dashed ring, and its terms stand below. Choose a path, and a line at the head of
each chapter says where you are on it.

```{{raw}} html
<div id="u-map" class="u-map">
{drawing(every)}
<div class="u-map-said" role="status"></div>
</div>
<script type="application/json" id="u-map-data">{data}</script>
```

## Paths

{"".join(map(_way, roads, [every] * len(roads)))}
## The chapters and their terms

{"".join(_entry(one, every) for one in every.values())}"""


def _link(n: str, every: dict[str, Chapter]) -> str:
    return f"[{n}](../chapters/{every[n].stem}.ipynb)"


def _way(way: Way, every: dict[str, Chapter]) -> str:
    minutes = sum(every[n].minutes for n in way.chapters)
    hours = f"{minutes / 60:.1f} hours" if minutes >= 120 else f"{minutes} minutes"
    known = (
        f" It takes as known: {', '.join(_link(n, every) for n in way.knows)}." if way.knows else ""
    )
    road = " → ".join(_link(n, every) for n in way.chapters)
    who = f" {way.who}" if way.who else ""
    return f"**{way.title}**, {hours} of reading.{who}{known}\n{road}\n\n"


def _entry(one: Chapter, every: dict[str, Chapter]) -> str:
    needs = ", ".join(_link(n, every) for n in one.needs)
    terms = ", ".join(f"[{name}](term:{key})" for key, name in one.terms.items())
    said = f"{f' Needs {needs}.' if needs else ''}{f' Defines {terms}.' if terms else ''}"
    title = f"[{one.number}. {one.title}](../chapters/{one.stem}.ipynb)"
    return f"- **{title}**, {one.minutes} minutes.{said}\n"


# ---- the drawing --------------------------------------------------------------------------------


def rows() -> list[tuple[str, list[str]]]:
    """The rows of the drawing, a part of `_toc.yml` each: its name, and the chapters' numbers."""
    found = []
    for part in yaml.safe_load((ROOT / "_toc.yml").read_text("utf8"))["parts"]:
        entries = [e for each in part["chapters"] for e in (each, *each.get("sections", ()))]
        pages = [e["file"].partition("chapters/")[2] for e in entries]
        numbers = [number(page) for page in pages if page]
        for i in range(0, len(numbers), IN_A_ROW):
            name = "" if i else part["caption"].partition(" — ")[0]
            found.append((name, numbers[i : i + IN_A_ROW]))
    return found


def places() -> dict[str, tuple[float, float]]:
    """Where each chapter's circle lies."""
    return {
        n: (LEFT + WIDE * i, 34 + HIGH * row)
        for row, (_, numbers) in enumerate(rows())
        for i, n in enumerate(numbers)
    }


def drawing(every: dict[str, Chapter]) -> str:
    """An SVG: a link to each chapter, and a line from each chapter to those that it needs."""
    at = places()
    lines, nodes = [], []
    for n, one in every.items():
        for need in one.needs:
            (x, y), (x2, y2) = at[need], at[n]
            bend = 22 if y == y2 else 0
            path = f"M {x} {y} Q {(x + x2) / 2:g} {(y + y2) / 2 - bend:g} {x2} {y2}"
            direct = " u-direct" if need in _direct(n, every) else ""
            lines.append(
                f'<path class="u-edge{direct}" data-from="{need}" data-to="{n}" d="{path}"/>'
            )
        x, y = at[n]
        name = _short(one.stem)
        label = html.escape(f"{n}. {one.title}, {one.minutes} minutes")
        nodes.append(
            f'<a href="../chapters/{one.stem}.html" data-n="{n}" aria-label="{label}">'
            f'<circle cx="{x}" cy="{y}" r="16"/><text class="u-n" x="{x}" y="{y + 4}">{n}</text>'
            f'<text class="u-name" x="{x}" y="{y + 30}">{name}</text></a>'
        )
    wide, high = LEFT + WIDE * (IN_A_ROW - 1) + 34, 34 + HIGH * (len(rows()) - 1) + 44
    parts = [
        f'<text class="u-part" x="2" y="{12 + HIGH * row}">{html.escape(part)}</text>'
        for row, (part, _) in enumerate(rows())
        if part
    ]
    label = "The chapters and what each needs; the list below says the same"
    head = f'<svg viewBox="0 0 {wide} {high}" role="group" aria-label="{label}">'
    return "".join([head, *parts, *lines, *nodes, "</svg>"])


def _direct(n: str, every: dict[str, Chapter]) -> set[str]:
    """What a chapter needs and none of the others that it needs brings along."""
    needs = every[n].needs
    brought = {far for near in needs for far in _all(near, every)}
    return set(needs) - brought


def _all(n: str, every: dict[str, Chapter]) -> set[str]:
    return {far for near in every[n].needs for far in (near, *_all(near, every))}


def _short(stem: str) -> str:
    """What stands below a circle: the chapter's file name, or a shorter word."""
    shorter = {
        "02": "n-grams", "02b": "smooth", "03": "perplex.", "05": "vectors", "08": "neural LM",
        "09": "RNN", "09b": "series", "10": "BPTT", "12": "RNN LM", "16": "heads",
        "16b": "probing", "18b": "norms", "19": "enc–dec", "20": "GPT", "21": "generate",
        "23b": "many", "24b": "experts",
    }  # fmt: skip
    n, _, words = stem.partition("_")
    return shorter.get(n, words.replace("_", " "))
