"""What a page becomes when it is printed: its code in blocks, and no orders to a mouse."""

from __future__ import annotations

import re

from bs4 import BeautifulSoup, NavigableString, Tag

from book.tools.epub.__main__ import MOVING

# Orders that only a screen can follow, at the beginning of a sentence. "Move" before a formula is
# one after "Try."; where a paragraph begins, the formula is moved on paper.
ORDER = re.compile(
    r"(^\s*|(?<=[.:?!][ \n])|(?<=[.:?!]\)[ \n]))"
    r"(Drag|Click|Step(?= through| on |\Z)|Type what|Type the next|Slide|"
    r"Move(?= (?:the|it|along|outwards)|\Z)|(?<=\A )Move(?= \Z)|"
    r"Choose(?= (?:a (?:layer|word|head)|contexts)|\Z))\b"
)
AHEAD = "On the web page, "


def prepare(body: Tag) -> None:
    """Change the page for print. Its figures that move have not been made still yet."""
    for figure in body.select(MOVING):
        for text in _near(figure):
            text.replace_with(on_the_web(str(text)))
    # What leads to cards that a page asks, and what a page has for a screen reader alone.
    for unprinted in body.select(".u-remember, .u-status, .katex-mathml"):
        unprinted.decompose()
    for pre in body.select("pre"):
        _in_blocks(pre)


def level(formulas: str) -> str:
    """The HTML; what KaTeX lifts by a position, margins lift as far.

    Chromium looks at all that is positioned on every page it prints: half a million steps a page.
    """
    return re.sub(
        r'style="top:-([\d.]+)em;', r'style="margin-top:-\1em;margin-bottom:\1em;', formulas
    )


def on_the_web(text: str) -> str:
    """The text; what it tells the reader to do on a screen, it says of the web page.

    >>> on_the_web("Each dot is a key. Drag the query.")
    'Each dot is a key. On the web page, drag the query.'
    """
    return ORDER.sub(lambda found: found[1] + AHEAD + found[2][0].lower() + found[2][1:], text)


def _near(figure: Tag) -> list[NavigableString]:
    """The texts of the caption, and of the paragraphs of the section that the figure stands in."""
    section = figure.find_parent("section") or figure
    places = [*section.find_all("p", recursive=False), *figure.select("figcaption, p")]
    texts = [(text, place) for place in places for text in place.find_all(string=ORDER)]
    return [text for text, place in texts if text.parent in (place, text.find_parent("strong"))]


def _in_blocks(pre: Tag) -> None:
    """Group the code between blank lines: a page ends between two groups, not within one."""
    groups: list[list[str]] = [[]]
    for node in pre.contents:
        pieces = re.split(r"(\n\s*\n)", str(node)) if _plain(node) else [str(node)]
        for piece in pieces:
            if _plain(node) and re.fullmatch(r"\n\s*\n", piece):
                groups[-1].append("\n")
                groups.append([piece.rsplit("\n", 1)[1]])
            else:
                groups[-1].append(piece)
    if len(groups) == 1:
        return
    joined = "".join(f'<span class="p-block">{"".join(group)}</span>' for group in groups)
    parsed = BeautifulSoup(f"<pre>{joined}</pre>", "html.parser", multi_valued_attributes=None)
    pre.clear()
    pre.extend(parsed.pre.contents[:])


def _plain(node: Tag | NavigableString) -> bool:
    """Whether the node is text between the words of the code, which Pygments leaves unmarked."""
    return isinstance(node, NavigableString) or node.get("class") == "w"
