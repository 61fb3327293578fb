"""A chapter's built page → its blocks in order: what a slide can show, and what is said of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, Tag

from book.tools.epub.__main__ import MOVING
from book.tools.epub.leaves import SITE
from book.tools.notebooks import CHAPTERS
from book.tools.slides.words import Sentence, sentences

# What no slide needs: folded code, and all that comes after the summary.
DROPPED = re.compile(r'<details class="u-fold">.*?</details>|<a class="headerlink".*?</a>', re.S)
LATER = re.compile(r'<section id="(?:going-further|exercises)')
OPAQUE = re.compile(r"<script\b.*?</script>|<style\b.*?</style>|<svg\b.*?</svg>", re.S)
FORMULA = re.compile(r'<span class="katex(?:-display)?">')
PLACE = re.compile(r'<i data-part="(\d+)"></i>')
KEYS = {"show", "say", "lines"}
KINDS = {"text", "question", "poll", "formula", "figure", "table", "code", "output"}


@dataclass
class Block:
    """A piece of the page; `slide` is its cell's `metadata.slide`, of a text all its cells'."""

    kind: str  # one of KINDS, or "moving"
    tag: Tag
    section: str  # the HTML of the heading above it
    slide: dict[str, Any] = field(default_factory=dict)
    of_code: bool = False  # what a code cell shows; else a piece of text
    boxed: bool = False  # a formula to remember
    number: int = 1  # among those of its kind between two code cells

    @cached_property
    def sentences(self) -> list[Sentence]:
        """What the text says, or the caption of a figure."""
        if self.kind in {"text", "question", "poll"}:
            return sentences(self.tag)
        caption = self.tag.select_one("figcaption, caption")
        return sentences(caption) if caption else []

    @property
    def shown(self) -> bool | None:
        """Whether the metadata wants this on a slide; None where they leave it open."""
        if "show" not in self.slide:
            return None
        kind = "figure" if self.kind == "moving" else self.kind
        return bool({kind, f"{kind} {self.number}"} & set(self.slide["show"]))


@dataclass
class Chapter:
    """A chapter's page: its opening, and its blocks from the first section to the summary."""

    name: str  # "14_attention"
    opening: list[Tag]
    blocks: list[Block]
    parts: list[str]  # what is hidden from the parser: drawings, scripts, formulas

    def whole(self, text: str) -> str:
        """The HTML with its hidden parts back in place."""
        return PLACE.sub(lambda found: self.parts[int(found[1])], text)

    def spoken(self, text: str) -> str:
        """The same for notes, which know no styles: of a formula its MathML alone."""
        bare = PLACE.sub(lambda m: "".join(re.findall(r"<math.*?</math>", self.parts[int(m[1])],
                                                      re.S)), text)  # fmt: skip
        return re.sub(r"<annotation.*?</annotation>", "", bare, flags=re.S)


def read(name: str) -> Chapter:
    """The chapter's blocks, with the metadata of its notebook."""
    page = (SITE / "chapters" / f"{name}.html").read_text("utf8")
    page = page[page.index('<article class="bd-article"') :]
    page = page[: page.index("</article>")]
    if later := LATER.search(page):
        page = page[: later.start()]
    text, parts = _hidden(DROPPED.sub("", page))
    body = BeautifulSoup(text, "html.parser", multi_valued_attributes=None).article
    for link in body.select("a"):
        link.unwrap()
    opening, blocks = [], []
    for tag, section in _flat(body, ""):
        if section:
            blocks += _blocks(tag, section)
        else:
            opening.append(tag)
    _tell(CHAPTERS / f"{name}.ipynb", blocks, sum(_is_cell(tag) for tag in opening))
    blocks = [block for block in blocks if block.kind != "cell"]
    for block in blocks:
        marks = PLACE.findall(str(block.tag)) if block.kind == "formula" else []
        block.boxed = any('<menclose notation="box">' in parts[int(mark)] for mark in marks)
    return Chapter(name, opening, blocks, parts)


