"""The road on the landing page, `index.md`: what stands is a link, and is counted.

The numbered lines name all chapters that are planned. A line whose chapter stands becomes a link
with the notebook's title; a further one of the same number (02b_smoothing) stands below it, four
spaces in, or it would not belong to a line of two digits.
"""

from __future__ import annotations

import re

from book.tools.notebooks import ROOT, number, published, read

TARGET = ROOT / "index.md"
COUNTED = re.compile(r"^(?:[A-Z][a-z]+(?:-[a-z]+)? chapters? stands?)\b", re.MULTILINE)
_LINE = re.compile(
    r"^(\d+)\. (?:\[([^\]]*)\]\([^)]*\)|(.*))\n((?: +- \d+[a-z]\. .*\n)*)", re.MULTILINE
)
_ONES = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
_ONES = [*_ONES.split(), "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = {20: "twenty", 30: "thirty", 40: "forty", 50: "fifty"}


def page() -> str:
    """The landing page with its road as the chapters have it."""
    titles = {path.stem: _title(read(path).cells[0].source) for path in published()}
    return road(TARGET.read_text("utf8"), titles)


def road(text: str, titles: dict[str, str]) -> str:
    """The page's text with the count and the lines renewed; titles: by name of the chapter.

    Raises ValueError for a chapter that no line is for, and where the count is missing.
    """
    if not COUNTED.search(text):
        raise ValueError("index.md does not say how many chapters stand ('Two chapters stand')")
    lines = {match[1] for match in _LINE.finditer(text)}
    for stem in titles:
        if (n := number(stem).rstrip("abcdefgh")) not in lines:
            raise ValueError(f"index.md has no line '{n}. …' for chapters/{stem}: add it")

    def renewed(match: re.Match[str]) -> str:
        n, title = match[1], match[2] or match[3]
        links = {number(s): f"[{t}](chapters/{s}.ipynb)" for s, t in sorted(titles.items())}
        more = [
            f"    - {k}. {link}\n" for k, link in links.items() if re.fullmatch(rf"{n}[a-z]", k)
        ]
        return f"{n}. {links.get(n, title)}\n" + "".join(more)

    words = (
        f"{_word(len(titles)).capitalize()} chapter{' stands' if len(titles) == 1 else 's stand'}"
    )
    return COUNTED.sub(words, _LINE.sub(renewed, text), count=1)


def _title(source: str) -> str:
    return source.partition("\n")[0].partition(". ")[2].strip()


def _word(n: int) -> str:
    if n < 20:
        return ("no", *_ONES)[n]
    tens, rest = n - n % 10, n % 10
    return _TENS[tens] + (f"-{_ONES[rest - 1]}" if rest else "")
