"""The cards that help to remember a chapter, read from `book/cards`.

A file is named as its chapter. Each of its cards has a front and a back, in Markdown with $…$, and
`holds`, an expression over the chapter's variables at its end that is false if the back is wrong;
or in its place `predict`, the name of the prediction whose computed answer it repeats. Such a card
may leave out front and back, and has the prediction's. `make test-notebooks` runs what must hold
(`book.tools.verify.predictions`).
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from unrolled_book.predictions import Prediction, of_notebook


@dataclass(frozen=True)
class Card:
    """A question and its answer, in Markdown. holds: what a test runs, or ''."""

    chapter: str
    front: str
    back: str
    holds: str = ""

    @property
    def name(self) -> str:
        """What a reader's browser and Anki know the card by, until its front changes."""
        digest = hashlib.sha256(self.front.encode()).hexdigest()[:8]
        return f"{self.chapter.partition('_')[0]}-{digest}"


def of_chapter(path: str | Path) -> list[Card]:
    """The cards of a chapter, by the path of its notebook; raises ValueError for a wrong one."""
    path = Path(path).resolve()
    file = path.parents[1] / "book" / "cards" / f"{path.stem}.toml"
    if not file.exists():
        return []
    known = {one.name: one for one in of_notebook(path)}
    try:
        given = tomllib.loads(file.read_text("utf8"))["card"]
        return [_card(path.stem, known, **each) for each in given]
    except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        wanted = "expected front, back and holds, or predict"
        raise ValueError(f"{file.name}: {wanted}; {error}") from error


def _card(stem: str, known: dict[str, Prediction], *, predict: str = "", front: str = "",
          back: str = "", holds: str = "") -> Card:  # fmt: skip
    if not predict:
        if not (front and back and holds):
            raise ValueError(f"{stem}: the card {front!r} lacks its front, back or what holds")
        return Card(stem, front, back, holds)
    if front or back or holds:
        if not (front and back) or holds or predict not in known:
            raise ValueError(f"{stem}: the card of {predict!r} has front and back, or neither")
        return Card(stem, front, back)
    if predict not in known:
        raise ValueError(f"{stem}: no prediction there is named {predict!r}")
    one = known[predict]
    options = "".join(f"\n- {text}" for text in one.options.values())
    letters = re.findall(r"\b[a-z]\b", one.right) if options else ()
    words = ", ".join(one.options[letter] for letter in letters)
    right = {"choice": words, "order": words, "places": words,
             "number": f"{one.right} {one.unit}".strip()}  # fmt: skip
    said = right.get(one.kind, one.right).rstrip(".")
    return Card(
        stem, one.question + (f"\n{options}" if options else ""), f"**{said}.** {one.answer}"
    )
