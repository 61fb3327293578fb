"""Turns one novel of the package into chapters: one sentence per line, a blank line per paragraph.

Removed: title, front matter, licence, volume and chapter headings, the editor's notes, the
underscores of emphasis and the stars of footnotes.
The editions break their lines anywhere, so the sentence is the line here.
"""

from __future__ import annotations

import re

_BOOKS = "Emma|Persuasion|Sense and|The Ball and|The Man Who|Moby Dick"
_TITLE_OR_NOTE = re.compile(rf"^\[(?:{_BOOKS}|At this point)[^\]]*\]\n", re.M)
_CHAPTER = re.compile(r"^ *(?:chapter +[\divxl]+ *|[IVX]+\. [A-Z -]+)$", re.M | re.I)
_LICENCE = re.compile(r"^End of Project Gutenberg's .*", re.M | re.S)
_RULE = re.compile(r"^ *(?:\*+|volume [iv]+|finis|the end) *$", re.M | re.I)
# A sentence ends at . ! or ?, with what closes a quotation, before a capital that may open one.
_SENTENCE_END = re.compile(r"""([.!?]["')]*)\s+(?=["'(]*[A-Z])""")
_ABBREVIATION = re.compile(r"""(?:^|[\s"'(\-])(?:Mr|Mrs|Dr|Messrs|St|Esq|Col|Capt|Jr|[A-Z])\.$""")


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph whose white space is single spaces."""
    found, start = [], 0
    for end in _SENTENCE_END.finditer(paragraph):
        if not _ABBREVIATION.search(paragraph[start : end.end(1)]):
            found.append(paragraph[start : end.end(1)])
            start = end.end()
    return [*found, paragraph[start:]]


def chapters(source: str, *, front_matter: bool = False, titles: bool = False) -> list[str]:
    """The clean text of each chapter of a novel, in order.

    front_matter: something stands before the first chapter, and is left out; otherwise a
        ValueError. titles: the first paragraph of a chapter is its title, and is left out.
    """
    text = _RULE.sub("", _TITLE_OR_NOTE.sub("", _LICENCE.sub("", source)))
    text = text.replace("`", "'").translate(dict.fromkeys(map(ord, "_[]*")))
    front, *bodies = _CHAPTER.split(text)
    if not bodies or (front.strip() and not front_matter):
        raise ValueError(f"expected the first chapter's heading first, found {front[:60]!r}")
    return [_lines(body.strip().split("\n\n", 1)[1] if titles else body) for body in bodies]


def _lines(body: str) -> str:
    body = re.sub(r"(?<=\S)--\n *(?=\S)", "--", body)  # a dash at the end of a line joins
    paragraphs = (" ".join(p.split()) for p in re.split(r"\n\s*\n", body))
    return "\n\n".join("\n".join(sentences(p)) for p in paragraphs if p) + "\n"
