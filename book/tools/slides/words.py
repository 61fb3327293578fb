"""The sentences of a page, so that a slide says what the chapter says, in its words."""

from __future__ import annotations

import html
import re

from bs4 import Tag

MOST = 40  # words on a slide
_END = re.compile(r"[.?!][\"”’)]*$")
_WORD = re.compile(r"\S+\s*|\s+")
_FORMULA = re.compile(r'<i data-part="\d+"></i>')


class Sentence(list):
    """Pieces of HTML that cannot be cut: words, and what is marked up; `text` is what they say."""

    @property
    def html(self) -> str:
        return "".join(piece for piece, _ in self).strip()

    @property
    def text(self) -> str:
        return " ".join("".join(words for _, words in self).split())


def sentences(tag: Tag) -> list[Sentence]:
    """The sentences of a paragraph, of each item of a list, of each paragraph of a quotation."""
    inner = tag.select("li, p, figcaption") or [tag]
    inner = [each for each in inner if not each.select_one("li, p")]
    return [one for each in inner for one in _of_paragraph(each)]


def _of_paragraph(tag: Tag) -> list[Sentence]:
    pieces: list[tuple[str, str]] = []
    for child in tag.children:
        if isinstance(child, Tag):
            pieces.append((str(child), child.get_text()))
        else:
            pieces += [(html.escape(word, quote=False), word) for word in _WORD.findall(str(child))]
    found, now = [], Sentence()
    for i, (piece, words) in enumerate(pieces):
        now.append((piece, words))
        following = pieces[i + 1][1] if i + 1 < len(pieces) else ""
        apart = words != words.rstrip() or following != following.lstrip()
        quoted = piece.startswith(("<em", "<code")) and not re.search(
            r"\w", words
        )  # a mark that is spoken of
        ends = _END.search(words.rstrip()) and not words.startswith(("e.g.", "al."))
        if ends and apart and not quoted:
            found.append(now)
            now = Sentence()
    return [one for one in [*found, now] if one.text or _FORMULA.search(one.html)]


def count(text: str) -> int:
    """The words of a piece of HTML; a formula counts as one."""
    plain = re.sub(r"<[^>]*>", " ", _FORMULA.sub(" formula ", text))
    return len([word for word in plain.split() if re.search(r"\w", word)])


def said(begin: str, among: list[Sentence]) -> str:
    """The HTML of the sentence that begins so; 'begin … end' cuts it, or takes several.

    Raises ValueError where no sentence begins so, or no piece ends so.
    """
    begin, cut, end = (" ".join(part.split()) for part in begin.partition("…"))
    for i, one in enumerate(among):
        if not one.text.startswith(begin):
            continue
        if not cut:
            return re.sub(r":$", ".", one.html)
        taken = Sentence()
        for piece in (piece for each in among[i : i + 4] for piece in each):
            taken.append(piece)
            if taken.text.rstrip(".,;:?!").endswith(end) and len(taken.text) >= len(begin):
                return re.sub(r"[,;:]$", ".", taken.html) if _END.search(taken.text) or re.search(
                    r"[,;:]$", taken.html) else taken.html + "."  # fmt: skip
        raise ValueError(f"after {begin!r} nothing ends with {end!r}")
    raise ValueError(f"no sentence begins with {begin!r}")


def first(texts: list[Sentence], most: int = MOST) -> str:
    """The first sentence, if it is short enough."""
    return texts[0].html if texts and count(texts[0].html) <= most else ""
