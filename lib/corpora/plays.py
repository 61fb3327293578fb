"""Turns one play of the package into speeches: its lines, with a blank line between speeches.

Removed: title, persons of the play, act and scene headings, stage directions, speakers' names.
Kept: the line breaks of the edition, prologues, choruses, songs and epilogues.
"""

from __future__ import annotations

import re

_FIRST_HEADING = re.compile(
    r"^(THE PROLOGUE|PROLOGUE|INDUCTION|ACT (?:I|1|FIRST))\.?[ \t]*$", re.M | re.I
)
_HEADING = re.compile(
    r"^(ACT [IVX\dF]|SCENE[ .:]|INDUCTION|(THE )?PROLOGUE\.?$|EPILOGUE\.?$|THE END$)", re.I
)
_DIRECTION = re.compile(r"\[(?:[^\[\]\n]|\n(?![ \t]*\n))*\]")
_UNCLOSED = re.compile(r"\[(?:[^\[\]\n]|\n(?![ \t]*\n))*")
_SONG = re.compile(r"^((?:SONG|Song)\.?|SPRING|WINTER|DUMB SHOW\.|[IVX]{1,3}\.)$")
_ABBREVIATED = re.compile(r"^[A-Z1-9][\w.]*(?: (?:and|[A-Z][\w.]*)){0,3}\.$")
_INLINE = re.compile(r"^([A-Z][A-Z' \-]+\.) (?=\S)")
_STRAY_SPACE = re.compile(r" +(?=[,.;:!?])")
_STRAY_BEFORE_CONTRACTION = re.compile(r"(?<=\w) (?='(?:ll|s)\b)")
_MISSING_SPACE = re.compile(r"(?<=[a-z])([,;:!?](?=[A-Za-z])|\.(?=[A-Z]))")
# These three name their speakers "Ham." or "First Serv.", the others "HAMLET.".
ABBREVIATING = {"hamlet", "lear", "romeo_and_juliet"}


def without_directions(text: str) -> str:
    """`text` without what stands in square brackets, one level of nesting allowed.

    A direction never runs over a blank line; one that is never closed ends at the next blank line.
    """
    text = text.replace("{", "[").replace("}", "]")
    for pattern in (_DIRECTION, _DIRECTION, _UNCLOSED):
        text = pattern.sub("", text)
    return text


def tidy(line: str) -> str:
    """`line` with single spaces, one after a comma, none before, nor in "I 'll"; "etc." for "&c.".

    A sign left alone where a direction stood gives the empty string.
    """
    line = _STRAY_SPACE.sub("", " ".join(line.split()))
    line = _STRAY_BEFORE_CONTRACTION.sub("", line).replace("&c", "etc")
    return "" if line in {".", ",", ";"} else _MISSING_SPACE.sub(r"\1 ", line)


def paragraphs(text: str) -> list[list[str]]:
    """The non-empty runs of non-empty lines, tidied."""
    runs = ([tidy(line) for line in run.split("\n")] for run in re.split(r"\n[ \t]*\n", text))
    return [[line for line in run if line] for run in runs if any(run)]


def _is_speaker(line: str, play: str) -> bool:
    if play in ABBREVIATING:
        return bool(_ABBREVIATED.match(line))
    names = [word for word in line.split() if word not in {"and", "&"}]
    capitals = re.fullmatch("[^a-z]*[A-Z]{2}[^a-z]*", " ".join(names))
    return len(names) <= 5 and line[-1] != "'" and capitals is not None


def speakers(blocks: list[list[str]], play: str) -> set[str]:
    """The lines that name a speaker: first in their paragraph and in the play's style of names."""
    return {b[0] for b in blocks if _is_speaker(b[0], play) and not _HEADING.match(b[0])}


def speeches(source: str, play: str) -> list[list[str]]:
    """The speeches of a play as lists of lines; `play` is the name of its file."""
    start = _FIRST_HEADING.search(source)
    if start is None:
        raise ValueError(f"{play}: found no line 'ACT I', 'PROLOGUE' or 'INDUCTION'")
    blocks = paragraphs(without_directions(source[start.start() :]))
    names = speakers(blocks, play)
    spoken: list[list[str]] = [[]]
    for block in blocks:
        if _HEADING.match(block[0]):
            spoken.append([])
            # A player called Prologue speaks in the paragraph that names him.
            if not (block[0] == "PROLOGUE" and len(block) > 1):
                continue
            block = block[1:]
        for i, line in enumerate(block):
            inline = _INLINE.match(line)
            if _SONG.match(line) or (line in names and (i == 0 or play not in ABBREVIATING)):
                spoken.append([])
            elif inline and inline.group(1) in names:
                spoken.append([line[inline.end() :]])
            else:
                spoken[-1].append(line)
    return [s for s in spoken if s]


def clean(source: str, play: str) -> str:
    """The text of a play: one line per line, a blank line between speeches."""
    return "\n\n".join("\n".join(lines) for lines in speeches(source, play)) + "\n"
