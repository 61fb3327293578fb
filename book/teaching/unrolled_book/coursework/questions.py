"""The chapters' predictions as questions for a school's own system: Canvas, Moodle, any with QTI.

A week asks what its chapters ask; a chapter that stands in several weeks asks in the first. Key,
tolerance and the sentence behind each wrong answer are those of the stored predictions, which the
chapters compute: nothing is typed here. A system marks choices and numbers, so

- a choice stays one, and a number is right in the span that the book accepts;
- a text that is printed, or cells of a table, becomes a choice among the right answer and the wrong
  ones that the book knows;
- an order, and places in a drawing, are left out: an order's wrong answers are known by two of its
  letters, and the drawing stands in the chapter.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from unrolled_book.coursework.address import PAGES
from unrolled_book.coursework.syllabus import Syllabus
from unrolled_book.predictions import Prediction, by_chapter, ends
from unrolled_book.predictions import number as number_of

LEFT_OUT = ("order", "places")


@dataclass(frozen=True)
class Option:
    """An option of a choice. text, feedback: HTML."""

    name: str  # "a"
    text: str
    right: bool
    feedback: str


@dataclass(frozen=True)
class Span:
    """Numbers from low to high, infinite where one is left open, and what is said of them."""

    words: str  # "1 to 5"
    low: float
    high: float
    feedback: str


@dataclass(frozen=True)
class Question:
    """One question. Texts are HTML that is well-formed XML, formulas in \\(…\\).

    options: of a choice, or none. Of a number, key: what the chapter found; right, wrong: the span
    that counts and the others.
    """

    name: str
    title: str
    text: str
    options: tuple[Option, ...] = ()
    key: float = math.nan
    right: Span | None = None
    wrong: tuple[Span, ...] = ()


@dataclass(frozen=True)
class Quiz:
    """The questions of a week."""

    name: str
    title: str
    questions: tuple[Question, ...]


def of_course(syllabus: Syllabus) -> tuple[list[Quiz], list[str]]:
    """A quiz for each week that has questions, and the names of the predictions left out.

    ValueError for a course none of whose chapters has a prediction.
    """
    quizzes, left_out, asked = [], [], set()
    for week in syllabus.weeks:
        folders = [item.exercise.partition("/")[0] for item in week.items]
        chapters = [folder.removeprefix("c") for folder in dict.fromkeys(folders)]
        found = []
        for chapter in (c for c in chapters if c not in asked):
            asked.add(chapter)
            given = by_chapter().get(chapter, [])
            left_out += [one.name for one in given if one.kind in LEFT_OUT]
            found += [question(one, chapter) for one in given if one.kind not in LEFT_OUT]
        if found:
            quizzes.append(Quiz(week.name, week.title, tuple(found)))
    if not quizzes:
        raise ValueError(
            f"{syllabus.path}: none of its chapters asks for a prediction; expected an exercise "
            "of the book's in some week"
        )
    return quizzes, left_out


def question(one: Prediction, chapter: str) -> Question:
    """The prediction as a question, with a link to its chapter."""
    number = re.sub(r"^0*(\w+?)_.*", r"\1", chapter)
    where = f'<p><a href="{PAGES}/chapters/{chapter}.html">Chapter {number}</a></p>'
    title, text = f"{number}. {one.name}", rendered(one.question)
    if one.kind == "number":
        unit = f", in {rendered(one.unit, inline=True)}" if one.unit else ""
        spans = [Span(w.when, *ends(w.when), rendered(w.why)) for w in one.wrong]
        found = f"**{one.right}{' ' * bool(one.unit)}{one.unit}.** {one.answer}"
        right = Span(one.counts, *ends(one.counts), rendered(found))
        asks = f"<p>Give a number{unit}.</p>"
        text += asks + where
        return Question(one.name, title, text, (), number_of(one.right), right, tuple(spans))
    if one.kind == "cells":
        text += "<p>Rows and columns are counted from 1, without the headings.</p>"
    return Question(one.name, title, text + where, _options(one))


def _options(one: Prediction) -> tuple[Option, ...]:
    if one.kind == "choice":
        texts: Mapping[str, str] = one.options
    else:  # by their texts, so that the right one stands anywhere
        known = sorted({one.right, *(wrong.when.strip("`") for wrong in one.wrong)})
        texts = dict(zip("abcdefgh", known, strict=False))
    found = []
    for letter, text in texts.items():
        given = letter if one.kind == "choice" else text
        right = one.is_right(given)
        shown = f"<code>{html.escape(text)}</code>" if one.kind == "text" else ""
        why = one.answer if right else one.why(given)
        found.append(Option(letter, shown or rendered(text, inline=True), right, rendered(why)))
    return tuple(found)


def listed(spans: Iterable[Span]) -> str:
    """What is said of each span, where a system cannot tell in which one an answer lies."""
    said = ((s.words, s.feedback.removeprefix("<p>").removesuffix("</p>")) for s in spans)
    return f"<ul>{''.join(f'<li><em>{when}:</em> {why}</li>' for when, why in said)}</ul>"


def rendered(text: str, inline: bool = False) -> str:
    """Markdown with formulas as HTML; inline: without a paragraph around it."""
    from markdown_it import MarkdownIt  # not of Colab's course: only whoever builds needs it
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    markdown = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, renderer=_formula)
    found = markdown.renderInline(text) if inline else markdown.render(text)
    return re.sub(r' (style|class)="[^"]*"|</?span[^>]*>', "", found).strip()


def _formula(text: str, options: Mapping[str, bool]) -> str:
    opening, closing = ("\\[", "\\]") if options["display_mode"] else ("\\(", "\\)")
    return opening + html.escape(text, quote=False) + closing
