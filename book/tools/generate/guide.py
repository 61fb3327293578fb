"""The lists of `book/instructors.md`: the syllabi, and each chapter as its teacher needs it.

What a chapter needs, teaches and takes is read from its notebook, its exercises from their files,
the syllabi from the library's package data; what students believe, and what cures it, stands in
`book/misconceptions.toml`.
"""

from __future__ import annotations

import os
import re
import tomllib
from functools import cache
from pathlib import Path

from unrolled_book import exercises
from unrolled_book.coursework import personal, syllabus
from unrolled_book.exercises.engine import Exercise
from unrolled_book.predictions import of_notebook

from book.tools.notebooks import CHAPTERS, ROOT, number, published, read

TARGET = ROOT / "book" / "instructors.md"
BELIEFS = ROOT / "book" / "misconceptions.toml"
SYLLABI = {
    "four_weeks": "Four weeks",
    "eight_weeks": "Eight weeks",
    "fourteen_weeks": "Fourteen weeks",
}
_OPENING = re.compile(
    r"# (?P<title>\S+ .*?)\n.*?\*\*You need\*\* (?P<needs>.*?)\n\n\*\*You will be able to\*\*\n\n"
    r"(?P<outcomes>.*?)\n\n\*\*Time\*\* (?:about )?(?P<minutes>\d+) minutes",
    re.DOTALL,
)
_STAR = r"\*"  # set with numbers of one's own
# Formulas are few and short here: in plain letters, so that the page needs no fonts for them.
_LETTERS = {r"\sqrt{d_k}": "√d_k", r"\hat y": "ŷ", r"^\top": "ᵀ", r"-\log_2": "−log₂"}
_LETTERS |= {r"\mid": "|", r"\,": " ", " - ": " − "}
_LINK = re.compile(r"\]\((?=[\w-]+\.ipynb|#)")


def page() -> str:
    """The guide with its lists renewed."""
    text = TARGET.read_text("utf8")
    for name, made in (("syllabi", syllabi()), ("chapters", chapters())):
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        head, rest = text.split(begin)
        text = f"{head}{begin}\n{made}\n{end}{rest.split(end)[1]}"
    return text


# ---- the syllabi ---------------------------------------------------------------------------------


def syllabi() -> str:
    """A list for each syllabus, its weeks with what is read and set in them."""
    os.environ.setdefault("COURSE_SEED", "nothing is drawn here")
    folder = Path(syllabus.__file__).parent / "syllabi"
    parts = []
    for name, title in SYLLABI.items():
        course = syllabus.Syllabus.read(folder / f"{name}.toml")
        weeks = "\n".join(_week(course, n, week) for n, week in enumerate(course.weeks, 1))
        parts.append(f"### {title}\n\n`{folder.relative_to(ROOT)}/{name}.toml`\n\n{weeks}")
    return "\n\n".join(parts)


def _week(course: syllabus.Syllabus, n: int, week: syllabus.Week) -> str:
    stems = list(dict.fromkeys(item.exercise.partition("/")[0][1:] for item in week.items))
    links = [f"[{number(stem)}](../chapters/{stem}.ipynb)" for stem in stems]
    chapters = f"chapter{'s' * (len(links) > 1)} {_list(links)}"
    minutes = sum(int(opening(stem)["minutes"]) for stem in stems)
    own = {item.exercise for item in week.items if item.personal}
    names = [f"`{i.exercise.partition('/')[2]}`{_STAR * (i.exercise in own)}" for i in week.items]
    asked = [f"*{question.title}*" for question in week.questions]
    points = sum(each.points for each in (*week.items, *week.questions))
    return (
        f"{n}. **{week.title}**: {chapters}, {minutes} minutes; {', '.join(names + asked)}; "
        f"{points:g} points"
    )