def _hidden(text: str) -> tuple[str, list[str]]:
    """The page with a mark for each part that takes long to parse, and these parts."""
    parts: list[str] = []

    def hide(part: str) -> str:
        parts.append(part)
        return f'<i data-part="{len(parts) - 1}"></i>'

    text = OPAQUE.sub(lambda found: hide(found[0]), text)
    pieces, at = [], 0
    while found := FORMULA.search(text, at):
        pieces.append(text[at : found.start()])
        depth, at = 0, found.start()
        while depth or at == found.start():
            tag = re.compile(r"<(/?)span\b").search(text, at)
            depth += -1 if tag[1] else 1
            at = text.index(">", tag.end()) + 1
        formula = text[found.start() : at]  # with the drawings in it: roots and braces
        pieces.append(hide(PLACE.sub(lambda m: parts[int(m[1])], formula)))
    return "".join([*pieces, text[at:]]), parts


def _flat(tag: Tag, section: str) -> Iterator[tuple[Tag, str]]:
    for child in tag.find_all(True, recursive=False):
        if child.name == "section":
            yield from _flat(child, section)
        elif child.name == "h2":
            section = child.decode_contents()
        else:
            yield child, section


def _is_cell(tag: Tag) -> bool:
    return tag.name == "div" and "cell" in tag.get("class", "").split()


def _blocks(tag: Tag, section: str) -> Iterator[Block]:
    """What a tag of the page gives; a code cell first itself, for the count."""
    classes = tag.get("class", "").split()
    if not _is_cell(tag):
        kind = "text"
        if "u-asked" in classes:
            kind = "poll"
        elif "u-predict" in classes:
            kind = "question"
        elif {"math", "u-equation"} & set(classes):  # with its number, if it is boxed
            kind = "formula"
        elif tag.select_one("table"):
            kind = "table"
        elif re.search(r"\bhighlight-", tag.get("class", "")):
            kind = "code"
        if tag.name not in {"h3", "h4", "i"}:
            yield Block(kind, tag, section)
        return
    yield Block("cell", tag, section, of_code=True)
    if tag.select_one(".cell_input"):
        yield Block("code", tag, section, of_code=True)
    for shown in tag.select(f"{MOVING}, .u-figure"):
        moving = shown.css.match(MOVING)
        kind = "moving" if moving else "table" if shown.select_one("table") else "figure"
        yield Block(kind, shown, section, of_code=True)
    if not tag.select_one(".cell_input") and tag.select_one(".stream"):
        yield Block("output", tag, section, of_code=True)


def _tell(path: Path, blocks: list[Block], before: int) -> None:
    """Give each block what its cell says; before: how many code cells stand before the blocks."""
    cells = json.loads(path.read_text("utf8"))["cells"]
    code = [i for i, cell in enumerate(cells) if cell["cell_type"] == "code"]
    number = before - 1  # of the code cell that was last
    seen: Counter[str] = Counter()
    for block in blocks:
        if block.kind == "cell":
            number, seen = number + 1, Counter()
        seen[block.kind] += 1
        block.number = seen[block.kind]
        last = code[number + 1] if number + 1 < len(code) else len(cells)
        for cell in [cells[code[number]]] if block.of_code else cells[code[number] + 1 : last]:
            for key, value in _said(cell).items():  # of neighbouring texts all that they say
                block.slide = {**block.slide, key: [*block.slide.get(key, []), *value]}


def _said(cell: dict[str, Any]) -> dict[str, Any]:
    told = cell["metadata"].get("slide", {})
    if more := set(told) - KEYS or {text.split()[0] for text in told.get("show", [])} - KINDS:
        raise ValueError(f"cell {cell['id']}: metadata.slide has {sorted(more)}; known: "
                         f"{sorted(KEYS)}, and in show {sorted(KINDS)}")  # fmt: skip
    return told
