"""The blocks of a chapter → its slides: what stands on each, what is said with it, for how long."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from book.tools.slides import exhibits, words
from book.tools.slides.blocks import Block, Chapter
from book.tools.slides.words import MOST, Sentence, count, sentences

LESSON = 45  # minutes
# Slides: beyond FULL the default leaves away formulas and code, beyond MOST_SLIDES exhibits, too.
FULL, MOST_SLIDES = 28, 32
# What a slide of a kind takes, beside the others; and from the least worth keeping to the most.
TAKES = {"title": 1, "text": 1.3, "question": 2, "poll": 2.6, "formula": 1.6, "figure": 1.8,
         "moving": 2.5, "table": 1.7, "code": 1.7, "output": 1}  # fmt: skip
WORTH = ("output", "formula", "code", "text", "table", "figure", "moving", "question", "poll")
DEFINES = re.compile(r">(?:def|class)<")  # what code has that is worth a slide unasked


@dataclass
class Slide:
    """A slide: its heading and body in HTML, what the lecturer says, and the minutes it takes."""

    kind: str
    heading: str
    body: str
    notes: list[str] = field(default_factory=list)
    kept: bool = False  # whatever else there is
    minutes: float = 0


def deck(chapter: Chapter, believed: list[str]) -> list[Slide]:
    """The slides of a chapter. believed: what students may believe, for the notes.

    Raises ValueError, with the chapter, for metadata that ask for what is not there.
    """
    opening = _opening(chapter, believed)
    slides = _chosen(chapter)
    while (n := len(opening) + len(slides)) > FULL:
        least = min((s for s in slides if not s.kept), default=None,
                    key=lambda s: WORTH.index(s.kind))  # fmt: skip
        if least is None or (n <= MOST_SLIDES and WORTH.index(least.kind) > WORTH.index("text")):
            break
        at = slides.index(least)
        into = slides[at - 1] if at else opening[-1]
        into.notes += least.notes
        slides.remove(least)
    slides = [*opening, *slides]
    _time(slides)
    return slides


def _opening(chapter: Chapter, believed: list[str]) -> list[Slide]:
    """The title with the promise, and the outcomes."""
    title = next(tag for tag in chapter.opening if tag.name == "h1").decode_contents()
    promise, need = [tag.decode_contents() for tag in chapter.opening if tag.name == "p"][:2]
    outcomes = next(tag for tag in chapter.opening if tag.name == "ol")
    beliefs = [f"<p>{html.escape(text, quote=False)}</p>" for text in believed]
    return [
        Slide("title", title, f'<p class="s-promise">{promise}</p>', [f"<p>{need}</p>"]),
        Slide("text", "You will be able to", str(outcomes), beliefs, kept=True),
    ]


def _chosen(chapter: Chapter) -> list[Slide]:
    slides: list[Slide] = []
    waiting: list[str] = []  # what is said with the next slide
    blocks = chapter.blocks
    made = [_of(block, blocks, i, chapter.name) for i, block in enumerate(blocks)]
    for i, block in enumerate(blocks):
        new = i == 0 or blocks[i - 1].section != block.section
        if new and waiting and slides:
            slides[-1].notes += waiting
            waiting = []
        if block.kind == "text":
            waiting.append(str(block.tag))
        for slide in made[i]:
            slide.notes = waiting + slide.notes
            waiting = []
            if slides and _joins(slides[-1], slide) and not _asks(_next(made, i, slide), slide):
                line = slide.body.replace("s-one", "s-reading")
                slides[-1].body += "" if line in slides[-1].body else line
                slides[-1].notes += slide.notes
                slides[-1].kept = True
            elif slides and (_joins(slide, slides[-1]) or _asks(slide, slides[-1])):
                before = slides.pop()
                slide.body = before.body.replace("s-one", "s-reading") + slide.body
                slide.notes = before.notes + slide.notes
                slide.kept = True
                slides.append(slide)
            else:
                slides.append(slide)
    if slides:
        slides[-1].notes += waiting
    return slides


def _joins(exhibit: Slide, slide: Slide) -> bool:
    """Whether a lone sentence finds room on the slide of an exhibit or a formula next to it."""
    kinds = {"figure", "moving", "table", "code", "formula"}
    alone = slide.kind == "text" and slide.body.startswith('<p class="s-one">')
    prose = re.sub(r"<(figcaption|table|pre|form)\b.*?</\1>", "", exhibit.body, flags=re.S)
    return (alone and exhibit.kind in kinds and exhibit.heading == slide.heading
            and count(prose) + count(slide.body) <= MOST)  # fmt: skip


def _asks(slide: Slide | None, before: Slide) -> bool:
    """Whether a lone sentence leads to the question that comes next: it stands above it."""
    alone = before.kind == "text" and before.body.startswith('<p class="s-one">')
    asking = slide is not None and slide.kind in {"question", "poll"}
    return alone and asking and slide.heading == before.heading


def _next(made: list[list[Slide]], i: int, slide: Slide) -> Slide | None:
    """The slide after this one, which block i makes."""
    after = [*made[i], *(each for later in made[i + 1 :] for each in later)]
    return next(iter(after[after.index(slide) + 1 :]), None)


def _of(block: Block, blocks: list[Block], i: int, name: str) -> list[Slide]:
    """The slides of a block: none where it is not worth one, or its metadata says so."""
    near = [other for other in blocks if other.section == block.section]  # looked through first
    among = [one for other in [block, *near, *blocks] for one in other.sentences]
    say = block.slide.get("say", [])
    try:
        if block.kind == "text":
            return _text(block, blocks, among, say)
        if block.shown is False:
            return []
        say = say if block.of_code else []  # what a text says stands on slides of its own
        said = [words.said(one, among) for text in say[:1] for one in text.split(" | ")]
    except ValueError as error:
        raise ValueError(f"{name}, section {block.section!r}: {error}") from None
    slide = Slide(block.kind, block.section, "", kept=bool(block.shown or block.boxed))
    if block.kind == "poll":
        slide.body, slide.notes = exhibits.poll(block.tag)
        slide.kept = True
        return [slide]
    if block.kind == "question":
        before = blocks[i - 1].tag if i and blocks[i - 1].tag.name == "blockquote" else ""
        slide.body = f"{before}{block.tag}"
        return [slide]
    exhibit = exhibits.exhibit(block)
    if not exhibit or (block.kind == "code" and not block.shown and not DEFINES.search(exhibit)):
        return []
    if not block.of_code:  # a formula or table of the text: nothing is said of it unasked
        lead = exhibits.lead(blocks, i)
        slide.body = (f"<p>{lead}</p>" if lead else "") + exhibit
        if named := exhibits.named(blocks, i, MOST - count(lead)):
            slide.body += f'<p class="s-reading">{named}</p>'
    else:
        room = MOST - count(exhibits.caption(block))
        reading = " ".join(said) or exhibits.reading(blocks, i, room)
        lead = "" if reading or block.kind != "code" else exhibits.lead(blocks, i)
        slide.body = (f"<p>{lead}</p>" if lead else "") + exhibit
        slide.body += f'<p class="s-reading">{reading}</p>' if reading else ""
    return [slide]


def _text(block: Block, blocks: list[Block], among: list[Sentence], say: list[str]) -> list[Slide]:
    """A slide for each entry of `say` whose first sentence stands here; by itself, the summary."""
    own = [one.text for one in block.sentences]
    made = []
    for text in say:
        begins = [each.partition("…")[0].strip() for each in text.split(" | ")]
        if any(one.startswith(" ".join(begins[0].split())) for one in own):
            lines = [words.said(each, among) for each in text.split(" | ")]
            made.append(Slide("text", block.section, exhibits.points(lines), kept=True))
        elif not any(one.text.startswith(" ".join(begins[0].split())) for one in among):
            words.said(begins[0], among)
    if block.section == "Summary" and block.tag.name in {"ol", "ul"}:
        return _summary(block)
    if made or say or block.shown is False:
        return made
    alone = [other for other in blocks if other.section == block.section]
    if block is alone[0] and all(other.kind == "text" for other in alone):
        firsts = [words.first(other.sentences, 25) for other in alone]
        while sum(map(count, firsts)) > MOST:
            firsts.pop()
        return [Slide("text", block.section, exhibits.points([one for one in firsts if one]))]
    return []


def _summary(block: Block) -> list[Slide]:
    """Its points, each by its first sentence, shared out among as few slides as they need."""
    lines = [_point(sentences(item)) for item in block.tag.find_all("li", recursive=False)]
    for n in range(1, len(lines) + 1):
        cuts = combinations(range(1, len(lines)), n - 1)
        shares = [[lines[i:j] for i, j in pairwise((0, *cut, len(lines)))] for cut in cuts]
        parts = min(shares, key=_longest)
        if _longest(parts) <= MOST + 10:
            break
    return [Slide("text", block.section, exhibits.points(part), kept=True) for part in parts]


def _point(said: list[Sentence]) -> str:
    """The first sentence; of questions, all."""
    n = next((i for i, one in enumerate(said) if not one.text.endswith("?")), len(said))
    return " ".join(one.html for one in said[: max(n, 1)]).replace(" (below)", "")


def _longest(parts: list[list[str]]) -> int:
    return max(count(" ".join(part)) for part in parts)


def _time(slides: list[Slide]) -> None:
    """Share out the lesson among the slides, in halves of a minute."""
    whole = sum(TAKES[slide.kind] for slide in slides)
    spent = share = 0.0
    for slide in slides:
        share += LESSON * TAKES[slide.kind] / whole
        slide.minutes = max(0.5, round(2 * (share - spent)) / 2)
        spent += slide.minutes