def _list(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


# ---- the chapters --------------------------------------------------------------------------------


def chapters() -> str:
    """Each chapter, folded: what it needs and teaches, what students believe, its exercises."""
    beliefs = tomllib.loads(BELIEFS.read_text("utf8"))
    return "\n\n".join(_chapter(path.stem, beliefs) for path in published())


@cache
def opening(stem: str) -> dict[str, str]:
    """A chapter's title, needs, outcomes and minutes, as its first cell has them."""
    found = _OPENING.match(read(CHAPTERS / f"{stem}.ipynb").cells[0].source)
    if not found:
        raise ValueError(f"chapters/{stem}.ipynb does not open with title, needs, outcomes, time")
    return found.groupdict()


def _chapter(stem: str, beliefs: dict[str, list[dict[str, str]]]) -> str:
    if not beliefs.get(stem):
        raise ValueError(f"{BELIEFS.name} says of chapters/{stem} nothing that students believe")
    about = opening(stem)
    items = [exercises.load(f"c{stem}/{n}") for n in exercises.chapters()[f"c{stem}"]]
    points = sum(item.points for item in items)
    summary = (
        f"<details><summary>{about['title']} · {about['minutes']} minutes, "
        f"{len(items)} exercises, {points} points</summary>"
    )
    needs = " ".join(_linked(about["needs"], stem).split())
    rows = "\n".join(_exercise(item) for item in items)
    return "\n\n".join(
        [
            summary,
            f"[Read the chapter](../chapters/{stem}.ipynb). **Students need** {needs}",
            f"**They will be able to**\n\n{_linked(about['outcomes'], stem)}",
            "**What they may believe, and what cures it**\n\n"
            + "\n".join(belief(stem, each) for each in beliefs[stem]),
            "| exercise | kind and points | marked by |\n|:--|:--|:--|\n" + rows,
            "</details>",
        ]
    )


def belief(stem: str, given: dict[str, str]) -> str:
    """A line of the list. ValueError where the chapter lacks the exhibit or the mistake."""
    exhibit = given["exhibit"]
    if exhibit not in headings(stem):
        raise ValueError(f"{BELIEFS.name}: chapters/{stem} has no heading {exhibit!r}")
    link = f"[{exhibit}](../chapters/{stem}.ipynb#{slug(exhibit)})"
    seen = ""
    if "exercise" in given:
        name = f"c{stem}/{given['exercise']}"
        keys = [key for key in exercises.load(name).wrong if given["mistake"] in key]
        if not keys:
            raise ValueError(f"{BELIEFS.name}: {name} has no mistake {given['mistake']!r}")
        seen = f" `{given['exercise']}` names it: “{keys[0]}”."
    for name in asked(stem, given["believes"]):
        seen += f" The prediction `{name}` asks for it."
    return f"- *{given['believes']}* {given['cure']} See {link}.{seen}"


def asked(stem: str, believes: str) -> list[str]:
    """The chapter's predictions with a wrong answer that betrays this belief, in its words."""
    words = _words(believes)
    found = of_notebook(CHAPTERS / f"{stem}.ipynb")
    return [one.name for one in found if any(words <= _words(w.why) for w in one.wrong)]


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{4,}", text.lower())) - {"that", "since", "which"}


@cache
def headings(stem: str) -> list[str]:
    """The chapter's headings of levels 2 and 3."""
    cells = (c.source for c in read(CHAPTERS / f"{stem}.ipynb").cells if c.cell_type == "markdown")
    return [found for source in cells for found in re.findall(r"^#{2,3} (.*)$", source, re.M)]


def slug(heading: str) -> str:
    """A heading's anchor: `What goes wrong: the average` -> `what-goes-wrong-the-average`."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\- ]", "", heading.lower()).strip())


def _exercise(item: Exercise) -> str:
    own = "; own numbers" if can_be_personal(item) else ""
    about = f"{item.kind} {'★' * item.level}, {item.points}"
    return f"| {item.title} (`{item.name}`) | {about} | {_marked_by(item)}{own} |"


def _marked_by(item: Exercise) -> str:
    if item.is_value:
        n = len(item.solution) if isinstance(item.solution, dict) else 1
        return "one value" if n == 1 else f"{n} parts"
    calls = item.calls(seed=0)
    visible = sum(call.visible for call in calls)
    return f"{len(calls) - visible} hidden tests" + (f", {visible} visible" if visible else "")


def can_be_personal(item: Exercise) -> bool:
    """Whether students may be given numbers of their own in this exercise."""
    if item.is_value or item.judge or item.use:
        return False
    try:
        return bool(personal.own(item, seed=1))
    except ValueError:
        return False


def _linked(text: str, stem: str) -> str:
    """A chapter's Markdown with its links as they are from this page."""

    def target(match: re.Match[str]) -> str:
        here = match.string[match.end()] == "#"
        return f"](../chapters/{stem}.ipynb" if here else "](../chapters/"

    return re.sub(r"\$([^$]+)\$", _in_letters, _LINK.sub(target, text))


def _in_letters(formula: re.Match[str]) -> str:
    text = formula[1]
    for tex, letters in _LETTERS.items():
        text = text.replace(tex, letters)
    if "\\" in text:
        raise ValueError(f"book/tools/generate/guide.py: no plain letters for {formula[0]}")
    return f"*{text}*"
