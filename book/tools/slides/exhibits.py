"""What stands on a slide, as HTML: an exhibit, a poll, points, and the sentence with an exhibit."""

from __future__ import annotations

import re
import textwrap

from bs4 import Tag

from book.tools.slides import words
from book.tools.slides.blocks import Block
from book.tools.slides.words import MOST, count, sentences

CODE_LINES = 12
# How a sentence begins that speaks of what is not on the slide.
ELSEWHERE = (
    r"Try\b|\(|And so|Step through|In code|The same in|The next cell|Note the last line"
    r"|.*\bbelow are\b"
)


def points(lines: list[str]) -> str:
    if len(lines) < 2:
        return f'<p class="s-one">{"".join(lines)}</p>'
    return "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>"


def poll(tag: Tag) -> tuple[str, list[str]]:
    """Question and options, and the answer as a fragment; beside it what wrong answers betray."""
    fold = tag.find("details", recursive=False)
    before = "".join(str(child) for child in tag.children if child is not fold)
    answer = fold.find("p", recursive=False)
    lines = [one.html for one in sentences(answer)[:3]]  # the first of them is the letter
    while len(lines) > 2 and count(before + " ".join(lines)) > MOST:
        lines.pop()
    line = " ".join(lines).replace("<strong>at ", "<strong>", 1)  # a choice, not a value
    notes = [str(child) for child in fold.find_all(["p", "ul", "ol"], recursive=False)]
    return (f'<div class="u-predict u-asked">{before}</div>'
            f'<div class="fragment s-answer"><p>{line}</p></div>'), notes  # fmt: skip


def exhibit(block: Block) -> str:
    """What the block puts on a slide; '' where it is too much for one, or not worth one unasked."""
    if block.kind not in {"code", "output"}:
        return str(block.tag)
    source = block.tag.select_one(".cell_input pre") if block.of_code else block.tag.pre
    printed = block.tag.select_one(".stream pre")
    found = ""
    if source and block.kind == "code":
        lines = source.decode_contents().strip("\n").split("\n")
        first, last = block.slide.get("lines", [1, len(lines)])
        lines = textwrap.dedent("\n".join(lines[first - 1 : last])).split("\n")
        if len(lines) > CODE_LINES:
            if block.shown:
                raise ValueError(f"a slide has at most {CODE_LINES} lines of code, not "
                                 f"{len(lines)}; say which: \"lines\": [1, 12]")  # fmt: skip
            return ""
        code = "\n".join(lines)
        found = f'<div class="cell_input"><div class="highlight"><pre>{code}</pre></div></div>'
    if printed and len(printed.get_text().strip().split("\n")) <= CODE_LINES - found.count("\n"):
        found += f'<div class="cell_output"><div class="highlight">{printed}</div></div>'
    elif block.kind == "output":
        return ""
    return f'<div class="cell">{found}</div>' if block.shown or block.kind == "code" else ""


def caption(block: Block) -> str:
    caption = block.tag.select_one("figcaption, caption") if block.kind != "code" else None
    return str(caption) if caption else ""


def reading(blocks: list[Block], i: int, most: int) -> str:
    """The sentence that reads an exhibit: the first after it."""
    after = blocks[i + 1] if i + 1 < len(blocks) else None
    if after is None or after.kind != "text" or after.section != blocks[i].section:
        return ""
    texts = after.sentences
    if texts and (re.match(ELSEWHERE, texts[0].text) or _asked_for(texts[0], after)):
        return ""
    found = words.first(texts, most)
    return found if re.search(r"[.!][\"”’)]*(?:</\w+>)*$", found) else ""


def _asked_for(one: words.Sentence, block: Block) -> bool:
    """Whether the metadata of its cell want the sentence on a slide of its own."""
    begins = [text.partition("…")[0].split() for text in block.slide.get("say", [])]
    return any(one.text.startswith(" ".join(begin)) for begin in begins)


def lead(blocks: list[Block], i: int) -> str:
    """The sentence that leads to a formula or table of the text: the last before it."""
    before = blocks[i - 1] if i else None
    if before is None or before.kind != "text" or before.section != blocks[i].section:
        return ""
    last = before.sentences[-1:]
    whole = last and count(last[0].html) > 2 and not re.match(r"[a-z(]|.*this cell", last[0].text)
    return words.first(last) if whole and not _asked_for(last[0], before) else ""


def named(blocks: list[Block], i: int, most: int) -> str:
    """The sentence after a formula that says what its letters are: "where …"."""
    after = blocks[i + 1] if i + 1 < len(blocks) and blocks[i].kind == "formula" else None
    if after is None or after.kind != "text" or after.section != blocks[i].section:
        return ""
    texts = after.sentences
    return (
        words.first(texts, most) if texts and re.match(r"(?:where|with)\b", texts[0].text) else ""
    )
