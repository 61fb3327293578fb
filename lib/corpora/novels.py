"""Turns one novel of the package into chapters: one sentence per line, a blank line per paragraph.

Removed: title, volume and chapter headings, the editor's notes, the underscores of emphasis.
The editions break their lines anywhere, so the sentence is the line here.
"""

from __future__ import annotations

import re

_TITLE_OR_NOTE = re.compile(r"^\[(?:Emma|Persuasion|Sense and|At this point)[^\]]*\]\n", re.M)
_CHAPTER = re.compile(r"^ *chapter +[\divxl]+ *$", re.M | re.I)
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


def chapters(source: str) -> list[str]:
    """The clean text of each chapter of a novel, in order."""
    text = _RULE.sub("", _TITLE_OR_NOTE.sub("", source))
    text = text.replace("_", "").replace("`", "'").replace("[", "").replace("]", "")
    front, *bodies = _CHAPTER.split(text)
    if front.strip() or not bodies:
        raise ValueError(f"expected the first chapter's heading first, found {front[:60]!r}")
    return [_lines(body) for body in bodies]


def _lines(body: str) -> str:
    body = re.sub(r"(?<=\S)--\n *(?=\S)", "--", body)  # a dash at the end of a line joins
    paragraphs = (" ".join(p.split()) for p in re.split(r"\n\s*\n", body))
    return "\n\n".join("\n".join(sentences(p)) for p in paragraphs if p) + "\n"
